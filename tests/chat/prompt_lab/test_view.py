"""The form of the lab without a browser, on a scripted platform."""

from __future__ import annotations

import re

from agentbook.api.errors import Unauthorized
from agentbook.api.record import Record
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.results import broken_html, static_html
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.chat.prompt_lab.view import LabView

from .form import add, fill, hidden, run, typed, until, walk, words
from .lab_platform import LabPlatform, refused

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> [go](javascript:alert(3))"


def test_the_form_starts_with_the_current_version(view: LabView) -> None:
    assert (typed(view), typed(view, "description"), typed(view, "mode")) == ("original", "writes", "one-shot")
    assert "version 1.0.0" in words(view.form.status["form"])
    assert "no difference" in words(view.variants.versions.difference)
    assert "acme~writer in acme~lab" in words(view.head)


def test_errors_appear_next_to_the_button(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    fill(view, system_prompt="Be kind.")
    view.variants.apply.click()
    view.variants.applying.confirm.click()
    until(lambda: "Invalid API key" in words(view.form.status["form"]))
    fill(view, tools="nonsense")
    view.variants.add.click()
    until(lambda: "should look like “orders: find_order" in words(view.form.status["form"]))
    fill(view, tools="")
    add(view, "kind", "Be kind.")
    run(view, " ", "There are no inputs yet")
    view.run.checks.value = "broken: /(/"
    run(view, "one", "cannot be read")
    view.results.path.value = "/nowhere/lab.json"
    view.results.save.click()
    until(lambda: "there is no folder" in words(view.form.status["file"]))
    assert lab._lab.answers == []


def test_a_click_while_something_else_goes_on_says_that_it_has_to_wait(platform: LabPlatform, view: LabView) -> None:
    platform.reply = lambda settings, text: None
    add(view, "kind", "Be kind.")
    view.variants.apply.click()
    until(lambda: not hidden(view.variants.applying.widget))
    view.run.inputs.value = "slow"
    view.run.run.click()
    until(lambda: platform.questions() == ["slow"])
    view.run.run.click()
    view.variants.applying.confirm.click()
    until(lambda: "wait for its end" in words(view.form.status["form"]))
    assert "wait" not in words(view.form.status["run"]), "the same again"
    view.run.stop.click()
    until(lambda: not view.form.busy)


def test_the_form_shows_what_code_does(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    lab.run(["one\ntwo"], checks={"mine": lambda reply: True, "kind": "kind"}, progress=False)
    view = LabView(lab)
    until(lambda: "1 of 1" in words(view.results.summary) and "data:image" in view.results.image.value)
    assert view.run.inputs.value == "one⏎two"
    assert view.run.checks.value == 'function: mine\n"kind": kind'
    assert [box.description for box in view.variants.ticks.values()] == [
        "now: the agent as it is",
        "kind [acme~writer]: Be kind.",
    ]
    # In code again: the form follows, whatever thread it came from.
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.variants.ticks)
    lab.remove_variant("now")
    until(lambda: list(view.variants.ticks) == ["kind", "brief"])
    run(view, view.run.inputs.value, "2 of 2 answered")
    assert list(lab.checks) == ["mine", "kind"]
    assert lab.inputs == ["one\ntwo"]
    view.close()


def test_agent_text_runs_nothing(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda configuration, text: RuntimeError(HOSTILE) if text == "fail" else HOSTILE
    lab.add_variant(HOSTILE, HOSTILE)
    lab.run([HOSTILE, "fail"], checks={HOSTILE: "x"}, progress=False)
    lab.run(retry_failed=True, checks={HOSTILE: lambda reply: True}, progress=False)
    view = LabView(lab)
    until(lambda: "(current)" in words(view.variants.versions.history) and "data:image" in view.results.image.value)
    drawn = [
        each.value
        for each in (view.variants.versions.history, view.variants.versions.difference, view.results.summary)
        if isinstance(getattr(each, "value", None), str)
    ]
    rows = ResultRows(lab._lab, "seed")
    rows.changes(None)
    for against in (None, 0):
        drawn += [body for _, cells in rows.bodies([0, 1], against)["rows"] for cell in cells for body in cell if body]
    drawn += [static_html(lab._lab, "acme~writer", "", "uid"), broken_html(lab.compare())]
    page = re.sub(r'alt="[^"]*"|title="[^"]*"|aria-label="[^"]*"', "", "".join(drawn))
    page = re.sub(r"<style[^>]*>.*?</style>", "", page, flags=re.DOTALL)
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert '"><' not in re.sub(
        r'(class|dir|tabindex|role|scope)="[^"<>]*"|<div[^<>]*>|<t[hd][^<>]*>|<span[^<>]*>', "", page
    )
    view.close()


def test_a_lab_without_an_agent_says_how_to_get_one(platform: LabPlatform) -> None:
    platform.models = ("small", "large")
    lab = PromptLab(platform, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab)
    assert view.variants.apply.disabled
    assert "no agent yet in acme~lab" in words(view.head)
    until(lambda: "client.agents.create(name" in words(view.form.status["form"]))
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    until(lambda: "several agents in acme~lab" in words(view.head))
    assert view.variants.fields["model"].options == ("small", "large")
    run(view, "one", "1 of 1 answered")
    view.close()


def test_the_lab_works_after_its_form_is_closed(lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.close()
    view.close()
    assert lab.run(["one"], progress=False)["status"].tolist() == ["answered"]


def test_the_status_lines_tell_how_things_are(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    assert words(view.form.status["form"]) == "acme~writer runs on version 1.0.0."
    assert words(view.form.status["run"]) == ""
    add(view, "kind", "Be kind.")
    run(view, "one\ntwo", "2 of 2 answered.")
    until(lambda: words(view.form.status["form"]) == "acme~writer runs on version 1.0.2.")
    lab.add_variant("brief", "Be brief.")
    lab.run(["one"], ["brief"], progress=False)
    until(lambda: words(view.form.status["run"]) == "3 of 3 answered.")
    lab.remove_variant("kind")
    until(lambda: words(view.form.status["run"]) == "1 of 1 answered.")


def test_the_empty_form_shows_three_steps(view: LabView) -> None:
    until(lambda: "Three steps" in words(view.guide))
    assert view.guide.value.count("<li") == 3
    add(view, "kind", "Be kind.")
    until(lambda: view.guide.value.count("Done.") == 1)
    run(view, "one", "1 of 1 answered")
    until(lambda: view.guide.value == "")


def test_the_form_is_labelled(view: LabView) -> None:
    fill(view, name="kind", system_prompt="Be kind.")
    view.variants.add.click()
    until(lambda: "kind" in view.variants.ticks)
    fields = [each for each in walk(view) if "ab-field" in each._dom_classes]
    assert all(each.description for each in fields)
    # Else a click arrives before the letters that were typed last.
    assert not [each.description for each in fields if getattr(each, "continuous_update", False)]
    buttons = [each for each in walk(view) if type(each).__name__ == "Button"]
    assert all(each.description for each in buttons if not hidden(each))
    assert all(each.tooltip for each in buttons)


def test_the_prompt_lab_says_it_beside_its_variants(platform: LabPlatform) -> None:
    platform.missing_workspaces = ("acme~lab",)
    lab = PromptLab(platform, "acme~writre", "acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    lab.add_variant("other", agent="acme~redaer", system_prompt="Be kind.")
    view = LabView(lab)
    until(lambda: "Did you mean 'acme~writer'?" in words(view.form.status["form"]))
    assert "Agent 'acme~redaer' was not found" in words(view.form.status["form"])
    assert "Workspace 'acme~lab' was not found" in words(view.form.status["form"])
    until(lambda: "could not be read" in words(view.variants.versions.history))
    view.close()


def test_the_prompt_lab_says_that_its_agent_is_archived(platform: LabPlatform) -> None:
    agent_id = platform.find("acme~writer")
    platform.records[agent_id] = Record(platform.records[agent_id], is_archived=True)
    lab = PromptLab(platform, "acme~writer", "acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab)
    until(lambda: "Agent 'acme~writer' is archived" in words(view.form.status["form"]))
    view.close()
