"""Test inputs: the texts that every variant gets, and the rows they come from.

Inputs come from a list, from a column, from lines pasted from somewhere, from turns of
a history, or from a template that is filled from the rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..text import check_text
from .templates import fill, names_in

if TYPE_CHECKING:
    import pandas as pd

    from .variant import Variant

Row = Mapping[str, Any]

# The form has one input per line; it shows a line break within an input as this
# character.
BREAK = "⏎"
# Columns whose texts are inputs: in a table of inputs, and in `ab.turns(texts=True)`.
INPUT, PROMPT = "input", "prompt"
# What is kept about a turn that becomes an input. Anything else that a history holds
# about people stays there.
ORIGIN = ("session_id", "turn", "message_id", "asked_at", "status", "failure", "agent", "workspace", "reply")


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
    """

    text: str
    message: str
    row: Row = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """The input as plain data, ready for JSON."""
        return {"text": self.text, "message": self.message, "row": dict(self.row)}


class InputSet:
    """The inputs of an experiment.

    Attributes
    ----------
    texts : list of str
        Their names in tables. Texts without a row may be added.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._inputs: dict[str, Input] = {}

    def find(self, text: str) -> Input:
        """The input that tables call `text`.

        Raises
        ------
        ValueError
            If it has a name in braces and no row.
        """
        return self._inputs.get(text) or Input(text, fill(text, {}, f"The input {_short(text)!r}"))

    def message_of(self, text: str) -> str:
        """What is sent for an input; its text if a name in braces has no column."""
        return self._inputs[text].message if text in self._inputs else text

    def fill(self, inputs: Any, rows: Any, variants: Sequence[Variant]) -> list[Input]:
        """The inputs that these variants would be asked; nothing is changed.

        Without `inputs` and `rows`, the current ones.

        Raises
        ------
        TypeError, ValueError, OSError
            If they cannot be read, or a name in braces has no column.
        """
        if inputs is None and rows is None:
            filled = [self.find(text) for text in self.texts]
        else:
            prompts = (f"{variant.system_prompt or ''}\n{variant.description or ''}" for variant in variants)
            filled = combine(inputs, rows, names_in("\n".join(prompts)))
        for variant in variants:
            for each in filled:
                variant.filled(each.row)
        return filled

    def use(self, inputs: Iterable[Input]) -> None:
        """Replace the inputs with these."""
        self._inputs = {each.text: each for each in inputs}
        self.texts = list(self._inputs)

    def add(self, texts: Iterable[str]) -> None:
        """Add texts that are sent as they are: what people wrote is not a template."""
        for text in texts:
            self._inputs.setdefault(text, Input(text, text))
            if text not in self.texts:
                self.texts.append(text)

    def copy(self) -> InputSet:
        """A copy; the inputs themselves do not change."""
        copy = InputSet()
        copy.texts, copy._inputs = list(self.texts), dict(self._inputs)
        return copy

    def origin(self, text: str) -> Row:
        """The row that an input comes from; empty for a text that was typed."""
        return self._inputs[text].row if text in self._inputs else {}

    def as_data(self) -> list[dict[str, Any]]:
        """The inputs that are more than a text, as plain data, ready for JSON."""
        inputs = (self._inputs[text] for text in self.texts if text in self._inputs)
        return [each.as_data() for each in inputs if each != Input(each.text, each.text) or names_in(each.text)]

    def restore(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Read what `as_data` wrote."""
        self._inputs = {each["text"]: Input(each["text"], each["message"], each["row"]) for each in data}


