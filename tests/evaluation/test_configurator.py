"""How agents are configured for a run, and restored after it."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.api.errors import Conflict, NotFound, ServerError
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.platform import NotReady
from chat.prompt_lab.lab_platform import LabPlatform, not_ready, refused


def test_apply_is_one_call_and_waits_until_the_agent_is_ready(platform: LabPlatform, lab: PromptLab) -> None:
    platform.refusals = not_ready(3)
    lab.add_variant("kind", "Be kind.", version="2.0.0")
    version = lab.apply("kind")
    assert (version.number, version.system_prompt) == ("2.0.0", "Be kind.")
    assert len(platform.configured()) == 4, "refused three times, accepted once"
    assert platform.prompts() == ["original", "Be kind."]
    assert [each.label for each in lab.versions()] == ["2.0.0", "1.0.0"]


def test_the_first_question_waits_until_the_agent_is_ready(platform: LabPlatform, lab: PromptLab) -> None:
    agent = platform.records[platform.find("acme~writer")]
    states = ["CONFIGURING", "CONFIGURING", "READY"]
    polled: list[str] = []
    get = platform.agents.get

    async def get_slowly(which: Any) -> Any:
        if platform.configured():
            agent["setup_state"] = states.pop(0) if len(states) > 1 else "READY"
            polled.append(agent["setup_state"])
            assert platform.questions() == []
        return await get(which)

    platform.agents.get = get_slowly  # type: ignore[method-assign]
    lab.add_variant("kind", "Be kind.")
    lab.apply("kind")
    assert polled == ["CONFIGURING", "CONFIGURING", "READY"]


def test_an_agent_that_never_becomes_ready_raises(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (0.02,))
    platform.refusals = not_ready(10_000)
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(NotReady, match=r"acme~writer was not READY within 0\.1 s"):
        lab.apply("kind", ready_timeout_s=0.1)
    frame = lab.run(["hello"], ready_timeout_s=0.1, progress=False)
    assert frame.loc[0, "status"] == "failed"
    assert "not READY" in frame.loc[0, "reason"]
    assert platform.prompts() == ["original"]


def test_other_conflicts_are_not_retried(platform: LabPlatform, lab: PromptLab) -> None:
    platform.refusals = [refused(Conflict, 409, "Version is already published")]
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(Conflict, match="already published"):
        lab.apply("kind")
    assert len(platform.configured()) == 1


def test_a_configuration_that_cannot_be_read_is_not_overwritten(platform: LabPlatform, lab: PromptLab) -> None:
    platform.hides_prompts = True
    own = platform.add_agent("acme~own", system_prompt="mine")
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(ValueError, match=r"configuration of acme~writer cannot be read.*restore=False"):
        lab.run(["hello"], progress=False)
    assert (platform.calls, lab._lab.answers) == ([], [])
    lab.add_variant("now")
    assert lab.run(variants=["now"], progress=False)["status"].tolist() == ["answered"], (
        "this variant configures nothing"
    )
    frame = lab.run(restore=False, progress=False)
    assert frame["reply"].tolist()[0] == "Be kind.: hello"
    assert platform.prompts() == ["original", "Be kind."]
    assert platform.prompts(own) == ["mine"]
    lab.add_variant("mode", mode="multi-turn")
    frame = lab.run(variants=["mode"], restore=False, progress=False)
    assert "cannot be read with this key" in frame.loc[0, "reason"]


def test_an_agent_whose_versions_cannot_be_read_is_not_overwritten(platform: LabPlatform, lab: PromptLab) -> None:
    def forbidden(agent: Any, *, limit: int | None = None) -> Any:
        raise refused(NotFound, 404, "Agent not found")

    platform.agents.versions = forbidden  # type: ignore[method-assign]
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(ValueError, match="Nothing was changed"):
        lab.run(["hello"], progress=False)
    assert platform.calls == []


def test_an_agent_without_a_configuration_keeps_the_last_one_with_a_warning(
    platform: LabPlatform, lab: PromptLab
) -> None:
    platform.add_agent("acme~new")
    lab.add_variant("kind", "Be kind.", agent="acme~new")
    with pytest.warns(UserWarning, match=r"acme~new keeps version .*it had none"):
        lab.run(["hello"], progress=False)


def test_without_restore_the_last_configuration_stays(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["hello"], restore=False, progress=False)
    assert platform.prompts() == ["original", "Be kind."]


def test_a_failed_restore_is_a_warning(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")

    def fail_later(settings: Any, text: str) -> str:
        platform.refusals = [refused(ServerError, 503, "Something went wrong")]
        return "hello"

    platform.reply = fail_later
    with pytest.warns(UserWarning, match="could not be restored"):
        lab.run(["hello"], progress=False)


# Publishing

# "Errors", 409
BEING_PUBLISHED = "Version is being published, try again later."
NOT_VALIDATED = "Cannot publish: validation has not passed"


def attempts(platform: LabPlatform) -> int:
    return sum(call[0] == "publish" for call in platform.calls)


@pytest.mark.parametrize("message", [BEING_PUBLISHED, NOT_VALIDATED])
def test_what_passes_by_itself_is_waited_for(platform: LabPlatform, lab: PromptLab, message: str) -> None:
    lab.add_variant("kind", "Be kind.")
    platform.publish_refusals = [refused(Conflict, 409, message) for _ in range(2)]
    assert lab.publish("kind").system_prompt == "Be kind."
    assert (attempts(platform), platform.prompts()) == (3, ["original", "Be kind."])


@pytest.mark.parametrize("message", [NOT_VALIDATED, "Something else"])
def test_what_does_not_pass_by_itself_is_not_tried_again(platform: LabPlatform, lab: PromptLab, message: str) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.apply("kind")
    platform.history[platform.find("acme~writer")][-1]["validation"] = "FAILED"
    platform.publish_refusals = [refused(Conflict, 409, message) for _ in range(2)]
    with pytest.raises(Conflict, match=message):
        lab.publish("kind")
    assert attempts(platform) == 1


def test_a_version_that_is_not_published_in_time_is_refused_as_the_platform_does(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.add_variant("kind", "Be kind.")
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (3600.0,))
    platform.publish_refusals = [refused(Conflict, 409, BEING_PUBLISHED)]
    with pytest.raises(Conflict, match="try again later"):
        lab.publish("kind", ready_timeout_s=60)


def test_an_agent_without_a_version_has_nothing_to_publish(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~new")
    lab.agent = "acme~new"
    lab.add_variant("now")
    with pytest.raises(ValueError, match="acme~new has no version that could be published"):
        lab.publish("now")
