"""Compares two spans of time, a period with the one before it, or two groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..._text import count_text, nearest
from ...api.span import parse_length, parse_span
from ..parse.schemas import STR
from ..tabular import frame_of, part_of, with_provenance
from .arguments import (
    DAY,
    OTHER,
    group_of,
    groups_of,
    keep_top,
    moment_of,
    require,
    warn_caller,
    warn_if_empty,
    warns_once,
    with_instants,
    zone_in,
)
from .clusters import ALPHA, Sample, holm, p_value, score_of_counts, score_of_stat
from .statistic import check_stat, statistic_of
from .turns import Floats, assign_turns, is_sessions, is_steps, is_turns, people_of, read_events, steps_as_turns, turns

GROUP = "(by)"  # in parentheses, so that it cannot clash with a column
COUNTS = ("events", "sessions", "turns", "answered", "failed")
UNITS = ("turns", "sessions")
_COLUMNS = {
    **{"metric": "str", **dict.fromkeys(("before", "after", "change", "ratio", "z"), "float64"), "n": "int64"},
    **{"sessions": "int64", "p": "float64", "p_holm": "float64", "significant": "bool"},
}


@warns_once()
def compare_periods(
    data: Any,
    *,
    a: tuple[Any, Any] | None = None,
    b: tuple[Any, Any] | None = None,
    period: str | timedelta = "7D",
    as_of: Any = None,
    by: str | list[str] | None = None,
    top: int | None = None,
    metric: str | list[str] | None = None,
    stat: str = "p50",
    unit: str = "turns",
    tz: str | tzinfo | None = None,
) -> pd.DataFrame:
    """Two spans by metric: what changed, and whether it is more than noise.

    Either two spans, as in ``a=("2026-10-26", "2026-11-02"), b=("2026-11-09",
    "2026-11-16")``; or, without them, the last `period` and the one before it.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, the result of `turns`, or a table of sessions, such as that of
        `session_summary` with scores or labels.
    a, b : tuple of str, datetime or date, optional
        Start and end of a span: `a` is the earlier one, `b` the later one. The start is
        included, the end is not. A date is midnight in `tz`; an instant needs a time
        zone. The spans may have different lengths; they must not overlap. One that had
        not ended when the data were loaded ends there.
    period : str or timedelta
        Without `a` and `b`: length of each period; default 7 days. The later one ends
        at `as_of` (inclusive), the earlier one where the later one begins.
    as_of : datetime, optional
        The time up to which the events are known, as for `turns`. Default: the end of
        what was loaded.
    by : str or list of str, optional
        Columns of the events or turns, such as ``"agent"``, to compare per value. A
        turn has the values of its first event.
    top : int, optional
        Number of groups to compare: those with the most turns. The others together are
        ``"other"``. Default: all.
    metric : str or list of str, optional
        What to compare, such as ``"latency"`` or ``"failed_share"``. Default: all that
        the table below names. ``"latency"`` is that of `stat`. Of turns and sessions,
        also each column of booleans, such as ``"passed"`` of `with_scores`: the share
        that is true, without those that are null. Of a table of sessions, only their
        number and these shares.
    stat : str
        The statistic of latency: ``"p50"`` (default), ``"p95"`` or another percentile,
        ``"mean"`` or ``"max"``.
    unit : str
        Whether every turn counts once (``"turns"``, default), so that long sessions
        count more, or every session, with its own statistic or share (``"sessions"``,
        as always of a table of sessions).
    tz : str or tzinfo, optional
        Time zone of dates, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of the
        history, else UTC.

    Returns
    -------
    DataFrame
        With one metric, the clearest increase comes first and the clearest decrease
        last. With several, the clearest changes come first.

        =========== ======= ============================================================
        column      dtype   meaning
        =========== ======= ============================================================
        metric      str     events, sessions, turns, answered, failed, failed_share,
                            latency_p50_s
        before      float64 in the earlier span
        after       float64 in the later span
        change      float64 after - before; for counts of spans of different lengths,
                            after - before x (length of b / length of a)
        ratio       float64 after / before, likewise; null if before is 0
        z           float64 change in standard errors, comparable across metrics
        n           int64   events, sessions or turns of both spans
        sessions    int64   sessions of both spans, the units of the test
        p           float64 probability of a change as large by chance, two-sided
        p_holm      float64 `p` corrected for the number of groups (Holm)
        significant bool    whether `p_holm` is below 0.05: more than noise
        =========== ======= ============================================================

    Raises
    ------
    ValueError
        If a column is missing (the message names it), an argument is invalid, a span of
        `a` and `b` has no data, or a span reaches beyond what was loaded.

    Warns
    -----
    UserWarning
        If ``by="topic"`` leaves out topics that are not stable; ``attrs["agentbook"]
        ["left_out"]`` names them.

    Notes
    -----
    A turn belongs to the span of its question, or of its reply if it has no question.

    The units of the test are sessions, because the turns of a session resemble each
    other; with ``unit="sessions"``, people who started several are, as far as the
    rows say who started them, because their sessions resemble each other too.

    Shares, means and percentiles: a score test whose variance is that of shuffling
    sessions between the spans; a percentile is compared by the share of turns
    above that of both spans together (Mood's median test). Counts: a compound Poisson
    process, in which sessions arrive independently, and the days of one span paired
    with those of the other, for sessions that do not; the weaker evidence counts. See
    `agentbook.frames.analysis.clusters`. A span needs two sessions. The test does not
    know weekdays or holidays: compare whole weeks. With `by`, `p_holm` keeps the
    probability of any false alarm among the groups of a metric below 5 % (Holm, 1979);
    ``attrs["agentbook"]["tests"]`` has the number of groups tested, by metric.

    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "created_at": "2026-10-03T08:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> table = compare_periods(frame, as_of="2026-10-04T00:00:00Z").set_index("metric")
    >>> table.loc["events", ["before", "after"]].to_list()
    [0.0, 1.0]
    """
    asked = _read(data, by, as_of, metric, stat, unit, "compare_periods")
    frame, records, chosen, groups = asked.frame, asked.records, asked.metrics, asked.groups
    tz = zone_in(tz, frame)
    now = pd.Timestamp(frame.attrs.get("agentbook", {}).get("loaded_at") or "NaT")
    if as_of is None and not pd.isna(until := _loaded(frame)[1]):
        records.as_of = until if pd.isna(now) else min(until, now)
    spans = _spans(a, b, period, records, tz)
    if spans[1].begin < now < spans[1].end:  # this week so far
        spans = spans[0], replace(spans[1], end=now)
    if a is not None:
        _check_not_empty(spans, records)
    if len(frame):
        _check_loaded(spans, frame)
    if top is not None or groups:
        values = _number_groups(records, groups, spans, top)
    rows = []
    for name in chosen:
        sides = [records.sample(name, span.contains) for span in spans]
        if not groups:
            rows.append(_row(name, sides, spans, asked))
            continue
        parts: list[dict[Any, pd.DataFrame]] = [dict(iter(side.groupby(GROUP))) for side in sides]
        for number, keys in enumerate(zip(*(values[group] for group in groups), strict=True)):
            pair = [part.get(number, side[:0]) for part, side in zip(parts, sides, strict=True)]
            rows.append({**dict(zip(groups, keys, strict=True)), **_row(name, pair, spans, asked)})
    result = pd.DataFrame(rows, columns=[*groups, *_COLUMNS]).astype(_COLUMNS)
    for at in result.groupby("metric", sort=False).indices.values():
        result.loc[at, "p_holm"] = holm(result["p"].to_numpy()[at])
    tests = result.groupby("metric", sort=False)["p"].count().to_dict()
    details = {name: [str(span.begin), str(span.end)] for name, span in zip(("before", "after"), spans, strict=True)}
    return asked.table(result, periods=details, tests=tests, tz=tz, **asked.left_out)


@warns_once()
def compare_groups(
    data: Any,
    *,
    by: str,
    groups: Any = None,
    metric: str | list[str] | None = None,
    stat: str = "p50",
    unit: str = "turns",
) -> pd.DataFrame:
    """Two groups at the same time: how they differ, and whether it is more than noise.

    Such as two versions of an agent in parallel, weekends and weeks, or a topic and the
    rest. `compare_periods` compares one group at two times.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    by : str
        The column of the events or turns that tells the groups apart, such as
        ``"agent_version"``. A turn has the value of its first event.
    groups : tuple of two values, or one value, optional
        What `by` is in the first group and in the second one. One value is compared
        with the rest, which is called ``"other"``. Default: the two that there are.
    metric, stat, unit
        As for `compare_periods`. Default: the share of failed turns and the latency.
        Counts are those of the same time; who decides how much each group gets asked,
        decides them.

    Returns
    -------
    DataFrame
        The columns are those of `compare_periods`, but for ``a`` and ``b`` in place of
        ``before`` and ``after``. The clearest difference comes first. ``p_holm`` is
        corrected for the number of metrics.

    Raises
    ------
    ValueError
        If a column is missing, an argument is invalid, the groups are the same, or one
        of them has no data. The message says which values there are.

    Notes
    -----
    The test is that of `compare_periods`: its units are sessions, and a session may
    have turns in both groups. It tells whether groups differ, not why: what else
    differs between them may be the reason.

    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message",
    ...    "author": {"type": "user"}, "created_at": "2026-10-03T08:00:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000002", "type": "message",
    ...    "author": {"type": "user"}, "created_at": "2026-10-03T09:00:00Z"}]}'''
    >>> frame = turns(to_frame("events", [page], context={"session_id": "s1"}))
    >>> frame["late"] = [False, True]
    >>> table = compare_groups(frame, by="late", metric="turns")
    >>> table.loc[0, ["a", "b"]].to_list()
    [1.0, 1.0]
    """
    asked = _read(data, by, None, metric, stat, unit, "compare_groups")
    records, key = asked.records, _key_of(by)
    parts = [part.astype({key: object}) for part in (records.turns, records.events)]
    records.turns, records.events = parts
    both = pd.concat(parts)
    pair = _pair(groups, sorted(both[key].dropna().unique().tolist(), key=str), by)
    # Both groups are those of one span, that of the data, which may be an instant.
    begin, end = both["at"].min(), both["at"].max()
    span = ComparedSpan(begin, max(end, begin + pd.Timedelta("1s")), True)
    kinds = {{"before": "a", "after": "b"}.get(name, name): kind for name, kind in _COLUMNS.items()}
    rows = [
        _row(name, [records.sample(name, chooses) for chooses in pair.values()], (span, span), asked, ("a", "b"))
        for name in asked.metrics
    ]
    result = pd.DataFrame(rows, columns=[*kinds]).astype(kinds)
    result["p_holm"] = holm(result["p"].to_numpy())
    return asked.table(result, by=by, groups=dict(zip("ab", map(str, pair), strict=True)))


def _pair(groups: Any, known: list[Any], by: str) -> dict[Any, Callable[[pd.DataFrame], pd.Series]]:
    """What chooses the rows of each of two groups, by the groups' values."""
    column = _key_of(by)
    there = f"{by!r} is {', '.join(map(repr, known[:20]))}" if known else f"{by!r} has no value"
    if groups is None:
        if len(known) != 2:
            raise ValueError(f"compare_groups needs groups=(a, b), because {there}.")
        groups = tuple(known)
    rest = not isinstance(groups, tuple | list)
    first, *others = (groups, OTHER) if rest else groups
    if len(others) != 1:
        raise ValueError(f"compare_groups compares two groups, as in groups=(a, b), not {len(others) + 1}.")
    [second] = others
    rest = rest or (second == OTHER and OTHER not in known)
    if not rest and first == second:
        raise ValueError(f"compare_groups compares two groups, and both are {first!r}; {there}.")
    for value in (first,) if rest else (first, second):
        if value not in known:
            raise ValueError(f"compare_groups has no data of the group {value!r}: {there}.")
    if rest and len(known) < 2:
        raise ValueError(f"compare_groups has no data of other groups than {first!r}.")
    return {
        first: lambda rows: rows[column] == first,
        second: lambda rows: (rows[column] != first) & rows[column].notna() if rest else rows[column] == second,
    }


def is_share(metric: str) -> bool:
    """Whether a metric is the share of failed turns, or of a column of booleans."""
    return metric not in COUNTS and not _is_latency(metric)


def _is_latency(metric: str) -> bool:
    return metric.startswith("latency_") and metric.endswith("_s")


def _shares(frame: pd.DataFrame) -> list[str]:
    """The columns whose share can be compared: those of booleans, but of events."""
    has_shares = is_turns(frame) or is_sessions(frame)
    names = map(str, frame.select_dtypes(["bool", "boolean"])) if has_shares else ()
    return [name for name in names if name not in (*COUNTS, "failed_share") and not _is_latency(name)]


def _metrics(metric: str | Iterable[str] | None, stat: str, frame: pd.DataFrame, caller: str) -> list[str]:
    shares = _shares(frame)
    usual = [*COUNTS, "failed_share", f"latency_{stat}_s"]
    if is_sessions(frame):
        usual, shares = ["sessions", *shares], []
    if metric is None:
        return usual if caller == "compare_periods" or is_sessions(frame) else usual[-2:]
    chosen = [metric] if isinstance(metric, str) else list(metric)
    chosen = [usual[-1] if name == "latency" and not is_sessions(frame) else name for name in chosen]
    for name in chosen:
        if name not in (names := [*usual, *shares]):
            match = nearest(str(name), names)
            hint = f" (did you mean {match!r}?)" if match else ""
            latency = "" if is_sessions(frame) else ", or 'latency' with stat="
            raise ValueError(f"{caller} has no metric {name!r}{hint}: choose from {', '.join(names)}{latency}.")
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be compared: the metrics, and the records that they count."""

    frame: pd.DataFrame
    records: Records
    metrics: list[str]
    groups: list[str]
    stat: str
    unit: str
    caller: str
    left_out: dict[str, Any]

    def table(self, result: pd.DataFrame, **details: Any) -> pd.DataFrame:
        """The result with what is significant, the clearest change first."""
        result["significant"] = result["p_holm"] < ALPHA
        key = None if len(self.metrics) == 1 and self.caller == "compare_periods" else abs
        result = result.sort_values("z", key=key, ascending=False, kind="stable", na_position="last", ignore_index=True)
        return with_provenance(result, self.frame, self.caller, unit=self.unit, **details)


def _read(data: Any, by: Any, as_of: Any, metric: Any, stat: str, unit: str, caller: str) -> _Asked:
    stat = check_stat(stat, caller=caller)
    if unit not in UNITS:
        raise ValueError(f"{caller} counts by unit='turns' or unit='sessions', not {unit!r}.")
    of_turns = part_of(data, "turn_events")
    frame = frame_of(data, caller=caller, resource="events")
    warn_if_empty(frame, caller=caller)
    metrics = _metrics(metric, stat, frame, caller)
    known = frame if is_turns(frame) or is_sessions(frame) else None
    if caller == "compare_periods":
        groups = groups_of(by, *_COLUMNS, caller=caller, frame=known)
    else:
        groups = [group_of(by, *_COLUMNS, "a", "b", caller=caller, frame=known)]
    stable, left_out = _stable(frame, groups) if caller == "compare_periods" else (frame, {})
    if is_sessions(stable):
        stable, unit = _as_turns(stable, caller), "sessions"
    records = _records(stable, groups, as_of, of_turns, unit, caller)
    metrics = [name for name in metrics if name != "events" or records.has_events]
    return _Asked(frame, records, metrics, groups, stat, unit, caller, left_out)


def _stable(frame: pd.DataFrame, groups: Sequence[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows without unstable topics, and the names of those."""
    unstable = frame.attrs.get("agentbook", {}).get("unstable_topics", [])
    found = [name for name in unstable if "topic" in groups and name in set(frame.get("topic", ()))]
    if not found:
        return frame, {}
    warn_caller(
        f"compare_periods leaves out {count_text(len(found), 'topic')} that topics with another seed would not find again "
        f"({'; '.join(found[:3])}{'; ...' if len(found) > 3 else ''}): topics.frame['stability'] says how stable each is, "
        "and a smaller k= gives more stable ones.",
        UserWarning,
    )
    return frame[~frame["topic"].isin(found)], {"left_out": found}


def _row(
    name: str,
    sides: Sequence[pd.DataFrame],
    spans: Sequence[ComparedSpan],
    asked: _Asked,
    names: Sequence[str] = ("before", "after"),
) -> dict[str, Any]:
    """The row of one metric, of the values of both sides."""
    if name == "sessions":
        sides = [side.sort_values("at").drop_duplicates("session").assign(value=1.0) for side in sides]
    samples = [Sample(side["session"].to_numpy(np.int64), side["value"].to_numpy(np.float64)) for side in sides]
    sessions = len(np.union1d(samples[0].session, samples[1].session))
    if name in COUNTS:
        lengths = (spans[0].seconds, spans[1].seconds)
        first, last = (sample.value.sum() for sample in samples)
        z = score_of_counts(samples[0], samples[1], lengths, _blocks(sides, spans))
        # The count that the rate of the first span gives over the length of the second.
        expected = first * lengths[1] / lengths[0]
        n = int(first + last)
    else:
        stat = asked.stat if _is_latency(name) else "mean"
        n = sum(len(sample.value) for sample in samples)
        if asked.unit == "sessions":
            people = pd.concat(sides).drop_duplicates("session").set_index("session")["person"]
            samples = [sample.per_session(stat).of(people) for sample in samples]
        first, last = (statistic_of(sample.value, stat) for sample in samples)
        expected, z = first, score_of_stat(samples[0], samples[1], stat)
    change = last - expected
    return {
        "metric": name, names[0]: first, names[1]: last, "change": change,
        "ratio": last / expected if expected else np.nan, "z": z, "n": n, "sessions": sessions,
        # Among equal values, more can exceed a percentile that itself stays or falls:
        # that is no evidence of this change.
        "p": p_value(z) if not change * z <= 0 else 1.0, "p_holm": np.nan, "significant": False,
    }  # fmt: skip


def _blocks(sides: Sequence[pd.DataFrame], spans: Sequence[ComparedSpan]) -> Floats:
    """Totals of the days of both spans, or of a seventh of each if they are shorter."""
    days = min(span.seconds for span in spans) // DAY.total_seconds()
    number = int(days) if 7 <= days <= 60 else 60 if days > 60 else 7
    totals = []
    for side, span in zip(sides, spans, strict=True):
        at = (side["at"] - span.begin).dt.total_seconds().to_numpy() / (span.seconds or 1) * number
        place = np.minimum(at.astype(np.int64), number - 1)
        totals.append(np.bincount(place, side["value"], number))
    return np.array(totals)


# -- the data ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedSpan:
    """A span of time that includes either its start or its end."""

    begin: Any
    end: Any
    includes_end: bool = False

    def contains(self, rows: pd.DataFrame) -> pd.Series:
        """Whether each row lies in the span."""
        return rows["at"].between(self.begin, self.end, inclusive="right" if self.includes_end else "left")

    @property
    def seconds(self) -> float:
        """Its length."""
        return float((self.end - self.begin).total_seconds())

    def __str__(self) -> str:
        return f"{self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


@dataclass(slots=True)
class Records:
    """Turns and events, one row each.

    Attributes
    ----------
    turns : DataFrame
        ``session`` and ``person`` (numbers), ``at``, ``status``, ``latency_s``, the
        columns to group by, and those of booleans, whose share can be compared.
    events : DataFrame
        ``session``, ``at``, ``weight`` (how many events a row stands for) and the
        columns to group by.
    as_of : Timestamp
        The time at which the data end.
    has_events : bool
        Whether events are known, so that they can be counted.
    """

    turns: pd.DataFrame
    events: pd.DataFrame
    as_of: Any
    has_events: bool = True

    def sample(self, name: str, chooses: Callable[[pd.DataFrame], pd.Series]) -> pd.DataFrame:
        """The rows of one side that a metric counts, with a ``value`` each."""
        rows = self.events if name == "events" or (name == "sessions" and self.has_events) else self.turns
        rows = rows[chooses(rows)]
        if name == "events":
            return rows.assign(value=rows["weight"])
        if _share_of(name) in rows:
            rows = rows[rows[_share_of(name)].notna()]
            return rows.assign(value=rows[_share_of(name)].astype("float64"))
        if _is_latency(name):
            rows = rows[(rows["status"] == "answered") & rows["latency_s"].notna()]
            return rows.assign(value=rows["latency_s"])
        if name == "failed_share":
            return rows.assign(value=(rows["status"] == "failed").astype("float64"))
        return (rows[rows["status"] == name] if name in ("answered", "failed") else rows).assign(value=1.0)


def _as_turns(sessions: pd.DataFrame, caller: str) -> pd.DataFrame:
    """Sessions, each with the columns of one turn."""
    begin = "first_at" if "first_at" in sessions else "created_at"
    require(sessions, begin, caller=caller)
    key = sessions["session_id" if "session_id" in sessions else "id"]
    return sessions.assign(
        session_id=key, asked_at=sessions[begin], replied_at=sessions[begin], turn=1, status="", latency_s=np.nan
    )


def _records(
    frame: pd.DataFrame, groups: Sequence[str], as_of: Any, turn_events: pd.DataFrame | None, unit: str, caller: str
) -> Records:
    """The records of events, or of the result of `turns`.

    Turns are read from `turn_events`, if there are any.
    """
    if is_steps(frame):
        frame = steps_as_turns(frame)
    read = _of_turns if is_turns(frame) else _of_events
    records = read(frame, groups, as_of, unit, caller)
    if turn_events is not None and turn_events is not frame:
        records.turns = _of_events(turn_events, groups, as_of, unit, caller).turns
    return records


def _of_turns(frame: pd.DataFrame, groups: Sequence[str], as_of: Any, unit: str, caller: str) -> Records:
    needed = ("session_id", "asked_at", "replied_at", "status", "latency_s")
    require(frame, *needed, caller=caller)
    groups_of(groups, caller=caller, frame=frame)
    frame = with_instants(frame, "asked_at", "replied_at", caller=caller)
    table = _turn_rows(frame, pd.factorize(frame["session_id"])[0], [frame[name] for name in groups], groups, unit)
    table = table.assign(**{_share_of(name): frame[name].array for name in _shares(frame)})
    has_events = "events" in frame
    weight = frame["events"].to_numpy(np.float64) if has_events else np.ones(len(frame))
    known = frame.attrs.get("agentbook", {}).get("as_of")
    until = moment_of(frame, as_of if as_of is not None else known, "asked_at")
    return Records(
        table, table.drop(columns=["person", "status", "latency_s"]).assign(weight=weight), until, has_events
    )


def _of_events(frame: pd.DataFrame, groups: Sequence[str], as_of: Any, unit: str, caller: str) -> Records:
    columns = read_events(frame, caller=caller)
    rows, assignment = columns.events, assign_turns(columns)
    frame = turns(frame, as_of=as_of)
    # A column of the events takes precedence over one of the turns, which may mean
    # something else. But the events of a turn count for who asked the question.
    groups_of([name for name in groups if name not in frame], caller=caller, frame=rows)
    of_rows = [name in rows and name not in ("author_id", "author_type") for name in groups]
    of_turns = [
        pd.Series(rows[name].array[assignment.starts]) if is_own else frame[name]
        for name, is_own in zip(groups, of_rows, strict=True)
    ]
    of_events = [
        rows[name] if is_own else pd.Series(frame[name].array[assignment.turn])
        for name, is_own in zip(groups, of_rows, strict=True)
    ]
    table = _turn_rows(frame, columns.session[assignment.starts], of_turns, groups, unit)
    counted = pd.DataFrame({"session": columns.session, "at": rows["created_at"].array, "weight": 1.0})
    counted = counted.assign(**{_key_of(name): values.array for name, values in zip(groups, of_events, strict=True)})
    until = pd.Timestamp(frame.attrs["agentbook"]["as_of"] or "NaT")
    return Records(table, counted, until)


def _turn_rows(
    frame: pd.DataFrame, sessions: Any, values: Sequence[pd.Series], groups: Sequence[str], unit: str
) -> pd.DataFrame:
    at = frame["asked_at"].fillna(frame["replied_at"])
    people = pd.factorize(people_of(frame))[0] if unit == "sessions" else sessions
    table = pd.DataFrame(
        {
            "session": sessions, "person": people, "at": at.array, "status": frame["status"].array,
            "latency_s": frame["latency_s"].array,
        }
    )  # fmt: skip
    return table.assign(**{_key_of(name): column.array for name, column in zip(groups, values, strict=True)})


def _share_of(name: str) -> str:
    """The name of a column of booleans in the records."""
    return f"(share) {name}"


def _key_of(group: str) -> str:
    """The name of a group's column in the records, which have other columns too."""
    return f"(by) {group}"


def _spans(a: Any, b: Any, period: Any, records: Records, tz: str) -> tuple[ComparedSpan, ComparedSpan]:
    """The spans to compare: `a` and `b`, or the last period and the one before it."""
    if a is None and b is None:
        length, until = parse_length(period, "period"), records.as_of
        if not length:
            raise ValueError(f"period must be longer than zero, not {period!r}.")
        # Without a known time, the data end with the latest event, which is included.
        return ComparedSpan(until - 2 * length, until - length, True), ComparedSpan(until - length, until, True)
    first, second = _span(a, "a", records.as_of, tz), _span(b, "b", records.as_of, tz)
    if first.end > second.begin and second.end <= first.begin:
        raise ValueError(f"a must be the earlier span, and a ({first}) is after b ({second}): swap a= and b=.")
    if first.end > second.begin:
        raise ValueError(
            f"a and b must not overlap, and b ({second}) begins before a ({first}) ends: a span ends where the next begins."
        )
    return first, second


def _span(value: Any, name: str, now: Any, tz: str) -> ComparedSpan:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or any(end is None for end in value):
        raise ValueError(
            f"{name} must be a start and an end, as in {name}=('2026-10-26', '2026-11-02'), not {value!r}. "
            "Pass both a= and b=, or neither to compare the last period= with the one before."
        )
    span = parse_span(value[0], value[1], tz, now=now, names=(f"the start of {name}", f"the end of {name}"))
    if span.since is None or span.until is None:
        raise ValueError(f"{name} counts back from the latest data, and there are none: write dates, or load events.")
    return ComparedSpan(pd.Timestamp(span.since), pd.Timestamp(span.until))


def _check_not_empty(spans: Sequence[ComparedSpan], records: Records) -> None:
    """Raise a `ValueError` that names the span without data, and the data's extent."""
    for name, span in zip("ab", spans, strict=True):
        if any(span.contains(rows).any() for rows in (records.turns, records.events)):
            continue
        moments = pd.concat([records.turns["at"], records.events["at"]]).dropna()
        extent = "there are none at all"
        if len(moments):
            extent = f"they span {moments.min():%Y-%m-%d %H:%M} to {moments.max():%Y-%m-%d %H:%M} UTC"
        raise ValueError(
            f"compare_periods has no data in {name} ({span}); {extent}. Choose a span within, or load more."
        )


def _loaded(frame: pd.DataFrame) -> tuple[Any, Any]:
    """Start and end of the span that was loaded; NaT where it has none."""
    loaded = frame.attrs.get("agentbook", {}).get("parameters", {})
    ends = pd.Series([loaded.get("since"), loaded.get("until")], dtype=object)
    since, until = pd.to_datetime(ends, utc=True, errors="coerce", format="ISO8601")
    return since, until


def _check_loaded(spans: Sequence[ComparedSpan], frame: pd.DataFrame) -> None:
    """Raise a `ValueError` if a span reaches beyond what was loaded."""
    since, until = _loaded(frame)
    # Periods count back from when a frame was loaded, which is known to the second.
    if not (spans[0].begin < since.floor("s") or spans[1].end > until.ceil("s")):
        return
    extent = " ".join(
        f"{word} {moment:%Y-%m-%d %H:%M}" for word, moment in (("from", since), ("to", until)) if not pd.isna(moment)
    )
    raise ValueError(
        f"compare_periods cannot compare {spans[0]} with {spans[1]}, because the data were loaded only {extent} UTC. Load "
        "more, or choose shorter spans with a= and b=, or with period= and as_of=."
    )


def _number_groups(records: Records, groups: list[str], spans: Sequence[ComparedSpan], top: int | None) -> pd.DataFrame:
    """Add the number of each row's group to the records; return the groups' values.

    The number is in the column ``(by)``. Rows outside the spans, and rows without a
    value, have -1.
    """
    parts, names, groups = [records.turns, records.events], groups, [_key_of(name) for name in groups]
    if top is not None:
        inside = pd.concat([parts[0][span.contains(parts[0])] for span in spans])
        largest = keep_top(inside, groups, top, caller="compare_periods")
        if largest is not inside:
            chosen = pd.MultiIndex.from_frame(largest[groups]).unique()
            parts = [_with_other(part, groups, chosen) for part in parts]
    keys = pd.concat([part[groups].astype(object) for part in parts], ignore_index=True)
    moments = pd.concat([part[["at"]] for part in parts], ignore_index=True)
    rows = keys[pd.concat([span.contains(moments) for span in spans], axis=1).any(axis=1)].dropna()
    number = np.full(len(keys), -1, np.int64)
    number[rows.index] = rows.groupby(groups, sort=True).ngroup()
    records.turns, records.events = (
        part.assign(**{GROUP: numbers}) for part, numbers in zip(parts, np.split(number, [len(parts[0])]), strict=True)
    )
    numbers, first = np.unique(number, return_index=True)
    return keys.iloc[first[numbers >= 0]].reset_index(drop=True).set_axis(names, axis=1)


def _with_other(part: pd.DataFrame, groups: list[str], chosen: pd.MultiIndex) -> pd.DataFrame:
    """The part with all groups that are not chosen as ``"other"``; nulls stay."""
    texts = part[groups].astype(STR)
    rest = ~pd.MultiIndex.from_frame(texts).isin(chosen) & texts.notna().all(axis=1).to_numpy()
    return part.assign(**{name: texts[name].mask(rest, OTHER) for name in groups})
