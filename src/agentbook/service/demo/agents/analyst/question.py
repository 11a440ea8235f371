# ruff: noqa: E501 - a measure is one line
"""The grammar of questions: a sentence in, a `Question` out.

A question says what is counted, by what, when and where. One function reads each of
these parts, and none looks at another's words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..tokenize import STOP_WORDS
from .periods import Period, find_periods


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that can be counted or measured.

    `pattern` recognises it in a question; `counted` says exactly what is counted.
    """

    key: str
    noun: str
    pattern: str
    counted: str


# If a question names two measures, the first in this order is used: "how many sessions
# failed" asks for failures.
MEASURES: dict[str, Measure] = {
    measure.key: measure
    for measure in (
        Measure("failure_rate", "failure rate", r"(?:failure|error) rate|(?:share|percentage|percent|rate) of (?:failures|failed|errors)|how often (?:do|did|does) .*fail", "failed turns as a share of all turns that began in the period"),
        Measure("failures", "failures", r"fail\w*|errors?|went wrong|crash\w*|broken?|limits?", "`runtime_error` events in the period"),
        Measure("unanswered", "unanswered messages", r"unanswered|no (?:reply|answer)|without (?:a |an )?(?:reply|answer)|never answered|not answered", "messages of the period that neither a reply nor a failure followed"),
        Measure("latency", "waiting time", r"slow\w*|fast\w*|latenc\w+|how long|response times?|reply times?|answer times?|wait\w*|quick\w*", "seconds from a message's `created_at` to its reply's, for messages of the period that were answered"),
        Measure("tools", "subtasks", r"sub-?tasks?|tools?|tool (?:runs?|calls?)", "`runtime_done` events with empty content in the period"),
        Measure("replies", "replies", r"repl(?:y|ies)|answers?|answered", "`runtime_done` events with `content.text` in the period"),
        Measure("messages", "messages", r"messages?|questions?|prompts?|asked|wrote|written", "messages that somebody other than an agent wrote in the period"),
        Measure("turns", "turns", r"turns?|exchanges?", "messages of the period, each with the reply or failure that closed it"),
        Measure("events", "events", r"events?", "session events of every type in the period"),
        Measure("sessions", "sessions", r"sessions?|conversations?|chats?|runs?", "sessions that began in the period"),
        Measure("agents", "agents", r"how many (?:different )?agents|number of agents|count (?:the )?agents", "agents that ran at least one session that began in the period"),
        Measure("workspaces", "workspaces", r"how many (?:different )?workspaces|number of workspaces|count (?:the )?workspaces", "workspaces in which at least one session began in the period"),
    )
}  # fmt: skip
# For questions that do not name a measure ("When are we busiest?").
DEFAULT_MEASURE = "messages"

# Dimension -> the words that name it, the most specific dimension first.
DIMENSIONS: dict[str, str] = {
    "weekday": r"weekdays?|days? of (?:the )?week",
    "hour": r"hours?|hourly|times? of (?:the )?day|o'clock|time",
    "day": r"days?|daily|dates?",
    "week": r"weeks?|weekly",
    "month": r"months?|monthly",
    "workspace": r"workspaces?",
    "agent": r"agents?",
    "initiator": r"initiators?|person|people|persons|users?|members?|keys?|api keys?|colleagues?",
    "kind": r"kinds?|reasons?|causes?|errors?|limits?|failures?",
    "type": r"(?:session )?types?",
}
TIME_DIMENSIONS = ("hour", "weekday", "day", "week", "month")

SESSION_TYPES: dict[str, str] = {
    "webhook": r"webhooks?|alerts?",
    "time": r"scheduled|timed|cron",
    "api_trigger": r"api[_ -]triggers?|triggered",
    "agent_test": r"agent[_ -]tests?|test (?:sessions?|runs?)",
    "chat": r"chats?",
}

EXAMPLES = (
    "How many sessions did we have last week?",
    "Messages by agent since 2026-11-01",
    "Which hour is the busiest?",
    "Failures by kind in the last 14 days",
    "What were the 5 slowest answers this month?",
    "Compare this week with last week",
)


def pattern(words: str) -> re.Pattern[str]:
    """A pattern of whole words; `words` are alternatives separated by ``|``."""
    return re.compile(rf"\b(?:{words})\b")


