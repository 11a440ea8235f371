"""Questions as SQL that runs on both SQLite and PostgreSQL.

Everything that a person wrote is a bound parameter. Instants are fixed-width ISO text,
so days and hours are substrings. Workspaces that are restricted to their members are
excluded: no key can see them, so no agent's reply may reveal them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from .... import ids
from ....engines.run_limits import RUN_FAILURES
from .periods import WEEKDAYS, Period
from .question import Question


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT. `name` is the name of its tool call."""

    name: str
    sql: str
    parameters: Mapping[str, Any]


# How `agentbook.service.turns.event_json` begins a reply, up to its text (an id has 36
# characters). Faster than parsing the JSON of every row.
_REPLY = '{"id":"' + "_" * 36 + '","type":"runtime\\_done","content":{"text":%'
_EMPTY = '{"id":"' + "_" * 36 + '","type":"runtime\\_done","content":{},%'

_VISIBLE = """
visible AS (
  SELECT s.id, s.type AS session_type, s.created_at, s.initiator_id, s.agent_id, s.workspace_id,
         w.name AS workspace, COALESCE(a.name, '(none)') AS agent
  FROM sessions s JOIN workspaces w ON w.id = s.workspace_id LEFT JOIN agents a ON a.id = s.agent_id
  WHERE w.owner_id = :account_id AND w.should_restrict_members = FALSE{filters}
)"""

# A message and its reply or failure have the same task. Grouping takes one pass, and a
# second for 200,000 events; a join of the two took minutes.
_TURNS = """
marks AS (
  SELECT e.session_id, e.task_id, e.created_at, e.type, CASE WHEN e.author_type <> 'agent' THEN 0 ELSE 1 END AS closes
  FROM events e JOIN visible ON visible.id = e.session_id
  WHERE e.author_type <> 'agent' OR e.type = 'runtime_error' OR (e.type = 'runtime_done' AND e.wire LIKE :reply ESCAPE '\\')
),
turns AS (
  SELECT marks.session_id, MIN(CASE WHEN marks.closes = 0 THEN marks.created_at END) AS at,
         MAX(CASE WHEN marks.closes = 1 THEN marks.created_at END) AS closed_at,
         MAX(CASE WHEN marks.closes = 1 THEN marks.type END) AS outcome
  FROM marks GROUP BY marks.session_id, marks.task_id
  HAVING MIN(marks.closes) = 0
)"""

# The seconds since midnight in an instant's text.
_SECONDS = (
    "(CAST(substr({0},12,2) AS INTEGER)*3600 + CAST(substr({0},15,2) AS INTEGER)*60"
    " + CAST(substr({0},18,9) AS DOUBLE PRECISION))"
)
# A turn may run past midnight, but never longer than a day.
_WAIT_S = (
    f"({_SECONDS.format('turns.closed_at')} - {_SECONDS.format('turns.at')}"
    " + CASE WHEN substr(turns.closed_at,1,10) > substr(turns.at,1,10) THEN 86400 ELSE 0 END)"
)


def names() -> Query:
    """The names of workspaces and agents, and the first and last ids of the history."""
    sql = f"""WITH {_VISIBLE.format(filters="")},
newest AS (SELECT (SELECT MAX(e.id) FROM events e WHERE e.session_id = visible.id) AS id FROM visible)
SELECT 'workspace' AS kind, name FROM workspaces WHERE owner_id = :account_id AND should_restrict_members = FALSE
UNION SELECT 'agent', agent FROM visible WHERE agent <> '(none)'
UNION ALL SELECT 'account', name FROM accounts WHERE id = :account_id
UNION ALL SELECT 'newest event', MAX(newest.id) FROM newest
UNION ALL SELECT 'newest session', MAX(visible.id) FROM visible
UNION ALL SELECT 'oldest session', MIN(visible.id) FROM visible"""  # noqa: S608 - constants
    return Query("look_up_names", sql, {})


