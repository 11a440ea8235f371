"""The lab's form without a browser: what its widgets hold while a platform of one process answers."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbook.api.errors import Unauthorized
from agentbook.chat.prompt_lab import configurator
from agentbook.chat.prompt_lab.form import read_tools, read_typed_checks, read_typed_inputs, write_inputs, write_tools
from agentbook.chat.prompt_lab.html import static_html
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.results import MOST_ROWS
from agentbook.chat.prompt_lab.widget import LabView
from agentbook.events import loop

from .lab_platform import LabPlatform, not_ready, refused

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> [go](javascript:alert(3))"


@pytest.fixture
def platform() -> LabPlatform:
    return LabPlatform()


@pytest.fixture
def lab(platform: LabPlatform) -> PromptLab:
    return PromptLab(platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]


@pytest.fixture
def view(lab: PromptLab) -> Iterator[LabView]:
    view = LabView(lab)
    until(lambda: "(runs now)" in words(view.prompts.history))
    yield view
    view.close()


def until(condition: Callable[[], Any]) -> None:
    """Until it holds, looked at on the thread that draws."""
    done = threading.Event()

    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.005)
        done.set()

    looking = loop.submit(look())
    if not done.wait(60):
        looking.cancel()
        raise AssertionError("it never came to that")


def words(widget: Any) -> str:
    """What a person reads in it."""
    inner = [widget, *(each for child in getattr(widget, "children", ()) for each in [child])]
    values = [words(child) for child in getattr(widget, "children", ())] or [
        str(getattr(each, "value", "")) for each in inner
    ]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))).strip()


def hidden(widget: Any) -> bool:
    return "ab-hidden" in widget._dom_classes


def add(view: LabView, name: str, prompt: str) -> None:
    view.form.name.value, view.form.prompt.value = name, prompt
    view.form.add.click()
    until(lambda: name in view.trial.ticks)


def run(view: LabView, inputs: str, said: str) -> None:
    view.trial.inputs.value = inputs
    view.trial.run.click()
    until(lambda: said in words(view.status["run"]))


def test_it_starts_from_what_the_agent_runs_on(view: LabView) -> None:
    assert (view.form.prompt.value, view.form.description.value, view.form.mode.value) == (
        "original",
        "writes",
        "one-shot",
    )
    assert "version 1.0.0" in words(view.status["form"])
    assert "no difference" in words(view.prompts.diff)
    assert "acme~writer in acme~lab" in words(view.head)


def test_apply_is_one_call_and_the_history_and_the_difference_follow(
    platform: LabPlatform, view: LabView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configurator, "WAITS_S", (0.01,))
    platform.refusals = not_ready(2)
    view.form.prompt.value = "original, and brief"
    view.form.tools.value = "orders: find_order, track"
    view.form.version.value = "1.5.0"
    until(lambda: "[added: , and brief ]" in words(view.prompts.diff))
    view.form.apply.click()
    view.form.apply.click()  # a double click applies once
    until(lambda: "runs on version 1.5.0 now" in words(view.status["form"]))
    assert platform.prompts() == ["original", "original, and brief"]
    assert platform.calls[-1][2]["tools"] == ({"integration": "orders", "tools": ["find_order", "track"]},)
    until(lambda: "1.5.0 (runs now)" in words(view.prompts.history))
    assert view.prompts.old.options[0] == ("version 1.5.0", "version 1.5.0")


def test_a_version_can_be_put_into_the_form_and_any_two_compared(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "original, and kind")
    view.prompts.start.value = "version 1.0.0"
    view.prompts.use.click()
    until(lambda: view.form.prompt.value == "original")
    view.prompts.old.value, view.prompts.new.value = "variant kind", "version 1.0.0"
    until(
        lambda: (
            "From variant kind to version 1.0.0" in words(view.prompts.diff)
            and "[removed: , and kind ]" in words(view.prompts.diff)
        )
    )


def test_run_fills_results_summary_and_chart(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.trial.checks.value = "kind\nasks: /\\?/"
    run(view, "one?\n\n- two", "4 of 4 answered")
    assert "Be kind.: one?" in words(view.replies.rows)
    assert len(view.replies.rows.children) == 2
    assert words(view.replies.summary).startswith(
        "variant answered contains kind asks median 95 % kind 1.0.1 2 of 2 2 of 2 1 of 2"
    )
    assert 'alt="Prompt lab. kind: 2 of 2 answered' in view.replies.picture.value
    assert "data:image/svg+xml;base64," in view.replies.picture.value
    assert (hidden(view.trial.bar), hidden(view.trial.stop), view.trial.run.disabled) == (True, True, False)
    assert lab.inputs == ["one?", "two"]
    assert list(lab.checks) == ["contains kind", "asks"]
    assert "as it was before" in words(view.prompts.history)


def test_only_ticked_variants_run_and_what_is_answered_is_not_asked_again(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.trial.ticks["kind"].value = False
    run(view, "one", "1 of 1 answered")
    assert platform.configured()[0] == "Be brief."
    view.trial.ticks["kind"].value = True
    run(view, "one", "2 of 2 answered")
    assert platform.asked() == ["one", "one"]
    view.trial.ticks["kind"].value = view.trial.ticks["brief"].value = False
    run(view, "one", "No variant is ticked")


def test_stop_keeps_what_arrived_and_run_goes_on(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.reply = lambda configuration, text: None if text == "slow" else "quick reply"
    add(view, "kind", "Be kind.")
    view.trial.inputs.value = "quick\nslow"
    view.trial.run.click()
    until(lambda: "quick reply" in words(view.replies.rows))
    assert (hidden(view.trial.stop), hidden(view.trial.bar), view.trial.run.disabled, view.form.apply.disabled) == (
        False,
        False,
        True,
        True,
    )
    assert (view.trial.bar.value, view.trial.bar.max) == (1, 2)
    view.trial.stop.click()
    until(lambda: "Stopped. What arrived stays" in words(view.status["run"]) and not view.trial.run.disabled)
    assert platform.prompts()[-1] == "original"
    assert "Stopped. The agent may still finish" in words(view.replies.rows)
    stopped = next(answer for answer in lab.answers if answer.status == "stopped")

    async def late() -> None:
        platform.answer(str(stopped.session_id), "late reply")

    loop.run(late(), 60)
    run(view, "quick\nslow", "2 of 2 answered")
    assert "late reply" in words(view.replies.rows)
    assert platform.asked() == ["quick", "slow"]


def test_what_goes_wrong_is_said_where_it_was_asked_for(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    view.form.prompt.value = "Be kind."
    view.form.apply.click()
    until(lambda: "Invalid API key" in words(view.status["form"]))
    view.form.tools.value = "nonsense"
    view.form.add.click()
    until(lambda: "should look like “orders: find_order" in words(view.status["form"]))
    view.form.tools.value = ""
    add(view, "kind", "Be kind.")
    run(view, " ", "There are no inputs yet")
    view.trial.checks.value = "broken: /(/"
    run(view, "one", "cannot be read")
    view.replies.path.value = "/nowhere/lab.json"
    view.replies.save.click()
    until(lambda: "No such file" in words(view.status["file"]))
    assert lab.answers == []


def test_a_failed_variant_is_shown_with_its_reason(platform: LabPlatform, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    add(view, "kind", "Be kind.")
    run(view, "one", "0 of 1 answered, 1 failed")
    assert "Failed. The platform did not accept the credential: Invalid API key" in words(view.replies.rows)
    assert "Request req-9" in words(view.replies.rows)
    view.trial.retry.value = True
    run(view, "one", "1 of 1 answered.")


def test_save_writes_the_lab(tmp_path: Path, platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    run(view, "one", "1 of 1 answered")
    view.replies.path.value = str(tmp_path / "lab.json")
    view.replies.save.click()
    until(lambda: "Saved to" in words(view.status["file"]))
    assert PromptLab.load(tmp_path / "lab.json", platform) == lab  # type: ignore[arg-type]


def test_what_is_done_in_code_shows_in_the_form(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    lab.run(["one\ntwo"], checks={"mine": lambda reply: True, "kind": "kind"}, progress=False)
    view = LabView(lab)
    until(lambda: "1 of 1" in words(view.replies.summary) and "data:image" in view.replies.picture.value)
    assert view.trial.inputs.value == "one⏎two"
    assert view.trial.checks.value == "kind: kind"
    assert "From code: mine" in words(view.trial.others)
    assert [box.description for box in view.trial.ticks.values()] == [
        "now: the agent as it is",
        "kind [acme~writer]: Be kind.",
    ]
    # In code again: the form follows, whatever thread it came from.
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.trial.ticks)
    lab.remove_variant("now")
    until(lambda: list(view.trial.ticks) == ["kind", "brief"])
    run(view, view.trial.inputs.value, "2 of 2 answered")
    assert list(lab.checks) == ["mine", "kind"]
    assert lab.inputs == ["one\ntwo"]
    view.close()


def test_a_run_and_an_apply_in_code_bring_chart_and_versions_into_the_form(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind"], progress=False)
    until(lambda: "data:image" in view.replies.picture.value)
    until(lambda: "as it was before" in words(view.prompts.history))
    version = lab.apply("kind")
    until(lambda: f"{version.label} (runs now)" in words(view.prompts.history))
    before = view.replies.picture.value
    lab.check({"other": "nothing of the kind"})
    until(lambda: before != view.replies.picture.value)


def test_what_a_person_typed_stays_and_what_code_gave_is_run_again(
    platform: LabPlatform, lab: PromptLab, view: LabView
) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks={"kind": "kind", "mine": lambda reply: True}, progress=False)
    until(lambda: view.trial.inputs.value == "one" and view.trial.checks.value == "kind: kind")
    run(view, view.trial.inputs.value, "1 of 1 answered")
    assert set(lab.checks) == {"mine", "kind"}, "pressing Run must not drop a check"
    view.trial.inputs.value = "typed"
    lab.run(["two"], progress=False)
    until(lambda: len(view.replies.rows.children) == 2)
    assert view.trial.inputs.value == "typed"
    view.trial.inputs.value = ""  # cleared, to write something else
    add(view, "brief", "Be brief.")
    assert view.trial.inputs.value == ""


def test_what_is_compared_follows_what_runs_until_a_person_chooses(lab: PromptLab) -> None:
    lab.add_variant("kind", "original, and kind")
    view = LabView(lab)  # drawn before the versions are read
    until(lambda: (view.prompts.old.value, view.prompts.start.value) == ("version 1.0.0", "version 1.0.0"))
    version = lab.apply("kind")
    until(lambda: view.prompts.old.value == f"version {version.label}")
    view.prompts.old.value = "variant kind"
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.trial.ticks)
    assert view.prompts.old.value == "variant kind"
    view.close()


def test_agent_text_runs_nothing(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda configuration, text: RuntimeError(HOSTILE) if text == "fail" else HOSTILE
    lab.add_variant(HOSTILE, HOSTILE)
    lab.run([HOSTILE, "fail"], checks={HOSTILE: "x"}, progress=False)
    view = LabView(lab)
    until(lambda: "(runs now)" in words(view.prompts.history) and "data:image" in view.replies.picture.value)
    drawn = [
        each.value
        for each in (
            view.prompts.history,
            view.prompts.diff,
            view.replies.summary,
            view.trial.others,
            *view.replies.rows.children,
        )
    ]
    said = re.sub(r'alt="[^"]*"|title="[^"]*"|aria-label="[^"]*"', "", "".join([*drawn, static_html(lab, "", "uid")]))
    said = re.sub(r"<style[^>]*>.*?</style>", "", said, flags=re.DOTALL)
    assert "<script" not in said
    assert "<img" not in said
    assert 'href="javascript' not in said
    assert '"><' not in re.sub(
        r'(class|dir|tabindex|role|scope)="[^"<>]*"|<div[^<>]*>|<t[hd][^<>]*>|<span[^<>]*>', "", said
    )
    view.close()


def test_the_static_twin_holds_prompts_figures_and_replies(platform: LabPlatform, lab: PromptLab) -> None:
    empty = static_html(lab, "", "uid")
    assert "Prompt lab of acme~writer. There is no variant yet." in empty
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind"], progress=False)
    for twin in (empty, static_html(lab, "", "uid")):
        assert re.match(r'<div class="uid-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', twin)
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", static_html(lab, "", "uid"), flags=re.DOTALL)
    for said in ("Prompt lab of acme~writer", "Be kind.", "1 of 1", "one", "Be kind.: one"):
        assert said in text


def test_many_inputs_are_drawn_up_to_a_number_and_said_beyond(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run([f"question {n}" for n in range(MOST_ROWS + 5)], concurrency=16, progress=False)
    view = LabView(lab)
    until(lambda: len(view.replies.rows.children) == MOST_ROWS)
    assert "5 more inputs are in lab.results" in words(view.replies.more)
    view.close()


def test_an_agent_that_cannot_be_read_leaves_a_form_that_says_so(platform: LabPlatform) -> None:
    lab = PromptLab(platform, agent="acme~nobody", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab)
    until(lambda: "Agent not found" in words(view.status["form"]))
    view.close()
    without = PromptLab(platform, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(without)
    assert view.form.apply.disabled
    view.close()


def test_closing_ends_it_and_leaves_the_lab(lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.close()
    view.close()
    assert lab.run(["one"], progress=False)["status"].tolist() == ["answered"]


def test_typed_things_are_read_back_as_they_are_written() -> None:
    tools = [{"integration": "orders", "tools": ["find", "track"]}, {"integration": "mail", "tools": []}]
    assert read_tools(write_tools(tools)) == tools
    assert read_tools(" \n") is None
    assert read_typed_inputs(write_inputs(["one\ntwo", "three"])) == ["one\ntwo", "three"]
    checks = read_typed_checks('shape: {"type": "object"}\n{"type": "array", "title": "a list"}\nhttp://x', [])
    assert [(check.name, check.kind) for check in checks.values()] == [
        ("shape", "json_schema"), ("a list", "json_schema"), ("contains http://x", "contains"),
    ]  # fmt: skip


def test_the_form_is_labelled(view: LabView) -> None:
    fields = [each for each in walk(view) if "ab-field" in each._dom_classes]
    assert len(fields) == 15
    assert all(each.description for each in fields)
    buttons = [each for each in walk(view) if type(each).__name__ == "Button"]
    assert {each.description for each in buttons} == {
        "Apply to the agent",
        "Add as variant",
        "Put into the form",
        "Run",
        "Stop",
        "Save",
    }
    assert all(each.tooltip for each in buttons)


def walk(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
