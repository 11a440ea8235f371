"""``%chat`` and ``%%chat``: thin twins of `ChatPanel` and of its `ask`, after ``%load_ext agentbook``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core import magic_arguments
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from .panel import ChatPanel

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

arguments: Any = magic_arguments  # IPython's functions have no types


@magics_class
class ChatMagics(Magics):
    """The magics. They use the notebook's variable ``client`` where there is one, else `agentbook.connect`."""

    @arguments.magic_arguments()  # type: ignore[untyped-decorator]
    @arguments.argument("agent", nargs="?", help="with whom: id or name")  # type: ignore[untyped-decorator]
    @arguments.argument("-w", "--workspace", help="where a new session is started: id or <owner>~<name>")  # type: ignore[untyped-decorator]
    @arguments.argument("-s", "--session", help="a session to go on with")  # type: ignore[untyped-decorator]
    @arguments.argument("-o", "--out", help="the variable that takes the turn; without a cell, the panel")  # type: ignore[untyped-decorator]
    @line_cell_magic
    def chat(self, line: str, cell: str | None = None) -> None:
        """Show a chat panel; with a cell below, send the cell and wait for the reply, which streams into it."""
        given = arguments.parse_argstring(self.chat, line)
        if given.session is None and (given.agent is None or given.workspace is None):
            raise UsageError("Say with whom and where: %chat AGENT -w WORKSPACE, or -s SESSION to go on with one.")
        if cell is not None and not cell.strip():
            raise UsageError("The cell below %%chat is empty: write the message there.")
        panel = ChatPanel(self._client(), workspace=given.workspace, agent=given.agent, session=given.session)
        panel._ipython_display_()
        made: Any = panel if cell is None else panel.ask(cell.strip())
        if given.out:
            assert self.shell is not None
            self.shell.user_ns[given.out] = made

    def _client(self) -> Any:
        from .. import connect

        assert self.shell is not None
        client = self.shell.user_ns.get("client")
        return client if hasattr(client, "asynchronous") else connect()


def load(shell: InteractiveShell) -> None:
    """Register the magics with `shell`."""
    shell.register_magics(ChatMagics)
