"""The form of the lab without a browser, on a scripted platform."""

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
from agentbook.chat.prompt_lab.html import static_html
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.run_form import MAX_ROWS
from agentbook.chat.prompt_lab.widget import LabView
from agentbook.events import loop

from .lab_platform import LabPlatform, make_lab, not_ready, refused

pytestmark = pytest.mark.python_versions

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> [go](javascript:alert(3))"


@pytest.fixture
def platform() -> LabPlatform:
    return LabPlatform()


@pytest.fixture
def lab(platform: LabPlatform) -> PromptLab:
    return make_lab(platform)


@pytest.fixture
def view(lab: PromptLab) -> Iterator[LabView]:
    view = LabView(lab.controller)
    until(lambda: "(current)" in words(view.prompts.history))
    yield view
    view.close()


def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition holds, polled on the thread that draws."""
    done = threading.Event()

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.005)
        done.set()

    polling = loop.submit(poll())
    if not done.wait(60):
        polling.cancel()
        raise AssertionError("the condition did not hold within 60 s")


def words(widget: Any) -> str:
    """The text of a widget."""
    values = [words(child) for child in getattr(widget, "children", ())] or [str(getattr(widget, "value", ""))]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))).strip()


def hidden(widget: Any) -> bool:
    return "ab-hidden" in widget._dom_classes


def add(view: LabView, name: str, prompt: str) -> None:
    view.form.name.value, view.form.prompt.value = name, prompt
    view.form.add.click()
    until(lambda: name in view.run_form.ticks)


def run(view: LabView, inputs: str, message: str) -> None:
    view.run_form.inputs.value = inputs
    view.run_form.run.click()
    until(lambda: message in words(view.status["run"]))


def test_the_form_starts_with_the_current_version(view: LabView) -> None:
    assert (view.form.prompt.value, view.form.description.value, view.form.mode.value) == (
        "original",
        "writes",
        "one-shot",
    )
    assert "version 1.0.0" in words(view.status["form"])
    assert "no difference" in words(view.prompts.diff)
    assert "acme~writer in acme~lab" in words(view.head)


def test_apply_is_one_call_and_updates_history_and_difference(
    platform: LabPlatform, view: LabView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configurator, "POLL_PAUSES_S", (0.01,))
    platform.refusals = not_ready(2)
    view.form.prompt.value = "original, and brief"
    view.form.tools.value = "orders: find_order, track"
    view.form.version.value = "1.5.0"
    until(lambda: "[added: , and brief ]" in words(view.prompts.diff))
    view.form.apply.click()
    view.form.apply.click()  # a double click applies once
    until(lambda: "now runs on version 1.5.0" in words(view.status["form"]))
    assert platform.prompts() == ["original", "original, and brief"]
    assert platform.calls[-1][2]["tools"] == ({"integration": "orders", "tools": ["find_order", "track"]},)
    until(lambda: "1.5.0 (current)" in words(view.prompts.history))
    assert view.prompts.old.options[0] == ("version 1.5.0", "version 1.5.0")


def test_a_version_can_be_copied_to_the_form_and_any_two_compared(platform: LabPlatform, view: LabView) -> None:
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
    view.run_form.checks.value = "kind\nasks: /\\?/"
    run(view, "one?\n\n- two", "4 of 4 answered")
    assert "Be kind.: one?" in words(view.results.rows)
    assert len(view.results.rows.children) == 2
    assert words(view.results.summary).startswith(
        "variant answered contains kind asks median p95 kind 1.0.1 2 of 2 2 of 2 1 of 2"
    )
    assert 'alt="Prompt lab. kind: 2 of 2 answered' in view.results.image.value
    assert "data:image/svg+xml;base64," in view.results.image.value
    assert (hidden(view.run_form.bar), hidden(view.run_form.stop), view.run_form.run.disabled) == (True, True, False)
    assert lab.inputs == ["one?", "two"]
    assert list(lab.checks) == ["contains kind", "asks"]
    assert "restored after" in words(view.prompts.history)


def test_only_selected_variants_run_and_answered_questions_are_skipped(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.run_form.ticks["kind"].value = False
    run(view, "one", "1 of 1 answered")
    assert platform.configured()[0] == "Be brief."
    view.run_form.ticks["kind"].value = True
    run(view, "one", "2 of 2 answered")
    assert platform.questions() == ["one", "one"]
    view.run_form.ticks["kind"].value = view.run_form.ticks["brief"].value = False
    run(view, "one", "No variant is selected")


def test_stop_keeps_replies_and_run_continues(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.reply = lambda configuration, text: None if text == "slow" else "quick reply"
    add(view, "kind", "Be kind.")
    view.run_form.inputs.value = "quick\nslow"
    view.run_form.run.click()
    until(lambda: "quick reply" in words(view.results.rows))
    assert (
        hidden(view.run_form.stop),
        hidden(view.run_form.bar),
        view.run_form.run.disabled,
        view.form.apply.disabled,
    ) == (
        False,
        False,
        True,
        True,
    )
    assert (view.run_form.bar.value, view.run_form.bar.max) == (1, 2)
    view.run_form.stop.click()
    until(
        lambda: "Stopped. The replies so far are kept" in words(view.status["run"]) and not view.run_form.run.disabled
    )
    assert platform.prompts()[-1] == "original"
    assert "Stopped. The agent may still finish" in words(view.results.rows)
    stopped = next(answer for answer in lab.answers if answer.status == "stopped")

    async def late() -> None:
        platform.answer(str(stopped.session_id), "late reply")

    loop.run(late(), 60)
    run(view, "quick\nslow", "2 of 2 answered")
    assert "late reply" in words(view.results.rows)
    assert platform.questions() == ["quick", "slow"]


def test_errors_appear_next_to_the_button(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
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
    view.run_form.checks.value = "broken: /(/"
    run(view, "one", "cannot be read")
    view.results.path.value = "/nowhere/lab.json"
    view.results.save.click()
    until(lambda: "there is no folder" in words(view.status["file"]))
    assert lab.answers == []


def test_a_failed_variant_is_shown_with_its_reason(platform: LabPlatform, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    add(view, "kind", "Be kind.")
    run(view, "one", "0 of 1 answered, 1 failed")
    assert "Failed. The platform did not accept the credential: Invalid API key" in words(view.results.rows)
    assert "Request req-9" in words(view.results.rows)
    view.run_form.retry.value = True
    run(view, "one", "1 of 1 answered.")


def test_save_writes_the_lab(tmp_path: Path, platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    run(view, "one", "1 of 1 answered")
    view.results.path.value = str(tmp_path / "lab.json")
    view.results.save.click()
    until(lambda: "Saved to" in words(view.status["file"]))
    assert PromptLab.load(tmp_path / "lab.json", platform) == lab  # type: ignore[arg-type]


def test_the_form_shows_what_code_does(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    lab.run(["one\ntwo"], checks={"mine": lambda reply: True, "kind": "kind"}, progress=False)
    view = LabView(lab.controller)
    until(lambda: "1 of 1" in words(view.results.summary) and "data:image" in view.results.image.value)
    assert view.run_form.inputs.value == "one⏎two"
    assert view.run_form.checks.value == "kind: kind"
    assert "From code: mine" in words(view.run_form.others)
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


def test_a_run_and_an_apply_in_code_update_chart_and_versions(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind"], progress=False)
    until(lambda: "data:image" in view.results.image.value)
    until(lambda: "restored after" in words(view.prompts.history))
    version = lab.apply("kind")
    until(lambda: f"{version.label} (current)" in words(view.prompts.history))
    before = view.results.image.value
    lab.check({"other": "nothing of the kind"})
    until(lambda: before != view.results.image.value)


def test_typed_text_stays_and_checks_from_code_run_again(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks={"kind": "kind", "mine": lambda reply: True}, progress=False)
    until(lambda: view.run_form.inputs.value == "one" and view.run_form.checks.value == "kind: kind")
    run(view, view.run_form.inputs.value, "1 of 1 answered")
    assert set(lab.checks) == {"mine", "kind"}, "pressing Run must not drop a check"
    view.run_form.inputs.value = "typed"
    lab.run(["two"], progress=False)
    until(lambda: len(view.results.rows.children) == 2)
    assert view.run_form.inputs.value == "typed"
    view.run_form.inputs.value = ""  # cleared, to write something else
    add(view, "brief", "Be brief.")
    assert view.run_form.inputs.value == ""


def test_the_comparison_follows_the_current_version_until_a_person_chooses(lab: PromptLab) -> None:
    lab.add_variant("kind", "original, and kind")
    view = LabView(lab.controller)  # drawn before the versions are read
    until(lambda: (view.prompts.old.value, view.prompts.start.value) == ("version 1.0.0", "version 1.0.0"))
    version = lab.apply("kind")
    until(lambda: view.prompts.old.value == f"version {version.label}")
    view.prompts.old.value = "variant kind"
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.run_form.ticks)
    assert view.prompts.old.value == "variant kind"
    view.close()


def test_agent_text_runs_nothing(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda configuration, text: RuntimeError(HOSTILE) if text == "fail" else HOSTILE
    lab.add_variant(HOSTILE, HOSTILE)
    lab.run([HOSTILE, "fail"], checks={HOSTILE: "x"}, progress=False)
    view = LabView(lab.controller)
    until(lambda: "(current)" in words(view.prompts.history) and "data:image" in view.results.image.value)
    drawn = [
        each.value
        for each in (
            view.prompts.history,
            view.prompts.diff,
            view.results.summary,
            view.run_form.others,
            *view.results.rows.children,
        )
    ]
    page = re.sub(
        r'alt="[^"]*"|title="[^"]*"|aria-label="[^"]*"', "", "".join([*drawn, static_html(lab.controller, "", "uid")])
    )
    page = re.sub(r"<style[^>]*>.*?</style>", "", page, flags=re.DOTALL)
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert '"><' not in re.sub(
        r'(class|dir|tabindex|role|scope)="[^"<>]*"|<div[^<>]*>|<t[hd][^<>]*>|<span[^<>]*>', "", page
    )
    view.close()


def test_the_static_transcript_has_prompts_figures_and_replies(platform: LabPlatform, lab: PromptLab) -> None:
    empty = static_html(lab.controller, "", "uid")
    assert "Prompt lab of acme~writer. There is no variant yet." in empty
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks=["kind"], progress=False)
    for html_text in (empty, static_html(lab.controller, "", "uid")):
        assert re.match(r'<div class="uid-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html_text)
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", static_html(lab.controller, "", "uid"), flags=re.DOTALL)
    for part in ("Prompt lab of acme~writer", "Be kind.", "1 of 1", "one", "Be kind.: one"):
        assert part in text


def test_only_the_first_inputs_are_drawn(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run([f"question {n}" for n in range(MAX_ROWS + 5)], concurrency=16, progress=False)
    view = LabView(lab.controller)
    until(lambda: len(view.results.rows.children) == MAX_ROWS)
    assert "5 more inputs are in lab.results" in words(view.results.more)
    view.close()


def test_an_agent_that_cannot_be_read_is_an_error_in_the_form(platform: LabPlatform) -> None:
    lab = PromptLab(platform, agent="acme~nobody", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(lab.controller)
    until(lambda: "Agent not found" in words(view.status["form"]))
    view.close()
    without = PromptLab(platform, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    view = LabView(without.controller)
    assert view.form.apply.disabled
    view.close()


def test_the_lab_works_after_its_form_is_closed(lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.close()
    view.close()
    assert lab.run(["one"], progress=False)["status"].tolist() == ["answered"]


def test_the_form_is_labelled(view: LabView) -> None:
    fields = [each for each in walk(view) if "ab-field" in each._dom_classes]
    assert len(fields) == 15
    assert all(each.description for each in fields)
    buttons = [each for each in walk(view) if type(each).__name__ == "Button"]
    assert {each.description for each in buttons} == {
        "Apply to the agent",
        "Add as variant",
        "Copy to the form",
        "Run",
        "Stop",
        "Save",
    }
    assert all(each.tooltip for each in buttons)


def walk(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
