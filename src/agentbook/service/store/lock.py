"""One service on one data directory: an exclusive lock on a file, held for as long as the process lives.

The operating system drops the lock when its holder dies, however it dies, so a crash leaves nothing to clean up. The
file holds the holder's pid, for the message that the second one gets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from ..errors import OperatorError

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[str]) -> None:
        # Locks one byte far behind the pid, so that the pid stays readable for others.
        file.seek(4096)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(file: IO[str]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class DataLock:
    """Held from construction to `release`."""

    def __init__(self, data: Path) -> None:
        path = data / "service.lock"
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            _take(self._file)
        except OSError:
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise OperatorError(
                f"Another service (pid {holder}) is using {data}; stop it, or give this one its own --data directory."
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let another service have the directory."""
        self._file.close()
