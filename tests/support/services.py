"""Ends the embedded services that tests started: found by the file each writes, ended
by the process id in it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

WAIT_S = 15.0


def end_services(root: Path) -> None:
    """End every service whose data directory is `root` or below it, and wait until it
    has gone.
    """
    for file in sorted(root.rglob("service.json")):
        try:
            pid = int(json.loads(file.read_text())["pid"])
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError, KeyError):
            continue  # ended meanwhile, or by its own test
        until = time.monotonic() + WAIT_S
        # It takes the file away as its last act; it is no child of ours, so there is
        # nothing to wait on.
        while file.exists() and time.monotonic() < until:
            time.sleep(0.02)
        if file.exists():
            os.kill(pid, signal.SIGKILL)
            file.unlink(missing_ok=True)
