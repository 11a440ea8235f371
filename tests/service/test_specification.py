"""`specification.txt` names the tests of every operation and rule of the specification.

A row without a test fails here, and so does a name that is no test, or an operation
that stands in no row.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

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


def read_table() -> dict[str, dict[str, list[str]]]:
    """The tests of each row, by part and by the row's text."""
    parts: dict[str, dict[str, list[str]]] = {}
    part: dict[str, list[str]] = {}
    row = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("== "):
            part = parts[line[3:]] = {}
        elif line.startswith("    "):
            part[row] += line.split()
        elif line.strip() and not line.startswith("#"):
            row = line
            assert row not in part, f"{row!r} stands twice in its part"
            part[row] = []
    return parts


@functools.cache
def named_in(file: Path) -> frozenset[str]:
    """The names of a module's tests, without importing it; empty for a missing file."""
    if not file.is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.parse(file.read_text()).body if isinstance(node, kinds))


ROWS = read_table()


def test_every_row_is_proven() -> None:
    assert list(ROWS) == PARTS
    for part in ROWS.values():
        for row, tests in part.items():
            assert tests, f"{row!r} has no test"
            for test in tests:
                file, _, name = test.partition("::")
                assert name.startswith("test_"), f"{row!r} names {test}"
                assert name in named_in(TESTS / file), f"{row!r} names {test}, which is not there"


def test_every_operation_has_a_row() -> None:
    known = contract.load()
    described = [operation for item in known.document["paths"].values() for operation in item.values()]
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
    listed = {row for part in ROWS.values() for row in part}
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
