"""Compares how fast agentbook and its peers read a history into a DataFrame.

    python tests/benchmarks/peers.py [--peers phoenix,mlflow,langgraph] [--rows 20000]
        [--quick] [--cache DIR]

Each peer is installed into its own environment below the cache, and its server is
started on loopback with `rows` rows. agentbook reads as many events from its embedded
service, started the same way, and from pages serialised beforehand. The rows/s of a
peer include the cost of its server. The CPU time is that of the reading process only,
so it compares the clients. Prints a Markdown table. If a peer cannot be installed or
started, the table says why, and the other peers are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Replaces this folder, whose service.py would hide the folder tests/service.
sys.path[0] = str(HERE.parent)
sys.path.append(str(HERE / "peers"))

from common import measured  # noqa: E402

import agentbook as ab  # noqa: E402
from benchmarks.wire import Platform  # noqa: E402
from service.process import Service, command  # noqa: E402

SCOPES = ("agents:read", "sessions:read", "workspaces:read")
PAGE = 1000
INSTALL_S = 900
RUN_S = 1500


@dataclass(frozen=True)
class Peer:
    """The packages to install, and the script that measures them."""

    packages: tuple[str, ...]
    script: str


PEERS = {
    "phoenix": Peer(("arize-phoenix==20.26.1",), "phoenix_spans.py"),
    "mlflow": Peer(("mlflow==3.17.2",), "mlflow_runs.py"),
    "langgraph": Peer(("langgraph-cli[inmem]==0.4.40", "langgraph-sdk==0.4.14", "pandas>=3"), "langgraph_threads.py"),
}


class NotMeasured(Exception):
    """A peer could not be measured; the message is the reason."""


def environment(peer: Peer, folder: Path) -> Path:
    """The interpreter of the peer's environment, which is installed on first use."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "installed.txt"
    requirements = "\n".join(peer.packages)
    if done.is_file() and done.read_text() == requirements:
        return python
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv:
        _run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], 120)
        _run([uv, "pip", "install", "-q", "--python", str(python), *peer.packages], INSTALL_S)
    else:
        venv.create(folder, with_pip=True, clear=True)
        _run([str(python), "-m", "pip", "install", "-q", *peer.packages], INSTALL_S)
    done.write_text(requirements)
    return python


def _run(arguments: list[str], limit_s: float) -> str:
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except BaseException as error:
            process.terminate()  # not killed, so that it ends its server
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise NotMeasured(f"{Path(arguments[0]).name} did not end within {limit_s:.0f} s") from None
            raise
    if process.returncode:
        raise NotMeasured((err.strip() or out.strip() or "no output").splitlines()[-1])
    return out


def measure_peer(peer: Peer, folder: Path, rows: int) -> list[dict[str, Any]]:
    """Run the peer's script; returns its measurements."""
    python = environment(peer, folder)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        output = _run([str(python), str(HERE / "peers" / peer.script), str(rows), work], RUN_S)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"measurement"')]
    if not lines:
        raise NotMeasured("its script returned no measurement")
    return lines


def measure_agentbook(rows: int) -> list[dict[str, Any]]:
    """Measure agentbook on its embedded service, and on pages serialised beforehand."""
    sessions = -(-rows // PAGE)
    lines = []
    with tempfile.TemporaryDirectory() as work:
        data = Path(work)
        with Service(data, "--bare") as service:
            command("fixtures", "--sessions", str(sessions), "--events", str(rows), data=data)
            with ab.Client(service.base_url, credentials=service.key(*SCOPES)) as client:
                listed = [
                    session
                    for workspace in client.workspaces.list("acme")
                    for session in client.sessions.list(workspace)
                ]
                count = len(ab.load_events(client, listed))
                label = "agentbook `load_events`, its embedded service on SQLite"
                lines.append(measured(label, count, lambda: ab.load_events(client, listed)))
            service.stop()
    with Platform(sessions, PAGE, 0) as platform, ab.Client(platform.base_url) as client:
        label = "agentbook `load_events`, pages serialised beforehand"
        lines.append(measured(label, sessions * PAGE, lambda: ab.load_events(client, platform.sessions)))
    return lines


def table_row(line: dict[str, Any], reference: dict[str, Any]) -> str:
    rate, cpu = line["rows"] / line["wall_s"], 1e6 * line["cpu_s"] / line["rows"]
    ratio = rate / (reference["rows"] / reference["wall_s"])
    cells = f"| {line['measurement']} | {line['rows']:,} | {rate:,.0f} | {cpu:.1f} |"
    comparison = "1" if line is reference else f"{ratio:,.1f} × faster" if ratio > 1 else f"{1 / ratio:,.1f} × slower"
    return f"{cells} {comparison} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(PEERS), help="the peers to measure, separated by commas")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="read 2,000 rows")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "agentbook-peers")
    options = parser.parse_args()
    names = [name for name in options.peers.split(",") if name]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; the peers are {', '.join(PEERS)}")
    rows = 2_000 if options.quick else options.rows
    mine = measure_agentbook(rows)
    print("| measurement | rows | rows/s | client CPU, µs per row | compared with the first |\n|---|---|---|---|---|")
    for line in mine:
        print(table_row(line, mine[0]), flush=True)
    for name in names:
        try:
            for line in measure_peer(PEERS[name], options.cache / name, rows):
                print(table_row(line, mine[0]), flush=True)
        except NotMeasured as reason:
            print(f"| {name}: not measured | | | | {str(reason).replace('|', '/')[:300]} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
