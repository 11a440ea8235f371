"""A service in a process of its own, started as people start it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import click
import httpx
from click.testing import CliRunner

from agentbook.cli import main
from agentbook.embedded import port_is_free
from service import databases
from support.round_robin import RoundRobin

COMMAND = [sys.executable, "-c", "from agentbook.cli import main; main()"]
# The same service, with the agent of the tests for every engine.
SCRIPTED = """
import sys
import time
from collections.abc import Iterable
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from service.scripted import Scripted
from agentbook.service.http.server import Settings, serve
options = dict(part.split("=", 1) for part in sys.argv[3:])
drain_s = float(options.pop("drain_s", 0))
serve(Settings(data=Path(sys.argv[2]), port=0, bare=True, speed=0, engines=Scripted(), drain_s=drain_s, **options))
"""


class Service:
    """Running from construction to the end of the ``with`` block.

    `options` are those of `agentbook serve` that have a value, such as `public_url`.

    Where the suite runs on several platforms (``AGENTBOOK_TESTS_PLATFORMS``, see
    `world`), a service that names no database is so many processes on one, behind a
    proxy that passes each connection to the next; `process`, `ready` and `data` are
    those of the first.
    """

    def __init__(self, data: Path, *arguments: str, scripted: bool = False, **options: str) -> None:
        self.data = data
        self.log = ""
        self._proxy: RoundRobin | None = None
        self._elsewhere = ExitStack()
        directories = [data]
        if databases.VARIABLE in os.environ and not _names("database", arguments, options):
            options["database"] = databases.database_url(os.environ[databases.VARIABLE], data)
            self._proxy = self._elsewhere.enter_context(closing(RoundRobin()))
            if not _names("public_url", arguments, options):
                options["public_url"] = f"http://127.0.0.1:{self._proxy.port}"
            directories += [self._other_directory() for _ in range(1, databases.platforms())]
        self.database = options.get("database")
        self._processes = [_start(directory, arguments, scripted, options) for directory in directories]
        self.process = self._processes[0]
        lines = [_first_line(process) for process in self._processes]
        self.ready = lines[0]
        if not all(line.startswith("agentbook serves ") for line in lines):
            self.stop(signal.SIGKILL)
            self._elsewhere.close()
            raise AssertionError("".join(lines) + self.log)
        self.facts: dict[str, Any] = json.loads((data / "service.json").read_text())
        self.base_url: str = self.facts["base_url"]
        if self._proxy is not None:
            self._proxy.set_ports(
                [json.loads((directory / "service.json").read_text())["port"] for directory in directories]
            )
            self.facts["port"] = self._proxy.port
            self.base_url = f"http://127.0.0.1:{self._proxy.port}/v1"

    def _other_directory(self) -> Path:
        """A data directory of a further process."""
        return Path(self._elsewhere.enter_context(TemporaryDirectory(prefix="agentbook-tests-")))

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if any(process.poll() is None for process in self._processes):
            self.stop(signal.SIGKILL)
        self._elsewhere.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code; set `log` to the rest of stderr.

        The exit code is that of the first process that failed, if there are several.
        """
        for process in self._processes:
            process.send_signal(number)
        self.log = "".join(process.communicate(timeout=60)[1] for process in self._processes)
        return next((process.returncode for process in self._processes if process.returncode), 0)

    def key(self, *scopes: str, account: str = "acme") -> str:
        options = [part for scope in scopes for part in ("--scope", scope)]
        store = ["--database", self.database] if self.database else []
        return command(
            "keys", "create", "--account", account, "--name", "test", *options, *store, data=self.data
        ).stdout.strip()

    def http(self, key: str) -> httpx.Client:
        """A client; with several processes, each of its requests goes to the next."""
        limits = httpx.Limits() if self._proxy is None else httpx.Limits(max_keepalive_connections=0)
        id_, _, secret = key.partition(":")
        return httpx.Client(base_url=self.base_url, auth=(id_, secret), timeout=60, limits=limits)

    def wait_for_turns(self, http: httpx.Client, sessions: Iterable[str]) -> None:
        """Wait until the turns of an earlier run have ended.

        With one process they have, once it serves. On a database the lease of a process
        that was killed has to end first.
        """
        for session in sessions:
            while self._proxy is not None and http.get(f"/sessions/{session}").json()["status"] != "IDLE":
                time.sleep(0.02)

    def stored(self) -> bytes:
        """All that is stored: the files of the data directory, a database's rows."""
        files = b"".join(path.read_bytes() for path in self.data.rglob("*") if path.is_file())
        return files if self.database is None else files + databases.content(self.database)


def _names(name: str, arguments: tuple[str, ...], options: dict[str, str]) -> bool:
    return name in options or _option(name) in arguments


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _start(data: Path, arguments: tuple[str, ...], scripted: bool, options: dict[str, str]) -> subprocess.Popen[str]:
    if scripted:
        tests = str(Path(__file__).parents[1])
        command = [sys.executable, "-c", SCRIPTED, tests, str(data), *(f"{name}={options[name]}" for name in options)]
    else:
        named = [f"{_option(name)}={options[name]}" for name in options]
        command = [*COMMAND, "serve", "--port", "0", "--data", str(data), *arguments, *named]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def on_database(data: Path) -> list[str]:
    """The options of `agentbook` that name the database of a data directory, if any."""
    base = os.environ.get(databases.VARIABLE)
    return [] if base is None else ["--database", databases.database_url(base, data)]


def furnished(http: httpx.Client, *prompts: str) -> list[str]:
    """The ids of sessions in a new workspace, ``lab``, with a new agent, ``helper``."""
    for noun, name in (("workspaces", "lab"), ("agents", "helper")):
        http.post(f"/{noun}", json={"name": name}).raise_for_status()
    body = {"session_type": "chat", "agent_id": "helper"}
    started = [http.post("/workspaces/lab/sessions", json=body | {"initial_prompt": prompt}) for prompt in prompts]
    return [answer.json()["id"] for answer in started]


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
    one where the process matters. On PostgreSQL, it works on the database of the data
    directory; snapshots alone are of the directory itself.
    """
    defaults = {}
    base = os.environ.get(databases.VARIABLE)
    if base is not None and not {"--database", "snapshot", "restore"} & {*arguments}:
        defaults = _everywhere(main, {"database": databases.database_url(base, data)})
    ended = CliRunner().invoke(
        main, arguments, env={"AGENTBOOK_DATA": str(data)}, prog_name="agentbook", default_map=defaults
    )
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    process = subprocess.CompletedProcess(["agentbook", *arguments], ended.exit_code, ended.stdout, ended.stderr)
    if check:
        process.check_returncode()
    return process


def _everywhere(command: click.Command, values: dict[str, Any]) -> dict[str, Any]:
    """The `default_map` that gives these options to every command below this one."""
    if isinstance(command, click.Group):
        return {name: _everywhere(each, values) for name, each in command.commands.items()}
    return values
