"""How what a person does with a widget reaches Python while a cell is running.

A kernel takes the messages of its main shell one cell after another, so a click that arrives there waits for the cell to end.
ipykernel 7 has subshells: threads that take messages beside it. JupyterLab makes one for the widgets of a kernel, but asks for
it only when the first widget opens, and what a person does before the answer has come is sent to the main shell. The busier the
cell is with pure Python, the later the answer, as every step of the way has to wait for the interpreter. ipykernel 7.4 moreover
sends the messages of a comm to the shell that last published on it, which for a widget made in a cell is the main one again.

Since 7.4 a comm says itself where its messages go. So the widgets of this package go to a subshell of our own, made when the
first message comes: whatever the page knows or does not know, and always the same, so that the text of a box stays ahead of
the click that sends it. With 7.0 to 7.3 the page's word counts, and before 7 there are no subshells.
"""

from __future__ import annotations

from typing import Any


def answer_while_busy(widget: Any) -> None:
    """Let what a person does with `widget` reach Python while a cell is running.

    Its handlers are called on another thread than the cell's, and may only hand over.
    """
    comm = widget.comm
    # Private to ipykernel 7.4 (2026), hence the guard.
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: _own_subshell(comm.kernel, default)


def _own_subshell(kernel: Any, default: str | None) -> str | None:
    """The id of this package's subshell in `kernel`; `default` where the kernel has none to give.

    The kernel calls it on the thread that hands out messages, the only one that may make subshells.
    """
    try:
        manager = kernel.shell_channel_thread.manager
        own: str | None = getattr(manager, "_agentbook_subshell", None)
        if own is None or own not in manager.list_subshell():  # a page may delete any subshell it can list
            own = manager._agentbook_subshell = manager._create_subshell()
    except Exception:  # whatever a later ipykernel calls it: the message must not be lost over it
        return default
    return own
