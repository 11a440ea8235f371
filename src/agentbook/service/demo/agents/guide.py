"""The `guide` agent: answers questions about agentbook and the platform.

It quotes one section of the packaged documentation and names it; it does not make
anything up. Where no section fits well, it says that it is not sure, and names the
nearest ones.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ...engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ...engines.streaming import pause, stream_reply
from .bounds import compute, readable
from .documentation import Hit, Library, Section, library
from .tokenize import keywords

# The least score of an answer, and of one that is much better than the next. Below, the
# nearest sections are named instead: a wrong answer costs a reader more than none.
_SURE, _SURE_IF_AHEAD, _AHEAD = 0.3, 0.1, 1.5
_MAX_CHARACTERS = 1500  # quoted from a section; a code block is never cut
_MAX_ROWS = 8  # of a table
_HISTORY = 4  # messages
_MAX_HITS = 5  # sections listed in a tool run
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|day|evening)|thanks?|thank you|bye|ok(?:ay)?|help)\b[\w\s]{0,12}\W*$",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"\b(?:examples?|in code|code|snippet|show me|sample)\b", re.IGNORECASE)
# "How do I stream? Show code." asks about streaming, not about code.
_EXAMPLE_SENTENCE = re.compile(
    r"(?<=[.?!;,])\s*(?:please\s+)?(?:show|give|with|in)\b[^.?!]{0,20}\b(?:examples?|code|snippet|sample)\W*$",
    re.IGNORECASE,
)
_MORE = re.compile(r"\b(?:more|else|further|details?|elaborate|continue|go on)\b", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\b(?:it|its|that|this|them|those|these|one|same|there|above)\b|^\W*(?:and|but)\b", re.IGNORECASE
)
_NOT_A_SUBJECT = frozenset(
    "example examples code snippet sample show explain detail details elaborate continue further else".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What a message asks for: the words to search for, and the form of the answer."""

    query: str
    wants_example: bool
    wants_more: bool


@dataclass(frozen=True, slots=True)
class Guide:
    """Answers from the documentation.

    Parameters
    ----------
    library
        The documentation that it reads; None for the packaged one.
    """

    library: Library | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Search as a tool run, then reply."""
        turn = readable(turn)
        request = await compute(understand, turn.message, turn.history)
        yield ToolStarted("search_documentation", {"query": request.query[:200]})
        # The first search builds the index.
        pages = self.library if self.library is not None else await compute(library)
        hits = await compute(pages.search, request.query)
        await pause(turn, 0.15)
        yield ToolDone("search_documentation", search_result(hits))
        text = await compute(compose, turn.message, request, hits, pages, turn.history)
        async for step in stream_reply(turn, text):
            yield step


def search_result(hits: Sequence[Hit]) -> list[dict[str, object]]:
    """The result of a search as JSON values: the best sections and their scores."""
    return [{"section": hit.section.source, "score": round(hit.score, 2)} for hit in hits[:_MAX_HITS]]


def understand(message: str, history: Sequence[Message]) -> SearchRequest:
    """Return what to search for.

    A follow-up without its own subject ("show me an example") continues the question
    before it.

    Examples
    --------
    >>> history = [Message("user", "How do I stream events?")]
    >>> understand("Show me an example.", history).query
    'How do I stream events?'
    """
    wants_example, wants_more = bool(_EXAMPLE.search(message)), bool(_MORE.search(message))
    message = _EXAMPLE_SENTENCE.sub("", message)
    subject = _subject(message)
    if not subject or (len(subject) <= 2 and _REFERENCE.search(message)):
        # Newest first, up to a question that has a subject.
        questions = [earlier.text for earlier in reversed(history) if earlier.role == "user"][:_HISTORY]
        for question in questions:
            if _subject(question):
                return SearchRequest(f"{question} {' '.join(subject)}".strip(), wants_example, wants_more)
    return SearchRequest(message, wants_example, wants_more)


def _subject(message: str) -> list[str]:
    return [word for word in keywords(message) if word not in _NOT_A_SUBJECT]


def is_sure(hits: Sequence[Hit]) -> bool:
    """Whether the best section is worth quoting as the answer."""
    best, following = ([hit.score for hit in hits] + [0.0, 0.0])[:2]
    return best >= _SURE or (best >= _SURE_IF_AHEAD and best >= _AHEAD * following)


def compose(
    message: str, request: SearchRequest, hits: Sequence[Hit], pages: Library, history: Sequence[Message]
) -> str:
    """The reply: the section that fits, quoted unchanged, and its source."""
    if not is_sure(hits):
        return _not_sure(message, hits, pages)
    answers = [hits[0], *(hit for hit in hits[1:] if hit.score >= _SURE)]
    if request.wants_example:
        answers = sorted(answers, key=lambda hit: not hit.section.has_example)
    if request.wants_more:
        earlier = "\n".join(each.text for each in history if each.role == "assistant")
        answers = sorted(answers, key=lambda hit: hit.section.blocks[0] in earlier)
    quoted = [hit.section for hit in answers if hit.score == 1.0] or [answers[0].section]
    passages = [_excerpt(section) for section in quoted]
    if len(quoted) > 1:  # what is compared
        passages = [f"**{section.title}**: {passage}" for section, passage in zip(quoted, passages, strict=True)]
    sources = [section.source for section in quoted]
    closing = f"*Source{'s' if len(sources) > 1 else ''}: {'; '.join(sources)}*"
    related = [hit.section.source for hit in hits if hit.section not in quoted][:3]
    if related:
        closing += f"\n\n*See also: {'; '.join(related)}*"
    return "\n\n".join([*passages, closing])


def _excerpt(section: Section) -> str:
    """Whole blocks of a section, up to a length.

    Always includes the first block, and the code after a sentence that announces it.
    """
    chosen: list[str] = []
    for block in map(_first_rows, section.blocks):
        announced = bool(chosen) and chosen[-1].rstrip().endswith(":")
        if chosen and not announced and sum(map(len, chosen)) + len(block) > _MAX_CHARACTERS:
            break
        chosen.append(block)
    return "\n\n".join(chosen)


def _first_rows(block: str) -> str:
    """A table's first rows; any other block is whole."""
    lines = block.splitlines()
    rows = len(lines) - 2  # below the head and its line
    if not block.startswith("|") or rows <= _MAX_ROWS:
        return block
    return "\n".join(lines[: _MAX_ROWS + 2]) + f"\n\n… and {rows - _MAX_ROWS} more rows."


def _not_sure(message: str, hits: Sequence[Hit], pages: Library) -> str:
    titles = ", ".join(f"*{title}*" for title in pages.documents())
    if _GREETING.match(message) or not message.strip():
        return (
            "Hello! Ask me about agentbook or the platform, for example “How do I load events into pandas?”, "
            "“What scopes does a key need to chat?” or “What happens when the connection is cut?”. "
            f"I answer from these pages and name my sources: {titles}."
        )
    if hits:
        nearest = "\n".join(f"- {hit.section.source}" for hit in hits[:3])
        return f"I am not sure which page answers this. The nearest are:\n\n{nearest}\n\nTry other words, or name one of them."
    return (
        "I found nothing in the documentation that answers this, and I do not make things up. "
        f"These pages are there: {titles}. Try other words, or name one of them."
    )
