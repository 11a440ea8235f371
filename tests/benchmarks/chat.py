"""Measures the chat panel in a real JupyterLab in headless Chromium.

    python tests/benchmarks/chat.py [--only wire,first,latency,stop,open]

It measures the bytes that a reply takes on the wire, and the time until the reader sees
a token.

A scripted agent (`tests/benchmarks/chat_kernel.py`) takes the place of a platform,
through the panel's ``follow`` parameter. Its events arrive on time whatever the load of
the machine, so the figures cover the panel only: from the event to the painted page.
Times are measured from the moment at which a token was due. Prints Markdown tables; the
exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from chat_notebook import Notebook
from chat_page import ANSWERS, CLICK, ENTER, SHOWS_STOP
from chat_text import tokens
from playwright.sync_api import Browser

from support.browser import running_browser
from support.lab import Lab

ONE = "agents = [Agent(mark_every=1)]\npanels = [panel(agent) for agent in agents]\ndisplay(*panels)"
FOUR = ONE.replace("[Agent(mark_every=1)]", "[Agent(mark_every=1) for _ in range(4)]")
MARGIN_MS = 75.0  # beside work that holds the interpreter, above the longest time it does
DUE = "print(json.dumps([agent.due for agent in agents]))"
# How a turn starts in each state of the kernel; {n} is the question, a string.
STATES = {
    "cell finished": "for each in panels: begin(each, {n!r})",
    "sync ask": "_ = panels[0].ask({n!r})",
    "await": "_ = await panels[0].aask({n!r})",
    "pure Python": "begin(panels[0], {n!r})\n_ = python_work(11)",
    "pandas work": "begin(panels[0], {n!r})\nheld_ms = 1000 * pandas_work(11)\nprint(f'held {{held_ms:.0f}}')",
}
# 95 of 100 tokens are painted so soon after they were due, in ms.
GOALS_MS = {"cell finished": 70.0, "sync ask": 70.0, "await": 110.0, "pure Python": 110.0}


class Report:
    """Prints the tables and counts the missed goals."""

    def __init__(self) -> None:
        self.missed = 0

    def start_table(self, title: str) -> None:
        print(f"\n**{title}**\n\n| what | figure | goal | |\n|---|---|---|---|", flush=True)

    def row(
        self, label: str, figure: str, value: float | None = None, goal: float | None = None, unit: str = ""
    ) -> None:
        """Print a figure and, given a goal, whether `value` is at most the goal."""
        verdict, goal_text = "", ""
        if goal is not None and value is not None:
            met = value <= goal
            self.missed += not met
            verdict, goal_text = ("met" if met else "MISSED"), f"at most {goal:g}{unit}"
        print(f"| {label} | {figure} | {goal_text} | {verdict} |", flush=True)

    def end(self) -> int:
        """Print how many goals were missed; returns the exit code."""
        print(f"\n{self.missed} goals missed" if self.missed else "\nall goals met")
        return 1 if self.missed else 0


class Benchmark:
    """The measurements of the chat panel."""

    def __init__(self, lab: Lab, browser: Browser, report: Report) -> None:
        self.lab, self.browser, self.report = lab, browser, report
        self._notebooks = 0

    @contextmanager
    def notebook(self, *cells: str) -> Iterator[Notebook]:
        self._notebooks += 1
        page = Notebook(self.lab, self.browser, f"benchmark-{self._notebooks}", cells)
        try:
            yield page
            if page.outside_requests:
                print(f"(requested from the network: {page.outside_requests[:2]})")
        finally:
            page.end_kernels()
            page.close()

    # Wire

    def measure_wire(self, counts: Sequence[int]) -> None:
        self.report.start_table(f"{counts[-1]:,} tokens at 100 tokens/s, bytes on the kernel's socket")
        per_token: dict[int, float] = {}
        for count in counts:
            show = ONE.replace("mark_every=1", "mark_every=10")
            with self.notebook(show, f"_ = begin(panels[0], '{count}')", DUE) as page:
                page.run_cell(1)
                page.reset_probe()
                page.run_cell(2)
                page.wait_for_token(count - 1)
                total = page.page.evaluate("() => wire.bytes")
                frames = page.page.evaluate("() => wire.total")
                due = json.loads(page.run_cell(3))[0]
                last = next(paint[0] for paint in page.paints() if paint[1] >= count - 1)
                delay_ms = last - due[-1] * 1000
                per_token[count] = total / count
                figure = f"{total / count:.0f} B/token, {total / 1e6:.2f} MB in {frames} messages"
                goal = 165 if count == counts[-1] else None
                self.report.row(f"agentbook, {count:,} tokens", figure, total / count, goal, " B/token")
                if count == counts[-1]:
                    self.report.row("agentbook, delay of the last token", f"{delay_ms:.0f} ms", delay_ms, 30, " ms")
        growth = per_token[counts[-1]] / per_token[counts[0]]
        label = f"bytes per token at {counts[-1]:,} tokens compared with {counts[0]:,}"
        self.report.row(label, f"{growth:.2f} times", growth, 1.25, " times")

    # Latency

    def measure_latency(self, count: int = 1000) -> None:
        self.report.start_table("from a token being due to being painted, 100 tokens/s for 10 s")
        for state in STATES:
            self._measure_state(state, ONE, STATES[state], count, GOALS_MS.get(state))
        self._measure_state("four panels, cell finished", FOUR, STATES["cell finished"], count, 85)

    def _measure_state(self, name: str, show: str, state: str, count: int, goal: float | None) -> None:
        with self.notebook(show, state.format(n=str(count)), DUE) as page:
            page.run_cell(1)
            page.reset_probe()
            page.start_cell(2)
            number = 4 if show is FOUR else 1
            for k in range(number):
                page.wait_for_token(count - 1, k)
            page.wait_for_cell(2)
            if goal is None:
                held_ms = float(page.printed(2).split()[-1])
                name, goal = f"{name}, which held the interpreter for up to {held_ms:.0f} ms", held_ms + MARGIN_MS
            due = json.loads(page.run_cell(3))
            for k in range(number):
                # The tokens of code and tables carry no numbers, so the time at which
                # they are painted is unknown.
                numbered = [n for n, token in enumerate(tokens(len(due[k]), 1)) if f"w{n}" in token]
                delays, gap = token_delays(page.paints(k), {n: 1000 * due[k][n] for n in numbered})
                p50, p95 = statistics.median(delays), sorted(delays)[int(0.95 * len(delays))]
                label = f"{name}, panel {k + 1}" if number > 1 else name
                self.report.row(
                    f"{label}, p95", f"p50 {p50:.0f}, p95 {p95:.0f}, max {max(delays):.0f} ms", p95, goal, " ms"
                )
                self.report.row(f"{label}, longest gap", f"{gap:.0f} ms", gap, 500, " ms")

    # First text

    def measure_first_text(self, count: int = 10) -> None:
        self.report.start_table("from Enter to the first text of a reply of the demo's echo")
        show = "import agentbook as ab\nab.ChatPanel(ab.connect(), 'acme~playground', 'echo', height='300px')"
        with self.notebook(show) as page:
            page.run_cell(1)
            delays = [self._first_text(page, n) for n in range(count + 1)][1:]  # the first one warms it up
        median = statistics.median(delays)
        figure = f"{median:.0f} ms, median of {count}; max {max(delays):.0f} ms"
        self.report.row("first text, a warm panel", figure, median, 200, " ms")

    def _first_text(self, page: Notebook, number: int) -> float:
        at: float = page.page.evaluate(ENTER, f"w{number} and more")
        page.wait_for_token(number)
        page.page.wait_for_function("() => paints[0].at(-1)[2] === 'Answered.'", polling=20)
        return float(next(paint[0] for paint in page.paints() if paint[1] == number) - at)

    # Stop and interrupt

    def measure_stop(self) -> None:
        self.report.start_table("Stop and interrupt")
        for state, code in STATES.items():
            goal, count = (60, 7) if state == "cell finished" else (500, 1)
            delays = sorted(self._stop(code.format(n="100000")) for _ in range(count))
            median = statistics.median(delays)
            figure = f"{median:.0f} ms" + (f", median of {count}; max {delays[-1]:.0f} ms" if count > 1 else "")
            self.report.row(f"Stop painted, {state}", figure, median, goal, " ms")
        for name, call in {"ask": "panels[0].ask('100000')", "aask": "await panels[0].aask('100000')"}.items():
            code = f"try:\n    {call}\nexcept BaseException as error:\n    print(time.time())"
            with self.notebook(ONE, code) as page:
                page.run_cell(1)
                page.start_cell(2)
                page.wait_for_token(50)
                at = page.interrupt()
                page.wait_for_cell(2)
                ended = float(page.cells()[2]["outputs"][0]["text"])
                self.report.row(
                    f"interrupt reaches {name}", f"{1000 * (ended - at):.0f} ms", 1000 * (ended - at), 300, " ms"
                )

    def _stop(self, code: str) -> float:
        """The time from a press of Stop until its end is painted, in ms."""
        with self.notebook(ONE, code) as page:
            page.run_cell(1)
            page.start_cell(2)
            page.wait_for_token(50)
            page.page.wait_for_function(SHOWS_STOP)
            at: float = page.page.evaluate(CLICK, "ab-stop")
            page.page.wait_for_function("() => paints[0].some(paint => paint[2].startsWith('Stopped'))", polling=20)
            seen = next(paint[0] for paint in page.paints() if paint[2].startswith("Stopped"))
            page.wait_for_cell(2)
            return float(seen - at)

    # Long sessions

    def measure_opening(self, turns: int = 2000) -> None:
        self.report.start_table("Long sessions")
        show = "started = time.time()\nlong = opened(platform)\ndisplay(long)"
        with self.notebook(f"platform = recorded({turns})", show, "print(started)") as page:
            page.run_cell(1)
            page.reset_probe()
            empty_mb = page.heap_mb()
            page.start_cell(2)
            done = "n => (paints[0] || []).some(paint => paint[3] === n && !paint[4])"
            page.page.wait_for_function(done, arg=turns, polling=50)
            page.wait_for_cell(2)
            started = float(page.run_cell(3))
            seen = next(paint[0] for paint in page.paints() if paint[3] == turns)
            newest = next(paint[0] for paint in page.paints() if paint[3]) / 1000 - started
            self.report.row(f"the last of {turns:,} turns painted", f"{newest:.2f} s", newest, 1, " s")
            frames = page.page.evaluate("() => wire.frames")
            opens = sum(kind == "comm_open" for _, kind, _ in frames)
            size = sum(frame[2] for frame in frames) / 1e6
            took = seen / 1000 - started
            self.report.row(
                f"a session of {turns:,} turns painted", f"{took:.2f} s, {opens} widgets, {size:.1f} MB", took, 1, " s"
            )
            rendered = next(paint[0] for paint in page.paints() if paint[3] == turns and not paint[4]) / 1000 - started
            self.report.row(f"the Markdown of all {turns:,} turns rendered", f"{rendered:.2f} s")
            heap_mb = page.heap_mb() - empty_mb
            label = f"heap of the page after {turns:,} turns, over the empty page's {empty_mb:.0f} MB"
            self.report.row(label, f"{heap_mb:.1f} MB", heap_mb, 60, " MB")
            shown = page.page.evaluate(ANSWERS)
            self.report.row(
                "all turns are shown, in order", str(shown == list(range(turns))), float(shown != list(range(turns))), 0
            )


def token_delays(paints: Sequence[Sequence[Any]], due_ms: dict[int, float]) -> tuple[list[float], float]:
    """The delay of each token, and the longest time without a new one, both in ms.

    The delay of a token is the time from when it was due until it was painted.
    """
    times, shown = [], []
    for paint in paints:
        if paint[1] > (shown[-1] if shown else -1):
            times.append(float(paint[0]))
            shown.append(int(paint[1]))
    delays = [times[bisect.bisect_left(shown, n)] - due for n, due in due_ms.items() if n <= shown[-1]]
    return delays, max((after - before for before, after in pairwise(times)), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        default="wire,first,latency,stop,open",
        help="the parts to measure, separated by commas",
    )
    parser.add_argument("--tokens", type=int, default=4000)
    options = parser.parse_args()
    parts = options.only.split(",")
    report = Report()
    with tempfile.TemporaryDirectory() as home:
        lab = Lab(Path(home) / "lab")
        try:
            with running_browser() as browser:
                benchmark = Benchmark(lab, browser, report)
                load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
                print(f"{os.cpu_count()} cores, load average {load:.1f} at the start")
                if "wire" in parts:
                    benchmark.measure_wire([options.tokens // 4, options.tokens])
                if "first" in parts:
                    benchmark.measure_first_text()
                if "latency" in parts:
                    benchmark.measure_latency()
                if "stop" in parts:
                    benchmark.measure_stop()
                if "open" in parts:
                    benchmark.measure_opening()
        finally:
            lab.stop()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
