"""The buffer between the toolkit's loop and whoever reads a stream."""

from __future__ import annotations

import threading

import pytest

from agentbook.events.stream import Buffer


def test_a_reader_that_is_woken_for_nothing_goes_on_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads may read one stream: all are woken, and one gets the event."""
    buffer: Buffer[str] = Buffer(10)
    woken = 0

    def wake_early(_condition: threading.Condition, timeout: float | None = None) -> bool:
        nonlocal woken
        woken += 1
        if woken == 100:
            buffer.try_put("event")
        return True

    monkeypatch.setattr(threading.Condition, "wait", wake_early)
    assert buffer.get(timeout_s=10.0) == "event"


def test_a_reader_waits_no_longer_than_it_said() -> None:
    with pytest.raises(TimeoutError):
        Buffer[str](10).get(timeout_s=0.01)


def test_a_full_buffer_takes_nothing_and_a_closed_one_drops() -> None:
    buffer: Buffer[str] = Buffer(1)
    assert [buffer.try_put("a"), buffer.try_put("b")] == [True, False]
    buffer.close()
    assert buffer.try_put("c")
    assert buffer.get() == "a"