def initiators() -> Query:
    """For each initiator, the account's name and a message that names its author."""
    sql = f"""WITH {_VISIBLE.format(filters="")},
first AS (SELECT MIN(visible.id) AS id FROM visible GROUP BY visible.initiator_id)
SELECT s.initiator_id AS id, i.name AS name,
  (SELECT MIN(e.wire) FROM events e WHERE e.session_id = s.id AND e.author_type = s.initiator_type) AS wire
FROM sessions s JOIN first ON first.id = s.id LEFT JOIN accounts i ON i.id = s.initiator_id"""  # noqa: S608 - constants
    return Query("name_initiators", sql, {})


def count(question: Question, period: Period, days: tuple[date, date], *, grouped: bool) -> Query:
    """The numbers that answer `question` for one period, by its dimension if `grouped`.

    Rows have ``label`` and ``n``, and also ``failed`` for the failure rate, or
    ``median`` and ``p95`` for latency.
    """
    parameters: dict[str, Any] = {"reply": _REPLY, "empty": _EMPTY}
    facts = _facts(question, parameters)
    dimension = question.dimension if grouped else None
    label = _label(question, days, parameters) if dimension else "''"
    in_period = _in_period(period, "facts.at", parameters)
    head = f"WITH {_VISIBLE.format(filters=_filters(question, parameters))}{facts}"
    if question.measure == "latency":
        sql = f"""{head},
ranked AS (
  SELECT {label} AS label, facts.seconds, ROW_NUMBER() OVER (PARTITION BY {label} ORDER BY facts.seconds) AS r,
         COUNT(facts.at) OVER (PARTITION BY {label}) AS n
  FROM facts WHERE {in_period}
)
SELECT {"ranked.label" if dimension else label} AS label, MAX(ranked.n) AS n,
       AVG(CASE WHEN ranked.r IN ((ranked.n + 1) / 2, (ranked.n + 2) / 2) THEN ranked.seconds END) AS median,
       MIN(CASE WHEN ranked.r * 100 >= ranked.n * 95 THEN ranked.seconds END) AS p95
FROM ranked{" GROUP BY ranked.label" if dimension else ""}"""  # noqa: S608
    else:
        columns = "COUNT(facts.at) AS n"
        if question.measure == "failure_rate":
            columns += ", COUNT(CASE WHEN facts.kind = 'runtime_error' THEN 1 END) AS failed"
        if question.measure in {"agents", "workspaces"}:
            columns = f"COUNT(DISTINCT facts.{question.measure[:-1]}_id) AS n"
        sql = f"{head}\nSELECT {label} AS label, {columns} FROM facts WHERE {in_period}{' GROUP BY 1' if dimension else ''}"
    name = f"{'measure' if question.measure == 'latency' else 'count'}_{question.measure}"
    return Query(f"{name}_by_{dimension}" if dimension else name, sql, parameters)


def extreme_turns(question: Question, period: Period) -> Query:
    """The slowest (or fastest) turns, one row each."""
    parameters: dict[str, Any] = {"reply": _REPLY, "empty": _EMPTY, "top": question.top or 5}
    head = f"WITH {_VISIBLE.format(filters=_filters(question, parameters))}{_facts(question, parameters)}"
    direction = "ASC" if question.order == "least" else "DESC"
    sql = f"""{head}
SELECT facts.seconds, facts.at, facts.agent, facts.workspace, facts.id AS session_id
FROM facts WHERE {_in_period(period, "facts.at", parameters)}
ORDER BY facts.seconds {direction}, facts.at LIMIT :top"""  # noqa: S608
    return Query("find_fastest_turns" if question.order == "least" else "find_slowest_turns", sql, parameters)


