"""Parsing in several threads, which can fail in Python 3.11."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentbook
from agentbook.service.demo.agents.python_source import parse

SOURCE = Path(agentbook.__file__).parent.joinpath("client.py").read_text("utf-8")


@pytest.fixture
def _many_switches() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_many_switches")
def test_threads_that_parse_at_the_same_time_leave_each_other_alone() -> None:
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(lambda _: parse(SOURCE), range(40)))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(SOURCE))}
