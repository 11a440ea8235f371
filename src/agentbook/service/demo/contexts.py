# ruff: noqa: E501 - a row of a table is one line
"""Workspace contexts: notes by agents and people, as drafts or published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .month import AnsweredTask
from .people import People
from .rows import DAY_MS, HOUR_MS, MINUTE_MS, SeededIds, insert, midnight
from .workspaces import Workspaces

# workspace -> number of contexts that were generated from tasks
_GENERATED = {"support": 5, "data": 4, "on-call": 4, "release": 2, "finance": 1, "shop": 1}
# (workspace, summary, text, status, author)
_MANUAL = (
    ("support", "Tone", "We say “you”, we say sorry once, we name the day.", "PUBLISHED", "ada"),
    ("data", "Definitions", "A device is active if it sent a reading in the last seven days. Days are local days.", "PUBLISHED", "alan"),
    ("on-call", "Who to wake", "Margaret first; if she does not answer in ten minutes, Edsger.", "PUBLISHED", "margaret"),
    ("sales", "Discounts", "Up to 10 % without asking. (Draft, to be agreed.)", "DRAFT", "tim"),
)  # fmt: skip


def write_contexts(
    connection: Connection,
    seeded: SeededIds,
    now_ms: int,
    people: People,
    workspaces: Workspaces,
    tasks: Sequence[AnsweredTask],
) -> None:
    """Write the contexts of the demo's workspaces."""
    # Of earlier days, so that the choice is the same at any hour of today.
    chosen = list(_choose(seeded, [task for task in tasks if task.answered_ms < midnight(now_ms)]))
    rows = [_generated(seeded, now_ms, people, workspaces, task) for task in chosen]
    for number, (workspace, summary, text, status, person) in enumerate(_MANUAL):
        created = midnight(now_ms, 50 - 9 * number) + 9 * HOUR_MS
        rows.append(
            {
                "id": seeded.id(created),
                "workspace_id": workspaces.ids[workspace],
                "task_id": None,
                "published_by_id": people.accounts[person] if status == "PUBLISHED" else None,
                "type": "manual",
                "status": status,
                "generated_context": None,
                "manual_context": text,
                "summary": summary,
                **seeded.timestamps(created, created + 2 * HOUR_MS),
            }
        )
    insert(connection, tables.contexts, rows)


def _choose(seeded: SeededIds, tasks: Sequence[AnsweredTask]) -> Iterator[AnsweredTask]:
    for workspace, count in _GENERATED.items():
        candidates = [task for task in tasks if task.workspace == workspace]
        sample = seeded.rng.sample(candidates, min(count, len(candidates)))
        yield from sorted(sample, key=lambda task: task.answered_ms)


def _generated(
    seeded: SeededIds, now_ms: int, people: People, workspaces: Workspaces, task: AnsweredTask
) -> dict[str, Any]:
    created = min(now_ms, task.answered_ms + seeded.rng.randrange(5 * MINUTE_MS))
    published = created < now_ms - 3 * DAY_MS and seeded.rng.random() < 0.6
    publisher = "radia" if task.workspace == "shop" else "ada"
    return {
        "id": seeded.id(created),
        "workspace_id": workspaces.ids[task.workspace],
        "task_id": task.id,
        "published_by_id": people.accounts[publisher] if published else None,
        "type": "generated",
        "status": "PUBLISHED" if published else "DRAFT",
        "generated_context": f"From the session “{task.session_name}”: what was asked, what was found, what was decided.",
        "manual_context": None,
        "summary": task.session_name,
        **seeded.timestamps(created, created + (DAY_MS if published else 0)),
    }
