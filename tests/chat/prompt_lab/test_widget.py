"""The form of the lab without a browser, on a scripted platform."""

from __future__ import annotations

import re

from agentbook.api.errors import Unauthorized
from agentbook.api.record import Record
from agentbook.chat.prompt_lab.html import static_html
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.result_rows import ResultRows
from agentbook.chat.prompt_lab.widget import LabView

from .form import add, run, until, walk, words
from .lab_platform import LabPlatform, refused

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> [go](javascript:alert(3))"


def test_the_form_starts_with_the_current_version(view: LabView) -> None:
    assert (view.form.prompt.value, view.form.description.value, view.form.mode.value) == (
        "original",
        "writes",
        "one-shot",
    )
    assert "version 1.0.0" in words(view.status["form"])
    assert "no difference" in words(view.prompts.diff)
    assert "acme~writer in acme~lab" in words(view.head)


def test_errors_appear_next_to_the_button(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    view.form.prompt.value = "Be kind."
    view.form.apply.click()
    view.form.confirmation.confirm.click()
    until(lambda: "Invalid API key" in words(view.status["form"]))
    view.form.tools.value = "nonsense"
    view.form.add.click()
    until(lambda: "should look like “orders: find_order" in words(view.status["form"]))
    view.form.tools.value = ""
    add(view, "kind", "Be kind.")
    run(view, " ", "There are no inputs yet")
    view.run_form.checks.value = "broken: /(/"
    run(view, "one", "cannot be read")
    view.results.path.value = "/nowhere/lab.json"
    view.results.save.click()
    until(lambda: "there is no folder" in words(view.status["file"]))
    assert lab.answers == []


def test_the_form_shows_what_code_does(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    lab.run(["one\ntwo"], checks={"mine": lambda reply: True, "kind": "kind"}, progress=False)
    view = LabView(lab.controller)
    until(lambda: "1 of 1" in words(view.results.summary) and "data:image" in view.results.image.value)
    assert view.run_form.inputs.value == "one⏎two"
    assert view.run_form.checks.value == "kind: kind"
    assert "mine: from code" in words(view.check_form.widget)
    assert [box.description for box in view.run_form.ticks.values()] == [
        "now: the agent as it is",
        "kind [acme~writer]: Be kind.",
    ]
    # In code again: the form follows, whatever thread it came from.
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.run_form.ticks)
    lab.remove_variant("now")
    until(lambda: list(view.run_form.ticks) == ["kind", "brief"])
    run(view, view.run_form.inputs.value, "2 of 2 answered")
    assert list(lab.checks) == ["mine", "kind"]
    assert lab.inputs == ["one\ntwo"]
    view.close()


def test_agent_text_runs_nothing(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda configuration, text: RuntimeError(HOSTILE) if text == "fail" else HOSTILE
    lab.add_variant(HOSTILE, HOSTILE)
    lab.run([HOSTILE, "fail"], checks={HOSTILE: "x"}, progress=False)
    lab.run(retry_failed=True, checks={HOSTILE: lambda reply: True}, progress=False)
    view = LabView(lab.controller)
    until(lambda: "(current)" in words(view.prompts.history) and "data:image" in view.results.image.value)
    until(lambda: view.runs.changes.value)
    drawn = [
        each.value
        for each in (
            view.prompts.history,
            view.prompts.diff,
            view.results.summary,
            view.runs.changes,
            *walk(view.check_form.widget.children[0]),
        )
        if isinstance(getattr(each, "value", None), str)
    ]
    rows = ResultRows(lab.controller, "seed")
    rows.changes(None)
    for against in (None, 0):
        drawn += [body for _, cells in rows.bodies([0, 1], against)["rows"] for cell in cells for body in cell if body]
    drawn.append(static_html(lab.experiment, "acme~writer", "", "uid"))
    page = re.sub(r'alt="[^"]*"|title="[^"]*"|aria-label="[^"]*"', "", "".join(drawn))
    page = re.sub(r"<style[^>]*>.*?</style>", "", page, flags=re.DOTALL)
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert '"><' not in re.sub(
        r'(class|dir|tabindex|role|scope)="[^"<>]*"|<div[^<>]*>|<t[hd][^<>]*>|<span[^<>]*>', "", page
    )
    view.close()


def test_an_agent_that_cannot_be_read_is_an_error_in_the_form(platform: LabPlatform) -> None:
    lab = PromptLab(platform, agent="acme~nobody", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab.controller)
    until(lambda: "Agent 'acme~nobody' was not found" in words(view.status["form"]))
    until(lambda: "could not be read" in words(view.prompts.history))
    view.close()
    without = PromptLab(platform, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(without.controller)
    assert view.form.apply.disabled
    until(lambda: "This lab has no agent yet: create one above" in words(view.status["form"]))
    view.close()


def test_the_lab_works_after_its_form_is_closed(lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.close()
    view.close()
    assert lab.run(["one"], progress=False)["status"].tolist() == ["answered"]


def test_the_status_lines_tell_how_things_are(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    assert words(view.status["form"]) == "acme~writer runs on version 1.0.0."
    assert words(view.status["run"]) == ""
    add(view, "kind", "Be kind.")
    run(view, "one\ntwo", "2 of 2 answered.")
    until(lambda: words(view.status["form"]) == "acme~writer runs on version 1.0.2.")
    lab.add_variant("brief", "Be brief.")
    lab.run(["one"], ["brief"], progress=False)
    until(lambda: words(view.status["run"]) == "3 of 3 answered.")
    lab.remove_variant("kind")
    until(lambda: words(view.status["run"]) == "1 of 1 answered.")


def test_the_empty_form_shows_three_steps(view: LabView) -> None:
    until(lambda: "Three steps" in words(view.guide))
    assert view.guide.value.count("<li") == 3
    add(view, "kind", "Be kind.")
    until(lambda: view.guide.value.count("Done.") == 1)
    run(view, "one", "1 of 1 answered")
    until(lambda: view.guide.value == "")


def test_the_form_is_labelled(view: LabView) -> None:
    view.form.name.value, view.form.prompt.value = "kind", "Be kind."
    view.form.add.click()
    until(lambda: "kind" in view.run_form.ticks)
    fields = [each for each in walk(view) if "ab-field" in each._dom_classes]
    assert len(fields) == 40
    assert all(each.description for each in fields)
    # Else a click arrives before the letters that were typed last.
    assert not [each.description for each in fields if getattr(each, "continuous_update", False)]
    buttons = [each for each in walk(view) if type(each).__name__ == "Button"]
    assert {each.description for each in buttons} == {
        "Add a check of another kind",
        "Add the check",
        "Add as variant",
        "Apply it",
        "Apply the winner",
        "Apply to the agent",
        "Apply",
        "Cancel",
        "Copy to the form",
        "Duplicate",
        "Edit",
        "Costs",
        "Create the agent",
        "Load",
        "More settings",
        "Open the run",
        "Open",
        "Remove variant",
        "Remove",
        "Replace",
        "Run anyway",
        "Run",
        "Save",
        "Stop editing",
        "Stop",
        "Undo",
    }
    assert all(each.tooltip for each in buttons)


def test_the_prompt_lab_says_it_beside_its_variants(platform: LabPlatform) -> None:
    platform.missing_workspaces = ("acme~lab",)
    lab = PromptLab(platform, "acme~writre", "acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    lab.add_variant("other", agent="acme~redaer", system_prompt="Be kind.")
    view = LabView(lab.controller)
    until(lambda: "Did you mean 'acme~writer'?" in words(view.status["form"]))
    assert "Agent 'acme~redaer' was not found" in words(view.status["form"])
    assert "Workspace 'acme~lab' was not found" in words(view.status["form"])
    view.close()


def test_the_prompt_lab_says_that_its_agent_is_archived(platform: LabPlatform) -> None:
    agent_id = platform.find("acme~writer")
    platform.records[agent_id] = Record(platform.records[agent_id], is_archived=True)
    lab = PromptLab(platform, "acme~writer", "acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab.controller)
    until(lambda: "Agent 'acme~writer' is archived" in words(view.status["form"]))
    view.close()
