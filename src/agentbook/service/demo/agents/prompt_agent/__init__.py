"""The `scribe` agent: follows its system prompt by rules, without a language model.

It takes an answer from the packaged documentation and gives it the form that the prompt
asks for. It writes nothing of its own, and applies only the documented rules in
`instructions`. So if two prompts differ in one rule, their answers differ only in that.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

from ....engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ....engines.streaming import pause, stream_reply
from ..bounds import compute, readable
from ..documentation import GLOSSARY, Hit, Library, library
from ..guide import search_result, understand
from ..tokenize import keyword_stems
from .instructions import REFUSAL, UNKNOWN, Instructions, parse_instructions

__all__ = ["PromptAgent"]

_DEFAULT_SENTENCES = 4
_SIMILAR_SCORE = 0.6  # a second page is read if its score is at least this share of the best
_FRIENDLY_OPENING = "Happy to help!"
_SENTENCE = re.compile(r"(?:[^.!?`]|`[^`]*`|[.!?](?![\s]|$))+[.!?:]*")
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")
_ABOUT_INSTRUCTIONS = re.compile(
    r"\b(?:your|the) (?:orders|instructions|rules|system prompt|prompt)\b|\bwhat were you told\b", re.IGNORECASE
)
_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of a reply, before it is formatted.

    Attributes
    ----------
    sentences : tuple of str
        The sentences, in the order of the documentation.
    code : str or None
        An example.
    sources : tuple of str
        The sections that the sentences come from.
    is_known : bool
        Whether it is an answer, not a refusal or "I found nothing".
    """

    sentences: tuple[str, ...]
    code: str | None = None
    sources: tuple[str, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class PromptAgent:
    """Answers as its prompt says.

    Parameters
    ----------
    library
        The documentation that it reads; None for the packaged one.
    """

    library: Library | None = None

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Read the prompt and search as tool runs, then reply."""
        turn = readable(turn)
        instructions = await compute(parse_instructions, turn.system_prompt)
        lines = {"followed": list(instructions.understood), "not_understood": list(instructions.ignored)}
        if not turn.prompt_is_visible:
            instructions, lines = replace(instructions, secret=True), {}
        yield ToolStarted("read_prompt", lines)
        await pause(turn, 0.05)
        yield ToolDone("read_prompt")
        history: Sequence[Message] = turn.history if turn.mode == "multi-turn" else ()
        query = (await compute(understand, turn.message, history)).query
        yield ToolStarted("search_documentation", {"query": query[:200]})
        pages = self.library if self.library is not None else await compute(library)
        # It quotes sentences, and the glossary's do not name what they define.
        hits = [hit for hit in await compute(pages.search, query) if hit.section.document != GLOSSARY]
        await pause(turn, 0.1)
        yield ToolDone("search_documentation", search_result(hits))
        text = await compute(compose, turn.message, query, instructions, hits)
        async for step in stream_reply(turn, text):
            yield step


def compose(message: str, query: str, instructions: Instructions, hits: Sequence[Hit]) -> str:
    """The reply to a message, in the form that the instructions ask for."""
    if _ABOUT_INSTRUCTIONS.search(message):
        return _describe(instructions)
    if _is_refused(message, instructions, hits):
        answer = Answer((instructions.refusal or REFUSAL,), is_known=False)
    else:
        answer = _find_answer(query, instructions, hits)
    return _format(answer, message, instructions)


def _describe(instructions: Instructions) -> str:
    """The reply to a question about the instructions themselves."""
    if instructions.secret:
        return instructions.refusal or REFUSAL
    if not instructions.understood and not instructions.ignored:
        return "My system prompt holds no orders."
    followed = "\n".join(f"- {line}" for line in instructions.understood) or "- none"
    text = f"I follow these lines of my system prompt:\n\n{followed}"
    if instructions.ignored:
        text += "\n\nThese I do not understand:\n\n" + "\n".join(f"- {line}" for line in instructions.ignored)
    return text


def _is_refused(message: str, instructions: Instructions, hits: Sequence[Hit]) -> bool:
    # The topics of a question are its own words and the titles of the best hit.
    titles = " ".join(f"{hit.section.document} {hit.section.title}" for hit in hits[:1])
    message_stems, topic_stems = keyword_stems(message), keyword_stems(f"{message} {titles}")
    if any(keyword_stems(topic) <= message_stems for topic in instructions.refused if keyword_stems(topic)):
        return True
    return bool(instructions.topics) and not any(keyword_stems(topic) & topic_stems for topic in instructions.topics)


def _find_answer(query: str, instructions: Instructions, hits: Sequence[Hit]) -> Answer:
    """The sentences that fit best, without those that contain a word to avoid."""
    query_stems, avoided = keyword_stems(query), _words_pattern(instructions.avoid)
    candidates: list[tuple[str, int, str]] = []  # sentence, score, source
    code: str | None = None
    for hit in hits[:2]:
        if candidates and hit.score < _SIMILAR_SCORE * hits[0].score:
            break
        for sentence in _sentences(hit.section.blocks):
            if avoided is None or not avoided.search(sentence):
                score = len(query_stems & keyword_stems(sentence))
                candidates.append((sentence, score, hit.section.source))
        code = code or next((block for block in hit.section.blocks if block.startswith("```")), None)
    limit = min(filter(None, (instructions.points, instructions.sentences)), default=_DEFAULT_SENTENCES)
    # The best candidates in their original order; among equals the earlier.
    ranking = sorted(range(len(candidates)), key=lambda index: (-candidates[index][1], index))
    best = [candidates[index] for index in sorted(ranking[:limit])]
    sentences = _limit_words([sentence for sentence, _, _ in best], instructions.words)
    if not sentences:
        return Answer((instructions.unknown or UNKNOWN,), is_known=False)
    sources = dict.fromkeys(source for _, _, source in best[: len(sentences)])
    return Answer(sentences, code, tuple(sources))


def _limit_words(sentences: Sequence[str], max_words: int | None) -> tuple[str, ...]:
    """The leading whole sentences with at most `max_words` words in all.

    If the first sentence is longer than that, only its beginning.
    """
    if max_words is None:
        return tuple(sentences)
    chosen, count = [], 0
    for sentence in sentences:
        count += len(sentence.split())
        if count > max_words:
            break
        chosen.append(sentence)
    return tuple(chosen) or tuple(f"{' '.join(sentence.split()[:max_words])}…" for sentence in sentences[:1])


def _sentences(blocks: Iterable[str]) -> list[str]:
    """The sentences of a page's prose and lists, not of its code and tables."""
    sentences: list[str] = []
    for block in blocks:
        if block.startswith(("```", "~~~", "|", "<")):
            continue
        lines = block.splitlines()
        is_list = all(map(_LIST_ITEM.match, lines))
        for item in [_LIST_ITEM.sub("", line) for line in lines] if is_list else [" ".join(lines)]:
            sentences += [sentence.strip() for sentence in _SENTENCE.findall(item)]
    # A sentence that announces code or a list is useless without it.
    return [sentence for sentence in sentences if len(sentence.split()) > 2 and not sentence.endswith(":")]


def _words_pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern of any of these words; None without words."""
    alternatives = "|".join(map(re.escape, words))
    return re.compile(rf"\b(?:{alternatives})\b", re.IGNORECASE) if words else None


def _format(answer: Answer, message: str, instructions: Instructions) -> str:
    """The text of a reply."""
    lines = [_format_line(line, instructions) for line in answer.sentences]
    if instructions.form == "json":
        return _format_json(lines, answer, message, instructions)
    if not answer.is_known:
        return "\n\n".join(filter(None, (instructions.opening, " ".join(lines))))
    greeting = (instructions.opening, _FRIENDLY_OPENING if instructions.friendly else None)
    parts = [" ".join(filter(None, greeting)), _format_lines(lines, instructions.form)]
    if instructions.code and answer.code:
        parts.append(answer.code)
    if instructions.sources:
        parts.append(f"{'Source' if len(answer.sources) == 1 else 'Sources'}: {'; '.join(answer.sources)}")
    return "\n\n".join(filter(None, (*parts, instructions.closing)))


def _format_line(line: str, instructions: Instructions) -> str:
    if instructions.plain or instructions.form == "json":
        line = _MARKUP.sub("", line)
    return line.upper() if instructions.upper else line.lower() if instructions.lower else line


def _format_lines(lines: Sequence[str], form: str) -> str:
    match form:
        case "bullets":
            return "\n".join(f"- {line}" for line in lines)
        case "numbers":
            return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
        case "table":
            cells = (line.replace("|", r"\|") for line in lines)
            rows = [f"| {number} | {cell} |" for number, cell in enumerate(cells, 1)]
            return "\n".join(["| | answer |", "|---|---|", *rows])
        case _:
            return " ".join(lines)


def _format_json(lines: Sequence[str], answer: Answer, message: str, instructions: Instructions) -> str:
    """A JSON object with the keys of the instructions; unknown keys are null."""
    values: dict[str, object] = {
        "answer": " ".join(lines),
        "points": list(lines),
        "question": message,
        "source": answer.sources[0] if answer.sources else None,
        "sources": list(answer.sources),
        "example": answer.code,
        "found": answer.is_known,
    }
    document = {key: values.get(key.lower()) for key in instructions.keys}
    return json.dumps(document, ensure_ascii=False, indent=1)
