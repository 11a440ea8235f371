"""Which question a reply closes, read event by event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.events.turns import Turn, TurnLog, TurnRule
from support.fake_platform.core import event_id

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
KEY = {"type": "api_key", "id": "k1"}
AGENT = {"type": "agent", "id": "a1"}


def event(n: int, minutes: float, type: str, content: Any, task: str | None = None, **fields: Any) -> dict[str, Any]:
    made = (START + timedelta(minutes=minutes)).isoformat()
    return {"id": event_id(n, n), "type": type, "content": content, "task_id": task, "created_at": made, **fields}


def question(n: int, minutes: float, text: str, task: str | None = None) -> dict[str, Any]:
    return event(n, minutes, "message", {"text": text}, task, author=KEY)


def reply(n: int, minutes: float, text: str, task: str | None = None) -> dict[str, Any]:
    return event(n, minutes, "runtime_done", {"text": text}, task, author=AGENT)


def read(*events: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    log = TurnLog("s")
    for item in events:
        log.feed(item)
    return [facts(turn) for turn in log.turns]


def facts(turn: Turn) -> tuple[str, str | None, str | None]:
    return turn.prompt, turn.text, turn.matched_by


def test_a_lost_reply_does_not_shift_those_after_it() -> None:
    turns = read(
        question(1, 0, "lost"),
        question(2, 60, "q1"), reply(3, 60.1, "a1"),
        question(4, 61, "q2"), reply(5, 61.1, "a2"),
    )  # fmt: skip
    assert turns == [("lost", None, None), ("q1", "a1", "order"), ("q2", "a2", "order")]


def test_the_task_decides_where_both_carry_it() -> None:
    turns = read(
        question(1, 0, "lost", "t0"), question(2, 1, "q1", "t1"), question(3, 2, "q2", "t2"),
        reply(4, 3, "a2", "t2"), reply(5, 4, "a1", "t1"),
    )  # fmt: skip
    assert turns == [("lost", None, None), ("q1", "a1", "task"), ("q2", "a2", "task")]


def test_an_abandoned_question_still_gets_the_reply_of_its_task() -> None:
    turns = read(question(1, 0, "slow", "t1"), question(2, 60, "next", "t2"), reply(3, 61, "late", "t1"))
    assert turns == [("slow", "late", "task"), ("next", None, None)]


@pytest.mark.parametrize(("question_task", "reply_task"), [("t1", None), (None, "t1"), ("t1", "t2"), (None, None)])
def test_the_order_decides_where_the_task_cannot(question_task: str | None, reply_task: str | None) -> None:
    turns = read(
        question(1, 0, "q1", question_task), question(2, 15, "q2", question_task), reply(3, 15, "a1", reply_task)
    )
    assert turns == [("q1", "a1", "order"), ("q2", None, None)]


def test_a_task_of_the_whole_session_is_a_queue() -> None:
    turns = read(
        question(1, 0, "lost", "t"), question(2, 60, "q1", "t"), reply(3, 61, "a1", "t"), reply(4, 62, "more", "t"),
    )  # fmt: skip
    assert turns == [("lost", "more", "task"), ("q1", "a1", "task")]


def test_a_reply_that_comes_twice_shifts_nothing() -> None:
    turns = read(
        question(1, 0, "q1", "t1"), question(2, 1, "q2", "t2"), reply(3, 2, "a1", "t1"), reply(4, 2, "a1", "t1"),
        reply(5, 3, "a2", "t2"),
    )  # fmt: skip
    assert turns == [("q1", "a1", "task"), ("q2", "a2", "task"), ("", "a1", None)]


def test_a_run_without_a_question_that_died_does_not_take_a_reply() -> None:
    turns = read(event(1, 0, "runtime_done", {}, "t0"), question(2, 60, "q1"), reply(3, 61, "a1"))
    assert turns == [("", None, None), ("q1", "a1", "order")]


def test_drafts_belong_to_the_turn_of_their_task() -> None:
    log = TurnLog("s")
    for item in (question(1, 0, "q1", "t1"), question(2, 1, "q2", "t2")):
        log.feed(item)
    log.feed({"id": "draft-1-t2", "type": "runtime_draft", "content": {"delta": "a2", "offset": 0}, "task_id": "t2"})
    assert [turn.draft for turn in log.turns] == ["", "a2"]


def test_a_restored_log_goes_on_as_if_it_had_read_everything() -> None:
    events = [
        question(1, 0, "lost"), question(2, 60, "q1", "t1"), question(3, 61, "q2", "t2"), reply(4, 62, "a2", "t2"),
        reply(5, 63, "a1"), question(6, 64, "q3"), reply(7, 65, "a3"),
    ]  # fmt: skip
    for cut in range(len(events) + 1):
        before, after = TurnLog("s"), TurnLog("s")
        for item in events[:cut]:
            before.feed(item)
        after.restore(before.turns)
        for item in events[cut:]:
            after.feed(item)
        assert [facts(turn) for turn in after.turns] == read(*events)


@pytest.mark.parametrize("task", ["t1", "t9", None], ids=["answered", "another", "none"])
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "answered"])
def test_a_failure_belongs_to_its_task(task: str | None, is_open: bool) -> None:
    log = TurnLog("s")
    events = [question(1, 0, "q1", "t1"), reply(2, 1, "a1", "t1"), question(3, 2, "q2", "t2")]
    if not is_open:
        events.append(reply(4, 3, "a2", "t2"))
    for item in (*events, event(5, 9, "runtime_error", {"message": "late"}, task)):
        log.feed(item)
    last = ("failed" if task is None else "open") if is_open else "answered"
    assert [turn.status for turn in log.turns] == ["answered", last]
    log.feed(reply(6, 10, "a2", "t2"))
    assert [turn.text for turn in log.turns[:2]] == ["a1", None if is_open and task is None else "a2"]


@dataclass
class Asked:
    number: int
    task: str | None
    question_us: int
    is_open: bool = True


def literal_match(
    questions: list[Asked], task: str | None, patience_us: int, *, fails: bool = False
) -> tuple[Asked, str] | None:
    """The rule as design.md words it, looking at every question each time."""

    def abandoned(question: Asked) -> bool:
        return any(later.question_us - question.question_us > patience_us for later in questions[question.number + 1 :])

    same = [question for question in questions if task is not None and question.task == task]
    open_ = [question for question in same if question.is_open]
    if open_:
        return min(open_, key=lambda question: (abandoned(question), question.number)), "task"
    waiting = [
        question
        for question in questions
        if question.is_open and not abandoned(question) and (question.task is None or not same)
    ]
    if fails and task is not None and (same or any(question.task is not None for question in waiting[:1])):
        return None  # the failure of another task
    return (waiting[0], "order") if waiting else None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["asks", "asks", "replies", "fails", ""]),
        st.sampled_from([None, None, "a", "b", "c"]),
        st.integers(-20, 25),
    ),
    max_size=30,
)


@given(STEPS, st.integers(0, 30))
def test_each_event_gets_the_question_of_the_rule(steps: list[Any], patience_us: int) -> None:
    rule = TurnRule(timedelta(microseconds=patience_us))
    questions: list[Asked] = []
    now_us = 0
    for kind, task, step_us in steps:
        now_us += step_us
        if kind == "asks":
            assert rule.ask(task, now_us) == len(questions)
            questions.append(Asked(len(questions), task, now_us))
            continue
        expected = literal_match(questions, task, patience_us)
        assert rule.find(task) == (expected and expected[0].number)
        if not expected:
            continue
        found = rule.read(task, now_us, opens=False, closes=kind != "", answers=kind == "replies")
        expected = literal_match(questions, task, patience_us, fails=kind == "fails")
        if expected and kind:
            assert found == (expected[0].number, expected[1], True)
            expected[0].is_open = False
        else:
            assert found[1:] == (None, False)
