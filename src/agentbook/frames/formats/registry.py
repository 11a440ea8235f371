"""The formats, in the order in which `read_conversations` tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

from . import atif, chat, coding, otlp, own, rows
from .model import Conversation, Records


class Format(NamedTuple):
    """A format: its name for people, whether a record is of it, and what reads it.

    `read` takes records and what `keeps` names: ``problem``, ``traces`` or ``sessions``
    of the call. What a trace says is known after the last file, so for traces it adds
    spans, and returns no conversations. `continues` says whether a record is of a file
    of this format that has begun.
    """

    name: str
    matches: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Records, Any], Iterable[Conversation]]
    keeps: str = "problem"
    continues: Callable[[Mapping[str, Any]], bool] = lambda _: False


FORMATS = (
    Format("agentbook's own", own.matches, own.read),
    Format("ATIF", atif.matches, atif.read),
    Format("OTLP/JSON", otlp.matches, otlp.read, keeps="traces"),
    Format("Phoenix spans", otlp.is_phoenix, otlp.read_phoenix, keeps="traces"),
    Format("Langfuse", rows.is_langfuse, rows.read_observations, keeps="traces"),
    Format("LangSmith runs", rows.is_run, rows.read_runs, keeps="traces"),
    Format("OpenAI Agents SDK", rows.is_sdk, rows.read_sdk, keeps="traces"),
    Format("Claude Code", coding.is_claude, coding.read_claude, keeps="sessions"),
    Format("Codex", coding.is_codex, coding.read_codex, keeps="sessions", continues=coding.is_item),
    Format("logs of calls", chat.is_call, chat.read_calls, keeps="traces"),
    Format("Gemini CLI", coding.is_gemini, coding.read_gemini, continues=lambda _: True),
    Format("OpenAI chat", chat.is_openai, chat.read),
)
# End of a file's name -> what writes it.
SUFFIXES: dict[str, Callable[[Iterable[Conversation], BinaryIO], None]] = {
    ".atif.jsonl": atif.write,
    ".openai.jsonl": chat.write,
}


def format_of(record: Any) -> Format | None:
    """The format of a record, by its content; None if it is of none."""
    return next((each for each in FORMATS if each.matches(record)), None) if isinstance(record, dict) else None
