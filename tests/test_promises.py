"""What the API layer promises, and that a test proves each promise.

A test says which promises it proves: ``@pytest.mark.proves("agents.get", …)``. The
operations are read off the client, so a new one needs a test of its own.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import agentbook as ab

TESTS = Path(__file__).parent
NOUNS = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")

ERRORS = [
    "400 InvalidInputError",
    "400 BadRequest",
    "401 Not authenticated",
    "401 Invalid API key",
    "401 Invalid OAuth token",
    "401 This credential cannot access this endpoint",
    "403 InsufficientScope",
    "403 Forbidden",
    "404 NotFound",
    "405 MethodNotAllowed",
    "409 Conflict",
    "429 TooManyRequests",
    "5xx",
    "an HTML page",
    "an OAuth body",
    "OAuth invalid_grant",
    "OAuth registration 429",
    "run limits, all nine",
    "the same types on a handshake",
    "the same types as a close code",
    "every error pickles",
]
RETRIES = [
    "5xx and network errors of reads: exponential backoff, jitter",
    "429: wait for the next minute",
    "an unchanged 4xx is not sent again",
    "a timed-out write: read first",
    "a run limit is not retried",
    "one deadline over the whole call",
    "a redirect is not followed",
]


def operations() -> list[str]:
    client = ab.Client("https://h/v1")
    return [f"{noun}.{name}" for noun in NOUNS for name in dir(type(getattr(client, noun))) if not name.startswith("_")]


@cache
def proven() -> dict[str, list[str]]:
    """The tests of each promise, read from the `proves` markers in the source."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves":
                    for promise in mark.args:
                        tests.setdefault(ast.literal_eval(promise), []).append(f"{path.name}::{node.name}")
    return tests


@pytest.mark.parametrize("promise", [*operations(), *ERRORS, *RETRIES])
def test_a_test_proves_each_promise(promise: str) -> None:
    assert proven().get(promise)


def test_no_test_proves_what_nobody_promised() -> None:
    assert proven().keys() <= {*operations(), *ERRORS, *RETRIES}
