"""One message to several agents: their conversations, the rounds, and which answer was preferred. No widgets.

Each side is a `Conversation` of its own, so nothing that happens to one reaches another. Like a conversation, everything here
that changes something runs on the toolkit's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.errors import ApiError
from ...events.turns import Failure, Turn
from ..model.conversation import Conversation
from ..model.exchange import Exchange
from ..model.subscription import Follow
from ..text import check_text

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

TIE, NONE = "tie", "none"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Choice = int | str | None
Listener = Callable[[], None]


@dataclass(slots=True, eq=False)
class Round:
    """One message and what each side made of it.

    Attributes
    ----------
    number : int
        From 1.
    message : str
    exchanges : list of Exchange
        In the order of the sides; after a retry the newest attempt.
    order : list of int
        Which side stands in which column.
    blind : bool
        Whether the names were hidden until a preference was made.
    preferred : int or str or None
        The side, ``"tie"``, ``"none"``, or None while nobody has chosen.
    preferred_at : datetime or None
        UTC.
    revealed : bool
        Whether the names have been seen.
    """

    number: int
    message: str
    exchanges: list[Exchange]
    order: list[int]
    blind: bool = False
    preferred: Choice = None
    preferred_at: datetime | None = None
    revealed: bool = True

    @property
    def settled(self) -> bool:
        """Whether no reply is being waited for."""
        return not any(exchange.pending for exchange in self.exchanges)

    def allows(self, choice: Choice) -> bool:
        """Whether this can be preferred now: an answer that is there, a tie of two or more, none, or to take it back."""
        answered = [exchange.status == "answered" for exchange in self.exchanges]
        if not self.settled:
            return False
        if isinstance(choice, int):
            return 0 <= choice < len(answered) and answered[choice]
        return sum(answered) >= 2 if choice == TIE else choice in (NONE, None)


@dataclass(eq=False)
class Comparison:
    """Several agents, asked the same.

    Parameters
    ----------
    conversations : list of Conversation
        One for each side.
    blind : bool
        Shuffle the columns of each round, and hide the names until a preference is made.
    seed : int, optional
        For the shuffling; None for another order each time.
    """

    conversations: list[Conversation]
    blind: bool = False
    seed: int | None = None
    rounds: list[Round] = field(default_factory=list)
    recorded: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - an order of columns, no secret
        self._listeners: list[Listener] = []
        for conversation in self.conversations:
            conversation.listen(lambda exchange: self._changed())

    @classmethod
    def of(
        cls,
        client: Client | AsyncClient,
        workspace: Any,
        agents: Sequence[Any],
        *,
        blind: bool = False,
        seed: int | None = None,
        follow: Follow | None = None,
    ) -> Comparison:
        """A comparison whose sides each begin a session of their own in `workspace`."""
        sides = [Conversation(client, workspace=workspace, agent=agent, follow=follow) for agent in agents]
        return cls(sides, blind, seed)

    def listen(self, listener: Listener) -> None:
        """Have `listener` called on the loop's thread after each change; it should note it and draw later."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # What it is like now

    @property
    def labels(self) -> list[str]:
        """What each side is called: its agent's name, numbered where two are called the same."""
        names = [side.agent_name or _short(side.agent) for side in self.conversations]
        count = Counter(names)
        numbers: Counter[str] = Counter()
        labels = []
        for name in names:
            numbers[name] += 1
            labels.append(name if count[name] == 1 else f"{name} #{numbers[name]}")
        return labels

    def shown_labels(self, round_: Round) -> list[str]:
        """What each side is called in the columns of a round: a letter while the names are hidden."""
        labels = self.labels
        if round_.blind:
            for column, side in enumerate(round_.order):
                letter = LETTERS[column] if column < len(LETTERS) else str(column + 1)
                labels[side] = f"{letter} · {labels[side]}" if round_.revealed else letter
        return labels

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges whose reply is being waited for, of all sides."""
        return [exchange for side in self.conversations for exchange in side.pending]

    @property
    def closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return any(side.state == "closed" for side in self.conversations)

    # Asking

    def submit(self, text: str) -> Round:
        """Send a message to every side and return at once; call it on the loop's thread.

        Raises
        ------
        TypeError
            If the message is no text.
        ValueError
            If there is nothing in the message, it is no valid Unicode, or the comparison is closed or a recording.
        """
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self.closed or self.recorded:
            raise ValueError("This comparison is closed or a recording: nothing can be sent to it.")
        order = list(range(len(self.conversations)))
        if self.blind:
            self._random.shuffle(order)
        exchanges = [side.submit(text) for side in self.conversations]
        made = Round(len(self.rounds) + 1, text, exchanges, order, self.blind, revealed=not self.blind)
        self.rounds.append(made)
        self._changed()
        return made

    async def finish(self, round_: Round, timeout_s: float | None = None) -> dict[str, Turn]:
        """Wait until every side has answered, failed or been stopped, retries included; the turn of each.

        What has not come after `timeout_s` is waited for no longer: its turn is open, and a late reply is taken in.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while waiting := [_ended(each) for each in round_.exchanges if not each.finished.done()]:
                    await asyncio.wait(waiting)
        except TimeoutError:
            self.stop(round_)
        except asyncio.CancelledError:
            self.stop(round_)
            raise
        return {label: told(exchange) for label, exchange in zip(self.labels, round_.exchanges, strict=True)}

    async def retry(self, exchange: Exchange) -> None:
        """Try one side's failed or stopped exchange again; the others stay as they are."""
        place = self._place(exchange)
        if place is None or exchange.status not in ("failed", "stopped") or self.recorded:
            return
        round_, side = place
        conversation = self.conversations[side]
        if conversation.pending or conversation.state == "closed":
            return
        known = set(conversation.exchanges)

        def take(changed: Exchange | None) -> None:
            if changed is not None and changed not in known and changed.ours and changed.prompt == round_.message:
                round_.exchanges[side] = changed

        end = conversation.listen(take)
        try:
            await conversation.retry(exchange)
        finally:
            end()
            self._changed()

    def _place(self, exchange: Exchange) -> tuple[Round, int] | None:
        places = ((each, side) for each in self.rounds for side, own in enumerate(each.exchanges) if own is exchange)
        return next(places, None)

    def stop(self, round_: Round | None = None) -> None:
        """Stop waiting, for one round or for all. The agents may still finish; late replies are taken in when they come."""
        mine = set(round_.exchanges) if round_ is not None else None
        for side in self.conversations:
            for exchange in side.pending:
                if mine is None or exchange in mine:
                    side.stop(exchange)

    async def aclose(self) -> None:
        """End it here. The sessions themselves go on."""
        for side in self.conversations:
            with contextlib.suppress(Exception):
                await side.aclose()

    # Preferring

    def prefer(self, round_: Round, choice: Choice) -> None:
        """Note which answer of a round is preferred: a side, ``"tie"``, ``"none"``, or None to take it back.

        Raises
        ------
        ValueError
            If that side has not answered, or replies are still being waited for.
        """
        if not round_.allows(choice):
            raise ValueError(
                f"Round {round_.number} does not allow that: wait until its replies are there, and prefer one that is, "
                "or 'tie' (of two or more), or 'none'."
            )
        round_.preferred = choice
        round_.preferred_at = None if choice is None else datetime.now(UTC)
        round_.revealed = round_.revealed or choice is not None
        self._changed()

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(repr, self.labels))}; {len(self.rounds)} rounds)"


def _ended(exchange: Exchange) -> asyncio.Future[Turn]:
    waiting = asyncio.wrap_future(exchange.finished)
    # Looked at, so that nobody is told of an error that the column shows already.
    waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return waiting


def told(exchange: Exchange) -> Turn:
    """The exchange's turn; a failed one where the message was refused or the connection lost, so that nothing is raised."""
    turn = exchange.turn
    if exchange.status != "failed" or turn.status != "open":
        return turn
    error = exchange.finished.exception() if exchange.finished.done() and not exchange.finished.cancelled() else None
    status = error.status if isinstance(error, ApiError) else None
    return replace(turn, status="failed", failure=Failure(exchange.reason or "No reason was given.", "error", status))


def _short(agent: Any) -> str:
    return f"agent …{str(agent)[-8:]}" if agent is not None else "agent"
