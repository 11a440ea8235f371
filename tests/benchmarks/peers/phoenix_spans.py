"""Measures Phoenix, which reads spans into a DataFrame from its server on SQLite.

`tests/benchmarks/peers.py` runs this script in Phoenix's environment.
"""

from __future__ import annotations

import datetime
import sys
import time
import uuid
from pathlib import Path

from common import free_port, grow, measured, report, served
from phoenix.client import Client

PROJECT = "default"
SEEDS = 100


def main(rows: int, folder: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(Path(sys.executable).with_name("phoenix")), "serve"]
    client = Client(base_url=url)
    with served(command, f"{url}/healthz", folder / "seed.log", env):
        seed(client)
    fresh = {"id": "", "span_id": "lower(hex(randomblob(8)))"}
    grow(folder / "phoenix.db", "spans", rows, fresh)
    with served(command, f"{url}/healthz", folder / "serve.log", env):
        report(
            measured(
                "Phoenix `get_spans_dataframe`",
                rows,
                lambda: client.spans.get_spans_dataframe(project_identifier=PROJECT, limit=rows, timeout=600),
            )
        )


def seed(client: Client) -> None:
    start = datetime.datetime(2026, 10, 3, 8, tzinfo=datetime.UTC)
    spans = []
    for n in range(SEEDS):
        at = start + datetime.timedelta(seconds=n)
        spans.append(
            {
                "name": "turn",
                "context": {"trace_id": uuid.uuid4().hex, "span_id": uuid.uuid4().hex[:16]},
                "span_kind": "CHAIN",
                "start_time": at.isoformat(),
                "end_time": (at + datetime.timedelta(seconds=1)).isoformat(),
                "status_code": "OK",
                "attributes": {"output.value": "word " * 17, "session.id": "s1"},
            }
        )
    client.spans.log_spans(project_identifier=PROJECT, spans=spans)
    until = time.monotonic() + 60  # Phoenix stores spans asynchronously
    while time.monotonic() < until:
        if len(client.spans.get_spans_dataframe(project_identifier=PROJECT, limit=1000, timeout=60)) == SEEDS:
            return
        time.sleep(0.5)
    raise SystemExit(f"Phoenix did not store {SEEDS} spans within a minute")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
