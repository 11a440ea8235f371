"""The notebook that runs this process, if any. IPython is not imported for it."""

from __future__ import annotations

import sys
from typing import Any


def ipython_shell() -> Any:
    """IPython's shell; None outside IPython."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel."""
    return hasattr(ipython_shell(), "kernel")


__all__ = ["in_kernel", "ipython_shell"]
