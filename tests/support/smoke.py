"""Checks that ``agentbook lab`` has started JupyterLab and the embedded service.

Usage: ``smoke.py LOG DATA PID``. Waits until both answer; prints the log and fails if
they do not. Uses the standard library only, because it runs in an environment with
nothing but the package.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import urllib.request
from pathlib import Path

TIMEOUT_S = 600.0  # beside all tests, with less claim to the processor


def answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=60) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def main(log: Path, data: Path, pid: int) -> int:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        match = re.search(r"(http://\S+?)/lab\S*\?token=(\w+)", log.read_text(errors="replace"))
        if match and answers(f"{match[1]}/api/status?token={match[2]}") and answers(f"{match[1]}/lab?token={match[2]}"):
            service = json.loads((data / "service.json").read_text())["base_url"]
            if answers(f"{service}/openapi.yaml"):
                print(f"JupyterLab answers at {match[1]}, the service at {service}")
                return 0
        time.sleep(0.2)
    print(log.read_text(errors="replace"), file=sys.stderr)
    print("agentbook lab did not start", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
