"""Opt-in for ``asyncio.run(...)`` in notebook cells. Nothing in agentbook needs it."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from ..api.errors import AgentbookError

MIN_VERSION = (1, 7, 3)


def allow_nested_loops() -> None:
    """Let ``asyncio.run`` and ``loop.run_until_complete`` work in a notebook cell.

    Uses nest-asyncio2, the maintained fork of nest-asyncio, from version 1.7.3 on.
    nest-asyncio 1.6.0 and the fork up to 1.7.2 lose queued cells and clicks with
    ipykernel 7.1 and newer (measured). agentbook never needs this: its sync methods
    work under a running loop, and its async methods can be awaited in a cell.

    Raises
    ------
    AgentbookError
        If nest-asyncio2 is missing or too old, or the original nest-asyncio has been
        applied already.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> import subprocess, sys  # in its own process: it cannot be undone
    >>> code = "import agentbook as ab, asyncio; ab.allow_nested_loops(); "
    >>> code += "print(asyncio.run(asyncio.sleep(0, 'done')))"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.strip()
    b'done'
    """
    if hasattr(asyncio, "_nest_patched") and not hasattr(asyncio, "_nest_asyncio2"):
        raise AgentbookError(
            "nest_asyncio has been applied in this kernel; with recent kernels it loses queued cells. Restart the kernel, leave "
            "nest_asyncio.apply() out, and call agentbook.allow_nested_loops() instead."
        )
    try:
        import nest_asyncio2
    except ImportError:
        raise AgentbookError("allow_nested_loops needs nest-asyncio2: pip install 'nest-asyncio2>=1.7.3'") from None
    installed = version("nest-asyncio2")
    if tuple(int(part) for part in installed.split(".")[:3] if part.isdigit()) < MIN_VERSION:
        raise AgentbookError(f"nest-asyncio2 {installed} loses queued cells: pip install -U 'nest-asyncio2>=1.7.3'")
    nest_asyncio2.apply()
