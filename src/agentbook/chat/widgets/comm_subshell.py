"""Deliver what a person does with a widget while a cell is running.

A kernel handles the messages of its main shell one after another, so a click that
arrives there waits for the running cell to end. ipykernel 7 has subshells: threads that
handle messages beside the main shell. JupyterLab creates one for the widgets of a
kernel, but only when the first widget opens, and everything a person does before the
answer arrives goes to the main shell. The busier the cell is with pure Python, the
later the answer, because each step has to wait for the interpreter. In addition,
ipykernel 7.4 sends the messages of a comm to the shell that last published on it, which
for a widget made in a cell is the main shell again.

Since 7.4 a comm itself decides where its messages go. So this package's widgets use a
subshell of their own, created with the first message. It does not depend on the page,
and it is always the same one, so that the text of a box stays ahead of the click that
sends it. With 7.0 to 7.3 the page decides, and before 7 there are no subshells.
"""

from __future__ import annotations

from typing import Any


def answer_while_busy(widget: Any) -> None:
    """Deliver the messages of `widget` even while a cell is running.

    Its handlers are called on another thread than the cell's, so they may only hand
    work over.
    """
    comm = widget.comm
    # Private to ipykernel 7.4 (2026), hence the guard.
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: _own_subshell(comm.kernel, default)


def _own_subshell(kernel: Any, default: str | None) -> str | None:
    """The id of this package's subshell in `kernel`; `default` if there is none.

    The kernel calls this on the thread that dispatches messages, the only one that may
    create subshells.
    """
    try:
        manager = kernel.shell_channel_thread.manager
        own: str | None = getattr(manager, "_agentbook_subshell", None)
        if own is None or own not in manager.list_subshell():  # a page may delete any subshell it can list
            own = manager._agentbook_subshell = manager._create_subshell()
    except Exception:  # a later ipykernel may differ, and the message must not be lost
        return default
    return own
