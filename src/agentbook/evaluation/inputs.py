"""Test inputs: the texts that every variant gets, and the rows they come from.

Inputs come from a list, from a column, from lines pasted from somewhere, from turns of
a history, or from a template that is filled from the rows of a table.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .._masking import mask_text
from .._text import check_text, clip
from ..client import is_uuid
from .asserts import require_columns
from .check import OWN, Check
from .check import named as named_check
from .conversations import SimulatedUser, read_messages
from .template import fill, protected

if TYPE_CHECKING:
    import pandas as pd

    from .variant import Variant

Row = Mapping[str, Any]

# The form has one input per line; it shows a line break within an input as this
# character.
BREAK = "⏎"
OWN_COLUMN = "own check"  # of checks that an input has of its own, if they have no names
NEXT = "\n→ "  # between the messages of a conversation, in its name
# Columns whose texts are inputs: in a table of inputs, and in `ab.turns(texts=True)`.
INPUT, PROMPT = "input", "prompt"


# What is kept from a turn besides its question. Who asked it is not kept.
KEPT = ("session_id", "turn", "message_id", "asked_at", "status", "failure", "agent", "workspace", "reply")
# What says where it comes from.
ORIGIN = ("session_id", "message_id", "turn", "asked_at", "agent")
# What people and agents wrote; it is masked: a test set is stored, shared and sent to
# models.
TEXTS = ("prompt", "reply", "failure")


@dataclass(frozen=True, slots=True)
class Input:
    """One input.

    Attributes
    ----------
    text : str
        Its name in tables: the message, and the values that distinguish it from other
        inputs with the same message.
    message : str
        What is sent.
    row : mapping
        The row it comes from: values by column, as JSON has them.
    origin : mapping of str to str
        Of a past turn: its session, message, turn, time and agent.
    masked : tuple of str
        What was masked in a past turn, in words.
    then : tuple of str
        Further messages of a conversation, sent in the same session after each reply.
    user : SimulatedUser or None
        Writes all messages; `message` is what it is told.
    checks : tuple of Check
        Of its replies only, besides those of the lab.
    times : int
        How often it was passed. A run asks it once for each of its repeats.
    """

    text: str
    message: str
    row: Row = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    user: SimulatedUser | None = None
    checks: tuple[Check, ...] = ()
    times: int = field(default=1, compare=False)

    @property
    def label(self) -> str:
        """What tables call it if no other input is like it."""
        return NEXT.join([self.message.strip(), *self.then]) or "(no text)"


class InputSet:
    """The inputs of an experiment.

    Attributes
    ----------
    texts : list of str
        Their names in tables. Texts without a row may be added.
    own : dict of str to Check
        By name: the checks that inputs have of their own.
    source : object
        Where they were read, as long as they are the same: for `file.lab_data`.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._inputs: dict[str, Input] = {}
        self.own: dict[str, Check] = {}
        self.source: Any = None

    def find(self, text: str) -> Input:
        """The input that tables call `text`.

        Raises
        ------
        ValueError
            If it has a name in braces and no row.
        """
        return self._inputs.get(text) or Input(text, _filled(text, {}))

    def known(self, text: str) -> Input:
        """The input that tables call `text`, unfilled if it was only typed."""
        return self._inputs.get(text) or Input(text, text)

    def fill(
        self, inputs: Any, rows: Any, variants: Sequence[Variant], checks: Iterable[Check] = (), *, mask: bool = True
    ) -> list[Input]:
        """The inputs that these variants would be asked; nothing is changed.

        Without `inputs` and `rows`, the current ones. With `mask`, past turns are
        masked. Each has the columns that variants and checks name.

        Raises
        ------
        TypeError, ValueError, OSError
            If they cannot be read, or a name in braces has no column.
        """
        if inputs is None and rows is None:
            filled = [self.find(text) for text in self.texts]
        else:
            filled = combine(inputs, rows, [name for variant in variants for name in variant.names], mask=mask)
        templates = [variant for variant in variants if variant.names]
        for each in filled:
            for variant in templates:
                variant.filled(each.row)
            for check in (*checks, *each.checks):
                require_columns(check, {INPUT: each.message, **each.row})
        return filled

    def use(self, inputs: Iterable[Input]) -> None:
        """Replace the inputs with these."""
        self._inputs = {each.text: each for each in inputs}
        self.texts, self.source = list(self._inputs), None
        self._collect()

    def add(self, inputs: Iterable[Input | str]) -> None:
        """Add inputs; one that is there already stays as it is.

        A text is sent as it is: what people wrote is not a template.
        """
        for each in inputs:
            each = Input(each, each) if isinstance(each, str) else each
            self._inputs.setdefault(each.text, each)
            if each.text not in self.texts:
                self.texts.append(each.text)
        self.source = None
        self._collect()

    def judged_by(self, agent: str | None) -> None:
        """Give this judge to those checks of inputs that name none."""
        for text, each in self._inputs.items():
            self._inputs[text] = replace(each, checks=tuple(check.judged_by(agent) for check in each.checks))
        self._collect()

    def _collect(self) -> None:
        found: dict[str, dict[str, Check]] = {}
        for each in self._inputs.values():
            columns = numbered(OWN_COLUMN, "{} {}")
            for check in each.checks:
                name = next(columns) if check == named_check(replace(check, name=None)) else str(check.name)
                found.setdefault(name, {})[each.text] = check
        self.own = {name: Check(OWN, checks, name=name) for name, checks in found.items()}

    def copy(self) -> InputSet:
        """A copy; the inputs themselves do not change."""
        copy = InputSet()
        copy.texts, copy._inputs = list(self.texts), dict(self._inputs)
        copy.own, copy.source = self.own, self.source
        return copy


