"""A version is published although another request, or its validation, is in the way."""

from __future__ import annotations

import pytest

from agentbook.api.errors import Conflict, OutcomeUnknown
from agentbook.chat.prompt_lab.prompt_lab import PromptLab

from .lab_platform import LabPlatform, refused

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


def test_a_lost_reply_is_followed_by_a_call_that_shows_what_came_of_it(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lost = OutcomeUnknown("the reply was lost", operation="agents.publish")
    platform.publish_refusals = [lost, refused(Conflict, 409, "Version is already published")]
    assert lab.publish("kind").system_prompt == "Be kind."
    assert attempts(platform) == 2


def test_a_version_that_failed_its_validation_is_not_tried_again(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    version = lab.apply("kind")
    platform.history[platform.find("acme~writer")][-1]["validation"] = "FAILED"
    platform.publish_refusals = [refused(Conflict, 409, NOT_VALIDATED) for _ in range(2)]
    with pytest.raises(
        Conflict, match=rf"runs on version {version.number}, .* \(its validation failed\): Cannot publish"
    ):
        lab.publish("kind")
    assert attempts(platform) == 1


def test_a_version_that_is_not_published_in_time_says_so(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.apply("kind")
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (3600.0,))
    platform.publish_refusals = [refused(Conflict, 409, BEING_PUBLISHED)]
    with pytest.raises(
        Conflict, match=r"not within 60 s\): Version is being published, try again later\. Inspect"
    ) as e:
        lab.publish("kind", ready_timeout_s=60)
    assert e.value.request_id == "req-9"


def test_other_conflicts_are_raised_as_they_are(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    platform.publish_refusals = [refused(Conflict, 409, "Something else")]
    with pytest.raises(Conflict, match="Something else"):
        lab.publish("kind")
    assert attempts(platform) == 1


def test_an_agent_without_a_version_has_nothing_to_publish(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~new")
    lab.agent = "acme~new"
    lab.add_variant("now")
    with pytest.raises(ValueError, match="acme~new has no version that could be published"):
        lab.publish("now")
