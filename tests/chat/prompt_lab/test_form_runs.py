"""The earlier runs in the form of the lab: listed, compared and opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.chat.prompt_lab import runs
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import add, hidden, replies, run, until, words
from .lab_platform import LabPlatform, make_lab


def edit(lab: PromptLab, prompt: str) -> None:
    lab.edit_variant("kind", system_prompt=prompt)


def test_without_a_run_there_is_no_list(view: LabView) -> None:
    add(view, "kind", "Be kind.")
    assert hidden(view.runs.widget)


def test_two_runs_are_compared_and_what_broke_stands_first(
    platform: LabPlatform, lab: PromptLab, view: LabView
) -> None:
    platform.reply = lambda settings, text: f"{text}: {'yes' if text in settings.get('system_prompt', '') else 'no'}"
    add(view, "kind", "one two")
    view.run.checks.value = "yes"
    run(view, "one\ntwo\nthree", "3 of 3 answered")
    until(lambda: not hidden(view.runs.widget) and "2 of 3 passed" in view.runs.run.widget.label)
    assert view.runs.changes.value == ""
    assert view.results.regressions.value == ""
    edit(lab, "two three")
    run(view, "one\ntwo\nthree", "3 of 3 answered")
    until(lambda: "1 broken, 1 fixed, 1 unchanged." in words(view.runs.changes))
    assert words(view.runs.changes).index("broken kind edited one") < words(view.runs.changes).index(
        "fixed kind edited"
    )
    assert "100% → 0%" in words(view.runs.changes)
    until(lambda: "1 reply that passed before does not pass now" in words(view.results.regressions))
    assert view.results.widget.children[0].children[1] is view.results.regressions, "above the summary"
    table = view.results.table._view
    until(lambda: table.snapshot()["rows"][0]["input"] == "one")  # what broke stands first
    until(lambda: table.snapshot()["rows"][0]["cells"][0][0]["before"] is True)
    # The other way round, chosen by a person.
    view.runs.run.value, view.runs.before.value = view.runs.before.value, view.runs.run.value
    until(lambda: "broken kind edited three" in words(view.runs.changes))


def test_a_run_without_an_answer_says_nothing_of_passing(platform: LabPlatform, view: LabView) -> None:
    platform.reply = lambda settings, text: RuntimeError("no")
    add(view, "kind", "Be kind.")
    view.run.checks.value = "kind"
    run(view, "one", "0 of 1 answered, 1 failed")
    until(lambda: "1 input" in view.runs.run.widget.label)
    assert "passed" not in view.runs.run.widget.label


def test_a_run_is_opened(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.run.checks.value = "kind"
    run(view, "one\ntwo", "2 of 2 answered")
    another = LabView(make_lab(platform))
    try:
        until(lambda: not hidden(another.runs.widget))
        another.run.inputs.value = "typed"
        another.runs.open.click()  # nothing would be lost, so nothing is asked
        until(lambda: "Opened the run of" in words(another.form.status["runs"]))
        until(lambda: "Be kind.: two" in replies(another))
        assert (another.run.inputs.value, another.run.checks.value) == ("one\ntwo", "kind")
        run(another, "one\ntwo", "2 of 2 answered")
        assert platform.questions() == ["one", "two"], "no question is asked again"
        another.runs.open.click()
        until(lambda: not hidden(another.runs.opening.widget))
    finally:
        another.close()


def test_a_run_that_is_gone_is_an_error_there(lab: PromptLab, view: LabView, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.add_variant("kind", "Be kind.")
    for text in ("one", "two"):
        lab.run([text], progress=False)
    until(lambda: len(view.runs.run.widget.options) == 2 and "removed" in words(view.runs.changes))
    rows = runs._newest()
    monkeypatch.setattr(runs, "_newest", lambda: rows)  # the list was read before they went
    until(lambda: view.runs._reading is None)
    for path in lab.runs()["path"]:
        Path(path).unlink()
    view.runs.run.value, view.runs.before.value = view.runs.before.value, view.runs.run.value
    until(lambda: "There is no run" in words(view.runs.changes) and "ab-failed" in view.runs.changes.value)
