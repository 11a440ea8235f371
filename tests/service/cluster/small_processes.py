"""Processes of a platform that are quick to start: a platform, and no server.

One process imports everything and then waits. For each line on its standard input, the
URL of the database and sessions, it forks: the new process writes messages to these
sessions without an end, and prints the id of each once it is acknowledged.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import random
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401 - else each new process imports it
import uuid_utils

from agentbook.service.auth import Principal
from agentbook.service.cluster import lease, postgres
from agentbook.service.engines.base import Step, TurnRequest
from agentbook.service.state import Platform
from agentbook.service.store import Store
from service.scripted import Scripted

PATIENCE_S = 60
QUICK = {"LEASE_S": 1.2, "RENEW_S": 0.2}


def be_quick() -> None:
    """Notice deaths within seconds."""
    lease.LEASE_S, lease.RENEW_S = QUICK["LEASE_S"], QUICK["RENEW_S"]
    postgres.LOOK_S = 0.2


class Lingering(Scripted):
    """Never ends a turn whose message has the word ``linger``; others run as ever."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        if "linger" in turn.message:
            await asyncio.Event().wait()
        async for step in super().run(turn):
            yield step


async def write_messages(url: str, sessions: list[str], principal: Principal) -> None:
    platform = Platform(Store(Path.cwd(), url), engines=Lingering())
    await platform.start()
    rng = random.Random(os.getpid())
    while True:
        faulthandler.dump_traceback_later(PATIENCE_S)  # of a write that hangs, to stderr
        session = rng.choice(sessions)
        text = rng.choice(["tool:a quick", "tool:a draft:b quick", "tool:a linger"])
        ask = partial(platform.turns.ask, session_id=session, text=text, principal=principal)
        message = await platform.store.write(ask)
        print(session, message.id, flush=True)
        await asyncio.sleep(0.005)


def main() -> None:
    be_quick()
    print("ready", flush=True)
    for line in sys.stdin:
        url, author_id, *sessions = line.split()
        pid = os.fork()
        if pid == 0:
            uuid_utils.reseed_rng()
            principal = Principal("apiKey", author_id, "test key", author_id, "acme", "organization", frozenset())
            asyncio.run(write_messages(url, sessions, principal))
        print("started", pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", pid, flush=True)


if __name__ == "__main__":
    main()
