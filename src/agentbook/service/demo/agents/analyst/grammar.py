"""Reading a question: a sentence in, a `Question` out. Each part of a question has one function, and none looks at another's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..tokenize import COMMON
from .periods import Period, find_periods
from .question import DIMENSIONS, MEASURES, SESSION_TYPES, USUAL_MEASURE, Question, pattern

_MOST = r"busiest|most|top|highest|slowest|longest|peak|largest|biggest|worst|maximum|best"
_LEAST = r"quietest|least|fewest|fastest|quickest|lowest|shortest|smallest"
_COMPARE = pattern(r"compare[ds]?|comparison|versus|vs|against|change[ds]?|difference|than")
_BREAKDOWN = r"by|per|each|every|which|what|across|for each|grouped by|broken down by|split by|" + _MOST + "|" + _LEAST
_ALONE = {
    "initiator": pattern("who|whom"),
    "hour": pattern("when|hourly|what time"),
    "day": pattern("daily"),
    "week": pattern("weekly"),
    "month": pattern("monthly"),
}
_BUSY = pattern(r"busy|busiest|quiet|quietest|active|activity|traffic|usage|used|peak|volume")
# "Which hour is the busiest?" shows what comes after it too, or the answer could not be judged.
_AROUND_THE_FIRST = 5
_RANK_TOP = re.compile(rf"\btop (\d{{1,3}})\b|\b(\d{{1,3}}) (?:{_MOST}|{_LEAST})\b")
_MENTION = re.compile(r"[\"“”'‘’`]([\w~. -]{1,80})[\"“”'‘’`]")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that exist, which a question may mention."""

    workspaces: Sequence[str]
    agents: Sequence[str]


class UnknownName(ValueError):
    """A question quotes a name that is neither a workspace nor an agent; `args[0]` is the name."""


def parse(text: str, names: Names, now: datetime, *, guess: bool = True) -> Question | None:
    """The question that `text` asks, or None where it names nothing that can be counted.

    "By weekday?" alone asks for messages if `guess`; without, it is left to `continued`.

    Raises
    ------
    NoSuchDate
        It names a date that does not exist.
    UnknownName
        It quotes a name that does not exist.

    Examples
    --------
    >>> from datetime import UTC
    >>> question = parse("Which agent failed most often?", Names([], ["guide"]), datetime(2026, 11, 20, tzinfo=UTC))
    >>> question.measure, question.dimension, question.order
    ('failures', 'agent', 'most')
    """
    plain = _plain(text)
    periods, rest = find_periods(plain, now)
    workspace, agent, rest = _places(rest, names)
    order, top, rest = _rank(rest)
    dimension = _dimension(rest, order)
    measure = _measure(rest, dimension)
    if measure is None and ((dimension and guess) or order or _BUSY.search(rest) or _is_comparison(plain, periods)):
        measure = USUAL_MEASURE
    if measure is None:
        return None
    if dimension == "kind" and measure != "failures":
        dimension = None
    if (
        measure == "failures"
        and dimension is None
        and pattern("why|reason|what").search(rest)
        and "how many" not in rest
    ):
        dimension = "kind"
    question = Question(
        measure=measure,
        dimension=dimension,
        order=order,
        top=top or (_AROUND_THE_FIRST if order and dimension and _is_singular(rest) else None),
        period=periods[0] if periods else Period(),
        workspace=workspace,
        agent=agent,
        session_type=_session_type(rest),
    )
    return _compared(question, plain, periods, now)


