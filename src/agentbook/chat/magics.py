"""``%chat`` and ``%%chat``: thin twins of `ChatPanel` and of its `ask`, after ``%load_ext agentbook``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from IPython.core import magic_arguments
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from ..api.errors import ApiError
from ..events import loop
from .panel import ChatPanel

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..client import AsyncClient

arguments: Any = magic_arguments  # IPython's functions have no types
ASKING_S = 30.0
MOST_NAMES = 12


@magics_class
class ChatMagics(Magics):
    """The magics. They use the notebook's variable ``client`` where there is one, else `agentbook.connect`.

    Where a new session is started without ``-w``: in the notebook's variable ``workspace``, else where the last one was, else in
    the account's only workspace.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._last: ChatPanel | None = None
        self._workspace: Any = None

    @arguments.magic_arguments()  # type: ignore[untyped-decorator]
    @arguments.argument(
        "agent", nargs="?", help="with whom, in a new session: id or name; without it and -s, go on with the last"
    )  # type: ignore[untyped-decorator]
    @arguments.argument("-w", "--workspace", help="where a new session is started: id or <owner>~<name>")  # type: ignore[untyped-decorator]
    @arguments.argument("-s", "--session", help="a session to go on with")  # type: ignore[untyped-decorator]
    @arguments.argument("-o", "--out", help="the variable that takes the turn; without a cell, the panel")  # type: ignore[untyped-decorator]
    @line_cell_magic
    def chat(self, line: str, cell: str | None = None) -> None:
        """Show a chat panel; with a cell below, send the cell and wait for the reply, which streams into it."""
        given = arguments.parse_argstring(self.chat, line)
        if cell is not None and not cell.strip():
            raise UsageError("The cell below %%chat is empty: write the message there.")
        panel = self._last = self._panel(given.agent, given.workspace, given.session)
        panel._ipython_display_()
        made: Any = panel if cell is None else panel.ask(cell.strip())
        if given.out:
            self._variables[given.out] = made

    def _panel(self, agent: str | None, workspace: str | None, session: str | None) -> ChatPanel:
        if agent is None and session is None:
            if self._last is None or self._last.comm is None:
                raise UsageError("Say with whom: %chat AGENT -w WORKSPACE, or -s SESSION to go on with one.")
            return self._last
        client = self._client()
        if session is None:
            workspace = self._workspace = workspace or self._where(client, agent)
        return ChatPanel(client, workspace=workspace, agent=agent, session=session)

    def _where(self, client: Any, agent: str | None) -> Any:
        given = self._variables.get("workspace")
        where = given if isinstance(given, str | Mapping) else self._workspace
        if where is not None:
            return where
        names = loop.run(_workspaces(client.asynchronous()), ASKING_S, operation="%chat")
        if len(names) == 1:
            return names[0]
        choice = f"one of {', '.join(names)}" if names else "id or <owner>~<name>"
        raise UsageError(f"Say where: %chat {agent} -w WORKSPACE ({choice}), or set the variable workspace.")

    @property
    def _variables(self) -> dict[str, Any]:
        assert self.shell is not None
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _client(self) -> Any:
        from .. import connect

        client = self._variables.get("client")
        return client if hasattr(client, "asynchronous") else connect()


async def _workspaces(client: AsyncClient) -> list[str]:
    """The names of the workspaces this key can list; empty where it may not."""
    try:
        return [str(each["full_name"]) async for each in client.me.workspaces(limit=MOST_NAMES)]
    except ApiError:
        return []


def load(shell: InteractiveShell) -> None:
    """Register the magics with `shell`."""
    shell.register_magics(ChatMagics)
