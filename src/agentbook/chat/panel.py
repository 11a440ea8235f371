"""The chat panel: a conversation in a notebook cell, live while the kernel works."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._text import replace_surrogates, safe_repr, shows_call
from ..api.calls import ref
from ..api.errors import DeadlineExceeded
from ..events import loop
from ..events.ask import finished
from ..events.turns import Turn
from ..frames.labels import BOOL, GOOD, NO, YES, file_name, me, writable, write
from .html.attached import parts_of
from .model.alternative import Alternative
from .model.attachments import MAX_ROWS, Attached, attachment, with_attachments
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.feed import Follow
from .model.session_list import MAX_RESULTS, SessionEntry, place_of, session_names
from .model.transcript import Transcript
from .model.user_errors import UserError
from .page_requests import TestSet, add_to_test_set, entries_of, exported, how_asked_again, turn_record
from .widgets.chat_widget import ChatWidget
from .widgets.panel_view import PanelDrawing, PanelView, panel_html

if TYPE_CHECKING:
    import pandas as pd

    from ..client import AsyncClient, Client
    from ..frames.store.store import Store

READ_TIMEOUT_S = 15.0


class ChatPanel(ChatWidget):
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
    labels : path or Store, optional
        A folder of labels. If given, replies that arrive in the panel can be labelled
        👍 or 👎, as answers to the question ``good``; see `agentbook.read_labels`.
    prices : dict, DataFrame or path, optional
        As for `agentbook.with_cost`: a reply then shows what it cost, where the
        platform sends tokens. Default: the file that ``AGENTBOOK_PRICES`` names.
    store : Store, optional
        “Sessions” searches the texts of its sessions too. Needs DuckDB.

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
        labels: Any = None,
        prices: Any = None,
        store: Store | None = None,
    ) -> None:
        if session is None and (workspace is None or agent is None):
            raise ValueError("ChatPanel needs workspace= and agent= to start a session, or session= to continue one.")
        self.conversation = Conversation(
            client, workspace=workspace, agent=agent, session=session, follow=follow, prices=prices
        )
        self.conversation._store = store
        if session is None and client is not None:
            self.conversation._place = place_of(getattr(client, "base_url", ""), ref(workspace), ref(agent))
        # As passed in: a name learned from the session may arrive at any time, and the
        # outputs of notebooks are compared.
        self._initial_name = self.conversation.agent_name
        self._page = PanelDrawing(self.conversation, images=images, collects=lab is not None, rates=labels is not None)
        self._lab = lab
        self._labels = None if labels is None else writable(labels)
        self._saved: int | None = None  # characters of the reply being written, when it was last saved
        self._greeting = asyncio.Lock()
        super().__init__(PanelView, self._page, panel_html, height, max_width="980px")
        self.conversation.listen(self._note)
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
        asking = self._in_this_cell(self._ask, with_attachments(text, attach))
        return finished(loop.run(asking, timeout_s, operation="panel.ask"))

    async def aask(self, text: str, timeout_s: float | None = None, *, attach: Attached = ()) -> Turn:
        """As `ask`, awaited, on any event loop: ``turn = await panel.aask("...")``.

        Other cells and tasks go on meanwhile, so several panels can ask at the same
        time: ``await asyncio.gather(one.aask("Hi"), other.aask("Hi"))``.
        """
        asking = self._in_this_cell(self._ask, with_attachments(text, attach))
        return finished(await loop.run_async(asking, timeout_s, operation="panel.aask"))

    async def _ask(self, text: str) -> Turn:
        exchange = self.conversation.submit(text)
        try:
            # Shielded, because others may be waiting for the turn's own future.
            return await asyncio.shield(asyncio.wrap_future(exchange.finished))
        except asyncio.CancelledError:
            self.conversation.stop(exchange)
            raise

    def ask_again(self, turn: Turn | int = -1, timeout_s: float | None = None) -> Turn:
        """Ask an answered turn again, for a second reply beside the first.

        The platform cannot copy a session. So the questions before the turn are sent
        again in a new one, one after another, and then its own. The agent answers each
        anew, and its tools run again.

        Parameters
        ----------
        turn : Turn or int
            One of ``panel.conversation.turns``, or its position there, from 0.
        timeout_s : float, optional
            Seconds to wait; None waits without limit.

        Returns
        -------
        Turn
            The last turn of the new session, which is one of `sessions`: answered; or
            still open, if someone pressed Stop.

        Raises
        ------
        ValueError
            If there is no such turn, or it has not been answered; if turns before it
            could not be read; or if the panel has no workspace or agent.
        ExecutionLimit, ServerError
            If the platform failed the turn, or one before it; ``error.turn`` holds it.
        DeadlineExceeded
            If no reply came in time.
        ApiError, ConnectionFailed, OutcomeUnknown
            If a message was refused or could not be sent.

        Examples
        --------
        >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
        >>> first = panel.ask("What is a turn?")
        >>> second = panel.ask_again(first)
        >>> second.prompt, second.session_id == first.session_id, len(panel.sessions)
        ('What is a turn?', False, 2)
        >>> panel.close()
        """
        self.conversation.load()
        turns = self.conversation.turns
        try:
            position = turns.index(turn) if isinstance(turn, Turn) else range(len(turns))[turn]
        except (ValueError, IndexError):
            raise ValueError(f"There is no such turn in the session that is shown, which has {len(turns)}.") from None
        asking = self._in_this_cell(self._ask_again, self.conversation.exchanges[position])
        return finished(loop.run(asking, timeout_s, operation="panel.ask_again"))

    async def _ask_again(self, exchange: Exchange) -> Turn:
        alternative = Alternative(self.conversation, exchange)
        self._page.log.alternatives.setdefault(exchange, []).append(alternative)
        alternative.conversation.listen(self._note)
        try:
            await alternative.run()
            assert alternative.exchange is not None
            return await asyncio.wrap_future(alternative.exchange.finished)
        except asyncio.CancelledError:
            alternative.conversation.stop()
            raise

    def _again(self, exchange: Exchange, confirm: bool) -> dict[str, Any]:
        """What a page shows before a turn is asked again; `confirm` begins it."""
        look = how_asked_again(self.conversation, exchange)
        if not confirm or "error" in look:
            return {"collected": look}
        self._report(self._ask_again(exchange))
        return {"collected": None}

    def attach(
        self, value: Any, name: str = "", *, rows: int = MAX_ROWS, format: str = "csv", mask: bool = True
    ) -> str:
        """Attach a table, a file or another object to the message in the box, as text.

        It becomes part of the message. Until then, the box shows its name and size;
        there it can be opened and removed.

        Parameters
        ----------
        value : DataFrame, Series, Listing, Path, str, or any other object
            A table; the path of a text file; a text; or the output of a cell that
            ``%%capture`` stored. Other objects are attached as they print.
        name : str
            The name that the agent reads. Defaults to that of the file or of the type.
        rows : int
            How many rows of a table, from the first.
        format : str
            ``"csv"`` or ``"markdown"``, for tables.
        mask : bool
            Mask what looks like a secret or an e-mail address, and columns whose names
            suggest one. The text says what was masked.

        Returns
        -------
        str
            The text that is sent. Anything longer than 20,000 characters is cut, with
            a note that says so.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not a text file, or `rows` or `format` is out of range.
        """
        text = attachment(value, name, rows=rows, format=format, mask=mask)
        self._hand_over(self._attach, text)
        return text

    def stop(self) -> None:
        """Stop listening. The agent may still finish; a late reply appears here."""
        for conversation in (self.conversation, *(each.conversation for each in self._page.alternatives)):
            self._hand_over(conversation.stop)

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
        return loop.run(self._in_this_cell(self._withdraw), READ_TIMEOUT_S, operation="panel.withdraw")

    async def _withdraw(self) -> str:
        held = [exchange for exchange in self.conversation.pending if self.conversation.withdraw(exchange)]
        return held[-1].prompt if held else ""

    def new_session(self) -> None:
        """Leave the session, so that the next message starts a new one.

        `open_session` returns to it.

        Raises
        ------
        ValueError
            If the panel was created without a workspace or an agent.
        """
        leaving = self._in_this_cell(self.conversation.new_session)
        loop.run(leaving, READ_TIMEOUT_S, operation="panel.new_session")

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
        opening = self._in_this_cell(self.conversation.attach, session, keep=keep)
        loop.run(opening, READ_TIMEOUT_S, operation="panel.open_session")

    def rename(self, session: Any, name: str) -> None:
        """Name a session in the lists of sessions on this computer.

        The platform cannot rename a session, and does not get the name.

        Parameters
        ----------
        session : str or Record
            An id, such as one of `sessions`.
        name : str
            One line; text beyond 120 characters is cut. An empty name takes it back, so
            that the list shows the first words again.

        Raises
        ------
        TypeError
            If the name is not a string.
        ValueError
            If the name is not valid Unicode.
        OSError
            If it cannot be written to the directory for application data.

        Notes
        -----
        The last 2,000 names are kept, in ``sessions.json``.

        Examples
        --------
        >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
        >>> panel.rename(session, "Turns, explained")
        >>> [entry.name for entry in panel.find_sessions("explained")]
        ['Turns, explained']
        >>> panel.rename(session, "")
        >>> panel.find_sessions("explained")
        []
        >>> panel.close()
        """
        loop.run(self.conversation.rename(session, name), READ_TIMEOUT_S, operation="panel.rename")

    def forget(self, session: Any) -> None:
        """Drop a session from the saved copy of the panel, and the name it has here.

        The panel goes on showing it, and it stays on the platform.

        Parameters
        ----------
        session : str or Record
            One of `sessions`, or one that `rename` named. `open_session` with
            ``keep=True`` keeps it again.

        Raises
        ------
        ValueError
            If the panel has not shown this session, and it has no name here.
        """
        loop.run(self._in_this_cell(self._forget, session), READ_TIMEOUT_S, operation="panel.forget")

    async def _forget(self, session: Any) -> None:
        is_named = ref(session) in await asyncio.to_thread(session_names)
        if not is_named or ref(session) in self.sessions:
            self.conversation.forget(session)
        if is_named:
            await self.conversation.rename(session, "")
        self._save(at_once=True)

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
        time_to_first_event_s, time_to_reply_s, subtasks, status, reason, request_id,
        finish_reason, model, input_tokens, output_tokens, tokens, cached_tokens,
        cache_write_tokens, reported_cost, cost and agent_version. See
        `Conversation.to_pandas`.
        """
        return self.conversation.to_pandas()

    def find_sessions(self, search: str = "", *, limit: int = MAX_RESULTS) -> list[SessionEntry]:
        """As `Conversation.find_sessions`."""
        return self.conversation.find_sessions(search, limit=limit)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """As `Conversation.export`."""
        return self.conversation.export(path)

    def close(self) -> None:
        """Stop listening and remove the panel from the page.

        The session continues on the platform, and another panel can open it.
        """
        super().close()

    async def _aclose(self) -> None:
        for conversation in (self.conversation, *(each.conversation for each in self._page.alternatives)):
            await conversation.aclose()

    # What a page says

    def _act(self, message: dict[str, Any]) -> None:
        conversation = self.conversation
        match message:
            case {"do": "collect", "turn": str(turn), "confirm": bool(confirm), "number": str(number)}:
                exchange, lab = self._page.exchange(turn), self._lab
                if exchange is not None and lab is not None:
                    record = turn_record(conversation, exchange)
                    self._answer_later(
                        "collected", number, lambda: {"collected": add_to_test_set(lab, record, confirm=confirm)}
                    )
            case {"do": "session", "session": str(session_id), "turn": str(message_id), "number": str(number)} if (
                not self._ended
            ):
                self._switch(self._open_at(session_id, message_id, number))
            case {"do": "again", "turn": str(turn), "confirm": bool(confirm), "number": str(number)}:
                asked = self._page.exchange(turn)
                if asked is not None and not self._ended:
                    self._answer_later("collected", number, lambda: self._again(asked, confirm))
            case {"do": "ask_new", "turn": str(turn)} if conversation._can_start:
                exchange = self._page.exchange(turn)
                if exchange is not None and conversation.withdraw(exchange):
                    self._switch(conversation.start(exchange.prompt))
            case {"do": "good" | "bad" as thumb, "turn": str(turn)} if self._labels is not None:
                exchange = self._page.exchange(turn)
                if exchange is not None and exchange.status == "answered":
                    self._report(self._rate(exchange, thumb == "good", self._labels))
            case {"do": "reconnect"}:
                self.resume()
            case _:
                super()._act(message)

    def _find(self, search: str, others: bool) -> dict[str, Any]:
        entries = self.conversation.find_sessions(search, others=others)
        kept = {each.session_id for each in self.conversation._kept}
        return {"entries": entries_of(entries, kept), "more": len(entries) >= MAX_RESULTS, "others": others}

    def _rename(self, session_id: str, name: str | None) -> None:
        if name is None:
            self.forget(session_id)
        else:
            self.rename(session_id, replace_surrogates(name))

    async def _open_at(self, session_id: str, message_id: str, number: str) -> None:
        """Open a session, and tell the page which turn to show."""
        await self.conversation.attach(session_id)
        self._throttle.flush()
        while self._page.log.missing:  # what is drawn later would move the turn
            await asyncio.sleep(0)
            self._throttle.flush()
        exchanges = (each for each in self.conversation.exchanges if each.turn.message_id == message_id)
        self._answer("opened", number, turn=self._page.log.id_of(next(exchanges, None)))

    def _exported(self, suffix: str) -> dict[str, str]:
        return exported(self.conversation, suffix)

    async def _open(self, session_id: str, keep: bool) -> None:
        await self.conversation.attach(session_id, keep=keep)

    async def _start_over(self) -> None:
        if self.conversation._can_start:
            await self.conversation.new_session()

    @property
    def _conversations(self) -> Sequence[Conversation]:
        others = self._page.alternatives
        late = [each.conversation for each in others if each.exchange is not None and each.exchange.awaits_reply]
        return [self.conversation, *late]

    def _submit(self, message: str) -> bool:
        if self._page.pending or self.conversation.read_only:
            return False
        self.conversation.submit(message)
        self._page.write("")
        return True

    def _report(self, work: Coroutine[Any, Any, Any]) -> None:
        self._page.problem = None
        super()._report(work)

    def _fail(self, error: UserError) -> None:
        self._page.problem = error
        self._throttle.request_draw()

    async def _rate(self, exchange: Exchange, thumb: bool, folder: Path) -> None:
        """Keep a thumb as a label; the same one again takes it back."""
        given, rater = None if exchange.thumb is thumb else thumb, me()
        row = {
            "session_id": exchange.turn.session_id, "message_id": exchange.turn.message_id, "question": GOOD,
            "value": None if given is None else YES if given else NO, "kind": BOOL, "rater": rater,
            "source": "person", "at": None,
        }  # fmt: skip
        try:
            await asyncio.to_thread(write, folder / file_name(rater), [row])
        except (OSError, ValueError) as error:
            raise ValueError(f"The label was not stored: {error}. Choose another folder with labels=.") from error
        exchange.thumb = given
        self._note(exchange)

    async def _retry(self, exchange: Exchange) -> None:
        alternative = next((each for each in self._page.alternatives if each.exchange is exchange), None)
        if alternative is not None:
            await alternative.run()
        elif self.conversation.withdraw(exchange):
            for part in parts_of(exchange.prompt):
                if part.name:
                    self._attach(part.source)
            words = [part.source for part in parts_of(exchange.prompt) if not part.name]
            self._page.write("\n".join(words).strip("\n"))
            self._throttle.request_draw()
        elif exchange.status in ("failed", "stopped") and (exchange.awaits_reply or not self.conversation.pending):
            await self.conversation.retry(exchange)

    # Drawing: on the toolkit's thread

    def _note(self, exchange: Exchange | None) -> None:
        if exchange is not None:
            self._page.changed.add(exchange)
        super()._note(exchange)

    def _draw(self) -> None:
        super()._draw()
        if self._page.log.missing:
            loop.get_loop().call_soon_threadsafe(self._throttle.flush)  # events come in between

    async def _draw_history(self) -> None:
        for _ in range(2):  # the last turns, then those before them
            self._throttle.flush()

    # The saved notebook

    def _save(self, *, at_once: bool = False) -> None:
        """Update the static transcript, unless a reply has hardly grown since then."""
        if self._page.log.missing and not at_once:
            return
        pending = self._page.pending
        length = sum(len(exchange.text) for exchange in pending) if pending else None
        # Each update sends all of it. A kernel that dies leaves a third of the reply.
        last = self._saved
        if at_once or length is None or last is None or length >= max(1_000, 3 * last, self._static.size / 100):
            self._static.update(*self._content())
            self._saved = length

    def _content(self) -> tuple[Sequence[Exchange], str, list[Transcript], str]:
        """The arguments of `panel_html` before the uid."""
        conversation = self.conversation
        kept = conversation._kept
        empty = Transcript([], agent_name=conversation._own_agent_name)
        shown_id = (conversation._recording or conversation).session_id
        current = next((each for each in kept if each.session_id == shown_id), empty)
        others = [each for each in kept if each.exchanges and each is not current]
        return current.exchanges, current.agent_name, others, current.incomplete

    # Display

    def _begin(self) -> None:
        # A notebook that is executed and saved may end with this cell.
        self.conversation.load(READ_TIMEOUT_S)
        loop.submit(self._greet())
        # Two threads both rendering a long history would keep the reader waiting.
        with contextlib.suppress(DeadlineExceeded, RuntimeError):
            loop.run(self._draw_history(), READ_TIMEOUT_S, operation="panel.display")
        self._static.show(*self._content())

    def _page_opened(self) -> None:
        loop.submit(self._greet())

    async def _greet(self) -> None:
        """Show who the agent is, or why no session can start."""
        async with self._greeting:  # once, whether the panel or the page comes first
            if self.conversation.session_id is None:
                await self.conversation._read_welcome()

    @safe_repr
    def __repr__(self) -> str:
        return f"ChatPanel(agent={self._initial_name!r})" if self._initial_name else "ChatPanel()"
