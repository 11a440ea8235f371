"""One service per data directory: a file lock, held while the service runs."""

from __future__ import annotations

import os
from pathlib import Path

from ..._files import FileLock
from ..errors import OperatorError


class DataLock:
    """Held from construction until `release` or the end of the process."""

    def __init__(self, data: Path) -> None:
        self._lock = FileLock(data / "service.lock", holder=str(os.getpid()))
        try:
            acquired = self._lock.acquire(timeout_s=0)
        except OSError as error:  # some network file systems have no locks
            self._lock.release()
            raise OperatorError(
                f"{data} cannot be locked ({error.strerror or error}); choose a local disk with --data."
            ) from None
        if not acquired:
            holder = self._lock.holder()
            self._lock.release()
            raise OperatorError(
                f"Another service (pid {holder}) is using {data}; stop it, or give this one its own --data directory."
            )

    def release(self) -> None:
        """Let another service use the directory."""
        self._lock.release()
