"""The formats, in the order in which `read_conversations` tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, BinaryIO

from . import atif, langfuse, langsmith, openai, otlp, own, sharegpt
from .model import Conversation

# Name, for people -> module.
FORMATS: dict[str, ModuleType] = {
    "agentbook's own": own,
    "ATIF": atif,
    "OTLP/JSON": otlp,
    "Langfuse observations": langfuse,
    "LangSmith runs": langsmith,
    "OpenAI chat": openai,
    "ShareGPT": sharegpt,
}
# End of a file's name -> what writes it.
SUFFIXES: dict[str, Callable[[Iterable[Conversation], BinaryIO], None]] = {
    ".atif.jsonl": atif.write,
    ".openai.jsonl": openai.write,
    ".otlp.json": otlp.write,
    ".otlp.jsonl": partial(otlp.write, as_lines=True),
}


def format_of(record: Any) -> ModuleType | None:
    """The format of a record, by its content; None if it is of none."""
    if not isinstance(record, Mapping):
        return None
    return next((module for module in FORMATS.values() if module.matches(record)), None)
