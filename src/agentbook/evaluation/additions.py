"""Past turns as test inputs: what is kept from them, and what is masked.

Every way from a turn into a lab goes through `read_additions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from .._text import check_text

if TYPE_CHECKING:
    import pandas as pd

# What is kept from a turn besides its question. Who asked it is not kept.
KEPT = ("session_id", "turn", "message_id", "asked_at", "status", "failure", "agent", "workspace", "reply")
# What says where it comes from.
ORIGIN = ("session_id", "message_id", "turn", "asked_at", "agent")
# What people and agents wrote; it is masked.
TEXTS = ("prompt", "reply", "failure")
# What is masked, and how. A test set is stored, shared and sent to models.
_MASKED = {
    "an e-mail address": re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"),
    "a key": re.compile(
        r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{12,}|\b(?:sk|pk|ghp|xox[a-z]|key|token)[-_][\w-]{12,}"
        r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}:\S+"
    ),
    "a password": re.compile(r"(?i)(?<=\bpassword)\s*(?:is|=|:)\s*\S+"),
    "a card number": re.compile(r"\b\d(?:[ -]?\d){12,18}\b"),
}


@dataclass(frozen=True, slots=True)
class Addition:
    """A turn as a test input.

    Attributes
    ----------
    text : str
        The question.
    masked : tuple of str
        What was masked in it, in words.
    row : dict
        What is kept from the turn, by name.
    """

    text: str
    masked: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> dict[str, str]:
        """Where it comes from."""
        origin = {name: _text(self.row.get(name)) for name in ORIGIN}
        return {name: value for name, value in origin.items() if value}


def mask(text: str) -> tuple[str, tuple[str, ...]]:
    """Mask what does not belong in a test set; returns the text, and what was masked.

    Examples
    --------
    >>> mask("I am ada@acme.test, my password is tide42. Why?")
    ('I am […], my password […] Why?', ('an e-mail address', 'a password'))
    """
    masked = []
    for name, pattern in _MASKED.items():
        text, count = pattern.subn(" […]" if name == "a password" else "[…]", text)
        if count:
            masked.append(name)
    return text, tuple(masked)


def mask_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A turn as a row, with the texts in it masked."""
    return {name: mask(value)[0] if name in TEXTS and isinstance(value, str) else value for name, value in row.items()}


def read_additions(turns: Any, *, masks: bool = True) -> list[Addition]:
    """Turns as test inputs, in their order; equal questions once.

    Parameters
    ----------
    turns : DataFrame, Turn, str, or iterable of these
        A frame needs the column ``prompt``, as `ab.turns` has with ``texts=True``.
    masks : bool
        Whether questions and replies are masked.

    Raises
    ------
    TypeError, ValueError
        If there is no question in them.
    """
    additions: dict[str, Addition] = {}
    for record in _records(turns):
        question = record.get("prompt")
        if not isinstance(question, str) or not question.strip():
            continue
        text = check_text(question, "The question").strip()
        text, masked = mask(text) if masks else (text, ())
        row = {name: plain_value(record[name]) for name in KEPT if name in record}
        additions.setdefault(text, Addition(text, masked, mask_row(row) if masks else row))
    if not additions:
        raise ValueError("There is no question in these turns: pass turns with texts, ab.turns(events, texts=True).")
    return list(additions.values())


def matches_inputs(turns: Any, texts: Iterable[str], own_sessions: Iterable[str]) -> pd.Series:
    """Which turns asked one of these texts, outside these sessions.

    Questions are masked in the same way before they are compared.

    Raises
    ------
    TypeError, ValueError
        If these are not turns with texts.
    """
    from ..frames.tabular import frame_of

    frame = frame_of(turns, caller="lab.in_test_set", resource="turns")
    _require_prompt(frame)
    known = {mask(text.strip())[0] for text in texts}
    is_known = {
        question: isinstance(question, str) and mask(question.strip())[0] in known
        for question in frame["prompt"].unique()
    }
    is_in_set = frame["prompt"].map(is_known).astype("bool") & ~frame["session_id"].isin(list(own_sessions))
    return is_in_set.rename("in_test_set")


def _require_prompt(turns: pd.DataFrame) -> None:
    if "prompt" not in turns:
        columns = ", ".join(map(str, turns.columns)) or "none"
        raise ValueError(f"Turns need the column 'prompt'; they have {columns}. Use ab.turns(events, texts=True).")


def to_frame(additions: Iterable[Addition]) -> pd.DataFrame:
    """A row per test input: ``input``, ``masked`` (in words) and its origin."""
    import pandas as pd

    rows = [{"input": each.text, "masked": ", ".join(each.masked), **each.origin} for each in additions]
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


def _records(turns: Any) -> Iterable[Mapping[str, Any]]:
    if hasattr(turns, "to_dict"):
        _require_prompt(turns)
        yield from turns.to_dict("records")
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
            yield from _records(each)
    else:
        raise TypeError(f"Pass turns: a frame, Turn objects or strings, not {type(turns).__name__}.")


def _text(value: Any) -> str:
    plain = plain_value(value)
    return "" if plain is None else str(plain)


def plain_value(value: Any) -> Any:
    """A value of a table as JSON has it."""
    item = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if item is None or item != item or type(item).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(item, date):  # and times
        return item.isoformat()
    return item if isinstance(item, str | int | float | bool) else str(item)
