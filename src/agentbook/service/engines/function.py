"""Agents that are functions of the operator: ``agentbook serve --agent``.

A function runs in processes of its own, one for each turn in progress, so that one that
blocks, prints, ends its process or never ends harms nothing else. The service starts
them as they are needed and keeps them for further turns; one whose turn did not end
with a reply is killed. They speak in lines of JSON: a request on stdin, and on stdout
steps as ``[class, *fields]``, and at the end ``["Done"]`` or ``["Failed", reason]``.
What the function prints goes to the service's stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from ..._masking import mask_text
from ..._text import one_line, replace_surrogates
from ...agents import LlmUsage, Request, ToolDone, ToolStarted
from ..discovery_file import IMPORTED_AGENT
from ..errors import OperatorError
from .base import Draft, Failure, Message, Reply, Step, TurnRequest
from .meter import RunLimits, failure

_AT_ONCE = 8  # turns of one function; more wait, as each is a process
_MAX_STEPS = RunLimits().synchronous_steps  # besides text: tool runs and usage
_MAX_CHARACTERS = 1_000_000
_MAX_LINE = 8 << 20  # bytes of one step
_LOAD_S = 60.0
_STEPS: dict[str, Callable[..., Step]] = {each.__name__: each for each in (ToolStarted, ToolDone, LlmUsage)}


_decode = partial(json.loads, parse_constant=lambda _: None)  # a tool's NaN is null


def _command(function: str) -> list[str]:
    return [sys.executable, "-P", "-c", f"from {__name__} import work; work()", function]


def check_function(name: str, function: str) -> None:
    """Raise `OperatorError` if a function, ``MODULE:FUNCTION``, cannot be loaded."""
    try:
        loaded = subprocess.run(  # noqa: S603 - our own interpreter and command
            _command(function), stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOAD_S
        )
        problem = json.loads(loaded.stdout)[1] if loaded.stdout else None
        if loaded.returncode and not problem:
            problem = f"its process ended with code {loaded.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"it was not imported within {_LOAD_S:.0f} s"
    if problem:
        raise OperatorError(
            f"The agent {name!r} cannot be loaded from {function}: {problem}. Name a module that can be imported "
            "from this directory, or a file, and a function in it, as in my_agent:answer."
        )


class FunctionEngine:
    """Answers with a function.

    Parameters
    ----------
    function
        ``MODULE:FUNCTION``; the module may also be the path of a file.
    reload
        Whether each turn has a new process, with the module and what it imports as
        they are now.
    """

    def __init__(self, function: str, *, reload: bool = False) -> None:
        self._function = function
        self._reload = reload
        self._idle: list[Process] = []
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Yield what the function gives, then a `Reply` or a `Failure`."""
        async with self._slots:
            process = await self._process()
            is_done = False
            parts: list[str] = []
            characters = steps = 0
            try:
                async with aclosing(_messages(process, _request_line(turn))) as messages:
                    async for kind, *values in messages:
                        match kind:
                            case "Draft":
                                parts += values
                                characters += len(values[0])
                                yield Draft(values[0])
                            case "Done":
                                is_done = not self._reload
                                reply = "".join(parts)
                                yield Reply(reply) if reply.strip() else self._failure("it gave no text")
                                return
                            case "Failed":
                                yield self._failure(values[0])
                                return
                            case _:
                                steps += 1
                                yield _STEPS[kind](*values)
                        if characters > _MAX_CHARACTERS or steps > _MAX_STEPS:
                            yield failure("synchronous_steps")
                            return
            finally:
                if is_done:
                    self._idle.append(process)
                else:
                    await _kill(process)
            yield self._failure(f"its process ended with code {process.returncode}")

    def _failure(self, problem: str) -> Failure:
        return Failure(500, "AgentError", f"The agent's function {self._function} failed: {problem}")

    async def _process(self) -> Process:
        """A process that waits for a turn; a new one if none does."""
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        # In its own session: Ctrl+C is for the service, which lets running turns end.
        return await asyncio.create_subprocess_exec(
            *_command(self._function), stdin=PIPE, stdout=PIPE, limit=_MAX_LINE, start_new_session=True
        )

    async def aclose(self) -> None:
        """End the processes that wait for a turn."""
        while self._idle:
            await _kill(self._idle.pop())


