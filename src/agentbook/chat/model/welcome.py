"""The content of an empty panel: who the agent is, and three messages to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..._text import shorten
from ...lookup import name_of

PROMPTS = 3
MAX_PROMPT = 300
MAX_DESCRIPTION = 600
# For agents without messages of their own.
GENERIC = ("What can you do?", "What do you need to know to help me?", "Show me an example.")
# The specification does not show the agent record, so these are names used elsewhere.
_FIELDS = ("starter_prompts", "conversation_starters", "suggested_prompts", "example_prompts", "starters")
_TEXTS = ("prompt", "text", "message", "title")


@dataclass(frozen=True, slots=True)
class Welcome:
    """An agent's name, its description, and messages to begin with."""

    agent_name: str
    description: str = ""
    prompts: tuple[str, ...] = GENERIC


def welcome_of(record: Mapping[str, Any]) -> Welcome:
    """The welcome from an agent's record; generic messages if it has none of its own.

    Examples
    --------
    >>> welcome_of({"name": "guide", "starter_prompts": ["What is a turn?"]}).prompts
    ('What is a turn?', 'What can you do?', 'What do you need to know to help me?')
    """
    description = record.get("description")
    prompts = dict.fromkeys((*_own_prompts(record), *GENERIC))
    return Welcome(
        name_of(record),
        shorten(description, MAX_DESCRIPTION) if isinstance(description, str) else "",
        tuple(prompts)[:PROMPTS],
    )


def _own_prompts(record: Mapping[str, Any]) -> Iterator[str]:
    for field in _FIELDS:
        values = record.get(field)
        for value in values if isinstance(values, list) else ():
            texts = [value.get(name) for name in _TEXTS] if isinstance(value, Mapping) else [value]
            text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
            if 0 < len(text) <= MAX_PROMPT:
                yield text.strip()
