"""The table that the benchmarks print: a row per measurement, with its goal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


class Report:
    """Prints the rows of a Markdown table as they are measured, and counts misses.

    The last column is the load of the machine: the processes that wanted to run during
    the last minute, this benchmark's own among them.

    Attributes
    ----------
    missed : int
        Number of goals missed.
    """

    def __init__(self) -> None:
        self.missed = 0
        print("| measurement | agentbook | compared with | ratio | goal | | load |")
        print("|---|---|---|---|---|---|---|")

    def row(self, label: str, mine: str, other: str, ratio: float, goal: float, *, at_least: bool = False) -> None:
        """Print a measurement; `ratio` must be at most the goal, or at least."""
        met = ratio >= goal if at_least else ratio <= goal
        self.missed += not met
        limit = f"{'at least' if at_least else 'at most'} {goal:,g}"
        cells = (label, mine, other, f"{ratio:,.2f}", limit, "met" if met else "MISSED", f"{os.getloadavg()[0]:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)

    @property
    def exit_code(self) -> int:
        """1 if a goal was missed, else 0."""
        return 1 if self.missed else 0


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """The wall-clock and the CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def least_times(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """The least wall-clock and CPU seconds of each call.

    The rounds are interleaved, and the least time counts, because other work on the
    machine only ever adds to it.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call))
    return {name: (min(wall for wall, _ in each), min(cpu for _, cpu in each)) for name, each in times.items()}
