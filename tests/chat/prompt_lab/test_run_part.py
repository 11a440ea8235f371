"""Runs in the form of the lab: inputs, Run and Stop."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentbook.api.errors import Unauthorized
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView
from agentbook.events import loop

from .form import add, hidden, replies, run, until, words
from .lab_platform import LabPlatform, refused


def test_run_fills_results_summary_and_chart(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.run.checks.value = "kind\nasks: /\\?/"
    run(view, "one?\n\n- two", "4 of 4 answered")
    until(lambda: len(view.results.table._view.snapshot()["rows"]) == 2)
    assert "Be kind.: one?" in replies(view)
    assert words(view.results.summary).count("2 of 2") >= 3  # answered, twice, and a check
    assert words(view.results.summary).count("1 of 2") >= 1  # the other check
    assert 'alt="Prompt lab. kind: 2 of 2 answered' in view.results.image.value
    assert "data:image/svg+xml;base64," in view.results.image.value
    assert (hidden(view.run.bar), hidden(view.run.stop), view.run.run.disabled) == (True, True, False)
    assert lab.inputs == ["one?", "two"]
    assert list(lab.checks) == ["contains kind", "asks"]
    assert "restored after" in words(view.variants.versions.history)


def test_only_selected_variants_run_and_answered_questions_are_skipped(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    view.variants.ticks["kind"].value = False
    run(view, "one", "1 of 1 answered")
    assert platform.configured()[0] == "Be brief."
    view.variants.ticks["kind"].value = True
    run(view, "one", "2 of 2 answered")
    assert platform.questions() == ["one", "one"]
    view.variants.ticks["kind"].value = view.variants.ticks["brief"].value = False
    run(view, "one", "No variant is selected")
    add(view, "third", "Be short.")
    until(lambda: "No variant is selected" not in words(view.form.status["run"]))  # it may be mended


def test_the_judge_is_followed_verdict_by_verdict(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.add_agent("acme~judge", system_prompt="judge")

    def reply(settings: Any, text: str) -> str | None:
        if settings["system_prompt"] != "judge":
            return text
        return None if "slow" in text else "I cannot say." if "odd" in text else '{"pass": true}'

    platform.reply = reply
    lab.add_variant("now")
    until(lambda: "now" in view.variants.ticks)
    view.run.checks.value = "judge acme~judge: It is polite."
    view.run.inputs.value = "fine\nodd\nslow"
    view.run.run.click()
    until(lambda: words(view.form.status["run"]) == "Asking the judge: 2 of 3 verdicts, 1 undecided…")
    view.run.stop.click()
    until(lambda: not view.form.busy)
    platform.reply = lambda settings, text: None if "odd" in text else '{"pass": true}'
    view.run.run.click()  # what was undecided is asked again
    until(lambda: words(view.form.status["run"]) == "Asking the judge: 2 of 3 verdicts…")
    view.run.stop.click()
    until(lambda: not view.form.busy)


def test_stop_keeps_replies_and_run_continues(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.reply = lambda configuration, text: None if text == "slow" else "quick reply"
    add(view, "kind", "Be kind.")
    view.run.inputs.value = "quick\nslow"
    view.run.run.click()
    until(lambda: "quick reply" in replies(view))
    assert (hidden(view.run.stop), hidden(view.run.bar), view.run.run.disabled, view.variants.apply.disabled) == (
        False,
        False,
        True,
        True,
    )
    assert (view.run.bar.value, view.run.bar.max) == (1, 2)
    until(lambda: words(view.form.status["run"]) == "Waiting for 1 of 2 replies…")
    until(lambda: words(view.results.summary) == "The summary follows when the run has ended.")
    view.run.stop.click()
    until(
        lambda: "Stopped. The replies so far are kept" in words(view.form.status["run"]) and not view.run.run.disabled
    )
    assert platform.prompts()[-1] == "original"
    until(lambda: "stopped The agent may still finish" in replies(view))
    stopped = next(answer for answer in lab._lab.answers if answer.status == "stopped")

    async def late() -> None:
        platform.answer(str(stopped.session_id), "late reply")

    loop.run(late(), 60)
    run(view, "quick\nslow", "2 of 2 answered")
    until(lambda: "late reply" in replies(view))
    assert platform.questions() == ["quick", "slow"]


def test_the_summary_from_before_a_run_says_so(platform: LabPlatform, view: LabView) -> None:
    platform.reply = lambda settings, text: None if text == "slow" else "quick reply"
    add(view, "kind", "Be kind.")
    run(view, "quick", "1 of 1 answered")
    until(lambda: "1 of 1" in words(view.results.summary))
    view.run.inputs.value, view.run.concurrency.value = "quick\nslow\nlast", 1
    view.run.run.click()
    until(lambda: "follows" in words(view.results.summary))
    assert "1 of 1" in words(view.results.summary)
    assert view.run.progress.startswith("1 of 3"), "with the question that was not asked yet"
    view.run.stop.click()
    until(lambda: "follows" not in words(view.results.summary) and "1 of" in words(view.results.summary))


def test_a_failed_variant_is_shown_with_its_reason(platform: LabPlatform, view: LabView) -> None:
    platform.refusals = [refused(Unauthorized, 401, "Invalid API key")]
    add(view, "kind", "Be kind.")
    run(view, "one", "0 of 1 answered, 1 failed")
    until(lambda: "failed Invalid API key" in replies(view))
    view.run.retry.value = True
    run(view, "one", "1 of 1 answered.")


def test_a_run_in_code_returns_when_its_chart_is_drawn(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], progress=False)
    view = LabView(lab)
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
    until(lambda: view.run.inputs.value == "one" and view.run.checks.value == '"kind": kind\nfunction: mine')
    run(view, view.run.inputs.value, "1 of 1 answered")
    assert set(lab.checks) == {"mine", "kind"}, "pressing Run must not drop a check"
    view.run.inputs.value = "typed"
    lab.run(["two"], progress=False)
    until(lambda: len(view.results.table._view.snapshot()["rows"]) == 2)
    assert view.run.inputs.value == "typed"
    view.run.inputs.value = ""  # cleared, to write something else
    add(view, "brief", "Be brief.")
    assert view.run.inputs.value == ""


def test_a_run_has_the_prices_of_the_environment(
    platform: LabPlatform, view: LabView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown cost is neither 0 nor left out of the sum."""
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    add(view, "kind", "Be kind.")
    run(view, "one", "1 of 1 answered")
    until(lambda: "1 of 1" in words(view.results.summary))
    assert "cost" not in words(view.results.summary)
    (tmp_path / "prices.json").write_text('{"large": [10000, 10000]}')
    monkeypatch.setenv("AGENTBOOK_PRICES", str(tmp_path / "prices.json"))
    platform.usage["usage"]["model"] = "large"
    run(view, "one\ntwo", "2 of 2 answered")
    until(lambda: "cost" in words(view.results.summary))
    assert words(view.results.summary).rstrip().endswith("–")
    view.lab.price({"small": (10_000, 10_000)})
    until(lambda: words(view.results.summary).rstrip().endswith("2"))


