"""Labels: files that lose nothing, frames that join, and agreement beyond chance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.labels import COLUMNS, file_name, write

# Krippendorff, 2011, "Computing Krippendorff's alpha-reliability", section C: four
# observers, twelve units, nominal alpha 0.743.
PUBLISHED = {
    "A": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    "B": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    "C": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    "D": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
}


def rated(ratings: dict[str, list[Any]], question: str = "kind", per_session: int = 1) -> pd.DataFrame:
    """Labels of the turns m0, m1, ...: the values by rater, None without one."""
    rows = [
        {"session_id": f"s{n // per_session}", "message_id": f"m{n}", "rater": rater, "value": str(value)}
        for rater, values in ratings.items()
        for n, value in enumerate(values)
        if value is not None
    ]
    return pd.DataFrame(rows).assign(question=question)


def turns(count: int = 4) -> pd.DataFrame:
    """Turns of sessions of two."""
    numbers = range(count)
    frame = pd.DataFrame({"session_id": [f"s{n // 2}" for n in numbers], "turn": [n % 2 + 1 for n in numbers]})
    at = pd.date_range("2026-10-01", periods=count, freq="h", tz="UTC")
    return frame.assign(
        message_id=[f"m{n}" for n in numbers], reply_id=[f"r{n}" for n in numbers], asked_at=at,
        replied_at=at + pd.Timedelta("2s"), status="answered", latency_s=2.0,
    )  # fmt: skip


def test_alpha_is_the_published_one() -> None:
    found = ab.agreement(rated(PUBLISHED))
    assert found["alpha"].round(3).tolist() == [0.743]
    assert found[["items", "raters"]].values.tolist() == [[11, 4]]


@pytest.mark.parametrize("unit", ["turns", "sessions"])
def test_alpha_is_that_of_the_package_of_others(unit: str) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    for seed in range(30):
        random = np.random.default_rng(seed)
        shape = random.integers(2, 6), random.integers(8, 30)
        values = random.integers(0, random.integers(2, 5), shape).astype(float)
        values[random.random(shape) < 0.3] = np.nan
        ratings = {f"r{n}": [None if np.isnan(v) else int(v) for v in row] for n, row in enumerate(values)}
        expected = krippendorff.alpha(values, level_of_measurement="nominal")
        labels = rated(ratings)
        labels = labels.assign(message_id=None) if unit == "sessions" else labels
        assert ab.agreement(labels)["alpha"][0] == pytest.approx(expected)


def test_the_interval_holds_the_true_alpha_and_knows_that_turns_of_a_session_are_alike() -> None:
    """The turns of a session are four that go alike: as single turns they mislead."""

    def draw(seed: int, sessions: int) -> pd.DataFrame:
        random = np.random.default_rng(seed)
        truth = np.repeat(random.random(sessions) < 0.5, 4)
        differs = np.repeat(random.random(sessions) < 0.2, 4)
        return rated({"ada": list(truth), "tim": list(truth ^ differs)}, per_session=4)

    intervals = [ab.agreement(draw(seed, 40)).iloc[0] for seed in range(40)]
    held = sum(row["low"] <= 1 - 0.2 / 0.5 <= row["high"] for row in intervals)
    assert held >= 34, "less than 85 % of intervals of 95 % hold what is true"
    assert np.mean([row["high"] - row["low"] for row in intervals]) > 0.4, "160 turns are 40 sessions"
    # Labels of 160 sessions, whose people started four each, are alike.
    labels = draw(0, 40)
    labels = labels.assign(person=labels["session_id"], session_id=labels["message_id"], message_id=None)
    sessions = labels[["session_id"]].assign(initiator_type="user", initiator_id=labels["person"], created_at=None)
    people = ab.agreement(labels.drop(columns="person"), sessions).iloc[0]
    columns = ["alpha", "low", "high"]
    assert people[columns].tolist() == intervals[0][columns].tolist()
    narrow = ab.agreement(labels.drop(columns="person")).iloc[0]
    assert narrow["high"] - narrow["low"] < 0.7 * (people["high"] - people["low"])


def test_an_interval_claims_no_certainty() -> None:
    alike = ab.agreement(rated({"ada": list("yn") * 10, "tim": list("yn") * 10})).iloc[0]
    assert (alike["alpha"], alike["high"]) == (1, 1)
    assert 0.5 < alike["low"] < 0.9, "20 turns without a difference are not proof"
    few = ab.agreement(rated({"ada": list("yny"), "tim": list("yyy")})).iloc[0]
    assert few[["low", "high"]].isna().all()
    same = ab.agreement(rated({"ada": list("y" * 8), "tim": list("y" * 8)})).iloc[0]
    assert np.isnan(same["alpha"]), "with one answer nothing could differ"


@pytest.mark.parametrize(
    "ratings", [{"ada": ["yes", "no", None], "tim": [None, None, "yes"]}, {"ada": ["yes", "no"], "tim": ["yes", None]}]
)
def test_raters_without_turns_in_common_are_told_so(ratings: dict[str, list[Any]]) -> None:
    with pytest.raises(ValueError, match=r"ada, tim.*double=0\.2"):
        ab.agreement(rated(ratings))


def test_texts_are_no_part_of_agreement() -> None:
    notes = rated({"ada": list("abcd"), "tim": list("efgh")}, "note").assign(kind="text")
    labels = pd.concat([rated({"ada": list("yynn"), "tim": list("yynn")}), notes])
    found = ab.agreement(labels)
    assert (found["question"].tolist(), found["disputed"].to_list()) == (["kind"], [[]])


def test_the_most_disputed_come_first() -> None:
    found = ab.agreement(rated({"ada": ["a", "b", "c"], "tim": ["a", "b", "d"], "zoe": ["a", "c", "e"]}))
    assert found["disputed"].to_list() == [["m2", "m1"]]


# Columns


def test_labels_are_columns_of_the_turns() -> None:
    labels = pd.concat(
        [
            rated({"ada": ["yes", "no", "yes"], "tim": ["yes", "yes"], "zoe": ["yes", "yes"]}, "solved"),
            rated({"ada": ["wrong", None, "unclear"], "tim": ["refused"]}, "kind"),
            rated({"ada": ["too long"]}, "note").assign(kind="text", at=pd.Timestamp("2026-01-01", tz="UTC")),
            rated({"tim": ["fine"]}, "note").assign(kind="text", at=pd.Timestamp("2026-02-01", tz="UTC")),
        ]
    )
    labelled = ab.with_labels(turns().iloc[::-1], labels).sort_index()
    assert labelled["solved"].astype(object).fillna("?").tolist() == [True, True, True, "?"]
    assert labelled["solved"].dtype == "boolean"
    assert labelled["kind"].fillna("?").tolist() == ["?", "?", "unclear", "?"], "the raters of m0 are divided"
    assert labelled["note"].fillna("?").tolist() == ["fine", "?", "?", "?"]
    assert ab.with_labels(turns(), labels, rater="ada")["solved"].astype(object).fillna("?").tolist() == [
        True, False, True, "?"
    ]  # fmt: skip
    assert len(ab.latency(labelled, by="solved")) == 2


def test_the_label_of_a_session_counts_for_its_turns_and_a_turn_has_its_own() -> None:
    labels = pd.DataFrame(
        {
            "session_id": ["s0", "s0"],
            "message_id": [None, "m1"],
            "value": [True, False],
            "rater": "ada",
            "question": "ok",
        }
    )
    assert ab.with_labels(turns(), labels)["ok"].astype(object).fillna("?").tolist() == [True, False, "?", "?"]
    sessions = pd.DataFrame({"id": ["s1", "s0"], "name": ["one", "two"]})
    assert ab.with_labels(sessions, labels)["ok"].astype(object).fillna("?").tolist() == ["?", True]


def test_labels_that_do_not_fit_are_refused() -> None:
    labels = rated({"ada": ["yes"]}, "solved")
    with pytest.raises(ValueError, match="'status'"):
        ab.with_labels(turns(), labels.assign(question="status"))
    with pytest.raises(ValueError, match="ada"):
        ab.with_labels(turns(), labels, rater="nobody")
    with pytest.raises(ValueError, match="labelled"):
        ab.with_labels(turns(), labels.assign(message_id="other", session_id="other"))
    with pytest.raises(ValueError, match="value"):
        ab.with_labels(turns(), labels.drop(columns="value"))
    with pytest.raises(ValueError, match="message_id"):
        ab.agreement(labels.drop(columns=["message_id", "session_id"]))


# Files


def test_labels_survive_csv_and_telemetry(tmp_path: Path) -> None:
    labels = pd.concat(
        [
            rated({"Ada L.": ["yes", "no"], "ada l.": ["yes"]}, "solved"),
            rated({"tim": ["wrong"]}),
            rated({"tim": ['"quoted", ünï\n½ line']}, "note").assign(kind="text"),
        ]
    ).assign(source="person", at=pd.Timestamp("2026-10-01 12:00:00.123456", tz="UTC"))
    files = ab.save_labels(labels, tmp_path / "new" / "labels")
    assert len({file.name.lower() for file in files}) == 3
    found = ab.read_labels(tmp_path / "new" / "labels")
    assert found.dtypes.astype(str).to_dict() == COLUMNS
    assert found["kind"].tolist() == ["bool"] * 2 + ["bool", "choice", "text"]
    order = ["message_id", "question", "rater"]
    expected = labels.sort_values(order, ignore_index=True)[[*order, "value", "at"]]
    pd.testing.assert_frame_equal(
        found.sort_values(order, ignore_index=True)[[*order, "value", "at"]], expected, check_dtype=False
    )
    assert ab.save_labels(found, tmp_path / "new" / "labels") == [], "what is there is not added again"
    ab.export(found, tmp_path / "labels.csv")
    pd.testing.assert_frame_equal(ab.read_labels(tmp_path / "labels.csv"), found)
    for line in files[0].read_text().splitlines():
        logs = json.loads(line)["resourceLogs"][0]["scopeLogs"][0]
        assert logs["schemaUrl"].endswith("/gen-ai/0.1.0")
        assert logs["logRecords"][0]["eventName"] == "gen_ai.evaluation.result"


@pytest.mark.parametrize(
    ("name", "separator", "encoding"),
    [("a.csv", ";", "utf-8-sig"), ("a.csv", ",", "utf-8"), ("a.csv", "\t", "utf-16"), ("a.txt", "\t", "utf-16")],
)
def test_labels_that_excel_saved_are_read(tmp_path: Path, name: str, separator: str, encoding: str) -> None:
    lines = ["session_id,question,value,rater", "s1,right,yes,Jörg", "s2,right,no,Jörg"]
    (tmp_path / name).write_bytes("\r\n".join(lines).replace(",", separator).encode(encoding))
    labels = ab.read_labels(tmp_path / name)
    assert labels[["session_id", "value", "rater"]].values.tolist() == [["s1", "yes", "Jörg"], ["s2", "no", "Jörg"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("session_id,question,value\ns1,right,schön".encode("cp1252"), "a.csv is not in UTF-8"),
        (b"session_id,question,value,at\ns1,right,yes,02.11.2026 10:00", "a.csv: at .*02.11.2026"),
    ],
)
def test_labels_that_cannot_be_read_for_sure_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        ab.read_labels(tmp_path / "a.csv")


def test_events_of_others_are_read(tmp_path: Path) -> None:
    def event(**attributes: Any) -> dict[str, Any]:
        return {
            "event_name": "gen_ai.evaluation.result",
            "attributes": {f"gen_ai.{k}": v for k, v in attributes.items()},
        }

    one = event(**{"evaluation.name": "Relevance", "evaluation.score.value": 4.0, "response.id": "m1"})
    two = event(**{"evaluation.name": "Correct \ud83d", "evaluation.score.label": "pass", "conversation.id": "s1"})
    (tmp_path / "judge.jsonl").write_text(f"{json.dumps(one)}\n{json.dumps({'records': [two, {'name': 'other'}]})}\n")
    found = ab.read_labels(tmp_path / "judge.jsonl")
    assert found[["question", "value", "kind", "rater", "source"]].values.tolist() == [
        ["Relevance", "4", "choice", "judge", "import"],
        ["Correct ?", "pass", "choice", "judge", "import"],
    ]


def test_the_newest_of_a_rater_counts_and_can_be_taken_back(tmp_path: Path) -> None:
    for day, value in enumerate(["yes", "no", None, "no"], 1):
        at = pd.Timestamp(f"2026-10-0{day}", tz="UTC")
        ab.save_labels(rated({"tim": ["yes"]}, "solved"), tmp_path)
        file = tmp_path / file_name("ada")
        row = rated({"ada": ["?"]}, "solved").assign(value=[value], at=at, kind="bool", source="person")
        write(file, row.to_dict("records"))
        mine = ab.read_labels(tmp_path).query("rater == 'ada'")
        assert mine["value"].tolist() == ([] if value is None else [value])
    # The copy that a shared folder makes of a file that two machines changed.
    (tmp_path / "ada (conflicted copy).jsonl").write_text(file.read_text())
    assert len(ab.read_labels(tmp_path)) == 2


def test_half_a_line_loses_no_other(tmp_path: Path) -> None:
    [file] = ab.save_labels(rated({"ada": ["yes", "no", "yes"]}, "solved"), tmp_path)
    whole = file.read_bytes()
    for cut in (1, 40, whole.rindex(b"\n", 0, -1) + 1 - len(whole) or -1):
        file.write_bytes(whole[: len(whole) - abs(cut)])
        before = len(ab.read_labels(tmp_path))
        assert before >= 2
        ab.save_labels(rated({"ada": [None, None, None, "yes"]}, "solved"), tmp_path)
        assert len(ab.read_labels(tmp_path)) == before + 1


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    labels = rated({"ada": ["yes"]}, "solved")
    (tmp_path / "file").write_text("nothing here\nnor here\n")
    for folder in (tmp_path / "file", tmp_path / "file" / "labels"):
        with pytest.raises(OSError, match=str(folder)):
            ab.save_labels(labels, folder)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ab.read_labels(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"file.*gen_ai\.evaluation\.result"):
        ab.read_labels(tmp_path / "file")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match=r"empty\.csv"):
        ab.read_labels(tmp_path / "empty.csv")
    with pytest.raises(ValueError, match="s3://bucket"):
        ab.save_labels(labels, "s3://bucket/labels")


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from agentbook import _files

lines, file = Path(sys.argv[1]).read_bytes().splitlines(keepends=True), Path(sys.argv[2])
system_write, random, written = os.write, random.Random(7), 0
for _ in range(100):
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write = lambda fd, data: system_write(fd, data[:5])  # so that kills cut lines
        for line in lines[written:]:
            _files.append(file, line)
            system_write(writes, b".")  # it was promised
        os._exit(0)
    os.close(writes)
    written += len(os.read(reads, 1))
    time.sleep(random.random() / 200)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    written += sum(len(part) for part in iter(lambda: os.read(reads, 65536), b""))
    os.close(reads)
print(written)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_two_raters_in_one_folder_lose_nothing_in_200_kills(tmp_path: Path) -> None:
    folder, processes = tmp_path / "labels", []
    folder.mkdir()
    for rater in ("ada", "tim"):
        [lines] = ab.save_labels(rated({rater: ["yes"] * 3000}, "solved"), tmp_path / "lines")
        command = [sys.executable, "-c", KILLED, str(lines), str(folder / lines.name)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    written = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert min(written) >= 100
    found = ab.read_labels(folder)
    for rater, count in zip(("ada", "tim"), written, strict=True):
        assert {f"m{n}" for n in range(count)} <= set(found.loc[found["rater"] == rater, "message_id"])
    assert found.attrs["agentbook"]["unreadable"] > 0, "no kill cut a line, so this shows nothing"


def test_the_labels_of_a_store_are_a_table(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    store = ab.Store(tmp_path / "store")
    sql = "SELECT rater, count(*) AS n FROM labels GROUP BY rater ORDER BY rater"
    with pytest.warns(ab.errors.EmptyWarning):
        assert store.query(sql).empty
    ab.save_labels(rated({"ada": ["yes", "no"], "tim": ["yes"]}, "solved"), store)
    with pytest.warns(ab.errors.EmptyWarning):
        found = store.query(sql)
    assert found.values.tolist() == [["ada", 2], ["tim", 1]]
    assert len(ab.read_labels(store)) == 3
