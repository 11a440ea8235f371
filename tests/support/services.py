"""Stops the embedded services that tests have started.

Each service writes a file with its process id into its data directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

WAIT_S = 15.0


def stop_services(root: Path) -> None:
    """Stop every service whose data directory is `root` or below, and wait for it."""
    for file in sorted(root.rglob("service.json")):
        try:
            pid = int(json.loads(file.read_text())["pid"])
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError, KeyError):
            continue  # it has already ended, or its test stopped it
        until = time.monotonic() + WAIT_S
        # The service removes the file last. It is not a child of this process, so this
        # process cannot wait for its end.
        while file.exists() and time.monotonic() < until:
            time.sleep(0.02)
        if file.exists():
            with contextlib.suppress(ProcessLookupError):  # a killed one leaves its file
                os.kill(pid, signal.SIGKILL)
            file.unlink(missing_ok=True)
