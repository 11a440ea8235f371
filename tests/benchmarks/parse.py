"""Measures how fast pages are parsed into a frame.

    python tests/benchmarks/parse.py [--pages 200]

Compares, in one run with interleaved rounds, the medians of three ways: agentbook;
``json.loads`` with ``pandas.json_normalize``, as people write it by hand; and a floor,
the least it can cost. The floor decodes the same bytes with msgspec straight into Arrow
columns and pandas, without problems, extras or categories. Prints a Markdown table; the
exit code is 1 if a ratio misses its goal.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from agentbook.frames.analysis.turns import turns
from agentbook.frames.parse.frame import FrameBuilder, to_frame

PAGE = 1000
SESSION = "019a0b1c-0000-7000-8000-000000000000"


def make_pages(count: int, seed: int = 1) -> list[bytes]:
    """Pages of 1,000 events of about 350 bytes; three in four have a text."""
    draw = random.Random(seed)
    pages = []
    for page in range(count):
        items = []
        for row in range(PAGE):
            n = page * PAGE + row
            hexa = f"{1_790_000_000_000 + 700 * n:012x}"
            question = n % 4 == 0
            items.append(
                {
                    "id": f"{hexa[:8]}-{hexa[8:]}-7000-8000-{draw.getrandbits(48):012x}",
                    "type": "message" if question else "runtime_done",
                    "content": {} if n % 4 == 2 else {"text": "word " * draw.randint(5, 30)},
                    "task_id": f"{hexa[:8]}-{hexa[8:]}-7000-9000-{draw.getrandbits(48):012x}",
                    "author": {"type": "api_key" if question else "agent", "id": SESSION},
                    "created_at": f"2026-10-{1 + n // 86_400 % 28:02d}T08:15:{n % 60:02d}.{n % 1000:03d}000Z",
                    "updated_at": f"2026-10-{1 + n // 86_400 % 28:02d}T08:15:{n % 60:02d}.{n % 1000:03d}000Z",
                }
            )
        pages.append(json.dumps({"items": items, "pagination": {"total_count": count * PAGE}}).encode())
    return pages


def ours(pages: list[bytes]) -> pd.DataFrame:
    return to_frame("events", pages, context={"session_id": SESSION})


def by_hand(pages: list[bytes]) -> pd.DataFrame:
    frame = pd.json_normalize([item for page in pages for item in json.loads(page)["items"]])
    for name in ("created_at", "updated_at"):
        frame[name] = pd.to_datetime(frame[name])
    return frame


class _Author(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None


class _Content(msgspec.Struct, gc=False):
    text: str | None = None


class _Event(msgspec.Struct, gc=False):
    id: str
    type: str
    content: _Content
    task_id: str
    author: _Author
    created_at: str
    updated_at: str


class _Page(msgspec.Struct, gc=False):
    items: list[_Event]


def floor(pages: list[bytes]) -> pd.DataFrame:
    """The least that parsing these pages into a frame can cost."""
    decoder, batches = msgspec.json.Decoder(_Page), []
    for page in pages:
        items = decoder.decode(page).items
        columns: dict[str, Any] = {
            name: pa.array([getattr(item, name) for item in items]) for name in ("id", "type", "task_id")
        }
        columns["author_type"] = pa.array([item.author.type for item in items])
        columns["author_id"] = pa.array([item.author.id for item in items])
        columns["text"] = pa.array([item.content.text for item in items])
        for name in ("created_at", "updated_at"):
            columns[name] = pa.array([getattr(item, name) for item in items]).cast(pa.timestamp("us", "UTC"))
        batches.append(pa.record_batch(columns))
    return pa.Table.from_batches(batches).to_pandas()


def median_times(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median CPU seconds of each call; the rounds are interleaved."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.process_time()
            call()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pages = make_pages(options.pages)
    rows = options.pages * PAGE
    times = median_times(
        {"ours": lambda: ours(pages), "floor": lambda: floor(pages), "by hand": lambda: by_hand(pages)}, options.rounds
    )
    builder = FrameBuilder("events")
    for n, page in enumerate(pages):
        builder.add(page, {"session_id": f"s{n}"})
    events = builder.finish()
    times["turns"] = median_times({"turns": lambda: turns(events)}, options.rounds)["turns"]
    print(f"{rows:,} events, {sum(map(len, pages)) / rows:.0f} bytes each, CPU seconds, median of {options.rounds}\n")
    print("| measurement | s | rows/s | times agentbook |\n|---|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.3f} | {rows / seconds:,.0f} | {seconds / times['ours']:.2f} x |")
    goals = {
        "at least 5 times faster than by hand": times["by hand"] / times["ours"] >= 5,
        "at most 2.5 times the floor": times["ours"] / times["floor"] <= 2.5,
        "turns of 1,000,000 events in 1.5 s": times["turns"] * 1e6 / rows <= 1.5,
    }
    print()
    for goal, met in goals.items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
