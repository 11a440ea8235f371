"""Publishes a version, and waits for obstacles that are only temporary.

Specification: "States and transitions", rule 2.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from ..api.errors import Conflict, OutcomeUnknown
from .configurator import pause_before_retry
from .versions import Version

if TYPE_CHECKING:
    from ..client import AsyncClient

_ALREADY = re.compile("already published", re.IGNORECASE)  # the desired state
# Another request may fail, and a validation may still be running.
_PASSING = re.compile("being published|validation", re.IGNORECASE)


async def publish_version(client: AsyncClient, agent: str, version: Version, timeout_s: float) -> Version:
    """Publish a version of an agent, unless it is published already.

    If it is refused because another request is publishing it or its validation has not
    passed yet, further calls follow within `timeout_s` seconds. The same applies to a
    call whose reply was lost: a version is published only once.

    Raises
    ------
    ValueError
        If the agent has no version.
    Conflict
        If the version failed its validation, or `timeout_s` was not enough.
    NotOffered, ApiError, OutcomeUnknown
    """
    if version.id is None:
        raise ValueError(f"{agent} has no version that could be published: publish a variant with a system prompt.")
    deadline, attempts = time.monotonic() + timeout_s, 0
    while True:
        try:
            return Version.from_record(await client.agents.publish(agent, version.id))
        except Conflict as refusal:
            if _ALREADY.search(refusal.message):
                return version
            if not _PASSING.search(refusal.message):
                raise
            if await _validation(client, agent, version.id) == "FAILED":
                raise _explained(refusal, agent, version, "its validation failed") from refusal
            if not await pause_before_retry(attempts, deadline):
                raise _explained(refusal, agent, version, f"not within {timeout_s:g} s") from refusal
        except OutcomeUnknown:
            if not await pause_before_retry(attempts, deadline):
                raise
        attempts += 1


async def _validation(client: AsyncClient, agent: str, version_id: str) -> Any:
    """The state of a version's validation; None if the platform does not report it."""
    async for record in client.agents.versions(agent, type="COMMITTED"):
        if record.get("id") == version_id:
            return record.get("validation")
    return None


def _explained(refusal: Conflict, agent: str, version: Version, reason: str) -> Conflict:
    return Conflict(
        f"lab.publish: {agent} runs on version {version.label}, which was not published ({reason}): "
        f"{refusal.message.rstrip('.')}. Inspect it with client.agents.versions({agent!r}); lab.publish() tries again.",
        operation="agents.publish",
        status=refusal.status,
        error=refusal.error,
        message=refusal.message,
        request_id=refusal.request_id,
    )
