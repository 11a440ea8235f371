# ruff: noqa: E501 - a rule is one line: a pattern and its effect
"""The instructions in a system prompt, recognised by rules.

The documentation lists the rules on its page about the prompt lab. A prompt is read
sentence by sentence; a sentence may contain several instructions. Quoted words are
taken literally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_ONE_TO_TWELVE = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
NUMBERS = {name: number for number, name in enumerate(_ONE_TO_TWELVE, 1)}
BRIEF, DETAILED = 2, 12  # sentences
QUESTION = "Does that answer your question?"
REFUSAL = "I cannot help with that here."
UNKNOWN = "I found nothing about that."

# A quote never contains its opening mark, so a long row of marks takes no longer.
_QUOTE = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)|(?<!\w)‘([^‘’\n]+)’(?!\w)|`([^`\n]+)`")
_CONTINUES = re.compile(r" *[,;.!?]")
# Replaces a quote while sentences are split, so that punctuation in it does no harm.
_PLACEHOLDER = re.compile(r"\x01(\d+)\x02")
_SENTENCE = re.compile(r"(?:[^.!?\n\x01]|\x01\d+\x02|(?<=\w)\.(?=\w))++[.!?]*")
# In characters. The rules look for one word after another, anywhere in a sentence.
_MAX_SENTENCE = 500
_MAX_ITEMS = 100  # topics to keep to or refuse, words to avoid

_ROLE = re.compile(r"^(?:you are|you're|act as)\b", re.IGNORECASE)
_NEGATIVE = re.compile(r"\b(?:never|do not|don['’]t|avoid|without|no|not)\b", re.IGNORECASE)
_NUMBER = rf"(\d{{1,4}}|{'|'.join(NUMBERS)}|a single)"


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a prompt asks for.

    Attributes
    ----------
    sentences, words, points : int or None
        Maximum numbers in the answer itself.
    form : {"prose", "bullets", "numbers", "table", "json"}
    keys : tuple of str
        The keys of the JSON object.
    sources, code : bool or None
        Whether to name the sources; whether to show an example. None if the prompt does
        not say.
    topics, refused : tuple of str
        The only topics it may answer about, and the topics it may not.
    avoid : tuple of str
        Words that the answer must not contain.
    opening, closing, refusal, unknown : str or None
        Texts that the prompt prescribes.
    friendly, plain, upper, lower, secret : bool
    understood, ignored : tuple of str
        The prompt's sentences with and without an instruction.
    """

    sentences: int | None = None
    words: int | None = None
    points: int | None = None
    form: str = "prose"
    keys: tuple[str, ...] = ("answer", "source")
    sources: bool | None = None
    code: bool | None = None
    topics: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    opening: str | None = None
    closing: str | None = None
    refusal: str | None = None
    unknown: str | None = None
    friendly: bool = False
    plain: bool = False
    upper: bool = False
    lower: bool = False
    secret: bool = False
    understood: tuple[str, ...] = field(default=(), compare=False)
    ignored: tuple[str, ...] = field(default=(), compare=False)


# Returns changes to the instructions, given the match, the sentence's quotes and the
# instructions so far.
Effect = Callable[[re.Match[str], list[str], Instructions], Mapping[str, Any]]
Rule = tuple[re.Pattern[str], Effect]


def parse_instructions(prompt: str | None) -> Instructions:
    """The instructions in a system prompt.

    Examples
    --------
    >>> prompt = "Answer in at most two sentences. Never mention prices. Sing!"
    >>> instructions = parse_instructions(prompt)
    >>> instructions.sentences, instructions.avoid, instructions.ignored
    (2, ('prices',), ('Sing!',))
    >>> parse_instructions('Reply as JSON with the keys "answer" and "sources".').keys
    ('answer', 'sources')
    """
    quotes: list[str] = []

    def put_placeholder(match: re.Match[str]) -> str:
        quotes.append(next(group for group in match.groups() if group is not None))
        # A full stop inside the quotation marks also ends the sentence around them.
        ends = quotes[-1][-1] in ".!?" and not _CONTINUES.match(match.string, match.end())
        return f"\x01{len(quotes) - 1}\x02{'.' if ends else ''}"

    text = _QUOTE.sub(put_placeholder, (prompt or "").replace("\x01", "").replace("\x02", ""))
    instructions, understood, ignored = Instructions(), [], []
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip(" -*#>\t")
        if len(sentence) < 3:
            continue
        own_quotes = [quotes[int(placeholder[1])] for placeholder in _PLACEHOLDER.finditer(sentence)]
        changes = _changes(sentence[:_MAX_SENTENCE], own_quotes, instructions)
        instructions = replace(instructions, **changes)
        original = _PLACEHOLDER.sub(lambda placeholder: f"“{quotes[int(placeholder[1])]}”", sentence)
        if changes:
            understood.append(original)
        elif not _ROLE.match(sentence):
            ignored.append(original)
    return replace(instructions, understood=tuple(understood), ignored=tuple(ignored))


