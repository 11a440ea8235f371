"""Calls as data: what an endpoint function returns and the policy sends.

A `Call` does no I/O. It says what to send, whether it may be sent again, and how to
read the reply, so that both clients and the tests see the same thing::

    >>> from agentbook.api.endpoints import agents
    >>> call = agents.get("acme~helper")
    >>> call.method, call.path
    ('GET', 'agents/acme~helper')
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .errors import HALF_CHARACTER, invalid_argument
from .record import Record, read_value

T = TypeVar("T")

MAX_PAGE = 1000  # "Limits": the general maximum of `limit`
SMALL_MAX_PAGE = 500  # ... and the maximum of the five operations that declare 0 to 500


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. `headers` have lower-case names; `body` has no content encoding."""

    status: int
    headers: Mapping[str, str] = field(repr=False)  # may hold secrets, and tracebacks may show them
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known about a write whose reply was lost.

    Attributes
    ----------
    started_at : float
        When the call started, by our clock, in seconds since 1970.
    key_id : str or None
        The API key that sent it; None for a token.
    clock : callable
        Our clock.
    """

    started_at: float
    key_id: str | None
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request to the platform's API, not sent yet.

    Attributes
    ----------
    operation : str
        Its name in Python, such as ``agents.get``.
    method, path : str
        `path` is encoded and relative to the base URL. A `Hidden` one is not logged.
    query : dict
        Wire values; None means the parameter is not sent.
    body : object
        JSON value; None for no body.
    form : mapping or None
        Fields of a form-encoded body, in place of `body`.
    read : callable
        Turns the `Reply` into the result.
    idempotent : bool
        Whether a write may be sent twice all the same: its body (or the DELETE)
        determines the result, however often it is applied.
    check : str
        The Python expression that reads what a write changed, for the message of a lost
        reply, such as ``client.agents.get("x")``.
    wait_for_rate_limit : bool
        Whether to wait out a rate limit. False if the limit is per hour: the error is
        then raised at once.
    read_back : callable or None
        For a write that can be checked afterwards: takes the `Attempt` and returns a
        `Call` whose result is the created entity, or None.
    refuses_duplicates : bool
        Whether the platform answers 409 if the created entity exists already. A create
        that cannot be read back may then be sent once more.
    completions : tuple of callable
        Each takes the platform's live openapi.yaml and the call, and returns the call
        complete, where the specification leaves something open.
    """

    operation: str
    method: str
    path: str
    read: Callable[[Reply], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)  # a new credential's secrets, say
    form: Mapping[str, str] | None = field(default=None, repr=False)
    idempotent: bool = False
    check: str = ""
    wait_for_rate_limit: bool = True
    read_back: Callable[[Attempt], Call[T | None]] | None = None
    refuses_duplicates: bool = False
    completions: tuple[Callable[[Mapping[str, Any], Call[T]], Call[T]], ...] = ()

    @property
    def write(self) -> bool:
        """Whether it may change something and therefore must not be sent twice."""
        return self.method not in ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class ListCall:
    """A list operation: the call for one page, and how to request further pages.

    Attributes
    ----------
    call : Call
        The request for a page, without `limit` and `offset`.
    resource : str
        Names the schema of its items (see `agentbook.frames`).
    max_page : int
        The maximum `limit` of the operation, in items.
    limit : int or None
        Number of items to return; None for all.
    offset : int
        Items skipped at the start.
    keyset : bool
        Whether the next page starts after the last id (``from_id``) instead of at an
        offset. Items added meanwhile then do not shift the pages.
    end : str or None
        For a list in the order of its ids, the greatest id that belongs to it.
    context : dict
        Values from the request that the items lack, such as their ``session_id``.
    begin : str or None
        Items with ids up to this one do not belong, though the platform lists them.
    """

    call: Call[Any]
    resource: str
    max_page: int = MAX_PAGE
    limit: int | None = None
    offset: int = 0
    keyset: bool = False
    end: str | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    begin: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("offset", self.offset)):
            if value is None:
                continue
            if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 0:
                raise invalid_argument(
                    self.call.operation, f"{name} must be a whole number of items, 0 or more, not {value!r}."
                )
            object.__setattr__(self, name, operator.index(value))  # NumPy integers too

    def page(self, read: Callable[[Reply], T], **query: Any) -> Call[T]:
        """The request for a page, with what it alone asks for."""
        return replace(self.call, query={**self.call.query, **query}, read=read)


def path(*segments: str) -> str:
    """Join path segments, encoding each so that it stays one segment.

    Examples
    --------
    >>> path("agents", "acme~my/agent")
    'agents/acme~my%2Fagent'
    >>> path("agents", "..")
    'agents/%2E%2E'
    """
    return "/".join(_segment(segment) for segment in segments)


def _segment(segment: str) -> str:
    if not isinstance(segment, str):
        segment = _id_of(segment)
    if not segment:
        raise ValueError("An id or a name must not be empty.")
    if not segment.isascii() and any("\ud800" <= letter <= "\udfff" for letter in segment):
        raise invalid_argument("This call", f"the id or name {segment!r} {HALF_CHARACTER}")
    # Anything that normalizes the URL would resolve away a segment of dots only.
    return segment.replace(".", "%2E") if set(segment) == {"."} else quote(segment, safe="~")


