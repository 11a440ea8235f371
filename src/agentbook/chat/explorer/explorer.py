"""`Explorer`: the turns of a history in linked views, next to the conversation.

Messages from the page may arrive on any thread. They are handed to the toolkit's own
thread, which answers them one after another. Counting and reading run in a worker
thread, so neither a cell nor a chat waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..._text import nearest, safe_repr, shows_call
from ...api.span import parse_span
from ...events import loop
from ...frames.analysis.arguments import zone_in
from ...live.listeners import Listeners
from ..assets import read_module, read_style
from ..html.static_transcript import StaticTranscript, show_live
from ..html.style import hide_static, live_class, live_css
from ..page_requests import TestSet, add_to_test_set
from ..widgets.page_view import PageView, PageViewBox
from .filters import Filters, label, search_text
from .model import ExplorerModel
from .saved import explorer_html
from .source import source_of

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

SAVE_AFTER_S = 0.8  # the static picture is updated once nothing has changed for this long
READ_TIMEOUT_S = 60.0
log = logging.getLogger("agentbook.chat")


class Shown:
    """What a page shows in one `PageView`, and changes by messages with a number.

    Parameters
    ----------
    to_html : callable
        Makes what a saved notebook shows; gets `_saved` and a uid.
    """

    _view_type: type[PageView]
    _handle: Callable[[dict[str, Any]], Coroutine[Any, Any, None]]  # answers a message
    _state: Callable[[], dict[str, Any]]  # everything that the page draws
    _saved: Callable[[], tuple[Any, ...]]

    def __init__(self, to_html: Callable[..., str]) -> None:
        self._box: PageViewBox | None = None
        self._sent = 0  # messages sent; a page must not miss any
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._static = StaticTranscript(self._uid, to_html)
        self._saving: asyncio.TimerHandle | None = None
        self._order = asyncio.Lock()  # keeps answers in order
        self._closed = False

    def close(self) -> None:
        """Remove it from the page; the picture in the notebook stays."""
        self._closed = True
        if self._box is not None:
            self._box.close()

    # Messages from the page: they arrive on any thread; everything else runs on the
    # loop's thread

    def _receive(self, message: dict[str, Any]) -> None:
        loop.submit(self._handle(message))

    async def _answer(self, number: int | None, work: Callable[[], dict[str, Any]]) -> None:
        """Do the work for a message in a thread, and send what a page then draws."""
        async with self._order:
            try:
                reply = await asyncio.to_thread(work)
            except Exception:  # whatever it is: without an answer, the page would wait forever
                if number is None:
                    raise
                log.exception("A message of a page could not be answered.")
                reply = {"kind": "none"}
            if self._closed:
                return
            self._sent += 1
            if self._box is not None:
                self._box.send({"number": number, "version": self._sent, **reply})
        if self._saving is not None:
            self._saving.cancel()
        self._saving = asyncio.get_running_loop().call_later(SAVE_AFTER_S, lambda: self._static.update(*self._saved()))

    # Display

    def _snapshot(self) -> dict[str, Any]:
        # Read first: anything that changes meanwhile is also in the next message.
        return {"kind": "snapshot", "version": self._sent, "style": hide_static(self._uid), **self._state()}

    def _display_(self) -> Any:
        """What marimo shows."""
        if self._box is None and not self._closed:
            self._box = PageViewBox(
                lambda on_hello: self._view_type(self._snapshot, self._receive, on_hello, repr(self))
            )
            self._box.add_class(live_class(self._uid))
        return repr(self) if self._box is None else self._box

    def _ipython_display_(self, **_: Any) -> None:
        self._display_()
        show_live(self if self._box is None else self._box)
        self._static.show(*self._saved())


class ExplorerView(PageView):
    """Shows an explorer in a page.

    The module draws, and asks questions in numbered messages; everything it draws was
    counted in the kernel. `widgets.page_view` documents what the messages of all
    modules have in common.
    """

    _esm = read_module("explorer/explorer.js")
    _css = f"{live_css()} {read_style('explorer/conversation.css', 'explorer/explorer.css')}"


class Explorer(Shown):
    """Turns in linked views, from a chart to the conversation behind a point.

    A heat map by hour of the week, latency over time, failures, groups and a table. A
    selection in one narrows all the others. A click on a turn opens its conversation
    beside them, read-only.

    Parameters
    ----------
    data : History or DataFrame
        From `load_history`; or events, or the result of `turns`, in any tabular form.
    events : DataFrame, optional
        Where conversations are read from, if `data` has turns only.
    client : Client or AsyncClient, optional
        Reads from the platform the conversations that are not among the events.
    by : str, optional
        The column of the turns to group by, or ``"path"`` for the steps they took, as
        in `paths`. Default: the first of ``agent``, ``agent_id``, ``workspace``,
        ``workspace_id`` and ``author_type`` that they have.
    lab : PromptLab, optional
        The lab to which “Add to test set” next to a conversation adds the turn as an
        input.
    tz : str or tzinfo, optional
        Time zone of the views, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of
        the history, else UTC.

    Raises
    ------
    TypeError
        If `data` is not tabular.
    ValueError
        If a column is missing (the message names it), or `tz` is unknown.

    Notes
    -----
    Everything is counted in the kernel; a page holds at most a few thousand marks,
    however many turns there are. Latencies are those of `agentbook.latency`, of
    answered turns only. A saved notebook keeps a picture, a table and the conversation.
    Specification: "Events", rules 3 to 5.

    Examples
    --------
    A cell that ends with ``explorer`` shows it.

    >>> history = ab.load_history(client, "acme")
    >>> explorer = ab.Explorer(history)
    >>> explorer.select(groups=["data-desk"], min_latency_s=20)
    >>> bool((explorer.selection["latency_s"] >= 20).all())
    True
    >>> print(explorer.code())
    turns = history.turns
    selection = turns[
        (turns["latency_s"] >= 20.0)
        & (turns["agent"].isin(["data-desk"]))
    ]
    selection
    >>> explorer.open(explorer.selection.index[0])
    >>> lengths = []
    >>> end = explorer.listen(lambda: lengths.append(len(explorer.selection)))
    >>> explorer.clear()
    >>> end()
    >>> lengths == [len(history.turns)]
    True
    >>> explorer.update(history)
    >>> explorer.close()
    """

    _view_type = ExplorerView

    @shows_call("ab.Explorer(history)")
    def __init__(
        self,
        data: Any,
        *,
        events: Any = None,
        client: Client | AsyncClient | None = None,
        by: str | None = None,
        lab: TestSet | None = None,
        tz: str | tzinfo | None = None,
    ) -> None:
        self._by, self._client, self._lab = by, client, lab
        source = source_of(data, events=events, client=client, by=by)
        self._model = ExplorerModel(source, zone_in(tz, source.turns))
        self._listeners = Listeners[[]]()
        super().__init__(explorer_html)

    # The selection

    @property
    def selection(self) -> pd.DataFrame:
        """The selected turns, with the columns and the index of the table of turns."""
        return self._model.selection

    def code(self, name: str | None = None) -> str:
        """A cell that makes the selection again, as the frame `selection`.

        Parameters
        ----------
        name : str, optional
            The variable that holds what the explorer was made from. Default: the
            notebook's own variable, else ``history``, ``events`` or ``turns``.

        Returns
        -------
        str
            Python code. Names in it are literals, whatever they contain.

        Raises
        ------
        ValueError
            If `name` is not a name.
        """
        if name is not None and not name.isidentifier():
            raise ValueError(f"name must be the name of a variable, such as 'history', not {name!r}.")
        return self._model.code(name)

    def select(
        self,
        *,
        since: Any = None,
        until: Any = None,
        min_latency_s: float | None = None,
        max_latency_s: float | None = None,
        hours: Iterable[int] = (),
        outcomes: Iterable[str | None] = (),
        groups: Iterable[str | None] = (),
        text: str | None = None,
    ) -> None:
        """Replace the selection with the turns that meet every condition.

        Parameters
        ----------
        since, until : str, datetime, date or timedelta, optional
            Asked from `since` on, and before `until`: instants; dates, or times on the
            clock of the explorer's time zone; or lengths of time before now.
        min_latency_s, max_latency_s : float, optional
            Latency in seconds, both ends included.
        hours : iterable of int
            Hours of the week from 0, Monday midnight to 01:00, to 167.
        outcomes : iterable of str
            ``"answered"``, ``"unanswered"``, ``"open"``, or kinds of failure.
        groups : iterable of str
            Values of the grouping column; None for turns without one.
        text : str, optional
            Words; each has to occur in the question or in the reply, in any case.

        Raises
        ------
        ValueError
            If a time cannot be read, an hour is out of range, a span is the wrong way
            round, a name is unknown (the message lists the names that exist), or `text`
            is passed and the turns have no texts.
        TypeError
            If `text` is not a text.
        """
        span = parse_span(since, until, self._model.tz)
        begin, end = (None if at is None else pd.Timestamp(at).floor("ms") for at in (span.since, span.until))
        low, high = (None if value is None else float(value) for value in (min_latency_s, max_latency_s))
        slots = tuple(sorted(set(hours)))
        columns = self._model.columns
        names = _known(outcomes, columns.outcomes, "outcomes"), _known(groups, columns.groups, "groups")
        words = search_text(text)
        if words is not None and not {"prompt", "reply"} & set(self._model.source.turns):
            raise ValueError("text= needs turns with their texts: ab.turns(events, texts=True) makes them.")
        filters = Filters(begin, end, low, high, slots, *names, words)
        loop.run(self._change(lambda: self._model.select(filters)))

    def clear(self) -> None:
        """Select all turns again, as *clear* above the views does.

        Examples
        --------
        >>> explorer = ab.Explorer(events)
        >>> explorer.select(min_latency_s=10_000)
        >>> explorer.clear()
        >>> len(explorer.selection) == len(ab.turns(events))
        True
        >>> explorer.close()
        """
        loop.run(self._change(lambda: self._model.select(Filters())))

    def open(self, label: Any) -> None:
        """Show the conversation of a turn beside the views.

        Parameters
        ----------
        label
            The turn's value in the index of `selection`.

        Raises
        ------
        KeyError
            If no turn has this value.

        Notes
        -----
        Errors of the platform are shown in the page, not raised.
        """
        position = self._model.source.turns.index.get_indexer_for(pd.Index([label]))
        if not len(position) or position[0] < 0:
            raise KeyError(f"No turn has the index {label!r}: use one of explorer.selection.index.")
        row = int(position[0])
        loop.run(self._answer(None, lambda: self._model.open(row)), READ_TIMEOUT_S, operation="explorer.open")

    def update(self, data: Any, *, events: Any = None) -> None:
        """Show newer data, with the same selection.

        Parameters
        ----------
        data, events
            As for `Explorer`.

        Raises
        ------
        TypeError, ValueError
            As for `Explorer`; what is shown stays as it is.
        """
        source = source_of(data, events=events, client=self._client, by=self._by)
        loop.run(self._change(lambda: self._model.replace(source)))

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` after each change of the selection.

        Parameters
        ----------
        listener : callable
            Called without arguments, on a worker thread.

        Returns
        -------
        callable
            Ends it.

        Raises
        ------
        TypeError
            If `listener` cannot be called.
        """
        return self._listeners.add(listener)

    async def _handle(self, message: dict[str, Any]) -> None:
        number = message.get("number")
        model = self._model
        match message.get("kind"):
            case "select":
                await self._change(lambda: model.select_by_message(message), number)
            case "table":
                await self._answer(number, lambda: model.turn_pages(message))
            case "open":
                await self._answer(number, lambda: model.open_by_message(message))
            case "collect" if self._lab is not None:
                await self._answer(number, lambda: self._collect(message))
            case "close":
                await self._answer(number, model.close_conversation)

    def _collect(self, message: dict[str, Any]) -> dict[str, Any]:
        turn, confirm = self._model.turn_of_message(message), message.get("confirm") is True
        collected = None if self._lab is None or turn is None else add_to_test_set(self._lab, turn, confirm=confirm)
        return {"kind": "collect", "collected": collected}

    async def _change(self, change: Callable[[], dict[str, Any]], number: int | None = None) -> None:
        await self._answer(number, change)
        await asyncio.to_thread(self._listeners.notify)

    def _state(self) -> dict[str, Any]:
        return {"collects": self._lab is not None, "collected": None, **self._model.snapshot()}

    def _saved(self) -> tuple[Any, ...]:
        return self._model.static_content()

    @safe_repr
    def __repr__(self) -> str:
        return f"<Explorer of {self._model.sentence}>"


def _known(names: Iterable[str | None], known: list[str | None], argument: str) -> tuple[str | None, ...]:
    named = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    chosen = tuple(name if name is None else str(name) for name in named)  # also True and False
    for name in chosen:
        if name not in known:
            texts = [label(each) for each in known]
            match = nearest(str(name), texts)
            hint = f"did you mean {match!r}?" if match else f"there are: {', '.join(texts[:20]) or 'none'}."
            raise ValueError(f"{argument}= has {name!r}, which no turn has; {hint}")
    return chosen