def combine(inputs: Any, rows: Any = None, names: Sequence[str] = (), *, mask: bool = True) -> list[Input]:
    r"""The inputs of a run.

    Every row is an input, also one that differs only in a reference answer. What is the
    same in all columns is one input, with its number of `times`; so are past turns with
    the same question.

    Parameters
    ----------
    inputs : str, iterable of str, Series, table, path of a CSV file, turns or None
        As for `read_inputs`. A list in a list holds the messages of a conversation. One
        word that ends in ``.csv`` is a path. With `rows`, each is filled from each row;
        None stands for the column ``input`` of the rows. The texts of turns are never
        templates.
    rows : table, path of a CSV file, or list of dict, optional
        The values of the names in braces.
    names : sequence of str
        The names that prompts use. Of several rows with the same message, they say
        which is which, if they can; else all columns that differ do.
    mask : bool
        Whether past turns are masked, as `read_turns` does.

    Raises
    ------
    ValueError
        As `read_inputs`; or if a name in braces has no column.
    TypeError, OSError

    Examples
    --------
    >>> rows = [{"topic": "tides"}, {"topic": "rain"}]
    >>> [each.message for each in combine("Explain {{topic}}.", rows)]
    ['Explain tides.', 'Explain rain.']
    >>> [each.text for each in combine("Explain it.", rows, names=["topic"])]
    ['Explain it. [topic: tides]', 'Explain it. [topic: rain]']
    """
    if rows is None and (isinstance(inputs, PathLike) or _is_csv(inputs)):
        inputs, rows = None, inputs
    if rows is None and _holds_turns(inputs):
        return read_turns(inputs, mask=mask)
    if inputs is None or (rows is None and _is_table(inputs)):
        records = _records(inputs if rows is None else rows)
        if records and INPUT not in records[0] and PROMPT in records[0]:
            return _turn_inputs(records, masks=mask)
        pairs = _from_table(records)
    elif isinstance(inputs, list | tuple) and any(isinstance(each, list | tuple) for each in inputs):
        table = [{}] if rows is None else _records(rows)
        made: list[Input] = []
        for item in inputs:
            is_talk = isinstance(item, list | tuple)
            made += [talk(item, row) for row in table] if is_talk else combine([item], rows, names, mask=mask)
        return named(made, names)
    else:
        table = [{}] if rows is None else _records(rows)
        are_turns = bool(table) and {PROMPT, "session_id"} <= table[0].keys()
        if mask and are_turns:
            table = [mask_row(row) for row in table]
        pairs = [(_filled(text, row), row) for text in _texts(inputs) for row in table]
        if are_turns:  # equal questions once, whatever was replied
            return _of_pairs(pairs, names, lambda each: (each.message, repr([each.row.get(name) for name in names])))
    return _of_pairs(pairs, names)