_HIGHEST = r"busiest|most|top|highest|slowest|longest|peak|largest|biggest|worst|maximum|best"
_LOWEST = r"quietest|least|fewest|fastest|quickest|lowest|shortest|smallest"
_COMPARE = pattern(r"compare[ds]?|comparison|versus|vs|against|change[ds]?|difference|than")
_BREAKDOWN = (
    r"by|per|each|every|which|what|across|for each|grouped by|broken down by|split by|" + _HIGHEST + "|" + _LOWEST
)
_SINGLE_WORDS = {
    "initiator": pattern("who|whom"),
    "hour": pattern("when|hourly|what time"),
    "day": pattern("daily"),
    "week": pattern("weekly"),
    "month": pattern("monthly"),
}
_BUSY = pattern(r"busy|busiest|quiet|quietest|active|activity|traffic|usage|used|peak|volume")
# "Which hour is the busiest?" shows the next rows too, so that the answer can be
# judged.
_ROWS_FOR_ONE = 5
_MAX_TOP = 100
_MAX_CHARACTERS = 2000
_MAX_FOLLOW_UP_WORDS = 9
_TOP_NUMBER = re.compile(rf"\btop (\d{{1,3}})\b|\b(\d{{1,3}}) (?:{_HIGHEST}|{_LOWEST})\b")
_QUOTED_NAME = re.compile(r"[\"“”'‘’`]([\w~. -]{1,80})[\"“”'‘’`]")
# A name without a hyphen or an underscore counts as a name only after these words.
_BEFORE_NAME = (
    r"(?:in|for|of|from|by|with|on|did|does|do|has|have|is|was|and|to|at|about|than|workspace|agent|does the|how)"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a question asks for.

    Attributes
    ----------
    measure : str
        A key of `MEASURES`.
    dimension : str or None
        A key of `DIMENSIONS`; None for one number.
    order : {"most", "least"} or None
        None: times in chronological order, everything else by size.
    top : int or None
        The number of rows; None for all.
    period, against : Period
        The period, and the one to compare it with.
    workspace, agent, session_type : str or None
        Where to count; None for everywhere.
    """

    measure: str
    dimension: str | None = None
    order: str | None = None
    top: int | None = None
    period: Period = field(default_factory=Period)
    against: Period | None = None
    workspace: str | None = None
    agent: str | None = None
    session_type: str | None = None

    @property
    def lists_turns(self) -> bool:
        """Whether it asks for single turns ("the five slowest answers")."""
        return self.measure == "latency" and self.dimension is None and self.order is not None


@dataclass(frozen=True, slots=True)
class Names:
    """The existing names that a question may mention."""

    workspaces: Sequence[str]
    agents: Sequence[str]


class UnknownName(ValueError):
    """A question quotes an unknown workspace or agent; `args[0]` is the name."""


def parse(text: str, names: Names, now: datetime, *, guess: bool = True) -> Question | None:
    """The question in `text`; None if it does not name anything to count.

    "By weekday?" alone asks for messages if `guess` is true. Otherwise the result is
    None, because it may be a follow-up (`parse_follow_up`).

    Raises
    ------
    NoSuchDate
        The text names a date that does not exist.
    UnknownName
        The text quotes a name that does not exist.

    Examples
    --------
    >>> from datetime import UTC
    >>> names, now = Names([], ["guide"]), datetime(2026, 11, 20, tzinfo=UTC)
    >>> question = parse("Which agent failed most often?", names, now)
    >>> question.measure, question.dimension, question.order
    ('failures', 'agent', 'most')
    """
    text = _normalize(text)
    periods, rest = find_periods(text, now)
    workspace, agent, rest = _find_names(rest, names)
    order, top, rest = _find_rank(rest)
    dimension = _find_dimension(rest, order)
    measure = _find_measure(rest, dimension)
    if measure is None and ((dimension and guess) or order or _BUSY.search(rest) or _is_comparison(text, periods)):
        measure = DEFAULT_MEASURE
    if measure is None:
        return None
    if dimension == "kind" and measure != "failures":
        dimension = None
    asks_why = pattern("why|reason|what").search(rest) and "how many" not in rest
    if measure == "failures" and dimension is None and asks_why:
        dimension = "kind"
    question = Question(
        measure=measure,
        dimension=dimension,
        order=order,
        top=top or (_ROWS_FOR_ONE if order and dimension and _is_singular(rest) else None),
        period=periods[0] if periods else Period(),
        workspace=workspace,
        agent=agent,
        session_type=_find_session_type(rest),
    )
    return _with_comparison(question, periods, now) if _is_comparison(text, periods) else question


def parse_follow_up(text: str, earlier: Question, names: Names, now: datetime) -> Question | None:
    """A short follow-up ("And last week?", "By agent?") applied to an earlier question.

    None if `text` is not a follow-up.
    """
    text = _normalize(text)
    periods, rest = find_periods(text, now)
    workspace, agent, rest = _find_names(rest, names)
    dimension = _find_dimension(rest, None)
    if not (periods or workspace or agent or dimension) or len(text.split()) > _MAX_FOLLOW_UP_WORDS:
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


def _normalize(text: str) -> str:
    """`text` in lower case, without punctuation."""
    text = text[:_MAX_CHARACTERS].lower().replace("’", "'")
    return " ".join(re.sub(r"[?!;()*_#|<>]+|[.,:](?=\s|$)", " ", text).split())


def _is_comparison(text: str, periods: Sequence[Period]) -> bool:
    return bool(_COMPARE.search(text)) and (len(periods) > 0 or "compare" in text)


def _with_comparison(question: Question, periods: Sequence[Period], now: datetime) -> Question:
    if len(periods) >= 2:
        return replace(question, period=periods[0], against=periods[1])
    [period] = periods or find_periods("this week", now)[0]
    return replace(question, period=period, against=period.before())


def _find_measure(text: str, dimension: str | None) -> str | None:
    for key, measure in MEASURES.items():
        # "Which agents" and "by workspace" name a dimension, not a measure.
        if pattern(measure.pattern).search(text) and not (key in {"agents", "workspaces"} and dimension):
            return key
    return None


def _find_dimension(text: str, order: str | None) -> str | None:
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
    return next((key for key, words in _SINGLE_WORDS.items() if words.search(text)), None)


def _find_rank(text: str) -> tuple[str | None, int | None, str]:
    """The order and the number of rows, and the text without the number."""
    match = _TOP_NUMBER.search(text)
    top = min(int(match[1] or match[2]), _MAX_TOP) or None if match else None
    if match and match[1]:
        text = text.replace(match[0], "top", 1)
    if pattern(_LOWEST).search(text):
        return "least", top, text
    return "most" if pattern(_HIGHEST).search(text) else None, top, text


def _is_singular(text: str) -> bool:
    """Whether it asks for only one: "which agent" or "the busiest hour"."""
    if pattern("agents|workspaces|hours|days|weeks|months|weekdays|people|users|keys|kinds|reasons|causes").search(
        text
    ):
        return False
    return bool(re.search(rf"\b(?:which|what|who|when|the (?:{_HIGHEST}|{_LOWEST}))\b", text))


def _find_session_type(text: str) -> str | None:
    return next((key for key, words in SESSION_TYPES.items() if pattern(words).search(text)), None)


def _find_names(text: str, names: Names) -> tuple[str | None, str | None, str]:
    """The workspace and the agent that a text mentions, and the text without them."""
    known = {name.lower() for name in (*names.workspaces, *names.agents)}
    for quoted in _QUOTED_NAME.findall(text):
        if quoted.rpartition("~")[2].strip() not in known:
            raise UnknownName(quoted)
    text = " ".join(_QUOTED_NAME.sub(lambda match: f" {match[1]} ", text).split())
    agent, text = _find_name(text, names.agents, "agent", not_before="workspace")
    workspace, text = _find_name(text, names.workspaces, "workspace", not_before="agent")
    return workspace, agent, text


def _plain(text: str) -> str:
    return text.replace("-", " ").replace("_", " ")


def _find_name(text: str, names: Sequence[str], kind: str, not_before: str) -> tuple[str | None, str]:
    # Longest first: "data-desk" is not "data".
    plain_text = _plain(text)
    for name in sorted(names, key=len, reverse=True):
        if _plain(name.lower()) not in plain_text:  # an account may have thousands of names
            continue
        spelling = re.escape(name.lower()).replace(r"\-", "[- ]").replace("_", "[_ ]")
        is_distinctive = "-" in name or "_" in name or "~" in text
        lead = (
            r"(?P<lead>\b(?:\w+~)?)"
            if is_distinctive
            else r"(?P<lead>^|\b" + _BEFORE_NAME + r" (?:the )?(?:our )?(?:\w+~)?)"
        )
        match = re.search(rf"{lead}{spelling}(?![\w-])(?! {not_before}s?\b)(?: {kind})?", text)
        if match is None:
            match = re.search(rf"(?P<lead>\b){spelling}(?![\w-])(?: {kind}\b)", text)
        # A stop word is a name only if the text says so ("the messages agent").
        if match and (name.lower() not in STOP_WORDS or kind in match[0]):
            rest = text[: match.start()] + match["lead"] + text[match.end() :]
            return name, " ".join(rest.split())
    return None, text
