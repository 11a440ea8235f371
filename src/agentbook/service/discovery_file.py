"""How a running service is found, and how it learns that nobody uses it any more: files in its data directory.

``service.json`` says where it answers; it is there while the service is, and only its owner can read it. A process that uses
a service which was started for it leaves an empty file ``users/<pid>``; with ``--until-unused`` the service ends when none of
those processes has been alive for a while. (Nothing portable tells of another process's death, so it is asked for.)
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from .errors import OperatorError

_ASK_EVERY_S = 5.0
UNUSED_FOR_S = 60.0


def announce(data: Path, base_url: str, port: int, started_at: str) -> None:
    """Write ``service.json``: whole or not at all."""
    facts = {"pid": os.getpid(), "port": port, "base_url": base_url, "started_at": started_at}
    fresh = data / f"service.json.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(facts, file)
    fresh.replace(data / "service.json")


def withdraw(data: Path) -> None:
    """Take ``service.json`` away."""
    (data / "service.json").unlink(missing_ok=True)


def base_url(data: Path) -> str:
    """Where the service that runs on this data directory answers. Raises `OperatorError` where none runs."""
    try:
        facts = json.loads((data / "service.json").read_text())
        found, pid = str(facts["base_url"]), int(facts["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        found, pid = "", 0
    if not found or not is_alive(pid):
        raise OperatorError(f"No service runs on the data directory {data}; start one with `agentbook serve`.")
    return found


def used(data: Path) -> bool:
    """Whether a process that registered itself is alive. Files of dead ones are removed."""
    alive = False
    for file in (data / "users").glob("[0-9]*"):
        if is_alive(int(file.name)):
            alive = True
        else:
            file.unlink(missing_ok=True)
    return alive


def is_alive(pid: int) -> bool:
    """Whether there is a process of this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's, and alive
    except OverflowError:
        return False
    return True


async def until_unused(data: Path, end: Callable[[], None], *, unused_for_s: float = UNUSED_FOR_S) -> None:
    """Call `end` once no registered process has been alive for `unused_for_s` seconds."""
    last_used = time.monotonic()
    while True:
        await asyncio.sleep(min(_ASK_EVERY_S, unused_for_s))
        if used(data):
            last_used = time.monotonic()
        elif time.monotonic() - last_used >= unused_for_s:
            return end()