def _id_of(entity: object) -> str:
    """The id of a record, or of any object with an ``id``."""
    entity_id = entity.get("id") if isinstance(entity, Mapping) else getattr(entity, "id", entity)
    if hasattr(entity_id, "hex") and not isinstance(entity_id, (int, float, bytes)):
        entity_id = str(entity_id)  # uuid.UUID
    if not isinstance(entity_id, str):
        found = "None, as the first() of a list without items is" if entity is None else type(entity).__name__
        raise TypeError(f"Expected an id, a name or a record, not {found}.")
    return entity_id


def ref(entity: Any) -> str:
    """The id or name to send for an entity: a string as it is, or a record's id.

    Examples
    --------
    >>> ref(Record({"id": "0190"})), ref("acme~support")
    ('0190', 'acme~support')
    """
    return entity if isinstance(entity, str) else _id_of(entity)


def optional_ref(entity: Any) -> Any:
    """As `ref`, for an argument that may be left out or None."""
    return entity if entity is UNSET or entity is None else ref(entity)


def code_for(method: str, *entities: Any, **options: Any) -> str:
    """The Python expression for a read (see `Call`).

    Examples
    --------
    >>> code_for("skills.list", "acme", search="sql")
    'client.skills.list("acme", search="sql")'
    """
    arguments = [json.dumps(ref(entity), ensure_ascii=False) for entity in entities]
    arguments += [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in options.items()]
    return f"client.{method}({', '.join(arguments)})"


def decoded(reply: Reply) -> Any:
    """The JSON of a reply; None if it is empty."""
    return read_value(reply.body) if reply.body else None


def http_date(text: str | None) -> datetime | None:
    """The moment that a header names; None if it names none."""
    try:
        moment = parsedate_to_datetime(text or "")
        return moment.replace(tzinfo=moment.tzinfo or UTC)
    except (TypeError, ValueError):
        return None


def record(reply: Reply) -> Record:
    """Read a reply that holds one entity."""
    data = read_value(reply.body)
    return Record(data) if isinstance(data, dict) else Record({"value": data})


def acknowledgement(reply: Reply) -> Record:
    """Read a reply whose body the specification does not show. It may be empty."""
    return record(reply) if reply.body else Record({})


def drop_unset(**values: Any) -> dict[str, Any]:
    """The arguments that are not `UNSET`. None stays: it is sent as null."""
    return {name: value for name, value in values.items() if value is not UNSET}


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


def create_read_back(
    operation: str,
    path: str,
    sent: Mapping[str, Any],
    *,
    query: Mapping[str, Any] | None = None,
    records_key: bool = False,
) -> Callable[[Attempt], Call[Record | None]]:
    """The `Call.read_back` of a named create: finds what was created, or None.

    Someone else may create an entity with the same name at the same time. So an entity
    is returned only if it agrees with everything that was sent, is not older than the
    call, and was created by the same key, where the specification says whom the
    platform records. If there are two, there is no telling which is ours.
    Specification: "Errors", retry rules.

    Parameters
    ----------
    operation, path, query
        Where to read: the entity itself, or a list that contains it.
    sent
        The body of the create.
    records_key
        Whether the platform records the key as the ``creator_id`` of what it creates.
    """

    def read_back(attempt: Attempt) -> Call[Record | None]:
        def read(reply: Reply) -> Record | None:
            data = read_value(reply.body)
            items = data["items"] if isinstance(data, dict) and "items" in data else [data]
            earliest = _platform_time(attempt, reply)
            creator_id = attempt.key_id if records_key else None
            created = [item for item in items if _is_created(item, sent, earliest, creator_id)]
            return Record(created[0]) if len(created) == 1 else None

        return Call(operation, "GET", path, read, query or {})

    return read_back


def _platform_time(attempt: Attempt, reply: Reply) -> float:
    """When the call started by the platform's clock, at the earliest, in whole seconds.

    The ``Date`` header is in whole seconds, and the platform's times may be too.
    Without such a header, our own clock counts.
    """
    date = http_date(reply.headers.get("date"))
    return math.floor(attempt.started_at + (date.timestamp() - attempt.clock() if date else 0.0))


def _is_created(item: Any, sent: Mapping[str, Any], earliest: float, creator_id: str | None) -> bool:
    if not isinstance(item, Mapping):
        return False
    try:
        moment = datetime.fromisoformat(item["created_at"])
        created_at = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (KeyError, TypeError, ValueError):
        return False
    same = all(item.get(name, value) == value for name, value in sent.items() if name != "owner_id")
    ours = creator_id is None or item.get("creator_id", creator_id) == creator_id
    is_named = item.get("name") == sent["name"] and _is_owned_by(item, sent.get("owner_id"))
    return same and ours and is_named and created_at >= earliest


def _is_owned_by(item: Mapping[str, Any], owner: str | None) -> bool:
    """Whether an account, by id or name, owns an entity. True if neither is known."""
    full_name = item.get("full_name")
    owners = {item.get("owner_id"), full_name.partition("~")[0] if isinstance(full_name, str) else None} - {None}
    return owner is None or not owners or owner in owners
