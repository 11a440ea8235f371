"""The `guide` agent: answers questions about agentbook and the platform.

It quotes the packaged documentation and names its sources; it does not make anything
up. If no page answers the question, it says so and lists the pages.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ...engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ...engines.streaming import pause, stream_reply
from .bounds import compute, readable
from .documentation import Hit, Library, library
from .tokenize import keywords

_MAX_FIRST = 1500  # characters quoted from the best section; a code block or table is never cut
_MAX_SECOND = 500
_SIMILAR_SCORE = 0.62  # a second section is quoted if its score is at least this share of the best
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


def compose(
    message: str, request: SearchRequest, hits: Sequence[Hit], pages: Library, history: Sequence[Message]
) -> str:
    """The reply: the best passages, quoted unchanged, and their sources."""
    if not hits:
        return _no_answer(message, pages)
    if request.wants_example:
        hits = sorted(hits, key=lambda hit: not hit.section.has_example)
    if request.wants_more:
        answers = "\n".join(earlier.text for earlier in history if earlier.role == "assistant")
        hits = sorted(hits, key=lambda hit: hit.section.blocks[0] in answers)
    first, *others = hits
    passages = [_excerpt(first, _MAX_FIRST)]
    sources = [first.section.source]
    for other in others[:1]:
        if other.score >= _SIMILAR_SCORE * first.score:
            passages.append(f"From *{other.section.source}*:\n\n{_excerpt(other, _MAX_SECOND)}")
            sources.append(other.section.source)
    related = [hit.section.source for hit in others if hit.section.source not in sources][:3]
    closing = f"*Source{'s' if len(sources) > 1 else ''}: {'; '.join(sources)}*"
    if related:
        closing += f"\n\n*See also: {'; '.join(related)}*"
    return "\n\n".join([*passages, closing])


def _excerpt(hit: Hit, max_characters: int) -> str:
    """Whole blocks of a section, up to a length.

    Always includes the first block, and the code after a sentence that announces it.
    """
    chosen: list[str] = []
    for block in hit.section.blocks:
        announced = bool(chosen) and chosen[-1].rstrip().endswith(":")
        if chosen and not announced and sum(map(len, chosen)) + len(block) > max_characters:
            break
        chosen.append(block)
    return "\n\n".join(chosen)


def _no_answer(message: str, pages: Library) -> str:
    titles = ", ".join(f"*{title}*" for title in pages.documents())
    if _GREETING.match(message) or not message.strip():
        return (
            "Hello! Ask me about agentbook or the platform, for example “How do I load events into pandas?”, "
            "“What scopes does a key need to chat?” or “What happens when the connection is cut?”. "
            f"I answer from these pages and name my sources: {titles}."
        )
    return (
        "I found nothing in the documentation that answers this, and I do not make things up. "
        f"These pages are there: {titles}. Try other words, or name one of them. "
        "For counts of your own sessions ask the `analyst`."
    )
