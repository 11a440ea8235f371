"""The workspaces, sessions, agents and credentials of an account.

`CatalogLoad` reads them, many lists at the same time. If it has the result of an
earlier load, it asks only for the latest changes of each workspace's sessions.

Specification: "Endpoints", Accounts; Workspaces and sessions; Agents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from ..._text import count_text, nearest
from ...api.calls import Call, ListCall, Reply, ref
from ...api.connection import Connection
from ...api.endpoints import agents as agents_endpoint
from ...api.endpoints import credentials as credentials_endpoint
from ...api.endpoints import me as me_endpoint
from ...api.endpoints import sessions as sessions_endpoint
from ...api.endpoints import workspaces as workspaces_endpoint
from ...api.errors import AgentbookError, Forbidden, InvalidInput, NotFound, NotOffered, Unauthorized
from .. import session_log
from ..export import to_arrow
from ..load.loader import MAX_CONCURRENCY, Loader, Progress
from ..parse.frame import to_frame, to_pandas
from ..parse.schemas import STR

T = TypeVar("T")

RESOURCES = ("workspaces", "sessions", "agents", "credentials")
WINDOW = 200  # sessions per workspace that are read again, the latest change first
_REFUSALS = (Forbidden, NotFound)  # what this credential may not read
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A platform may make a change visible slightly later than another one of the same time.
_LATE = pd.Timedelta("1min")
_NO_ACCOUNT = (
    "Without an account, ab.load_history(client) loads the workspaces that the credential sees; client.me.get() shows "
    "the account that it acts as."
)


@dataclass(slots=True)
class Catalog:
    """What an account has besides events.

    Attributes
    ----------
    workspaces, sessions, agents, credentials, contexts : DataFrame
        The columns of their lists.
    missing : dict
        What could not be read, and why.
    listed : list of str
        The workspaces whose sessions are all known.
    """

    workspaces: pd.DataFrame = field(default_factory=lambda: to_frame("workspaces", []))
    sessions: pd.DataFrame = field(default_factory=lambda: to_frame("sessions", []))
    agents: pd.DataFrame = field(default_factory=lambda: to_frame("agents", []))
    credentials: pd.DataFrame = field(default_factory=lambda: to_frame("credentials", []))
    contexts: pd.DataFrame | None = None
    missing: dict[str, str] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)


class CatalogLoad:
    """A load of a catalog that can stop and resume.

    Parameters
    ----------
    client : Connection
    account : str or None
        Id or name; None for the workspaces that the credential sees.
    workspaces : sequence of str, optional
        Only these, by id or full name.
    known : Catalog, optional
        The result of an earlier load.
    details : bool
        False uses the known workspaces, agents and credentials; an unknown agent is
        still read.
    contexts : bool
        Whether to read the workspaces' contexts too.
    concurrency : int
        As for `load_events`.
    """

    def __init__(
        self,
        client: Connection,
        account: str | None,
        workspaces: Sequence[str] | None = None,
        *,
        known: Catalog | None = None,
        details: bool = True,
        contexts: bool = False,
        concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        self._client = client
        self._account = account
        self._selected = None if workspaces is None else list(workspaces)
        self._known = known or Catalog()
        self._details = details or known is None
        self._contexts, self._concurrency = contexts, concurrency
        self._loads: dict[str, Loader] = {}
        self._missing: dict[str, str] = {}
        self._ids: dict[str, str] = {}  # of workspaces known by name only
        self._unlisted: list[str] = []  # the names of these
        self._listed_names: list[str] = []

    @property
    def requests(self) -> int:
        """Requests that were answered."""
        return sum(load.requests for load in self._loads.values())

    @property
    def rows(self) -> int:
        """Items that have arrived."""
        return sum(load.rows for load in self._loads.values())

    def read(self, bar: Progress) -> Catalog:
        """Load what is missing.

        Raises the error if something fails that everything else depends on, and
        `NotFound` if a named workspace does not exist. Anything else that this
        credential may not read is listed in `Catalog.missing`.
        """
        details = {} if self._details else self._known.missing
        self._missing = {name: reason for name, reason in details.items() if name in ("agents", "credentials")}
        workspaces = self._read_workspaces(bar)
        sessions, listed = self._read_sessions(workspaces, bar)
        # A workspace that is in no list is known by name only: its sessions have its
        # id.
        workspaces = workspaces.assign(id=workspaces["id"].replace(self._ids).astype(STR))
        agents = self._read_agents(sessions["agent_id"], bar)
        sessions = self._with_versions(sessions, bar)
        credentials = self._read_credentials(workspaces, bar)
        contexts = self._read_contexts(workspaces, bar) if self._contexts else None
        return Catalog(workspaces, sessions, agents, credentials, contexts, self._missing, listed)

    def _fetch(
        self,
        name: str,
        resource: str,
        calls: Mapping[str, ListCall],
        bar: Progress,
        tolerate: tuple[type[AgentbookError], ...] = _REFUSALS,
    ) -> Loader:
        """Read each list once, however often the load is resumed."""
        lists = self._loads.setdefault(name, Loader(resource, calls, self._concurrency))
        lists.load(self._client._run, bar, tolerate)
        for key in calls:
            if problem := lists.problem_of(key):
                self._missing[f"some of {name}"] = f"items may be missing: {problem}"
        return lists

    # -- workspaces -------------------------------------------------------------------

    def _read_workspaces(self, bar: Progress) -> pd.DataFrame:
        if not self._details:
            return self._known.workspaces
        if self._selected is None:
            return self._all_workspaces(self._account, bar)
        names = sorted(self._selected, key=lambda name: ("~" not in name, name))
        frames = []
        for owner in dict.fromkeys(name.partition("~")[0] if "~" in name else self._account for name in names):
            with contextlib.suppress(*_REFUSALS):  # a workspace can be read without its owner's list
                frames.append(self._all_workspaces(owner, bar))
        # Workspaces known by name only come last: a list knows more.
        table = concat([to_frame("workspaces", []), *frames, self._known.workspaces]).drop_duplicates("id")
        named = table[table["id"].isin(self._selected) | table["full_name"].isin(self._selected)]
        known = {*named["id"], *named["full_name"]}
        self._unlisted = [name for name in self._selected if name not in known]
        self._listed_names = table["full_name"].dropna().tolist()
        unlisted = msgspec.json.encode({"items": [_workspace_named(name) for name in self._unlisted]})
        return concat([named, to_frame("workspaces", [unlisted])])

    def _all_workspaces(self, account: str | None, bar: Progress) -> pd.DataFrame:
        name = f"workspaces of {account or 'this credential'}"
        if account is not None:
            try:
                lists = self._fetch(name, "workspaces", {name: workspaces_endpoint.list_(account)}, bar, ())
            except NotFound as error:
                error.add_note(_no_account(account))
                raise
            return lists.frame()
        # `all` adds those of the user's organizations; its wire name is only in the
        # live openapi.yaml.
        everything = {name: me_endpoint.workspaces(which="all")}
        lists = self._fetch(f"all {name}", "workspaces", everything, bar, (NotOffered, InvalidInput))
        if lists.loads[name].error is not None:
            lists = self._fetch(name, "workspaces", {name: me_endpoint.workspaces()}, bar, ())
        return lists.frame()

    # -- sessions ---------------------------------------------------------------------

    def _read_sessions(self, workspaces: pd.DataFrame, bar: Progress) -> tuple[pd.DataFrame, list[str]]:
        names = dict(zip(workspaces["id"], workspaces["full_name"].fillna(workspaces["id"]), strict=True))
        frames = self._read_changes([key for key in names if key in self._known.listed], bar)
        calls = {key: sessions_endpoint.list_(key) for key in names if key not in frames}
        lists = self._fetch("sessions", "sessions", calls, bar, (*_REFUSALS, NotOffered))
        for key in calls:
            error = lists.loads[key].error
            if isinstance(error, NotOffered):
                self._missing["sessions"] = "this platform does not list sessions; those of ab.session_log were read"
                return self._noted_sessions(None if self._account is None else workspaces["id"]), []
            if isinstance(error, NotFound) and key in self._unlisted:
                error.add_note(_no_workspace(key, self._listed_names))
                raise error
            if error is not None:
                self._missing[f"sessions of {names[key]}"] = str(error)
            else:
                frames[key] = lists.frame([key])
                self._ids.update((key, true) for true in frames[key]["workspace_id"].dropna().head(1))
        listed = [self._ids.get(key, key) for key in frames]
        return concat([to_frame("sessions", []), *(frames[key] for key in names if key in frames)]), listed

    def _read_changes(self, workspaces: list[str], bar: Progress) -> dict[str, pd.DataFrame]:
        """The sessions of known workspaces, where their latest changes suffice."""
        calls = {
            key: sessions_endpoint.list_(key, sort_by="-updated_at", limit=WINDOW)
            for key in workspaces
            if self._known.sessions.loc[self._known.sessions["workspace_id"] == key, "updated_at"].notna().any()
        }
        lists = self._fetch("latest sessions", "sessions", calls, bar, (*_REFUSALS, NotOffered, InvalidInput))
        frames = {}
        for key in calls:
            if lists.loads[key].error is None:
                before = self._known.sessions[self._known.sessions["workspace_id"] == key]
                merged = merge_changes(before, lists.frame([key]), lists.loads[key].total)
                if merged is not None:
                    frames[key] = merged
        return frames

    def _noted_sessions(self, workspaces: pd.Series | None) -> pd.DataFrame:
        noted = session_log.sessions(self._client).rename(columns={"session_id": "id", "started_at": "created_at"})
        if workspaces is not None:
            noted = noted[noted["workspace_id"].isin(workspaces)]
        rows = noted.drop(columns="base_url").to_json(orient="records", date_format="iso", date_unit="us")
        return to_frame("sessions", [f'{{"items":{rows}}}'.encode()])

    # -- agents and credentials -------------------------------------------------------

    def _read_agents(self, used: pd.Series, bar: Progress) -> pd.DataFrame:
        """The agents in a list, and those of sessions that the list leaves out."""
        agents = self._known.agents
        if self._details:
            lists = self._fetch("agents", "agents", {"agents": agents_endpoint.list_()}, bar)
            agents = lists.frame()
            self._note_refusal("agents", lists.loads["agents"].error)
            known = self._known.agents  # agents that are in no list are not requested again
            agents = concat([agents, known[~known["id"].isin(agents["id"])]])
        unlisted = sorted(set(used.dropna()) - set(agents["id"]))
        singles = {key: _ListOfOne(agents_endpoint.get(key), "agents") for key in unlisted}
        others = self._fetch("unlisted agents", "agents", singles, bar)
        unreadable = [error for key in unlisted if (error := others.loads[key].error) is not None]
        if unreadable:
            reason = f"{count_text(len(unreadable), 'agent')} of sessions cannot be read: {unreadable[0]}"
            self._missing.setdefault("agents", reason)
        return concat([agents, others.frame()])

    def _with_versions(self, sessions: pd.DataFrame, bar: Progress) -> pd.DataFrame:
        """The sessions with the numbers of versions in place of their ids, where known.

        Sessions of an earlier load have them already, so only new versions are read.
        """
        known, version = self._known.sessions.reindex(columns=["id", "agent_version"]), sessions["agent_version"]
        before = look_up(sessions["id"], known["id"], known["agent_version"])
        numbers = look_up(version, version[before.notna()], before.dropna())
        is_id = numbers.isna() & version.str.fullmatch(_UUID, na=False)
        of_agents = sorted(set(sessions.loc[is_id, "agent_id"].dropna()))
        calls = {key: agents_endpoint.versions(key) for key in of_agents}
        refused = (*_REFUSALS, NotOffered, InvalidInput, Unauthorized)
        lists = self._fetch("versions", "agent_versions", calls, bar, refused)
        versions = lists.frame()
        numbers = numbers.fillna(look_up(version, versions["id"], versions["version_number"]))
        return sessions.assign(agent_version=numbers.fillna(version))

    def _read_credentials(self, workspaces: pd.DataFrame, bar: Progress) -> pd.DataFrame:
        if not self._details:
            return self._known.credentials
        owners = [self._account] if self._account is not None else workspaces["owner_id"].dropna().unique().tolist()
        calls = {owner: credentials_endpoint.list_(owner) for owner in owners}
        lists = self._fetch("credentials", "credentials", calls, bar)
        for owner in owners:
            self._note_refusal("credentials", lists.loads[owner].error)
        return lists.frame()

    def _read_contexts(self, workspaces: pd.DataFrame, bar: Progress) -> pd.DataFrame:
        calls = {key: workspaces_endpoint.contexts(key) for key in workspaces["id"]}
        lists = self._fetch("contexts", "contexts", calls, bar)
        for key, name in zip(workspaces["id"], workspaces["full_name"], strict=True):
            self._note_refusal(f"contexts of {name}", lists.loads[key].error)
        return lists.frame()

    def _note_refusal(self, name: str, error: AgentbookError | None) -> None:
        if error is not None:
            self._missing[name] = str(error)


def merge_changes(before: pd.DataFrame, latest: pd.DataFrame, total: int | None) -> pd.DataFrame | None:
    """A workspace's sessions after its latest changes; None if these do not suffice.

    Parameters
    ----------
    before : DataFrame
        All sessions at an earlier time.
    latest : DataFrame
        The most recently changed ones, the latest first.
    total : int or None
        The current number of sessions, if the platform reports it.
    """
    if total is not None and len(latest) >= total:
        return _in_order_of(before, latest)
    changed = latest["updated_at"]
    if latest.empty or changed.isna().any() or not changed.is_monotonic_decreasing:
        return None  # this platform does not sort by the latest change
    if changed.iloc[-1] >= before["updated_at"].max() - _LATE:
        return None  # there may be further changes
    merged = concat([latest, before[~before["id"].isin(latest["id"])]])
    return None if total is not None and total != len(merged) else _in_order_of(before, merged)


def _in_order_of(before: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    """The sessions, new ones first, so that equal sessions give equal frames."""
    positions = pd.Index(before["id"]).get_indexer(pd.Index(sessions["id"]))
    return sessions.iloc[np.argsort(positions, kind="stable")].reset_index(drop=True)


def concat(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of frames of one resource, with its dtypes."""
    if len(frames) == 1 or not any(len(frame) for frame in frames[1:]):
        return frames[0].reset_index(drop=True)
    tables = [to_arrow(frame).replace_schema_metadata(None) for frame in frames if len(frame)]
    return to_pandas(pa.concat_tables(tables, promote_options="permissive").unify_dictionaries())


