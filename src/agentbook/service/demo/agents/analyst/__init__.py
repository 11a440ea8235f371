"""The `analyst` agent: answers counting questions about the account's own sessions.

A small grammar reads the question (`question`, `periods`). It becomes portable SQL
(`queries`) that runs as tool calls. The answer is a table and a footnote that says what
was counted (`answers`). The agent does not guess: if the grammar cannot read a
question, it says what it can count.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from .... import ids
from ....engines.base import Reply, Step, ToolDone, ToolStarted, TurnRequest
from ....engines.streaming import pause, stream_reply
from ..bounds import compute, readable
from . import answers, queries
from .periods import NoSuchDate
from .queries import Query
from .question import Names, Question, UnknownName, parse, parse_follow_up

__all__ = ["Analyst", "answer_question"]

Row = Mapping[str, Any]

_QUERY_S = 0.12
_HISTORY = 6  # a follow-up may continue an earlier question that is itself a follow-up
_SHOWN_PARAMETERS = ("start", "end", "workspace", "agent", "session_type", "top")
_SHOWN_ROWS = 5  # of a result, in its tool call
_TITLES = {"initiator": "who", "kind": "failure", "type": "session type", "hour": "hour (UTC)"}


@dataclass(frozen=True, slots=True)
class Analyst:
    """Answers counting questions about the account's sessions.

    Parameters
    ----------
    clock
        "Today" is the day of the account's newest event or session, or the clock's day
        if that is later. None means no clock, so that equal data give equal answers.

    Notes
    -----
    Each query is a tool call. An answer takes two or more, so a turn has at least two
    ``runtime_done`` events with ``{}`` before its reply ("Events", rule 3).
    """

    clock: Callable[[], datetime] | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Run the queries of a question, then reply."""
        turn = readable(turn)
        results: list[Sequence[Row]] = []
        async for step in _run_query(turn, queries.names(), results):
            yield step
        account = await compute(_AccountFacts.from_rows, results.pop(), self.clock)
        try:
            question = await compute(_understand, turn, account)
        except (NoSuchDate, UnknownName) as error:
            question, text = None, _explain(error, account.names)
        else:
            text = answers.not_understood()
        if question is not None:
            for query in _queries(question, account):
                async for step in _run_query(turn, query, results):
                    yield step
            text = f"{await compute(_answer, question, results)}\n\n{answers.footnote(question, account.name, account.now)}"
        async for step in stream_reply(turn, text):
            yield step


async def answer_question(turn: TurnRequest, question: str) -> str:
    """The analyst's answer to one question, for the account of a turn."""
    steps = Analyst().run(replace(turn, message=question, history=(), delay_factor=0.0))
    return next(step.text for step in [step async for step in steps] if isinstance(step, Reply))


async def _run_query(turn: TurnRequest, query: Query, results: list[Sequence[Row]]) -> AsyncIterator[Step]:
    """Run one query as a tool call."""
    parameters = query.parameters
    shown = {name: parameters[name] for name in _SHOWN_PARAMETERS if name in parameters}
    yield ToolStarted(query.name, {"sql": query.sql.strip(), "parameters": shown})
    rows = await compute(turn.activity.rows, query.sql, {**parameters, "account_id": turn.account_id})
    results.append(rows)
    await pause(turn, _QUERY_S)
    yield ToolDone(query.name, {"rows": len(rows), "first": [dict(row) for row in rows[:_SHOWN_ROWS]]})


@dataclass(frozen=True, slots=True)
class _AccountFacts:
    """What a question may refer to: names, the current time, days of the history."""

    name: str
    names: Names
    now: datetime
    days: tuple[date, date]

    @classmethod
    def from_rows(cls, rows: Sequence[Row], clock: Callable[[], datetime] | None) -> _AccountFacts:
        values: dict[str, list[str]] = {}
        for row in rows:
            if row["name"] is not None:
                values.setdefault(str(row["kind"]), []).append(str(row["name"]))
        newest = _newest_moment(values.get("newest event", []) + values.get("newest session", []))
        now = max(newest, clock()) if clock else newest
        first = _newest_moment(values.get("oldest session", []))
        names = Names(sorted(values.get("workspace", [])), sorted(values.get("agent", [])))
        return cls(values.get("account", ["this account"])[0], names, now, (first.date(), now.date()))


