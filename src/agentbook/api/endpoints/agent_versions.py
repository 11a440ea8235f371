"""Versions of agents: configure, publish, list.

Specification: "Endpoints", Agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..calls import UNSET, Call, ListCall, acknowledgement, code_for, drop_unset, optional_ref, path, record
from ..discovery import discovered_field, offered, offered_fields
from ..record import Record

CONFIGURE_LLM = "/agents/{}/configure-llm"


def configure_llm(
    agent: Any,
    *,
    system_prompt: str,
    description: str,
    tools: Sequence[Mapping[str, Any]] = (),
    platform_tools: Sequence[str] = UNSET,
    mode: Literal["one-shot", "multi-turn"] = UNSET,
    summary: str | None = UNSET,
    version_number: str = UNSET,
    model: Any = UNSET,
    temperature: float | None = UNSET,
    max_tokens: int | None = UNSET,
    top_p: float | None = UNSET,
    type: Literal["EPHEMERAL", "COMMITTED"] = UNSET,
) -> Call[Record]:
    """Commit a new version of an LLM agent.

    The specification shows no field for `model` or the parameters after it. They are
    sent if the platform's openapi.yaml has them; the embedded service's does.

    Parameters
    ----------
    agent : str or Record
    system_prompt, description : str
    tools : sequence of mapping
        Each ``{"integration": str, "tools": [str, ...]}``.
    platform_tools : sequence of str, optional
        Built-in tools the agent may call. The wire name of this field is read from the
        platform's openapi.yaml, once.
    mode : {"one-shot", "multi-turn"}, optional
        The platform's default is ``one-shot``.
    summary : str or None, optional
        What changed.
    version_number : str, optional
        The platform's default is ``1.0.0``.
    model : str, Record or None, optional
        The language model; `models` lists those of the embedded service. None for the
        platform's own.
    temperature, top_p : float or None, optional
        Numbers from 0 to 2, and from 0 to 1. None for the model's own.
    max_tokens : int or None, optional
        At most this many tokens in an answer. None for the model's own limit.
    type : {"EPHEMERAL", "COMMITTED"}, optional
        ``EPHEMERAL`` adds a draft, which affects nothing else: only sessions that name
        it run on it.

    Returns
    -------
    Record
        The version, with its job.

    Raises
    ------
    NotOffered
        If the platform does not offer a field that is passed; nothing was sent.
    Conflict
        While the agent is not READY.
    InvalidInput, InsufficientScope, NotFound, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", configure-llm body; "States and transitions", rule 1.

    Examples
    --------
    >>> agent = client.agents.create("brief", template="LLM")
    >>> client.agents.configure_llm(
    ...     agent, system_prompt="Be brief.", description="Short").system_prompt
    'Be brief.'
    """
    body = drop_unset(
        system_prompt=system_prompt,
        description=description,
        tools=[dict(tool) for tool in tools],
        mode=mode,
        summary=summary,
        version_number=version_number,
    )
    call = Call(
        "agents.configure_llm",
        "POST",
        path("agents", agent, "configure-llm"),
        record,
        body=body,
        write=True,
        check=code_for("agents.versions", agent),
    )
    settings = {"temperature": temperature, "max_tokens": max_tokens, "top_p": top_p}
    beyond = drop_unset(model=optional_ref(model), **settings, type=type)
    call = offered_fields(call, CONFIGURE_LLM, beyond)
    if platform_tools is UNSET:
        return call
    return discovered_field(call, CONFIGURE_LLM, known=set(body), suffix="tools", value=list(platform_tools))


def models(*, limit: int | None = None, offset: int = 0) -> ListCall:
    """The language models that a version may name, if the platform offers the list.

    Parameters
    ----------
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Records whose ``id`` is the name of a model, the default first. Empty if the
        embedded service uses no language model.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    InsufficientScope

    Notes
    -----
    Specification: "Endpoints", configure-llm body, has no model.

    Examples
    --------
    >>> client.agents.models().to_pandas().columns[0]
    'id'
    """
    call = Call("agents.models", "GET", "models", record)
    return ListCall(call, "models", limit=limit, offset=offset, prepare=lambda page: offered(page, "/models"))


def publish(agent: Any, version_id: Any) -> Call[Record]:
    """Publish a version of an agent, if the platform's openapi.yaml offers it.

    Parameters
    ----------
    agent, version_id : str or Record

    Returns
    -------
    Record
        The version.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    Conflict
        If it is published already, being published, or not validated.
    InsufficientScope, NotFound, OutcomeUnknown

    Notes
    -----
    Specification: "States and transitions", rule 2; "Endpoints", gaps in this part.

    Examples
    --------
    >>> agent = client.agents.create("reviewer", template="LLM")
    >>> version = client.agents.configure_llm(
    ...     agent, system_prompt="Review it.", description="First")
    >>> client.agents.publish(agent, version).published_at is not None
    True
    """
    call = Call(
        "agents.publish",
        "POST",
        path("agents", agent, "versions", version_id, "publish"),
        acknowledgement,
        write=True,
        check=code_for("agents.versions", agent),
    )
    return offered(call, "/agents/{}/versions/{}/publish")


def list_(
    agent: Any, *, type: Literal["EPHEMERAL", "COMMITTED"] | None = None, limit: int | None = None, offset: int = 0
) -> ListCall:
    """An agent's versions.

    Parameters
    ----------
    agent : str or Record
    type : {"EPHEMERAL", "COMMITTED"}, optional
        None for both.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of version records. The platform decides their fields.

    Raises
    ------
    NotFound, InvalidInput

    Notes
    -----
    Specification: "Endpoints", Agents.

    Examples
    --------
    >>> [version.type for version in client.agents.versions("acme~guide")]
    ['COMMITTED']
    """
    call = Call("agents.versions", "GET", path("agents", agent, "versions"), record, {"type": type})
    return ListCall(call, "agent_versions", limit=limit, offset=offset)
