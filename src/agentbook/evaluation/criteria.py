"""Criteria of checks: length, latency, cost, similarity, and a judge.

Their parameters are those of the functions of `ab.checks`, which make them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

from ..api.calls import ref
from . import judge as judging
from . import similarity, template
from .grade import CaseError
from .javascript import words
from .verdict import Subject, Verdict

UNITS = ("words", "characters")


def number(value: Any, label: str, low: float = -math.inf) -> float:
    """A finite number; `label` begins the message of the error.

    Raises
    ------
    ValueError
        If it is none, or is below `low`.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < low:
        limit = "" if low == -math.inf else f" of {low:g} or more"
        raise ValueError(f"{label} must be a finite number{limit}, not {value!r}.")
    return value if isinstance(value, int | float) else float(value)


def whole_number(value: Any, label: str, low: int) -> int:
    """A whole number of at least `low`.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{label} must be a whole number of {low} or more, not {value!r}.")
    return int(value)


@dataclass(frozen=True, slots=True)
class _Criterion:
    def as_data(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _ExpectedAnswer(_Criterion):
    """Compares the reply with `expected`, a template; the score has a threshold."""

    verb: ClassVar[str]
    expected: str
    threshold: float

    def __post_init__(self) -> None:
        _set(self, "threshold", number(self.threshold, "The threshold of an expected answer"))
        if not isinstance(self.expected, str):
            raise ValueError(f"The expected answer must be a text, not {self.expected!r}.")
        if not self.expected.strip():
            raise ValueError("The expected answer is empty, so no reply could be similar to it.")

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return f"{self.verb} {_shorten(self.expected)}"


@dataclass(frozen=True, slots=True)
class Length(_Criterion):
    """The reply is neither too short nor too long.

    Examples
    --------
    >>> Length(max=2).judge(Subject("One two three."))
    Verdict(passed=False, score=None, error=None, reason='3 words')
    """

    kind: ClassVar[str] = "length"
    max: int | None = None
    min: int | None = None
    unit: str = "words"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"The unit of a length must be words or characters, not {self.unit!r}.")
        for name in ("max", "min"):
            if (limit := getattr(self, name)) is not None:
                _set(self, name, whole_number(limit, f"{name} of a length", low=0))
        if self.max is None and self.min is None:
            raise ValueError("A length needs max= or min=.")
        if self.max is not None and self.min is not None and self.min > self.max:
            raise ValueError(f"A length of at least {self.min} and at most {self.max} {self.unit} is impossible.")

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        limits = [
            f"{word} {limit}" for word, limit in (("at least", self.min), ("at most", self.max)) if limit is not None
        ]
        return f"{' and '.join(limits)} {self.unit}"

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        size = len(words(subject.reply)) if self.unit == "words" else len(subject.reply)
        passed = (self.min is None or size >= self.min) and (self.max is None or size <= self.max)
        return Verdict(passed, reason=f"{size} {self.unit}")


@dataclass(frozen=True, slots=True)
class Latency(_Criterion):
    """The reply arrives within a time limit.

    Examples
    --------
    >>> Latency(2.0).judge(Subject("Hi.", latency_s=2.5)).passed
    False
    """

    kind: ClassVar[str] = "latency"
    max_s: float

    def __post_init__(self) -> None:
        _set(self, "max_s", number(self.max_s, "The limit of a latency in seconds"))
        if not self.max_s > 0:
            raise ValueError(f"The limit of a latency must be more than 0 s, not {self.max_s!r}.")

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return f"within {self.max_s:g} s"

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        if subject.latency_s is None:
            return Verdict(None, error="the time of the reply is not known")
        return Verdict(subject.latency_s <= self.max_s, reason=f"{subject.latency_s:.3g} s")


@dataclass(frozen=True, slots=True)
class Cost(_Criterion):
    """The reply stays within a cost limit.

    Examples
    --------
    >>> Cost(0.01).judge(Subject("Hi.", cost=0.02)).passed
    False
    """

    kind: ClassVar[str] = "cost"
    max: float

    def __post_init__(self) -> None:
        _set(self, "max", number(self.max, "The limit of a cost", low=0))

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return f"costs at most {self.max:g}"

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        if subject.cost is None:
            return Verdict(None, error="the cost is not known: pass prices= with a price for this model")
        return Verdict(subject.cost <= self.max, reason=f"{subject.cost:.3g}")


@dataclass(frozen=True, slots=True)
class Overlap(_ExpectedAnswer):
    """The reply shares words with an expected answer.

    Examples
    --------
    >>> overlap = Overlap("Your key is in Settings")
    >>> overlap.judge(Subject("In the settings.")).score
    0.5
    """

    kind: ClassVar[str] = "overlap"
    verb: ClassVar[str] = "shares words with"
    threshold: float = 0.5

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        expected, reply = (_words(text) for text in (_fill(self.expected, subject), subject.reply))
        common = sum((Counter(expected) & Counter(reply)).values())
        score = 2 * common / (len(expected) + len(reply)) if common else 0.0
        return Verdict(score >= self.threshold, score, reason=f"{common} words in common")


@dataclass(frozen=True, slots=True)
class Similar(_ExpectedAnswer):
    """The reply means much the same as an expected answer, by embeddings.

    Examples
    --------
    >>> Similar("In the settings.", threshold=0.8).name
    'similar to In the settings.'
    """

    kind: ClassVar[str] = "similar"
    verb: ClassVar[str] = "similar to"
    threshold: float = similarity.THRESHOLD

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        embed = similarity.endpoint()
        if embed is None:
            return Verdict(None, error="there is no endpoint for embeddings: set OPENAI_BASE_URL and OPENAI_API_KEY")
        try:
            expected, reply = embed([_fill(self.expected, subject), subject.reply])
            score = similarity.cosine(expected, reply)
        except (similarity.EmbeddingFailed, CaseError) as error:
            return Verdict(None, error=str(error))
        return Verdict(score >= self.threshold, score)


@dataclass(frozen=True, slots=True)
class Rubric(_Criterion):
    """An agent judges the reply by a criterion.

    Attributes
    ----------
    strict : bool
        Whether a judgement that does not say ``pass`` counts as failed, and one that
        cannot be read is undecided. In an evaluation file, they pass and fail.

    Examples
    --------
    >>> rubric = Rubric("It greets.", agent="acme~judge")
    >>> rubric.read('{"reason": "A greeting.", "pass": true}')
    Verdict(passed=True, score=None, error=None, reason='A greeting.')
    >>> rubric.read('{"score": 0.9}').passed
    False
    """

    kind: ClassVar[str] = "rubric"
    text: str
    agent: str
    threshold: float | None = None
    prompt: str = field(default=judging.PROMPT, repr=False)
    strict: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not isinstance(self.prompt, str):
            raise ValueError(f"A rubric and the prompt of its judge must be texts, not {self.text!r}, {self.prompt!r}.")
        if self.threshold is not None:
            _set(self, "threshold", number(self.threshold, "The threshold of a rubric"))
        if not self.text.strip():
            raise ValueError("A rubric needs a criterion, such as “It names a source.”")
        object.__setattr__(self, "agent", ref(self.agent))

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return f"judged: {_shorten(self.text)}"

    @property
    def prompt_version(self) -> str:
        """Identifies the exact text of the judge's prompt, in eight characters."""
        return judging.fingerprint(self.prompt)

    def message(self, subject: Subject) -> str:
        """Prompt of the judge about a reply."""
        prompt = None if self.prompt == judging.PROMPT else self.prompt
        return judging.render_message(_fill(self.text, subject), subject.reply, dict(subject.values), prompt)

    def read(self, text: str) -> Verdict:
        """The verdict in the judge's answer."""
        try:
            judgement = judging.parse_judgement(text)
        except ValueError as error:
            return Verdict(None, error=str(error)) if self.strict else Verdict(False, 0.0, reason=str(error))
        if judgement.passed is None and self.strict:
            return Verdict(False, judgement.score, reason="the judge did not say whether it passes")
        passed = judgement.passed is not False
        if self.threshold is not None:
            score = float(passed) if judgement.score is None else judgement.score
            passed = passed and score >= self.threshold
        return Verdict(passed, judgement.score, reason=judgement.reason or None)

    def judge(self, subject: Subject) -> Verdict:
        """No verdict yet: a run asks the judge."""
        return Verdict(None, error="not judged yet")


Criterion = Length | Latency | Cost | Overlap | Similar | Rubric
KINDS: dict[str, type[Criterion]] = {each.kind: each for each in (Length, Latency, Cost, Overlap, Similar, Rubric)}


def read_criterion(kind: str, data: Mapping[str, Any]) -> Criterion:
    """The criterion that its `as_data` wrote."""
    return KINDS[kind](**data)


def _set(criterion: _Criterion, name: str, value: float) -> None:
    object.__setattr__(criterion, name, value)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _fill(text: str, subject: Subject) -> str:
    try:
        return template.render(text, subject.values)
    except template.EnvironmentRefused:  # a lab's file is data, and not a template for that
        return text


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:39]}…"
