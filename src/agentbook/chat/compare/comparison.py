"""Conversations, rounds and preferences of a comparison, without widgets.

Each side is a separate `Conversation`, so nothing that happens to one affects another.
As with a conversation, everything that changes a comparison runs on the toolkit's
thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ..._text import check_text
from ...api.errors import ApiError
from ...client import agent_list
from ...events import loop
from ...events.turns import Failure, Turn
from ...live.listeners import Listeners
from ..model.conversation import Conversation
from ..model.exchange import Exchange
from ..model.feed import Follow
from ..model.session_list import SessionEntry, note_comparison
from ..model.start import distinct
from ..model.user_errors import UserError

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

TIE, NONE = "tie", "none"
EXAMPLE = 'ab.Compare(client, workspace="acme~lab", agents=["guide", "echo"])'
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Choice = int | str | None
SessionIds = tuple[str | None, ...]  # of each side
Listener = Callable[[Exchange | None], None]


@dataclass(slots=True, eq=False)
class Round:
    """One message and the replies of all sides.

    Attributes
    ----------
    number : int
        Counts from 1.
    message : str
    exchanges : list of Exchange
        In the order of the sides; after a retry the newest attempt.
    order : list of int
        The side in each column.
    blind : bool
        Whether the names were hidden until there was a preference.
    preferred : int or str or None
        The side, ``"tie"``, ``"none"``, or None without a preference.
    preferred_at : datetime or None
        UTC.
    revealed : bool
        Whether the names have been shown.
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
    def complete(self) -> bool:
        """Whether no reply is pending."""
        return not any(exchange.pending for exchange in self.exchanges)

    def allows(self, choice: Choice) -> bool:
        """Whether this choice is possible now.

        Possible choices are an answered side, a tie of two or more, none of them, or
        None to take a preference back.
        """
        answered = [exchange.status == "answered" for exchange in self.exchanges]
        if not self.complete:
            return False
        if isinstance(choice, int):
            return 0 <= choice < len(answered) and answered[choice]
        return sum(answered) >= 2 if choice == TIE else choice in (NONE, None)


