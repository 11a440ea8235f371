"""The scribe: takes an answer from the packaged documentation, and gives it the form its system prompt asks for.

It writes nothing of its own, and what it does with a prompt is the documented rules of `orders`: two prompts that differ in one
of them get two answers that differ in just that.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from ....engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ....engines.streaming import pause, say
from ..documentation import Hit, Library, library
from ..guide import understand
from ..tokenize import stem, subjects
from .instructions import REFUSAL, UNKNOWN, Orders, read_orders

USUAL = 4  # sentences, where the prompt sets no limit
_CLOSE_BEHIND = 0.6  # a second page is read where it fits almost as well
FRIENDLY = "Happy to help!"
_SENTENCE = re.compile(r"(?:[^.!?`]|`[^`]*`|[.!?](?![\s]|$))+[.!?:]*")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")
_ABOUT_ORDERS = re.compile(
    r"\b(?:your|the) (?:orders|instructions|rules|system prompt|prompt)\b|\bwhat were you told\b", re.IGNORECASE
)
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to say: sentences in the order they stand in, an example, where both are from."""

    sentences: tuple[str, ...] = ()
    code: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scribe:
    """Answers as its prompt says.

    Parameters
    ----------
    shelf
        What it reads; None for the documentation in the package.
    """

    shelf: Library | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Reading the prompt and looking up the answer are tool runs; then the reply."""
        orders = read_orders(turn.system_prompt)
        facts = {"followed": list(orders.understood), "not_understood": list(orders.ignored)}
        yield ToolStarted("read_prompt", facts)
        await pause(turn, 0.05)
        yield ToolDone("read_prompt")
        history: Sequence[Message] = turn.history if turn.mode == "multi-turn" else ()
        query = understand(turn.message, history).query
        yield ToolStarted("search_documentation", {"query": query[:200]})
        shelf = self.shelf if self.shelf is not None else await asyncio.to_thread(library)
        hits = shelf.search(query)
        await pause(turn, 0.1)
        yield ToolDone("search_documentation")
        async for step in say(turn, compose(turn.message, query, orders, hits)):
            yield step


def compose(message: str, query: str, orders: Orders, hits: Sequence[Hit]) -> str:
    """The reply."""
    if _ABOUT_ORDERS.search(message):
        return _own_orders(orders)
    if _refused(message, orders, hits):
        return _formed(Found((orders.refusal or REFUSAL,)), message, orders, told=False)
    found = _look_up(query, orders, hits)
    if not found.sentences:
        return _formed(Found((orders.unknown or UNKNOWN,)), message, orders, told=False)
    return _formed(found, message, orders, told=True)


def _own_orders(orders: Orders) -> str:
    if orders.secret:
        return orders.refusal or REFUSAL
    if not orders.understood and not orders.ignored:
        return "My system prompt holds no orders."
    followed = "\n".join(f"- {line}" for line in orders.understood) or "- none"
    text = f"I follow these lines of my system prompt:\n\n{followed}"
    if orders.ignored:
        text += "\n\nThese I do not understand:\n\n" + "\n".join(f"- {line}" for line in orders.ignored)
    return text


def _refused(message: str, orders: Orders, hits: Sequence[Hit]) -> bool:
    # A question is about what it names, and about what the page it leads to is called.
    titles = " ".join(f"{hit.section.document} {hit.section.title}" for hit in hits[:1])
    about = _stems(f"{message} {titles}")
    if any(_stems(topic) <= _stems(message) for topic in orders.refused if _stems(topic)):
        return True
    return bool(orders.topics) and not any(_stems(topic) & about for topic in orders.topics)


def _look_up(query: str, orders: Orders, hits: Sequence[Hit]) -> Found:
    """The sentences that answer best, without those that hold a word to be avoided."""
    asked = _stems(query)
    kept: list[tuple[str, int, str]] = []
    code: str | None = None
    for hit in hits[:2]:
        if kept and hit.score < _CLOSE_BEHIND * hits[0].score:
            break
        said = [line for line in _sentences(hit.section.blocks) if not _holds(line, orders.avoid)]
        kept += [(line, len(asked & _stems(line)), hit.section.source) for line in said]
        code = code or next((block for block in hit.section.blocks if block.startswith("```")), None)
    most = min(filter(None, (orders.points, orders.sentences)), default=USUAL)
    # The best ones, told in the order they stand in; among equals the earlier.
    best = sorted(sorted(range(len(kept)), key=lambda at: (-kept[at][1], at))[:most])
    chosen = _within([kept[at][0] for at in best], orders.words)
    sources = tuple(dict.fromkeys(kept[at][2] for at in best[: len(chosen)]))
    return Found(chosen, code, sources)


def _within(sentences: Sequence[str], most: int | None) -> tuple[str, ...]:
    """As many whole sentences as hold at most so many words; of a first one that is longer, its beginning."""
    if most is None:
        return tuple(sentences)
    kept, used = [], 0
    for sentence in sentences:
        count = len(sentence.split())
        if used + count > most:
            break
        kept.append(sentence)
        used += count
    return tuple(kept) or tuple(f"{' '.join(line.split()[:most])}…" for line in sentences[:1])


def _sentences(blocks: Iterable[str]) -> list[str]:
    """The sentences of a page's prose and lists; not of its code and tables."""
    found: list[str] = []
    for block in blocks:
        if block.startswith(("```", "~~~", "|", "<")):
            continue
        lines = block.splitlines()
        items = [_ITEM.sub("", line) for line in lines] if all(map(_ITEM.match, lines)) else [" ".join(lines)]
        for item in items:
            # A sentence that announces code or a list says nothing without it.
            found += [
                line.strip() for line in _SENTENCE.findall(item) if not line.rstrip().endswith(":") and line.strip()
            ]
    return [line for line in found if len(line.split()) > 2]