def continued(text: str, earlier: Question, names: Names, now: datetime) -> Question | None:
    """What a short follow-up ("And last week?", "By agent?") makes of an earlier question; None if it is none."""
    plain = _plain(text)
    periods, rest = find_periods(plain, now)
    workspace, agent, rest = _places(rest, names)
    dimension = _dimension(rest, None)
    if not (periods or workspace or agent or dimension) or len(plain.split()) > 9:
        return None
    return replace(
        earlier,
        period=periods[0] if periods else earlier.period,
        against=None if periods else earlier.against,
        workspace=workspace or earlier.workspace,
        agent=agent or earlier.agent,
        dimension=dimension or earlier.dimension,
        top=None if dimension else earlier.top,
        order=None if dimension else earlier.order,
    )


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[?!;()*_#|<>]+|[.,:](?=\s|$)", " ", text[:2000].lower().replace("’", "'")).split())


def _is_comparison(text: str, periods: Sequence[Period]) -> bool:
    return bool(_COMPARE.search(text)) and (len(periods) > 0 or "compare" in text)


def _compared(question: Question, text: str, periods: Sequence[Period], now: datetime) -> Question:
    if not _is_comparison(text, periods):
        return question
    if len(periods) >= 2:
        return replace(question, period=periods[0], against=periods[1])
    [period] = periods or find_periods("this week", now)[0]
    return replace(question, period=period, against=period.before())


def _measure(text: str, dimension: str | None) -> str | None:
    for key, measure in MEASURES.items():
        found = pattern(measure.pattern).search(text)
        # "Errors by limit" names failures once as the measure; "by kind of failure" alone means failures too.
        if found and not (key in {"agents", "workspaces"} and dimension):
            return key
    return None


def _dimension(text: str, order: str | None) -> str | None:
    for key, words in DIMENSIONS.items():
        if key in {"agent", "workspace"} and re.search(rf"\bhow many (?:different )?(?:{words})\b", text):
            continue
        gap = r"(?: (?:the|single|different|one|our|of|active|busy|hectic|common|frequent|kinds?(?= of)|failure|session))*"
        if re.search(rf"\b(?:{_BREAKDOWN}){gap} (?:{words})\b", text):
            # "which failures" asks for failures, "by failure" for their kinds.
            if key == "kind" and re.search(
                r"\b(?:which|what|most|every)(?: \w+)? (?:errors?|failures?|limits?)\b", text
            ):
                return "kind" if order or "kind" in text else None
            return key
    return next((key for key, words in _ALONE.items() if words.search(text)), None)


def _rank(text: str) -> tuple[str | None, int | None, str]:
    found = _RANK_TOP.search(text)
    top = min(int(found[1] or found[2]), 100) or None if found else None
    if found and found[1]:
        text = text.replace(found[0], "top", 1)
    least, most = pattern(_LEAST).search(text), pattern(_MOST).search(text)
    order = "least" if least else "most" if most else None
    return order, top, text


def _is_singular(text: str) -> bool:
    """Whether one thing is asked for: "which agent", "the busiest hour", not "which agents"."""
    if pattern("agents|workspaces|hours|days|weeks|months|weekdays|people|users|keys|kinds|reasons|causes").search(
        text
    ):
        return False
    return bool(re.search(rf"\b(?:which|what|who|when|the (?:{_MOST}|{_LEAST}))\b", text))


def _session_type(text: str) -> str | None:
    return next((key for key, words in SESSION_TYPES.items() if pattern(words).search(text)), None)


_BEFORE_NAME = (
    r"(?:in|for|of|from|by|with|on|did|does|do|has|have|is|was|and|to|at|about|than|workspace|agent|does the|how)"
)


def _places(text: str, names: Names) -> tuple[str | None, str | None, str]:
    """The workspace and the agent a text mentions, and the text without them."""
    for mention in _MENTION.findall(text):
        if mention.rpartition("~")[2].strip() not in {name.lower() for name in (*names.workspaces, *names.agents)}:
            raise UnknownName(mention)
    text = _MENTION.sub(lambda found: f" {found[1]} ", text)
    text = " ".join(text.split())
    agent, text = _place(text, names.agents, "agent", not_before="workspace")
    workspace, text = _place(text, names.workspaces, "workspace", not_before="agent")
    return workspace, agent, text


def _place(text: str, names: Sequence[str], kind: str, not_before: str) -> tuple[str | None, str]:
    # Longest first: "data-desk" is not "data".
    for name in sorted(names, key=len, reverse=True):
        spelt = re.escape(name.lower()).replace(r"\-", "[- ]").replace("_", "[_ ]")
        telling = "-" in name or "_" in name or "~" in text
        lead = (
            r"(?P<lead>^|\b" + _BEFORE_NAME + r" (?:the )?(?:our )?(?:\w+~)?)"
            if not telling
            else r"(?P<lead>\b(?:\w+~)?)"
        )
        found = re.search(rf"{lead}{spelt}(?![\w-])(?! {not_before}s?\b)(?: {kind})?", text)
        if found is None:
            found = re.search(rf"(?P<lead>\b){spelt}(?![\w-])(?: {kind}\b)", text)
        # A word that the grammar itself uses is a name only where the text says so ("the messages agent").
        if found and (name.lower() not in COMMON or kind in found[0]):
            rest = text[: found.start()] + found["lead"] + text[found.end() :]
            return name, " ".join(rest.split())
    return None, text