@dataclass(eq=False)
class Comparison:
    """Several agents that get the same messages.

    Parameters
    ----------
    conversations : list of Conversation
        One per side.
    blind : bool
        Shuffle the columns of each round, and hide the names until there is a
        preference.
    seed : int, optional
        Seed of the shuffling; None for a different order each time.
    """

    conversations: list[Conversation]
    blind: bool = False
    seed: int | None = None
    rounds: list[Round] = field(default_factory=list)
    recorded: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - an order of columns, no secret
        self._listeners = Listeners[[Exchange | None]]()
        self._left: dict[SessionIds, list[Round]] = {}  # the rounds of sessions that were shown before
        self._noted: list[str] = []  # the sessions that are known to be one comparison
        for conversation in self.conversations:
            conversation.listen(self._note)

    @classmethod
    def start(
        cls,
        client: Client | AsyncClient,
        workspace: Any,
        agents: Sequence[Any],
        *,
        blind: bool = False,
        seed: int | None = None,
        follow: Follow | None = None,
    ) -> Comparison:
        """A comparison whose sides each start a session in `workspace`."""
        sides = [Conversation(client, workspace=workspace, agent=agent, follow=follow) for agent in agents]
        return cls(sides, blind, seed)

    def _note(self, exchange: Exchange | None) -> None:
        started = [side.session_id for side in self.conversations if side.session_id]
        if len(started) > 1 and started != self._noted and not self.recorded:
            self._noted = started
            loop.submit(asyncio.to_thread(note_comparison, started))
        self._listeners.notify(exchange)

    def listen(self, listener: Listener) -> None:
        """Call `listener` on the loop's thread after each change; it must be quick.

        It gets the exchange that has changed, or None if something else has.
        """
        self._listeners.add(listener)

    # State

    @property
    def labels(self) -> list[str]:
        """The label of each side: the agent's name, numbered if it is not unique."""
        names = [side.agent_name or _short_name(side.agent) for side in self.conversations]
        totals = Counter(names)
        numbers: Counter[str] = Counter()
        labels = []
        for name in names:
            numbers[name] += 1
            labels.append(name if totals[name] == 1 else f"{name} #{numbers[name]}")
        return labels

    def shown_labels(self, round_: Round) -> list[str]:
        """The label of each side in a round: a letter while the names are hidden."""
        labels = self.labels
        if round_.blind:
            for column, side in enumerate(round_.order):
                letter = LETTERS[column] if column < len(LETTERS) else str(column + 1)
                labels[side] = f"{letter} · {labels[side]}" if round_.revealed else letter
        return labels

    def earlier_attempts(self, round_: Round, side: int) -> list[Exchange]:
        """Attempts of a side before a retry, oldest first: those that have text."""
        exchanges, last = self.conversations[side].exchanges, round_.exchanges[side]
        if last not in exchanges:
            return []
        shown = {exchange for each in self.rounds for exchange in each.exchanges[side : side + 1]}
        attempts = []
        for exchange in reversed(exchanges[: exchanges.index(last)]):
            if exchange in shown or exchange.prompt != round_.message:
                break
            attempts.append(exchange)
        return [exchange for exchange in reversed(attempts) if exchange.text]

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges of all sides whose reply is pending."""
        return [exchange for side in self.conversations for exchange in side.pending]

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return any(side.state == "closed" for side in self.conversations)

    @property
    def start_errors(self) -> list[UserError]:
        """Why sides cannot start or read their sessions, as far as that is known."""
        errors = (error for side in self.conversations for error in (*side._start_errors, side.error) if error)
        return [] if self.rounds else distinct(errors)

    async def read_start(self) -> None:
        """Check whether the agents and the workspace exist; raises nothing."""
        await asyncio.gather(*(side._read_welcome() for side in self.conversations))

    # Earlier comparisons

    def find_earlier(self, search: str) -> list[tuple[SessionEntry, SessionIds]]:
        """The comparisons of this widget: an entry, and the session of each side."""
        current = tuple(side.session_id for side in self.conversations)
        known = {ids[0]: ids for ids in (*self._left, current)}
        entries = self.conversations[0].find_sessions(search, limit=0)
        found = [(entry, known[entry.session_id]) for entry in entries if entry.session_id in known]
        return [(replace(entry, is_current=ids == current, compared=False), ids) for entry, ids in found]

    async def open(self, session_ids: SessionIds) -> None:
        """Continue a comparison that was left; without sessions, begin a new one."""
        if self.rounds:
            self._left[tuple(side.session_id for side in self.conversations)] = self.rounds
        await asyncio.gather(
            *(
                side.new_session() if session_id is None else side.attach(session_id)
                for side, session_id in zip_longest(self.conversations, session_ids)
            )
        )
        self.rounds = self._left.get(session_ids, [])
        self._listeners.notify(None)

    # Messages

    def submit(self, text: str) -> Round:
        """Send a message to every side, without waiting; call it on the loop's thread.

        Raises
        ------
        TypeError, ValueError
            As `Compare.ask`.
        """
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self.closed or self.recorded:
            raise ValueError("This comparison is closed or a recording: nothing can be sent to it.")
        order = list(range(len(self.conversations)))
        if self.blind:
            self._random.shuffle(order)
        exchanges = [side.submit(text) for side in self.conversations]
        round_ = Round(len(self.rounds) + 1, text, exchanges, order, self.blind, revealed=not self.blind)
        self.rounds.append(round_)
        self._listeners.notify(None)
        return round_

    async def wait(self, round_: Round, timeout_s: float | None = None) -> dict[str, Turn]:
        """The turn of each side, once all have answered, failed or stopped.

        After `timeout_s` seconds it stops waiting: the turns of the remaining sides are
        open, and late replies still appear.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while pending := [_future(each) for each in round_.exchanges if not each.finished.done()]:
                    await asyncio.wait(pending)
        except TimeoutError:
            self.stop(round_)
        except asyncio.CancelledError:
            self.stop(round_)
            raise
        return {label: final_turn(exchange) for label, exchange in zip(self.labels, round_.exchanges, strict=False)}

    async def retry(self, exchange: Exchange) -> None:
        """Try one side's failed or stopped exchange again, and no other side's."""
        position = self._find(exchange)
        if position is None or exchange.status not in ("failed", "stopped") or self.recorded:
            return
        round_, side = position
        conversation = self.conversations[side]
        if (conversation.pending and not exchange.awaits_reply) or conversation.state == "closed":
            return
        known = set(conversation.exchanges)

        def adopt(changed: Exchange | None) -> None:
            if changed is not None and changed not in known and changed.ours and changed.prompt == round_.message:
                round_.exchanges[side] = changed

        end = conversation.listen(adopt)
        try:
            await conversation.retry(exchange)
        finally:
            end()
            self._listeners.notify(None)

    def _find(self, exchange: Exchange) -> tuple[Round, int] | None:
        for round_ in self.rounds:
            if exchange in round_.exchanges:
                return round_, round_.exchanges.index(exchange)
        return None

    def stop(self, round_: Round | None = None) -> None:
        """Stop waiting, for one round or for all.

        The agents may still finish; late replies appear when they come.
        """
        exchanges = set(round_.exchanges) if round_ is not None else None
        for side in self.conversations:
            for exchange in side.pending:
                if exchanges is None or exchange in exchanges:
                    side.stop(exchange)

    async def aclose(self) -> None:
        """Stop listening. The sessions themselves continue."""
        for side in self.conversations:
            with contextlib.suppress(Exception):
                await side.aclose()

    # Preferences

    def prefer(self, round_: Round, choice: Choice) -> None:
        """Store a preference: a side, ``"tie"``, ``"none"``, or None to take it back.

        Raises
        ------
        ValueError
            If that side has not answered, or replies are pending.
        """
        if not round_.allows(choice):
            raise ValueError(
                f"Round {round_.number} does not allow that: wait for its replies, then prefer a side that has "
                "answered, or 'tie' (of two or more), or 'none'."
            )
        round_.preferred = choice
        round_.preferred_at = None if choice is None else datetime.now(UTC)
        round_.revealed = round_.revealed or choice is not None
        self._listeners.notify(None)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(repr, self.labels))}; {len(self.rounds)} rounds)"


