# ruff: noqa: E501 - a rule is one line: what a prompt says, and what follows
"""What a system prompt orders, read by rules: the instructions that the scribe follows, and those it does not understand.

The rules are the documentation's, in `docs/10-prompt-lab.md`. A prompt is read sentence by sentence; a sentence may hold several
orders. Quoted words are taken as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {name: n for n, name in enumerate(_COUNTED, 1)}
BRIEF, DETAILED = 2, 12
QUESTION = "Does that answer your question?"
REFUSAL = "I cannot help with that here."
UNKNOWN = "I found nothing about that."

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)|(?<!\w)‘([^’\n]+)’(?!\w)|`([^`\n]+)`")
_PLACE = re.compile(r"\x01(\d+)\x02")
_SENTENCE = re.compile(r"(?:[^.!?\n\x01]|\x01\d+\x02|(?<=\w)\.(?=\w))+[.!?]*")
_ROLE = re.compile(r"^(?:you are|you're|act as)\b", re.IGNORECASE)
_NEGATIVE = re.compile(r"\b(?:never|do not|don['’]t|avoid|without|no|not)\b", re.IGNORECASE)
_NUMBER = rf"(\d{{1,4}}|{'|'.join(NUMBERS)}|a single)"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a prompt asks for.

    Attributes
    ----------
    sentences, words, points : int or None
        At most so many in the answer itself.
    form : {"prose", "bullets", "numbers", "table", "json"}
    keys : tuple of str
        Of the JSON object.
    sources, code : bool or None
        Whether to name where it is from; whether to show an example. None where the prompt says nothing.
    topics, refused : tuple of str
        The only subjects it may answer about; those it may not.
    avoid : tuple of str
        Words that must not be in the answer.
    opening, closing, refusal, unknown : str or None
        Words it was given.
    friendly, plain, upper, lower, secret : bool
    understood, ignored : tuple of str
        The prompt's sentences with and without an order in them.
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


def read_orders(prompt: str | None) -> Orders:
    """The orders of a system prompt.

    Examples
    --------
    >>> orders = read_orders("You are a clerk. Answer in at most two sentences. Never mention prices. Sing!")
    >>> orders.sentences, orders.avoid, orders.ignored
    (2, ('prices',), ('Sing!',))
    >>> read_orders('Reply as JSON with the keys "answer" and "sources".').keys
    ('answer', 'sources')
    """
    quotes: list[str] = []

    def put_away(found: re.Match[str]) -> str:
        quotes.append(next(group for group in found.groups() if group is not None))
        # A full stop inside the quotation marks ends the order around them, too.
        ends = quotes[-1][-1] in ".!?" and not found.string[found.end() :].lstrip(" ").startswith(
            (",", ";", ".", "!", "?")
        )
        return f"\x01{len(quotes) - 1}\x02{'.' if ends else ''}"

    shielded = _QUOTED.sub(put_away, (prompt or "").replace("\x01", "").replace("\x02", ""))
    orders, understood, ignored = Orders(), [], []
    for found in _SENTENCE.finditer(shielded):
        line = found[0].strip(" -*#>\t")
        if len(line) < 3:
            continue
        said = _told(line, quotes)
        changes = _changes(line, said, orders)
        orders = replace(orders, **changes)
        shown = _PLACE.sub(lambda place: f"“{quotes[int(place[1])]}”", line)
        if changes:
            understood.append(shown)
        elif not _ROLE.match(line):
            ignored.append(shown)
    return replace(orders, understood=tuple(understood), ignored=tuple(ignored))


def _told(line: str, quotes: list[str]) -> list[str]:
    return [quotes[int(place[1])] for place in _PLACE.finditer(line)]


def _changes(line: str, said: list[str], orders: Orders) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for pattern, follow in _REFUSING if _is_conditional(line) else _NEGATED if _NEGATIVE.search(line) else _RULES:
        found = pattern.search(line)
        if found is not None:
            changes |= {name: value for name, value in follow(found, said, orders).items() if name not in changes}
    return changes


def _is_conditional(line: str) -> bool:
    return bool(_ASKED_ELSE.search(line) or _ASKED_UNKNOWN.search(line) or _ONLY.search(line) or _REFUSE.search(line))


Follow = Callable[[re.Match[str], list[str], Orders], Mapping[str, Any]]
_ASKED_ELSE = re.compile(
    r"\b(?:otherwise|anything else|everything else|off[- ]topic|other (?:topics|questions|subjects))\b", re.IGNORECASE
)
_ASKED_UNKNOWN = re.compile(
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


def _listed(text: str, said: list[str]) -> tuple[str, ...]:
    """The things an order names: quoted ones, else those between commas and joining words."""
    if said:
        return tuple(said)
    parts = re.split(r",| and | or |\bnor\b", _PLACE.sub("", text))
    parts = [
        re.sub(r"^(?:the|any|a|an|words?|phrases?|its|your|about) ", "", part.strip(), flags=re.IGNORECASE)
        for part in parts
    ]
    return tuple(part.strip(" \"'“”") for part in parts if part.strip(" \"'“”"))


def _count(text: str) -> int:
    return 1 if text.lower() == "a single" else NUMBERS.get(text.lower()) or max(1, int(text))


def _limit(what: str) -> Follow:
    return lambda found, said, orders: {what: _count(found[1])}


def _set(**changes: Any) -> Follow:
    return lambda found, said, orders: changes


def _quote(name: str, otherwise: str | None = None) -> Follow:
    def follow(found: re.Match[str], said: list[str], orders: Orders) -> Mapping[str, Any]:
        text = said[0] if said else otherwise
        return {} if text is None else {name: text}

    return follow


def _only(found: re.Match[str], said: list[str], orders: Orders) -> Mapping[str, Any]:
    return {"topics": orders.topics + _listed(found[1], [])}


def _refuse(found: re.Match[str], said: list[str], orders: Orders) -> Mapping[str, Any]:
    where = "topics" if found["not"] else "refused"
    return {where: getattr(orders, where) + _listed(found[2], said)}


def _keys(found: re.Match[str], said: list[str], orders: Orders) -> Mapping[str, Any]:
    names = tuple(re.findall(r"[A-Za-z_]\w*", " ".join(_listed(found[1], said))))
    return {"keys": names} if names else {}


def _avoid(found: re.Match[str], said: list[str], orders: Orders) -> Mapping[str, Any]:
    return {"avoid": orders.avoid + _listed(found[1], said)}


def _rules(*rules: tuple[str, Follow]) -> tuple[tuple[re.Pattern[str], Follow], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), follow) for pattern, follow in rules)


_RULES = _rules(
    (rf"\b{_NUMBER} (?:short |plain |friendly |simple )*sentences?\b", _limit("sentences")),
    (rf"\b{_NUMBER} words?\b", _limit("words")),
    (rf"\b{_NUMBER} (?:short |bullet |key )*(?:points?|bullets?|items?|steps?|lines?)\b", _limit("points")),
    (r"\b(?:brief|briefly|short|concise|concisely|terse)\b(?! (?:sentences?|bullet|points?))", lambda found, said, orders: {} if orders.sentences else {"sentences": BRIEF}),
    (r"\b(?:detail|details|detailed|thorough|thoroughly|in depth)\b", _set(sentences=DETAILED)),
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
    (r"\b(?:end|close|finish|conclude)\b.*\bwith\b", _quote("closing")),
    (r"\b(?:friendly|warm|warmly|kind|polite|politely|cheerful|like people)\b(?! sentences)", _set(friendly=True)),
    (r"\bplain text\b", _set(plain=True)),
    (r"\b(?:upper ?case|capital letters|capitals)\b", _set(upper=True)),
    (r"\b(?:lower ?case|small letters)\b", _set(lower=True)),
)  # fmt: skip
_NEGATED = _rules(
    (rf"\b(?:more|longer) than {_NUMBER} (?:short )?sentences?\b", _limit("sentences")),
    (rf"\b(?:more|longer) than {_NUMBER} words?\b", _limit("words")),
    (rf"\bmore than {_NUMBER} (?:bullet )*(?:points?|bullets?|items?|steps?)\b", _limit("points")),
    (r"\bsources?\b", _set(sources=False)),
    (r"\b(?:examples?|code)\b", _set(code=False)),
    (r"\b(?:markdown|formatting)\b", _set(plain=True)),
    (r"\b(?:lists?|bullets?|bullet points)\b", _set(form="prose")),
    (r"\b(?:reveal|repeat|tell|show|share|disclose)\b.*\b(?:instructions|orders|rules|prompt)\b", _set(secret=True)),
    (r"\b(?:never|do not|don['’]t|avoid)(?: ever)? (?:mention|use|say|write|name|saying|mentioning|using|the words?|words?)\b(?!.*\b(?:sources?|examples?|code|markdown|lists?|bullets?|more than|longer than)\b)([^.;!?]*)", _avoid),
)  # fmt: skip
_REFUSING: tuple[tuple[re.Pattern[str], Follow], ...] = (
    (_ASKED_UNKNOWN, _quote("unknown", UNKNOWN)),
    (_ASKED_ELSE, _quote("refusal", REFUSAL)),
    (_ONLY, _only),
    (_REFUSE, lambda found, said, orders: {} if _ASKED_UNKNOWN.search(found.string) else _refuse(found, [], orders)),
    (re.compile(r"\b(?:say|reply|answer|respond)\b[^\x01]*\x01"), lambda found, said, orders: {"refusal": said[-1]} if not _ASKED_UNKNOWN.search(found.string) else {}),
)  # fmt: skip
