"""Measures what the prompt lab adds to the turns that it asks for.

    python tests/benchmarks/lab_overhead.py [--questions 96] [--rounds 3] [--speed 1]

The same questions are asked twice of the same agent, at the same time: through
conversations as such, and through a lab, which also configures a draft, applies checks,
keeps the run on disk and makes a frame of it. The service paces the turns as it does
for people. Prints a row for the time, and one for the time plus the CPU that the lab
takes beyond the turns; the exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import Report, least_times

sys.path.remove(str(Path(__file__).parent))  # it has a module `service`, too
sys.path.insert(0, str(Path(__file__).parents[1]))
import agentbook as ab
from agentbook.chat.model.conversation import Conversation
from agentbook.events import loop
from service.process import Service

GOAL = 1.05
AGENT, WORKSPACE, PROMPT = "acme~scribe", "acme~playground", "Answer in one sentence."
SCOPES = ("agents:read", "agents:write", "sessions:write", "workspaces:read")
CHECKS = {"short": ab.checks.length(max=80), "source": "Source", "form": re.compile("^[A-Z]")}


def ask_bare(client: ab.Client, texts: list[str], concurrency: int) -> None:
    """The same turns without a lab."""

    async def ask(text: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            conversation = Conversation(client.asynchronous(), workspace=WORKSPACE, agent=AGENT)
            try:
                exchange = await conversation.start(text)
                await asyncio.wrap_future(exchange.finished)
                assert exchange.turn.status == "answered", exchange.reason
            finally:
                await conversation.aclose()

    async def ask_all() -> None:
        slots = asyncio.Semaphore(concurrency)
        async with asyncio.TaskGroup() as group:
            for text in texts:
                group.create_task(ask(text, slots))

    loop.run(ask_all())


def ask_with_lab(client: ab.Client, texts: list[str], concurrency: int) -> None:
    """The turns as a run of a lab."""
    lab = ab.PromptLab(client, agent=AGENT, workspace=WORKSPACE)
    lab.add_variant("brief", PROMPT)
    frame = lab.run(texts, checks=CHECKS, concurrency=concurrency, progress=False)
    assert frame["status"].eq("answered").all(), frame["reason"].dropna().tolist()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=96)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--speed", default="1")
    options = parser.parse_args()
    texts = [f"What is a session? ({n})" for n in range(options.questions)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AGENTBOOK_RUNS"] = str(Path(folder) / "runs")
        data = Path(folder) / "data"
        with Service(data, "--seed", "7", "--speed", options.speed, "--requests-per-minute", "0") as service:
            client = ab.Client(service.base_url, credentials=ab.ApiKey(service.key(*SCOPES)))
            # Both ask the same prompt, so that the service paces both the same.
            lab = ab.PromptLab(client, agent=AGENT, workspace=WORKSPACE)
            lab.add_variant("brief", PROMPT)
            lab.apply("brief")
            ask_with_lab(client, texts[:4], options.concurrency)  # imports, and connects
            work: dict[str, Callable[[], Any]] = {
                "bare": lambda: ask_bare(client, texts, options.concurrency),
                "lab": lambda: ask_with_lab(client, texts, options.concurrency),
            }
            times = least_times(work, options.rounds)
            loop.run(client.asynchronous().aclose(), 60)
            client.close()
    report = Report()
    (lab_s, lab_cpu_s), (bare_s, bare_cpu_s) = times["lab"], times["bare"]
    label = f"{options.questions} questions through a lab, over the bare turns"
    report.row(f"{label}: time", f"{lab_s:.2f} s", f"{bare_s:.2f} s", lab_s / bare_s, GOAL)
    share = 1 + (lab_cpu_s - bare_cpu_s) / bare_s
    report.row(f"{label}: CPU", f"{lab_cpu_s:.2f} s", f"{bare_cpu_s:.2f} s of {bare_s:.2f} s", share, GOAL)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
