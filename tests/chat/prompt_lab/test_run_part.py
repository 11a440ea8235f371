"""Runs in the form of the lab: inputs, Run and Stop."""

from __future__ import annotations

from datetime import UTC, datetime

from agentbook.api.errors import Unauthorized
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.widget import LabView
from agentbook.events import loop

from .form import add, hidden, replies, run, until, words
from .lab_platform import LabPlatform, refused


def test_run_fills_results_summary_and_chart(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.run_form.checks.value = "kind\nasks: /\\?/"
    run(view, "one?\n\n- two", "4 of 4 answered")
    until(lambda: len(view.results.table.view.snapshot()["rows"]) == 2)
    assert "Be kind.: one?" in replies(view)
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
    until(lambda: "quick reply" in replies(view))
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
    until(lambda: words(view.status["run"]) == "Waiting for 1 of 2 replies…")
    until(lambda: words(view.results.summary) == "The summary follows when the run has ended.")
    view.run_form.stop.click()
    until(
        lambda: "Stopped. The replies so far are kept" in words(view.status["run"]) and not view.run_form.run.disabled
    )
    assert platform.prompts()[-1] == "original"
    until(lambda: "stopped The agent may still finish" in replies(view))
    stopped = next(answer for answer in lab.answers if answer.status == "stopped")

    async def late() -> None:
        platform.answer(str(stopped.session_id), "late reply")

    loop.run(late(), 60)
    run(view, "quick\nslow", "2 of 2 answered")
    until(lambda: "late reply" in replies(view))
    assert platform.questions() == ["quick", "slow"]


def test_a_failed_variant_is_shown_with_its_reason(platform: LabPlatform, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    add(view, "kind", "Be kind.")
    run(view, "one", "0 of 1 answered, 1 failed")
    until(lambda: "failed Invalid API key" in replies(view))
    view.run_form.retry.value = True
    run(view, "one", "1 of 1 answered.")


def test_a_run_in_code_returns_when_its_chart_is_drawn(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], progress=False)
    view = LabView(lab.controller)
    try:
        lab.add_variant("brief", "Be brief.")
        lab.run(["one"], progress=False)
        view.flush()
        assert "Prompt lab. kind: 1 of 1 answered" in view.results.image.value
        assert "brief: 1 of 1 answered" in view.results.image.value
    finally:
        view.close()


def test_typed_text_stays_and_checks_from_code_run_again(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks={"kind": "kind", "mine": lambda reply: True}, progress=False)
    until(lambda: view.run_form.inputs.value == "one" and view.run_form.checks.value == "kind: kind")
    run(view, view.run_form.inputs.value, "1 of 1 answered")
    assert set(lab.checks) == {"mine", "kind"}, "pressing Run must not drop a check"
    view.run_form.inputs.value = "typed"
    lab.run(["two"], progress=False)
    until(lambda: len(view.results.table.view.snapshot()["rows"]) == 2)
    assert view.run_form.inputs.value == "typed"
    view.run_form.inputs.value = ""  # cleared, to write something else
    add(view, "brief", "Be brief.")
    assert view.run_form.inputs.value == ""


def test_prices_that_are_typed_after_a_run_show_what_it_cost(platform: LabPlatform, view: LabView) -> None:
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    add(view, "kind", "Be kind.")
    run(view, "one\ntwo", "2 of 2 answered")
    until(lambda: "2 of 2" in words(view.results.summary))
    assert "cost" not in words(view.results.summary)
    view.run_form.prices.value = "small: dear"
    until(lambda: "“small: dear” should look like" in words(view.status["run"]))
    view.run_form.prices.value = "small: 10000, 10000"
    until(lambda: "The existing replies cost 2." in words(view.status["run"]))
    until(lambda: "cost" in words(view.results.summary))


def test_what_replies_cost_is_not_said_where_a_model_has_no_price(platform: LabPlatform, view: LabView) -> None:
    """Neither as 0 nor as a part of the sum."""
    platform.usage = {"usage": {"prompt_tokens": 60, "model": "small"}}
    add(view, "kind", "Be kind.")
    run(view, "one", "1 of 1 answered")
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "large"}}
    run(view, "one\ntwo", "2 of 2 answered")
    view.run_form.prices.value = "medium: 10000, 10000"
    until(lambda: "large" in words(view.status["run"]))
    view.run_form.prices.value = "large: 10000, 10000"
    until(lambda: "cost" in words(view.results.summary))
    assert "small" in words(view.status["run"])
    assert words(view.results.summary).rstrip().endswith("–")


def test_rows_of_a_file_fill_names_in_braces(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.run_form.inputs.value = "Explain {{topic}}."
    content = b"topic\ntides\nrain\n"
    about = {"type": "text/csv", "size": len(content), "last_modified": datetime.now(UTC)}
    view.run_form.upload.value = ({"name": "topics.csv", "content": memoryview(content), **about},)
    until(lambda: "2 rows with topic. The first message: “Explain tides.”" in words(view.run_form.rows))
    run(view, "Explain {{topic}}.", "2 of 2 answered")
    assert sorted(platform.questions()) == ["Explain rain.", "Explain tides."]
    view.run_form.inputs.value = "Explain {{subject}}."
    until(lambda: "subject" in words(view.run_form.rows) and "ab-failed" in view.run_form.rows.value)
    run(view, "Explain {{subject}}.", "subject")
    assert len(platform.questions()) == 2
