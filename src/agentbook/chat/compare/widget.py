"""Several agents asked the same, side by side: made of conversations, each of which goes its own way.

As in the chat panel, the toolkit's one daemon thread owns the network and every widget write after construction; clicks only
hand work over to it.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import ipywidgets as widgets

from ...events import loop
from ...events.turns import Turn
from ..html.static_transcript import StaticTranscript, show_bundle
from ..model.exchange import Exchange
from ..model.lookup import agent_list
from ..model.subscription import Follow
from ..text import replace_surrogates
from ..widgets.parts import close_all
from ..widgets.throttle import FLUSH_S, Throttle
from . import html, records
from .comparison import Choice, Comparison, Round
from .view import CompareLayout

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client

CLOSING_S = 15.0
OPEN_CHARACTERS_PER_S = 160_000
# Each streaming column is a message or two at each drawing: together they stay under a hundred a second.
MESSAGES_PER_S = 80


class Compare(widgets.VBox):  # type: ignore[misc]
    """The same message to several agents, their answers side by side, and a click for the better one.

    Each agent answers in a session of its own, which goes on from round to round. One that fails does so in its own column,
    with the reason and a button to retry, and the others go on.

    Parameters
    ----------
    client : Client or AsyncClient
    workspace : str or Record
        Where the sessions are started; id or ``<owner>~<name>``.
    agents : iterable of str or Record, or DataFrame
        Two or more, by id or name, or a frame of them with a column ``id``. The same one may stand there twice.
    blind : bool
        Shuffle the columns of each round and hide the names until a preference is made.
    seed : int, optional
        For the shuffling; None for another order each time.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched, as in `ChatPanel`; by default not until somebody presses Load pictures.
    follow : callable, optional
        Gives a session's events as they happen; `agentbook.events.reader.subscribe` unless told otherwise.

    Raises
    ------
    TypeError
        If `agents` is nothing of the kind.
    ValueError
        If there are fewer than two agents, or a frame of them has no ids.

    Notes
    -----
    Specification: "Endpoints, Workspaces and sessions"; "Events". A preference stays here: the platform has no place for it.

    Examples
    --------
    >>> compare = ab.Compare(client, workspace="acme~playground", agents=["guide", "analyst"])
    >>> turns = compare.ask("What is a turn?")  # a cell that ends with `compare` shows the answers side by side
    >>> turns["guide"].status
    'answered'
    >>> compare.prefer("guide")
    >>> again = ab.Compare.from_json(compare.to_json())
    >>> again.to_pandas()[["agent", "preferred"]].values.tolist()
    [['guide', True], ['analyst', False]]
    >>> again.close(), compare.close()
    (None, None)
    """

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
        agents = agent_list(agents)
        if len(agents) < 2:
            raise ValueError(
                'Compare needs two agents or more: agents=["guide", "echo"]; the same one may stand twice.'
            )
        if workspace is None:
            raise ValueError("Compare needs workspace=, where the sessions are started.")
        self._draw_it(Comparison.of(client, workspace, agents, blind=blind, seed=seed, follow=follow), height, images)

    def _draw_it(self, comparison: Comparison, height: str, images: bool = False) -> None:
        self.comparison = comparison
        self._made_with = (
            comparison.labels
        )  # an agent given by its id is known by name only later, and outputs are compared
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._twin = StaticTranscript(self._uid, html.static_html)
        self._frame = CompareLayout(
            self._uid, height, self._send_clicked, self._stop_clicked, self._retry_clicked, self._prefer_clicked,
            self._pictures_clicked, images=images,
        )  # fmt: skip
        self._pace = Throttle(self._draw, self._pause_s)
        self._ended = False
        super().__init__(self._frame.children, layout=widgets.Layout(width="100%"))
        self.add_class("ab-chat")
        self.add_class("ab-compare")
        self._frame.draw(comparison)
        comparison.listen(self._pace.note)

    # Asking from code

    def ask(self, text: str, timeout_s: float | None = None) -> dict[str, Turn]:
        """Send a message to every agent and wait for all, while the answers stream into their columns.

        Parameters
        ----------
        text : str
        timeout_s : float, optional
            Seconds to wait; None waits without end.

        Returns
        -------
        dict of str to Turn
            By the agents' labels. Each turn's ``status`` says what became of it: ``"answered"``; ``"failed"``, with
            ``turn.failure`` for the reason, be it that the platform refused the message or that the run failed;
            ``"open"``, if somebody pressed Stop or `timeout_s` is over: a late reply still appears in its column.

        Raises
        ------
        TypeError
            If the message is no text.
        ValueError
            If the message is empty or no valid Unicode, or the comparison closed or a recording.

        Notes
        -----
        That one agent fails raises nothing: the others' answers are what was asked for. An interrupt of the cell stops the
        waiting at once, like Stop. Specification: "Events", rules 3 to 5.
        """
        return loop.run(self._ask(text, timeout_s), operation="compare.ask")

    async def aask(self, text: str, timeout_s: float | None = None) -> dict[str, Turn]:
        """As `ask`, awaited, on any event loop: ``turns = await compare.aask("...")``."""
        return await loop.run_async(self._ask(text, timeout_s))

    async def _ask(self, text: str, timeout_s: float | None) -> dict[str, Turn]:
        round_ = self.comparison.submit(text)
        try:
            return await self.comparison.finish(round_, timeout_s)
        finally:
            self._pace.flush()

    def stop(self) -> None:
        """Stop listening for the replies that are under way. The agents may still finish; late replies appear."""
        self._hand_over(self.comparison.stop)

    # What came of it

    @property
    def rounds(self) -> list[Round]:
        """The rounds so far, in order."""
        return list(self.comparison.rounds)

    @property
    def session_ids(self) -> dict[str, str | None]:
        """Each agent's session, by label; None until it has begun."""
        return {
            label: side.session_id
            for label, side in zip(self.comparison.labels, self.comparison.conversations, strict=True)
        }

    def prefer(self, choice: str | None, round: int | None = None) -> None:
        """Note by code what a click on a button notes.

        Parameters
        ----------
        choice : str or None
            An agent's label, ``"tie"``, ``"none"``, or None to take a preference back.
        round : int, optional
            Which, from 1; None for the last.

        Raises
        ------
        ValueError
            If there is no such agent or round, it has not answered, or replies are still being waited for.
        """
        rounds = self.comparison.rounds
        number = len(rounds) if round is None else round
        if not 1 <= number <= len(rounds):
            asked = f"the last is {len(rounds)}" if rounds else "nothing has been asked yet"
            raise ValueError(f"There is no round {number}: {asked}.")
        labels = self.comparison.labels
        side: Choice = labels.index(choice) if choice in labels else choice
        if side is not None and not isinstance(side, int) and side not in ("tie", "none"):
            raise ValueError(f"{choice!r} is none of these: {', '.join(map(repr, [*labels, 'tie', 'none']))}.")
        loop.run(self._prefer(rounds[number - 1], side), operation="compare.prefer")

    async def _prefer(self, round_: Round, choice: Choice) -> None:
        self.comparison.prefer(round_, choice)
        self._pace.flush()

    @property
    def preferences(self) -> pd.DataFrame:
        """What was preferred, a row for each round that has a preference.

        ============  ===================  ====  ======================================================================
        column        dtype                unit  meaning
        ============  ===================  ====  ======================================================================
        round         Int64                      from 1
        message       str                        what was asked
        preferred     str                        the agent's label, ``tie`` or ``none``
        column        Int64                      where the preferred answer stood, from 1 at the left
        agents        object                     list of the labels, in the order of the columns
        latencies_s   object               s     list of the times from sending to the reply, in the same order
        session_ids   object                     list, in the same order
        blind         boolean                    whether the names were hidden until then
        preferred_at  datetime64[us, UTC]        when
        ============  ===================  ====  ======================================================================
        """
        return records.preferences(self.comparison)

    def to_pandas(self) -> pd.DataFrame:
        """All replies as a tidy DataFrame: a row for each round and agent.

        Returns
        -------
        DataFrame
            ========================  ===================  ====  ======================================================
            column                    dtype                unit  meaning
            ========================  ===================  ====  ======================================================
            round                     Int64                      from 1
            message                   str                        what was asked
            agent                     str                        its label
            column                    Int64                      where the answer stood, from 1 at the left
            text                      str                        the reply; of a failed turn, why
            status                    category                   as in a panel's `transcript`
            event_id                  str                        id of the event that ended the turn
            session_id                str
            asked_at                  datetime64[us, UTC]
            time_to_first_event_s     float64              s     from sending to the first sign of the agent
            time_to_reply_s           float64              s     from sending to the reply
            subtasks                  Int64                      finished subtasks and tool runs
            request_id                str                        of the request that was refused
            preferred                 boolean                    missing while nothing was preferred
            ========================  ===================  ====  ======================================================

        Examples
        --------
        >>> compare = ab.Compare(client, workspace="acme~playground", agents=["guide", "analyst"])
        >>> turns = compare.ask("What is an event?")
        >>> bool((compare.to_pandas().groupby("agent")["time_to_reply_s"].median() >= 0).all())
        True
        >>> compare.close()
        """
        return records.replies(self.comparison)

    def to_json(self) -> str:
        """The comparison as JSON, preferences and the platform's persisted events included; `from_json` reads it back."""
        return records.to_json(self.comparison)

    @classmethod
    def from_json(cls, source: str | Path, *, height: str = "480px") -> Self:
        """The comparison that `to_json` wrote, to be read and judged, not continued; it needs no platform.

        Parameters
        ----------
        source : str or Path
            The JSON itself, or the name of a file that holds it.
        height : str
            CSS height of the log.

        Raises
        ------
        ValueError
            If it is no comparison.
        """
        made = cls.__new__(cls)
        made._draw_it(records.from_json(source), height)
        return made

    def close(self) -> None:
        """Stop listening and take it off the page. The sessions go on."""
        if self.comm is None or self._ended:
            return
        self._ended = True
        loop.wind_up(self._aclose(), CLOSING_S)
        for child in self.children:
            close_all(child)
        super().close()

    async def _aclose(self) -> None:
        self._pace.end()
        await self.comparison.aclose()

    # Clicks: on any thread, so they only hand over

    def _hand_over(self, work: Any, *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _send_clicked(self, text: str) -> None:
        self._hand_over(self._send_from_box, text)

    def _stop_clicked(self) -> None:
        self._hand_over(self.comparison.stop)

    def _retry_clicked(self, exchange: Exchange) -> None:
        loop.submit(self.comparison.retry(exchange))

    def _prefer_clicked(self, round_: Round, choice: Choice) -> None:
        self._hand_over(self._prefer_if_allowed, round_, choice)

    def _pictures_clicked(self) -> None:
        self._hand_over(self._load_or_hide_pictures)

    def _load_or_hide_pictures(self) -> None:
        self._frame.load_pictures(not self._frame.images)
        self._pace.note()

    def _send_from_box(self, text: str) -> None:
        # A second click may be on its way before the first has disabled the button.
        if not text.strip() or self.comparison.pending or self.comparison.recorded or self._ended:
            return
        self.comparison.submit(replace_surrogates(text))
        self._frame.composer.clear()

    def _prefer_if_allowed(self, round_: Round, choice: Choice) -> None:
        if round_.allows(choice) and not self._ended:
            self.comparison.prefer(round_, choice)

    # Drawing: on the loop's thread

    def _pause_s(self) -> float:
        columns = len(self.comparison.pending)
        return max(FLUSH_S, columns / MESSAGES_PER_S, self._frame.open_characters / OPEN_CHARACTERS_PER_S)

    def _draw(self) -> None:
        self._frame.draw(self.comparison)
        if not self.comparison.pending:
            self._twin.update(self.comparison)

    # Showing

    def _ipython_display_(self, **_: Any) -> None:
        bundle = self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)}
        show_bundle(bundle)
        self._twin.show(self.comparison)

    def __repr__(self) -> str:
        return f"Compare({', '.join(map(repr, self._made_with))})"
