"""What a panel and a comparison have in common: a page, its state and its messages.

The toolkit's only daemon thread owns the network and, after construction, all updates
of the page. Depending on the version of ipykernel, a person's actions arrive on the
kernel's main thread or on a subshell's, so they are handed over to the toolkit's
thread. Changes are noted and drawn together, at most 20 times a second and less often
when drawing is slow, because Jupyter Server permanently drops messages above a certain
rate.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

import ipywidgets as widgets

from ..._text import in_kernel, ipython_shell, replace_surrogates
from ...events import loop
from ..html.attached import attached_html
from ..html.sanitize import visible
from ..html.static_transcript import StaticTranscript, show_live
from ..html.style import hide_static, live_class
from ..model import mentions
from ..model.attachments import attachment, text_attachment
from ..model.conversation import Conversation
from ..model.exchange import Exchange
from ..model.session_list import place_of
from ..model.user_errors import UserError, explain
from .page_view import PageState, PageView, PageViewBox
from .throttle import Throttle

P = ParamSpec("P")
T = TypeVar("T")

CLOSE_TIMEOUT_S = 15.0
REST_S = 2.0  # until the connections of a chat that left its page rest
UNSEEN_S = 60.0  # of one that no page has shown
# An open code block or table is rendered again with each drawing until it ends: the
# longer it is, the less often it is drawn.
OPEN_CHARACTERS_PER_S = 160_000
log = logging.getLogger("agentbook.chat")
KEYS = ". @ attaches a table, a file or a cell"  # part of the placeholder


class Drawing(Protocol):
    """Draws a conversation or a comparison into the state of a page."""

    @property
    def images(self) -> bool: ...
    @property
    def open_characters(self) -> int: ...
    def draw(self, state: PageState) -> None: ...
    def exchange(self, id: str) -> Exchange | None: ...
    def load_pictures(self, images: bool) -> None: ...


class ChatWidget(PageViewBox):
    """A chat in a notebook cell.

    Parameters
    ----------
    view : type of PageView
    drawing : Drawing
    to_html : callable
        As for `StaticTranscript`.
    height : str
        CSS height of the log.
    layout : str
        As for `PageViewBox`.
    """

    def __init__(
        self, view: type[PageView], drawing: Drawing, to_html: Callable[..., str], height: str, **layout: str
    ) -> None:
        uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._drawing = drawing
        self._static = StaticTranscript(uid, to_html)
        self._state = PageState()
        self._state.set_fields(id=uid, place=_place_of_draft(repr(self)), style=hide_static(uid), height=height)
        self._attached: dict[int, str] = {}  # to the message in the box
        self._taken: dict[str, bool | None] = {}  # messages by number: whether they were accepted, if that is known
        self._pages: set[str] = set()  # that show it
        self._resting: asyncio.TimerHandle | None = None
        self._following = asyncio.Lock()
        self._switching: asyncio.Task[object] | None = None  # to another session
        self._numbers = itertools.count()
        self._throttle = Throttle(self._draw, self._pause_s, self._save)
        self._ended = False
        super().__init__(lambda on_hello: view(self._state.snapshot, self._receive, on_hello), width="100%", **layout)
        self.add_class(live_class(uid))
        self._draw()
        _fill_boxes()

    def _report(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do what a page asked for; an error is shown."""

        async def attempt() -> None:
            try:
                await work
            except Exception as error:
                log.debug("What a page asked for failed.", exc_info=True)
                self._fail(explain(error))

        loop.submit(attempt())

    def _fail(self, error: UserError) -> None:
        """Show an error that belongs to no turn."""

    # Subclasses: on the toolkit's thread

    def _act(self, message: dict[str, Any]) -> None:
        """Do what a page says; anything unknown is ignored."""
        match message:
            case {"do": "send", "text": str(text), "number": str(number)}:
                self._take(text, number)
            case {"do": "attach", "name": str(name), "text": str(text), "size": int(size)}:
                self._attach(text_attachment(text, name or "text", size))
            case {"do": "complete", "word": str(word), "number": str(number)}:
                self._answer_later("entries", number, lambda: mentions.find(word))
            case {"do": "mention", "kind": str(kind), "name": str(name), "number": str(number)}:
                self._answer_later("mentioned", number, lambda: self._mention(kind, name))
            case {"do": "attach", "source": str(source)} if source:
                self._attach(replace_surrogates(source))
            case {"do": "detach", "file": str(number)} if number.isdecimal():
                self._attached.pop(int(number), None)
                self._throttle.request_draw()
            case {"do": "retry", "turn": str(turn)}:
                if (exchange := self._drawing.exchange(turn)) is not None:
                    self._report(self._retry(exchange))
            case {"do": "shown", "page": str(page), "open": bool(is_open)}:
                (self._pages.add if is_open else self._pages.discard)(page)
                self._follow_after(0.0 if is_open else REST_S)
            case {"do": "find", "search": str(search), "number": str(number), **options}:
                self._answer_later("sessions", number, lambda: self._find(search, options.get("others") is True))
            case {"do": "rename", "session": str(session_id), "search": str(search), "number": str(number), **options}:
                self._answer_later("sessions", number, lambda: self._renamed(session_id, search, options))
            case {"do": "export", "suffix": str(suffix), "number": str(number)}:
                self._answer_later("file", number, lambda: self._exported(suffix))
            case {"do": "session", "session": str(session_id), **options} if session_id and not self._ended:
                self._switch(self._open(session_id, options.get("keep") is True))
            case {"do": "new"} if not self._ended:
                self._switch(self._start_over())
            case {"do": "stop"}:
                self.stop()
            case {"do": "pictures"}:
                self._drawing.load_pictures(not self._drawing.images)
                self._throttle.request_draw()

    @property
    def _conversations(self) -> Sequence[Conversation]:
        raise NotImplementedError

    def _renamed(self, session_id: str, search: str, options: dict[str, Any]) -> dict[str, Any]:
        name = options.get("name")
        self._rename(session_id, name if isinstance(name, str) else None)
        return self._find(search, options.get("others") is True)

    def _find(self, search: str, others: bool) -> dict[str, Any]:
        """The sessions that match, as a page lists them; with those of others."""
        raise NotImplementedError

    def _rename(self, session_id: str, name: str | None) -> None:
        """Name one of the sessions that `_find` returned; None forgets it."""
        raise NotImplementedError

    def _exported(self, suffix: str) -> dict[str, str]:
        """What is shown, as a file that the page saves."""
        raise NotImplementedError

    async def _open(self, session_id: str, keep: bool) -> None:
        """Show one of the sessions that `_find` returned."""
        raise NotImplementedError

    async def _start_over(self) -> None:
        """Leave the session, so that the next message starts a new one."""
        raise NotImplementedError

    def _switch(self, switch: Coroutine[Any, Any, object]) -> None:
        """Leave the session for another one."""
        self._switching = asyncio.get_running_loop().create_task(switch)

    def _take(self, text: str, number: str) -> None:
        """Send a message once; a page that heard nothing for a while repeats it."""

        def answer(accepted: bool) -> None:
            self._taken[number] = accepted
            self._answer("answer", number, accepted=accepted)

        if number not in self._taken:
            self._taken[number] = None
            self._send_from_box(text, answer)
        elif (accepted := self._taken[number]) is not None:
            answer(accepted)

    def _send_from_box(self, text: str, answer: Callable[[bool], None]) -> None:
        # Leaving a session takes until its socket is closed, and a message sent
        # meanwhile belongs to the next session.
        if self._switching is not None and not self._switching.done():
            self._switching.add_done_callback(lambda _: self._send_from_box(text, answer))
            return
        # A second click may arrive before the first has disabled the button.
        message = "\n\n".join(filter(str.strip, (replace_surrogates(text), *self._attached.values())))
        accepted = bool(message) and not self._ended and self._submit(message)
        if accepted:
            self._attached.clear()
            self._throttle.request_draw()
        answer(accepted)

    def _submit(self, message: str) -> bool:
        """Send a message, unless nothing can be sent now; returns whether it was."""
        raise NotImplementedError

    def _attach(self, text: str) -> None:
        if text not in self._attached.values():
            self._attached[next(self._numbers)] = text
        self._throttle.request_draw()

    def _mention(self, kind: str, name: str) -> dict[str, Any]:
        """Attach what was chosen from the list of `@`."""
        try:
            text = attachment(mentions.value_of(kind, name), "" if kind == "file" else name)
        except (OSError, ValueError, TypeError) as error:
            return {"error": visible(str(error))}
        self._receive({"do": "attach", "source": text})
        return {}

    async def _retry(self, exchange: Exchange) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def _save(self) -> None:
        """Update the static transcript."""
        raise NotImplementedError

    def _begin(self) -> None:
        """It was displayed in the running cell; called on the cell's thread."""
        raise NotImplementedError

    async def _aclose(self) -> None:
        raise NotImplementedError

    # A chat that no page shows has no connections, and opens them again when one does

    def _note(self, exchange: Exchange | None) -> None:
        """Draw a change of a conversation."""
        if self._resting is None and not self._pages:
            self._follow_after(UNSEEN_S)
        self._throttle.request_draw_of(exchange)

    def _follow_after(self, pause_s: float) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self._resting = loop.get_loop().call_later(pause_s, lambda: loop.submit(self._follow()))

    async def _follow(self) -> None:
        """Follow the sessions if a page shows them; else end that once they replied."""
        self._resting = None
        async with self._following:
            for conversation in () if self._ended else self._conversations:
                rests = conversation.connection == "none" and conversation.error is None
                if self._pages and rests and not conversation._recorded:
                    await conversation.attach()
                elif not self._pages and conversation.pending:
                    self._follow_after(REST_S)
                elif not self._pages:
                    await conversation._disconnect()

    # What a page says arrives on any thread

    def _receive(self, message: dict[str, Any]) -> None:
        self._hand_over(self._act, message)

    def _hand_over(self, work: Callable[..., None], *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _answer_later(self, kind: str, number: str, work: Callable[[], dict[str, Any]]) -> None:
        """Answer with what `work` returns in a worker thread, or its error in words."""

        async def answer() -> None:
            try:
                values = await asyncio.to_thread(work)
            except Exception as error:  # whatever it is: without an answer, the page would wait forever
                log.debug("A page's request failed.", exc_info=True)
                values = {"error": visible(explain(error).text)}
            self._answer(kind, number, **values)

        loop.submit(answer())

    def _answer(self, kind: str, number: str, **values: Any) -> None:
        """Answer a question of the page."""
        self.send({"kind": kind, "number": number, **values})

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        with self._state.lock:
            self._drawing.draw(self._state)
            self._state.set_fields(files=attached_html(self._attached))
            patch = self._state.take_patch()
        if patch is not None:
            self.send(patch)

    def _pause_s(self) -> float:
        """Seconds to wait before the next drawing."""
        return self._drawing.open_characters / OPEN_CHARACTERS_PER_S

    # Display

    async def _in_this_cell(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **options: P.kwargs) -> T:
        """Do what code asks for, and show and save the result before it returns.

        A notebook that is executed and saved may end with the calling cell.
        """
        with self._static.published_here():
            try:
                return await work(*args, **options)
            finally:
                self._throttle.flush()

    def _ipython_display_(self, **_: Any) -> None:
        show_live(self)
        self._begin()

    def close(self) -> None:
        """Stop listening and remove it from the page. The sessions continue."""
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._throttle.end()
        loop.run_before_exit(self._aclose(), CLOSE_TIMEOUT_S)
        super().close()


_drafts: Counter[str | None] = Counter()


def _place_of_draft(what: str) -> str | None:
    """Where a page keeps a draft, so that the chat that a cell makes next has it."""
    notebook = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter Server
    run = place_of(notebook, what, getattr(ipython_shell(), "execution_count", 0))
    _drafts[run] += 1
    return place_of(notebook, what, _drafts[run])


def chats_in(widget: Any) -> Iterator[ChatWidget]:
    """The chats in a widget and in those that it contains."""
    if isinstance(widget, ChatWidget):
        yield widget
        return
    for child in getattr(widget, "children", ()):
        yield from chats_in(child)


def _fill_boxes() -> None:
    """From now on, a displayed box begins the chats in it, as a chat by itself does."""
    from IPython import get_ipython

    shell = get_ipython()
    formatter = getattr(shell, "display_formatter", None)
    if formatter is None:
        return

    def bundle(box: Any, **options: Any) -> Any:
        made = box._repr_mimebundle_(**options)
        chats = list(chats_in(box))
        if not chats or not isinstance(made, dict) or not in_kernel():
            return made
        context = contextvars.copy_context()  # what they show is this cell's output

        def begin() -> None:
            shell.events.unregister("post_execute", begin)
            for chat in chats:
                context.run(chat._begin)

        shell.events.register("post_execute", begin)  # below the box
        # Without text, as `show_live`: an untrusted notebook would show it.
        return {**made, "text/plain": ""}

    formatter.mimebundle_formatter.for_type(widgets.Box, bundle)
