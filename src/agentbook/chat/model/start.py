"""What an empty panel shows: who the agent is, or why no session can start.

A panel checks this when it is shown, so that a misspelt name, an archived agent or a
platform that is down is noticed before the first message. It does not block anything:
the platform has the last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._text import nearest, shorten
from ...api.calls import ref
from ...api.errors import (
    AgentbookError,
    ApiError,
    ConnectionFailed,
    Forbidden,
    NotFound,
    ServerError,
    Unauthorized,
)
from ...client import NAME_FIELDS, get_agent, name_of
from .session_list import SessionEntry
from .user_errors import UserError, explain

if TYPE_CHECKING:
    from ...client import AsyncClient

PROMPTS = 3
MAX_PROMPT = 300
MAX_DESCRIPTION = 600
# For agents without messages of their own.
GENERIC = ("What can you do?", "Show me an example.")
MAX_NAMES = 200  # compared with a misspelt one


async def read_agent(client: AsyncClient, agent: Any) -> tuple[Mapping[str, Any] | None, UserError | None]:
    """An agent's record, or None if it cannot be read; and why no session can start.

    There is no reason if the agent may be usable all the same.

    Examples
    --------
    >>> from agentbook.events import loop
    >>> record, error = loop.run(read_agent(client.asynchronous(), "giude"))
    >>> print(error.text)
    Agent 'giude' was not found: it does not exist, or this credential cannot see it.
    Did you mean 'guide'? Otherwise check the name or id; client.agents.list() shows
    what the credential can see.
    """
    try:
        record = await get_agent(client, agent)
        if record is agent and record.get("is_archived"):  # it may be out of date
            record = await get_agent(client, ref(record))
    except NotFound as error:
        names = client.agents.list(limit=MAX_NAMES)
        return None, await _not_found(error, "Agent", agent, names, "client.agents.list()")
    except (Forbidden, Unauthorized, ConnectionFailed, ServerError) as error:
        return None, explain(error)
    except AgentbookError:
        return None, None
    return record, _archived(record, agent) if record.get("is_archived") else None


async def check_workspace(client: AsyncClient, workspace: Any) -> UserError | None:
    """Why no session can start in a workspace; None if there is no known reason.

    A key that may only chat in a workspace cannot read its contexts, so failing to read
    them proves nothing.
    """
    if not isinstance(workspace, str):
        return None
    try:
        async for _ in client.workspaces.contexts(workspace, limit=1):
            break
    except NotFound as error:
        names = client.me.workspaces(limit=MAX_NAMES)
        return await _not_found(error, "Workspace", workspace, names, "client.me.workspaces()")
    except (Unauthorized, ConnectionFailed, ServerError) as error:
        return explain(error)
    except AgentbookError:
        pass
    return None


async def start_errors(client: AsyncClient, workspace: Any, agents: Iterable[Any]) -> list[UserError]:
    """The reasons why sessions cannot start in a workspace with these agents."""
    reads = asyncio.gather(*(read_agent(client, agent) for agent in agents))
    records, workspace_error = await asyncio.gather(reads, check_workspace(client, workspace))
    return distinct([*(error for _, error in records), workspace_error])


def distinct(errors: Iterable[UserError | None]) -> list[UserError]:
    """The errors, without repeats of the same text.

    Examples
    --------
    >>> distinct([None, UserError("One."), UserError("Two."), UserError("One.", "r1")])
    [UserError(text='One.', request_id=None), UserError(text='Two.', request_id=None)]
    """
    by_text: dict[str, UserError] = {}
    for error in errors:
        if error is not None:
            by_text.setdefault(error.text, error)
    return list(by_text.values())


def _archived(record: Mapping[str, Any], agent: Any) -> UserError:
    """The sentence for an agent that is archived; `agent` is what the person passed."""
    name = record.get("full_name") or name_of(record) or ref(agent)
    return UserError(
        f"Agent {name!r} is archived, so no session can start with it. Use another agent: client.agents.list() shows "
        f"those that are not. Or have it restored by someone who may change it, signed in with ab.sign_in: "
        f"client.agents.update({name!r}, is_archived=False)."
    )


async def _not_found(error: ApiError, kind: str, name: Any, records: Any, listing: str) -> UserError:
    """The sentence for an entity that is hidden or absent, with the nearest name."""
    names: dict[str, None] = {}
    try:
        async for record in records:
            names.update((record[field], None) for field in NAME_FIELDS if record.get(field))
    except AgentbookError:
        names = {}  # the sentence does without them
    match = nearest(str(name), [other for other in names if other != name])
    advice = f"Did you mean {match!r}? Otherwise check" if match else "Check"
    return UserError(
        f"{kind} {name!r} was not found: it does not exist, or this credential cannot see it. "
        f"{advice} the name or id; {listing} shows what the credential can see.",
        error.request_id,
    )


@dataclass(frozen=True, slots=True)
class Welcome:
    """An agent's name and description, messages to begin with, and the last session."""

    agent_name: str
    description: str = ""
    prompts: tuple[str, ...] = GENERIC
    last: SessionEntry | None = None


def welcome_of(record: Mapping[str, Any]) -> Welcome:
    """The welcome from an agent's record; generic messages if it has none of its own.

    The specification does not show the record: its own are ``starter_prompts``, as the
    embedded service names them.

    Examples
    --------
    >>> welcome_of({"name": "guide", "starter_prompts": ["What is a turn?"]}).prompts
    ('What is a turn?',)
    """
    description = record.get("description")
    values = record.get("starter_prompts")
    texts = [value.strip() for value in values if isinstance(value, str)] if isinstance(values, list) else []
    prompts = dict.fromkeys(text for text in texts if 0 < len(text) <= MAX_PROMPT) or GENERIC
    return Welcome(
        name_of(record),
        shorten(description, MAX_DESCRIPTION) if isinstance(description, str) else "",
        tuple(prompts)[:PROMPTS],
    )
