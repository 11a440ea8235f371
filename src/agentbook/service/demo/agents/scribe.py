# ruff: noqa: E501 - a rule is one line: a pattern and its effect
"""The `scribe` agent: follows its system prompt by rules, without a language model.

It takes an answer from the packaged manual and gives it the form that the prompt asks
for. So if two prompts differ in one rule, their replies differ only in that. It also
answers for LLM agents while no model is configured, and then says so.

A prompt is read sentence by sentence; a sentence may contain several instructions.
Quoted words are taken literally. The manual lists the rules in its page about the
prompt lab.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...engines.base import Step, ToolDone, ToolStarted, TurnRequest
from ..manual import Hit, Manual, keywords, manual
from .guide import question_of, search_result
from .proposer import DIGITS, OF_A_PROPOSAL, REFUSAL, UNKNOWN, propose
from .streaming import pause, readable, stream_reply

NOTICE = "*No language model is configured: this reply is a part of the manual, in the form that the prompt asks for.*"
QUESTION = "Does that answer your question?"
STOP = "###STOP###"  # what simulated users write at their end, in promptfoo too
# In characters. The rules look for one word after another, anywhere in a sentence.
_MAX_SENTENCE = 500
_MAX_ITEMS = 100  # topics to keep to or refuse, words to avoid


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a prompt asks for.

    Attributes
    ----------
    sentences, words : int or None
        Maximum numbers in the answer itself, of which each point is a sentence; `usual`
        is the number of sentences if the prompt names none.
    form : {"prose", "bullets", "numbers", "table", "json"}
    keys : tuple of str
        The keys of the JSON object.
    topics, refused : tuple of str
        The only topics it may answer about, and the topics it may not.
    avoid : tuple of str
        Words that the answer must not contain.
    opening, closing, refusal, unknown : str or None
        Texts that the prompt prescribes.
    script : tuple of str
        What it says, one text after another, whatever the messages are: a user that
        a test simulates.
    understood, ignored : tuple of str
        The prompt's sentences with and without an instruction.
    """

    sentences: int | None = None
    words: int | None = None
    usual: int = 4
    form: str = "prose"
    keys: tuple[str, ...] = ("answer", "source")
    sources: bool = False
    code: bool = False
    topics: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    opening: str | None = None
    closing: str | None = None
    refusal: str = REFUSAL
    unknown: str = UNKNOWN
    friendly: bool = False
    plain: bool = False
    capitals: bool = False
    secret: bool = False
    script: tuple[str, ...] = ()
    understood: tuple[str, ...] = field(default=(), compare=False)
    ignored: tuple[str, ...] = field(default=(), compare=False)


Effect = Callable[[re.Match[str], list[str]], Mapping[str, Any]]


def _set(**changes: Any) -> Effect:
    return lambda match, quotes: changes


def _number(name: str) -> Effect:
    return lambda match, quotes: {name: int(DIGITS.get(match[1].lower()) or re.sub(r"\D", "", match[1]) or 1)}


def _quote(name: str, default: str | None = None) -> Effect:
    return lambda match, quotes: {name: quotes[0]} if quotes else {name: default} if default else {}


def _items(name: str) -> Effect:
    """The quoted items, else the words between commas and conjunctions."""

    def effect(match: re.Match[str], quotes: list[str]) -> Mapping[str, Any]:
        parts = (_LEADING.sub("", part.strip()) for part in re.split(r",| and | or |\bnor\b", match["items"]))
        return {name: tuple(quotes) or tuple(part.strip(" \"'“”") for part in parts if part)}

    return effect


def _keys(match: re.Match[str], quotes: list[str]) -> Mapping[str, Any]:
    keys = re.findall(r"[A-Za-z_]\w*", " ".join(quotes) or re.sub(r"\band\b", " ", match[1]))
    return {"keys": tuple(keys)} if keys else {}


def _rules(*rules: tuple[str, Effect]) -> tuple[tuple[re.Pattern[str], Effect], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), effect) for pattern, effect in rules)


