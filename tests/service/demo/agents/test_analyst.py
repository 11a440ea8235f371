"""The analyst's numbers against an oracle in plain Python."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, create_engine, select, text

from agentbook.events.turns import Turn, TurnLog
from agentbook.service import demo, ids
from agentbook.service.demo.agents.analyst import Analyst
from agentbook.service.demo.agents.analyst.question import EXAMPLES
from agentbook.service.engines.base import Message, Reply, ToolStarted
from agentbook.service.store import tables
from agentbook.service.store.activity import StoreActivity
from agentbook.service.turns import event_json
from service.engines.engine_runs import finished_tools, reply, run

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Fact:
    """One turn as the oracle sees it."""

    turn: Turn
    agent: str
    workspace: str


class Oracle:
    """The account's history, read row by row and split into turns by the client."""

    def __init__(self, engine: Engine) -> None:
        with engine.connect() as connection:
            self.account_id = str(connection.execute(text("SELECT id FROM accounts WHERE name = 'acme'")).scalar_one())
            self.sessions = connection.execute(
                text(
                    "SELECT s.*, w.name AS workspace, a.name AS agent FROM sessions s JOIN workspaces w ON w.id = s.workspace_id"
                    " JOIN agents a ON a.id = s.agent_id WHERE w.owner_id = :id AND NOT w.should_restrict_members"
                ),
                {"id": self.account_id},
            ).all()
            sessions = {row.id: row for row in self.sessions}
            rows = connection.execute(text("SELECT * FROM events ORDER BY session_id, id"))
            self.events = [row for row in rows if row.session_id in sessions]
        logs: dict[str, TurnLog] = {}
        for row in self.events:
            logs.setdefault(row.session_id, TurnLog(row.session_id)).feed(json.loads(row.wire))
        self.facts = [
            Fact(turn, sessions[id_].agent, sessions[id_].workspace) for id_, log in logs.items() for turn in log.turns
        ]
        self.activity = StoreActivity(engine, self.account_id)

    def ask(self, question: str, **options: Any) -> str:
        return reply(Analyst(), question, activity=self.activity, account_id=self.account_id, **options)


@pytest.fixture(scope="module")
def oracle(demo_engine: Engine) -> Oracle:
    return Oracle(demo_engine)


