"""What a store sends to PostgreSQL, noted by the driver's own library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sqlalchemy import event

from agentbook.service.store import Store


class WireTrace:
    """The messages of a store's new connections to its server.

    Messages that the library has not written down yet are missing, so look once an
    answer has arrived.
    """

    def __init__(self, store: Store, file: Path) -> None:
        self._file = file.open("a+b")
        store.engine.dispose()  # the connections so far are not noted
        event.listen(store.engine, "connect", self._trace)

    def _trace(self, connection: Any, _record: object) -> None:
        connection.pgconn.trace(self._file.fileno())

    def clear(self) -> None:
        """Forget what was sent so far."""
        os.truncate(self._file.fileno(), 0)

    @property
    def journeys(self) -> int:
        """How often a connection waited for the server."""
        return self._count(rb"\tB\t\d+\tReadyForQuery")

    @property
    def statements(self) -> int:
        return self._count(rb"\tF\t\d+\t(?:Execute|Query)\b")

    def _count(self, pattern: bytes) -> int:
        return len(re.findall(pattern, Path(self._file.name).read_bytes()))

    def close(self) -> None:
        self._file.close()
