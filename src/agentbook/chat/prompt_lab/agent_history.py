"""The versions of a lab's agent: committed, published, listed and compared."""

from __future__ import annotations

from typing import Any

from ...api.calls import ref
from ...evaluation.configurator import READY_TIMEOUT_S
from ...evaluation.offers import model_names
from ...evaluation.variant import Variant
from ...evaluation.versions import Version, read_versions
from ...events import loop
from .controller import LabController
from .diff import PromptDiff


class AgentHistory:
    """What `PromptLab` does with the versions of its agent."""

    def __init__(self, controller: LabController) -> None:
        self._controller = controller

    def apply(self, variant: str | Variant, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Configure the agent permanently, by one configure-llm call once it is READY.

        Parameters
        ----------
        variant : str or Variant
        ready_timeout_s : float
            Seconds to wait for the agent to become READY; until then the platform
            answers 409.

        Returns
        -------
        Version
            The version that the agent now runs on.

        Raises
        ------
        NotReady
            If the agent was not READY in time; nothing was configured.
        ApiError, OutcomeUnknown, ValueError
        """
        work = self._controller.apply(self._controller.experiment.variant(variant), ready_timeout_s)
        return loop.run(work, operation="lab.apply")

    def undo_apply(self, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Restore what the last `apply` replaced, as a new version.

        Parameters
        ----------
        ready_timeout_s : float
            Seconds to wait for the agent to become READY.

        Returns
        -------
        Version

        Raises
        ------
        ValueError
            If nothing was applied, the earlier prompt cannot be read, or someone else
            has changed the agent since.
        NotReady, ApiError, OutcomeUnknown
        """
        return loop.run(self._controller.undo_apply(ready_timeout_s), operation="lab.undo_apply")

    def publish(self, variant: str | Variant, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Apply a variant, and publish the version that the agent then runs on.

        Parameters
        ----------
        variant : str or Variant
        ready_timeout_s : float
            Seconds to wait for the agent to become READY, and then for the version to
            be published: its validation may still run, or another request may be
            publishing it.

        Returns
        -------
        Version

        Raises
        ------
        NotOffered
            If the platform does not describe how to publish; the variant is applied.
        Conflict
            If the version failed its validation, or was not published in time; the
            variant is applied. A version that is already published stays published.
        NotReady, ApiError, OutcomeUnknown, ValueError
        """
        chosen = self._controller.experiment.variant(variant)
        return loop.run(self._controller.publish(chosen, ready_timeout_s), operation="lab.publish")

    def versions(self, agent: Any = None) -> list[Version]:
        """The versions of the agent, newest first; empty if this key cannot read them.

        Parameters
        ----------
        agent : str or Record, optional
            A different agent from the lab's.

        Raises
        ------
        ApiError, ConnectionFailed
            As ``client.agents.versions``, except that missing access is not an error.
        """
        agent_id = self._controller.require_agent() if agent is None else ref(agent)
        return loop.run(read_versions(self._controller.client, agent_id), operation="lab.versions") or []

    def models(self) -> list[str]:
        """The language models that a variant may name, the platform's default first.

        Empty if the platform does not list them.

        Raises
        ------
        ApiError, ConnectionFailed
        """
        return loop.run(model_names(self._controller.client), operation="lab.models")

    def diff(self, old: str | Variant | Version, new: str | Variant | Version) -> PromptDiff:
        """The difference between two prompts.

        Parameters
        ----------
        old, new : str, Variant or Version
            The name of a variant, or the number of a version of the lab's agent.

        Returns
        -------
        PromptDiff
            Its repr is a unified diff; ``.to_html()`` marks the words.

        Raises
        ------
        ValueError
            If there is no such name or number, or its prompt cannot be read.
        """
        sources = [loop.run(self._controller.configuration(each), operation="lab.diff") for each in (old, new)]
        return PromptDiff.between(*sources)
