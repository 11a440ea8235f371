"""Compares the toolkit's turns, steps and percentiles with `support.rebuild`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

import agentbook as ab

from .rebuild import NOW, RebuiltTurn, latency_of, moment, read_frame, rebuild_percentiles, rebuild_turns, steps_of

QUANTILES = (0.5, 0.9, 0.95)


def differences(database: sqlite3.Connection) -> tuple[Counter[str], list[str]]:
    """Return how much was compared, and the first differences."""
    frame = read_frame(database)
    turns, steps = ab.turns(frame, as_of=NOW), ab.steps(frame)
    rebuilt = rebuild_turns(database, NOW.timestamp())
    problems = [
        *_of_turns(turns, rebuilt),
        *_of_steps(steps, rebuilt),
        *_of_percentiles(turns, rebuild_percentiles(database, rebuilt, QUANTILES)),
    ]
    counts = Counter({"turns": len(turns), "steps": len(steps)})
    counts.update(turns["status"].astype(str))
    counts.update(turns["matched_by"].dropna().astype(str))
    return counts, problems[:5]


def _of_turns(turns: pd.DataFrame, rebuilt: list[RebuiltTurn]) -> Iterator[str]:
    columns = ["session_id", "status", "asked_at", "replied_at", "latency_s", "failure", "events", "subtasks"]
    for number, row in enumerate(_rows(turns, columns)):
        turn = rebuilt[number] if number < len(rebuilt) else None
        expected = turn and (
            turn.session_id, turn.status, moment(turn.asked_at), moment(turn.replied_at), latency_of(turn), turn.failure,
            turn.events, len(turn.steps),
        )  # fmt: skip
        if row != expected:
            yield f"turn {number}: {row}, rebuilt {expected}"
    if len(turns) != len(rebuilt):
        yield f"{len(turns)} turns, {len(rebuilt)} rebuilt"


def _of_steps(steps: pd.DataFrame, rebuilt: list[RebuiltTurn]) -> Iterator[str]:
    expected = [
        (turn.session_id, number, task_id, moment(ended), None if duration is None else round(duration, 3))
        for turn in rebuilt
        for number, (task_id, ended, duration) in enumerate(steps_of(turn), 1)
    ]
    actual = _rows(steps, ["session_id", "step", "task_id", "ended_at", "duration_s"])
    yield from (
        f"step {pair[0]}, rebuilt {pair[1]}" for pair in zip(actual, expected, strict=False) if pair[0] != pair[1]
    )
    if len(actual) != len(expected):
        yield f"{len(actual)} steps, {len(expected)} rebuilt"


def _of_percentiles(turns: pd.DataFrame, rebuilt: dict[tuple[str, float], tuple[int, float]]) -> Iterator[str]:
    table = ab.latency(turns, by="agent_id", quantiles=QUANTILES).set_index("agent_id")
    if len(rebuilt) != len(table) * len(QUANTILES):
        yield f"percentiles of {len(table)} agents, {len(rebuilt)} rebuilt"
    for (agent_id, q), (n, seconds) in rebuilt.items():
        row = table.loc[agent_id]
        if row["n"] != n or abs(row[f"p{q * 100:g}_s"] - seconds) > 1e-6:
            yield f"p{q * 100:g} of {agent_id}: {row.to_dict()}, rebuilt {n}, {seconds}"


def _rows(frame: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    """The values of some columns, seconds to the millisecond; None for null."""
    values = []
    for name in columns:
        column = frame[name].round(3) if name.endswith("_s") else frame[name]
        values.append(column.astype(object).where(column.notna(), None).to_list())
    return list(zip(*values, strict=True))
