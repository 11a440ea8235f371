"""A service in a process of its own, started as people start it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from click.testing import CliRunner

from agentbook.cli import main
from agentbook.embedded import port_is_free

COMMAND = [sys.executable, "-c", "from agentbook.cli import main; main()"]
# The same service, with the agent of the tests for every engine.
SCRIPTED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from service.scripted import Scripted
from agentbook.service.http.server import run
options = dict(part.split("=", 1) for part in sys.argv[3:])
workers = int(options.pop("workers", 1))
run(data=Path(sys.argv[2]), port=0, bare=True, speed=0, engines=Scripted(), workers=workers, **options)
"""


class Service:
    """Running from construction to the end of the ``with`` block.

    `options` are those of `agentbook serve` that have a value, such as `public_url`.
    """

    def __init__(self, data: Path, *arguments: str, scripted: bool = False, **options: str) -> None:
        self.data = data
        self.database = options.get("database")
        tests = str(Path(__file__).parents[1])
        command = [sys.executable, "-c", SCRIPTED, tests, str(data), *(f"{name}={options[name]}" for name in options)]
        if not scripted:
            named = [f"--{name.replace('_', '-')}={options[name]}" for name in options]
            command = [*COMMAND, "serve", "--port", "0", "--data", str(data), *arguments, *named]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.ready = self.process.stderr.readline()
        if not self.ready.startswith("agentbook serves "):
            self.process.kill()
            raise AssertionError(self.ready + self.process.stderr.read())
        self.facts: dict[str, Any] = json.loads((data / "service.json").read_text())
        self.base_url: str = self.facts["base_url"]
        self.log = ""

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code; set `log` to the rest of stderr."""
        self.process.send_signal(number)
        _, self.log = self.process.communicate(timeout=60)
        return self.process.returncode

    def key(self, *scopes: str, account: str = "acme") -> str:
        options = [part for scope in scopes for part in ("--scope", scope)]
        store = ["--database", self.database] if self.database else []
        return command(
            "keys", "create", "--account", account, "--name", "test", *options, *store, data=self.data
        ).stdout.strip()

    def http(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.base_url, auth=(key.partition(":")[0], key.partition(":")[2]), timeout=60)


def lasting_port() -> str:
    """Return a free port below the range that the system uses for connections.

    A service can come back to it. A port that the system chose (0) may belong to a
    connection by the time the service restarts, and is then taken for a minute.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        if port_is_free(port):
            return str(port)


def command(*arguments: str, data: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the `agentbook` command to its end.

    It runs in this process: a process of its own imports for a second. `COMMAND` starts
    one where the process matters.
    """
    ended = CliRunner().invoke(main, arguments, env={"AGENTBOOK_DATA": str(data)}, prog_name="agentbook")
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    process = subprocess.CompletedProcess(["agentbook", *arguments], ended.exit_code, ended.stdout, ended.stderr)
    if check:
        process.check_returncode()
    return process
