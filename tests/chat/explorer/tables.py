"""Tables of turns, and events that they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

START_MS = 1_790_000_000_000  # 2026-09-21 12:53:20 UTC, a Monday
NAMES = ["data-desk", 'it\'s "quoted"\n', "'); import os; ('", "guide", None]


def make_turns(count: int, *, seed: int = 7, days: int = 35) -> pd.DataFrame:
    """Random turns of every status, some without a question or without an agent."""
    rng = np.random.default_rng(seed)
    asked_at = pd.Series(pd.to_datetime(START_MS + rng.integers(0, days * 86_400_000, count), unit="ms", utc=True))
    latency_s = pd.Series(rng.lognormal(1.5, 0.9, count).round(3))
    status = pd.Series(rng.choice(["answered", "failed", "unanswered", "open"], count, p=[0.9, 0.06, 0.03, 0.01]))
    closed = status.isin(["answered", "failed"])
    kinds = pd.Series(rng.choice(["error", "turn_timeout", "llm_calls"], count), dtype="str")
    replied_at = (asked_at + pd.to_timedelta(latency_s, unit="s")).where(closed)
    asks = pd.Series(rng.random(count) > 0.02)
    return pd.DataFrame(
        {
            "session_id": [f"s{number}" for number in rng.integers(0, max(count // 5, 1), count)],
            "turn": rng.integers(1, 30, count),
            "message_id": pd.Series([f"m{number}" for number in range(count)], dtype="str").where(asks),
            "asked_at": asked_at.where(asks).astype("datetime64[us, UTC]"),
            "replied_at": replied_at.astype("datetime64[us, UTC]"),
            "latency_s": latency_s.where(closed & asks),
            "status": pd.Categorical(status, categories=["answered", "failed", "unanswered", "open"]),
            "failure": kinds.where(status == "failed").astype("category"),
            "agent": pd.Series(rng.choice(np.array(NAMES, dtype=object), count), dtype="str"),
            "prompt": [f"Question {number} of many" for number in range(count)],
        }
    )


def event(number: int, event_type: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": f"019a0b1c-0000-7000-8000-{number:012x}", "session_id": "s1", "type": event_type, "content": content,
        "created_at": f"2026-10-03T08:{number // 60:02}:{number % 60:02}Z", **more
    }  # fmt: skip


def make_events(*texts: tuple[str, str]) -> list[dict[str, Any]]:
    """A session of these questions and replies."""
    events = []
    for position, (prompt, reply) in enumerate(texts):
        user = {"author": {"type": "user", "name": "ada"}}
        events.append(event(4 * position + 1, "message", {"text": prompt}, **user))
        agent = {"author": {"type": "agent", "name": "data-desk"}}
        events.append(event(4 * position + 3, "runtime_done", {"text": reply}, **agent))
    return events
