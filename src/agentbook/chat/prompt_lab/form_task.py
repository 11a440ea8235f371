"""What the form is doing, and what its status lines say about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...api.errors import AgentbookError
from ..model.user_errors import explain

T = TypeVar("T")
STOPPED = "Stopped. The replies so far are kept; Run continues, and first looks for late replies."


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Do work in a worker thread; the task is cancelled when the interpreter ends."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except RuntimeError as error:
        if "shutdown" in str(error):  # the interpreter is ending, and its threads accept no more work
            raise asyncio.CancelledError from None
        raise


class FormTask:
    """One piece of work at a time, with a status line for each part of the form.

    Parameters
    ----------
    on_message : callable
        Called after a status line has changed.
    on_end : callable
        Called when the work has ended.

    Attributes
    ----------
    line : str
        The status line of the work, or of the last.
    """

    def __init__(self, line: str, on_message: Callable[[], None], on_end: Callable[[], None]) -> None:
        self.line = line
        self._on_message, self._on_end = on_message, on_end
        self._task: asyncio.Task[None] | None = None
        # The text of each status line, and whether it is an error.
        # Without one, the line shows the current state.
        self._messages: dict[str, tuple[str, bool]] = {}
        self._ended = False

    @property
    def busy(self) -> bool:
        """Whether work is in progress."""
        return self._task is not None

    def message(self, line: str) -> tuple[str, bool] | None:
        """The text of a status line and whether it is an error; None without a text."""
        return self._messages.get(line)

    def say(self, text: str, line: str, *, error: bool = False) -> None:
        """Make a status line say something."""
        self._messages[line] = (text, error)
        self._on_message()

    def forget(self, line: str) -> None:
        """Make a status line show the current state, unless it reports an error."""
        if not self.busy and not self._messages.get(line, ("", False))[1]:
            self._messages.pop(line, None)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], line: str) -> None:
        """Start `work` unless something is in progress; the line reports its errors."""
        # A second click may be on its way before the first has disabled the button.
        if self._task is None and not self._ended:
            self.line = line
            self._messages.clear()
            self._task = asyncio.get_running_loop().create_task(self._report(work(), line))
            self._on_message()

    def attempt(self, work: Callable[[], str], line: str) -> None:
        """Do something that takes no time; the line reports the result or the error."""
        try:
            self.say(work(), line)
        except (ValueError, TypeError) as error:
            self.say(str(error), line, error=True)

    def stop(self) -> None:
        """Cancel the work."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Cancel the work, and start no more."""
        self._ended = True
        self.stop()

    async def _report(self, work: Coroutine[Any, Any, None], line: str) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self.say(STOPPED, line)
        except AgentbookError as error:
            self.say(explain(error).text, line, error=True)
        except (ValueError, TypeError, OSError, ImportError) as error:
            self.say(str(error), line, error=True)
        finally:
            self._task = None
            self._on_end()
