"""The chat panel: a conversation in a notebook cell, live while the kernel works.

The toolkit's only daemon thread owns the network and, after construction, all updates
of the page. Depending on the version of ipykernel, a person's actions arrive on the
kernel's main thread or on a subshell's, so the handlers only hand work over to the
toolkit's thread. Changes are noted and drawn together, at most 20 times a second and
less often when drawing is slow, because Jupyter Server permanently drops messages above
a certain rate.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from .._text import replace_surrogates, safe_repr, shows_call
from ..api.errors import DeadlineExceeded
from ..events import loop
from ..events.ask import finished
from ..events.turns import Turn
from .collecting import TestSet
from .delegation import method_of
from .html.protocols import ExchangeLike
from .html.static_transcript import show_live
from .model.attachments import Attached, Attachments, with_attachments
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.subscription import Follow
from .page_requests import PageRequests
from .panel_transcript import PanelTranscript
from .session_switch import SessionSwitch
from .widgets.actions import ChatActions, PanelActions
from .widgets.parts import close_all
from .widgets.throttle import Throttle
from .widgets.views import PanelViews

if TYPE_CHECKING:
    import pandas as pd

    from ..client import AsyncClient, Client

READ_TIMEOUT_S = 15.0


class ChatPanel(widgets.VBox):  # type: ignore[misc]
    """A chat with an agent, in a notebook cell.

    Parameters
    ----------
    client : Client or AsyncClient or None
        None only for a panel that shows the events of `follow`.
    workspace : str or Record, optional
        Where a new session is started: id or ``<owner>~<name>``.
    agent : str or Record, optional
        The agent of a new session: id or name.
    session : str or Record, optional
        An existing session: its history is shown, and the conversation continues.
    keep : bool
        Whether a saved notebook keeps `session`. If False, it does once something was
        asked in it here.
    height : str
        CSS height of the log.
    images : bool
        Whether to fetch pictures in replies from the addresses the agent gives. By
        default each picture is a link, because an address can tell its server what was
        said here; nothing is fetched until someone presses Load pictures.
    follow : callable, optional
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.
    lab : PromptLab, optional
        The lab to which “Add to test set” next to a question adds the turn as an input.

    Raises
    ------
    ValueError
        If there is neither a session nor a workspace and an agent to start one with.

    Notes
    -----
    The platform cannot cancel a turn: Stop only stops listening. The agent may still
    finish, and its late reply appears in the panel; Listen again waits for it. The
    platform cannot edit a message or resume a failed turn either: both send a new
    message. New session leaves the current one, which can be chosen again.
    Specification: "Events"; "Authentication", rule 9.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
    >>> turn = panel.ask("What is a turn?")  # end the cell with `panel` to watch
    >>> turn.status
    'answered'
    >>> panel.transcript["role"].to_list()
    ['user', 'agent']
    >>> turn = panel.ask("Which is later?", attach={"days": ["Monday", "Sunday"]})
    >>> print(panel.attach("id,n\\na,1", "orders.csv"))
    **orders.csv**
    ...
    >>> path = panel.export(Path(tempfile.mkdtemp()) / "talk.html")
    >>> panel.withdraw()  # nothing waits for a turn that was stopped
    ''
    >>> [entry.title for entry in panel.find_sessions("turn")][-1]
    'What is a turn?'
    >>> panel.open_session(session)  # to read it; keep=True saves it, too
    >>> panel.forget(session)
    >>> panel.close()
    """

    @shows_call('ab.ChatPanel(client, workspace="acme~lab", agent="guide")')
    def __init__(
        self,
        client: Client | AsyncClient | None,
        workspace: Any = None,
        agent: Any = None,
        session: Any = None,
        *,
        keep: bool = True,
        height: str = "420px",
        images: bool = False,
        follow: Follow | None = None,
        lab: TestSet | None = None,
    ) -> None:
        if session is None and (workspace is None or agent is None):
            raise ValueError("ChatPanel needs workspace= and agent= to start a session, or session= to continue one.")
        self.conversation = Conversation(client, workspace=workspace, agent=agent, session=session, follow=follow)
        # As passed in: a name learned from the session may arrive at any time, and the
        # outputs of notebooks are compared.
        self._initial_name = self.conversation.agent_name
        uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._static = PanelTranscript(self.conversation, uid)
        requests = PageRequests(self.conversation, lab)
        chat = ChatActions(
            send=lambda text, answer: self._hand_over(self._send_from_box, text, answer),
            stop=self.stop,
            switch_pictures=lambda: self._hand_over(self._toggle_pictures),
            retry=lambda exchange: loop.submit(self._retry(exchange)),
        )
        actions = PanelActions(
            chat=chat,
            reconnect=self.resume,
            start=lambda: self._hand_over(self._switch.begin),
            open=lambda session_id: self._hand_over(self._switch.open, session_id),
            find=requests.find,
            export=requests.export,
            collect=None if lab is None else requests.collect,
        )
        self._views = PanelViews(self.conversation, actions, uid, height, images=images, show=self._show)
        self._attachments = Attachments(lambda text: self._hand_over(self._add_to_box, text))
        self._changed: set[ExchangeLike] = set()
        self._throttle = Throttle(self._draw, self._views.pause_s, self._save)
        self._switch = SessionSwitch(self.conversation)
        self._ended = False
        super().__init__([self._views.page.chat.widget], layout=widgets.Layout(width="100%", max_width="980px"))
        self.add_class("ab-frame")
        self.conversation.listen(self._note)
        self._views.draw(set())
        if session is not None:
            loop.submit(self.conversation.attach(keep=keep))

    # Asking from code

    def ask(self, text: str, timeout_s: float | None = None, *, attach: Attached = ()) -> Turn:
        """Send a message and wait for the reply, which streams into the panel.

        Parameters
        ----------
        text : str
        timeout_s : float, optional
            Seconds to wait; None waits without limit.
        attach : iterable or dict, optional
            Tables, paths of text files, texts and other objects to send with the
            message, as text; a dict names them. See `attach`.

        Returns
        -------
        Turn
            Answered; or still open, if someone pressed Stop.

        Raises
        ------
        TypeError
            If the message is not a string.
        ValueError
            If the message is empty or not valid Unicode, or if the panel is closed or a
            recording.
        ExecutionLimit, ServerError
            If the platform failed the turn; ``error.turn`` holds it.
        DeadlineExceeded
            If no reply came in time. The agent may still finish; a late reply appears
            in the panel.
        ApiError, ConnectionFailed, OutcomeUnknown
            If the message was refused or could not be sent. The panel shows the error
            too, and can be used again.

        Notes
        -----
        Interrupting the cell stops the waiting at once, like Stop. Specification:
        "Events", rules 3 to 5.
        """
        return finished(loop.run(self._ask(with_attachments(text, attach)), timeout_s, operation="panel.ask"))

    async def aask(self, text: str, timeout_s: float | None = None, *, attach: Attached = ()) -> Turn:
        """As `ask`, awaited, on any event loop: ``turn = await panel.aask("...")``."""
        message = with_attachments(text, attach)
        return finished(await loop.run_async(self._ask(message), timeout_s, operation="panel.aask"))

    async def _ask(self, text: str) -> Turn:
        exchange = self.conversation.submit(text)
        try:
            # Shielded, because others may be waiting for the turn's own future.
            return await asyncio.shield(asyncio.wrap_future(exchange.finished))
        except asyncio.CancelledError:
            self.conversation.stop(exchange)
            raise
        finally:
            self._throttle.flush()  # a notebook that is executed and saved may end with this cell

    attach = method_of("_attachments", Attachments.attach)

    def stop(self) -> None:
        """Stop listening. The agent may still finish; a late reply appears here."""
        self._hand_over(self.conversation.stop)

    def resume(self) -> None:
        """Listen again for replies that were stopped or lost; late ones are fetched."""
        loop.submit(self.conversation.resume())

    def withdraw(self) -> str:
        """Take back the message that waits for the previous turn to end.

        After Stop, the platform may still be working on the turn, and it answers the
        next message only afterwards. The panel holds that message until the turn ends,
        for a minute at most. Once sent, it cannot be taken back.

        Returns
        -------
        str
            The text of the message; empty if none is held.

        Notes
        -----
        Raises nothing.
        """
        return loop.run(self._withdraw(), READ_TIMEOUT_S, operation="panel.withdraw")

    async def _withdraw(self) -> str:
        held = [exchange for exchange in self.conversation.pending if self.conversation.withdraw(exchange)]
        self._throttle.flush()
        return held[-1].prompt if held else ""

    def new_session(self) -> None:
        """Leave the session, so that the next message starts a new one.

        `open_session` returns to it.

        Raises
        ------
        ValueError
            If the panel was created without a workspace or an agent.
        """
        loop.run(self.conversation.new_session(), READ_TIMEOUT_S, operation="panel.new_session")

    def open_session(self, session: Any, *, keep: bool = False) -> None:
        """Show another session in the panel, and continue it if this key started it.

        Parameters
        ----------
        session : str or Record
            An id, such as one of `sessions`.
        keep : bool
            Whether a saved notebook keeps the session. If False, it does once something
            was asked in it here.

        Notes
        -----
        Errors of the platform are shown in the panel, not raised. Messages go to the
        agent of the session; after `new_session`, to the panel's own again.
        Specification: "Authentication", rule 9.
        """
        loop.run(self._open_session(session, keep), READ_TIMEOUT_S, operation="panel.open_session")

    async def _open_session(self, session: Any, keep: bool) -> None:
        try:
            await self.conversation.attach(session, keep=keep)
        finally:
            self._throttle.flush()

    def forget(self, session: Any) -> None:
        """Drop a session from the saved copy of the panel.

        The panel goes on showing it, and it stays on the platform.

        Parameters
        ----------
        session : str or Record
            One of `sessions`. `open_session` with ``keep=True`` keeps it again.

        Raises
        ------
        ValueError
            If the panel has not shown this session.
        """
        loop.run(self._forget(session), READ_TIMEOUT_S, operation="panel.forget")

    async def _forget(self, session: Any) -> None:
        self.conversation.forget(session)
        self._static.update(at_once=True)

    @property
    def sessions(self) -> list[str]:
        """Ids of the sessions this panel has shown, oldest first."""
        return list(self.conversation.sessions)

    @property
    def session_id(self) -> str | None:
        """The session's id; None until there is one."""
        return self.conversation.session_id

    @property
    def transcript(self) -> pd.DataFrame:
        """The conversation so far as a DataFrame; reads the missing part of it first.

        The columns are role, author, text, event_id, session_id, asked_at,
        time_to_first_event_s, time_to_reply_s, subtasks, status, request_id and
        finish_reason. See `Conversation.to_pandas`.
        """
        return self.conversation.to_pandas()

    find_sessions = method_of("conversation", Conversation.find_sessions)
    export = method_of("conversation", Conversation.export)

    def close(self) -> None:
        """Stop listening and remove the panel from the page.

        The session continues on the platform, and another panel can open it.
        """
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._throttle.end()
        self._views.switch.check.end()
        loop.wind_up(self.conversation.aclose(), READ_TIMEOUT_S)
        for child in self.children:
            close_all(child)
        super().close()

    # Clicks: they arrive on any thread, and the rest runs on the loop's thread

    def _hand_over(self, work: Callable[..., None], *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _toggle_pictures(self) -> None:
        self._views.switch_pictures()
        self._changed.update(self.conversation.exchanges)
        self._throttle.note()

    def _send_from_box(self, text: str, answer: Callable[[bool], None]) -> None:
        if self._switch.waits(lambda: self._send_from_box(text, answer)):
            return
        # A second click may arrive before the first has disabled the button.
        accepted = bool(text.strip()) and not (self.conversation.pending or self.conversation.read_only or self._ended)
        if accepted:
            self.conversation.submit(replace_surrogates(text))
            self._views.write("")
        answer(accepted)

    def _add_to_box(self, text: str) -> None:
        self._views.write(text, add=True)
        self._throttle.note()

    async def _retry(self, exchange: ExchangeLike) -> None:
        if not isinstance(exchange, Exchange):
            return
        if self.conversation.withdraw(exchange):
            self._views.write(exchange.prompt)
            self._throttle.note()
        elif exchange.status in ("failed", "stopped") and not self.conversation.pending:
            await self.conversation.retry(exchange)

    # Drawing: on the loop's thread

    def _note(self, exchange: Exchange | None) -> None:
        if exchange is not None:
            self._changed.add(exchange)
        self._throttle.note_exchange(exchange)

    def _draw(self) -> None:
        """Draw what has changed since the last time."""
        changed, self._changed = self._changed, set()
        self._views.draw(changed)
        if self._views.page.log.missing:
            loop.get_loop().call_soon(self._throttle.flush)  # events come in between

    def _save(self) -> None:
        if not self._views.page.log.missing:
            self._static.update()

    async def _draw_history(self) -> None:
        for _ in range(2):  # the last turns, then those before them
            self._throttle.flush()

    def _show(self, *children: Any) -> None:
        self.set_trait("children", children)

    # Display

    def _ipython_display_(self, **_: Any) -> None:
        show_live(self)
        self._views.switch.check.begin()
        # A notebook that is executed and saved may end with this cell.
        self.conversation.load(READ_TIMEOUT_S)
        if self.conversation.session_id is None:
            loop.submit(self.conversation.read_welcome())
        # Two threads both rendering a long history would keep the reader waiting.
        with contextlib.suppress(DeadlineExceeded, RuntimeError):
            loop.run(self._draw_history(), READ_TIMEOUT_S, operation="panel.display")
        self._static.show()

    @safe_repr
    def __repr__(self) -> str:
        return f"ChatPanel(agent={self._initial_name!r})" if self._initial_name else "ChatPanel()"
