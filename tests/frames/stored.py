"""A platform whose events are stored, and what a store of them must hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

MINUTE = 60_000


DAY = 24 * 60 * MINUTE


def three_days() -> HttpPlatform:
    """Five sessions with four events on each of three days."""
    return HttpPlatform(
        {
            f"s{n}": [event_id(n + DAY * day + 100 * k, 10 * n + k) for day in range(3) for k in range(4)]
            for n in range(5)
        }
    )


def plain_rows(path: Path) -> list[str]:
    """What a reader that knows nothing of agentbook sees."""
    return sorted(ds.dataset(path / "events", partitioning="hive").to_table()["id"].to_pylist())


def everything(platform: HttpPlatform) -> list[str]:
    return sorted(event for ids in platform.sessions.values() for event in ids)
