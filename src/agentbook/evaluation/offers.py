"""What a platform offers beyond the specification; read from its openapi.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..api.discovery import field_values, offers_fields, require_fields
from ..api.endpoints.agent_versions import CONFIGURE_LLM
from ..api.endpoints.sessions import START
from ..api.errors import ApiError, NotOffered
from .variant import PARAMETERS, Variant
from .versions import DRAFT, Version

if TYPE_CHECKING:
    from ..client import AsyncClient


async def require_parameters(client: AsyncClient, variants: Iterable[Variant]) -> None:
    """Check that configure-llm accepts the parameters that the variants set.

    Raises
    ------
    NotOffered
        If it does not; the message names the parameters.
    """
    names = {name for variant in variants for name in PARAMETERS if name in variant.settings}
    if names:
        require_fields(await client.openapi(), "POST", CONFIGURE_LLM, sorted(names), name="agents.configure_llm")


async def offers_drafts(client: AsyncClient) -> bool:
    """Whether a session can run on a draft, so that a run need not touch the agent."""
    try:
        openapi = await client.openapi()
    except ApiError:  # a platform without the document offers nothing beyond the specification
        return False
    return DRAFT in field_values(openapi, "POST", CONFIGURE_LLM, "type") and offers_fields(
        openapi, "POST", START, ["agent_version_id"]
    )


async def readable_parameters(client: AsyncClient, versions: list[Version] | None) -> list[Version] | None:
    """The versions, without parameters that configure-llm does not accept.

    A platform may show a version's model without letting it be chosen.
    """
    shown = {name for version in versions or () for name in PARAMETERS if name in version.settings}
    if not shown:
        return versions
    openapi = await client.openapi()
    hidden = {name for name in shown if not offers_fields(openapi, "POST", CONFIGURE_LLM, [name])}
    return [
        replace(version, settings={name: value for name, value in version.settings.items() if name not in hidden})
        for version in versions or ()
    ]


async def model_names(client: AsyncClient) -> list[str]:
    """The language models that a variant may name; empty if the platform lists none."""
    try:
        return [str(model["id"]) async for model in client.agents.models()]
    except NotOffered:
        return []
