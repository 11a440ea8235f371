"""Runs tests of the service on two processes that share one PostgreSQL.

    python tests/service/on_two_processes.py [ARGUMENTS OF PYTEST]

Without a test or a folder among the arguments it runs all of `tests/service`. A world
of a test is two platforms whose requests come in turn, and a `Service` is two real
processes behind a proxy that takes them in turn. What one process alone can do is
skipped, and the summary says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from service.databases import HOW_TO_GET_IT, PLATFORMS, VARIABLE, Cluster, server_binaries  # noqa: E402


def main(arguments: list[str]) -> int:
    binaries = server_binaries()
    if binaries is None:
        print(HOW_TO_GET_IT)
        return 1
    tests = [] if any(Path(each.partition("::")[0]).exists() for each in arguments) else [str(HERE)]
    with Cluster(binaries) as cluster:
        environment = {**os.environ, VARIABLE: cluster.url, PLATFORMS: "2"}
        return subprocess.run([sys.executable, "-m", "pytest", *arguments, *tests], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
