"""The answers of the variants to the inputs, as objects and as a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..frames.analysis.prices import PriceTable, cost_of
from ..frames.analysis.turn_details import COUNTS
from ..frames.tabular import to_strings, typed
from .asserts import grade_check
from .check import Check
from .model import Grade, Reply, Step

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("asking", "answered", "failed", "stopped")
Key = tuple[str, str, int]

# column -> dtype; the columns of the checks follow.
COLUMNS = {
    "variant": "str",
    "agent": "str",
    "version": "str",
    "input": "str",
    "repeat": "int64",
    "reply": "str",
    "latency_s": "float64",
    "status": "category",
    "reason": "str",
    "session_id": "str",
    "request_id": "str",
    "asked_at": "datetime64[us, UTC]",
    "model": "str",
    "tokens": "Int64",
    "cost": "float64",
    "finish_reason": "str",
    "run_at": "datetime64[us, UTC]",
}
LAST_COLUMNS = ("passed", "check_error", "thumb", "note")


@dataclass(slots=True)
class Answer:
    """The answer of one variant to one input.

    Of a conversation, `reply` is the last one, `latency_s` is that of the slowest, and
    steps, tokens and cost are those of all turns.

    Attributes
    ----------
    variant, input : str
    repeat : int
        Counts from 1; the same input may be asked several times.
    status : {"asking", "answered", "failed", "stopped"}
    reason : str or None
        Why it failed, in words.
    still_open : bool
        Whether the agent may still finish the turn. If so, the next run looks for the
        reply in the session before it asks again.
    latency_s : float or None
        Seconds from sending to the reply.
    verdicts : dict of str to Grade
        By the name of the check; empty until there is a reply.
    steps : list of Step or None
        What the agent ran before it replied, such as tools; None if not known.
    model : str or None
        The model that answered, if the platform says so.
    input_tokens, output_tokens, tokens : int or None
        What the reply used, if the platform says so.
    thumb : bool or None
        What a person thinks of the reply: up, down, or nothing yet.
    note : str or None
        What a person wrote about it.
    message : str or None
        What was sent, if that is not the input itself (see `inputs.Input`).
    row : dict
        The row that the input comes from: its values by column.
    cost : float or None
        In the currency of the prices; None if not known.
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``; None if not known.
    turns : list of Reply
        Those of a conversation, as far as it got; empty for a single question.
    run_at : datetime or None
        When the run that asked it began; the same for all that it asked.
    """

    variant: str
    input: str
    repeat: int = 1
    status: str = "asking"
    agent: str | None = None
    version: str | None = None
    reply: str | None = None
    reason: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    asked_at: datetime | None = None
    latency_s: float | None = None
    still_open: bool = False
    verdicts: dict[str, Grade] = field(default_factory=dict)
    steps: list[Step] | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    thumb: bool | None = None
    note: str | None = None
    message: str | None = None
    row: dict[str, Any] = field(default_factory=dict)
    cost: float | None = None
    finish_reason: str | None = None
    turns: list[Reply] = field(default_factory=list)
    run_at: datetime | None = None

    @property
    def question(self) -> str:
        """What was sent."""
        return self.input if self.message is None else self.message

    @property
    def shown(self) -> str:
        """The reply, or all of a conversation, as Markdown."""
        said = ((turn.prompt.replace("\n", "\n> "), turn.text) for turn in self.turns)
        return "\n\n".join(f"> {message}\n\n{reply}" for message, reply in said) or self.reply or ""

    def cost_by(self, prices: PriceTable) -> float | None:
        """What it costs by these prices; None if not known."""
        return cost_of({name: getattr(self, name) for name in ("model", *COUNTS)}, prices)

    @property
    def key(self) -> Key:
        return self.variant, self.input, self.repeat

    def as_reply(self) -> Reply:
        """What a check may know about it."""
        values, prompt = {"input": self.question, **self.row}, self.turns[-1].prompt if self.turns else self.question
        return Reply(self.reply or "", self.latency_s, self.cost, prompt, values, self.input, self.steps, self.turns)

    def judge(self, checks: Iterable[Check]) -> None:
        """Apply the checks that have no grade yet, except those that ask a judge."""
        if self.status == "answered" and self.reply is not None:
            for check in checks:
                if check.name not in self.verdicts and check.is_local:
                    self.verdicts[str(check.name)] = grade_check(check, self.as_reply())

    def passed(self, names: Iterable[str]) -> bool | None:
        """Whether it passed all of these checks; None if not known."""
        verdicts = [self.verdicts.get(name, Grade(None)).passed for name in names]
        if not verdicts or self.status != "answered":
            return None
        return False if False in verdicts else None if None in verdicts else True

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, ready for JSON."""
        data = {name: getattr(self, name) for name in _FIELDS}  # asdict would copy more than needed
        data["verdicts"] = {name: verdict.as_data() for name, verdict in list(self.verdicts.items())}
        data["row"] = dict(self.row)
        data["turns"] = [{name: getattr(turn, field) for name, field in _TURN.items()} for turn in self.turns]
        for name in _TIMES:
            data[name] = data[name].isoformat() if data[name] is not None else None
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Answer:
        """The answer that `as_data` wrote."""
        known = {attribute.name for attribute in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        for name in _TIMES:
            values[name] = datetime.fromisoformat(data[name]) if data.get(name) else None
        values["steps"] = _steps(data)
        turns = [{**turn, "steps": _steps(turn)} for turn in data.get("turns", ())]
        values["turns"] = [Reply(**{_TURN[name]: value for name, value in turn.items()}) for turn in turns]
        values["verdicts"] = {name: Grade(**verdict) for name, verdict in data.get("verdicts", {}).items()}
        if values.get("status") not in STATUSES:
            raise ValueError(f"Unknown status {values.get('status')!r}; the statuses are {', '.join(STATUSES)}.")
        wrong = [name for name in _TEXTS if not isinstance(values.get(name), str | None)]
        wrong += [name for name in ("latency_s", "cost") if not _is_amount(values.get(name))]
        if wrong:
            raise ValueError(f"The {wrong[0]} of an answer cannot be {values[wrong[0]]!r}.")
        return cls(**values)


def _steps(data: Mapping[str, Any]) -> list[Step] | None:
    steps = data.get("steps")  # a number, as earlier versions wrote it, does not say which
    return [Step(*each) for each in steps] if isinstance(steps, list) else None


_FIELDS = tuple(attribute.name for attribute in fields(Answer))
_TIMES = ("asked_at", "run_at")
# The fields of a turn in data, and those of a `Reply`.
_TURN = {"message": "prompt", "reply": "text"}
_TURN |= {name: name for name in ("latency_s", "cost", "session_id", "steps", "finish_reason")}
_TEXTS = tuple(attribute.name for attribute in fields(Answer) if attribute.type in ("str", "str | None"))


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value <= sys.float_info.max)


