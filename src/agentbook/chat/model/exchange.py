"""One question and what became of it, as the person who asked sees it: a turn, plus our own side of sending and waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field

from ...api.event_ids import is_persisted
from ...events.turns import Event, Turn, opens_turn
from .user_errors import UserError

_KNOWN_TYPES = ("runtime_done", "runtime_error", "runtime_draft", "message")


@dataclass(slots=True)
class Step:
    """A subtask or tool run of a turn; `name` is empty where no draft told it."""

    task_id: str
    name: str
    done: bool = False


@dataclass(slots=True, eq=False)
class Exchange:
    """A question asked, its turn and how far it has come.

    Attributes
    ----------
    turn : Turn
        The turn as the platform's events tell it. Until the message is seen among them, one of our own that holds the prompt.
    bound : bool
        Whether the question was seen among the session's events.
    ours : bool
        Whether it was asked here.
    posted : bool
        Whether the message may have reached the platform: only then can an event of the session be it.
    phase : str
        Our side: ``"sending"``, ``"waiting"``, ``"stopped"`` (nobody here waits any more), ``"refused"`` (not taken by the
        platform), ``"lost"`` (the connection broke while waiting).
    finished : concurrent.futures.Future of Turn
        Resolves when the turn is answered, failed or stopped; raises if the message was refused or the connection lost.
    steps : list of Step
    time_to_first_event_s, time_to_reply_s : float or None
        Seconds from sending, by this computer's monotonic clock; for turns not asked here the reply's alone, by the
        platform's times.
    other_types : dict
        Event types this package does not know, with their number.
    """

    turn: Turn
    ours: bool = False
    bound: bool = True
    posted: bool = False
    phase: str = "waiting"
    sent: float | None = None
    trouble: UserError | None = None
    request_id: str | None = None
    steps: list[Step] = field(default_factory=list)
    finished: Future[Turn] = field(default_factory=Future)
    time_to_first_event_s: float | None = None
    time_to_reply_s: float | None = None
    other_types: dict[str, int] = field(default_factory=dict)
    drafted: bool = False
    posting: asyncio.Task[None] | None = None
    _stopped_at: str = ""

    @property
    def prompt(self) -> str:
        """What was asked."""
        return self.turn.prompt

    @property
    def text(self) -> str:
        """What the agent has said so far: the persisted reply, else the draft (as it stood when the person stopped it)."""
        if self.turn.text is not None:
            return self.turn.text
        return self._stopped_at if self.phase == "stopped" else self.turn.draft

    @property
    def status(self) -> str:
        """``sending``, ``waiting``, ``streaming``, ``stopped``, ``answered`` or ``failed``."""
        if self.turn.status != "open":
            return self.turn.status
        if self.phase in ("refused", "lost"):
            return "failed"
        if self.phase == "waiting" and (self.drafted or self.turn.draft):
            return "streaming"
        return self.phase

    @property
    def reason(self) -> str | None:
        """Why it failed, in words; None if it did not."""
        if self.turn.failure is not None:
            return self.turn.failure.message
        return self.trouble.text if self.trouble and self.status == "failed" else None

    @property
    def pending(self) -> bool:
        """Whether a reply is being waited for: asked here, or seen to be under way."""
        return self.turn.status == "open" and self.phase in ("sending", "waiting") and (self.ours or self.drafted)

    def take(self, event: Event, now: float) -> None:
        """Take in an event of this turn that the log has just been fed; `now` is monotonic."""
        persisted = is_persisted(event.get("id"))
        if not (persisted and opens_turn(event)):
            self.drafted = self.drafted or not persisted
            if self.sent is not None and self.time_to_first_event_s is None:
                self.time_to_first_event_s = now - self.sent
        kind = str(event.get("type"))
        if kind not in _KNOWN_TYPES:
            self.other_types[kind] = self.other_types.get(kind, 0) + 1
        self._follow_steps(event, persisted)
        if self.turn.status != "open" and self.time_to_reply_s is None:
            self.time_to_reply_s = now - self.sent if self.sent is not None else self.turn.latency_s
            self.trouble = None
        if self.turn.status != "open":
            self.settle()

    def _follow_steps(self, event: Event, persisted: bool) -> None:
        known = {step.task_id: step for step in self.steps}
        for task_id, name in self.turn.running.items():
            if task_id not in known:
                self.steps.append(Step(task_id, name))
        ended = self.turn.status != "open"
        for step in self.steps:
            step.done = step.done or ended or step.task_id not in self.turn.running
        task_id = str(event.get("task_id"))
        if persisted and event.get("type") == "runtime_done" and event.get("content") == {} and task_id not in known:
            self.steps.append(Step(task_id, "", done=True))

    def stop(self) -> None:
        """Wait no longer. The agent may still finish; what comes late is taken in all the same."""
        if self.posting is not None:
            self.posting.cancel()
        self._stopped_at, self.phase = self.turn.draft, "stopped"
        self.settle()

    def wait_again(self) -> None:
        """Undo `stop` and `fail`: the reply is waited for again."""
        self.phase, self.trouble = "waiting", None
        if self.finished.done():
            self.finished = Future()

    def fail(self, phase: str, trouble: UserError, error: BaseException) -> None:
        """The message was refused, or the connection lost."""
        self.phase, self.trouble = phase, trouble
        self.request_id = trouble.request_id or self.request_id
        if not self.finished.done():
            self.finished.set_exception(error)

    def settle(self) -> None:
        """Tell whoever waits that the turn is as far as it goes for now."""
        if not self.finished.done():
            self.finished.set_result(self.turn)