def look_up(ids: pd.Series, keys: Any, values: Any) -> pd.Series:
    """The value of each id; null where it is not among the keys."""
    table = pd.Series(pd.array(values, dtype=STR), index=pd.Index(keys, dtype=STR))
    table = table[table.index.notna() & ~table.index.duplicated()]
    return ids.astype(STR).map(table).astype(STR)


def refs_of(entities: Any) -> list[str]:
    """The ids or names of entities, given as one or several, or as a frame."""
    if hasattr(entities, "columns"):
        return [str(key) for key in entities["id"].dropna()]
    if isinstance(entities, (str, Mapping)):
        entities = [entities]
    return list(dict.fromkeys(ref(entity) for entity in entities))


def _workspace_named(name: str) -> dict[str, Any]:
    """What is known about a workspace that is in no list: its name or its id."""
    owner, separator, short = name.partition("~")
    return {"id": name, "full_name": name, **({"name": short, "owner": {"name": owner}} if separator else {})}


def _no_account(name: str) -> str:
    """What to do about an account that was named and is not there."""
    return f"{name!r} names a workspace: pass workspaces={name!r} instead." if "~" in name else _NO_ACCOUNT


def _no_workspace(name: str, listed: Sequence[str]) -> str:
    """What to do about a named workspace that does not exist."""
    if any(full_name.startswith(f"{name}~") for full_name in listed):
        return f"{name!r} is an account: pass account={name!r} instead."
    match = nearest(name, listed)
    hint = f"did you mean {match!r}?" if match else "client.me.workspaces() shows those that it sees."
    return f"There is no workspace {name!r}, or this credential may not see it; {hint}"


class _ListOfOne(ListCall):
    """One entity, read as a list of one."""

    def page(self, read: Callable[[Reply], T], **query: Any) -> Call[T]:
        envelope = b'{"items":[%b],"pagination":{"total_count":1,"has_more":false}}'
        return replace(self.call, read=lambda reply: read(replace(reply, body=envelope % reply.body)))