def _changes(sentence: str, quotes: list[str], instructions: Instructions) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for pattern, effect in _rules_for(sentence):
        match = pattern.search(sentence)
        if match is not None:
            # An earlier rule takes precedence.
            changes = {**effect(match, quotes, instructions), **changes}
    return changes


def _rules_for(sentence: str) -> tuple[Rule, ...]:
    if any(pattern.search(sentence) for pattern in (_ANYTHING_ELSE, _DOES_NOT_KNOW, _ONLY, _REFUSE)):
        return _REFUSAL_RULES
    return _NEGATIVE_RULES if _NEGATIVE.search(sentence) else _RULES


_ANYTHING_ELSE = re.compile(
    r"\b(?:otherwise|anything else|everything else|off[- ]topic|other (?:topics|questions|subjects))\b", re.IGNORECASE
)
_DOES_NOT_KNOW = re.compile(
    r"\b(?:(?:do not|don['’]t|cannot|can['’]t) (?:know|find|tell|answer)|nothing fits|not (?:sure|found)|unsure)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(
    r"\b(?:only (?:answer|talk|speak|help|reply)|(?:answer|talk|speak|help|reply) only)\b(?: (?:to|questions?|people))* (?:about|on|with|regarding) ([^.;:!?]+)",
    re.IGNORECASE,
)
_REFUSE = re.compile(
    r"\b(?:refuse|decline|(?:never|do not|don['’]t) (?:answer|talk|speak|reply|help))\b(?: to| answer| answering| questions?| any| all| talk| talking)*(?: that (?:are|is))?(?P<not> not| other than| except)? ?(?:about|on|with|regarding)? ([^.;:!?]+)",
    re.IGNORECASE,
)


def _named_items(text: str, quotes: list[str]) -> tuple[str, ...]:
    """The items that an instruction names.

    Quoted items if there are any, else the words between commas and conjunctions.
    """
    if quotes:
        return tuple(quotes)
    items = (item.strip() for item in re.split(r",| and | or |\bnor\b", _PLACEHOLDER.sub("", text)))
    article = re.compile(r"^(?:the|any|a|an|words?|phrases?|its|your|about) ", re.IGNORECASE)
    items = (article.sub("", item).strip(" \"'“”") for item in items)
    return tuple(item for item in items if item)


def _set(**changes: Any) -> Effect:
    return lambda match, quotes, instructions: changes


def _set_number(name: str) -> Effect:
    return lambda match, quotes, instructions: {name: _number(match[1])}


def _number(text: str) -> int:
    return 1 if text.lower() == "a single" else NUMBERS.get(text.lower()) or max(1, int(text))