def _request_line(turn: TurnRequest) -> bytes:
    messages = [{"role": each.role, "content": each.text} for each in (*turn.history, Message("user", turn.message))]
    request = Request(turn.message, messages, turn.session_id, turn.agent_name, turn.workspace_name, turn.system_prompt)
    return json.dumps(asdict(request)).encode() + b"\n"


async def _messages(process: Process, request: bytes) -> AsyncGenerator[list[Any], None]:
    """Send a request; yield what comes back."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    with contextlib.suppress(ConnectionError):
        stdin.write(request)
        await stdin.drain()
    try:
        async for line in stdout:
            yield _decode(line)
            await asyncio.sleep(0)  # a function that never waits must not hold up other turns
    except ValueError:  # asyncio's, of a line that is too long
        yield ["Failed", f"it gave more than {_MAX_LINE >> 20} MiB at once"]


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)  # and what it started
    await process.communicate()


def work() -> None:
    """Run turns in this process, until stdin ends."""
    function = sys.argv[1]
    output, requests = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what is printed must not come between the lines
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def send(*message: Any) -> None:
        line = replace_surrogates(json.dumps(message, ensure_ascii=False, default=str))
        output.write(line.encode() + b"\n")
        output.flush()

    def fail(error: BaseException) -> None:
        traceback.print_exc()
        send("Failed", mask_text(one_line(f"{type(error).__name__}: {error}", 500))[0])

    try:
        os.environ[IMPORTED_AGENT] = function
        answer = _load(function)
        del os.environ[IMPORTED_AGENT]
    except BaseException as error:
        fail(error)
        os._exit(1)
    lines = queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    with asyncio.Runner() as runner:
        while True:
            try:
                _give(answer(Request(**json.loads(lines.get()))), partial(_send_step, send), runner)
                send("Done")
            except BaseException as error:
                fail(error)


def _read(requests: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    """Pass on requests, and end the process with the service, even during a turn."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def _load(function: str) -> Callable[[Request], Any]:
    module, _, names = function.rpartition(":")
    path = Path(module)
    sys.path.insert(0, str(path.resolve().parent if path.suffix == ".py" else Path.cwd()))
    found: Any = importlib.import_module(path.stem if path.suffix == ".py" else module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{names} is not a function")
    return cast("Callable[[Request], Any]", found)


def _give(answer: Any, send: Callable[[Any], None], runner: asyncio.Runner) -> None:
    """Send each piece of what the function returned, in whichever way it gives it."""
    if isinstance(answer, AsyncIterator):
        runner.run(_give_async(answer, send))
    elif inspect.iscoroutine(answer):
        _give(runner.run(answer), send, runner)
    elif isinstance(answer, Iterator):
        for piece in _with_result(answer):
            send(piece)
    else:
        send(answer)


async def _give_async(answer: AsyncIterator[Any], send: Callable[[Any], None]) -> None:
    # In one task, as what the function opens has to be closed in the task that did.
    async for piece in answer:
        send(piece)


def _with_result(answer: Iterator[Any]) -> Generator[Any, None, None]:
    result: Any = yield from answer  # type: ignore[func-returns-value]
    yield result


def _send_step(send: Callable[..., None], piece: Any) -> None:
    match piece:
        case None | "":
            pass
        case str():
            send("Draft", piece)
        case ToolStarted() | ToolDone() | LlmUsage():
            fields = {name: getattr(piece, name) for name in piece.__slots__}
            msgspec.convert(fields, type(piece))
            if isinstance(piece, LlmUsage):
                fields["agent_id"] = None
            send(type(piece).__name__, *fields.values())
        case _:
            raise TypeError(
                f"it gave {type(piece).__name__}; give text, or ToolStarted, ToolDone and LlmUsage of agentbook.agents"
            )
