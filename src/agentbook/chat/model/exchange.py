"""One question and its reply: a turn, plus our side of sending and waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ...api.span import is_persisted
from ...events.turns import Event, Turn, moment_of, opens_turn
from ...frames.analysis.turn_details import Step, add_details, usage_of
from .user_errors import UserError

_KNOWN_TYPES = ("runtime_done", "runtime_error", "runtime_draft", "message", "tool_started")


@dataclass(slots=True, eq=False)
class Exchange:
    """A question, its turn and its progress.

    Attributes
    ----------
    turn : Turn
        The turn as the platform's events describe it. Until the message appears among
        the events, this is a local turn that holds the prompt.
    confirmed : bool
        Whether the question has appeared among the session's events.
    ours : bool
        Whether this conversation asked the question.
    own : bool or None
        Whether the reader is the author of the question; None if that is not known.
    posted : bool
        Whether the message may have reached the platform. Only then can an event of the
        session belong to it.
    phase : str
        The state on this side: ``"sending"``, ``"waiting"``, ``"stopped"`` (no longer
        waiting), ``"refused"`` (rejected by the platform) or ``"lost"`` (the connection
        broke while waiting).
    sent_at : float or None
        When the person sent the message, by this computer's monotonic clock. A held
        message is posted later.
    error : UserError or None
        Why the message was refused or the connection lost.
    finished : concurrent.futures.Future of Turn
        Resolves when the turn is answered, failed or stopped. Raises if the message was
        refused or the connection lost.
    steps : list of Step
    time_to_first_event_s, time_to_reply_s : float or None
        Seconds from sending, by this computer's monotonic clock. Where nobody listened,
        as for turns asked elsewhere, only the time to the reply is known, from the
        platform's times.
    other_types : dict
        The number of events by type, for types that this package does not know.
    stopped_text : str
        The draft at the moment when the person stopped waiting.
    last_draft : str
        The draft just before the event that ended the turn.
    previous : Exchange or None
        An exchange that was stopped while the platform was still working on its turn.
        This exchange is answered after it.
    last_sign_at : float or None
        When its last event arrived or it was posted, by this computer's monotonic
        clock.
    unheard : bool
        Whether events may have come earlier than they were seen here, because nobody
        listened for a while.
    thumb : bool or None
        What the person here thinks of the reply: up, down, or nothing yet.
    usage : dict
        The model and the numbers of tokens of a turn that has ended, each None where
        the platform did not send it; see `usage_of`.
    cost : float or None
        In the currency of the conversation's prices; None if not known.
    """

    turn: Turn
    ours: bool = False
    own: bool | None = None
    confirmed: bool = True
    posted: bool = False
    phase: str = "waiting"
    sent_at: float | None = None
    error: UserError | None = None
    request_id: str | None = None
    steps: list[Step] = field(default_factory=list)
    finished: Future[Turn] = field(default_factory=Future)
    time_to_first_event_s: float | None = None
    time_to_reply_s: float | None = None
    other_types: dict[str, int] = field(default_factory=dict)
    drafted: bool = False
    posting: asyncio.Task[None] | None = None
    stopped_text: str = ""
    last_draft: str = ""
    previous: Exchange | None = None
    last_sign_at: float | None = None
    unheard: bool = False
    thumb: bool | None = None
    usage: dict[str, Any] = field(default_factory=lambda: usage_of(()))
    cost: float | None = None

    @property
    def prompt(self) -> str:
        """The question."""
        return self.turn.prompt

    @property
    def text(self) -> str:
        """The persisted reply, else the draft: the last one if stopped or failed."""
        if self.turn.text is not None:
            return self.turn.text
        if self.turn.status == "failed":
            return self.last_draft
        return self.stopped_text if self.phase == "stopped" else self.turn.draft

    @property
    def status(self) -> str:
        """One of ``sending waiting streaming stopped answered failed``."""
        if self.turn.status != "open":
            return self.turn.status
        if self.phase in ("refused", "lost"):
            return "failed"
        if self.phase == "waiting" and (self.drafted or self.turn.draft):
            return "streaming"
        return self.phase

    @property
    def reason(self) -> str | None:
        """Why the exchange failed; None if it did not."""
        if self.turn.failure is not None:
            return self.turn.failure.message
        return self.error.text if self.error and self.status == "failed" else None

    @property
    def pending(self) -> bool:
        """Whether a reply is expected: asked here, or seen to be in progress."""
        return self.turn.status == "open" and self.phase in ("sending", "waiting") and (self.ours or self.drafted)

    @property
    def waits_for_previous(self) -> bool:
        """Whether the platform is still working on a turn that was stopped before."""
        previous = self.previous
        return self.pending and not self.drafted and previous is not None and previous.turn.status == "open"

    @property
    def held(self) -> bool:
        """Whether it waits for the previous turn and has not been sent."""
        return self.waits_for_previous and not (self.posted or self.confirmed)

    @property
    def awaits_reply(self) -> bool:
        """Whether the platform has the question and may still answer it."""
        return self.confirmed and self.turn.status == "open"

    @property
    def unsent(self) -> bool:
        """Whether the person stopped it before it was sent."""
        return self.phase == "stopped" and self.ours and not (self.posted or self.confirmed)

    def waited_s(self, now: float) -> float:
        """Seconds since it was sent; 0 if it was sent elsewhere."""
        return 0.0 if self.sent_at is None else max(0.0, now - self.sent_at)

    def silent_s(self, now: float) -> float:
        """Seconds since the last sign of life: an event of the turn, or its sending."""
        signs = [at for at in (self.sent_at, self.last_sign_at) if at is not None]
        return max(0.0, now - max(signs)) if signs else 0.0

    @property
    def is_own(self) -> bool:
        """Whether the reader asked it, as far as that is known."""
        return self.ours or self.own is True

    def apply(self, event: Event, now: float, *, live: bool = True) -> None:
        """Update from an event that was just added to the turn.

        `now` is monotonic; `live` is whether the event arrived as it happened.
        """
        persisted = is_persisted(event.get("id"))
        self.last_sign_at = now
        if not (persisted and opens_turn(event)):
            self.drafted = self.drafted or not persisted
            if self.sent_at is not None and self.time_to_first_event_s is None and not self.unheard:
                self.time_to_first_event_s = self._seconds_until(event, now, live=live)
        if self.turn.status == "open":
            self.last_draft = self.turn.draft
        event_type = str(event.get("type"))
        if event_type not in _KNOWN_TYPES:
            self.other_types[event_type] = self.other_types.get(event_type, 0) + 1
        self._update_steps(event, persisted)
        if self.turn.status != "open":
            if self.time_to_reply_s is None:
                self.time_to_reply_s = self._seconds_until(event, now, live=live)
                self.error = None
            self.resolve()

    def _seconds_until(self, event: Event, now: float, *, live: bool) -> float | None:
        """Seconds from the question to an event: by the platform's times if unheard."""
        heard_s = None if self.sent_at is None or self.unheard else now - self.sent_at
        at, asked_at = moment_of(event), self.turn.asked_at
        # Without an event for the question, its time is that of this computer's clock.
        if (heard_s is not None and live) or self.turn.message_id is None or at is None or asked_at is None:
            return heard_s
        return (at - asked_at).total_seconds()

    def _update_steps(self, event: Event, persisted: bool) -> None:
        known = {step.task_id for step in self.steps}
        self.steps += [Step(task_id, name) for task_id, name in self.turn.running.items() if task_id not in known]
        ended = self.turn.status != "open"
        for step in self.steps:
            step.done = step.done or ended or step.task_id not in self.turn.running
        task_id = str(event.get("task_id"))
        if persisted and event.get("type") == "runtime_done" and event.get("content") == {} and task_id not in known:
            self.steps.append(Step(task_id, "", done=True))

        if ended:
            self.read_details()

    def read_details(self) -> None:
        """Add what the turn's events say about its steps and its tokens."""
        self.steps = add_details(self.steps, self.turn.events)
        self.usage = usage_of(self.turn.events)

    def stop(self) -> None:
        """Stop waiting. The agent may still finish; a late reply is still recorded."""
        if self.posting is not None:
            self.posting.cancel()
        self.stopped_text, self.phase, self.unheard = self.turn.draft, "stopped", True
        self.resolve()

    def wait_again(self, now: float | None = None) -> None:
        """Undo `stop` and `fail`: wait for the reply again, from `now` (monotonic)."""
        self.phase, self.error = "waiting", None
        self.last_sign_at = now if now is not None else self.last_sign_at
        if self.finished.done():
            self.finished = Future()

    def fail(self, phase: str, error: UserError, cause: BaseException) -> None:
        """Record that the message was refused or the connection lost."""
        self.phase, self.error, self.unheard = phase, error, True
        self.request_id = error.request_id or self.request_id
        if not self.finished.done():
            self.finished.set_exception(cause)

    def resolve(self) -> None:
        """Resolve `finished` with the turn as it stands."""
        if not self.finished.done():
            self.finished.set_result(self.turn)