_LEADING = re.compile(r"^(?:the|any|a|an|words?|phrases?|its|your|about) ", re.IGNORECASE)
_N = rf"(\d{{1,4}}|{'|'.join(DIGITS)}|a single)"
# Sentences about refusing and about not knowing: the first that matches, no other rule.
_REFUSALS = _rules(
    (r"\b(?:(?:do not|don['’]t|cannot|can['’]t) (?:know|find|tell|answer)\b(?! questions)|nothing fits|not (?:sure|found)|unsure)\b", _quote("unknown")),
    (r"\b(?:otherwise|anything else|everything else|off[- ]topic|other (?:topics|questions|subjects))\b", _quote("refusal")),
    (r"\b(?:only (?:answer|talk|speak|help|reply)|(?:answer|talk|speak|help|reply) only)\b(?: (?:to|questions?|people))* (?:about|on|with|regarding) (?P<items>[^.;:!?]+)", _items("topics")),
    (r"\b(?:refuse|decline)\b(?: to| answer| answering| questions?| any| all| talk| talking)*(?: that (?:are|is))? (?:not|other than|except) ?(?:about|on|with|regarding)? (?P<items>[^.;:!?]+)", _items("topics")),
    (r"\b(?:refuse|decline|(?:never|do not|don['’]t) (?:answer|talk|speak|reply|help))\b(?: to| answer| answering| questions?| any| all| talk| talking)* ?(?:about|on|with|regarding)? (?P<items>[^.;:!?]+)", _items("refused")),
)  # fmt: skip
_NEGATIVE = re.compile(r"\b(?:never|do not|don['’]t|avoid|without|no|not)\b", re.IGNORECASE)
_NEGATIVE_RULES = _rules(
    (rf"\b(?:more|longer) than {_N} (?:short )?sentences?\b", _number("sentences")),
    (rf"\b(?:more|longer) than {_N} words?\b", _number("words")),
    (rf"\bmore than {_N} (?:bullet )*(?:points?|bullets?|items?|steps?)\b", _number("sentences")),
    (r"\bsources?\b", _set(sources=False)),
    (r"\b(?:examples?|code)\b", _set(code=False)),
    (r"\b(?:markdown|formatting)\b", _set(plain=True)),
    (r"\b(?:lists?|bullets?|bullet points)\b", _set(form="prose")),
    (r"\b(?:reveal|repeat|tell|show|share|disclose)\b.*\b(?:instructions|orders|rules|prompt)\b", _set(secret=True)),
    (r"\b(?:never|do not|don['’]t|avoid)(?: ever)? (?:mention|use|say|write|name|saying|mentioning|using|the words?|words?)\b(?!.*\b(?:sources?|examples?|code|markdown|lists?|bullets?|more than|longer than)\b)(?P<items>[^.;!?]*)", _items("avoid")),
)  # fmt: skip
_POSITIVE_RULES = _rules(
    (r"\b(?:say|ask|write)\b.*\bin this order\b", lambda match, quotes: {"script": tuple(quotes)} if quotes else {}),
    (rf"\b{_N} (?:short |plain |friendly |simple )*sentences?\b", _number("sentences")),
    (rf"\b{_N} words?\b", _number("words")),
    (rf"\b{_N} (?:short |bullet |key )*(?:points?|bullets?|items?|steps?|lines?)\b", _number("sentences")),
    (r"\b(?:brief|briefly|short|concise|concisely|terse)\b(?! (?:sentences?|bullet|points?))", _set(usual=2)),
    (r"\b(?:detail|details|detailed|thorough|thoroughly|in depth)\b", _set(usual=12)),
    (r"\bjson\b", _set(form="json")),
    (r"\bkeys? (?:named |called )?(.+)", _keys),
    (r"\btable\b", _set(form="table")),
    (r"\b(?:numbered|step by step)\b", _set(form="numbers")),
    (r"\b(?:bullets?|bulleted|bullet points?|as a list|unordered list)\b", _set(form="bullets")),
    (r"\b(?:in prose|paragraphs?)\b", _set(form="prose")),
    (r"\b(?:cite|name|give|state|mention|add|quote|list|include|end with)\b.*\bsources?\b", _set(sources=True)),
    (r"\b(?:show|give|include|add|quote|with)\b.*\b(?:examples?|code)\b", _set(code=True)),
    (r"\b(?:begin|start|open)\b.*\bwith\b", _quote("opening")),
    (r"\b(?:end|close|finish|conclude)\b.*\bwith\b.*\bquestion\b", _quote("closing", QUESTION)),
    (r"\b(?:end|close|finish|conclude)\b.*\bwith\b", lambda match, quotes: {"closing": quotes[-1]} if quotes else {}),
    (r"\b(?:friendly|warm|warmly|kind|polite|politely|cheerful|like people)\b(?! sentences)", _set(friendly=True)),
    (r"\bplain text\b", _set(plain=True)),
    (r"\b(?:upper ?case|capital letters|capitals)\b", _set(capitals=True)),
)  # fmt: skip
_ROLE = re.compile(r"^(?:you are|you're|act as)\b", re.IGNORECASE)
# A quote never contains its opening mark, so a long row of marks takes no longer.
_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)|(?<!\w)‘([^‘’\n]+)’(?!\w)|`([^`\n]+)`")
# Replaces a quote while sentences are split, so that punctuation in it does no harm.
_PLACEHOLDER = re.compile(r"\x01(\d+)\x02")
_PROMPT_SENTENCE = re.compile(r"(?:[^.!?\n\x01]|\x01\d+\x02|(?<=\w)\.(?=\w))+[.!?]*")


def parse_instructions(prompt: str | None) -> Instructions:
    """The instructions in a system prompt.

    Examples
    --------
    >>> prompt = "Answer in at most two sentences. Never mention prices. Sing!"
    >>> instructions = parse_instructions(prompt)
    >>> instructions.sentences, instructions.avoid, instructions.ignored
    (2, ('prices',), ('Sing!',))
    """
    quotes: list[str] = []

    def put_placeholder(match: re.Match[str]) -> str:
        quotes.append(next(group for group in match.groups() if group is not None))
        # A full stop inside the quotation marks also ends the sentence around them.
        ends = quotes[-1][-1] in ".!?" and not re.match(r" *[,;.!?]", match.string[match.end() : match.end() + 50])
        return f"\x01{len(quotes) - 1}\x02{'.' if ends else ''}"

    text = _QUOTED.sub(put_placeholder, (prompt or "").replace("\x01", "").replace("\x02", ""))
    instructions, understood, ignored = Instructions(), [], []
    for match in _PROMPT_SENTENCE.finditer(text):
        sentence = match[0].strip(" -*#>\t")
        if len(sentence) < 3:
            continue
        own_quotes = [quotes[int(placeholder[1])] for placeholder in _PLACEHOLDER.finditer(sentence)]
        changes = _changes(_PLACEHOLDER.sub("", sentence[:_MAX_SENTENCE]), own_quotes)
        for name in {"topics", "refused", "avoid"} & changes.keys():
            changes[name] = (getattr(instructions, name) + changes[name])[:_MAX_ITEMS]
        instructions = replace(instructions, **changes)
        original = _PLACEHOLDER.sub(lambda placeholder: f"“{quotes[int(placeholder[1])]}”", sentence)
        if changes:
            understood.append(original)
        elif not _ROLE.match(sentence):
            ignored.append(original)
    return replace(instructions, understood=tuple(understood), ignored=tuple(ignored))


def _changes(sentence: str, quotes: list[str]) -> dict[str, Any]:
    for pattern, effect in _REFUSALS:
        if match := pattern.search(sentence):
            return dict(effect(match, quotes))
    changes: dict[str, Any] = {}
    for pattern, effect in _NEGATIVE_RULES if _NEGATIVE.search(sentence) else _POSITIVE_RULES:
        if match := pattern.search(sentence):
            changes = {**effect(match, quotes), **changes}  # an earlier rule takes precedence
    return changes


@dataclass(frozen=True, slots=True)
class Scribe:
    """Answers as its prompt says.

    Parameters
    ----------
    manual
        What it reads; None for the packaged one.
    stands_in
        Whether it answers in place of a language model, and says so.
    """

    manual: Manual | None = None
    stands_in: bool = False

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Read the prompt and search as tool runs, then reply."""
        turn = readable(turn)
        instructions = await asyncio.to_thread(parse_instructions, turn.system_prompt)
        lines = {"followed": list(instructions.understood), "not_understood": list(instructions.ignored)}
        if not turn.prompt_is_visible:
            instructions, lines = replace(instructions, secret=True), {}
        yield ToolStarted("read_prompt", lines)
        await pause(turn, 0.05)
        yield ToolDone("read_prompt")
        if turn.message.startswith(OF_A_PROPOSAL):
            text = await asyncio.to_thread(propose, turn.message)
        elif instructions.script:
            said = sum(message.role == "user" for message in turn.history)
            text = [*instructions.script, STOP][min(said, len(instructions.script))]
        else:
            query = question_of(turn.message, turn.history if turn.mode == "multi-turn" else ())
            yield ToolStarted("search_documentation", {"query": query[:200]})
            pages = self.manual if self.manual is not None else await asyncio.to_thread(manual)
            hits = await asyncio.to_thread(pages.search, query)
            await pause(turn, 0.1)
            yield ToolDone("search_documentation", search_result(hits))
            text = await asyncio.to_thread(compose, turn.message, query, instructions, hits)
            if self.stands_in and instructions.form != "json":
                text += f"\n\n{NOTICE}"
        async for step in stream_reply(turn, text):
            yield step


_ABOUT_INSTRUCTIONS = re.compile(
    r"\b(?:your|the) (?:orders|instructions|rules|system prompt|prompt)\b|\bwhat were you told\b", re.IGNORECASE
)


def compose(message: str, query: str, instructions: Instructions, hits: Sequence[Hit]) -> str:
    """The reply to a message, in the form that the instructions ask for."""
    if _ABOUT_INSTRUCTIONS.search(message):
        return _describe(instructions)
    hit = next((hit for hit in hits if hit.in_title), None)
    if _is_refused(message, instructions, hit):
        return _format([instructions.refusal], message, instructions)
    sentences = _best_sentences(query, instructions, hit) if hit else []
    if hit is None or not sentences:
        return _format([instructions.unknown], message, instructions)
    return _format(sentences, message, instructions, hit)


def _describe(instructions: Instructions) -> str:
    """The reply to a question about the instructions themselves."""
    if instructions.secret:
        return instructions.refusal
    parts = (
        ("I follow these lines of my system prompt", instructions.understood),
        ("These I do not understand", instructions.ignored),
    )
    texts = ["\n".join([f"{title}:\n", *(f"- {line}" for line in lines)]) for title, lines in parts if lines]
    return "\n\n".join(texts) or "My system prompt has no instructions."


def _stems(text: str) -> set[str]:
    return {word.removesuffix("s") for word in keywords(text)}


def _is_refused(message: str, instructions: Instructions, hit: Hit | None) -> bool:
    # The topics of a question are its own words and the title of the section.
    asked, about = _stems(message), _stems(f"{message} {hit.section.source if hit else ''}")
    if any(_stems(topic) <= asked for topic in instructions.refused if _stems(topic)):
        return True
    return bool(instructions.topics) and not any(_stems(topic) & about for topic in instructions.topics)


_SENTENCE = re.compile(r"(?:[^.!?`]|`[^`]*`|[.!?](?![\s]|$))+[.!?:]*")
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")


def _best_sentences(query: str, instructions: Instructions, hit: Hit) -> list[str]:
    """The sentences that fit best, in their own order.

    Those with a word to avoid are left out.
    """
    avoided = re.compile(rf"\b(?:{'|'.join(map(re.escape, instructions.avoid)) or '(?!)'})\b", re.IGNORECASE)
    candidates = [sentence for sentence in _sentences(hit.section.blocks) if not avoided.search(sentence)]
    limit = instructions.sentences or instructions.usual
    asked = _stems(query)
    ranking = sorted(range(len(candidates)), key=lambda index: (-len(asked & _stems(candidates[index])), index))
    best = [candidates[index] for index in sorted(ranking[:limit])]
    if instructions.words is None:
        return best
    chosen: list[str] = []
    for sentence in best:
        if len(" ".join([*chosen, sentence]).split()) > instructions.words:
            break
        chosen.append(sentence)
    return chosen or [f"{' '.join(sentence.split()[: instructions.words])}…" for sentence in best[:1]]


def _sentences(blocks: Iterable[str]) -> list[str]:
    """The sentences of a section's prose and lists, not of its code and tables."""
    lines = (line for block in blocks if not block.startswith(("```", "~~~", "|", "<")) for line in block.splitlines())
    sentences = [sentence.strip() for line in lines for sentence in _SENTENCE.findall(_LIST_ITEM.sub("", line))]
    # A sentence that announces code or a list is useless without it, as is a question.
    return [sentence for sentence in sentences if len(sentence.split()) > 2 and not sentence.endswith((":", "?"))]


