"""kill -9 of a process that writes and runs turns, eight times in a row."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.cluster import lease, postgres
from service.cluster import small_processes
from service.world import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9"),
]

KILLS, SESSIONS = 8, 4


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in small_processes.QUICK.items():
        monkeypatch.setattr(lease, name, value)
    monkeypatch.setattr(postgres, "LOOK_S", 0.2)


@asynccontextmanager
async def forker() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service.cluster.small_processes"),
        cwd=Path(__file__).parents[2],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 60)


async def read_line(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 2 * small_processes.PATIENCE_S)
    return line.decode().split()


def assert_whole(events: list[dict[str, Any]]) -> None:
    """Every message has one end, and they come in the order of the messages."""
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})
    messages = [event["task_id"] for event in events if event["type"] == "message"]
    ends = [
        event["task_id"]
        for event in events
        if event["type"] == "runtime_error" or (event["type"] == "runtime_done" and event["content"])
    ]
    assert ends == messages


async def test_kills_lose_nothing_and_leave_no_turn_behind(worlds: list[World]) -> None:
    survivor = worlds[0]
    sessions = [await survivor.start("first") for _ in range(SESSIONS)]
    await survivor.idle()
    url = survivor.store.engine.url.render_as_string(hide_password=False)
    acknowledged: list[list[str]] = []
    async with forker() as process:
        assert process.stdin is not None
        assert await read_line(process) == ["ready"]
        for _ in range(KILLS):
            process.stdin.write(" ".join([url, survivor.accounts["acme"], *sessions, "\n"]).encode())
            pid, count = 0, 0
            while not pid or count < 5:
                line = await read_line(process)
                assert line[0] != "ended", f"the process ended by itself after {count} messages; see stderr"
                if line[0] == "started":
                    pid = int(line[1])
                else:
                    acknowledged.append(line)
                    count += 1
            os.kill(pid, signal.SIGKILL)
            while (line := await read_line(process))[0] != "ended":
                if line[0] in sessions and len(line) == 2:
                    acknowledged.append(line)
    async with asyncio.timeout(120):
        while survivor.rows("pending_turns"):
            await asyncio.sleep(0.05)
    for session in sessions:
        events = await survivor.events(session)
        assert_whole(events)
        ids = {event["id"] for event in events}
        assert {id_ for session_id, id_ in acknowledged if session_id == session} <= ids
    assert len(acknowledged) >= 5 * KILLS
