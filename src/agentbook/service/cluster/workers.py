"""Several processes on one port: a parent starts them, and replaces those that die.

All of them accept connections from the socket that the parent has bound, so whichever
is free takes the next one, and none is lost with a process. The parent serves nothing
itself and passes on signals: the first as SIGTERM, which a service manager may already
have sent to all of them, and a second as `FORCE_EXIT_SIGNAL`. If the parent dies, its
processes stop: each holds one end of a pipe whose other end only the parent has. They
keep their counts in files, in a directory that the parent created.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uuid_utils
from prometheus_client import CollectorRegistry, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from ..errors import OperatorError
from ..http.monitoring import Metrics
from ..http.uvicorn_server import Server
from ..state import Platform

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

    from starlette.types import ASGIApp

FORCE_EXIT_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)  # Windows has neither this signal nor workers
_AGAIN_AFTER_S = 1.0  # a process that died may die again at once
_REFRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Worker:
    """What a process has from its parent.

    Attributes
    ----------
    lifeline : int
        A file that reaches its end when the parent dies.
    numbers : Path
        The directory of the counts of all processes (`SharedMetrics`).
    """

    lifeline: int
    numbers: Path
    _readiness: int

    def report_ready(self) -> None:
        """Tell the parent that this process serves."""
        os.write(self._readiness, b".")


class SharedMetrics(Metrics):
    """The metrics of all processes on a port.

    They keep their numbers in files that all of them can read, as `prometheus_client`
    does for servers that fork. So any of them can answer with the sums, and the numbers
    of a process that died still count.

    Parameters
    ----------
    platform
        The platform in this process.
    numbers
        The directory of the files.
    """

    def __init__(self, platform: Platform, numbers: Path) -> None:
        # The library reads this when it is imported, which was before the fork.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(numbers)
        values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        super().__init__(platform)
        self._numbers = numbers

    def text(self) -> bytes:
        self.refresh()
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._numbers))  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    async def keep_current(self) -> None:
        """Keep the numbers current that another process may show."""
        while True:
            self.refresh()
            await asyncio.sleep(_REFRESH_S)


class WorkerServer(Server):
    """The server of one process, which its parent starts and ends.

    It may get the first signal twice, so the second is `FORCE_EXIT_SIGNAL`.
    """

    def __init__(
        self,
        worker: Worker,
        metrics: SharedMetrics,
        platform: Platform,
        app: ASGIApp,
        drain_s: float,
        users: Path | None,
    ) -> None:
        super().__init__(platform, app, self._begin, drain_s, users)
        self._worker = worker
        self._metrics = metrics

    def _begin(self) -> None:
        signal.signal(FORCE_EXIT_SIGNAL, self.handle_exit)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._worker.lifeline, self.end)
        self._counting = loop.create_task(self._metrics.keep_current())
        self._worker.report_ready()

    def end(self) -> None:
        super().end()
        asyncio.get_running_loop().remove_reader(self._worker.lifeline)

    def is_urgent(self, sig: int) -> bool:
        return sig == FORCE_EXIT_SIGNAL


class Workers:
    """The parent's side.

    Parameters
    ----------
    count
        How many processes.
    serve
        Runs in each of them until SIGTERM tells it to stop, or `FORCE_EXIT_SIGNAL` to
        stop at once.
    on_ready
        Called in the parent once all serve.
    """

    def __init__(self, count: int, serve: Callable[[Worker], None], on_ready: Callable[[], None]) -> None:
        self._count = count
        self._serve = serve
        self._on_ready = on_ready
        self._context = multiprocessing.get_context("fork")
        self._processes: list[ForkProcess] = []
        self._lifeline, self._readiness, self._wakeup = os.pipe(), os.pipe(), os.pipe()
        self._numbers = Path()
        self._pid = os.getpid()
        self._signals = 0
        self._passed_on = 0
        self._ready = 0

    def run(self) -> None:
        """Start the processes, and return once a signal has ended all of them.

        Raises
        ------
        OperatorError
            If one of them ended before all were serving; it has reported why.
        """
        before = {number: signal.signal(number, self._note_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        self._numbers = Path(tempfile.mkdtemp(prefix="agentbook-"))
        try:
            for _ in range(self._count):
                self._start()
            while self._processes:
                self._wait()
        finally:
            for process in self._processes:
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            for file in (*self._lifeline, *self._readiness, *self._wakeup):
                os.close(file)
            shutil.rmtree(self._numbers, ignore_errors=True)  # a killed process may still be writing

    def _start(self) -> None:
        process = self._context.Process(target=self._run_worker)
        process.start()
        self._processes.append(process)

    def _run_worker(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all; the parent passes it on, once
        for number in (signal.SIGTERM, FORCE_EXIT_SIGNAL):
            signal.signal(number, signal.SIG_DFL)
        for file in (self._lifeline[1], self._readiness[0], *self._wakeup):
            os.close(file)
        uuid_utils.reseed_rng()  # otherwise all would draw the same ids
        try:
            self._serve(Worker(self._lifeline[0], self._numbers, self._readiness[1]))
        except OperatorError as error:
            print(f"agentbook: {error}", file=sys.stderr, flush=True)
            sys.exit(1)
        finally:
            if os.getppid() != self._pid:  # the parent was killed
                shutil.rmtree(self._numbers, ignore_errors=True)

    def _note_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        os.write(self._wakeup[1], b".")

    def _wait(self) -> None:
        """Wait until something happens, and act on it."""
        happened = wait([*(process.sentinel for process in self._processes), self._readiness[0], self._wakeup[0]])
        if self._wakeup[0] in happened:
            os.read(self._wakeup[0], 100)
        while self._passed_on < self._signals:
            number = FORCE_EXIT_SIGNAL if self._passed_on else signal.SIGTERM
            self._passed_on += 1
            for process in self._processes:
                _send(process, number)
        if self._readiness[0] in happened:
            self._count_ready(len(os.read(self._readiness[0], 100)))
        for process in [process for process in self._processes if process.sentinel in happened]:
            self._replace(process)

    def _count_ready(self, more: int) -> None:
        was_complete = self._ready >= self._count
        self._ready += more
        if self._ready >= self._count and not was_complete:
            self._on_ready()

    def _replace(self, process: ForkProcess) -> None:
        process.join()
        self._processes.remove(process)
        mark_process_dead(process.pid, str(self._numbers))  # type: ignore[no-untyped-call]
        if self._signals:
            return
        if self._ready < self._count:
            raise OperatorError("One of the processes could not start; see the message above.")
        print(
            f"agentbook: process {process.pid} ended with {process.exitcode}; another takes its place.",
            file=sys.stderr,
            flush=True,
        )
        time.sleep(_AGAIN_AFTER_S)
        if not self._signals:
            self._start()


def _send(process: ForkProcess, number: int) -> None:
    """Send a signal to a process that may have ended."""
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, number)
