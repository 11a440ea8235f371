"""`History`: what happened in an account's workspaces, as frames that carry names.

Specification: "Endpoints", Accounts; Workspaces and sessions; "Events".
"""

from __future__ import annotations

import copy
import functools
import html
import os
from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any

import pandas as pd

from ..._text import count_text, nearest, one_line, safe_repr
from ...api.span import Span, normalize, zone
from ..analysis.arguments import local_text, require, rows_in, span_in, with_advice, with_details, zone_in
from ..analysis.credentials import credential_report
from ..analysis.turns import people_first, tell_apart, turn_events, turns, with_sessions
from ..parse.frame import to_frame
from ..parse.schemas import STR
from ..tabular import frame_of, with_links
from .catalog import look_up, refs_of
from .report import RESTRICTED, write_report

_FRAMES = ("workspaces", "sessions", "events", "turns", "agents", "credentials")
NAMES = (
    *("workspace", "agent", "session", "initiator", "workspace_id", "agent_id", "agent_version"),
    *("initiator_type", "initiator_id"),
)
_NO_CONTEXTS = "no contexts: load them with ab.load_history(client, account, contexts=True)"
_SHOWN = 5  # missing parts that are shown
_UNREAD = ("session ", "sessions of ")  # the missing parts that hold events


class History:
    """What happened in an account's workspaces, as frames that carry names.

    `load_history`, `Store.history` and `watch` return one, and frames make one.

    Parameters
    ----------
    events : DataFrame
        From `load_events`, or any other table of events.
    sessions, workspaces, agents, credentials, contexts : DataFrame or Listing, optional
        Their lists, or any other tables with these columns. None for an empty one.
    account : str, optional
        The account whose workspaces these are; None for those of a credential.
    since, until : Timestamp, optional
        The span: only events from `since` on and before `until`, their sessions, and
        the turns whose question is in it. None leaves an end open.
    missing : mapping, optional
        What could not be read, such as ``"credentials"``, and why.
    tz : str or tzinfo, optional
        Time zone in which reports, charts, analyses and `Explorer` show times, unless
        they are told another one, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the events' own history, else UTC. The frames stay in UTC.

    Attributes
    ----------
    account : str or None
    since, until : Timestamp or None
    tz : str
        The time zone by its name.
    workspaces, agents, credentials : DataFrame
        The columns of their lists. `agents` has every agent of `sessions` that the
        credential may read, archived ones too; `credentials` also ``owner_name``.
    contexts : DataFrame
        The columns of their lists, and ``workspace``; empty unless they were loaded.
    sessions : DataFrame
        The columns of a list of sessions, with ``workspace``, ``agent`` and
        ``initiator``: names, or ids where there are none; and ``session``: the title,
        with a part of the id where several have the same or none. With a span, only the
        sessions that have an event in it; a whole history also has sessions without
        events. A session that is in no list has only its id.
    events : DataFrame
        The columns of `load_events`, with ``workspace``, ``agent``, ``session``,
        ``initiator`` (names), ``workspace_id``, ``agent_id``, ``agent_version``,
        ``initiator_type`` and ``initiator_id`` of the session, by session and id.
        `turns` have them too. The version is its number, such as ``"2.0.0"``, or its id
        where the credential may not read the agent's versions; null where the
        platform's sessions do not say it.
    missing : dict
    anonymized : DataFrame or None
        What `anonymize` did, if it made this history.

    Raises
    ------
    TypeError, ValueError
        If something is not a table, or lacks a column; the message names it.

    Notes
    -----
    A platform lists restricted workspaces to their members only.

    Specification: "Endpoints", Accounts; Workspaces and sessions.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> names = set(history.workspaces["full_name"])
    >>> history.complete, set(history.turns["workspace"]) <= names
    (True, True)
    >>> part = History(events, client.sessions.list("acme~support"))
    >>> part.turns["session_id"].nunique()
    3
    """

    def __init__(
        self,
        events: Any,
        sessions: Any = None,
        *,
        workspaces: Any = None,
        agents: Any = None,
        credentials: Any = None,
        contexts: Any = None,
        account: str | None = None,
        since: pd.Timestamp | None = None,
        until: pd.Timestamp | None = None,
        missing: Mapping[str, str] | None = None,
        tz: str | tzinfo | None = None,
    ) -> None:
        self.account, self.since, self.until = account, since, until
        self.missing = dict(missing or {})
        events = _frame_of("events", events, "session_id", "at", "created_at", "author_id", "author_name")
        self.tz = zone_in(tz, events)
        events = with_details(events, tz=self.tz)
        sessions = _frame_of("sessions", sessions, "id", "workspace_id", "agent_id", "initiator_id", "name")
        self.workspaces = _frame_of("workspaces", workspaces, "id", "full_name", "owner_id", "owner_name")
        self.agents = _frame_of("agents", agents, "id", "name", "owner_name")
        self._people = _people(events, sessions)
        self._all_sessions = self._named_sessions(_with_those_of(events, sessions), events)
        self.credentials = self._named_credentials(_frame_of("credentials", credentials, "owner_id"))
        self.contexts = with_advice(self._named_contexts(_frame_of("contexts", contexts, "workspace_id")), _NO_CONTEXTS)
        self._loaded: pd.DataFrame = events
        self.anonymized: pd.DataFrame | None = None
        self._parts: list[str] = []  # what `where` chose, by name
        self._count_span()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    @functools.cached_property
    def turns(self) -> pd.DataFrame:
        """`agentbook.turns` of the events, with ``prompt`` and ``reply`` and the names.

        Computed on first use. A turn belongs to the span if its question does, or its
        reply if it has no question. ``author`` is the name of who asked, ``initiator``
        that of who started the session.

        Examples
        --------
        >>> history = ab.load_history(client, "acme")
        >>> {"prompt", "reply", "workspace", "agent"} <= set(history.turns.columns)
        True
        """
        table = self._with_names(turns(self._events_of_turns, texts=True))
        authors = look_up(table["author_id"], self._people.index, self._people).fillna(table["author_id"])
        return with_advice(people_first(table.assign(author=authors)), self.hint)

    @property
    def turn_events(self) -> pd.DataFrame:
        """The events of the `turns`, with the columns of `events`.

        They include replies that came after the span, and leave out replies to
        questions from before it. Analyses of a history read turns and steps from them.

        Examples
        --------
        >>> history = ab.load_history(client, "acme")
        >>> len(ab.turns(history.turn_events)) == len(history.turns)
        True
        """
        if not Span(self.since, self.until):
            return self.events
        return with_advice(self._with_names(self._events_of_turns), self.hint)

    @functools.cached_property
    def credential_report(self) -> pd.DataFrame:
        """`agentbook.credential_report` of the credentials and workspaces.

        Examples
        --------
        >>> history = ab.load_history(client, "acme")
        >>> len(history.credential_report) == len(history.credentials)
        True
        """
        return credential_report(self.credentials, self.workspaces)

    def where(
        self,
        *,
        agent: Any = None,
        workspace: Any = None,
        author: Any = None,
        initiator: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> History:
        """A part of the history, with the same names: to report on or explore it alone.

        Parameters
        ----------
        agent, workspace : str, Record or iterable, optional
            Only the sessions of these agents, in these workspaces: names as in the
            frames, ids or records.
        author : str, Record or iterable, optional
            Only the turns that these people or keys asked, and their sessions.
        initiator : str, Record or iterable, optional
            Only the sessions that these people or keys started.
        since, until : str, datetime, date or timedelta, optional
            Only from `since` on and before `until`, as for `load_history`; lengths of
            time count back from when the history was loaded.

        Returns
        -------
        History
            Its `credentials` are empty if it is a part by agent, workspace, author or
            initiator: credentials belong to none of these.

        Raises
        ------
        ValueError
            If the history does not have a name, or a time is none.

        Notes
        -----
        Specification: "Resources and their fields", Session; Session event.

        Examples
        --------
        >>> history = ab.load_history(client, "acme")
        >>> part = history.where(workspace="acme~support")
        >>> part.turns["workspace"].unique().tolist()
        ['acme~support']
        """
        view, sessions, loaded = copy.copy(self), self._all_sessions, self._loaded
        for name in ("turns", "_events_of_turns", "credential_report"):
            view.__dict__.pop(name, None)
        full_names = self.agents["owner_name"] + "~" + self.agents["name"]
        agents = self.agents[["id"]].assign(short=_short_names(self.agents), full=full_names)
        frames = {
            "workspace": [self.workspaces[["id", "full_name"]]],
            "agent": [agents[["id", "short"]], agents[["id", "full"]]],
        }
        for noun, wanted in (("workspace", workspace), ("agent", agent), ("initiator", initiator)):
            if wanted is not None:
                chosen = _chosen(wanted, noun, self._all_sessions[[f"{noun}_id", noun]], *frames.get(noun, ()))
                view._parts = [*view._parts, *chosen.values()]
                if noun in frames:
                    frame = getattr(self, f"{noun}s")
                    setattr(view, f"{noun}s", _rows(frame, frame["id"].isin(chosen)))
                if noun == "workspace":
                    view.contexts = _rows(self.contexts, self.contexts["workspace_id"].isin(chosen))
                sessions = _rows(sessions, sessions[f"{noun}_id"].isin(chosen))
        if sessions is not self._all_sessions:
            loaded = _rows(loaded, _ids(loaded["session_id"]).isin(_ids(sessions["id"])))
        if author is not None:
            asked = loaded[["author_id"]].drop_duplicates()
            named = asked.assign(author=look_up(asked["author_id"], self._people.index, self._people))
            chosen = _chosen(author, "author", named)
            view._parts = [*view._parts, *chosen.values()]
            loaded = turn_events(loaded, lambda table: table["author_id"].isin(chosen))
            sessions = _rows(sessions, _ids(sessions["id"]).isin(_ids(loaded["session_id"])))
        if view._parts:
            view.credentials = self.credentials.iloc[:0]
        span = span_in(self._loaded, "created_at", since, until, tz=self.tz)
        view._all_sessions, view._loaded = sessions, loaded
        view.since = max((pd.Timestamp(end) for end in (self.since, span.since) if end is not None), default=None)
        view.until = min((pd.Timestamp(end) for end in (self.until, span.until) if end is not None), default=None)
        view._count_span()
        return view

    def report(self, path: str | os.PathLike[str], *, tz: str | tzinfo | None = None, title: str | None = None) -> Path:
        """Write a report as one HTML page that opens without a network.

        It shows the findings in words, pictures and tables: slower agents, failures,
        unanswered questions, and credentials to look at. ``ab.export(history, path)``
        does the same.

        Parameters
        ----------
        path : str or path
            The file, which ends in ``.html``. It is written as a whole or not at all.
        tz : str or tzinfo, optional
            Time zone of all times in the page, which names it, as an IANA name or
            `zoneinfo.ZoneInfo`. Default: that of the history.
        title : str, optional
            Heading of the page. Default: the account, its parts and the span.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the suffix is not ``.html``, or `tz` is unknown.

        Notes
        -----
        Pictures need the extra ``lab``; without it the report says so. The page holds
        no scripts. Texts of agents and users are shown as text. Specification:
        "Events"; "Resources and their fields".

        Examples
        --------
        >>> history = ab.load_history(client, "acme", since="7d")
        >>> path = history.report(folder / "acme.html")
        >>> "Findings" in path.read_text("utf-8")
        True
        """
        view = copy.copy(self)
        if tz is not None:
            view.tz = zone(tz).key
            view.events, view.turns = (with_details(frame, tz=view.tz) for frame in (self.events, self.turns))
        return write_report(view, path, title)

    # -- the span ---------------------------------------------------------------------

    @functools.cached_property
    def _events_of_turns(self) -> pd.DataFrame:
        """The loaded events of turns in the span."""
        span = Span(self.since, self.until)
        if not span:
            return self._loaded
        return turn_events(self._loaded, lambda table: span.contains(table["asked_at"].fillna(table["replied_at"])))

    def _count_span(self) -> None:
        """Set the events and sessions of the span, and note it as what was loaded."""
        known = self._loaded.attrs.get("agentbook", {}).get("parameters", {})
        parameters = {**known, **Span(self.since, self.until).details()}
        self._loaded = with_details(self._loaded, parameters=parameters)
        events, self.sessions, span = self._loaded, self._all_sessions, Span(self.since, self.until)
        if span:
            events = rows_in(span, events, events["at"].fillna(events["created_at"])).reset_index(drop=True)
            events.attrs = self._loaded.attrs
            self.sessions = _rows(self.sessions, _ids(self.sessions["id"]).isin(_ids(events["session_id"])))
        self.events = self._with_names(events)
        self.events = with_advice(self.events, self.hint)

    # -- names ------------------------------------------------------------------------

    def _named_sessions(self, sessions: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
        """The sessions with names; what has none is called by its id."""
        workspaces, agents, people = self.workspaces, self.agents, (self._people.index, self._people)
        workspace = look_up(sessions["workspace_id"], workspaces["id"], workspaces["full_name"])
        agent = look_up(sessions["agent_id"], agents["id"], _short_names(agents))
        agent = agent.fillna(look_up(sessions["agent_id"], *people)).fillna(sessions["agent_id"].astype(STR))
        if agent.isna().any() and "author_type" in events:
            is_agent = events["author_type"].astype(STR).str.contains("agent", case=False, na=False)
            wrote = events.loc[is_agent, ["session_id", "author_id", "author_name"]]  # not the texts
            names = wrote["author_name"].astype(STR).fillna(wrote["author_id"].astype(STR))
            agent = agent.fillna(look_up(_ids(sessions["id"]), _ids(wrote["session_id"]), names))
        named = sessions.assign(
            workspace=workspace.fillna(sessions["workspace_id"].astype(STR)),
            agent=agent,
            initiator=look_up(sessions["initiator_id"], *people).fillna(sessions["initiator_id"].astype(STR)),
            session=tell_apart(sessions["name"].fillna("untitled"), sessions["id"]),
        )
        return with_links(named, events, "id")

    def _named_credentials(self, credentials: pd.DataFrame) -> pd.DataFrame:
        owners = self.workspaces.dropna(subset="owner_id").drop_duplicates("owner_id")
        names = look_up(credentials["owner_id"], owners["owner_id"], owners["owner_name"])
        people = look_up(credentials["owner_id"], self._people.index, self._people)
        return credentials.assign(owner_name=names.fillna(people).fillna(credentials["owner_id"].astype(STR)))

    def _named_contexts(self, contexts: pd.DataFrame) -> pd.DataFrame:
        names = look_up(contexts["workspace_id"], self.workspaces["id"], self.workspaces["full_name"])
        return contexts.assign(workspace=names.fillna(contexts["workspace_id"].astype(STR)))

    def _with_names(self, frame: pd.DataFrame) -> pd.DataFrame:
        return with_sessions(frame, self._all_sessions, [name for name in NAMES if name in self._all_sessions])

    # -- how it is shown --------------------------------------------------------------

    @safe_repr
    def __repr__(self) -> str:
        counts = ", ".join(
            count_text(len(getattr(self, name)), name.removesuffix("s")) for name in _FRAMES if name != "turns"
        )
        incomplete = "" if self.complete else f"; incomplete: {', '.join(list(self.missing)[:3])}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"<History of {self.title}: {counts}{incomplete}{hint}>"

    @property
    def title(self) -> str:
        """The name of the account, its parts, and the span, in words."""
        owns = self.workspaces["owner_id"] == self.account
        name = next(iter(self.workspaces.loc[owns, "owner_name"].dropna()), self.account or "this credential")
        name = ", ".join([str(name), *self._parts])
        if self.since is None and self.until is None:
            return name
        begin, end = (end and local_text(end, self.tz).removesuffix(f" {self.tz}") for end in (self.since, self.until))
        return f"{name}, {begin or 'the beginning'} to {end or 'now'} {self.tz}"

    @property
    def hint(self) -> str:
        """Why there are no events, and what to do; empty if there are some."""
        if len(self.events):
            return ""
        if unread := [part for part in self.missing if part.startswith(_UNREAD)]:
            part, reason = unread[0], self.missing[unread[0]]
            others = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
            return f"no events: {part}{others} could not be read: {reason.removesuffix('.')}"
        if self.workspaces.empty and self._all_sessions.empty:
            return (
                "no workspaces: create one with client.workspaces.create(name), or load those of another account with "
                "ab.load_history(client, account)"
            )
        if self._all_sessions.empty:
            is_listed = "session_log" not in self.missing.get("sessions", "")
            start = "client.sessions.start(" if is_listed else "ab.session_log.start(client, "
            return f"no sessions: start one with {start}workspace, agent_id=..., prompt=...)"
        if self.since is not None or self.until is not None:
            ends = {"an earlier since=": self.since, "a later until=": self.until}
            advice = " or ".join(text for text, end in ends.items() if end is not None)
            return f"no events in this span: pass {advice}, or None for all"
        return "no events: send a message with client.sessions.send(session, text)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left'>{name}</th><td>{self._count_text(name)}</td>"
            f"<td style='text-align:left'><code>history.{name}</code></td></tr>"
            for name in _FRAMES
        )
        reasons = "".join(
            f"<li>{html.escape(part)}: {html.escape(reason)}</li>"
            for part, reason in list(self.missing.items())[:_SHOWN]
        )
        if len(self.missing) > _SHOWN:
            reasons += f"<li>and {len(self.missing) - _SHOWN:,} more in <code>history.missing</code></li>"
        incomplete = f"<p>Not complete:</p><ul>{reasons}</ul>" if reasons else ""
        hint = f"<p>{html.escape(self.hint[:1].upper() + self.hint[1:])}.</p>" if self.hint else ""
        restricted = f"<p><small>{html.escape(RESTRICTED)}</small></p>"
        return f"<p><b>History</b> of {html.escape(self.title)}</p><table>{rows}</table>{hint}{incomplete}{restricted}"

    def _count_text(self, name: str) -> str:
        # Showing a history must not compute anything.
        counted = name != "turns" or "turns" in self.__dict__
        return f"{len(getattr(self, name)):,}" if counted else "counted when first used"


def _frame_of(resource: str, data: Any, *columns: str) -> pd.DataFrame:
    """A frame of a resource, which has these columns; None is an empty one."""
    if data is None:
        return to_frame(resource, [])
    frame = frame_of(data, caller="ab.History", resource=resource)
    require(frame, *columns, caller=f"ab.History ({resource})")
    return frame


def _rows(frame: pd.DataFrame, mask: pd.Series) -> pd.DataFrame:
    """The rows of a frame, numbered again, with its ``attrs``."""
    rows: pd.DataFrame = frame[mask.to_numpy(bool)].reset_index(drop=True)
    rows.attrs = frame.attrs
    return rows


def _chosen(wanted: Any, noun: str, *tables: pd.DataFrame) -> dict[str, str]:
    """The names of those that `wanted` names, by id; the tables hold ids and names."""
    pairs = pd.concat([table.set_axis(["id", "name"], axis=1).astype(STR) for table in tables]).dropna(subset="id")
    pairs = pairs.drop_duplicates()
    chosen: dict[str, str] = {}
    for name in refs_of(wanted):
        ids = pairs.loc[(pairs["id"] == name) | (pairs["name"] == name), "id"].unique()
        if not len(ids):
            names = pairs["name"].dropna().unique().tolist()
            match = nearest(name, names)
            known_names = ", ".join(one_line(each, 60) for each in names[:_SHOWN]) or "none"
            hint = f"did you mean {match!r}?" if match else f"it has {known_names}."
            raise ValueError(f"This history has no {noun} {name!r}: {hint}")
        for id_ in ids:
            known = pairs.loc[pairs["id"] == id_, "name"].dropna()
            chosen[id_] = next(iter(known), id_)
    return chosen


def _ids(sessions: pd.Series) -> pd.Series:
    """Ids of sessions in lower case, as loads write them; a list has the platform's."""
    return sessions.map({session: normalize(str(session)) for session in sessions.dropna().unique()})


def _with_those_of(events: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    """The sessions, and those of the events that are not among them, by their ids."""
    ids = events["session_id"].dropna().drop_duplicates()
    others = ids[~_ids(ids).isin(_ids(sessions["id"]))]
    if others.empty:
        return sessions
    known = len(sessions)
    joined = sessions.reset_index(drop=True).reindex(range(known + len(others)))
    joined.loc[known:, "id"] = others.to_list()
    return joined


def _people(events: pd.DataFrame, sessions: pd.DataFrame) -> pd.Series:
    """The names of those who wrote events or started sessions, by their ids."""
    pairs = [events[["author_id", "author_name"]].set_axis(["id", "name"], axis=1)]
    if "initiator_name" in sessions:
        pairs.append(sessions[["initiator_id", "initiator_name"]].set_axis(["id", "name"], axis=1))
    named = pd.concat([pair.dropna().drop_duplicates("id").astype(STR) for pair in pairs])
    people = named.drop_duplicates("id").set_index("id", drop=False)
    return tell_apart(people["name"], people["id"])


def _short_names(agents: pd.DataFrame) -> pd.Series:
    """Names of agents; ``<owner>~<name>`` where two have the same name."""
    names = agents["name"]
    full: pd.Series = (agents["owner_name"] + "~" + names).fillna(names)
    return names.where(~names.duplicated(keep=False), full)