def table(answer: str) -> dict[str, list[str]]:
    """The rows of the Markdown table in an answer, by their first cell."""
    lines = [line for line in answer.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def number(answer: str) -> float:
    """The first number in bold."""
    return float(re.search(r"\*\*([\d,.]+)", answer)[1].replace(",", ""))  # type: ignore[index]


def counts(answer: str) -> dict[str, int]:
    return {label: int(cells[0].replace(",", "")) for label, cells in table(answer).items()}


def day(moment: datetime | None) -> str:
    assert moment is not None
    return moment.strftime("%Y-%m-%d")


def monday(turn: Turn) -> str:
    assert turn.asked_at is not None
    return day(turn.asked_at - timedelta(days=turn.asked_at.weekday()))


def median(values: Sequence[float]) -> float:
    ranked = sorted(values)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2


def test_sessions_in_a_period(oracle: Oracle) -> None:
    expected = sum("2026-11-09" <= row.created_at[:10] <= "2026-11-15" for row in oracle.sessions)
    before = sum("2026-11-02" <= row.created_at[:10] <= "2026-11-08" for row in oracle.sessions)
    answer = oracle.ask("How many sessions did we have last week?")
    assert number(answer) == expected > 50
    assert f"it was {before:,}" in answer


def test_restricted_workspaces_and_other_accounts_are_excluded(oracle: Oracle) -> None:
    rows = counts(oracle.ask("sessions by workspace"))
    assert rows == Counter(row.workspace for row in oracle.sessions)
    assert not {"finance", "shop", "notes"} & set(rows)


@pytest.mark.parametrize(
    ("dimension", "label"),
    [
        ("agent", lambda fact: fact.agent),
        ("workspace", lambda fact: fact.workspace),
        ("day", lambda fact: day(fact.turn.asked_at)),
        ("hour", lambda fact: f"{fact.turn.asked_at:%H}:00"),
        ("weekday", lambda fact: f"{fact.turn.asked_at:%A}"),
        ("week", lambda fact: f"week of {fact.turn.asked_at - timedelta(days=fact.turn.asked_at.weekday()):%Y-%m-%d}"),
        ("month", lambda fact: f"{fact.turn.asked_at:%Y-%m}"),
    ],
)
def test_messages_by_every_dimension(oracle: Oracle, dimension: str, label: Any) -> None:
    assert counts(oracle.ask(f"How many messages per {dimension}?")) == Counter(label(fact) for fact in oracle.facts)


def test_messages_by_initiator_name_people_and_keys(oracle: Oracle) -> None:
    rows = counts(oracle.ask("messages by person"))
    assert sum(rows.values()) == len(oracle.facts)
    assert "Ada Lindgren" not in rows
    assert {"alan", "support-desk (api_key)", "alert-relay (trigger)"} <= set(rows)


def test_failures_by_kind(oracle: Oracle) -> None:
    kinds = Counter(fact.turn.failure.kind for fact in oracle.facts if fact.turn.failure)
    rows = counts(oracle.ask("Why do turns fail? Failures by kind"))
    assert sum(rows.values()) == sum(kinds.values())
    assert rows["other errors"] == kinds["error"]
    assert rows["exceeded LLM call limit for this execution tree"] == kinds["llm_calls"]
    assert rows["TURN_TIMEOUT: the turn ran past the wall-clock ceiling"] == kinds["turn_timeout"]
    assert rows["<SCOPE> budget exceeded for '…'"] == kinds["budget"]


def test_failure_rate_by_agent(oracle: Oracle) -> None:
    rows = table(oracle.ask("failure rate by agent"))
    for agent in {fact.agent for fact in oracle.facts}:
        statuses = [fact.turn.status for fact in oracle.facts if fact.agent == agent]
        failed = statuses.count("failed")
        assert rows[agent] == [f"{100 * failed / len(statuses):.1f} %", str(failed), f"{len(statuses):,}"]


def test_waiting_time_is_the_median_of_answered_turns(oracle: Oracle) -> None:
    waits = [
        fact.turn.latency_s
        for fact in oracle.facts
        if fact.turn.status == "answered" and fact.turn.latency_s is not None
    ]
    answer = oracle.ask("How long do people wait for an answer?")
    assert number(answer) == pytest.approx(median(waits), abs=0.051)
    assert f"over {len(waits):,} answered" in answer
    assert f"{sorted(waits)[-(-len(waits) * 95 // 100) - 1]:.1f} s" in answer
    rows = table(oracle.ask("latency by week for data-desk"))
    answered = [fact.turn for fact in oracle.facts if fact.agent == "data-desk" and fact.turn.status == "answered"]
    for label, cells in rows.items():
        week = [turn.latency_s or 0.0 for turn in answered if label == f"week of {monday(turn)}"]
        assert float(cells[0].removesuffix(" s")) == pytest.approx(median(week), abs=0.051)
        assert int(cells[2]) == len(week)


def test_the_slowest_turns_are_listed_with_their_sessions(oracle: Oracle) -> None:
    answered = [fact.turn for fact in oracle.facts if fact.turn.status == "answered"]
    slowest = sorted((turn.latency_s or 0.0 for turn in answered), reverse=True)[:3]
    answer = oracle.ask("What were the 3 slowest answers?")
    assert [float(label.removesuffix(" s")) for label in table(answer)] == pytest.approx(slowest, abs=0.051)
    assert all(turn.session_id in answer for turn in answered if (turn.latency_s or 0) >= slowest[-1])


def test_unanswered_replies_subtasks_and_events(oracle: Oracle) -> None:
    assert number(oracle.ask("How many unanswered messages are there?")) == sum(
        fact.turn.status == "open" for fact in oracle.facts
    )
    assert number(oracle.ask("How many replies were there?")) == sum(
        fact.turn.status == "answered" for fact in oracle.facts
    )
    assert number(oracle.ask("How many subtasks ran?")) == sum(fact.turn.subtasks for fact in oracle.facts)
    assert number(oracle.ask("How many events are there?")) == len(oracle.events)


def test_the_busiest_hour_comes_first_and_the_next_ones_are_shown(oracle: Oracle) -> None:
    hours = Counter(f"{fact.turn.asked_at:%H}:00" for fact in oracle.facts)
    answer = oracle.ask("Which hour is the busiest?")
    assert max(hours.values()) == hours[re.search(r"\*\*(\d\d:00)\*\*", answer)[1]]  # type: ignore[index]
    assert 2 <= len(table(answer)) <= 5


def test_comparison_of_two_weeks(oracle: Oracle) -> None:
    answer = oracle.ask("Compare this week with last week")
    weeks = Counter(
        f"{fact.turn.asked_at - timedelta(days=fact.turn.asked_at.weekday()):%Y-%m-%d}" for fact in oracle.facts
    )  # type: ignore[operator,union-attr]
    assert f"**{weeks['2026-11-16']:,}** messages this week" in answer
    assert f"**{weeks['2026-11-09']:,}** last week" in answer
    assert "so far" in answer


def test_filters_by_workspace_and_session_type(oracle: Oracle) -> None:
    expected = sum(row.workspace == "on-call" and row.type == "webhook" for row in oracle.sessions)
    answer = oracle.ask("How many webhook sessions were there in the on-call workspace?")
    assert number(answer) == expected
    assert "of type `webhook`" in answer
    assert number(oracle.ask("how many sessions did acme~support have?")) == sum(
        row.workspace == "support" for row in oracle.sessions
    )


def test_a_follow_up_keeps_the_parts_it_does_not_name(oracle: Oracle) -> None:
    history = [Message("user", "How many failures last week?"), Message("assistant", "…")]
    rows = counts(oracle.ask("And by agent?", history=history))
    expected = Counter(
        fact.agent
        for fact in oracle.facts
        if fact.turn.failure and "2026-11-09" <= day(fact.turn.replied_at) <= "2026-11-15"
    )
    assert rows == expected
    assert "yesterday" in oracle.ask("and yesterday?", history=history)


def test_unknown_names_and_dates_are_reported(oracle: Oracle) -> None:
    assert "no workspace or agent called “nowhere”" in oracle.ask('How many sessions in "nowhere"?')
    assert "not a date" in oracle.ask("How many sessions since 2026-02-31?")
    answer = oracle.ask("Sing me a song")
    assert all(example in answer for example in EXAMPLES)


def test_queries_run_as_tool_calls_before_the_reply(oracle: Oracle) -> None:
    for question in EXAMPLES:
        steps = run(Analyst(), question, activity=oracle.activity, account_id=oracle.account_id)
        assert 2 <= len(finished_tools(steps)) <= 5, question
        assert isinstance(steps[-1], Reply)
        assert steps == run(Analyst(), question, activity=oracle.activity, account_id=oracle.account_id)
        json.dumps([step.arguments for step in steps if isinstance(step, ToolStarted)])


def test_every_example_is_understood(oracle: Oracle) -> None:
    for question in EXAMPLES:
        assert "Counted:" in oracle.ask(question)


def test_today_is_the_day_of_the_newest_event_unless_a_clock_is_later(oracle: Oracle) -> None:
    newest = max(row.created_at for row in oracle.events)[:10]
    assert f"today ({newest})" in oracle.ask("How many sessions today?")
    later = Analyst(clock=lambda: datetime(2027, 5, 5, 12, tzinfo=UTC))
    answer = reply(later, "How many sessions today?", activity=oracle.activity, account_id=oracle.account_id)
    assert "today (2027-05-05)" in answer
    assert number(answer) == 0


def test_an_empty_account_gets_answers(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    tables.metadata.create_all(engine)
    activity = StoreActivity(engine, "nobody")
    for question in (*EXAMPLES, "latency by week", "failure rate", "who asks most?", "messages by weekday"):
        assert "Counted:" in reply(Analyst(), question, activity=activity)
    engine.dispose()


def test_an_agent_that_writes_first_a_lost_reply_and_a_turn_past_midnight(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    tables.metadata.create_all(engine)
    at = int(datetime(2026, 11, 19, 23, 59, 50, tzinfo=UTC).timestamp() * 1000)
    with engine.begin() as connection:
        account = demo.fixtures(connection, sessions=1, events=0, seed=1, now=NOW).account_id
        session_id = connection.execute(select(tables.sessions.c.id)).scalar_one()
        agent, person = {"type": "agent", "id": "a", "name": "a"}, {"type": "user", "id": "u", "name": "u"}
        events: list[tuple[str, dict[str, str], str, dict[str, str]]] = [
            ("runtime_done", {"text": "Good evening"}, "greeting", agent),
            ("message", {"text": "Anybody there?"}, "lost", person),
            ("message", {"text": "Hello"}, "hello", person),
            ("runtime_done", {}, "tool", agent),
            ("runtime_done", {"text": 'You said "content":{}'}, "hello", agent),
        ]
        for index, (kind, content, task, author) in enumerate(events):
            moment = at + 5_000 * index
            row = {"id": ids.id_at(moment, 0), "type": kind, "task_id": task, "created_at": ids.instant_of_ms(moment)}
            wire = event_json.event(**row, content=content, author=author)
            values = {**row, "session_id": session_id, "author_type": author["type"], "wire": wire}
            values["size_bytes"] = len(wire.encode())
            connection.execute(tables.events.insert().values(values))
    activity = StoreActivity(engine, account)
    answer = reply(Analyst(), "How long do people wait?", activity=activity)
    assert "**10.0 s** over 1 answered" in answer
    assert number(reply(Analyst(), "How many subtasks?", activity=activity)) == 1
    assert number(reply(Analyst(), "How many replies?", activity=activity)) == 2
    assert number(reply(Analyst(), "How many messages were not answered?", activity=activity)) == 1
    engine.dispose()


@given(st.data())
def test_any_question_gets_an_answer(oracle: Oracle, data: st.DataObject) -> None:
    parts = (  # noqa: SIM905 - pieces read better as one text
        "how many|sessions|failures|by|agent|week|'; DROP TABLE events; --|last|0|99999999999|between|and|2026-11-01|feb 30|"
        "top 0|slowest|compare|%|“x”|in|data|since|may|unanswered|month 0000|9999"
    ).split("|")
    question = data.draw(st.text(max_size=80) | st.lists(st.sampled_from(parts), max_size=9).map(" ".join))
    run(Analyst(), question, activity=oracle.activity, account_id=oracle.account_id)
