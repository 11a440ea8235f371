"""The results in the form of the lab, the winner, and files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbook.chat.prompt_lab import results
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.results import static_html, summary_html
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.chat.prompt_lab.view import LabView
from agentbook.evaluation import checks
from agentbook.evaluation.check import parse_check
from agentbook.evaluation.experiment import Answer, Experiment
from agentbook.evaluation.inputs import Input
from agentbook.evaluation.model import Grade

from .form import add, fill, hidden, run, until, words
from .lab_platform import LabPlatform, make_lab


def test_what_a_run_broke_stands_first(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.reply = lambda settings, text: f"{text}: {'yes' if text in settings.get('system_prompt', '') else 'no'}"
    add(view, "kind", "one two")
    view.run.checks.value = "yes"
    run(view, "one\ntwo\nthree", "3 of 3 answered")
    until(lambda: "3 of 3" in words(view.results.summary))
    assert view.results.regressions.value == ""
    lab.edit_variant("kind", system_prompt="two three")
    run(view, "one\ntwo\nthree", "3 of 3 answered")
    until(lambda: "1 reply that passed before does not pass now" in words(view.results.regressions))
    assert "kind edited one" in words(view.results.regressions)
    assert "100% → 0%" in words(view.results.regressions)
    assert view.results.widget.children[0].children[1] is view.results.regressions, "above the summary"
    table = view.results.table._view
    until(lambda: table.snapshot()["rows"][0]["input"] == "one")
    until(lambda: table.snapshot()["rows"][0]["cells"][0][0]["before"] is True)


@pytest.mark.parametrize("name", ["lab.json", "lab.yaml"])
def test_a_file_is_saved_and_loaded(
    name: str, tmp_path: Path, lab: PromptLab, view: LabView, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(view, "kind", "Be kind.")
    view.run.checks.value = "kind"
    run(view, "one\ntwo", "2 of 2 answered")
    view.results.path.value = str(tmp_path / name)
    view.results.save.click()
    until(lambda: "Saved to" in words(view.form.status["file"]))
    before = lab.variants, list(lab.checks), lab.inputs
    add(view, "brief", "Be brief.")
    view.results.load.click()
    until(lambda: not hidden(view.results.loading.widget))
    view.results.loading.confirm.click()
    until(lambda: "Loaded" in words(view.form.status["file"]) and list(view.variants.ticks) == ["kind"])
    assert (lab.variants["kind"].system_prompt, lab.inputs) == (before[0]["kind"].system_prompt, ["one", "two"])
    assert len(lab.checks) == 1
    assert len(lab._lab.answers) == (2 if name.endswith("json") else 0)
    view.results.path.value = str(tmp_path / "lab.html")
    view.results.save.click()
    until(lambda: "ab-failed" in view.form.status["file"].value)
    view.results.path.value = str(tmp_path / "nothing.yaml")
    view.results.load.click()
    view.results.loading.confirm.click()
    until(lambda: "nothing.yaml" in words(view.form.status["file"]))
    assert list(lab.variants) == ["kind"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt-lab.json").symlink_to(tmp_path / "mine")
    view.results.path.value = ""
    view.results.save.click()
    until(lambda: "remove this link" in words(view.form.status["file"]))


def test_a_run_and_an_apply_in_code_update_chart_and_versions(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind"], progress=False)
    until(lambda: "data:image" in view.results.image.value)
    until(lambda: "restored after" in words(view.variants.versions.history))
    version = lab.apply("kind")
    until(lambda: f"{version.label} (current)" in words(view.variants.versions.history))
    before = view.results.image.value
    lab.check({"other": "nothing of the kind"})
    until(lambda: before != view.results.image.value)


def test_the_summary_counts_what_a_check_could_not_decide(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one", "two"], checks={"odd": lambda reply: 1 / ("two" in reply), "kind": "kind"}, progress=False)
    cells = re.findall(r'<td class="ab-figure">(.*?)</td>', summary_html(lab._lab))
    assert cells[:3] == ["2 of 2", "1 of 1, 1 undecided", "2 of 2"]
    lab._lab.input_set.add([Input("three", "three", checks=(parse_check("own: equals: Be kind.: three"),))])
    lab.run(progress=False)
    cells = re.findall(r'<td class="ab-figure">(.*?)</td>', summary_html(lab._lab))
    assert cells[3] == "1 of 1", "a check of one input leaves none of the others undecided"


def test_the_static_transcript_has_prompts_figures_and_replies(platform: LabPlatform, lab: PromptLab) -> None:
    empty = static_html(lab._lab, "acme~writer", "", "uid")
    assert "Prompt lab of acme~writer. There is no variant yet." in empty
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind", "one"], progress=False)
    figures = summary_html(lab._lab)
    for html_text in (empty, static_html(lab._lab, "acme~writer", figures, "uid")):
        assert re.match(r'<div class="uid-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html_text)
    saved = static_html(lab._lab, "acme~writer", figures, "uid")
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", saved, flags=re.DOTALL)
    for part in ("Prompt lab of acme~writer", "Be kind.", "1 of 1", "one", "Be kind.: one"):
        assert part in text
    without_styles = re.sub(r"<[^>]*>", "", saved)
    assert "contains kind passed; contains one passed" in without_styles, "words in a row"


def test_a_reply_that_is_not_complete_says_so_live_and_saved(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    for text, reason in (("one", "length"), ("two", "content_filter"), ("three", "<b>"), ("four", "stop")):
        platform.usage = {"finish_reason": reason}
        lab.run([text], progress=False)
    message = ResultRows(lab._lab, "seed").changes(None)
    assert message is not None
    shown = {row["input"]: row["cells"][0][0]["finish"] for row in message["rows"]}
    assert shown == {"one": "cut off", "two": "filtered", "three": "<b>", "four": ""}
    saved = static_html(lab._lab, "acme~writer", "", "uid")
    assert [saved.count(f"{remark}</span>") for remark in ("cut off", "filtered", "&lt;b&gt;")] == [1, 1, 1]


def test_the_summary_says_how_far_a_judge_agrees_with_thumbs(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.check({"polite": checks.rubric("It is polite.", agent="acme~judge"), "short": "x"})
    for text, passed, thumb in (("one", True, True), ("two", False, True), ("three", None, True), ("four", True, None)):
        answer = Answer("kind", text, status="answered", reply="Hello.", thumb=thumb)
        answer.verdicts = {"polite": Grade(passed), "short": Grade(False)}
        lab._lab.record(answer)
    assert "The judge “polite” agrees with the labels on 1 of 2 replies." in summary_html(lab._lab)
    assert "“short” agrees" not in summary_html(lab._lab)


class FakeStatic:
    """A static transcript that is displayed, as in a notebook."""

    shown = True
    published_here = staticmethod(contextlib.nullcontext)

    def __init__(self, *arguments: Any) -> None:
        self.saved: list[str] = []

    def update(self, content: str) -> None:
        self.saved.append(content)


@pytest.fixture
def rated(monkeypatch: pytest.MonkeyPatch, lab: PromptLab) -> Iterator[tuple[LabView, list[Experiment], FakeStatic]]:
    """The form of a lab with verdicts, the charts it made, and what it saved."""
    charts: list[Experiment] = []
    make, static = results._chart, FakeStatic()
    monkeypatch.setattr(results, "_chart", lambda experiment: charts.append(experiment) or make(experiment))
    monkeypatch.setattr(results, "StaticTranscript", lambda *arguments: static)
    monkeypatch.setattr(results, "REDRAW_AFTER_S", 3600.0)
    lab.add_variant("kind", "Be kind.")
    lab.check({"polite": checks.rubric("It is polite.", agent="acme~judge")})
    for text in ("one", "two"):
        answer = Answer("kind", text, status="answered", reply="Hello.", verdicts={"polite": Grade(True)})
        lab._lab.record(answer)
    view = LabView(lab)
    until(lambda: "data:image" in view.results.image.value and "(current)" in words(view.variants.versions.history))
    view.flush()
    yield view, charts, static
    view.close()


def test_thumbs_that_follow_each_other_are_drawn_and_saved_once(
    lab: PromptLab, rated: tuple[LabView, list[Experiment], FakeStatic]
) -> None:
    view, charts, static = rated
    before = len(charts), len(static.saved)
    lab.rate(("kind", "one", 1), thumb=True, note="clear")
    until(lambda: view.results.table._view.snapshot()["rows"][0]["cells"][0][0]["thumb"] is True)
    lab.rate(("kind", "two", 1), thumb=False)
    until(lambda: view.results.table._view.snapshot()["rows"][1]["cells"][0][0]["thumb"] is False)
    assert (len(charts), len(static.saved)) == before
    view.flush()
    assert (len(charts), len(static.saved)) == (before[0] + 1, before[1] + 1)
    assert "1 of 2 replies" in words(view.results.summary)
    assert "👍 good: clear" in static.saved[-1]


def test_a_thumb_is_saved_when_no_other_follows(
    monkeypatch: pytest.MonkeyPatch, lab: PromptLab, rated: tuple[LabView, list[Experiment], FakeStatic]
) -> None:
    _, _, static = rated
    monkeypatch.setattr(results, "REDRAW_AFTER_S", 0.0)
    lab.rate(("kind", "one", 1), thumb=False)
    until(lambda: "👎 bad" in static.saved[-1])


def test_the_winner_is_applied_and_undone(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.run.checks.value = "brief"
    run(view, "one\ntwo", "4 of 4 answered")
    assert view.results.winner.value == "brief"
    before = platform.prompts()
    view.results.apply.click()
    until(lambda: not hidden(view.results.applying.widget))
    question = words(view.results.applying.text)
    assert "run on “brief” instead of version 1.0.3 (restored after a prompt lab run), for everyone" in question
    assert "100% of its replies passed" in question
    assert (platform.prompts(), hidden(view.results.undo)) == (before, True)
    view.results.applying.confirm.click()
    until(lambda: not hidden(view.results.applying_open.widget))  # two inputs show nothing
    asked_again = words(view.results.applying_open.text)
    assert re.search(r"\d more inputs? would show whether brief differs in “contains brief”", asked_again)
    assert platform.prompts() == before
    view.results.applying_open.confirm.click()
    until(lambda: "Applied “brief”" in words(view.form.status["winner"]) and not hidden(view.results.undo))
    assert platform.prompts()[-1] == "Be brief."
    view.results.undo.click()
    until(lambda: "Undone" in words(view.form.status["winner"]) and hidden(view.results.undo))
    assert platform.prompts()[-1] == "original"
    with pytest.raises(ValueError, match=r"\d more inputs? would show.* even_if_open=True"):
        lab.publish("brief")
    assert platform.prompts()[-1] == "original"
    lab.apply("brief", even_if_open=True)
    until(lambda: "Undone" not in words(view.form.status["winner"]))


def test_a_variant_that_is_better_is_applied_when_confirmed_once(
    platform: LabPlatform, lab: PromptLab, view: LabView
) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.run.checks.value = "brief"
    run(view, "\n".join("abcdefghij"), "20 of 20 answered")
    for each in lab._lab.answers:
        each.latency_s = None  # on a busy machine, one variant may be faster
    fill(view, name="", system_prompt="Be brief.")  # typed again
    view.variants.apply.click()
    until(lambda: not hidden(view.variants.applying.widget))
    assert words(view.variants.applying.text).startswith("brief is better than kind at “contains brief”")
    view.variants.applying.confirm.click()
    until(lambda: "Applied: the agent" in words(view.form.status["form"]))
    assert hidden(view.variants.applying_open.widget)
    with pytest.raises(ValueError, match="brief is better than kind"):
        lab.apply("kind")
    summary = view.results.summary.value
    assert 0 < summary.index("brief is better than kind") < summary.index("<table")


def test_no_winner_is_proposed_where_nothing_passed_and_nothing_applied_that_runs_already(
    platform: LabPlatform, view: LabView
) -> None:
    add(view, "same", "original")
    add(view, "brief", "Be brief.")
    view.run.checks.value = "unheard of"
    run(view, "one\ntwo", "4 of 4 answered")
    until(lambda: [value for _, value in view.results.winner.widget.options] == ["", "same", "brief"])
    view.results.apply.click()
    until(lambda: "ab-failed" in view.form.status["winner"].value)
    view.results.winner.value = "same"
    before = platform.prompts()
    view.results.apply.click()
    until(lambda: "already runs" in words(view.form.status["winner"]))
    fill(view, system_prompt="original")
    view.variants.apply.click()
    until(lambda: "already runs" in words(view.form.status["form"]))
    assert hidden(view.results.applying.widget)
    assert hidden(view.variants.applying.widget)
    assert platform.prompts() == before
    assert view.results.winner.value == "same"


def test_undo_leaves_what_somebody_else_has_applied(platform: LabPlatform, lab: PromptLab) -> None:
    with pytest.raises(ValueError, match="nothing to undo"):
        lab.undo_apply()
    lab.add_variant("kind", "Be kind.")
    lab.apply("kind")
    lab.add_variant("short", "Be short.")
    lab.run(["one"], progress=False)  # which restores what was applied
    assert lab.undo_apply().system_prompt == "original"
    lab.apply("kind", even_if_open=True)
    another = make_lab(platform)
    another.add_variant("brief", "Be brief.")
    another.apply("brief")
    with pytest.raises(ValueError, match="someone has changed it since"):
        lab.undo_apply()
    assert platform.prompts()[-1] == "Be brief."
    assert another.undo_apply().system_prompt == "Be kind."


def test_a_template_is_refused_before_it_is_confirmed(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    rows = [{"topic": f"topic {n}"} for n in range(5)]
    lab.add_variant("expert", "You know {{topic}}.")
    lab.run("Explain {{topic}}.", rows=rows, checks=["topic"], progress=False)
    until(lambda: view.results.winner.value == "expert")
    for press, question, line in (
        (view.results.apply, view.results.applying, "winner"),
        (view.variants.apply, view.variants.applying, "form"),
    ):
        fill(view, system_prompt="You know {{topic}}.")
        press.click()
        until(lambda: "{{topic}}" in words(view.form.status[line]) and "ab-failed" in view.form.status[line].value)  # noqa: B023
        assert hidden(question.widget)
    with pytest.raises(ValueError, match="template"):
        lab.apply("expert")
    # Its versions, one for each row, are counted.
    assert platform.prompts()[-1] == "original"
    until(lambda: "5 versions" in words(view.results.summary))
    assert view.results.table._view.snapshot()["head"]["variants"][0]["version"] == "5 versions"