def combine(inputs: Any, rows: Any = None, names: Sequence[str] = ()) -> list[Input]:
    r"""The inputs of a run.

    Parameters
    ----------
    inputs : str, iterable of str, Series, table or None
        As for `read_inputs`. With `rows`, each is filled from each row; None stands for
        the column ``input`` of the rows. The texts of turns are never templates.
    rows : table, path of a CSV file, or list of dict, optional
        The values of the names in braces.
    names : sequence of str
        The names that prompts use: rows that differ in none of these and give the same
        message are one input.

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
    if rows is None and isinstance(inputs, PathLike):
        inputs = read_table(inputs)
    if inputs is None or (rows is None and _is_table(inputs)):
        pairs = _from_table(inputs if rows is None else rows)
    else:
        table = [{}] if rows is None else _records(rows)
        pairs = [(fill(text, row, f"The input {_short(text)!r}"), row) for text in read_inputs(inputs) for row in table]
    return _named(pairs, names)


def _named(pairs: Iterable[tuple[str, Row]], names: Sequence[str]) -> list[Input]:
    """Inputs with different texts; among duplicates, the first."""
    distinct: dict[tuple[str, ...], tuple[str, Row]] = {}
    for message, row in pairs:
        if message.strip():
            distinct.setdefault((message, *(str(row.get(name)) for name in names)), (message.strip(), row))
    if not distinct:
        raise ValueError("There are no inputs: pass a list of strings, a text with one input per line, or a column.")
    messages = [message for message, _ in distinct.values()]
    repeated = {message for message in messages if messages.count(message) > 1} if names else set()
    return [
        Input(f"{message} [{_described(row, names)}]" if message in repeated else message, message, row)
        for message, row in distinct.values()
    ]


def _described(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {row.get(name)}" for name in names)


def _from_table(table: Any) -> list[tuple[str, Row]]:
    records = _records(table)
    columns = list(records[0]) if records else [INPUT]
    if INPUT not in columns and PROMPT in columns:
        return [
            (check_text(row[PROMPT], f"The question of turn {n}"), {name: row[name] for name in ORIGIN if name in row})
            for n, row in enumerate(records)
            if row[PROMPT] is not None
        ]
    if INPUT not in columns:
        hint = " These are turns without texts: ab.turns(events, texts=True)." if "prompt_chars" in columns else ""
        raise ValueError(
            f"A frame of inputs needs a column 'input'; it has {', '.join(columns) or 'none'}. "
            f"Pass one of its columns: frame[name], or a template and rows=frame.{hint}"
        )
    texts = [(row[INPUT], {name: value for name, value in row.items() if name != INPUT}) for row in records]
    return [
        (fill(check_text(text, f"The input {text!r}").strip(), row, f"The input {_short(text)!r}"), row)
        for text, row in texts
        if text is not None
    ]


def read_table(source: str | PathLike[str] | BytesIO, name: str | None = None) -> pd.DataFrame:
    """The rows of a CSV file in UTF-8, every value a text; errors call it `name`.

    Raises
    ------
    ValueError
        If it is not a CSV file.
    OSError
    """
    import pandas as pd

    try:
        return pd.read_csv(source, dtype="str", keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(
            f"{name or source} cannot be read as CSV in UTF-8: {error}. Save it as CSV (UTF-8)."
        ) from error


def _is_table(inputs: Any) -> bool:
    from ...frames.tabular import part_of

    return hasattr(inputs, "columns") or part_of(inputs, "turns") is not None


def _records(rows: Any) -> list[Row]:
    """The rows of a table, with values as JSON has them."""
    from ...frames.tabular import frame_of

    if isinstance(rows, str | PathLike):
        rows = read_table(Path(rows).expanduser())
    if isinstance(rows, Mapping):
        rows = [rows]
    if not isinstance(rows, list | tuple):
        rows = frame_of(rows, caller="lab.run", resource="turns").to_dict("records")
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be a table, the path of a CSV file or a list of dicts, not {row!r} in a list.")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    item = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if item is None or item != item or type(item).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(item, date):  # and times
        return item.isoformat()
    return item if isinstance(item, str | int | float | bool) else str(item)


def _short(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 40 else line[:39] + "…"


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
    if hasattr(inputs, "dropna"):
        inputs = inputs.dropna().tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise TypeError(f"Inputs must be strings, a column or lines, not {type(inputs).__name__}.")
    return inputs
