"""An opt-in for people who want ``asyncio.run(...)`` in cells. Nothing in agentbook needs it, and nothing else imports it."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from ..api.errors import AgentbookError

LEAST = (1, 7, 3)


def allow_nested_loops() -> None:
    """Let ``asyncio.run`` and ``loop.run_until_complete`` work in a notebook cell, whose loop is running already.

    Uses nest-asyncio2, the maintained fork of nest-asyncio, at least 1.7.3:
    nest-asyncio 1.6.0 and the fork up to 1.7.2 were measured to lose queued cells and
    clicks with ipykernel 7.1 and newer. agentbook itself never needs this: its sync
    methods work under a running loop, and its async ones can be awaited in a cell.

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
    >>> import subprocess, sys  # in a process of its own: it cannot be taken back
    >>> code = "import agentbook as ab, asyncio; ab.allow_nested_loops(); print(asyncio.run(asyncio.sleep(0, 'done')))"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    'done\\n'
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
    found = version("nest-asyncio2")
    if tuple(int(part) for part in found.split(".")[:3] if part.isdigit()) < LEAST:
        raise AgentbookError(f"nest-asyncio2 {found} loses queued cells: pip install -U 'nest-asyncio2>=1.7.3'")
    nest_asyncio2.apply()