_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")


def _format(sentences: Sequence[str], message: str, instructions: Instructions, hit: Hit | None = None) -> str:
    """The text of a reply.

    Without a hit, it is a refusal or says that nothing is known. The JSON object has
    the keys of the instructions; unknown ones are null.
    """
    is_plain = instructions.plain or instructions.form == "json"
    lines = [_MARKUP.sub("", line) for line in sentences] if is_plain else list(sentences)
    if instructions.capitals:
        lines = [line.upper() for line in lines]
    code = next((block for block in hit.section.blocks if block.startswith("```")), None) if hit else None
    source = hit.section.source if hit else None
    if instructions.form == "json":
        values: dict[str, object] = {"answer": " ".join(lines), "points": lines, "question": message, "source": source}
        values |= {"sources": [source] if source else [], "example": code, "found": hit is not None}
        return json.dumps({key: values.get(key.lower()) for key in instructions.keys}, ensure_ascii=False, indent=1)
    if hit is None:
        return "\n\n".join(filter(None, (instructions.opening, " ".join(lines))))
    greeting = " ".join(filter(None, (instructions.opening, "Happy to help!" if instructions.friendly else None)))
    named = f"Source: {source}" if instructions.sources else None
    parts = (greeting, _FORMS[instructions.form](lines), code if instructions.code else None, named)
    return "\n\n".join(filter(None, (*parts, instructions.closing)))


def _table(lines: list[str]) -> str:
    rows = [f"| {number} | {line.replace('|', chr(92) + '|')} |" for number, line in enumerate(lines, 1)]
    return "\n".join(["| | answer |", "|---|---|", *rows])


_FORMS: Mapping[str, Callable[[list[str]], str]] = {
    "prose": " ".join,
    "bullets": lambda lines: "\n".join(f"- {line}" for line in lines),
    "numbers": lambda lines: "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1)),
    "table": _table,
}
