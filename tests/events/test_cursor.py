from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentbook.events.reader import REMEMBERED, Cursor
from support.fake_platform.core import event_id

ids = st.builds(lambda ms, n: event_id(ms, n), st.integers(0, 30_000), st.integers(0, 50))


@given(st.lists(ids, max_size=80))
def test_an_id_is_taken_once(came: list[str]) -> None:
    cursor = Cursor(None)
    taken = [event_id for event_id in came if cursor.admit(event_id)]
    assert sorted(taken) == sorted(set(came))


@given(st.lists(ids, min_size=1, max_size=80), st.integers(0, 10))
def test_what_is_read_again_after_a_cut_covers_the_overlap(came: list[str], overlap_s: int) -> None:
    cursor = Cursor(None, overlap_s)
    for seen_id in came:
        cursor.admit(seen_id)
    resume = cursor.resume_from()
    edge = int(max(came).replace("-", "")[:12], 16) - overlap_s * 1000
    # Everything as new as the overlap, seen or not, comes after the resume point.
    assert resume is None or int(resume.replace("-", "")[:12], 16) < edge
    assert resume is None or resume in came


@given(st.text() | st.none() | st.just("draft-1"))
def test_what_is_no_persisted_id_never_counts(strange: str | None) -> None:
    cursor = Cursor(None)
    assert not cursor.admit(strange)  # type: ignore[arg-type]
    assert cursor.newest is None


def test_nothing_up_to_the_floor_is_delivered() -> None:
    floor = event_id(0, 5)
    cursor = Cursor(floor)
    assert not cursor.admit(floor)
    assert not cursor.admit(event_id(0, 4))
    assert cursor.admit(event_id(0, 6))
    assert cursor.resume_from() == floor


def test_memory_stays_bounded_over_a_long_stream() -> None:
    cursor = Cursor(None)
    for n in range(3 * REMEMBERED):
        assert cursor.admit(event_id(n * 10, n))
    assert cursor.remembered <= REMEMBERED + 1
    resume = cursor.resume_from()
    assert resume is not None
    assert not cursor.admit(event_id((3 * REMEMBERED - 1) * 10, 3 * REMEMBERED - 1))


def test_an_id_is_the_same_in_capitals_and_goes_back_as_it_was_written() -> None:
    floor = "019a0b1c-0000-7000-8000-000000000000"
    cursor = Cursor(floor, overlap_s=0)
    first, second = "019A0BFF-0000-7000-8000-000000000001", "019B0000-0000-7000-8000-000000000002"
    assert cursor.admit(first)  # as text it would be less than the floor
    assert cursor.admit(second)
    assert not cursor.admit(first.lower())
    assert cursor.newest == second
    assert cursor.resume_from() == first
