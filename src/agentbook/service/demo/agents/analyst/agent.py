"""The analyst's turn: look up names, read the question, run its queries, answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from .... import ids
from ....engines.base import Step, ToolDone, ToolStarted, TurnRequest
from ....engines.streaming import pause, say
from . import answers, queries
from .grammar import Names, UnknownName, continued, parse
from .periods import NoSuchDate
from .queries import Query
from .question import Question

Row = Mapping[str, Any]
_QUERY_TAKES_S = 0.12
# A follow-up may lean on an earlier question, which may itself have been one.
_LOOKS_BACK = 6
_TITLES = {"initiator": "who", "kind": "failure", "type": "session type", "hour": "hour (UTC)"}


@dataclass(frozen=True, slots=True)
class Analyst:
    """Answers counting questions about the account's sessions.

    Parameters
    ----------
    clock
        What "today" is measured from, if it is later than the newest event; None: the newest event or session of the account
        alone, so that equal data give equal answers.

    Notes
    -----
    Each query is a tool call. Two or more run for an answer, so a turn has as many ``runtime_done`` events with ``{}`` before
    the reply (specification: "Events", rule 3).
    """

    clock: Callable[[], datetime] | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Steps of one turn; the last is a `Reply`."""
        results: list[Sequence[Row]] = []
        async for step in _ask(turn, queries.names(), results):
            yield step
        known = _Known.read(results.pop(), self.clock)
        try:
            question = _understand(turn, known)
        except (NoSuchDate, UnknownName) as reason:
            question, text = None, _explain(reason, known)
        else:
            text = answers.not_understood()
        if question is not None:
            for query in _queries(question, known):
                async for step in _ask(turn, query, results):
                    yield step
            text = f"{_result(question, results)}\n\n{answers.footnote(question, known.account, known.now)}"
        async for step in say(turn, text):
            yield step


async def _ask(turn: TurnRequest, query: Query, results: list[Sequence[Row]]) -> AsyncIterator[Step]:
    """Run one query as a tool call. In a thread, because a large history must not hold up other turns."""
    told = ("start", "end", "workspace", "agent", "session_type", "top")
    yield ToolStarted(query.name, {name: query.parameters[name] for name in told if name in query.parameters})
    bound = {**query.parameters, "account_id": turn.account_id}
    results.append(await asyncio.to_thread(turn.activity.rows, query.sql, bound))
    await pause(turn, _QUERY_TAKES_S)
    yield ToolDone(query.name)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the first query tells: names, and how far the history reaches."""

    account: str
    names: Names
    now: datetime
    days: tuple[date, date]

    @classmethod
    def read(cls, rows: Sequence[Row], clock: Callable[[], datetime] | None) -> _Known:
        kinds: dict[str, list[str]] = {}
        for row in rows:
            if row["name"] is not None:
                kinds.setdefault(str(row["kind"]), []).append(str(row["name"]))
        newest = _moment(kinds.get("newest event", []) + kinds.get("newest session", []))
        now = max(newest, clock()) if clock else newest
        first = _moment(kinds.get("oldest session", []))
        names = Names(sorted(kinds.get("workspace", [])), sorted(kinds.get("agent", [])))
        return cls(kinds.get("account", ["this account"])[0], names, now, (first.date(), now.date()))


def _moment(ids_: Sequence[str]) -> datetime:
    return datetime.fromtimestamp(max((ids.milliseconds_of(id_) for id_ in ids_), default=0) / 1000, UTC)


def _understand(turn: TurnRequest, known: _Known) -> Question | None:
    """The question, read on its own, or else as a follow-up to an earlier one."""
    question = parse(turn.message, known.names, known.now, guess=False)
    if question is not None:
        return question
    earlier: Question | None = None
    for message in [message for message in turn.history if message.role == "user"][-_LOOKS_BACK:]:
        earlier = _reread(message.text, earlier, known) or earlier
    question = continued(turn.message, earlier, known.names, known.now) if earlier else None
    return question or parse(turn.message, known.names, known.now)


def _reread(text: str, earlier: Question | None, known: _Known) -> Question | None:
    try:
        question = parse(text, known.names, known.now, guess=earlier is None)
        return question or (continued(text, earlier, known.names, known.now) if earlier else None)
    except (NoSuchDate, UnknownName):
        return None


def _explain(reason: Exception, known: _Known) -> str:
    if isinstance(reason, UnknownName):
        workspaces, agents = (", ".join(names) or "none" for names in (known.names.workspaces, known.names.agents))
        return f"I know no workspace or agent called “{reason.args[0]}”. Workspaces: {workspaces}. Agents: {agents}."
    return f"{reason} Write dates like 2026-11-01, “3 November”, “last week” or “in the last 14 days”."


def _queries(question: Question, known: _Known) -> list[Query]:
    """The queries of a question; `_result` reads their rows in the same order."""
    days = known.days
    whole = queries.count(question, question.period, days, grouped=False)
    if question.lists_turns:
        return [queries.extreme_turns(question, question.period), whole]
    if question.against is not None:
        wanted = [whole, queries.count(question, question.against, days, grouped=False)]
        side = _with_dimension(question)
        wanted += [queries.count(side, period, days, grouped=True) for period in (question.period, question.against)]
        return wanted + _naming(side)
    if question.dimension:
        return [queries.count(question, question.period, days, grouped=True), whole, *_naming(question)]
    before = question.period.before()
    return [whole, *([queries.count(question, before, days, grouped=False)] if before else [])]


def _with_dimension(question: Question) -> Question:
    """A comparison always shows what changed: by agent where nothing else was asked for."""
    return replace(question, dimension=question.dimension or "agent")


def _naming(question: Question) -> list[Query]:
    return [queries.initiators()] if question.dimension == "initiator" else []


def _result(question: Question, results: Sequence[Sequence[Row]]) -> str:
    if question.lists_turns:
        turns, [total] = results
        summary = answers.one_number(question, total, None) if turns else ""
        return f"{answers.turns(question, turns)}\n\n{summary}".strip()
    if question.against is not None:
        [now], [then], *sides = results[:4]
        side = _with_dimension(question)
        first, second = (answers.ordered(replace(side, top=None), _named(rows, results[4:])) for rows in sides)
        return answers.comparison(side, (first, second), (now, then), _title(side))
    if question.dimension:
        rows, [total] = results[:2]
        return answers.breakdown(
            question, answers.ordered(question, _named(rows, results[2:])), total, _title(question)
        )
    earlier = question.period.before()
    return answers.one_number(question, results[0][0], (earlier, results[1][0]) if earlier else None)


def _title(question: Question) -> str:
    return _TITLES.get(question.dimension or "", question.dimension or "")


def _named(rows: Sequence[Row], naming: Sequence[Sequence[Row]]) -> list[Row]:
    """Rows with initiators' ids replaced by their names, as an account or as a message of theirs says."""
    names: dict[str, str] = {}
    for row in naming[0] if naming else ():
        author = json.loads(row["wire"]).get("author") if row["wire"] else None
        told = author.get("name") if isinstance(author, dict) and author.get("id") == row["id"] else None
        kind = f" ({author['type']})" if told and isinstance(author, dict) and author.get("type") != "user" else ""
        names[row["id"]] = row["name"] or (f"{told}{kind}" if told else str(row["id"]))
    return [{**row, "label": names.get(row["label"], row["label"])} for row in rows]
