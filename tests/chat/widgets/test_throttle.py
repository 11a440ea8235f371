"""How often `Throttle` draws, in a loop whose clock jumps to whatever is due next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any

import pytest

from agentbook.chat.widgets import throttle
from agentbook.chat.widgets.throttle import FLUSH_S, REST, SAVE_S, SLACK_S, Throttle


class Virtual(asyncio.SelectorEventLoop):
    """Waits for nobody: where it would sleep, its clock goes on by as much."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        wait = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> object:
            self.now += timeout or 0.0
            return wait(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Virtual]:
    """Its clock is that of the processor, too."""
    loop = Virtual()
    monkeypatch.setattr(throttle, "thread_time", loop.time)
    yield loop
    loop.close()


def drawn(
    loop: Virtual,
    noted: list[float],
    *,
    cost_s: float = 0.0,
    pause_s: Callable[[], float] = lambda: 0.0,
    urgent: Collection[float] = (),
) -> list[float]:
    """When it was drawn, for changes noted at these times, all in seconds from now."""
    start, times = loop.now, []

    def draw() -> None:
        times.append(loop.now - start)
        loop.now += cost_s

    async def note_changes() -> None:
        throttled = Throttle(draw, pause_s)
        for at in noted:
            if start + at > loop.now:
                await asyncio.sleep(start + at - loop.now)
            throttled.request_draw(now=at in urgent)
        await asyncio.sleep(5)

    loop.run_until_complete(note_changes())
    return times


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_a_change_after_a_pause_is_drawn_at_once_and_another_when_it_is_due(loop: Virtual) -> None:
    assert drawn(loop, [0, 0, 0, 1]) == pytest.approx([0, 1], abs=1e-6)
    assert drawn(loop, [0, 0.01]) == pytest.approx([0, FLUSH_S + SLACK_S], abs=1e-6)


@pytest.mark.parametrize("step_s", [0.001, 0.007, 0.01, 0.013, 0.049, 0.051])
def test_never_more_than_twenty_a_second(loop: Virtual, step_s: float) -> None:
    noted = [n * step_s for n in range(int(10 / step_s))]
    times = drawn(loop, noted)
    assert min(gaps(times)) >= FLUSH_S - SLACK_S - 1e-6
    assert all(sum(at <= each < at + 1 - 1e-6 for each in times) <= 21 for at in times)
    assert len(times) <= 10 / FLUSH_S + 2
    # And no fewer than they come, or the beat with its slack allows.
    assert max(gaps(times)) <= max(step_s, FLUSH_S + SLACK_S) + 2 * SLACK_S + 1e-6


@pytest.mark.parametrize("start_s", [0.0, 0.004, 0.006, 0.009])
def test_drawings_synchronize_with_regular_tokens(loop: Virtual, start_s: float) -> None:
    # One at any time, then a hundred a second, each up to a millisecond off: soon every
    # fifth is drawn as it arrives.
    noted = [0.0, *(start_s + n * 0.01 + (n * 7 % 11) / 10_000 for n in range(1, 500))]
    times = drawn(loop, noted)
    waits = [next(at for at in times if at >= time - 1e-9) - time for time in noted]
    assert max(waits[20:]) < 0.045


def test_slow_drawing_takes_at_most_a_fifth_of_the_time(loop: Virtual) -> None:
    times = drawn(loop, [n * 0.01 for n in range(500)], cost_s=0.1)
    assert gaps(times) == pytest.approx([0.1 * (1 + REST)] * len(gaps(times)), abs=0.02)
    assert len(times) > 5


def test_a_drawing_that_waits_for_the_interpreter_is_followed_by_no_rest(
    loop: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "thread_time", lambda: 0.0)
    times = drawn(loop, [n / 100 for n in range(200)], cost_s=0.1)
    assert max(gaps(times)) <= 0.1 + 2 * SLACK_S


def test_a_longer_pause_can_be_asked_for(loop: Virtual) -> None:
    calls: list[None] = []
    times = drawn(loop, [n * 0.01 for n in range(500)], pause_s=lambda: calls.append(None) or 0.5)  # type: ignore[func-returns-value]
    assert gaps(times) == pytest.approx([0.5] * len(gaps(times)), abs=0.02)
    assert len(calls) <= len(times) + 1


def test_the_end_of_a_reply_is_drawn_at_once(loop: Virtual) -> None:
    times = drawn(loop, [0.0, 0.01, 0.02, 0.021, 0.03], pause_s=lambda: 1.0, urgent=(0.02, 0.021))
    assert times == pytest.approx([0, 0.02, 0.07], abs=1e-6)


def test_many_ends_are_drawn_twenty_times_a_second(loop: Virtual) -> None:
    noted = [n * 0.001 for n in range(1000)]
    times = drawn(loop, noted, pause_s=lambda: 1.0, urgent=noted)
    assert gaps(times) == pytest.approx([FLUSH_S] * len(gaps(times)), abs=1e-6)
    assert 20 <= len(times) <= 21


def saved(loop: Virtual, work: Callable[[Throttle], object]) -> list[tuple[str, float]]:
    """What is drawn and saved, and when, of a change that `work` follows."""
    start, done = loop.now, []

    def note(kind: str) -> Callable[[], None]:
        return lambda: done.append((kind, loop.now - start))

    async def note_changes() -> None:
        throttled = Throttle(note("draw"), save=note("save"))
        throttled.request_draw()
        await asyncio.sleep(0.01)
        work(throttled)
        await asyncio.sleep(5)

    loop.run_until_complete(note_changes())
    return done


# After a drawing, the page has time to paint.
SAVED = [(Throttle.request_draw, 2, SAVE_S), (Throttle.flush, 2, 0.01), (Throttle.end, 1, SAVE_S)]


@pytest.mark.parametrize(("work", "drawn", "at"), SAVED)
def test_what_was_drawn_is_saved(loop: Virtual, work: Callable[[Throttle], None], drawn: int, at: float) -> None:
    done = saved(loop, work)
    assert [kind for kind, _ in done] == ["draw"] * drawn + ["save"]
    assert done[-1][1] == pytest.approx(at, abs=0.001)


def test_it_draws_on_a_loop_whose_handles_do_not_say_when(loop: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    call_at = loop.call_at

    def plain(when: float, call: Callable[[], object], *arguments: Any, **options: Any) -> asyncio.Handle:
        if when <= loop.time():  # as uvloop does
            return loop.call_soon(call, *arguments, **options)
        return call_at(when, call, *arguments, **options)

    monkeypatch.setattr(loop, "call_at", plain)
    times: list[float] = []

    async def note_changes() -> None:
        throttled = Throttle(lambda: times.append(loop.now - 1000.0))
        for urgent in (False, True, False):
            throttled.request_draw(now=urgent)
        await asyncio.sleep(5)

    loop.run_until_complete(note_changes())
    assert times == pytest.approx([0], abs=1e-6)
