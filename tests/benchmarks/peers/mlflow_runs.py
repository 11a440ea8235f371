"""Measures MLflow, which reads runs into a DataFrame from its server on SQLite.

`tests/benchmarks/peers.py` runs this script in MLflow's environment.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from common import free_port, grow, measured, report, served

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet"}

import mlflow

SEEDS = 10


def main(rows: int, folder: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    database = folder / "mlflow.db"
    command = [
        *(str(Path(sys.executable).with_name("mlflow")), "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{database}", "--workers", "1"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    mlflow.set_tracking_uri(url)
    with served(command, f"{url}/health", folder / "seed.log"):
        experiment = mlflow.create_experiment("turns")
        client = mlflow.MlflowClient()
        for n in range(SEEDS):
            run = client.create_run(experiment, run_name=f"turn {n}", tags={"session": "s1"})
            client.log_metric(run.info.run_id, "latency_s", 1.5 + n)
            client.log_param(run.info.run_id, "text", "word " * 17)
            client.set_terminated(run.info.run_id)
    copy_runs(database, rows)
    with served(command, f"{url}/health", folder / "serve.log"):
        report(
            measured(
                "MLflow `search_runs`",
                rows,
                lambda: mlflow.search_runs(experiment_ids=[experiment], max_results=rows),
            )
        )


def copy_runs(database: Path, rows: int) -> None:
    """Copy the runs, each with its metric, parameter and tags."""
    with sqlite3.connect(database) as db:
        seeds = [row[0] for row in db.execute("SELECT run_uuid FROM runs")]
    grow(database, "runs", rows, {"run_uuid": "lower(hex(randomblob(16)))"})
    with sqlite3.connect(database) as db:
        for table in ("latest_metrics", "params", "tags"):
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            values = ", ".join("runs.run_uuid" if name == "run_uuid" else f"old.{name}" for name in columns)
            db.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} old, runs "
                f"WHERE old.run_uuid = ? AND runs.run_uuid NOT IN (SELECT run_uuid FROM {table})",
                seeds[:1],
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
