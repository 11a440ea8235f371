"""Runs on disk: kept, reopened, compared, and continued after a killed kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.runs import Recorder, directory

from .lab_platform import LabPlatform, make_lab


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


def test_a_run_that_was_killed_is_continued(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.add_variant("kind", "Be kind.")
    with monkeypatch.context() as killed:
        killed.setattr(Recorder, "end", lambda self, **facts: self.close())
        lab.run(["one", "two"], progress=False)
    again = make_lab(platform)
    again.add_variant("kind", "Be kind.")
    with pytest.warns(UserWarning, match="was stopped: 2 of its questions are not asked again"):
        frame = again.run(["one", "two", "three"], checks=["kind"], progress=False)
    assert frame["status"].tolist() == ["answered"] * 3
    assert frame["passed"].all()
    assert sorted(platform.questions()) == ["one", "three", "two"]
    assert len(again.runs()) == 1, "the run goes on in its file"
    edited = make_lab(platform)
    edited.add_variant("kind", "Be kinder.")
    edited.run(["one"], progress=False)
    assert len(platform.questions()) == 4


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
    for _ in range(3):
        lab = make(platform, ["one"])
    assert len(lab.runs()) == 2
