"""`ab.score` judges what happened as a lab judges what it asks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.checks import read_checks
from agentbook.evaluation.judge import render_message
from agentbook.evaluation.model import READ, Reply, Step, readable
from service.process import Service

CHECKS: dict[str, Any] = {
    "short": ab.checks.length(max=3),
    "polite": "please",
    "number": re.compile(r"\d+"),
    "calm": ab.checks.steps(no_failures=True),
    "says who": lambda reply, question: 0.5 if question in reply else 0.0,
}


def turns(count: int = 6) -> pd.DataFrame:
    """Turns of three sessions, of which the last one failed."""
    at = pd.date_range("2026-10-01", periods=count, freq="h", tz="UTC")
    numbers = range(count)
    frame = pd.DataFrame({"session_id": [f"s{n % 3}" for n in numbers], "turn": [n // 3 + 1 for n in numbers]})
    status = ["answered"] * (count - 1) + ["failed"]
    return frame.assign(
        message_id=[f"m{n}" for n in range(count)], reply_id=[f"r{n}" for n in range(count)], status=status,
        asked_at=at, replied_at=at + pd.Timedelta("2s"), latency_s=2.0,
        prompt=[f"Question {n}" for n in range(count)], agent=["big" if n % 3 else "small" for n in range(count)],
        reply=[f"Please: {n} words here" if n % 2 else f"Question {n}" for n in range(count)],
    )  # fmt: skip


def steps(*rows: tuple[str, int, str, str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["session_id", "turn", "name", "status"])


def test_a_turn_is_judged_as_the_same_reply_in_a_lab() -> None:
    table, ran = turns(), steps(("s1", 1, "sql", "failed"), ("s0", 2, "sql", "done"))
    scores = ab.score(table, CHECKS, steps=ran)
    assert list(scores) == ["session_id", "message_id", "check", "passed", "score", "reason", "judge"]
    assert len(scores) == len(table) * len(CHECKS)
    known = {("s1", 1): [Step("sql", True)], ("s0", 2): [Step("sql")]}
    rows = scores.set_index(["message_id", "check"])
    for turn in table[table["status"] == "answered"].itertuples():
        done = known.get((turn.session_id, turn.turn), [])
        reply = Reply(turn.reply, 2.0, None, turn.prompt, {}, turn.prompt, done)
        for name, check in read_checks(CHECKS).items():
            grade, row = grade_check(check, reply), rows.loc[(turn.message_id, name)]
            assert row["passed"] == grade.passed
            assert (None if pd.isna(row["score"]) else row["score"]) == grade.score
    assert rows.loc["m5", "passed"].isna().all(), "a failed turn has no reply to judge"


def test_templates_take_the_columns_of_a_turn() -> None:
    scores = ab.score(turns().assign(reply="It was big."), {"agent": ab.checks.overlap("{{agent}}", threshold=0.1)})
    expected = [name == "big" for name in turns()["agent"]][:-1]
    assert scores["passed"].tolist()[:-1] == expected


def test_a_history_brings_its_texts_and_steps(client: ab.Client) -> None:
    history = ab.load_history(client, "acme")
    scores = ab.score(history, {"short": ab.checks.length(max=3), "calm": ab.checks.steps(no_failures=True)})
    answered = history.turns["status"].eq("answered").sum()
    assert scores.groupby("check")["passed"].count().to_dict() == {"short": answered, "calm": answered}


def test_a_session_is_judged_by_its_last_reply_and_all_its_steps() -> None:
    table = pd.concat(
        [turns(), turns(1).assign(session_id="alone", status="unanswered", reply=None)], ignore_index=True
    )
    scores = ab.score(table, {"polite": "please", "calm": CHECKS["calm"]}, unit="session",
                      steps=steps(("s0", 1, "sql", "failed")))  # fmt: skip
    assert list(scores) == ["session_id", "check", "passed", "score", "reason", "judge", "turns", "turns_read"]
    rows = scores.set_index(["session_id", "check"])
    # s2: its second turn failed, so its last reply is the first turn's.
    assert scores["turns"].tolist() == [2] * 6 + [1] * 2
    assert [rows.loc[(name, "polite"), "passed"] for name in ("s0", "s1", "s2")] == [True, False, False]
    assert [rows.loc[(name, "calm"), "passed"] for name in ("s0", "s1", "s2")] == [False, True, True]
    assert rows.loc["alone", "passed"].isna().all()
    assert rows.loc["alone", "turns_read"].eq(0).all()
    scored = ab.with_scores(table, scores)
    assert scored.groupby("session_id")["polite"].nunique(dropna=False).eq(1).all()
    a, b = ab.compare_groups(scored[scored["session_id"].isin(["s0", "s1"])], by="session_id", metric="polite",
                             unit="sessions").loc[0, ["a", "b"]]  # fmt: skip
    assert (a, b) == (1.0, 0.0)
    sessions = pd.DataFrame({"id": ["s1", "s0"], "name": ["one", "two"]})
    assert ab.with_scores(sessions, scores)["polite"].tolist() == [False, True]
    with pytest.raises(ValueError, match="sessions"):
        ab.with_scores(sessions, ab.score(table, ["please"]))
    # A conversation of one question that nobody answered, and one of a key alone.
    alone = ab.score(turns(1).assign(status="unanswered", reply=None), {"polite": "please"}, unit="session")
    assert alone[["turns", "turns_read"]].values.tolist() == [[1, 0]]
    assert alone["passed"].isna().all()
    assert ab.with_scores(table[table["session_id"] == "s0"], alone.assign(session_id="s0"))["polite"].isna().all()


@pytest.mark.parametrize("criterion", [ab.checks.GOAL_REACHED, ab.checks.FORGOT, ab.checks.GAVE_UP])
def test_a_criterion_of_conversations_is_refused_for_turns(criterion: str) -> None:
    with pytest.raises(ValueError, match="unit='session'"):
        ab.score(turns(), {"goal": ab.checks.rubric(criterion, "acme~judge")})
    with pytest.raises(ValueError, match="unit='turn' or unit='session'"):
        ab.score(turns(), ["please"], unit="sessions")


def test_a_long_conversation_is_judged_by_its_ends_and_its_failures() -> None:
    said = [Reply(f"{n} " * 5000, prompt=f"Question {n}", failed=n == 9) for n in range(20)]
    read = readable(said)
    assert len(read) < 20
    assert {"Question 0", "Question 9", "Question 19"} <= {turn.prompt for turn in read}
    assert readable(said[:2]) == said[:2]
    [one] = readable([Reply("x" * 1_000_000, prompt="Hi")])
    assert len(one.text) == READ
    for prompt in (None, "{{ output }}"):  # a lab's judge is shown the same
        message = render_message("It is solved.", replace(said[-1], turns=said), prompt)
        assert [n for n in range(20) if f"Question {n}\n" in message] == [int(turn.prompt[9:]) for turn in read]


def test_scores_are_columns_of_the_turns() -> None:
    table = turns()
    scores = ab.score(table, {"short": ab.checks.length(max=3), "polite": "please"})
    scored = ab.with_scores(table.iloc[::-1], scores)
    assert scored.index.tolist() == table.index.tolist()[::-1]
    found = scored.sort_index()
    assert found["polite"].tolist()[:-1] == [False, True, False, True, False]
    assert found["short"].tolist()[:-1] == [True, False, True, False, True]
    assert found["passed"].tolist()[:-1] == [False] * 5
    assert found.loc[5, ["short", "polite", "passed"]].isna().all()
    assert len(ab.latency(scored, by="polite")) == 2


def test_what_failed_one_check_did_not_pass_whatever_is_unknown() -> None:
    scores = ab.score(turns(), {"polite": "please", "cost": ab.checks.cost(1.0)})
    assert ab.with_scores(turns(), scores)["passed"].astype(object).fillna("?").tolist() == [
        False,
        "?",
        False,
        "?",
        False,
        "?",
    ]


def test_a_turn_that_was_judged_twice_has_its_last_grade() -> None:
    first, second = (ab.score(turns(), {"polite": text}) for text in ("please", "question"))
    polite = ab.with_scores(turns(), pd.concat([first, second]))["polite"]
    assert polite.tolist()[:-1] == [True, False, True, False, True]


def test_a_check_that_is_called_like_a_column_is_refused() -> None:
    for name in ("status", "passed"):
        with pytest.raises(ValueError, match=name):
            ab.with_scores(turns(), ab.score(turns(), {name: "please"}))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_sample_is_of_answered_turns_and_the_same_for_a_seed(size: int) -> None:
    table = turns(60)
    first, again = (ab.score(table, ["please"], sample=size, by="agent", seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert len(first) == min(size, 59)
    assert first["passed"].notna().all()
    agents = table.set_index("message_id")["agent"].loc[first["message_id"]].value_counts()
    if size > 1:
        assert set(agents.index) == {"big", "small"}
    assert agents["big"] <= 2 * agents.get("small", 1) + 2


@pytest.mark.parametrize("seed", range(5))
def test_each_value_keeps_its_share_in_a_sample(seed: int) -> None:
    table = turns(121).assign(agent=["rare"] * 2 + ["small"] * 39 + ["big"] * 80)  # the last turn failed
    drawn = ab.score(table, ["please"], sample=12, by="agent", seed=seed)["message_id"]
    counts = table.set_index("message_id")["agent"].loc[drawn].value_counts()
    assert counts["rare"] == 1
    assert counts["small"] in (3, 4)
    assert counts["big"] in (7, 8)


def test_a_share_is_compared_as_that_of_failures_is() -> None:
    table = turns(400).assign(status=lambda frame: ["failed" if n % 7 > n // 100 else "answered" for n in frame.index])
    scored = table.assign(broken=(table["status"] == "failed").astype("boolean"))
    compared = ab.compare_periods(scored, metric=["failed_share", "broken"], period="8D", unit="turns").set_index(
        "metric"
    )
    pd.testing.assert_series_equal(compared.loc["broken"], compared.loc["failed_share"], check_names=False)
    scored.loc[:100, "broken"] = pd.NA
    assert ab.compare_periods(scored, metric="broken", period="20D")["n"].item() == 299


@pytest.mark.parametrize(
    ("data", "checks", "options", "text"),
    [
        (turns().drop(columns="reply"), ["a"], {}, "texts=True"),
        (turns(), [], {}, "needs a check"),
        (turns(), ["a"], {"sample": 0}, "sample"),
        (turns(), ["a"], {"sample": 3, "by": "nosuch"}, "nosuch"),
        (turns(), ["a"], {"by": "agent"}, "sample="),
        (turns(), [ab.checks.rubric("It is polite.", "judge")], {}, "client="),
    ],
)
def test_bad_input_says_what_to_do(data: Any, checks: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ab.score(data, checks, **options)


def test_an_empty_account_has_no_scores() -> None:
    with pytest.warns(ab.errors.EmptyWarning):
        scores = ab.score(turns().iloc[:0], CHECKS)
    assert scores.empty
    assert scores["passed"].dtype == "boolean"
    with pytest.warns(ab.errors.EmptyWarning):
        assert list(ab.with_scores(turns().iloc[:0], scores))[-1] == "passed"


# Judges


SCOPES = ("workspaces:write", "sessions:write", "agents:read")
# The agent `echo` as a judge: it says what the prompt says.
VERDICT = '{"pass": {{verdict}}, "score": 1, "reason": "{{ output }}"}'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("score"), "--seed", "7", "--speed", "0") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[ab.Client]:
    with ab.Client(service.base_url, credentials=ab.ApiKey(service.key(*SCOPES))) as client:
        yield client


def sessions(client: ab.Client) -> int:
    return len(client.sessions.list("acme~playground").to_pandas())


def test_a_judge_is_asked_once_for_each_reply(client: ab.Client, tmp_path: Path) -> None:
    rubric = {"polite": ab.checks.rubric("It is polite.", "echo", prompt=VERDICT)}
    options: dict[str, Any] = {"client": client, "workspace": "acme~playground", "record": tmp_path / "judged.jsonl"}
    before = sessions(client)
    table = turns().assign(verdict=lambda frame: ["Please" in str(reply) for reply in frame["reply"]])
    scores = ab.score(table, rubric, sample=3, **options)
    replies = turns().set_index("message_id")["reply"].loc[scores["message_id"]]
    assert scores["passed"].tolist() == ["Please" in reply for reply in replies]
    assert scores["judge"].str.startswith("echo").all()
    assert sessions(client) == before + 3
    with (tmp_path / "judged.jsonl").open("a") as file:
        file.write('{"judgement": "cut o')  # a run that was killed
    for _ in range(2):
        everything = ab.score(table, rubric, **options)
        assert everything["passed"].notna().sum() == 5
        assert sessions(client) == before + 5


def test_a_judge_of_a_turn_reads_the_turns_before_it(client: ab.Client, tmp_path: Path) -> None:
    options: dict[str, Any] = {"client": client, "workspace": "acme~playground", "record": tmp_path / "judged.jsonl"}
    second = turns().query("message_id == 'm4'")
    rubric = {"polite": ab.checks.rubric("It answers the question.", "echo")}
    for table, asked in ((turns(), ["Question 1", "Please: 1 words here", "Question 4"]), (second, ["Question 4"])):
        ab.score(table, rubric, sample=None, **options)
        said = [json.loads(line)["text"] for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
        (message,) = [each for each in said if "<question>\nQuestion 4\n" in each]
        assert re.findall(r"(Question \d|Please.*)$", message, re.M)[: len(asked)] == asked
        (tmp_path / "judged.jsonl").unlink()


def test_a_judge_without_a_verdict_leaves_a_long_session_undecided(client: ab.Client) -> None:
    said = turns(3).assign(session_id="long", turn=[1, 2, 3], status="answered", reply="word " * 10_000)
    rubric = {"goal": ab.checks.rubric(ab.checks.GOAL_REACHED, "echo", prompt="Undecided. {{ output }}")}
    [row] = ab.score(said, rubric, unit="session", client=client, workspace="acme~playground").to_dict("records")
    assert pd.isna([row["passed"], row["score"]]).all()
    assert row["reason"]
    assert (row["turns"], row["turns_read"]) == (3, 1)


def test_an_agent_of_the_platform_names_topics(client: ab.Client) -> None:
    asked = ["where is my parcel, please", 'unlock my account ["Parcels", "Accounts"]']
    table = turns(20).assign(session_id=[f"s{n:02}" for n in range(20)], prompt=asked * 10)
    found = ab.topics(table, k=2, names="echo", client=client, workspace="acme~playground")
    assert set(found.frame["topic"]) == {"Parcels", "Accounts"}, "the echo of a question is a list of names"


def test_no_judge_is_asked_beyond_a_cost(client: ab.Client) -> None:
    rubric = {"polite": ab.checks.rubric("It is polite.", "echo", prompt=VERDICT)}
    with pytest.raises(ValueError, match="prices="):
        ab.score(turns(), rubric, client=client, workspace="acme~playground", max_cost=1.0)


def test_a_file_that_is_no_record_is_left_as_it_is(client: ab.Client, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    rubric = [ab.checks.rubric("It is polite.", "echo", prompt=VERDICT)]
    with pytest.raises(ValueError, match="no record"):
        ab.score(turns(), rubric, client=client, workspace="acme~playground", record=path)
    assert path.read_text() == "my notes\n"
