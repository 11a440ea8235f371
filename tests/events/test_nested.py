"""Nested loops, each case in its own interpreter: the patch cannot be undone."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_asyncio_run_works_inside_a_running_loop_once_allowed() -> None:
    code = """
import asyncio, agentbook as ab
async def inner(): return 7
async def outer():
    ab.allow_nested_loops()
    return asyncio.run(inner())
print(asyncio.run(outer()))
"""
    assert run(code).stdout.split() == ["7"]


def test_the_original_applied_before_is_refused_with_what_to_do() -> None:
    code = """
import asyncio, agentbook as ab
asyncio._nest_patched = True  # what nest_asyncio.apply() leaves behind
try:
    ab.allow_nested_loops()
except ab.AgentbookError as error:
    print(error)
"""
    assert "Restart the kernel" in run(code).stdout


def test_a_missing_fork_says_how_to_get_it() -> None:
    code = """
import sys, agentbook as ab
sys.modules["nest_asyncio2"] = None
try:
    ab.allow_nested_loops()
except ab.AgentbookError as error:
    print(error)
"""
    assert "pip install" in run(code).stdout


def test_everything_works_where_it_has_been_applied() -> None:
    code = """
import asyncio, nest_asyncio2
nest_asyncio2.apply()
from agentbook.events import loop
async def inner(): return await asyncio.sleep(0.01, 7)
async def outer(): return loop.run(inner()), await asyncio.sleep(0, 8)
print(asyncio.run(outer()))
"""
    assert run(code).stdout.strip() == "(7, 8)"