def talk(messages: Iterable[Any], row: Row | None = None, **others: Any) -> Input:
    """A conversation as an input: these messages in one session, filled from a row.

    Examples
    --------
    >>> talk(["I want {{what}}.", "Now."], {"what": "tea"}).message
    'I want tea.'
    """
    first, *then = (_filled(text, row or {}) for text in read_messages(messages))
    return Input("", first, row or {}, then=tuple(then), **others)


def read_turns(turns: Any, *, mask: bool = True) -> list[Input]:
    """Past turns as inputs: the one way in for them. Who asked is not kept.

    Parameters
    ----------
    turns : DataFrame, any other table, Turn, str, or iterable of these
        A table needs the column ``prompt``, as `ab.turns` has with ``texts=True``.
    mask : bool
        Whether keys, passwords, e-mail addresses and card numbers in the questions,
        replies and reasons are masked.

    Raises
    ------
    TypeError, ValueError
        If there is no question in them.
    """
    return _turn_inputs(_turn_records(turns), masks=mask)


def read_conversation(turns: Any, *, mask: bool = True) -> Input:
    """The questions of one session as an input, in their order.

    Raises
    ------
    TypeError, ValueError
        If there is no question in these turns, or they are of several sessions.
    """
    records = list(_turn_records(turns))
    sessions = {record.get("session_id") for record in records if record.get("session_id")}
    if len(sessions) > 1:
        raise ValueError(f"These turns are from {len(sessions)} sessions: pass one conversation at a time.")
    questions = [text for record in records if isinstance(text := record.get(PROMPT), str) and text.strip()]
    if not questions:
        raise ValueError("There is no question in this session: pass turns with texts, ab.turns(events, texts=True).")
    cleaned = [mask_text(text) if mask else (text, ()) for text in questions]
    first = records[0]
    origin = {name: str(plain_value(first[name])) for name in ORIGIN if first.get(name) not in (None, "")}
    masked = tuple(dict.fromkeys(name for _, names in cleaned for name in names))
    made = talk([protected(text) for text, _ in cleaned])
    return replace(made, text=made.label, origin=origin, masked=masked)


def _holds_turns(inputs: Any) -> bool:
    """Whether these are turns in Python, rather than texts or a table."""
    values = inputs if isinstance(inputs, list | tuple) else [inputs]
    are_turns = (PROMPT in each if isinstance(each, Mapping) else hasattr(each, PROMPT) for each in values)
    return not _is_table(inputs) and any(are_turns)


def _of_pairs(
    pairs: Iterable[tuple[str, Row]], names: Sequence[str], identify: Callable[[Input], Any] | None = None
) -> list[Input]:
    made = [Input("", message.strip(), row) for message, row in pairs if message.strip()]
    if not made:
        raise ValueError("There are no inputs: pass a list of strings, a text with one input per line, or a column.")
    return named(made, names, identify or _identity)


def _identity(each: Input) -> Any:
    return each.label, repr(dict(each.row)), each.user, repr(each.checks)


def named(
    inputs: Iterable[Input], names: Sequence[str] = (), identify: Callable[[Input], Any] = _identity
) -> list[Input]:
    """Inputs with different names; repetitions are one input, and counted.

    Parameters
    ----------
    inputs : iterable of Input
        One without a name gets its label, and what tells it from others with it.
    names : sequence of str
        The columns that prompts name.
    identify : callable
        What is equal of equal inputs.

    Examples
    --------
    >>> why, how = (Input("", "Why?", {"a": n}) for n in (1, 2))
    >>> [each.text for each in named([why, how, Input("", "How?")])]
    ['Why? [a: 1]', 'Why? [a: 2]', 'How?']
    """
    found: dict[Any, Input] = {}
    for each in inputs:
        key = (each.text, identify(each))
        before = found.get(key)
        found[key] = each if before is None else replace(before, times=before.times + each.times)
    rows: dict[str, list[Row]] = {}
    for each in found.values():
        rows.setdefault(each.text or each.label, []).append(each.row)
    shown = {label: _telling(each, names) for label, each in rows.items()}
    made: dict[str, Input] = {}
    for each in found.values():
        label = each.text or each.label
        label = f"{label} [{_described(each.row, shown[label])}]" if shown[label] and not each.text else label
        text = next(name for name in numbered(label) if name not in made)
        made[text] = replace(each, text=text)
    return list(made.values())