def _holds(line: str, avoided: Iterable[str]) -> bool:
    return any(re.search(rf"\b{re.escape(word)}\b", line, re.IGNORECASE) for word in avoided)


def _stems(text: str) -> set[str]:
    return {stem(word) for word in subjects(text)}


# Giving it its form


def _formed(found: Found, message: str, orders: Orders, *, told: bool) -> str:
    lines = [
        _cased(_plain(line) if orders.plain or orders.form == "json" else line, orders) for line in found.sentences
    ]
    if orders.form == "json":
        return json.dumps(_object(lines, found, message, orders, told=told), ensure_ascii=False, indent=1)
    parts = [_shaped(lines, orders) if told else " ".join(lines)]
    if told and orders.code and found.code:
        parts.append(found.code)
    if told and orders.sources:
        parts.append(f"{'Source' if len(found.sources) == 1 else 'Sources'}: {'; '.join(found.sources)}")
    opening = " ".join(filter(None, (orders.opening, FRIENDLY if orders.friendly and told else None)))
    return "\n\n".join(filter(None, (opening, *parts, orders.closing if told else None)))


def _shaped(lines: Sequence[str], orders: Orders) -> str:
    match orders.form:
        case "bullets":
            return "\n".join(f"- {line}" for line in lines)
        case "numbers":
            return "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1))
        case "table":
            cells = (line.replace("|", r"\|") for line in lines)
            rows = [f"| {n} | {cell} |" for n, cell in enumerate(cells, 1)]
            return "\n".join(["| | answer |", "|---|---|", *rows])
        case _:
            return " ".join(lines)


def _object(lines: Sequence[str], found: Found, message: str, orders: Orders, *, told: bool) -> dict[str, object]:
    """The JSON object; a key that the scribe has nothing for is null."""
    values: dict[str, object] = {
        "answer": " ".join(lines),
        "points": list(lines),
        "question": message,
        "source": found.sources[0] if found.sources else None,
        "sources": list(found.sources),
        "example": found.code,
        "found": told,
    }
    return {key: values.get(key.lower()) for key in orders.keys}


def _plain(text: str) -> str:
    return _MARKS.sub("", text)


def _cased(text: str, orders: Orders) -> str:
    return text.upper() if orders.upper else text.lower() if orders.lower else text
