"""A judge that is created in the form."""

from __future__ import annotations

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import add, run, until, words
from .lab_platform import LabPlatform


def test_a_judge_is_created_and_asked(platform: LabPlatform, lab: PromptLab) -> None:
    platform.offered = ("max_tokens",)
    platform.reply = lambda settings, text: (
        '{"reason": "It greets.", "pass": true}' if "You judge" in settings.get("system_prompt", "") else "Hello."
    )
    view = LabView(lab)
    try:
        until(lambda: "acme~writer" in view.run.judge.fields["name"].options)
        add(view, "kind", "Be kind.")
        view.run.judge.add.click()
        until(lambda: "ab-failed" in view.form.status["judge"].value)
        for criterion, says in (("It greets.", True), ("It is short.", False)):  # the second asks the same judge
            view.run.judge.fields["criterion"].value, view.run.judge.fields["name"].value = criterion, "judge"
            view.run.judge.add.click()
            until(lambda: criterion in view.run.checks.value and not view.form.busy)  # noqa: B023
            until(lambda: ("created" in words(view.form.status["judge"])) is says)  # noqa: B023
        assert [call[0] for call in platform.calls] == ["create", "configure"]
        assert platform.calls[1][2]["max_tokens"] > 0, "a judge that runs on and on holds up the run"
        run(view, "one", "1 of 1 answered")
        assert [grade.passed for grade in lab._lab.answers[0].verdicts.values()] == [True, True]
    finally:
        view.close()
