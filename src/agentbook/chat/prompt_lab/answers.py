"""Test inputs, and the answers of the variants to them, as objects and as a table.

Inputs come from a list, from a column, or from lines pasted from somewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.transcript import to_strings, typed
from ..text import check_text
from .checks import Check, Verdict

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
}
LAST_COLUMNS = ("passed", "check_error")


@dataclass(slots=True)
class Answer:
    """The answer of one variant to one input.

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
    verdicts : dict of str to Verdict
        By the name of the check; empty until there is a reply.
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
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.variant, self.input, self.repeat

    def judge(self, checks: Iterable[Check]) -> None:
        """Apply the checks that have no verdict yet."""
        if self.status == "answered" and self.reply is not None:
            for check in checks:
                if check.name not in self.verdicts:
                    self.verdicts[check.name] = check.judge(self.reply, self.input)

    def passed(self, names: Iterable[str]) -> bool | None:
        """Whether it passed all of these checks; None if that is not known."""
        verdicts = [self.verdicts.get(name, Verdict(None)).passed for name in names]
        if not verdicts or self.status != "answered":
            return None
        return False if False in verdicts else None if None in verdicts else True

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, ready for JSON."""
        data = asdict(self)
        data["asked_at"] = self.asked_at.isoformat() if self.asked_at is not None else None
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Answer:
        """The answer that `as_data` wrote."""
        known = {attribute.name for attribute in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        values["asked_at"] = datetime.fromisoformat(data["asked_at"]) if data.get("asked_at") else None
        values["verdicts"] = {name: Verdict(**verdict) for name, verdict in data.get("verdicts", {}).items()}
        if values.get("status") not in STATUSES:
            raise ValueError(f"Unknown status {values.get('status')!r}; the statuses are {', '.join(STATUSES)}.")
        return cls(**values)


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
        (check)      boolean                    a column per check: passed or not;
                                                missing without a reply
        (..)_score   float64                    of a check that returns scores
        passed       boolean                    whether it passed every check
        check_error  str                        why a check could not decide
        ===========  ===================  ====  ==================================

    Examples
    --------
    >>> frame = to_frame([Answer("brief", "Hi", status="answered", reply="Hello.")])
    >>> frame.loc[0, ["variant", "reply", "status"]].tolist()
    ['brief', 'Hello.', 'answered']
    """
    import pandas as pd

    scored = {name for each in answers for name, verdict in each.verdicts.items() if verdict.score is not None}
    columns: dict[str, Any] = {name: [getattr(each, name) for each in answers] for name in COLUMNS}
    frame = pd.DataFrame(columns, columns=list(COLUMNS), dtype=object)
    frame = typed(frame, {name: dtype for name, dtype in COLUMNS.items() if name != "status"})
    frame["status"] = pd.Categorical(frame["status"], categories=list(STATUSES))
    for name in checks:
        verdicts = [each.verdicts.get(name, Verdict(None)) for each in answers]
        frame[name] = pd.array([verdict.passed for verdict in verdicts], dtype="boolean")
        if name in scored:
            frame[f"{name}_score"] = pd.array([verdict.score for verdict in verdicts], dtype="float64")
    frame["passed"] = pd.array([each.passed(checks) for each in answers], dtype="boolean")
    frame["check_error"] = to_strings(pd.Series([_errors(each, checks) for each in answers], dtype=object))
    return frame


def _errors(answer: Answer, checks: Sequence[str]) -> str | None:
    verdicts = ((name, answer.verdicts.get(name)) for name in checks)
    return "; ".join(f"{name}: {verdict.error}" for name, verdict in verdicts if verdict and verdict.error) or None


# The form has one input per line; it shows a line break within an input as this sign.
BREAK = "⏎"


def read_inputs(inputs: Any) -> list[str]:
    r"""The inputs as strings in order, without repeats and empty ones.

    Parameters
    ----------
    inputs : str, iterable of str, Series or DataFrame
        A string holds one input per line; the bullets and numbers of pasted lists are
        removed. A DataFrame needs a column ``input``.

    Raises
    ------
    ValueError
        If there are no inputs, one is not valid Unicode, a frame has no such column, or
        the string is the name of a file.
    TypeError
        If an input is not a string.

    Examples
    --------
    >>> read_inputs("What is a session?\n\n- Where is my key?\n- Where is my key?\n")
    ['What is a session?', 'Where is my key?']
    >>> read_inputs(["one\ninput of two lines", "another"])
    ['one\ninput of two lines', 'another']
    """
    if isinstance(inputs, str) and _is_file(inputs):
        raise ValueError(f"{inputs!r} is a file, not an input: pass its content, such as Path({inputs!r}).read_text().")
    values = _lines(inputs) if isinstance(inputs, str) else _values(inputs)
    texts = [text for value in values if (text := check_text(value, f"The input {value!r}").strip())]
    if not texts:
        raise ValueError("There are no inputs: pass a list of strings, a text with one input per line, or a column.")
    return list(dict.fromkeys(texts))


def parse_inputs(text: str) -> list[str]:
    """The inputs in a text area, one per line; there may be none."""
    return list(dict.fromkeys(line.replace(BREAK, "\n") for line in _lines(text)))


def format_inputs(inputs: Iterable[str]) -> str:
    """Inputs as the text that `parse_inputs` reads."""
    return "\n".join(text.replace("\n", BREAK) for text in inputs)


def _is_file(text: str) -> bool:
    """Whether a string is the name of a file rather than a question."""
    try:
        return len(text.split()) == 1 and Path(text.strip()).is_file()
    except (OSError, ValueError):  # too long, or not a name
        return False


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := _strip_bullet(line.strip()))]


def _strip_bullet(line: str) -> str:
    marker, _, rest = line.partition(" ")
    numbered = marker[:-1].isdigit() and marker[-1:] in (".", ")")
    return rest.strip() if rest and (marker in ("-", "*", "•") or numbered) else line


def _values(inputs: Any) -> Iterable[Any]:
    if hasattr(inputs, "columns"):
        if "input" not in inputs.columns:
            columns = ", ".join(map(str, inputs.columns)) or "none"
            raise ValueError(
                f"A frame of inputs needs a column 'input'; it has {columns}. Pass one of its columns: frame[name]."
            )
        inputs = inputs["input"]
    if hasattr(inputs, "dropna"):
        inputs = inputs.dropna().tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise TypeError(f"Inputs must be strings, a column or lines, not {type(inputs).__name__}.")
    return inputs
