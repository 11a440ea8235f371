"""Runs on disk: what was written stays, whatever happens; kept, reopened, compared."""

from __future__ import annotations

import errno
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation import runs
from agentbook.evaluation.experiment import Answer, Experiment
from agentbook.evaluation.file import lab_data
from agentbook.evaluation.runs import Recorder, SavedRun, directory
from agentbook.evaluation.variant import Variant
from chat.prompt_lab.lab_platform import LabPlatform, make_lab


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AGENTBOOK_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def facts() -> dict[str, Any]:
    experiment = Experiment()
    experiment.add_variant(Variant("now"))
    experiment.inputs = ["one", "two"]
    return {"agent": "acme~writer", "workspace": "acme~lab", "base_url": None, "lab": lab_data(experiment)}


def answer(text: str, reply: str = "Hello.", **more: Any) -> Answer:
    return Answer("now", text, status="answered", reply=reply, session_id="s1", **more)


def replies(run: SavedRun) -> dict[str, str | None]:
    return {each.input: each.reply for each in run.answers}


def test_a_full_disk_costs_the_line_that_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(facts())
    recorder.record(answer("one"))
    write = os.write

    def fill(fd: int, data: bytes) -> int:
        if b'"two"' not in data:
            return write(fd, data)
        write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", fill)
        recorder.record(answer("two"))
    recorder.record(answer("three"))
    recorder.end()
    assert "No space" in str(recorder.error)
    assert replies(runs.read(recorder.path)) == {"one": "Hello.", "three": "Hello."}
    assert runs.unfinished({}) is None


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_a_run_that_was_killed_goes_on_after_what_it_wrote(size: int) -> None:
    killed = Recorder(facts())
    killed.record(answer("one"))
    killed.close()
    line = json.dumps({"answer": answer("two").as_data()})
    with open(killed.path, "a") as file:
        file.write(line[:size])
    earlier = runs.unfinished({})
    assert earlier is not None
    assert replies(earlier) == {"one": "Hello."}
    recorder = Recorder(facts(), earlier)
    recorder.record(answer("two", "Bye."))
    recorder.end()
    assert recorder.path == killed.path
    [run] = runs.saved()
    assert replies(run) == {"one": "Hello.", "two": "Bye."}


def test_a_question_that_was_open_when_a_run_was_killed_may_still_be_answered() -> None:
    killed = Recorder(facts())
    killed.record(answer("one"))
    killed.record(Answer("now", "two", status="asking", session_id="s2"))
    killed.close()
    [run] = runs.saved()
    assert [(each.reply, each.status, each.still_open) for each in run.answers] == [
        ("Hello.", "answered", False),
        (None, "stopped", True),
    ]
    assert runs.table([run])["answered"].tolist() == [1]


@pytest.mark.parametrize("wrong", [{"reply": 5}, {"latency_s": "1"}, {"finish_reason": 5}, {"reason": [1]}])
def test_a_run_with_an_answer_of_another_type_is_damaged(wrong: dict[str, Any], tmp_path: Path) -> None:
    facts = {"format": runs.FORMAT, "version": runs.VERSION, "started_at": "2026-01-01T00:00:00+00:00"}
    facts |= {"agent": "a", "lab": {}}
    answer = Answer("brief", "Hi", status="answered", reply="Hello.", latency_s=1.0).as_data()
    path = tmp_path / "run.jsonl"
    path.write_text(f"{json.dumps(facts)}\n{json.dumps({'answer': answer})}\n")
    assert runs.read(path).answers[0].reply == "Hello."
    path.write_text(f"{json.dumps(facts)}\n{json.dumps({'answer': answer | wrong})}\n")
    with pytest.raises(ValueError, match=r"run\.jsonl is damaged"):
        runs.read(path)


def test_a_run_that_goes_on_is_nobodys_to_continue() -> None:
    Recorder(facts()).close()
    again = Recorder(facts(), runs.unfinished({}))
    assert runs.unfinished({}) is None
    again.close()
    continued = runs.unfinished({})
    assert continued is not None
    assert continued.path == again.path


def test_a_run_is_continued_where_it_was_begun_and_within_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    Recorder(facts()).close()
    same = {name: facts()[name] for name in ("agent", "workspace", "base_url")}
    assert runs.unfinished(same) is not None
    for name in same:
        assert runs.unfinished({**same, name: "another"}) is None
    monkeypatch.setattr(runs, "CONTINUED_WITHIN", timedelta(0))
    assert runs.unfinished(same) is None


def test_runs_are_kept_reopened_and_compared(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(
        "Say {{word}}.", rows=[{"word": "yes"}, {"word": "no"}], checks={"yes": "yes", "kind": "kind"}, progress=False
    )
    assert lab.regressions is None
    lab.run(progress=False)
    assert len(lab.runs()) == 1, "nothing was asked"
    again = make_lab(platform)
    again.add_variant("kind", "Say yes. Be rude.")
    again.run(
        "Say {{word}}.", rows=[{"word": "yes"}, {"word": "no"}], checks={"yes": "yes", "kind": "rude"}, progress=False
    )
    runs = again.runs()
    assert runs[["variants", "inputs", "answered", "failed"]].to_numpy().tolist() == [["kind", 2, 2, 0]] * 2
    changes = again.compare().set_index("input")
    assert changes["change"].to_dict() == {"Say no.": "fixed", "Say yes.": "unchanged"}
    assert changes["edited"].all()
    back = again.compare(runs["run"][0], runs["run"][1])
    assert back["change"].tolist() == ["broken", "unchanged"]
    assert back.loc[0, ["input", "checks"]].tolist() == ["Say no.", "yes"]
    reopened = again.open_run(runs["run"][1])
    assert reopened.results["reply"].tolist() == lab.results["reply"].tolist()
    assert reopened.results["word"].tolist() == ["yes", "no"]
    assert Path(runs["path"][0]).stat().st_mode & 0o077 == 0


def test_what_a_run_broke_is_at_hand(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run(["one", "two"], checks=["fine"], progress=False)
    platform.reply = lambda settings, text: f"fine: {text}"
    make(platform, ["one", "two"])
    platform.reply = lambda settings, text: "bad" if text == "two" else f"fine: {text}"
    last = make(platform, ["one", "two"])
    assert last.regressions is not None
    assert last.regressions["input"].tolist() == ["two"]


def make(platform: LabPlatform, inputs: list[str]) -> PromptLab:
    lab = make_lab(platform)
    lab.add_variant("now")
    lab.run(inputs, checks=["fine"], progress=False)
    return lab


def test_a_damaged_file_is_named_and_skipped(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run(["one"], progress=False)
    folder = directory()
    (folder / "20990101T000000-x.jsonl").write_bytes(b"not a run")
    (folder / "20990101T000001-y.jsonl").write_text("{}")
    with pytest.warns(UserWarning, match="A run was skipped: .*20990101.* is damaged"):
        assert len(lab.runs()) == 1
    with pytest.raises(ValueError, match="There is no run 'z'"):
        lab.open_run("z")


def test_old_runs_are_removed(platform: LabPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.runs.MAX_RUNS", 2)
    folder = directory()
    folder.mkdir(parents=True)
    others = [folder / name for name in ("20200101T000000-export.jsonl", "customers.jsonl")]
    for path in others:
        path.write_text('["mine"]\n')
    for _ in range(3):
        make(platform, ["one"])
    assert all(path.exists() for path in others)
    assert len(list(folder.glob("*.jsonl"))) == 2 + len(others)
