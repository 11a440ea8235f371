"""`Compare`: several agents side by side in a notebook cell.

As in the chat panel, the toolkit's only daemon thread owns the network and, after
construction, all widget updates; click handlers only hand work over to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..._text import replace_surrogates, safe_repr, shows_call
from ...events import loop
from ...events.turns import Turn
from ..model.conversation import READ_TIMEOUT_S, Conversation
from ..model.exchange import Exchange
from ..model.feed import Follow
from ..page_requests import entries_of, saved_file
from ..widgets.chat_widget import ChatWidget
from . import records
from .comparison import EXAMPLE, NONE, TIE, Choice, Comparison, Round, SessionIds, check_sides
from .text import is_closed, names, static_html, to_html
from .view import CompareDrawing, CompareView

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client


class Compare(ChatWidget):
    """Send the same message to several agents and see their replies side by side.

    Each agent answers in a session of its own, which continues from round to round. If
    one fails, its column shows the reason and a button to retry; the others are not
    affected. A click stores which reply is better.

    Parameters
    ----------
    client : Client or AsyncClient
    workspace : str or Record
        Where the sessions are started; id or ``<owner>~<name>``.
    agents : iterable of str or Record, or DataFrame
        Two or more, by id or name, or a frame with a column ``id``. An agent may occur
        more than once.
    blind : bool
        Shuffle the columns of each round, and hide the names until there is a
        preference.
    seed : int, optional
        Seed of the shuffling; None for a different order each time.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched, as in `ChatPanel`. By default they are
        not, until someone presses Load pictures.
    follow : callable, optional
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.

    Raises
    ------
    TypeError
        If `agents` is not a collection, or `workspace` is one.
    ValueError
        If there are fewer than two agents, or a frame of them has no ids.

    Notes
    -----
    Preferences stay in this object: the platform cannot store them.

    Specification: "Endpoints, Workspaces and sessions"; "Events".

    Examples
    --------
    A cell that ends with ``compare`` shows the replies side by side.

    >>> agents = ["guide", "scribe"]
    >>> compare = ab.Compare(client, workspace="acme~playground", agents=agents)
    >>> turns = compare.ask("What is a turn?")
    >>> turns["guide"].status
    'answered'
    >>> compare.prefer("guide")
    >>> again = ab.Compare.from_json(compare.to_json())
    >>> again.to_pandas()[["agent", "preferred"]].values.tolist()
    [['guide', True], ['scribe', False]]
    >>> again.close(), compare.close()
    (None, None)
    """

    @shows_call(EXAMPLE)
    def __init__(
        self,
        client: Client | AsyncClient,
        workspace: Any = None,
        agents: Any = (),
        *,
        blind: bool = False,
        seed: int | None = None,
        height: str = "480px",
        images: bool = False,
        follow: Follow | None = None,
    ) -> None:
        agents = check_sides(workspace, agents)
        self._make(Comparison.start(client, workspace, agents, blind=blind, seed=seed, follow=follow), height, images)

    def _make(self, comparison: Comparison, height: str, images: bool = False) -> None:
        self.comparison = comparison
        # The labels as they are at the start: the name of an agent passed by id is
        # learned later, and the outputs of notebooks are compared.
        self._first_labels = comparison.labels
        self._page = CompareDrawing(comparison, images=images)
        self._earlier: dict[str, SessionIds] = {}  # the sessions of comparisons that were listed
        super().__init__(CompareView, self._page, static_html, height)
        comparison.listen(self._note)

    # Asking from code

    def ask(self, text: str, timeout_s: float | None = None) -> dict[str, Turn]:
        """Send a message to every agent and wait for all, while the replies stream in.

        Parameters
        ----------
        text : str
        timeout_s : float, optional
            Seconds to wait; None waits without limit.

        Returns
        -------
        dict of str to Turn
            By the agents' labels. The ``status`` of a turn is ``"answered"``;
            ``"failed"``, with the reason in ``turn.failure``, if the platform refused
            the message or the run failed; or ``"open"`` if someone pressed Stop or
            `timeout_s` is over. A late reply still appears in its column.

        Raises
        ------
        TypeError
            If the message is not a string.
        ValueError
            If the message is empty or not valid Unicode, or if the comparison is closed
            or a recording.

        Notes
        -----
        The failure of an agent is not raised. Interrupting the cell stops the waiting
        at once, like Stop. Specification: "Events", rules 3 to 5.
        """
        return loop.run(self._in_this_cell(self._ask, text, timeout_s), operation="compare.ask")

    async def aask(self, text: str, timeout_s: float | None = None) -> dict[str, Turn]:
        """As `ask`, awaited, on any event loop: ``await compare.aask("...")``."""
        return await loop.run_async(self._in_this_cell(self._ask, text, timeout_s))

    async def _ask(self, text: str, timeout_s: float | None) -> dict[str, Turn]:
        return await self.comparison.wait(self.comparison.submit(text), timeout_s)

    def stop(self) -> None:
        """Stop listening for pending replies.

        The agents may still finish; late replies appear in their columns.
        """
        self._hand_over(self.comparison.stop)

    # Results

    @property
    def rounds(self) -> list[Round]:
        """The rounds so far, in order."""
        return list(self.comparison.rounds)

    @property
    def session_ids(self) -> dict[str, str | None]:
        """Each agent's session by label; None until it has started."""
        sides = zip(self.comparison.labels, self.comparison.conversations, strict=True)
        return {label: side.session_id for label, side in sides}

    def prefer(self, choice: str | None, round: int | None = None) -> None:
        """Store a preference, as a click on a button does.

        Parameters
        ----------
        choice : str or None
            An agent's label, ``"tie"``, ``"none"``, or None to take a preference back.
        round : int, optional
            Number of the round, from 1; None for the last.

        Raises
        ------
        ValueError
            If there is no such agent or round, it has not answered, or replies are
            pending.
        """
        rounds = self.comparison.rounds
        number = len(rounds) if round is None else round
        if not 1 <= number <= len(rounds):
            last = f"the last is {len(rounds)}" if rounds else "there are no messages yet"
            raise ValueError(f"There is no round {number}: {last}.")
        labels = self.comparison.labels
        side: Choice = labels.index(choice) if choice in labels else choice
        if side is not None and not isinstance(side, int) and side not in (TIE, NONE):
            raise ValueError(f"{choice!r} is not one of these: {', '.join(map(repr, [*labels, TIE, NONE]))}.")
        loop.run(self._in_this_cell(self._prefer, rounds[number - 1], side), operation="compare.prefer")

    async def _prefer(self, round_: Round, choice: Choice) -> None:
        self.comparison.prefer(round_, choice)

    @property
    def preferences(self) -> pd.DataFrame:
        """The preferences, one row per round that has one.

        ============  ===================  ====  =====================================
        column        dtype                unit  meaning
        ============  ===================  ====  =====================================
        round         Int64                      from 1
        message       str                        the question
        preferred     str                        the agent's label, ``tie``, ``none``
        column        Int64                      column of the preferred reply, from
                                                 1 at the left
        agents        list of str                the labels, by column
        latencies_s   list of float64      s     times from sending to the reply, by
                                                 column
        session_ids   list of str                the sessions, by column
        blind         boolean                    whether the names were hidden
        preferred_at  datetime64[us, UTC]        when it was stored
        ============  ===================  ====  =====================================
        """
        return records.preferences(self.comparison)

    @property
    def labels(self) -> pd.DataFrame:
        """The preferences as labels of the replies.

        Returns
        -------
        DataFrame
            The columns of `agentbook.read_labels`: a row per reply of a round with a
            preference, of the question ``preferred``. `agentbook.save_labels` keeps
            them.
        """
        return records.labels(self.comparison)

    def to_pandas(self) -> pd.DataFrame:
        """All replies as a tidy DataFrame, one row per round and agent.

        Returns
        -------
        DataFrame
            =====================  ===================  ====  ========================
            column                 dtype                unit  meaning
            =====================  ===================  ====  ========================
            round                  Int64                      from 1
            message                str                        the question
            agent                  str                        the agent's label
            column                 Int64                      column of the reply,
                                                              from 1 at the left
            text                   str                        the reply; of a failed
                                                              turn, its draft
            status                 category                   as in the `transcript`
                                                              of a panel
            event_id               str                        event that ended the
                                                              turn
            session_id             str
            asked_at               datetime64[us, UTC]
            time_to_first_event_s  float64              s     from sending to the
                                                              first event
            time_to_reply_s        float64              s     from sending to the
                                                              reply
            subtasks               Int64                      finished subtasks and
                                                              tool runs
            reason                 str                        why the turn failed
            request_id             str                        of a refused request
            preferred              boolean                    missing without a
                                                              preference
            =====================  ===================  ====  ========================

        Examples
        --------
        >>> agents = ["guide", "scribe"]
        >>> compare = ab.Compare(client, workspace="acme~playground", agents=agents)
        >>> turns = compare.ask("What is an event?")
        >>> medians = compare.to_pandas().groupby("agent")["time_to_reply_s"].median()
        >>> bool((medians >= 0).all())
        True
        >>> compare.close()
        """
        return records.reply_table(self.comparison)

    def to_json(self) -> str:
        """The comparison as JSON, with its preferences and persisted events.

        Returns
        -------
        str
            What `from_json` reads back, on any machine and without a platform. It holds
            no key.

        Examples
        --------
        >>> agents = ["acme~guide", "acme~scribe"]
        >>> compare = ab.Compare(client, workspace="acme~playground", agents=agents)
        >>> turns = compare.ask("What is an event?")
        >>> path = folder / "comparison.json"
        >>> characters = path.write_text(compare.to_json(), "utf-8")
        >>> ab.Compare.from_json(path).to_pandas()["message"].unique().tolist()
        ['What is an event?']
        >>> compare.close()
        """
        return records.to_json(self.comparison)

    def to_html(self) -> str:
        """The comparison as a standalone page.

        It is sanitized, has no scripts, and fetches nothing.
        """
        return to_html(self.comparison)

    @classmethod
    def from_json(cls, source: str | Path, *, height: str = "480px") -> Self:
        """The comparison that `to_json` wrote, read-only; it needs no platform.

        Preferences can still be changed.

        Parameters
        ----------
        source : str or Path
            The JSON, or the name of a file that contains it.
        height : str
            CSS height of the log.

        Raises
        ------
        ValueError
            If it is not a comparison.
        """
        compare = cls.__new__(cls)
        compare._make(records.from_json(source), height)
        return compare

    def close(self) -> None:
        """Stop listening and leave the page. The sessions continue."""
        super().close()

    async def _aclose(self) -> None:
        await self.comparison.aclose()

    # What a page says

    def _act(self, message: dict[str, Any]) -> None:
        match message:
            case {"do": "prefer", "round": str(id), "choice": int() | "tie" | "none" as choice}:
                round_ = self._page.rounds.get(id)
                if round_ is not None and round_.allows(choice) and not self._ended:
                    # Pressing the chosen button again takes the preference back.
                    self.comparison.prefer(round_, None if round_.preferred == choice else choice)
            case _:
                super()._act(message)

    @property
    def _conversations(self) -> Sequence[Conversation]:
        return self.comparison.conversations

    def _submit(self, message: str) -> bool:
        if self.comparison.pending or self.comparison.recorded:
            return False
        self.comparison.submit(message)
        return True

    # Earlier comparisons, and files

    def _find(self, search: str, others: bool) -> dict[str, Any]:
        found = self.comparison.find_earlier(search)
        self._earlier = {entry.session_id: ids for entry, ids in found}
        return {"entries": entries_of(entry for entry, _ in found), "more": False}

    def _rename(self, session_id: str, name: str | None) -> None:
        for side, each in zip(self.comparison.conversations, self._earlier.get(session_id, ()), strict=False):
            if each is not None:
                loop.run(side.rename(each, replace_surrogates(name or "")), READ_TIMEOUT_S)

    async def _open(self, session_id: str, keep: bool) -> None:
        if session_id in self._earlier:
            await self.comparison.open(self._earlier[session_id])

    async def _start_over(self) -> None:
        if not is_closed(self.comparison):
            await self.comparison.open(())

    def _exported(self, suffix: str) -> dict[str, str]:
        write = {".html": self.to_html, ".json": self.to_json}.get(suffix)
        if write is None:
            raise ValueError(f"A comparison is not exported as {suffix!r}: choose .html or .json.")
        exchanges = [exchange for round_ in self.comparison.rounds for exchange in round_.exchanges]
        return saved_file(f"comparison {names(self.comparison)}", exchanges, suffix, replace_surrogates(write()))

    async def _retry(self, exchange: Exchange) -> None:
        await self.comparison.retry(exchange)

    # Display

    def _save(self) -> None:
        if not self.comparison.pending:
            self._static.update(self.comparison)

    def _begin(self) -> None:
        loop.submit(self.comparison.read_start())
        self._static.show(self.comparison)

    def _page_opened(self) -> None:
        loop.submit(self.comparison.read_start())

    @safe_repr
    def __repr__(self) -> str:
        return f"Compare({', '.join(map(repr, self._first_labels))})"
