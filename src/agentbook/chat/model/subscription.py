"""The type of what yields a session's events as they happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from ...events.turns import Event

Follow = Callable[..., AsyncGenerator[Event]]
