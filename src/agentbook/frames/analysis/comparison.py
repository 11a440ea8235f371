"""Compares two spans of time, or a period with the one before it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..._text import nearest
from ..tabular import frame_of, part_of
from .clusters import ALPHA, Sample, holm, p_value, score_of_counts, score_of_stat
from .comparison_data import GROUP, ComparedSpan, Records, check_not_empty, number_groups, read_records, read_spans
from .event_columns import Integers
from .labels import with_provenance
from .periods import zone_in
from .selection import warn_if_empty, warns_once
from .statistic import check_stat, statistic_of
from .validate import groups_of

COUNTS = ("events", "sessions", "turns", "answered", "failed")
UNITS = ("turns", "sessions")
_NO_ROWS = np.zeros(0, np.int64)
_COLUMNS = {
    **{"metric": "str", **dict.fromkeys(("before", "after", "change", "ratio", "z"), "float64"), "n": "int64"},
    **{"sessions": "int64", "p": "float64", "p_holm": "float64", "significant": "bool"},
}


@warns_once
def compare_periods(
    data: Any,
    *,
    a: tuple[Any, Any] | None = None,
    b: tuple[Any, Any] | None = None,
    period: str | pd.Timedelta = "7D",
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
        Events, or the result of `turns`.
    a, b : tuple of str, datetime or date, optional
        Start and end of the earlier and of the later span. The start is included, the
        end is not. A date is midnight in `tz`; an instant needs a time zone. The spans
        may have different lengths; they must not overlap.
    period : str or Timedelta
        Without `a` and `b`: length of each period; default 7 days. The later one ends
        at `as_of` (inclusive), the earlier one where the later one begins.
    as_of : datetime, optional
        As for `turns`.
    by : str or list of str, optional
        Columns of the events or turns, such as ``"agent"``, to compare per value. A
        turn has the values of its first event.
    top : int, optional
        Number of groups to compare: those with the most turns. The others together are
        ``"other"``. Default: all.
    metric : str or list of str, optional
        Which metrics; default all. ``"latency"`` is that of `stat`.
    stat : str
        The statistic of latency: ``"p50"`` (default), ``"p95"`` or another percentile,
        ``"mean"`` or ``"max"``.
    unit : str
        ``"turns"`` (default): every turn counts once, so long sessions count more.
        ``"sessions"``: every session counts once, with its own statistic or share.
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
        If a column is missing (the message names it), an argument is invalid, or a span
        of `a` and `b` has no data.

    Notes
    -----
    A turn belongs to the span of its question, or of its reply if it has no question.

    The units of the test are sessions, because the turns of a session resemble each
    other. Shares, means and percentiles: a score test whose variance is that of
    shuffling sessions between the spans; a percentile is compared by the share of turns
    above that of both spans together (Mood's median test). Counts: a compound Poisson
    process, in which sessions arrive independently. See
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
    stat = check_stat(stat, caller="compare_periods")
    if unit not in UNITS:
        raise ValueError(f"compare_periods counts by unit='turns' or unit='sessions', not {unit!r}.")
    chosen = _metrics(metric, stat)
    of_turns = part_of(data, "turn_events")
    frame = frame_of(data, caller="compare_periods", resource="events")
    tz = zone_in(tz, frame)
    warn_if_empty(frame, caller="compare_periods")
    groups = groups_of(by, *_COLUMNS, caller="compare_periods")
    records = read_records(frame, groups, as_of, of_turns)
    spans = read_spans(a, b, period, records, tz)
    if a is not None:
        check_not_empty(spans, records)
    if top is not None or groups:
        values = number_groups(records, groups, spans, top)
    comparison = _Comparison(records, spans, stat, unit)
    rows = []
    for name in chosen:
        if name == "events" and not records.has_events:
            continue
        if not groups:
            rows.append(comparison.row(name, None))
            continue
        for number, keys in enumerate(zip(*(values[group] for group in groups), strict=True)):
            rows.append({**dict(zip(groups, keys, strict=True)), **comparison.row(name, number)})
    result = pd.DataFrame(rows, columns=[*groups, *_COLUMNS]).astype(_COLUMNS)
    p = result["p"].to_numpy()
    for at in result.groupby("metric", sort=False).indices.values():
        result.loc[at, "p_holm"] = holm(p[at])
    result["significant"] = result["p_holm"] < ALPHA
    key = None if len(chosen) == 1 else abs
    result = result.sort_values("z", key=key, ascending=False, kind="stable", na_position="last", ignore_index=True)
    tests = result.groupby("metric", sort=False)["p"].count().to_dict()
    details = {name: [str(span.begin), str(span.end)] for name, span in zip(("before", "after"), spans, strict=True)}
    return with_provenance(result, frame, "compare_periods", periods=details, unit=unit, tests=tests, tz=tz)


def _metrics(metric: str | Iterable[str] | None, stat: str) -> list[str]:
    names = [*COUNTS, "failed_share", f"latency_{stat}_s"]
    if metric is None:
        return names
    chosen = [metric] if isinstance(metric, str) else list(metric)
    chosen = [names[-1] if name == "latency" else name for name in chosen]
    for name in chosen:
        if name not in names:
            match = nearest(str(name), names)
            hint = f" (did you mean {match!r}?)" if match else ""
            raise ValueError(
                f"compare_periods has no metric {name!r}{hint}: choose from {', '.join(names)}, or 'latency' with stat=."
            )
    return list(dict.fromkeys(chosen))


class _Comparison:
    """The samples of two spans, by group."""

    def __init__(self, records: Records, spans: tuple[ComparedSpan, ComparedSpan], stat: str, unit: str) -> None:
        self._sides = [_Side(records.within(span)) for span in spans]
        self._lengths = (spans[0].seconds, spans[1].seconds)
        self._stat, self._unit = stat, unit

    def row(self, name: str, group: int | None) -> dict[str, Any]:
        """The row of one metric and group."""
        before, after = (side.sample(name, group) for side in self._sides)
        sessions = len(pd.unique(np.concatenate((before.session, after.session))))
        if name in COUNTS:
            first, last = before.value.sum(), after.value.sum()
            z = score_of_counts(before, after, self._lengths)
            # The count that the rate of the first span gives over the length of the
            # second.
            expected = first * self._lengths[1] / self._lengths[0]
            n = int(first + last)
        else:
            stat = "mean" if name == "failed_share" else self._stat
            n = len(before.value) + len(after.value)
            if self._unit == "sessions":
                before, after = before.per_session(stat), after.per_session(stat)
            first, last = (statistic_of(sample.value, stat) for sample in (before, after))
            expected, z = first, score_of_stat(before, after, stat)
        change = last - expected
        return {
            "metric": name, "before": first, "after": last, "change": change,
            "ratio": last / expected if expected else np.nan, "z": z, "n": n, "sessions": sessions,
            # Among equal values, more can exceed a percentile that itself stays or
            # falls: that is no evidence of this change.
            "p": p_value(z) if not change * z <= 0 else 1.0, "p_holm": np.nan, "significant": False,
        }  # fmt: skip


class _Side:
    """The turns and events of one span."""

    def __init__(self, records: Records) -> None:
        self._turns, self._events = records.turns, records.events
        self._counts_events = records.has_events
        self._samples: dict[str, tuple[Sample, dict[int, Integers]]] = {}

    def sample(self, name: str, group: int | None) -> Sample:
        """The values that a metric counts, in one group or in all."""
        if name not in self._samples:
            self._samples[name] = self._read(name)
        sample, rows = self._samples[name]
        if group is not None:
            of_group = rows.get(group, _NO_ROWS)
            sample = Sample(sample.session[of_group], sample.value[of_group])
        return _sessions(sample) if name == "sessions" else sample

    def _read(self, name: str) -> tuple[Sample, dict[int, Integers]]:
        """The values that a metric counts in all groups, and the rows of each group."""
        rows, values = self._turns, np.ones(len(self._turns))
        status = rows["status"]
        if name == "events" or (name == "sessions" and self._counts_events):
            rows, values = self._events, self._events["weight"].to_numpy(np.float64)
        elif name.startswith("latency"):
            rows = rows[(status == "answered") & rows["latency_s"].notna()]
            values = rows["latency_s"].to_numpy(np.float64)
        elif name == "failed_share":
            values = (status == "failed").to_numpy().astype(np.float64)
        elif name in ("answered", "failed"):
            rows = rows[status == name]
            values = values[: len(rows)]
        groups: Any = rows.groupby(GROUP).indices if GROUP in rows else {}
        return Sample(rows["session"].to_numpy(), values), groups


def _sessions(sample: Sample) -> Sample:
    sessions = np.unique(sample.session)
    return Sample(sessions, np.ones(len(sessions)))
