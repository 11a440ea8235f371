"""The chat panel: a conversation drawn with plain ipywidgets, live while the kernel works.

The toolkit's one daemon thread owns the network and every widget write after construction. Clicks may arrive on the kernel's main
thread or a subshell's, by ipykernel version; their handlers only hand work over to that thread. Changes are noted and drawn by
one flush at a time, at most 20 a second and fewer when a flush is dear: Jupyter Server drops messages above a rate, for good.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from ..events import loop
from ..events.ask import finished
from ..events.turns import Turn
from .html.static_transcript import StaticTranscript, panel_html, show_bundle
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.subscription import Follow
from .text import whole
from .widgets.await_on_loop import awaited
from .widgets.history import History
from .widgets.layout import PanelLayout
from .widgets.throttle import Throttle
from .widgets.view import close_all, show_pictures_switch

if TYPE_CHECKING:
    import pandas as pd

    from ..client import AsyncClient, Client

# An open code block or table is sent anew at each flush until it ends: the longer it is, the fewer flushes.
OPEN_CHARACTERS_PER_S = 160_000
READ_HISTORY_S = 15.0
LEAVE_S = 15.0


class ChatPanel(widgets.VBox):  # type: ignore[misc]
    """A chat with an agent, in a notebook cell.

    Parameters
    ----------
    client : Client or AsyncClient
    workspace : str or Record, optional
        Where a new session is started; id or ``<owner>~<name>``.
    agent : str or Record, optional
        With whom; id or name.
    session : str or Record, optional
        A session that exists: its history is shown, and it is continued.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched from wherever the agent says. By default each is a link, and nothing is fetched,
        as an address can tell its server what was said here, until somebody presses Load pictures.
    follow : callable, optional
        Gives a session's events as they happen; `agentbook.events.reader.subscribe` unless told otherwise.

    Raises
    ------
    ValueError
        If there is neither a session nor a workspace and an agent to start one with.

    Notes
    -----
    The platform has no operation to cancel a turn: Stop means that nobody here listens any more. The agent may still
    finish, and its late reply appears in the panel; Listen again waits for it. Nor can it edit a message or take a failed turn
    up again: both are new messages. New session leaves the one there is, which can be chosen again.
    Specification: "Events"; "Authentication", rule 9.

    Examples
    --------
    >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
    >>> turn = panel.ask("What is a turn?")  # a cell that ends with `panel` shows it, and the answer as it comes
    >>> turn.status
    'answered'
    >>> panel.transcript["role"].to_list()
    ['user', 'agent']
    >>> panel.open_session(session)
    >>> panel.close()
    """

    def __init__(
        self,
        client: Client | AsyncClient,
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
        # What is learnt from the session comes when it comes, and a notebook's outputs are compared.
        self._made_with = self.conversation.agent_name
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._twin = StaticTranscript(self._uid, panel_html)
        self._frame = PanelLayout(
            self._uid,
            height,
            self._send_clicked,
            self._stop_clicked,
            self._reconnect_clicked,
            self._new_clicked,
            self._session_chosen,
            self._pictures_clicked,
        )
        self._history = History(self._frame.parts, self._frame.inner, self._retry_clicked, images=images)
        self._changed: set[Exchange] = set()
        self._pace = Throttle(self._draw, self._dear_s)
        self._moving: asyncio.Task[None] | None = None  # to another session
        self._ended = False
        super().__init__(self._frame.children, layout=widgets.Layout(width="100%", max_width="980px"))
        self.add_class("ab-chat")
        self.conversation.listen(self._note)
        self._frame.draw(self.conversation)
        self._attached: concurrent.futures.Future[None] | None = None
        if session is not None:
            self._attached = loop.submit(self.conversation.attach())

    # Asking from code

    def ask(self, text: str, timeout_s: float | None = None) -> Turn:
        """Send a message and wait for the reply, which streams into the panel meanwhile.

        Parameters
        ----------
        text : str
        timeout_s : float, optional
            Seconds to wait; None waits without end.

        Returns
        -------
        Turn
            Answered; or still open, if somebody pressed Stop.

        Raises
        ------
        TypeError, ValueError
            If this is no message: no text, empty or no valid Unicode; or the panel is closed or a recording.
        ExecutionLimit, ServerError
            If the platform failed the turn; ``error.turn`` holds it.
        DeadlineExceeded
            If no reply came in time. The agent may still finish; a late reply appears in the panel.
        ApiError, ConnectionFailed, OutcomeUnknown
            If the message was refused or could not be sent. The panel shows it, too, and can be used again.

        Notes
        -----
        An interrupt of the cell stops the waiting at once, like Stop. Specification: "Events", rules 3 to 5.
        """
        return finished(loop.run(self._ask(text), timeout_s, operation="panel.ask"))

    async def aask(self, text: str, timeout_s: float | None = None) -> Turn:
        """As `ask`, awaited, on any event loop: ``turn = await panel.aask("...")``."""
        return finished(await awaited(self._ask(text), timeout_s, operation="panel.aask"))

    async def _ask(self, text: str) -> Turn:
        exchange = self.conversation.submit(text)
        try:
            # Shielded, because cancelling this must not cancel the turn's own future, which others may wait for.
            return await asyncio.shield(asyncio.wrap_future(exchange.finished))
        except asyncio.CancelledError:
            self.conversation.stop(exchange)
            raise
        finally:
            self._pace.flush()

    def stop(self) -> None:
        """Stop listening for the replies that are under way. The agent may still finish; late replies appear in the panel."""
        self._hand_over(self.conversation.stop)

    def resume(self) -> None:
        """Listen again for the replies that were stopped or lost; a late one is fetched."""
        loop.submit(self.conversation.resume())

    def new_session(self) -> None:
        """Leave the session, so that the next message starts a new one; `open_session` goes back.

        Raises
        ------
        ValueError
            If the panel was made without a workspace and an agent.
        """
        loop.run(self.conversation.renew(), LEAVE_S, operation="panel.new_session")

    def open_session(self, session: Any) -> None:
        """Show another session of this key in the panel, and go on with it.

        Parameters
        ----------
        session : str or Record
            An id, such as one of `sessions`.

        Notes
        -----
        What the platform refuses is shown in the panel, not raised.
        """
        loop.run(self.conversation.attach(session), READ_HISTORY_S, operation="panel.open_session")

    @property
    def sessions(self) -> list[str]:
        """Ids of the sessions this panel has shown, first to last."""
        return list(self.conversation.sessions)

    @property
    def session_id(self) -> str | None:
        """The session's id; None until there is one."""
        return self.conversation.session_id

    @property
    def transcript(self) -> pd.DataFrame:
        """Everything said so far as a DataFrame, after waiting for the history to be read.

        The columns are those of `agentbook.chat.model.transcript.to_frame`: role, text, event_id, session_id, asked_at,
        time_to_first_event_s, time_to_reply_s, subtasks, status, request_id.
        """
        if self._attached is not None and not loop.on_loop_thread():
            concurrent.futures.wait([self._attached], READ_HISTORY_S)
        return self.conversation.to_pandas()

    def close(self) -> None:
        """Stop listening and take the panel off the page. The session goes on and can be continued by another panel."""
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._pace.end()
        loop.wind_up(self.conversation.aclose(), READ_HISTORY_S)
        for child in self.children:
            close_all(child)
        super().close()

    # Clicks: on any thread, so they only hand over

    def _hand_over(self, work: Any, *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _send_clicked(self) -> None:
        self._hand_over(self._send_from_box, self._frame.input.value)

    def _stop_clicked(self) -> None:
        self._hand_over(self.conversation.stop)

    def _retry_clicked(self, exchange: Exchange) -> None:
        loop.submit(self._retry(exchange))

    def _reconnect_clicked(self) -> None:
        loop.submit(self.conversation.resume())

    def _new_clicked(self) -> None:
        self._hand_over(self._move, self._begin_anew)

    def _session_chosen(self, session_id: str) -> None:
        self._hand_over(self._move, self._go_to, session_id)

    def _pictures_clicked(self) -> None:
        self._hand_over(self._load_or_hide_pictures)

    def _load_or_hide_pictures(self) -> None:
        self._history.load_pictures(not self._history.images)
        self._changed.update(self.conversation.exchanges)
        self._pace.note()

    def _move(self, to: Callable[..., Coroutine[Any, Any, None]], *where: str) -> None:
        self._moving = asyncio.get_running_loop().create_task(to(*where))

    async def _begin_anew(self) -> None:
        if self.conversation.can_start:
            await self.conversation.renew()

    async def _go_to(self, session_id: str) -> None:
        if not session_id:
            await self._begin_anew()
        elif not self._ended:
            await self.conversation.attach(session_id)

    def _send_from_box(self, text: str) -> None:
        if self._moving is not None and not self._moving.done():
            # Leaving a session takes as long as its socket takes to close: what is said meanwhile is meant for the next one.
            self._moving.add_done_callback(lambda _: self._send_from_box(text))
            return
        # A second click may be on its way before the first has disabled the button.
        if not text.strip() or self.conversation.pending or self.conversation.read_only or self._ended:
            return
        self.conversation.submit(whole(text))
        self._frame.input.value = ""

    async def _retry(self, exchange: Exchange) -> None:
        if exchange.status in ("failed", "stopped") and not self.conversation.pending:
            await self.conversation.retry(exchange)

    # Drawing: on the loop's thread

    def _note(self, exchange: Exchange | None) -> None:
        if exchange is not None:
            self._changed.add(exchange)
        self._pace.note()

    def _dear_s(self) -> float:
        return self._history.open_characters(self.conversation.pending) / OPEN_CHARACTERS_PER_S

    def _draw(self) -> None:
        """Draw what has changed since the last time."""
        changed, self._changed = self._changed, set()
        can_retry = not self.conversation.read_only
        self._history.draw(list(self.conversation.exchanges), changed, self._agent_name, can_retry)
        self._frame.draw(self.conversation)
        show_pictures_switch(self._frame.pictures, there=self._history.pictures, loaded=self._history.images)
        if not self.conversation.pending:
            self._twin.update(*self._said())

    @property
    def _agent_name(self) -> str:
        return self.conversation.agent_name

    # Showing

    def _ipython_display_(self, **_: Any) -> None:
        bundle = self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)}
        show_bundle(bundle)
        self._twin.show(*self._said())

    def _said(self) -> tuple[list[Exchange], str, dict[str, list[Exchange]]]:
        """What the static twin shows: this session, with whom, and the sessions the panel was about before."""
        current = self.conversation.session_id
        others = {name: list(said) for name, said in self.conversation.sessions.items() if said and name != current}
        return list(self.conversation.exchanges), self._agent_name, others

    def __repr__(self) -> str:
        return f"ChatPanel(agent={self._made_with!r})" if self._made_with else "ChatPanel()"
