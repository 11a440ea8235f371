"""Run promptfoo itself on the files beside this one, and store what it said.

By hand, once per version of promptfoo; `tests/evaluation/test_promptfoo.py` compares
our pass and score with the stored ones, cell by cell:

    npm i node@22.23.3  # and first on PATH, if Node is older than 22.22
    npm i promptfoo@0.123.1 @libsql/linux-x64-gnu@0.5.29 --omit=optional
    python tests/peers/promptfoo/record.py $PWD/node_modules/.bin/promptfoo

Needs no network: the judge and the embeddings are `stub.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from stub import serve

HERE = Path(__file__).parent
FILES = ("asserts", "matrix", "templates", "rows", "javascript")


def evaluate(command: str, name: str, base_url: str, folder: Path, where: Path = HERE) -> dict[str, Any]:
    """What promptfoo says of the cells of one file."""
    output = folder / f"{name}.json"
    environment = {
        **os.environ,
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_CONFIG_DIR": str(folder / "state"),
        "PROMPTFOO_PYTHON": sys.executable,
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "none",
    }
    subprocess.run(
        [command, "eval", "-c", f"{name}.yaml", "--no-cache", "--no-share", "--no-table", "-o", str(output)],
        cwd=where, env=environment, check=False,
    )  # fmt: skip
    result = json.loads(output.read_text())
    cells = [
        {
            "case": row["testIdx"],
            "prompt": row["promptIdx"],
            "message": row["prompt"]["raw"],
            "passed": row["success"],
            "score": row["score"],
            "error": row["failureReason"] == 2,
            "metrics": row["namedScores"],
            "reason": (row.get("error") or "").partition("\n")[0][:100],  # without a stack of paths
        }
        for row in result["results"]["results"]
    ]
    cells.sort(key=lambda cell: (cell["case"], cell["prompt"]))
    return {"version": result["metadata"]["promptfooVersion"], "cells": cells}


def write_example(example: dict[str, Any], folder: Path) -> None:
    """Write the files of an example, as eval.yaml and what stands beside it."""
    for name, text in (example.get("files") or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    config = {"providers": ["echo"], **example["config"]}
    (folder / "eval.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def record_examples(command: str, base_url: str) -> None:
    cells = {}
    for name, example in yaml.safe_load((HERE / "examples.yaml").read_text(encoding="utf-8")).items():
        if "refused" not in example:
            with tempfile.TemporaryDirectory() as folder:
                write_example(example, Path(folder))
                cells[name] = evaluate(command, "eval", base_url, Path(folder), Path(folder))["cells"]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in cells.items())
    (HERE / "examples.result.json").write_text(f"{{{lines}}}\n", encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serve() as base_url:
        record_examples(sys.argv[1], base_url)
        for name in FILES:
            stored = evaluate(sys.argv[1], name, base_url, Path(folder))
            lines = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in stored["cells"])
            text = f'{{"version": {json.dumps(stored["version"])}, "cells": [\n{lines}\n]}}\n'
            (HERE / f"{name}.result.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