def to_frame(answers: Sequence[Answer], checks: Sequence[str] = ()) -> pd.DataFrame:
    """Answers as a tidy DataFrame.

    Parameters
    ----------
    answers : sequence of Answer
    checks : sequence of str
        Names of the checks that get a column.

    Returns
    -------
    DataFrame
        One row per variant, input and repeat. An empty frame has the same dtypes.

        ===========  ===================  ====  ==================================
        column       dtype                unit  meaning
        ===========  ===================  ====  ==================================
        variant      str                        name of the variant
        agent        str                        the agent that answered
        version      str                        version number the agent had
        input        str
        repeat       int64                      counts from 1
        reply        str                        missing until there is one
        latency_s    float64              s     from sending to the reply
        status       category                   answered, failed, stopped; asking
                                                during a run
        reason       str                        why it failed
        session_id   str                        where it was asked
        request_id   str                        id of the refused request
        asked_at     datetime64[us, UTC]        when it was asked
        model        str                        language model, where the platform
                                                sends it; so the next two
        tokens       Int64                      that the model read and wrote
        cost         float64                    with ``prices=``, in their currency
        finish_reason str                       why the model stopped writing, such as
                                                ``length``, where the platform says so
        run_at       datetime64[us, UTC]        when the run that asked it began
        (check)      boolean                    a column per check: passed or not;
                                                missing without a reply
        (..)_score   float64                    of a check that returns scores; missing
                                                where it could not decide
        (..)_reason  str                        of a check that gives reasons
        (..)_judge   str                        the agent that judged, its version, and
                                                the version of its prompt
        passed       boolean                    whether it passed every check
        check_error  str                        why a check could not decide
        thumb        boolean                    what a person thinks of the reply
        note         str                        what a person wrote about it
        (column)     object                     of the rows that inputs come from;
                                                ``input_…`` if the name is taken
        ===========  ===================  ====  ==================================

    Examples
    --------
    >>> frame = to_frame([Answer("brief", "Hi", status="answered", reply="Hello.")])
    >>> frame.loc[0, ["variant", "reply", "status"]].tolist()
    ['brief', 'Hello.', 'answered']
    """
    import pandas as pd

    verdicts_by_name = [pair for each in answers for pair in each.verdicts.items()]
    scored = {name for name, verdict in verdicts_by_name if verdict.known_score is not None}
    reasoned = {name for name, verdict in verdicts_by_name if verdict.reason is not None}
    judged = {name for name, verdict in verdicts_by_name if verdict.judge is not None}
    columns: dict[str, Any] = {name: [getattr(each, name) for each in answers] for name in COLUMNS}
    dtypes = dict(COLUMNS)
    for name in checks:
        verdicts = [each.verdicts.get(name, Grade(None)) for each in answers]
        columns[name], dtypes[name] = [verdict.passed for verdict in verdicts], "boolean"
        if name in scored:
            columns[f"{name}_score"], dtypes[f"{name}_score"] = [each.known_score for each in verdicts], "float64"
        if name in reasoned:
            columns[f"{name}_reason"], dtypes[f"{name}_reason"] = [each.reason for each in verdicts], "str"
        if name in judged:
            columns[f"{name}_judge"], dtypes[f"{name}_judge"] = [each.judge for each in verdicts], "str"
    columns["passed"] = [each.passed(checks) for each in answers]
    columns["check_error"] = [_errors(each, checks) for each in answers]
    columns |= {name: [getattr(each, name) for each in answers] for name in ("thumb", "note")}
    dtypes |= {"passed": "boolean", "check_error": "str", "thumb": "boolean", "note": "str"}
    frame = typed(pd.DataFrame(columns, dtype=object), dtypes, {"status": STATUSES})
    for name in dict.fromkeys(name for each in answers for name in each.row):
        values = pd.Series([each.row.get(name) for each in answers], dtype=object).infer_objects()
        frame[f"input_{name}" if name in frame else name] = to_strings(values) if values.dtype == object else values
    return frame


def _errors(answer: Answer, checks: Sequence[str]) -> str | None:
    verdicts = ((name, answer.verdicts.get(name)) for name in checks)
    return "; ".join(f"{name}: {verdict.error}" for name, verdict in verdicts if verdict and verdict.error) or None
