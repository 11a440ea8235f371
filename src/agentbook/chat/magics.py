"""``%chat`` and ``%%chat``: `ChatPanel` and its `ask` as magics.

Load them with ``%load_ext agentbook``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core import magic_arguments
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from ..api.errors import ApiError
from ..events import loop
from .html.markdown import cell_sources
from .model.attachments import MAX_ROWS, with_attachments
from .panel import ChatPanel

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..client import AsyncClient

arguments: Any = magic_arguments  # IPython's functions have no types
LIST_TIMEOUT_S = 30.0
MAX_NAMES = 12


@magics_class
class ChatMagics(Magics):
    """The magics.

    They use the notebook's variable ``client`` if there is one, else the client that
    `connect` returns. Without ``-w``, a new session starts in the workspace that the
    notebook's variable ``workspace`` holds, else in that of the last session, else in
    the account's only workspace.
    """

    def __init__(self, shell: InteractiveShell, connect: Callable[[], Any]) -> None:
        super().__init__(shell)
        self._connect = connect
        self._last: ChatPanel | None = None
        self._workspace: Any = None

    @arguments.magic_arguments()  # type: ignore[untyped-decorator]
    @arguments.argument(
        "agent", nargs="?", help="agent of a new session: id or name; without it and -s, continue the last session"
    )  # type: ignore[untyped-decorator]
    @arguments.argument("-w", "--workspace", help="workspace of a new session: id or <owner>~<name>")  # type: ignore[untyped-decorator]
    @arguments.argument("-s", "--session", help="a session to continue")  # type: ignore[untyped-decorator]
    @arguments.argument(
        "--with",
        dest="attach",
        action="append",
        default=[],
        metavar="NAME",
        help="attach a variable, the path of a text file, Out[3], or an expression; may be repeated",
    )  # type: ignore[untyped-decorator]
    @arguments.argument("--rows", type=int, default=MAX_ROWS, help="rows of an attached table")  # type: ignore[untyped-decorator]
    @arguments.argument("-n", "--dry-run", action="store_true", help="show the message without sending it")  # type: ignore[untyped-decorator]
    @arguments.argument(
        "--code", action="store_true", help="put the last block of code of the last reply into the next cell"
    )  # type: ignore[untyped-decorator]
    @arguments.argument("-o", "--out", help="variable for the turn; without a cell, for the panel")  # type: ignore[untyped-decorator]
    @line_cell_magic
    def chat(self, line: str, cell: str | None = None) -> None:
        """Show a chat panel; with a cell, send its text and wait for the reply."""
        options = arguments.parse_argstring(self.chat, line)
        if cell is not None and not cell.strip():
            raise UsageError("The cell is empty: write the message below %%chat.")
        message = self._message(options, cell)
        if options.dry_run:
            print(message)
            return
        panel = self._last = self._panel(options.agent, options.workspace, options.session)
        if cell is not None or not options.code:
            panel._ipython_display_()
        result: Any = panel if cell is None else panel.ask(message)
        if options.code:
            self._fill_next_cell(panel)
        if options.out:
            self._variables[options.out] = result

    def _message(self, options: Any, cell: str | None) -> str:
        if cell is None:
            if options.attach or options.dry_run:
                raise UsageError("There is no message: write it below %%chat to use --with or --dry-run.")
            return ""
        try:
            attach = {name: self._value(name) for name in options.attach}
            return with_attachments(cell.strip(), attach, rows=options.rows)
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from error

    def _fill_next_cell(self, panel: ChatPanel) -> None:
        """Put the last block of code into the next cell; nothing is run."""
        panel.conversation.load()
        replies = [exchange.text for exchange in panel.conversation.exchanges if exchange.status == "answered"]
        blocks = cell_sources(replies[-1]) if replies else []
        if not blocks:
            raise UsageError("The last reply has no block of code." if replies else "There is no reply yet.")
        assert self.shell is not None
        self.shell.set_next_input(blocks[-1])

    def _value(self, name: str) -> Any:
        """A variable, the path of a file, or the value of an expression."""
        if name in self._variables:
            return self._variables[name]
        if Path(name).is_file():
            return Path(name)
        assert self.shell is not None
        try:
            return self.shell.ev(name)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise UsageError(
                f"--with {name}: this is no variable, no file in {Path.cwd()}, and no valid expression "
                f"({type(error).__name__}: {error})."
            ) from error

    def _panel(self, agent: str | None, workspace: str | None, session: str | None) -> ChatPanel:
        if agent is None and session is None:
            if self._last is None or self._last.comm is None:
                raise UsageError("Name an agent: %chat AGENT -w WORKSPACE, or a session to continue: %chat -s SESSION.")
            return self._last
        client = self._client()
        if session is None:
            workspace = self._workspace = workspace or self._default_workspace(client, agent)
        return ChatPanel(client, workspace=workspace, agent=agent, session=session)

    def _default_workspace(self, client: Any, agent: str | None) -> Any:
        variable = self._variables.get("workspace")
        workspace = variable if isinstance(variable, str | Mapping) else self._workspace
        if workspace is not None:
            return workspace
        names = loop.run(_workspace_names(client.asynchronous()), LIST_TIMEOUT_S, operation="%chat")
        if names is not None and len(names) == 1:
            return names[0]
        if names == []:
            raise UsageError(
                f"There is no workspace yet. Create one: client.workspaces.create('lab'), then %chat {agent}."
            )
        choice = f"one of {', '.join(names)}" if names else "id or <owner>~<name>"
        raise UsageError(f"Name a workspace: %chat {agent} -w WORKSPACE ({choice}), or set the variable workspace.")

    @property
    def _variables(self) -> dict[str, Any]:
        assert self.shell is not None
        variables: dict[str, Any] = self.shell.user_ns
        return variables

    def _client(self) -> Any:
        client = self._variables.get("client")
        return client if hasattr(client, "asynchronous") else self._connect()


async def _workspace_names(client: AsyncClient) -> list[str] | None:
    """The names of the workspaces this key can list; None if it may not list them."""
    try:
        return [str(each["full_name"]) async for each in client.me.workspaces(limit=MAX_NAMES)]
    except ApiError:
        return None


def load(shell: InteractiveShell, connect: Callable[[], Any]) -> None:
    """Register the magics with `shell`; `connect` makes a client if there is none."""
    shell.register_magics(ChatMagics(shell, connect))
