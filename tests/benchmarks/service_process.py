"""The commands of a service, and what the system charges to its process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")
COMMAND = [sys.executable, "-c", "from agentbook.cli import main; main()"]


def run(*arguments: str, data: Path) -> str:
    environment = {**os.environ, "AGENTBOOK_DATA": str(data)}
    done = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def cpu_s(pid: int) -> float:
    return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid returns


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