def _telling(rows: Sequence[Row], names: Sequence[str]) -> Sequence[str]:
    """The columns that tell rows apart: those that prompts name, if these can."""
    if len(rows) == 1 or len({tuple(str(row.get(name)) for name in names) for row in rows}) == len(rows):
        return names if len(rows) > 1 else ()
    columns = dict.fromkeys(name for row in rows for name in row)
    return [name for name in columns if any(row.get(name) != rows[0].get(name) for row in rows)]


def _described(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {clip(str(row.get(name)), 40)}" for name in names)


def _from_table(records: Sequence[Row]) -> list[tuple[str, Row]]:
    columns = list(records[0]) if records else [INPUT]
    if INPUT not in columns:
        hint = " These are turns without texts: ab.turns(events, texts=True)." if "prompt_chars" in columns else ""
        raise ValueError(
            f"A frame of inputs needs a column 'input'; it has {', '.join(columns) or 'none'}. "
            f"Pass one of its columns: frame[name], or a template and rows=frame.{hint}"
        )
    texts = [(row[INPUT], {name: value for name, value in row.items() if name != INPUT}) for row in records]
    return [
        (_filled(check_text(text, f"The input {text!r}").strip(), row), row) for text, row in texts if text is not None
    ]


def _filled(text: str, row: Row) -> str:
    return fill(text, row, f"The input {clip(text, 40)!r}")


def read_rows(path: Path, file: IO[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a CSV or JSON Lines file one by one, with their lines.

    Every cell of a CSV file is a text. `file` is the text of a file that is open
    already.

    Raises
    ------
    ValueError
        If it cannot be read; the message names the line.
    """
    line = 1
    try:
        with file or open(path, encoding="utf-8-sig", newline="") as lines:
            if path.suffix.lower() == ".jsonl":
                for line, text in enumerate(lines, 1):
                    if text.strip():
                        row = json.loads(text)
                        if not isinstance(row, dict):
                            raise ValueError(f"an object is needed, not {clip(repr(row), 60)}")
                        yield line, {name: plain_value(value) for name, value in row.items()}
                return
            reader = csv.reader(lines, strict=True, skipinitialspace=True)
            header = next(reader, None)
            if not header or len(set(header)) < len(header):
                raise ValueError("the first line names the columns, each of them once")
            line = reader.line_num + 1
            for cells in reader:
                if cells and len(cells) != len(header):
                    raise ValueError(f"it has {len(cells)} cells, and the first line has {len(header)}")
                if cells:
                    yield line, dict(zip(header, cells, strict=True))
                line = reader.line_num + 1
    except FileNotFoundError:
        raise
    except (ValueError, csv.Error, OSError, RecursionError) as error:
        reason = "it is not in UTF-8: save it as CSV (UTF-8)" if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(f"{path}, line {line}: {reason}.") from error


def _is_table(inputs: Any) -> bool:
    from ..frames.tabular import part_of

    return hasattr(inputs, "columns") or part_of(inputs, "turns") is not None


def _records(rows: Any) -> list[Row]:
    """The rows of a table, with values as JSON has them."""
    from ..frames.tabular import frame_of

    if isinstance(rows, str | PathLike):
        rows = [row for _, row in read_rows(Path(rows).expanduser())]
    if isinstance(rows, Mapping):
        rows = [rows]
    if not isinstance(rows, list | tuple):
        rows = frame_of(rows, caller="lab.run", resource="turns").to_dict("records")
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be a table, the path of a CSV file or a list of dicts, not {row!r} in a list.")
    return [{str(name): plain_value(value) for name, value in row.items()} for row in rows]


def read_inputs(inputs: Any) -> list[str]:
    r"""The inputs as strings in order, without repeats and empty ones.

    Parameters
    ----------
    inputs : str, iterable of str, or Series
        A string holds one input per line; the bullets and numbers of pasted lists are
        removed.

    Raises
    ------
    ValueError
        If there are no inputs, one is not valid Unicode, or the string is the name of a
        file.
    TypeError
        If an input is not a string.

    Examples
    --------
    >>> read_inputs("What is a session?\n\n- Where is my key?\n- Where is my key?\n")
    ['What is a session?', 'Where is my key?']
    >>> read_inputs(["one\ninput of two lines", "another"])
    ['one\ninput of two lines', 'another']
    """
    return list(dict.fromkeys(_texts(inputs)))


def _texts(inputs: Any) -> list[str]:
    if isinstance(inputs, str) and _is_file(inputs):
        raise ValueError(f"{inputs!r} is a file, not an input: pass its content, such as Path({inputs!r}).read_text().")
    values = _lines(inputs) if isinstance(inputs, str) else _values(inputs)
    texts = [text for value in values if (text := check_text(value, f"The input {value!r}").strip())]
    if not texts:
        raise ValueError("There are no inputs: pass a list of strings, a text with one input per line, or a column.")
    return texts


def numbered(label: str, form: str = "{} ({})") -> Iterator[str]:
    """The label, and then the label with numbers from 2."""
    yield label
    yield from (form.format(label, number) for number in itertools.count(2))


def parse_inputs(text: str, known: Iterable[str] = ()) -> list[str]:
    """The inputs in a text area, one per line; there may be none.

    A line that `format_inputs` made of one of the `known` inputs is that input, even if
    it looks like an item of a list.
    """
    names = {_line(name): name for name in known}
    lines = text.replace("\r\n", "\n").split("\n")
    typed = ([names[line]] if line in names else [each.replace(BREAK, "\n") for each in _lines(line)] for line in lines)
    return list(dict.fromkeys(itertools.chain.from_iterable(typed)))


def format_inputs(inputs: Iterable[str]) -> str:
    """Inputs as the text that `parse_inputs` reads."""
    return "\n".join(map(_line, inputs))


def _line(text: str) -> str:
    return BREAK.join(text.splitlines())


def _is_csv(inputs: Any) -> bool:
    """Whether a string is the path of a CSV file, also of one that is not there."""
    return isinstance(inputs, str) and inputs.endswith(".csv") and (len(inputs.split()) == 1 or _is_file(inputs))


def _is_file(text: str) -> bool:
    """Whether a string is the name of a file rather than a question."""
    try:
        return Path(text.strip()).is_file()
    except (OSError, ValueError):  # too long, or not a name
        return False


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := _strip_bullet(line.strip()))]


def _strip_bullet(line: str) -> str:
    marker, _, rest = line.partition(" ")
    numbered = marker[:-1].isdigit() and marker[-1:] in (".", ")")
    return rest.strip() if rest and (marker in ("-", "*", "•") or numbered) else line


def _values(inputs: Any) -> Iterable[Any]:
    if hasattr(inputs, "dropna"):
        inputs = inputs.dropna().tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise TypeError(f"Inputs must be strings, a column or lines, not {type(inputs).__name__}.")
    return inputs


# Past turns


def mask_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A turn as a row, with the texts in it masked."""
    return {
        name: mask_text(value)[0] if name in TEXTS and isinstance(value, str) else value for name, value in row.items()
    }


def _turn_inputs(records: Iterable[Mapping[str, Any]], *, masks: bool) -> list[Input]:
    """Turns as inputs, in their order; equal questions once."""
    inputs: dict[str, Input] = {}
    for record in records:
        question = record.get(PROMPT)
        if not isinstance(question, str) or not question.strip():
            continue
        text = check_text(question, "The question").strip()
        text, masked = mask_text(text) if masks else (text, ())
        row = {name: plain_value(record[name]) for name in KEPT if name in record}
        origin = {name: str(row[name]) for name in ORIGIN if row.get(name) not in (None, "")}
        before = inputs.get(text) or Input(text, text, mask_row(row) if masks else row, origin, masked, times=0)
        inputs[text] = replace(before, times=before.times + 1)
    if not inputs:
        raise ValueError("There is no question in these turns: pass turns with texts, ab.turns(events, texts=True).")
    return list(inputs.values())


def matches_inputs(turns: Any, texts: Iterable[str], own_sessions: Iterable[str], agents: Collection[str]) -> pd.Series:
    """Which turns asked one of these agents one of these texts, outside these sessions.

    Turns whose agent is not known count as theirs. Questions are masked in the same way
    before they are compared.

    Raises
    ------
    TypeError, ValueError
        If these are not turns with texts.
    """
    from ..frames.tabular import frame_of

    frame = frame_of(turns, caller="lab.in_test_set", resource="turns")
    _require_prompt(list(map(str, frame)))
    known = {mask_text(text.strip())[0] for text in texts}
    masked = {text: mask_text(text.strip())[0] for text in frame["prompt"].dropna().unique()}
    is_in_set = frame["prompt"].map(masked).isin(known) & ~frame["session_id"].isin(list(own_sessions))
    ids = set(filter(is_uuid, agents))
    names = {name for each in agents if each not in ids for name in (each, each.rpartition("~")[2])}
    told = [
        frame[column].isna() | frame[column].isin(known)
        for column, known in (("agent_id", ids), ("agent", names))
        if known and column in frame
    ]
    if told:
        is_in_set &= functools.reduce(operator.or_, told)
    return is_in_set.rename("in_test_set")


def _require_prompt(columns: Collection[str]) -> None:
    if PROMPT not in columns:
        names = ", ".join(map(str, columns)) or "none"
        raise ValueError(f"Turns need the column 'prompt'; they have {names}. Use ab.turns(events, texts=True).")


def to_frame(inputs: Iterable[Input]) -> pd.DataFrame:
    """A row per test input: ``input``, ``masked`` (in words) and its origin."""
    import pandas as pd

    rows = [{"input": each.text, "masked": ", ".join(each.masked), **each.origin} for each in inputs]
    return pd.DataFrame(rows, columns=["input", "masked", *ORIGIN]).astype("str").fillna("")


def describe_origin(origin: Mapping[str, Any]) -> str:
    """Where an input comes from, in words; empty if it was typed.

    Examples
    --------
    >>> describe_origin({"session_id": "0199-1234567890", "asked_at": "2026-10-03"})
    'from session …34567890, asked 2026-10-03'
    """
    session_id, asked_at = (str(origin.get(name) or "") for name in ("session_id", "asked_at"))
    parts = [f"from session …{session_id[-8:]}" if session_id else "", f"asked {asked_at[:16]}" if asked_at else ""]
    return ", ".join(filter(None, parts))


def _turn_records(turns: Any) -> Iterable[Mapping[str, Any]]:
    if _is_table(turns):
        records = _records(turns)
        _require_prompt(records[0] if records else {PROMPT})
        yield from records
    elif isinstance(turns, str):
        yield {"prompt": turns}
    elif isinstance(turns, Mapping):
        yield turns
    elif hasattr(turns, "prompt"):
        failure = getattr(turns, "failure", None)
        values = {
            name: getattr(turns, name, None) for name in ("prompt", "session_id", "message_id", "asked_at", "status")
        }
        yield {**values, "reply": getattr(turns, "text", None), "failure": getattr(failure, "message", failure)}
    elif isinstance(turns, Iterable):
        for each in turns:
            yield from _turn_records(each)
    else:
        raise TypeError(f"Pass turns: a frame, Turn objects or strings, not {type(turns).__name__}.")


def plain_value(value: Any) -> Any:
    """A value of a table as JSON has it."""
    item = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if isinstance(item, Mapping):
        return {str(name): plain_value(each) for name, each in item.items()}
    if isinstance(item, list | tuple):
        return [plain_value(each) for each in item]
    if item is None or item != item or type(item).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(item, date):  # and times
        return item.isoformat()
    return item if isinstance(item, str | int | float | bool) else str(item)
