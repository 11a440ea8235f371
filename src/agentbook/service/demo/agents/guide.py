"""The `guide` agent: answers questions about agentbook and the platform.

It quotes the section or docstring that defines a name, the glossary's entry, or the one
section that clearly fits, and names its source. Else it lists the nearest sections, and
says that it only searched. With a language model, that answers from the sections found.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from ...engines.base import Draft, Engine, Message, Reply, Step, ToolDone, ToolStarted, TurnRequest
from ..manual import Hit, Manual, Section, keywords, manual, near, sure
from ..names import defined
from .streaming import pause, readable, stream_reply

_MAX_CHARACTERS = 1500  # quoted from a section; a code block is never cut
_MAX_ROWS = 8  # of a table
_NEAREST = 3  # sections that are listed
_IN_PASSING = 5  # words of a question that names something of the package in passing
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|day|evening)|how are you|thanks?|thank you|bye|ok(?:ay)?|help)\b[\w\s]{0,12}\W*$"
    r"|^\W*(?:who|what) are you\W*$",
    re.IGNORECASE,
)
# Words of a follow-up, such as "Show me an example" or "Tell me more in detail".
_OF_A_FOLLOW_UP = frozenset(
    ("example", "examples", "code", "snippet", "sample", "explain", "detail", "details", "further", "continue")
)


_PROMPT = """You answer questions about agentbook, a notebook toolkit for the Agent Platform.
Answer shortly, from the sections of its manual below and nothing else. Copy code from
them. If they do not answer the question, say so in one sentence."""


@dataclass(frozen=True, slots=True)
class Guide:
    """Answers from the manual.

    Parameters
    ----------
    manual
        What it reads; None for the packaged one.
    model
        A language model that answers from the sections found; None to quote them.
    """

    manual: Manual | None = None
    model: Engine | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Search as a tool run, then reply."""
        turn = readable(turn)
        query = question_of(turn.message, turn.history)
        yield ToolStarted("search_documentation", {"query": query[:200]})
        # The first search builds the index.
        pages = self.manual if self.manual is not None else await asyncio.to_thread(manual)
        hits = await asyncio.to_thread(pages.search, query)
        await pause(turn, 0.15)
        yield ToolDone("search_documentation", search_result(hits))
        if self.model is not None and hits and not _GREETING.match(turn.message):
            async for step in _from_model(self.model, turn, hits[:_NEAREST]):
                yield step
            return
        text = await asyncio.to_thread(compose, turn.message, query, hits, pages, turn.history)
        async for step in stream_reply(turn, text):
            yield step


async def _from_model(model: Engine, turn: TurnRequest, hits: Sequence[Hit]) -> AsyncIterator[Step]:
    """What a language model makes of the sections, and the sections."""
    sections = "\n\n".join(f"# {hit.section.source}\n\n{_excerpt(hit.section)}" for hit in hits)
    cited = f"\n\n*Sources: {'; '.join(hit.section.source for hit in hits)}*"
    asked = replace(turn, system_prompt=f"{_PROMPT}\n\n{sections}", mode="multi-turn", tools=(), platform_tools=())
    async for step in model.run(asked):
        if isinstance(step, Reply):
            yield Draft(cited)
            step = Reply(step.text + cited, step.finish_reason)
        yield step


def search_result(hits: Sequence[Hit]) -> list[dict[str, object]]:
    """A search's result as JSON values: the best sections, with their shares."""
    return [{"section": hit.section.source, "share": round(hit.share, 2)} for hit in hits]


def question_of(message: str, history: Sequence[Message]) -> str:
    """The question to search for: of a follow-up, the newest one with a subject.

    Examples
    --------
    >>> history = [Message("user", "How do I stream events?")]
    >>> question_of("Show me an example.", history)
    'How do I stream events?'
    """
    if "Traceback (most recent call last)" in message:
        message = message.strip().splitlines()[-1]  # the error itself
    earlier = [each.text for each in reversed(history) if each.role == "user"]
    return next((text for text in (message, *earlier) if set(keywords(text)) - _OF_A_FOLLOW_UP), message)


def compose(message: str, query: str, hits: Sequence[Hit], pages: Manual, history: Sequence[Message]) -> str:
    """The reply: the section that fits, quoted unchanged, and its source."""
    if _GREETING.match(message) or not message.strip():
        return (
            "Hello! I am a program that searches the manual of agentbook, not a language model. Ask me for example "
            "“How do I load events into pandas?”, “What scopes does a key need to chat?” or “What is a turn?”. "
            "I quote the section that fits, or name the nearest ones."
        )
    sections, named = [hit.section for hit in hits], defined(query, pages.sections)
    if "Traceback" not in message and len(keywords(query)) >= _IN_PASSING:  # the question is about more than the name
        sections, named = [*named, *sections], []
    quoted = pages.definitions(query) or named or _chosen(message, query, hits, history)
    if not quoted:
        return _nearest(sections, pages, is_near=near(hits))
    passages = [_excerpt(section) for section in quoted]
    if len(quoted) > 1:
        passages = [f"**{section.title}**\n\n{passage}" for section, passage in zip(quoted, passages, strict=True)]
    sources = [section.source for section in quoted]
    closing = f"*Source{'s' if len(sources) > 1 else ''}: {'; '.join(sources)}*"
    if related := [section for section in sections if section.source not in sources][: _NEAREST - len(quoted)]:
        closing += f"\n\nSee also:\n\n{_links(related)}"
    return "\n\n".join([*passages, closing])


def _chosen(message: str, query: str, hits: Sequence[Hit], history: Sequence[Message]) -> list[Section]:
    """The sure one; for a follow-up, one with an example, or one not quoted yet."""
    sections = [hit.section for hit in hits]
    if message == query or not hits:
        return [hit.section for hit in sure(hits)]
    if set(keywords(message)) & _OF_A_FOLLOW_UP:
        return [section for section in sections if section.has_example][:1] or sections[:1]
    said = "\n".join(each.text for each in history if each.role == "assistant")
    return [section for section in sections if section.source not in said][:1] or sections[:1]


def _excerpt(section: Section) -> str:
    """Whole blocks of a section, up to a length.

    Always includes the first block, and the code after a sentence that announces it.
    Says so if something is left out.
    """
    chosen: list[str] = []
    for block in map(_shown, section.blocks):
        announced = bool(chosen) and chosen[-1].rstrip().endswith(":")
        room = _MAX_CHARACTERS - sum(map(len, chosen))
        if chosen and not announced and len(block) > room:
            chosen.append("*… The section goes on; this is its beginning.*")
            break
        chosen.append(block)
    return "\n\n".join(chosen)


def _shown(block: str) -> str:
    """A block; of a table, the first rows."""
    lines = block.splitlines()
    more = len(lines) - 2 - _MAX_ROWS  # below the head and its line
    if not block.startswith("|") or more <= 0:
        return block
    return "\n".join(lines[:-more]) + f"\n\n… and {more} more rows."


def _nearest(sections: Sequence[Section], pages: Manual, *, is_near: bool) -> str:
    nothing = "I found nothing in the manual that answers this, and I do not make things up. "
    if not sections:
        return f"{nothing}Some of its pages: {', '.join(f'*{page}*' for page in pages.pages[::4])}."
    said = "I only searched the manual. " if is_near else nothing
    nearest, title = _links(sections[:_NEAREST]), sections[0].title
    return f"{said}These sections are nearest:\n\n{nearest}\n\nAsk “{title}” to read that one."


def _links(sections: Sequence[Section]) -> str:
    return "\n".join(f"- **{section.source}**: {section.first_sentence}" for section in sections)
