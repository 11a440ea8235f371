# ruff: noqa: E501 - a row of facts is one line
"""Workspace contexts: what agents and people wrote down about finished work, as drafts or published."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .history import History
from .people import People
from .rows import insert
from .seeded_ids import DAY_MS, HOUR_MS, MINUTE_MS, Mint
from .workspaces import Places

_PER_WORKSPACE = {"support": 5, "data": 4, "on-call": 4, "release": 2, "finance": 1, "shop": 1}
_MANUAL = (
    ("support", "Tone", "We say “you”, we say sorry once, we name the day.", "PUBLISHED", "ada"),
    ("data", "Definitions", "A device is active if it sent a reading in the last seven days. Days are local days.", "PUBLISHED", "alan"),
    ("on-call", "Who to wake", "Margaret first; if she does not answer in ten minutes, Edsger.", "PUBLISHED", "margaret"),
    ("sales", "Discounts", "Up to 10 % without asking. (Draft, to be agreed.)", "DRAFT", "tim"),
)  # fmt: skip


def write(connection: Connection, mint: Mint, now_ms: int, people: People, places: Places, history: History) -> int:
    """Contexts; how many."""
    rows = [_from_task(mint, now_ms, people, places, *task) for task in _chosen(mint, history)]
    for number, (workspace, summary, text, status, person) in enumerate(_MANUAL):
        created = now_ms - (50 - 9 * number) * DAY_MS
        rows.append(
            {
                "id": mint.id(created),
                "workspace_id": places.workspaces[workspace],
                "task_id": None,
                "published_by_id": people.accounts[person] if status == "PUBLISHED" else None,
                "type": "manual",
                "status": status,
                "generated_context": None,
                "manual_context": text,
                "summary": summary,
                "created_at": mint.instant(created),
                "updated_at": mint.instant(created + 2 * HOUR_MS),
            }
        )
    insert(connection, tables.contexts, rows)
    return len(rows)


def _chosen(mint: Mint, history: History) -> list[tuple[str, str, str, int]]:
    found: list[tuple[str, str, str, int]] = []
    for workspace, count in _PER_WORKSPACE.items():
        tasks = [task for task in history.tasks if task[0] == workspace]
        found += sorted(mint.rng.sample(tasks, min(count, len(tasks))), key=lambda task: task[3])
    return found


def _from_task(
    mint: Mint, now_ms: int, people: People, places: Places, workspace: str, task: str, name: str, ended: int
) -> dict[str, Any]:
    created = min(now_ms, ended + mint.rng.randrange(5 * MINUTE_MS))
    published = created < now_ms - 3 * DAY_MS and mint.rng.random() < 0.6
    return {
        "id": mint.id(created),
        "workspace_id": places.workspaces[workspace],
        "task_id": task,
        "published_by_id": people.accounts["ada" if workspace != "shop" else "radia"] if published else None,
        "type": "generated",
        "status": "PUBLISHED" if published else "DRAFT",
        "generated_context": f"From the session “{name}”: what was asked, what was found, what was decided.",
        "manual_context": None,
        "summary": name,
        "created_at": mint.instant(created),
        "updated_at": mint.instant(created + (DAY_MS if published else 0)),
    }
