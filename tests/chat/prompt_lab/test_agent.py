"""The new agent in the form of a lab that has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbook.api.errors import Conflict
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import add, hidden, run, typed, until, words
from .lab_platform import LabPlatform, refused


@pytest.fixture
def empty(platform: LabPlatform) -> PromptLab:
    return PromptLab(platform, follow=platform.follow)  # type: ignore[arg-type]


@pytest.fixture
def view(platform: LabPlatform, empty: PromptLab) -> Iterator[LabView]:
    platform.models = ("small", "large")
    platform.offered = ("model",)
    view = LabView(empty)
    until(lambda: view.agent.fields["model"].options == ("small", "large"))
    yield view
    view.close()


def create(view: LabView, name: str, prompt: str = "", model: str = "") -> None:
    view.agent.fields["name"].value, view.agent.fields["prompt"].value, view.agent.fields["model"].value = (
        name,
        prompt,
        model,
    )
    view.agent.create.click()


def test_an_empty_account_gets_an_agent_and_a_workspace(platform: LabPlatform, empty: PromptLab, view: LabView) -> None:
    assert "no agent yet" in words(view.head)
    assert (hidden(view.agent.widget), view.agent.fields["workspace"].value) == (False, "prompt-lab")
    create(view, "helper")
    until(
        lambda: (
            'ab.PromptLab(client, agent="acme~helper", workspace="acme~prompt-lab")' in words(view.form.status["form"])
        )
    )
    assert platform.calls == [("create workspace", "prompt-lab"), ("create", "helper", "LLM")]
    assert (empty.agent, empty.workspace) == ("acme~helper", "acme~prompt-lab")
    until(lambda: hidden(view.agent.widget) and "acme~helper in acme~prompt-lab" in words(view.head))
    assert "no versions yet" in words(view.variants.versions.history)
    add(view, "kind", "Be kind.")
    view.run.inputs.value = "one"
    view.run.run.click()
    until(lambda: not hidden(view.run.running.widget))
    view.run.running.confirm.click()
    until(lambda: "1 of 1 answered" in words(view.form.status["run"]))


def test_a_new_agent_runs_on_its_first_prompt(platform: LabPlatform, empty: PromptLab, view: LabView) -> None:
    view.agent.fields["workspace"].value = "trial"
    platform.workspace_names = ["acme~trial"]
    create(view, "helper", model="small")
    until(lambda: "A model needs a system prompt" in words(view.form.status["agent"]))
    create(view, " ", "Be kind.", "small")
    until(lambda: "needs a name" in words(view.form.status["agent"]))
    assert platform.calls == []
    create(view, "helper", "Be kind.", "small")
    until(lambda: "Created acme~helper" in words(view.form.status["form"]) and typed(view) == "Be kind.")
    assert [call[0] for call in platform.calls] == ["create", "configure"], "the workspace is there already"
    assert (empty.workspace, platform.history[platform.find("acme~helper")][0]["model"]) == ("acme~trial", "small")
    until(lambda: "(current)" in words(view.variants.versions.history))
    add(view, "brief", "Be brief.")
    run(view, "one", "1 of 1 answered")


def test_a_name_that_is_taken_is_said_beside_the_button(platform: LabPlatform, empty: PromptLab, view: LabView) -> None:
    platform.refusals = [refused(Conflict, 409, "An agent with this name exists")]
    create(view, "writer")
    until(lambda: "An agent with this name exists" in words(view.form.status["agent"]))
    assert (empty.agent, hidden(view.agent.widget)) == (None, False)


def test_a_first_version_that_fails_is_said_where_the_form_goes_on(
    platform: LabPlatform, empty: PromptLab, view: LabView
) -> None:
    configure = platform.agents.configure_llm

    async def refuse(agent: object, **settings: object) -> object:
        platform.agents.configure_llm = configure  # type: ignore[method-assign]
        raise refused(Conflict, 409, "no such model")

    platform.agents.configure_llm = refuse  # type: ignore[assignment, method-assign]
    create(view, "helper", "Be kind.")
    until(lambda: "Its first version failed" in words(view.form.status["form"]))
    assert "no such model" in words(view.form.status["form"])
    assert empty.agent == "acme~helper"


def test_variants_with_agents_of_their_own_need_no_other(platform: LabPlatform) -> None:
    lab = PromptLab(platform, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    lab.add_variant("kind", "Be kind.", agent="acme~writer")
    view = LabView(lab)
    assert hidden(view.agent.widget)
    assert "several agents in acme~lab" in words(view.head)
    view.close()


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
        assert [grade.passed for grade in lab.answers[0].verdicts.values()] == [True, True]
    finally:
        view.close()
