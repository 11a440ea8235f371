"""`specification.txt` names the tests of every operation and rule of the specification.

A row without a test fails here, and so does a name that is no test, or an operation
that stands in no row.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentbook.service import contract

TABLE = Path(__file__).with_name("specification.txt")
TESTS = Path(__file__).parents[1]
PARTS = [
    "What the service does",
    "Resources and their fields",
    "States and transitions",
    "Endpoints",
    "Authentication",
    "Events",
    "Errors",
    "Limits",
    "Versioning",
]


@dataclass
class Row:
    part: str
    text: str
    tests: list[str] = field(default_factory=list)
    open: str = ""


def rows_of(table: str) -> list[Row]:
    """The rows of a table, each with what stands below it."""
    rows: list[Row] = []
    part = ""
    for line in table.splitlines():
        if line.startswith("== "):
            part = line[3:]
        elif line.startswith("    "):
            if line.split()[0] == "OPEN":
                rows[-1].open = line.strip().removeprefix("OPEN").strip()
            else:
                rows[-1].tests += line.split()
        elif line.strip() and not line.startswith("#"):
            rows.append(Row(part, line))
    return rows


@functools.cache
def named_in(file: Path) -> frozenset[str]:
    """The names of a module's tests, without importing it; empty for a missing file."""
    if not file.is_file():
        return frozenset()
    module = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in module.body if isinstance(node, kinds) and node.name.startswith("test_"))


def problems(row: Row) -> list[str]:
    """What is wrong with a row."""
    if not row.tests and not row.open:
        return [f"{row.part}: {row.text!r} has no test"]
    missing = []
    for test in row.tests:
        file, _, name = test.partition("::")
        if name not in named_in(TESTS / file):
            missing.append(f"{row.part}: {row.text!r} names {test}, which is not there")
    return missing


ROWS = rows_of(TABLE.read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.part}: {row.text}"[:90])
def test_every_row_is_proven(row: Row) -> None:
    assert problems(row) == []
    if row.open:
        pytest.skip(f"OPEN {row.part}: {row.text} ({row.open})")


def test_all_nine_parts_are_here() -> None:
    assert list(dict.fromkeys(row.part for row in ROWS)) == PARTS
    assert len({(row.part, row.text) for row in ROWS}) == len(ROWS)


def test_every_operation_has_a_row() -> None:
    known = contract.load()
    described = (operation for item in known.document["paths"].values() for operation in item.values())
    extensions = {
        operation["operationId"]
        for operation in described
        if isinstance(operation, dict) and operation.get("x-agentbook-extension")
    }
    specified = {
        f"{operation.method} {operation.path}"
        for operation in (*known.operations.values(), *known.oauth_operations.values())
        if operation.id not in extensions
    }
    listed = {row.text for row in ROWS}
    assert specified - listed == set()
    # What openapi.yaml leaves out because OpenAPI cannot describe it, or because it is
    # apart from the API.
    paths = {text for text in listed if text.split(" ")[0] in ("GET", "POST", "PATCH", "DELETE") and ": " not in text}
    assert paths - specified == {
        "GET /openapi.yaml",
        "GET /docs",
        "GET /sessions/{session_id}/events/ws",
        "GET {root_url}/.well-known/oauth-authorization-server",
        "GET {root_url}/.well-known/oauth-protected-resource/<resource path>",
    }


def test_a_row_without_a_test_is_noticed() -> None:
    known, unknown = "    service/test_errors.py::test_request_ids_differ", "    service/test_errors.py::test_no"
    table = "\n".join(["== Part", "proven", known, "forgotten", "wrong", unknown])
    proven, forgotten, wrong = rows_of(table)
    assert problems(proven) == []
    assert problems(forgotten) == ["Part: 'forgotten' has no test"]
    assert problems(wrong) == ["Part: 'wrong' names service/test_errors.py::test_no, which is not there"]
    assert problems(Row("Part", "later", open="why")) == []