def _newest_moment(ids_: Sequence[str]) -> datetime:
    return datetime.fromtimestamp(max((ids.milliseconds_of(id_) for id_ in ids_), default=0) / 1000, UTC)


def _understand(turn: TurnRequest, account: _AccountFacts) -> Question | None:
    """The turn's question: complete in itself, or a follow-up to an earlier one."""
    question = parse(turn.message, account.names, account.now, guess=False)
    if question is not None:
        return question
    earlier: Question | None = None
    for message in [message for message in turn.history if message.role == "user"][-_HISTORY:]:
        earlier = _understand_earlier(message.text, earlier, account) or earlier
    question = parse_follow_up(turn.message, earlier, account.names, account.now) if earlier else None
    return question or parse(turn.message, account.names, account.now)


def _understand_earlier(text: str, earlier: Question | None, account: _AccountFacts) -> Question | None:
    try:
        question = parse(text, account.names, account.now, guess=earlier is None)
        return question or (parse_follow_up(text, earlier, account.names, account.now) if earlier else None)
    except (NoSuchDate, UnknownName):
        return None


def _explain(error: Exception, names: Names) -> str:
    if isinstance(error, UnknownName):
        workspaces, agents = (", ".join(group) or "none" for group in (names.workspaces, names.agents))
        return f"I know no workspace or agent called “{error.args[0]}”. Workspaces: {workspaces}. Agents: {agents}."
    return f"{error} Write dates like 2026-11-01, “3 November”, “last week” or “in the last 14 days”."


def _queries(question: Question, account: _AccountFacts) -> list[Query]:
    """The queries for a question; `_answer` reads their rows in the same order."""
    days = account.days
    total = queries.count(question, question.period, days, grouped=False)
    if question.lists_turns:
        return [queries.extreme_turns(question, question.period), total]
    if question.against is not None:
        breakdown = _with_dimension(question)
        return [
            total,
            queries.count(question, question.against, days, grouped=False),
            *(queries.count(breakdown, period, days, grouped=True) for period in (question.period, question.against)),
            *_naming_queries(breakdown),
        ]
    if question.dimension:
        return [queries.count(question, question.period, days, grouped=True), total, *_naming_queries(question)]
    before = question.period.before()
    return [total, *([queries.count(question, before, days, grouped=False)] if before else [])]


def _with_dimension(question: Question) -> Question:
    """The breakdown of a comparison; by agent if the question names no dimension."""
    return replace(question, dimension=question.dimension or "agent")


def _naming_queries(question: Question) -> list[Query]:
    return [queries.initiators()] if question.dimension == "initiator" else []


def _answer(question: Question, results: Sequence[Sequence[Row]]) -> str:
    if question.lists_turns:
        turns, [total] = results
        summary = answers.one_number(question, total, None) if turns else ""
        return f"{answers.turns(question, turns)}\n\n{summary}".strip()
    if question.against is not None:
        [total], [total_against], *groups = results[:4]
        breakdown = _with_dimension(question)
        unlimited = replace(breakdown, top=None)
        rows, rows_against = (answers.sort_rows(unlimited, _name_initiators(group, results[4:])) for group in groups)
        return answers.comparison(breakdown, (rows, rows_against), (total, total_against), _title(breakdown))
    if question.dimension:
        group, [total] = results[:2]
        rows = answers.sort_rows(question, _name_initiators(group, results[2:]))
        return answers.breakdown(question, rows, total, _title(question))
    before = question.period.before()
    return answers.one_number(question, results[0][0], (before, results[1][0]) if before else None)


def _title(question: Question) -> str:
    return _TITLES.get(question.dimension or "", question.dimension or "")


def _name_initiators(rows: Sequence[Row], naming: Sequence[Sequence[Row]]) -> list[Row]:
    """`rows` with initiators' ids replaced by names.

    The name is the account's, or the author's in one of the initiator's messages.
    """
    names: dict[str, str] = {}
    for row in naming[0] if naming else ():
        names[row["id"]] = row["name"] or _author_name(row) or str(row["id"])
    return [{**row, "label": names.get(row["label"], row["label"])} for row in rows]


def _author_name(row: Row) -> str | None:
    author = json.loads(row["wire"]).get("author") if row["wire"] else None
    if not isinstance(author, dict) or author.get("id") != row["id"] or not author.get("name"):
        return None
    name = str(author["name"])
    return name if author.get("type") == "user" else f"{name} ({author['type']})"