def _set_quote(name: str, default: str | None = None) -> Effect:
    def effect(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
        text = quotes[0] if quotes else default
        return {} if text is None else {name: text}

    return effect


def _be_brief(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    return {} if instructions.sentences else {"sentences": BRIEF}


def _limit_topics(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    return {"topics": (instructions.topics + _named_items(match[1], []))[:_MAX_ITEMS]}


def _refuse_topics(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    if _DOES_NOT_KNOW.search(match.string):
        return {}
    name = "topics" if match["not"] else "refused"
    return {name: (getattr(instructions, name) + _named_items(match[2], []))[:_MAX_ITEMS]}


def _set_refusal(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    return {} if _DOES_NOT_KNOW.search(match.string) else {"refusal": quotes[-1]}


def _set_keys(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    keys = tuple(re.findall(r"[A-Za-z_]\w*", " ".join(_named_items(match[1], quotes))))
    return {"keys": keys} if keys else {}


def _avoid_words(match: re.Match[str], quotes: list[str], instructions: Instructions) -> Mapping[str, Any]:
    return {"avoid": (instructions.avoid + _named_items(match[1], quotes))[:_MAX_ITEMS]}


def _compile(*rules: tuple[str, Effect]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), effect) for pattern, effect in rules)


_RULES = _compile(
    (rf"\b{_NUMBER} (?:short |plain |friendly |simple )*sentences?\b", _set_number("sentences")),
    (rf"\b{_NUMBER} words?\b", _set_number("words")),
    (rf"\b{_NUMBER} (?:short |bullet |key )*(?:points?|bullets?|items?|steps?|lines?)\b", _set_number("points")),
    (r"\b(?:brief|briefly|short|concise|concisely|terse)\b(?! (?:sentences?|bullet|points?))", _be_brief),
    (r"\b(?:detail|details|detailed|thorough|thoroughly|in depth)\b", _set(sentences=DETAILED)),
    (r"\bjson\b", _set(form="json")),
    (r"\bkeys? (?:named |called )?(.+)", _set_keys),
    (r"\btable\b", _set(form="table")),
    (r"\b(?:numbered|step by step)\b", _set(form="numbers")),
    (r"\b(?:bullets?|bulleted|bullet points?|as a list|unordered list)\b", _set(form="bullets")),
    (r"\b(?:in prose|paragraphs?)\b", _set(form="prose")),
    (r"\b(?:cite|name|give|state|mention|add|quote|list|include|end with)\b.*\bsources?\b", _set(sources=True)),
    (r"\b(?:show|give|include|add|quote|with)\b.*\b(?:examples?|code)\b", _set(code=True)),
    (r"\b(?:begin|start|open)\b.*\bwith\b", _set_quote("opening")),
    (r"\b(?:end|close|finish|conclude)\b.*\bwith\b.*\bquestion\b", _set_quote("closing", QUESTION)),
    (r"\b(?:end|close|finish|conclude)\b.*\bwith\b", _set_quote("closing")),
    (r"\b(?:friendly|warm|warmly|kind|polite|politely|cheerful|like people)\b(?! sentences)", _set(friendly=True)),
    (r"\bplain text\b", _set(plain=True)),
    (r"\b(?:upper ?case|capital letters|capitals)\b", _set(upper=True)),
    (r"\b(?:lower ?case|small letters)\b", _set(lower=True)),
)  # fmt: skip
_NEGATIVE_RULES = _compile(
    (rf"\b(?:more|longer) than {_NUMBER} (?:short )?sentences?\b", _set_number("sentences")),
    (rf"\b(?:more|longer) than {_NUMBER} words?\b", _set_number("words")),
    (rf"\bmore than {_NUMBER} (?:bullet )*(?:points?|bullets?|items?|steps?)\b", _set_number("points")),
    (r"\bsources?\b", _set(sources=False)),
    (r"\b(?:examples?|code)\b", _set(code=False)),
    (r"\b(?:markdown|formatting)\b", _set(plain=True)),
    (r"\b(?:lists?|bullets?|bullet points)\b", _set(form="prose")),
    (r"\b(?:reveal|repeat|tell|show|share|disclose)\b.*\b(?:instructions|orders|rules|prompt)\b", _set(secret=True)),
    (r"\b(?:never|do not|don['’]t|avoid)(?: ever)? (?:mention|use|say|write|name|saying|mentioning|using|the words?|words?)\b(?!.*\b(?:sources?|examples?|code|markdown|lists?|bullets?|more than|longer than)\b)([^.;!?]*)", _avoid_words),
)  # fmt: skip
_REFUSAL_RULES: tuple[Rule, ...] = (
    (_DOES_NOT_KNOW, _set_quote("unknown", UNKNOWN)),
    (_ANYTHING_ELSE, _set_quote("refusal", REFUSAL)),
    (_ONLY, _limit_topics),
    (_REFUSE, _refuse_topics),
    (re.compile(r"\b(?:say|reply|answer|respond)\b[^\x01]*\x01"), _set_refusal),
)