def upload(view: LabView, content: bytes) -> None:
    about = {"type": "text/csv", "size": len(content), "last_modified": datetime.now(UTC)}
    view.run.upload.value = ({"name": "topics.csv", "content": memoryview(content), **about},)


def test_rows_of_a_file_fill_names_in_braces(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    view.run.inputs.value = "Explain {{topic}}."
    upload(view, b"topic\ntides\nrain\n")
    until(lambda: "2 inputs from rows (columns: topic). The first message: “Explain tides.”" in words(view.run.rows))
    run(view, "Explain {{topic}}.", "2 of 2 answered")
    assert sorted(platform.questions()) == ["Explain rain.", "Explain tides."]
    view.run.inputs.value = "Explain {{subject}}."
    until(lambda: "subject" in words(view.run.rows) and "ab-failed" in view.run.rows.value)
    run(view, "Explain {{subject}}.", "subject")
    assert len(platform.questions()) == 2


def test_rows_with_inputs_of_their_own_are_asked_once(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    upload(view, b"input,expected\none,kind\ntwo,rude\nthree,kind\n")
    until(lambda: "3 inputs from rows (columns: expected)" in words(view.run.rows))
    view.run.checks.value = "contains {{expected}}"
    for _ in range(2):  # what was asked is no template, to be filled from each row again
        view.run.run.click()
        until(lambda: "3 of 3 answered" in words(view.form.status["run"]) and not view.form.busy)
        until(lambda: "2 of 3" in words(view.results.summary))
        assert view.run.inputs.value == ""
        assert "3 inputs from rows" in words(view.run.rows)
    assert sorted(platform.questions()) == ["one", "three", "two"]
    rows = [{"topic": "tides", "expected": "kind"}, {"topic": "rain", "expected": "rude"}]
    lab.run("Explain {{topic}}.", rows=rows, progress=False)  # in code: the form shows its inputs instead
    until(lambda: view.run.inputs.value == "Explain tides.\nExplain rain." and view.run.rows.value == "")
    run(view, view.run.inputs.value, "2 of 2 answered")
    assert len(platform.questions()) == 5, "no question is asked again"


def test_no_check_runs_on_the_thread_that_draws(lab: PromptLab, view: LabView, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def check(reply: str) -> bool:
        threads.append(threading.current_thread())
        return True

    monkeypatch.setitem(vars(sys.modules["__main__"]), "check", check)
    monkeypatch.setattr(check, "__module__", "__main__")
    add(view, "kind", "Be kind.")
    run(view, "one\ntwo", "2 of 2 answered")
    until(lambda: not view.form.busy)
    view.run.checks.value = "function: check"
    until(lambda: len(threads) == 2)
    lab.check({})
    view.run.run.click()
    until(lambda: len(threads) == 4)

    async def drawing() -> threading.Thread:
        return threading.current_thread()

    assert loop.run(drawing()) not in threads


def test_checks_are_applied_as_they_are_typed_and_a_wrong_line_is_named(lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    run(view, "one", "1 of 1 answered")
    view.run.checks.value = "kind\nnot: sorry\nwords <= 80\nshouted: /^BE/i\nsteps: called run_sql"
    until(lambda: len(lab.checks) == 5 and len(lab._lab.answers[0].verdicts) == 5)
    assert [lab._lab.answers[0].verdicts[name].passed for name in list(lab.checks)[:4]] == [True] * 4
    assert not lab._lab.answers[0].verdicts["called run_sql"].passed
    view.run.checks.value = "kind\n/(/"
    until(lambda: "ab-failed" in view.run.wrong.value and "/(/" in words(view.run.wrong))
    assert len(lab.checks) == 5
    view.run.checks.value = "kind"
    until(lambda: len(lab.checks) == 1 and view.run.wrong.value == "")


def test_the_form_saves_and_loads_repeats_and_odd_inputs(
    platform: LabPlatform, lab: PromptLab, view: LabView, tmp_path: Path
) -> None:
    add(view, "v", "Be brief.")
    view.run.repeats.value = 3
    view.results.path.value = str(tmp_path / "saved.yaml")
    view.results.save.click()
    until(lambda: "saved.yaml" in words(view.form.status["file"]))
    saved = PromptLab.load(tmp_path / "saved.yaml", platform)  # type: ignore[arg-type]
    assert saved._lab.repeats == 3
    odd = ["- {{ unknown }}", "1. a\r\nb", "a\u2028b⏎"]
    inputs = ["- {% raw %}{{ unknown }}{% endraw %}", *odd[1:]]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"variants": {"v": {"system_prompt": "x"}}, "inputs": inputs}))
    platform.calls.clear()
    view.results.path.value = str(path)
    view.results.load.click()
    until(lambda: not hidden(view.results.loading.widget))
    view.results.loading.confirm.click()
    until(lambda: "Loaded" in words(view.form.status["file"]) and view.run.repeats.value == 1)
    view.run.run.click()
    until(lambda: "3 of 3 answered" in words(view.form.status["run"]))
    assert set(platform.questions()) == set(odd)


def test_a_line_in_the_form_may_leave_the_judge_to_the_lab(lab: PromptLab, view: LabView) -> None:
    lab.judge.agent = "acme~judge"
    view.run.checks.value = "judge: It says Hello."
    until(lambda: len(lab.checks) == 1)
    assert lab.checks["judged: It says Hello."].judges == ("acme~judge",)


def test_a_form_that_edits_a_prompt_with_examples_keeps_them_once(lab: PromptLab, view: LabView) -> None:
    examples = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    lab.add_variant("v", "Be brief.", messages=examples)
    view.variants._edit("v")
    view.variants.fields["system_prompt"].value += " Now."
    view.variants._save_edited()
    assert str(lab.variants["v"].instructions).count("<user>\nHi\n</user>") == 1
    assert str(lab.variants["v"].instructions).endswith("Now.")
