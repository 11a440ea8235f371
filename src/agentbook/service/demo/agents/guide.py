# ruff: noqa: E501 - sentences and patterns read better whole
"""The `guide` agent: answers questions about agentbook and the platform from the packaged documentation, and names its sources.

It quotes; it does not invent. Where nothing in the pages fits, it says so and lists what there is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ...engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ...engines.streaming import pause, say
from .documentation import Hit, Library, library
from .tokenize import subjects

_LONGEST = 1500  # characters quoted from the first section; a code block or table is never cut
_SECOND = 500
_CLOSE_BEHIND = 0.62
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|day|evening)|thanks?|thank you|bye|ok(?:ay)?|help)\b[\w\s]{0,12}\W*$",
    re.IGNORECASE,
)
_WANTS_EXAMPLE = re.compile(r"\b(?:examples?|in code|code|snippet|show me|sample)\b", re.IGNORECASE)
_WANTS_MORE = re.compile(r"\b(?:more|else|further|details?|elaborate|continue|go on)\b", re.IGNORECASE)
_REFERS_BACK = re.compile(
    r"\b(?:it|its|that|this|them|those|these|one|same|there|above)\b|^\W*(?:and|but)\b", re.IGNORECASE
)
_NO_SUBJECT = frozenset(
    [
        "example",
        "examples",
        "code",
        "snippet",
        "sample",
        "show",
        "explain",
        "detail",
        "details",
        "elaborate",
        "continue",
        "further",
        "else",
    ]
)
_LOOKS_BACK = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """What a message asks for: the words to look up, and in which way."""

    query: str
    wants_example: bool
    wants_more: bool


@dataclass(frozen=True, slots=True)
class Guide:
    """Answers from the documentation.

    Parameters
    ----------
    shelf
        What it reads; None for the documentation in the package.
    """

    shelf: Library | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """A search (a tool run), then the reply."""
        reading = understand(turn.message, turn.history)
        yield ToolStarted("search_documentation", {"query": reading.query[:200]})
        # The index is built at the first question; in a thread, so that other turns go on.
        shelf = self.shelf if self.shelf is not None else await asyncio.to_thread(library)
        hits = shelf.search(reading.query)
        await pause(turn, 0.15)
        yield ToolDone("search_documentation")
        async for step in say(turn, compose(turn.message, reading, hits, shelf, turn.history)):
            yield step


def understand(message: str, history: Sequence[Message]) -> Reading:
    """What to look up. A follow-up without a subject of its own ("show me an example") is about the question before.

    Examples
    --------
    >>> understand("Show me an example.", [Message("user", "How do I stream events?")]).query
    'How do I stream events?'
    """
    example, more = bool(_WANTS_EXAMPLE.search(message)), bool(_WANTS_MORE.search(message))
    own = [word for word in subjects(message) if word not in _NO_SUBJECT]
    # Newest first, until one that had a subject.
    for earlier in [said.text for said in reversed(history) if said.role == "user"][:_LOOKS_BACK]:
        leans = not own or (len(own) <= 2 and bool(_REFERS_BACK.search(message)))
        if not leans:
            break
        named = [word for word in subjects(earlier) if word not in _NO_SUBJECT]
        if named:
            return Reading(f"{earlier} {' '.join(own)}".strip(), example, more)
    return Reading(message, example, more)


def compose(message: str, reading: Reading, hits: Sequence[Hit], shelf: Library, history: Sequence[Message]) -> str:
    """The reply: the best passages, quoted as they stand, and where they are from."""
    if not hits:
        return _nothing(message, shelf)
    if reading.wants_example:
        hits = sorted(hits, key=lambda hit: not hit.section.has_example)
    if reading.wants_more:
        told = "\n".join(said.text for said in history if said.role == "assistant")
        hits = sorted(hits, key=lambda hit: hit.section.blocks[0] in told)
    first, *others = hits
    quoted = [_excerpt(first, _LONGEST)]
    sources = [first.section.source]
    for other in others[:1]:
        if other.score >= _CLOSE_BEHIND * first.score:
            quoted.append(f"From *{other.section.source}*:\n\n{_excerpt(other, _SECOND)}")
            sources.append(other.section.source)
    related = [hit.section.source for hit in others if hit.section.source not in sources][:3]
    closing = f"*Source{'s' if len(sources) > 1 else ''}: {'; '.join(sources)}*"
    if related:
        closing += f"\n\n*See also: {'; '.join(related)}*"
    return "\n\n".join([*quoted, closing])


def _excerpt(hit: Hit, longest: int) -> str:
    """Whole blocks of a section up to a length; always at least its first, and the code after a sentence that announces it."""
    chosen: list[str] = []
    for block in hit.section.blocks:
        announced = bool(chosen) and chosen[-1].rstrip().endswith(":")
        if chosen and not announced and sum(map(len, chosen)) + len(block) > longest:
            break
        chosen.append(block)
    return "\n\n".join(chosen)


def _nothing(message: str, shelf: Library) -> str:
    pages = ", ".join(f"*{title}*" for title in shelf.documents())
    if _GREETING.match(message) or not message.strip():
        return (
            "Hello! Ask me about agentbook or the platform, for example “How do I load events into pandas?”, “What scopes does a key need to chat?” "
            f"or “What happens when the connection is cut?”. I answer from these pages and name my sources: {pages}."
        )
    return (
        "I found nothing in the documentation that answers this, and I do not make things up. "
        f"These pages are there: {pages}. Try other words, or name one of them. For counts of your own sessions ask the `analyst`."
    )
