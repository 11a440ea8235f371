"""One service per data directory: a file lock, held while the service runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..._files import FileLock
from ..errors import OperatorError

LOCK_FILE = "service.lock"


@contextlib.contextmanager
def locked(data: Path) -> Iterator[None]:
    """Keep other services from a data directory until the block, or the process, ends.

    Raises `OperatorError` if one is using it, or if it cannot be locked.
    """
    lock = FileLock(data / LOCK_FILE, holder=str(os.getpid()))
    try:
        try:
            is_held = lock.acquire(timeout_s=0)
        except OSError as error:  # some network file systems have no locks
            raise OperatorError(
                f"{data} cannot be locked ({error.strerror or error}); choose a local disk with --data."
            ) from None
        if not is_held:
            raise OperatorError(
                f"Another service (pid {lock.holder()}) is using {data}; stop it, or give this one its own --data "
                "directory."
            )
        yield
    finally:
        lock.release()
