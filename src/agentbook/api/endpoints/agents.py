"""Agents: list, read, create, update; and their versions: configure, publish, list.

Specification: "Endpoints", Agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..calls import (
    UNSET,
    Call,
    ListCall,
    acknowledgement,
    code_for,
    create_read_back,
    drop_unset,
    optional_ref,
    path,
    record,
)
from ..discovery import discovered_field, offered, offered_fields
from ..errors import invalid_argument
from ..record import Record

CONFIGURE_LLM = "/agents/{}/configure-llm"


def list_(
    *,
    search: str | None = None,
    fast: bool | None = None,
    published_only: bool | None = None,
    is_public: bool | None = None,
    is_pinned: bool | None = None,
    for_workspace: Any = None,
    tags: str | Sequence[str] | None = None,
    categories: str | Sequence[str] | None = None,
    agent_types: str | Sequence[str] | None = None,
    owner: Any = None,
    contributor: Any = None,
    sort_by: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """The agents this credential can see.

    Public agents, and with ``agents:read`` those of the account.

    Parameters
    ----------
    search : str, optional
        Words matched in name or description.
    fast, published_only, is_pinned : bool, optional
        Filters as the specification names them; None leaves the filter off.
    is_public : bool, optional
        True lists public agents only. False is refused: it is the platform's default
        and selects nothing, so private agents are selected in the frame, as in
        ``frame[~frame["is_public"]]``.
    for_workspace : str or Record, optional
        A workspace by id, name or record.
    tags, categories, agent_types : str or sequence of str, optional
        Several are joined by commas.
    owner, contributor : str or Record, optional
        A user or organization by id, name or record.
    sort_by : str, optional
        Column name; a leading ``-`` means descending.
    limit : int, optional
        At most this many agents; None for all of them.
    offset : int
        Agents skipped at the start.

    Returns
    -------
    Listing
        Of agent records. The platform decides their fields.

    Raises
    ------
    InvalidInput, Unauthorized, ServerError

    Notes
    -----
    Specification: "Endpoints", Agents.

    Examples
    --------
    >>> [agent.name for agent in client.agents.list(search="guide")]
    ['guide']
    """
    if is_public is not None and not is_public:
        raise invalid_argument(
            "agents.list",
            "is_public=False would list public and private agents alike, since false is the platform's default. Leave it "
            'out, and select the private ones: frame[~frame["is_public"]].',
        )
    query = {
        "search": search,
        "fast": fast,
        "published_only": published_only,
        "is_public": is_public,
        "is_pinned": is_pinned,
        "for_workspace": optional_ref(for_workspace),
        "tags": tags,
        "categories": categories,
        "agent_types": agent_types,
        "owner": optional_ref(owner),
        "contributor": optional_ref(contributor),
        "sort_by": sort_by,
    }
    return ListCall(Call("agents.list", "GET", "agents", record, query), "agents", limit=limit, offset=offset)


def get(agent: Any) -> Call[Record]:
    """One agent, by id or ``<owner>~<name>``.

    Parameters
    ----------
    agent : str or Record
        Id or name, or a record that has an id.

    Returns
    -------
    Record

    Raises
    ------
    NotFound
        If it is absent, or private and invisible to this credential.

    Notes
    -----
    Specification: "Endpoints", Agents.

    Examples
    --------
    >>> client.agents.get("acme~guide").name
    'guide'
    """
    return Call("agents.get", "GET", path("agents", agent), record)


def create(
    name: str,
    *,
    description: str | None = UNSET,
    is_public: bool = UNSET,
    avatar_url: str | None = UNSET,
    owner_id: Any = UNSET,
    maintainer_id: Any = UNSET,
    category: Any = UNSET,
    tags: Sequence[str] | None = UNSET,
    forked_from_version: Any = UNSET,
    template: str | None = UNSET,
) -> Call[Record]:
    """Create an agent; if the reply is lost, the agent is read back by its name.

    If there is none, the request is sent once more, since a duplicate would be refused.

    Parameters
    ----------
    name : str
        Unique in the account.
    description, avatar_url : str or None, optional
    is_public : bool, optional
        A key cannot make an agent public.
    owner_id : str or Record, optional
        User or organization by id or name; left out, the caller's own account.
    maintainer_id : str, Record or None, optional
        User or organization by id or name.
    category : str, Record or None, optional
        A category's id or name.
    tags : sequence of str or None, optional
    forked_from_version : str, Record or None, optional
        The version to copy, as from `versions`.
    template : str, optional
        One of ``LLM``, ``AUTO_MANAGED_STATE``, ``BLANK``, ``GOOSE``,
        ``PLATFORM_NATIVE``, ``OPENCLAW``, ``LANGGRAPH``, ``ADK``; others are sent as
        they are.

    Returns
    -------
    Record
        The agent; its id is the top-level ``id``.

    Raises
    ------
    Conflict
        If the name is taken.
    InsufficientScope
        Without ``agents:write``.
    OutcomeUnknown
        If the reply was lost and reading back does not show the agent.

    Notes
    -----
    Specification: "Endpoints", create-agent body.

    Examples
    --------
    >>> client.agents.create("helper", template="LLM").full_name
    'acme~helper'
    """
    body = drop_unset(
        name=name,
        description=description,
        is_public=is_public,
        avatar_url=avatar_url,
        owner_id=optional_ref(owner_id),
        maintainer_id=optional_ref(maintainer_id),
        category=optional_ref(category),
        tags=tags if tags is UNSET or tags is None else list(tags),
        forked_from_version=optional_ref(forked_from_version),
        template=template,
    )
    full = f"{body['owner_id']}~{name}" if body.get("owner_id") else name
    back, shows = create_read_back("agents.create", path("agents", full), body), code_for("agents.get", full)
    return Call(
        "agents.create", "POST", "agents", record, body=body, check=shows, read_back=back, refuses_duplicates=True
    )


def update(
    agent: Any,
    *,
    is_public: bool | None = UNSET,
    is_archived: bool | None = UNSET,
    is_pinned: bool | None = UNSET,
    avatar_url: str | None = UNSET,
    maintainer_id: Any = UNSET,
    category: Any = UNSET,
    tags: Sequence[str] | None = UNSET,
) -> Call[Record]:
    """Change an agent. For OAuth tokens only: a key gets `Unauthorized`.

    An argument that is left out is not sent; None is sent as null.

    Parameters
    ----------
    agent : str or Record
    is_public, is_archived, is_pinned : bool or None, optional
    avatar_url : str or None, optional
    maintainer_id : str, Record or None, optional
        User or organization by id or name.
    category : str, Record or None, optional
        A category's id or name.
    tags : sequence of str or None, optional

    Returns
    -------
    Record
        The updated agent.

    Raises
    ------
    Unauthorized, InsufficientScope, Forbidden, NotFound, InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", update-agent body.

    Examples
    --------
    >>> try:
    ...     client.agents.update("acme~guide", is_archived=True)
    ... except ab.errors.Unauthorized:
    ...     print("a key cannot change an agent")
    a key cannot change an agent
    """
    body = drop_unset(
        is_public=is_public,
        is_archived=is_archived,
        is_pinned=is_pinned,
        avatar_url=avatar_url,
        maintainer_id=optional_ref(maintainer_id),
        category=optional_ref(category),
        tags=tags if tags is UNSET or tags is None else list(tags),
    )
    shows = code_for("agents.get", agent)
    return Call("agents.update", "PATCH", path("agents", agent), record, body=body, idempotent=True, check=shows)


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
    where, shows = path("agents", agent, "configure-llm"), code_for("agents.versions", agent)
    call = Call("agents.configure_llm", "POST", where, record, body=body, check=shows)
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
    call = offered(Call("agents.models", "GET", "models", record), "/models")
    return ListCall(call, "models", limit=limit, offset=offset)


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
    where = path("agents", agent, "versions", version_id, "publish")
    call = Call("agents.publish", "POST", where, acknowledgement, check=code_for("agents.versions", agent))
    return offered(call, "/agents/{}/versions/{}/publish")


def versions(
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