def check_sides(workspace: Any, agents: Any) -> list[Any]:
    """Validate the arguments of `Compare`; returns the agents."""
    if isinstance(workspace, list | tuple | set | frozenset) or hasattr(workspace, "columns"):
        raise TypeError(f"Compare starts its sessions in one workspace, but workspace= lists several. Write {EXAMPLE}.")
    sides = agent_list(agents)
    if len(sides) < 2:
        raise ValueError(f"Compare needs at least two agents. Write {EXAMPLE}. An agent may occur more than once.")
    if workspace is None:
        raise ValueError(f"Compare needs a workspace, where the sessions are started. Write {EXAMPLE}.")
    return sides


def _future(exchange: Exchange) -> asyncio.Future[Turn]:
    future = asyncio.wrap_future(exchange.finished)
    # The column shows any error; reading it here avoids asyncio's warning about an
    # error that was never retrieved.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def final_turn(exchange: Exchange) -> Turn:
    """The turn of an exchange; a refused message or a lost session is a failed turn."""
    turn = exchange.turn
    if exchange.status != "failed" or turn.status != "open":
        return turn
    error = exchange.finished.exception() if exchange.finished.done() and not exchange.finished.cancelled() else None
    status = error.status if isinstance(error, ApiError) else None
    return replace(
        turn, status="failed", failure=Failure(exchange.reason or "The platform sent no reason.", "error", status)
    )


def _short_name(agent: Any) -> str:
    return f"agent …{str(agent)[-8:]}" if agent is not None else "agent"