def _filters(question: Question, parameters: dict[str, Any]) -> str:
    columns = {"workspace": "w.name", "agent": "a.name", "session_type": "s.type"}
    values = {name: getattr(question, name) for name in columns if getattr(question, name) is not None}
    parameters.update(values)
    return "".join(f" AND {columns[name]} = :{name}" for name in values)


def _facts(question: Question, parameters: dict[str, Any]) -> str:
    """One row for each item to count: when it happened (`at`), and its session."""
    conditions = {
        "events": "TRUE",
        "messages": "e.author_type <> 'agent'",
        "replies": "e.type = 'runtime_done' AND e.wire LIKE :reply ESCAPE '\\'",
        "tools": "e.type = 'runtime_done' AND e.wire LIKE :empty ESCAPE '\\'",
        "failures": "e.type = 'runtime_error'",
    }
    if question.measure in {"sessions", "agents", "workspaces"}:
        return ",\nfacts AS (SELECT visible.*, visible.created_at AS at FROM visible)"
    if question.measure in conditions:
        kind = _failure_kind(parameters) if question.dimension == "kind" else "''"
        return (
            f",\nfacts AS (SELECT visible.*, e.created_at AS at, {kind} AS kind FROM events e"  # noqa: S608
            f" JOIN visible ON visible.id = e.session_id WHERE {conditions[question.measure]})"
        )
    outcomes = {"unanswered": "turns.outcome IS NULL", "latency": "turns.outcome = 'runtime_done'"}
    return (
        f",{_TURNS},\nfacts AS (SELECT visible.*, turns.at, turns.outcome AS kind, {_WAIT_S} AS seconds"  # noqa: S608
        f" FROM turns JOIN visible ON visible.id = turns.session_id WHERE {outcomes.get(question.measure, 'TRUE')})"
    )


def _failure_kind(parameters: dict[str, Any]) -> str:
    whens = []
    for number, (kind, failure) in enumerate(RUN_FAILURES.items()):
        phrase = failure.message.replace(" for '{name}'", "").removeprefix("WORKSPACE ").partition(":")[0]
        parameters[f"kind_{number}"], parameters[f"message_{number}"] = kind, f"%{phrase}%"
        whens.append(f"WHEN e.wire LIKE :message_{number} THEN :kind_{number}")
    return f"CASE {' '.join(whens)} ELSE 'error' END"


def _label(question: Question, days: tuple[date, date], parameters: dict[str, Any]) -> str:
    dimension = question.dimension or ""
    if dimension in {"week", "weekday"}:
        return _by_calendar(dimension, days, parameters)
    return {
        "day": "substr(facts.at,1,10)",
        "month": "substr(facts.at,1,7)",
        "hour": "substr(facts.at,12,2)",
        "agent": "facts.agent",
        "workspace": "facts.workspace",
        "initiator": "facts.initiator_id",
        "type": "facts.session_type",
        "kind": "facts.kind",
    }[dimension]


def _by_calendar(dimension: str, days: tuple[date, date], parameters: dict[str, Any]) -> str:
    """The week or weekday of an instant.

    The two databases have no calendar function in common, so the days are listed.
    """
    whens = []
    first, last = days
    for number in range(min((last - first).days, 4000) + 1):
        day = first + timedelta(days=number)
        name = WEEKDAYS[day.weekday()].title() if dimension == "weekday" else f"{day - timedelta(days=day.weekday())}"
        parameters[f"day_{number}"], parameters[f"group_{number}"] = f"{day}", name
        whens.append(f"WHEN :day_{number} THEN :group_{number}")
    return f"CASE substr(facts.at,1,10) {' '.join(whens)} ELSE '' END"


def _in_period(period: Period, column: str, parameters: dict[str, Any]) -> str:
    conditions = []
    for name, sign, moment in (("start", ">=", period.start), ("end", "<", period.end)):
        if moment is not None:
            parameters[name] = ids.instant(moment)
            conditions.append(f"{column} {sign} :{name}")
    return " AND ".join(conditions) or "TRUE"
