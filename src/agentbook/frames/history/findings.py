"""What stands out in a history, in sentences.

Specification: "Events"; "Errors", runtime limit failures; "Resources and their fields".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from ..._text import clip, count_text
from ..analysis.arguments import local_text
from ..analysis.comparison import compare_periods
from ..analysis.failures import failures
from ..analysis.findings import credential_findings

_LONGEST = pd.Timedelta("7D")  # the longest period that is compared with the one before
_FEW = 5  # sessions: in fewer, hardly any difference is more than noise
_NAMES = 3  # of a sentence
_KINDS = 5  # of failures, and of findings about credentials


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, and whether it is worth a look, a note or fine."""

    kind: Literal["look", "note", "fine"]
    text: str


def findings(history: Any) -> list[Finding]:
    """What stands out, the most important first.

    Agents that became slower by more than noise, failed turns by kind, questions
    without a reply, credentials with findings, and what is missing.

    Examples
    --------
    >>> history = ab.History(events.iloc[:0])
    >>> [finding.text for finding in findings(history)]
    ['There are no turns.']
    """
    rows = [*_volume(history), *_speed(history), *_failed(history), *_unanswered(history), *_credentials(history)]
    rows += [Finding("look", f"Not complete: {part}: {reason}") for part, reason in history.missing.items()]
    order = {"look": 0, "note": 1, "fine": 2}
    return sorted(rows, key=lambda finding: order[finding.kind])


def _volume(history: Any) -> Iterator[Finding]:
    turns = history.turns
    if turns.empty:
        yield Finding("note", "There are no turns.")
        return
    shares = turns["status"].value_counts(normalize=True)
    parts = [f"{100 * shares[name]:.1f} % {name}" for name in shares.index if shares[name]]
    people = turns["author_id"].nunique()
    yield Finding(
        "note",
        f"{count_text(len(turns), 'turn')} in {count_text(turns['session_id'].nunique(), 'session')}, asked by {people:,} "
        f"{'person or key' if people == 1 else 'people or keys'}: {', '.join(parts)}.",
    )


def _speed(history: Any) -> Iterator[Finding]:
    turns = history.turns
    moments = turns["asked_at"].dropna()
    if moments.empty:
        return
    end = moments.max() if history.until is None else history.until
    begin = moments.min() if history.since is None else history.since
    length = min(_LONGEST, (end - begin) / 2)
    if length <= pd.Timedelta(0):
        return
    table = compare_periods(turns, period=length, as_of=end, by="agent", metric="latency")
    changed = table[table["significant"]]
    days = f"the {_length_text(length)} until {local_text(end, history.tz)} with those before"
    rows: Iterator[Any] = changed.itertuples()
    for row in rows:
        slower = row.change > 0
        yield Finding(
            "look" if slower else "fine",
            f"{row.agent} answers {'more slowly' if slower else 'faster'}: median {row.before:.3g} s before, "
            f"{row.after:.3g} s now ({row.ratio:.2g} times as long), comparing {days}; {count_text(row.n, 'turn')} of "
            f"{count_text(row.sessions, 'session')}, p = {row.p_holm:.2g}.",
        )
    if (table.dropna(subset=["before", "after"])["sessions"] < _FEW).all():
        yield Finding("note", f"There are too few turns to tell whether an agent became slower, comparing {days}.")
    elif not (changed["change"] > 0).any():
        yield Finding("fine", f"No agent became slower by more than noise, comparing {days}.")


def _length_text(length: pd.Timedelta) -> str:
    hours = length / pd.Timedelta("1h")
    if hours < 2:
        return count_text(max(1, round(60 * hours)), "minute")
    return f"{hours / 24:.3g} days" if hours >= 48 else f"{hours:.3g} hours"


def _moment_text(preposition: str, moment: pd.Timestamp, tz: str) -> str:
    return "at an unknown time" if pd.isna(moment) else f"{preposition} {local_text(moment, tz)}"


def _failed(history: Any) -> Iterator[Finding]:
    table = failures(history.turns)
    rows: Iterator[Any] = table.head(_KINDS).itertuples()
    for row in rows:
        says_more = row.kind == "error" and isinstance(row.example, str)
        cause = f"for example “{clip(row.example, 100)}”" if says_more else row.cause
        advice = "a retry may help" if says_more else row.advice
        yield Finding(
            "look",
            f"{count_text(row.turns, 'turn')} ({100 * row.share:.1f} %) failed, most recently "
            f"{_moment_text('on', row.last_at, history.tz)}: {cause}. What to do: {advice}.",
        )
    if table.empty and len(history.turns):
        yield Finding("fine", "No turn failed.")


def _unanswered(history: Any) -> Iterator[Finding]:
    turns = history.turns[history.turns["status"] == "unanswered"]
    if turns.empty:
        if len(history.turns):
            yield Finding("fine", "Every question was answered, or was asked only recently.")
        return
    agents = turns["agent"].fillna("(not named)").value_counts()
    names = ", ".join(f"{name} ({count:,})" for name, count in agents.head(_NAMES).items())
    yield Finding(
        "look",
        f"{len(turns):,} {'question has' if len(turns) == 1 else 'questions have'} no reply from {names}"
        f"{' and others' if len(agents) > _NAMES else ''}; the latest was asked "
        f"{_moment_text('on', turns['asked_at'].max(), history.tz)}.",
    )


def _credentials(history: Any) -> Iterator[Finding]:
    if history.credentials.empty:
        return
    table = credential_findings(history.credential_report)
    severe = table[table["severity"].isin(["high", "medium"])]
    groups = severe.groupby(["severity", "check"], observed=True, sort=False)
    for (severity, _), rows in list(groups)[:_KINDS]:
        first = rows.iloc[0]
        integrations = ", ".join(sorted(set(rows["integration"].dropna()))[:_NAMES])
        yield Finding(
            "look" if severity == "high" else "note",
            f"{len(rows):,} of {len(history.credentials):,} credentials ({integrations or 'no integration'}): "
            f"{'for example, ' if len(rows) > 1 else ''}{first['finding'].rstrip('.')}. What to do: "
            f"{first['advice'].rstrip('.')}.",
        )
    if severe.empty:
        yield Finding("fine", f"No credential has a severe finding ({len(history.credentials):,} in all).")
