"""The chat panel: a conversation drawn with ipywidgets, live while the kernel works.

The toolkit's one daemon thread owns the network and, after construction, all widget
updates. Depending on the version of ipykernel, clicks arrive on the kernel's main
thread or on a subshell's, so their handlers only hand work over to that thread. Changes
are noted and drawn together, at most 20 times a second and less often when drawing is
slow, because Jupyter Server permanently drops messages above a certain rate.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from ..events import loop
from ..events.ask import finished
from ..events.turns import Turn
from .html.protocols import ExchangeLike
from .html.static_transcript import StaticTranscript, panel_html, show_bundle
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.subscription import Follow
from .text import replace_surrogates
from .widgets.history import History
from .widgets.layout import PanelLayout
from .widgets.parts import close_all, show_pictures_switch
from .widgets.throttle import Throttle

if TYPE_CHECKING:
    import pandas as pd

    from ..client import AsyncClient, Client

# An open code block or table is sent again with each drawing until it ends: the longer
# it is, the less often the panel is drawn.
OPEN_CHARACTERS_PER_S = 160_000
READ_TIMEOUT_S = 15.0
LEAVE_TIMEOUT_S = 15.0


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
    height : str
        CSS height of the log.
    images : bool
        Whether to fetch pictures in replies from wherever the agent says. By default
        each is a link, because an address can tell its server what was said here, and
        nothing is fetched until someone presses Load pictures.
    follow : callable, optional
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.

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
    >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
    >>> turn = panel.ask("What is a turn?")  # end the cell with `panel` to watch
    >>> turn.status
    'answered'
    >>> panel.transcript["role"].to_list()
    ['user', 'agent']
    >>> panel.open_session(session)
    >>> panel.close()
    """

    def __init__(
        self,
        client: Client | AsyncClient | None,
        workspace: Any = None,
        agent: Any = None,
        session: Any = None,
        *,
        height: str = "420px",
        images: bool = False,
        follow: Follow | None = None,
    ) -> None:
        if session is None and (workspace is None or agent is None):
            raise ValueError("ChatPanel needs workspace= and agent= to start a session, or session= to continue one.")
        self.conversation = Conversation(client, workspace=workspace, agent=agent, session=session, follow=follow)
        # The name as passed in: one learned from the session arrives at any time, and a
        # notebook's outputs are compared.
        self._given_name = self.conversation.agent_name
        uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._static = StaticTranscript(uid, panel_html)
        self._panel_layout = PanelLayout(
            uid,
            height,
            on_send=lambda text: self._hand_over(self._send_from_box, text),
            on_stop=self.stop,
            on_reconnect=self.resume,
            on_new=lambda: self._hand_over(self._start_switch, self._begin_session),
            on_session=lambda session_id: self._hand_over(self._start_switch, self._choose_session, session_id),
            on_pictures=lambda: self._hand_over(self._toggle_pictures),
        )
        parts, inner = self._panel_layout.parts, self._panel_layout.inner
        self._history = History(parts, inner, lambda exchange: loop.submit(self._retry(exchange)), images=images)
        self._changed: set[ExchangeLike] = set()
        self._throttle = Throttle(self._draw, self._pause_s)
        self._switching: asyncio.Task[None] | None = None  # to another session
        self._ended = False
        super().__init__(self._panel_layout.children, layout=widgets.Layout(width="100%", max_width="980px"))
        self.add_class("ab-chat")
        self.conversation.listen(self._note)
        self._panel_layout.draw(self.conversation)
        if session is not None:
            loop.submit(self.conversation.attach())

    # Asking from code

    def ask(self, text: str, timeout_s: float | None = None) -> Turn:
        """Send a message and wait for the reply, which streams into the panel.

        Parameters
        ----------
        text : str
        timeout_s : float, optional
            Seconds to wait; None waits without limit.

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
        return finished(loop.run(self._ask(text), timeout_s, operation="panel.ask"))

    async def aask(self, text: str, timeout_s: float | None = None) -> Turn:
        """As `ask`, awaited, on any event loop: ``turn = await panel.aask("...")``."""
        return finished(await loop.run_async(self._ask(text), timeout_s, operation="panel.aask"))

    async def _ask(self, text: str) -> Turn:
        exchange = self.conversation.submit(text)
        try:
            # Shielded, because others may wait for the turn's own future.
            return await asyncio.shield(asyncio.wrap_future(exchange.finished))
        except asyncio.CancelledError:
            self.conversation.stop(exchange)
            raise
        finally:
            self._throttle.flush()

    def stop(self) -> None:
        """Stop listening for pending replies.

        The agent may still finish; late replies appear in the panel.
        """
        self._hand_over(self.conversation.stop)

    def resume(self) -> None:
        """Listen again for replies that were stopped or lost; late ones are fetched."""
        loop.submit(self.conversation.resume())

    def new_session(self) -> None:
        """Leave the session, so that the next message starts a new one.

        `open_session` returns to it.

        Raises
        ------
        ValueError
            If the panel was created without a workspace or an agent.
        """
        loop.run(self.conversation.new_session(), LEAVE_TIMEOUT_S, operation="panel.new_session")

    def open_session(self, session: Any) -> None:
        """Show another session of this key in the panel and continue it.

        Parameters
        ----------
        session : str or Record
            An id, such as one of `sessions`.

        Notes
        -----
        Errors of the platform are shown in the panel, not raised.
        """
        loop.run(self._open_session(session), READ_TIMEOUT_S, operation="panel.open_session")

    async def _open_session(self, session: Any) -> None:
        try:
            await self.conversation.attach(session)
        finally:
            self._throttle.flush()

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
        """The conversation so far as a DataFrame; reads what is missing of it first.

        The columns are role, text, event_id, session_id, asked_at,
        time_to_first_event_s, time_to_reply_s, subtasks, status and request_id. See
        `Conversation.to_pandas`.
        """
        return self.conversation.to_pandas()

    def close(self) -> None:
        """Stop listening and remove the panel from the page.

        The session continues on the platform, and another panel can open it.
        """
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._throttle.end()
        loop.wind_up(self.conversation.aclose(), READ_TIMEOUT_S)
        for child in self.children:
            close_all(child)
        super().close()

    # Clicks: they arrive on any thread, and the rest runs on the loop's thread

    def _hand_over(self, work: Callable[..., None], *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _toggle_pictures(self) -> None:
        self._history.load_pictures(not self._history.images)
        self._changed.update(self.conversation.exchanges)
        self._throttle.note()

    def _start_switch(self, switch: Callable[..., Coroutine[Any, Any, None]], *session_id: str) -> None:
        self._switching = asyncio.get_running_loop().create_task(switch(*session_id))

    async def _begin_session(self) -> None:
        if self.conversation.can_start:
            await self.conversation.new_session()

    async def _choose_session(self, session_id: str) -> None:
        if not session_id:
            await self._begin_session()
        elif not self._ended:
            await self.conversation.attach(session_id)

    def _send_from_box(self, text: str) -> None:
        if self._switching is not None and not self._switching.done():
            # Leaving a session takes until its socket is closed. A message sent in the
            # meantime belongs to the next session.
            self._switching.add_done_callback(lambda _: self._send_from_box(text))
            return
        # A second click may arrive before the first has disabled the button.
        if not text.strip() or self.conversation.pending or self.conversation.read_only or self._ended:
            return
        self.conversation.submit(replace_surrogates(text))
        self._panel_layout.composer.clear()

    async def _retry(self, exchange: Exchange) -> None:
        if exchange.status in ("failed", "stopped") and not self.conversation.pending:
            await self.conversation.retry(exchange)

    # Drawing: on the loop's thread

    def _note(self, exchange: Exchange | None) -> None:
        if exchange is not None:
            self._changed.add(exchange)
        self._throttle.note()

    def _pause_s(self) -> float:
        return self._history.open_characters(self.conversation.pending) / OPEN_CHARACTERS_PER_S

    def _draw(self) -> None:
        """Draw what has changed since the last time."""
        conversation, history = self.conversation, self._history
        changed, self._changed = self._changed, set()
        history.draw(conversation.exchanges, changed, conversation.agent_name, not conversation.read_only)
        self._panel_layout.draw(conversation)
        show_pictures_switch(self._panel_layout.pictures, visible=history.pictures, loaded=history.images)
        if not conversation.pending:
            self._static.update(*self._static_content())

    # Display

    def _ipython_display_(self, **_: Any) -> None:
        bundle = self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)}
        show_bundle(bundle)
        # A notebook that is executed and saved may end with this cell.
        self.conversation.load(READ_TIMEOUT_S)
        self._static.show(*self._static_content())

    def _static_content(self) -> tuple[Sequence[Exchange], str, dict[str, list[Exchange]], str]:
        """The arguments of `panel_html` before the uid."""
        conversation = self.conversation
        if conversation.recording is not None:
            return conversation.recording.exchanges, conversation.recording.agent_name, {}, ""
        others = {
            session_id: list(exchanges)
            for session_id, exchanges in conversation.sessions.items()
            if exchanges and session_id != conversation.session_id
        }
        return list(conversation.exchanges), conversation.agent_name, others, conversation.incomplete

    def __repr__(self) -> str:
        return f"ChatPanel(agent={self._given_name!r})" if self._given_name else "ChatPanel()"
