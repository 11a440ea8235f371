"""A check, and the line of text that says what it is.

The line is what people type in a form, what ``str(check)`` returns, and what
`parse_check` reads back: ``words <= 80``, ``not: sorry``, ``/pattern/i``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._text import clip
from .template import file_template, guarded, lab_template, literal_text, names_in, unguarded

# Kinds: which run here, and why the others do not

SUPPORTED = (
    *("equals", "contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all"),
    *("starts-with", "regex", "is-json", "contains-json", "latency", "cost", "similar", "llm-rubric"),
    *("levenshtein", "word-count", "python", "javascript"),
    # Those that only agentbook has.
    *("agentbook:characters", "agentbook:json", "agentbook:overlap", "agentbook:pattern", "agentbook:steps"),
    "agentbook:turn",
)
SET = "assert-set"

_NO_COUNTERPART = "agentbook has no counterpart of it"
_COMPARES = "it compares the replies of several prompts; use `lab.compare_variants` for that"
_REASONS = {
    "agentbook:function": "a file holds no function; write it as `python`",
    "agentbook:cases": "write the asserts of each case below it",
    "ruby": "it runs Ruby, and agentbook runs Python only; write it as `python`",
    "webhook": "it sends replies to another server",
    "select-best": _COMPARES,
    "max-score": _COMPARES,
    "human": "people judge in the form of the prompt lab",
    "moderation": "it needs OpenAI's moderation service",
    "guardrails": "the platform reports no guardrails",
    "perplexity": "the platform reports no log probabilities",
    "perplexity-score": "the platform reports no log probabilities",
    "is-valid-function-call": "a reply of the platform is text",
    "is-valid-openai-function-call": "a reply of the platform is text",
    "is-valid-openai-tools-call": "a reply of the platform is text",
    "model-graded-closedqa": "write it as `llm-rubric`",
    "model-graded-factuality": "write it as `llm-rubric`",
    "factuality": "write it as `llm-rubric`",
    "g-eval": "write it as `llm-rubric`",
    "answer-relevance": "write it as `llm-rubric`",
}
_OTHERS = (
    *("agent-rubric", "bleu", "classifier", "contains-html", "contains-sql", "contains-xml", "context-faithfulness"),
    *("context-recall", "context-relevance", "conversation-relevance", "ends-with", "finish-reason", "gleu", "is-html"),
    *("is-refusal", "is-sql", "is-xml", "meteor", "pi", "rouge-n", "search-rubric", "skill-used", "tool-call-f1"),
    *("similar:cosine", "similar:dot", "similar:euclidean", "character-count", "tokens-used", "math-equivalent"),
)
REFUSED = (*_REASONS, *_OTHERS)


def is_promptfoos(kind: str) -> bool:
    """Whether promptfoo has a type that does not run here."""
    return kind in REFUSED or kind.startswith(("promptfoo:", "trajectory:", "trace-"))


def refusal(kind: str) -> str | None:
    """Why an assert of this type cannot run; None if it can.

    Parameters
    ----------
    kind : str
        The type without ``not-``.

    Examples
    --------
    >>> refusal("contains"), refusal("webhook")
    (None, 'it sends replies to another server')
    >>> refusal("contians")
    "there is no such type; perhaps you mean 'contains'"
    """
    if kind in SUPPORTED:
        return None
    if is_promptfoos(kind):
        return _REASONS.get(kind, _NO_COUNTERPART)
    similar = difflib.get_close_matches(kind, [*SUPPORTED, SET], 1)
    return f"there is no such type; {f'perhaps you mean {similar[0]!r}' if similar else 'those are ' + ', '.join(SUPPORTED)}"


# Checks

PREFIX = "agentbook:"  # of the kinds that only agentbook has
FUNCTION = f"{PREFIX}function"
CASES = f"{PREFIX}cases"  # each input has checks of its own
TURN = f"{PREFIX}turn"  # a check of one reply of a conversation, or of each
EVERY = "every"
CODE = ("python", "javascript")  # whose value is a program
# Flags of a pattern, by their letters.
FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
# The names of a file and of a function in it.
_CODE_FILES = {
    "python": re.compile(r"(?:file://)?(\S+\.py)(?::(\w+))?"),
    "javascript": re.compile(r"file://(\S+\.[cm]?js)(?::(\w+))?", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a reply: a kind, and what it looks for.

    Attributes
    ----------
    type : str
        A kind of `agentbook.evaluation.asserts.KINDS`, with ``not-`` in front if it is
        negated; ``assert-set`` and ``agentbook:turn`` have `children`.
    value : object
        A string or a list of strings may contain templates.
    threshold : float or None
    weight : float
        0 for a check that never fails.
    name : str or None
        What people call it: in a file its ``metric``, in a lab the column of its
        grades.
    rubric_prompt : object
        Prompt of the judge, in place of agentbook's own.
    config : object
        What the code of a ``python`` check reads as ``context["config"]``.
    agent : str or None
        The agent that judges; None for the file's.
    children : tuple of Check
    is_data : bool
        Whether it stands in a data file, so that it has no access to the environment.
    folder : Path or None
        Where the code is that it refers to; None for the folder of the file.
    """

    type: str
    value: Any = None
    threshold: float | None = None
    weight: float = 1.0
    name: str | None = None
    rubric_prompt: Any = None
    config: Any = None
    agent: str | None = None
    children: tuple[Check, ...] = ()
    is_data: bool = field(default=False, compare=False)
    folder: Path | None = field(default=None, compare=False)

    @property
    def base(self) -> str:
        """The type without ``not-``."""
        return self.type.removeprefix("not-")

    @property
    def negated(self) -> bool:
        """Whether the type begins with ``not-``."""
        return self.type.startswith("not-")

    @property
    def label(self) -> str:
        """What people call it: its name, or its type and value.

        Examples
        --------
        >>> Check("contains", "refund").label
        'contains refund'
        """
        return self.name or self.text

    @property
    def text(self) -> str:
        """Its type, threshold and value on one line."""
        value = self.value
        if isinstance(value, Mapping) and isinstance(value.get("pattern"), str):
            value = f"/{value['pattern']}/{value.get('flags', '')}"
        text = " ".join(str(value).split()) if isinstance(value, str | int | float | list) else ""
        limit = "" if self.threshold is None else f" ({self.threshold:g})"
        return f"{self.type}{limit} {text[:60]}".strip()

    def reads(self, kind: str) -> bool:
        """Whether it is of this kind, or has a check of this kind within it."""
        return any(each.base == kind for each in self.flat())

    @property
    def is_local(self) -> bool:
        """Whether it decides on its own; otherwise an agent decides."""
        return not self.judges

    @property
    def judges(self) -> tuple[str, ...]:
        """The agents that have to be asked."""
        return tuple(dict.fromkeys(each.agent for each in self.flat() if each.agent is not None))

    def judged_by(self, agent: str | None, prompt: Any = None) -> Check:
        """The check with this judge, and prompt, for its rubrics that have none."""

        def complete(check: Check) -> Check:
            if check.base != "llm-rubric":
                return check
            return dataclasses.replace(check, agent=check.agent or agent, rubric_prompt=check.rubric_prompt or prompt)

        return self.changed(complete)

    def changed(self, change: Callable[[Check], Check]) -> Check:
        """The check after a change of all within it, and of itself."""
        children = tuple(child.changed(change) for child in self.children)
        return change(dataclasses.replace(self, children=children) if children else self)

    def flat(self) -> Iterator[Check]:
        """The check, and all within it."""
        yield self
        cases = self.value.values() if self.base == CASES else ()
        for check in (*self.children, *(each for case in cases for each in case.asserts)):
            yield from check.flat()

    def __str__(self) -> str:
        """The check as the line that `parse_check` reads.

        Examples
        --------
        >>> str(parse_check("polite: judge acme~judge: It is polite."))
        'polite: judge acme~judge: It is polite.'
        """
        body = _body(self)
        plain, quoted = f"{self.name}: {body}", f"{json.dumps(self.name)}: {body}"
        lines = [body] if self.base in BY_NAME else [body, plain]
        return next((line for line in lines if _reads_as(line, self)), quoted)


def code_file(check: Check) -> tuple[str, str | None] | None:
    """The name of the file and of the function that a check runs; None for code.

    Examples
    --------
    >>> code_file(Check("python", "file://check.py:score"))
    ('check.py', 'score')
    """
    if check.base not in CODE or not isinstance(check.value, str):
        return None
    match = _CODE_FILES[check.base].fullmatch(check.value)
    return None if match is None else (match[1], match[2])


def named(check: Check) -> Check:
    """The check with a name that says what it looks for, if it has none."""
    return check if check.name is not None else dataclasses.replace(check, name=_default_name(check))


def _default_name(check: Check) -> str:
    value, limits = check.value, check.value if isinstance(check.value, Mapping) else {}
    text = clip(unguarded(value), 40) if isinstance(value, str) else ""
    match check.base:
        case "icontains" if isinstance(value, str):
            name = f"contains {literal_text(value) or lab_template(value)}"
        case "word-count" | "agentbook:characters" if limits:
            bounds = [
                f"{word} {limits[key]}" for key, word in (("min", "at least"), ("max", "at most")) if key in limits
            ]
            name = f"{' and '.join(bounds)} {_UNITS[check.base]}"
        case "agentbook:characters" if value is not None:
            name = f"exactly {_number_text(value)} characters"
        case "latency" if check.threshold is not None:
            name = f"within {check.threshold / 1000:g} s"
        case "cost" if check.threshold is not None:
            name = f"costs at most {check.threshold:g}"
        case "agentbook:pattern":
            name = f"matches {limits.get('pattern')}"
        case "agentbook:json":
            name = str(limits.get("title", "JSON schema"))
        case "agentbook:overlap":
            name = f"shares words with {text}"
        case "similar" if text:
            name = f"similar to {text}"
        case "llm-rubric" if text:
            name = f"judged: {text}"
        case "agentbook:function":
            name = str(getattr(value, "__name__", type(value).__name__))
        case "agentbook:steps":
            name = _steps_text(limits)
        case "agentbook:cases":
            name = "cases of the file"
        case "agentbook:turn" if check.children:
            name = f"{_turn_text(value)}: {check.children[0].label}"
        case _:
            return check.text
    return f"not {name}" if check.negated else name


# Writing a line

_UNITS = {"word-count": "words", "agentbook:characters": "characters"}
BY_NAME = (FUNCTION, CASES)  # whose value is no text


def _body(check: Check) -> str:
    """The line without a name."""
    if check.base in BY_NAME:
        body = f"{check.base.removeprefix(PREFIX)}: {_quoted(check.name or '')}"
        return f"not: {body}" if check.negated else body
    if check.base == TURN and check.children:
        body = f"{_turn_text(check.value)}: {_body(check.children[0])}"
        return f"not: {body}" if check.negated else body
    for body in _bodies(check):
        line = f"not: {body}" if check.negated else body
        if _reads_as(f'"": {line}', dataclasses.replace(check, name="")):
            return line
    return f"assert: {json.dumps(check_data(dataclasses.replace(check, name=None)))}"


def _reads_as(line: str, check: Check) -> bool:
    """Whether a line says what the check is."""
    functions = {each.name: each.value for each in check.flat() if each.base in BY_NAME and each.name}
    try:
        return _is_one_line(line) and parse_check(line, functions) == check
    except ValueError:
        return False


def _bodies(check: Check) -> Iterator[str]:
    """Ways to say it, the shortest first; some may say something else."""
    value, limit = check.value, "" if check.threshold is None else f"({_number_text(check.threshold)})"
    limits = value if isinstance(value, Mapping) else {}
    match check.base:
        case "icontains" | "equals" | "starts-with" if isinstance(value, str) and names_in(value):
            yield f"{check.base.removeprefix('i')} {lab_template(value)}"
        case "icontains" if isinstance(value, str):
            yield (text := lab_template(value))
            yield json.dumps(text)
        case "word-count" | "agentbook:characters":
            low, high, unit = limits.get("min"), limits.get("max"), _UNITS[check.base]
            if not limits:
                yield f"{unit} = {_number_text(value)}"
            elif low is None or high is None:
                yield f"{unit} <= {_number_text(high)}" if low is None else f"{unit} >= {_number_text(low)}"
            else:
                yield f"{_number_text(low)} <= {unit} <= {_number_text(high)}"
        case "latency" if check.threshold is not None:
            yield f"latency <= {_number_text(check.threshold / 1000)} s"
            yield f"latency <= {_number_text(check.threshold)} ms"
        case "cost" if check.threshold is not None:
            yield f"cost <= {_number_text(check.threshold)}"
        case "agentbook:pattern":
            yield f"/{limits.get('pattern')}/{limits.get('flags') or ''}"
        case "agentbook:json":
            yield json.dumps(value, ensure_ascii=False)
            yield json.dumps(value)
        case "agentbook:overlap" if isinstance(value, str):
            yield f"like{limit}: {_quoted(unguarded(value))}"
        case "llm-rubric" if isinstance(value, str) and check.agent is not None:
            agent = check.agent if re.fullmatch(r'[^\s:()"]+', check.agent) else json.dumps(check.agent)
            yield f"judge {agent}{limit}: {_quoted(unguarded(value))}"
        case "agentbook:steps":
            yield f"steps: {_steps_text(limits)}"
    if isinstance(value, str):
        yield f"{check.base}{limit}: {_quoted(unguarded(value) if check.base not in CODE else value)}"
    elif value is None:
        yield f"{check.base}{limit}:"
    elif isinstance(value, list | Mapping):
        yield f"{check.base}{limit}: {json.dumps(value, ensure_ascii=False)}"


def _turn_text(value: Any) -> str:
    return "every turn" if value == EVERY else f"turn {value}"


def _is_one_line(text: str) -> bool:
    return text == text.strip() and len(text.splitlines()) == 1


def _quoted(text: str) -> str:
    """A text as it is, or in double quotes if it would be read as something else."""
    return text if _is_one_line(text) and text[0] not in '"[{' else json.dumps(text)


def _number_text(value: Any) -> str:
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def _steps_text(value: Mapping[str, Any]) -> str:
    parts = [f"called {_tool(name)}" for name in value.get("called") or ()]
    parts += [f"not called {_tool(name)}" for name in value.get("not_called") or ()]
    parts += ["in this order"] if value.get("order") == "strict" else []
    parts += [f"at most {value['at_most']}"] if value.get("at_most") is not None else []
    return ", ".join([*parts, *(["no failures"] if value.get("no_failures") else [])])


def _tool(name: str) -> str:
    return name if re.fullmatch(r"[\w.:/-]+", name) else json.dumps(name)


def check_data(check: Check) -> dict[str, Any]:
    """A check as the assert that is written to a file.

    Examples
    --------
    >>> check_data(Check("contains", "refund", name="refunds"))
    {'type': 'contains', 'value': 'refund', 'metric': 'refunds'}
    """
    value = check.value
    data = {
        "type": check.type,
        "value": value,
        "threshold": check.threshold,
        "weight": None if check.weight == 1 else check.weight,
        "metric": check.name,
        "provider": None if check.agent is None else f"{PREFIX}{check.agent}",
        "rubricPrompt": check.rubric_prompt,
        "config": check.config,
        "assert": [check_data(child) for child in check.children] or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def check_from_data(data: Any) -> Check:
    """The check that `check_data` wrote.

    Raises
    ------
    ValueError
        If it is something else.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise ValueError('an assert is an object such as {"type": "contains", "value": "refund"}.')
    known = {"type", "value", "threshold", "weight", "metric", "provider", "rubricPrompt", "config", "assert"}
    if unknown := data.keys() - known:
        raise ValueError(f"an assert has no {min(unknown)!r}.")
    kind, provider = data["type"], data.get("provider")
    children, name = data.get("assert") or [], data.get("metric")
    if not isinstance(children, list) or not isinstance(name, str | None):
        raise ValueError("the metric of an assert is a text, and its asserts are a list.")
    if kind.removeprefix("not-") not in (SET, FUNCTION) and (reason := refusal(kind.removeprefix("not-"))):
        raise ValueError(f"the assert {kind} cannot run: {reason}.")
    return Check(
        type=kind,
        value=data.get("value"),
        threshold=_number(data["threshold"]) if "threshold" in data else None,
        weight=_number(data["weight"]) if "weight" in data else 1.0,
        name=name,
        rubric_prompt=data.get("rubricPrompt"),
        # An earlier version wrote for each judge that it is strict; all are.
        config=None if data.get("config") == {"strict": True} else data.get("config"),
        agent=None if provider is None else str(provider).removeprefix(PREFIX),
        children=tuple(map(check_from_data, children)),
    )


# Reading a line

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOOL = rf"{_STRING}|[\w.:/-]+"
_NAMED = re.compile(rf"(?:(?P<quoted>{_STRING})|(?P<name>[^:/{{\"]{{1,60}})):\s+(?P<body>.+)", re.DOTALL)
_KINDS = "|".join(map(re.escape, sorted(SUPPORTED, key=len, reverse=True)))
_KIND = re.compile(
    rf"(?:(?P<word>not|function|cases|steps|like|assert|every\s+turn|turn\s+-?\d{{1,4}})|(?P<kind>(?:not-)?(?:{_KINDS}))"
    rf"|judge\s+(?P<agent>{_STRING}|[^\s:()\"]+))\s*(?:\((?P<limit>[^()]*)\))?:(?:\s+(?P<value>.*))?",
    re.DOTALL,
)
_BOUND = re.compile(
    r"(?:(?P<low>\S+)\s*<=\s*)?(?P<what>words|characters|latency|cost)\s*(?P<sign><=|>=|=)\s*(?P<limit>\S+?)\s*(?P<unit>m?s)?"
)
_PATTERN = re.compile(r"/(?P<pattern>.+)/(?P<flags>[a-z]*)", re.DOTALL)
_OF_COLUMN = re.compile(r"(?P<kind>contains|equals|starts-with)\s+(?P<value>.+)", re.DOTALL)
# A text that is more likely a check with a slip: a limit, or a kind without its colon.
_SLIP = re.compile(
    r"\S+\s*(?:[<>]=?|==?)\s*-?[\d.]+\s*\w*|(?:not[- ])?"
    r"(?:(?:is|contains)[- ]json|i?contains(?:[- ](?:any|all))?\s.+|(?:equals|starts[- ]with|ends[- ]with)\s.+)",
    re.DOTALL | re.IGNORECASE,
)
_STEP = re.compile(
    rf"(?:(?P<not>not )?called (?P<name>{_TOOL})|at most (?P<most>\d+)|(?P<order>in this order)"
    r"|(?P<failures>no failures))\s*(?:,\s*|\Z)"
)


def parse_check(line: str, functions: Mapping[str, Any] | None = None) -> Check:
    r"""The check that a line of text says.

    Parameters
    ----------
    line : str
        A text that the reply contains, in any case, or ``contains {{column}}`` and
        ``equals {{column}}`` for the text in a column; ``/pattern/`` with the flags i,
        m, s, x and a; a JSON schema; ``words <= 80``, ``2 <= characters <= 9``,
        ``latency <= 5 s``, ``cost <= 0.01``; ``like: …`` for words in common; ``judge
        NAME: …``; ``steps: called run_sql, not called send, in this order, at most 3,
        no failures``; ``turn 2: …`` or ``every turn: …`` for a reply of a conversation;
        ``function: NAME``; or a kind of an evaluation file, such as ``equals: …`` or
        ``similar(0.8): …``. ``not:`` in front negates it, and a name with a colon
        before all that names it; before a bare text, the name stands in double quotes.
        Text in double quotes is a text.
    functions : mapping of str to object, optional
        Functions by name.

    Raises
    ------
    ValueError
        If it cannot be read; the message says why.

    Examples
    --------
    >>> check = parse_check("no excuse: not: sorry")
    >>> check.type, check.value, check.name
    ('not-icontains', 'sorry', 'no excuse')
    >>> str(parse_check("words<=80")), parse_check("words <= 80").name
    ('words <= 80', 'at most 80 words')
    """
    line, functions = line.strip(), functions or {}
    match = _NAMED.fullmatch(line)
    if match is None or _KIND.fullmatch(line) is not None:
        return named(_parse_body(line, functions))
    name = match["name"].strip() if match["quoted"] is None else json.loads(match["quoted"])
    if match["quoted"] is None and name.lower() == "judge":
        raise ValueError("a judge has a name: judge NAME: It is polite. Put double quotes around a name “judge”.")
    body = match["body"].strip()
    check = _parse_body(body, functions)
    is_said = body.startswith('"') or _KIND.fullmatch(body) or _OF_COLUMN.fullmatch(body)
    if match["quoted"] is None and check.base == "icontains" and not is_said:
        return named(_parse_body(json.dumps(line), functions))  # “Subject: Refund” is a text with a colon
    return dataclasses.replace(check, name=name)


def _parse_body(body: str, functions: Mapping[str, Any]) -> Check:
    if match := _KIND.fullmatch(body):
        return _parse_kind(match, functions)
    if match := _BOUND.fullmatch(body):
        return _parse_bound(**match.groupdict())
    if body.startswith("/"):
        return _parse_pattern(body)
    if body.startswith("{") and not names_in(body):
        return Check("agentbook:json", _json_of(body))
    if (match := _OF_COLUMN.fullmatch(body)) and names_in(match["value"]):
        return Check("icontains" if match["kind"] == "contains" else match["kind"], file_template(match["value"], {}))
    if _SLIP.fullmatch(body):
        raise ValueError(
            "it looks like a check of another kind, such as words <= 80, latency <= 5 s, starts-with: Dear or is-json:. "
            "Put double quotes around it if you mean this text."
        )
    return Check("icontains", file_template(_text(body, "a check"), {}))


def _parse_pattern(body: str) -> Check:
    match = _PATTERN.fullmatch(body)
    if match is None or not set(match["flags"]) <= set(FLAGS):
        raise ValueError(
            f"a pattern stands between slashes, with the flags {', '.join(FLAGS)} after them; write double quotes "
            "around a text that begins with a slash."
        )
    value = {"pattern": match["pattern"], **({"flags": match["flags"]} if match["flags"] else {})}
    compiled(value)
    return Check("agentbook:pattern", value)


def _parse_kind(match: re.Match[str], functions: Mapping[str, Any]) -> Check:
    word, kind, text = match["word"], match["kind"], (match["value"] or "").strip()
    limit = None if match["limit"] is None else _number(match["limit"])
    if word == "not":
        body = _text(text, "not:", unquoted=False)
        if re.match(r"not\s*:\s*not\s*:", body):
            raise ValueError("not: stands once or twice before a check.")
        check = _parse_body(body, functions)
        return dataclasses.replace(check, type=check.base if check.negated else f"not-{check.base}")
    if word == "steps":
        return Check("agentbook:steps", _parse_steps(text))
    if word == "assert":
        return check_from_data(_json_of(text))
    if word is not None and word.split()[0] in ("every", "turn"):
        number = EVERY if word.startswith(EVERY) else int(word.split()[1])
        if number == 0:
            raise ValueError("turns count from 1, and from the end from -1.")
        return Check(TURN, number, children=(named(_parse_body(text, functions)),))
    if word == "like":
        return Check("agentbook:overlap", guarded(_text(text, "like:")), limit)
    if word is not None:
        name = _text(text, f"{word}:")
        if name not in functions:
            there = ", ".join(map(str, functions)) or "none yet"
            raise ValueError(f"there is no {word} called {name!r}; there are: {there}.")
        return Check(f"{PREFIX}{word}", functions[name], name=name)
    if kind is None:
        agent = _text(match["agent"], "judge")
        return Check("llm-rubric", guarded(_text(text, "judge")), limit, agent=agent)
    value: Any = _json_of(text) if text[:1] in ("[", "{") else _text(text, f"{kind}:") if text else None
    is_text = isinstance(value, str) and not kind.endswith(CODE)
    return Check(kind, guarded(value) if is_text else value, limit)


def _parse_bound(low: str | None, what: str, sign: str, limit: str, unit: str | None) -> Check:
    bound = _number(limit)
    if min(bound, 0 if low is None else _number(low)) < 0:
        raise ValueError("a limit is 0 or more.")
    if what in ("words", "characters"):
        kind = next(kind for kind, name in _UNITS.items() if name == what)
        if unit is None and (low is None or sign == "<="):
            names = {"<=": "max", ">=": "min"}
            value = {
                **({} if low is None else {"min": _number(low)}),
                **({names[sign]: bound} if sign in names else {}),
            }
            return Check(kind, value or bound)
    elif sign == "<=" and low is None and (unit is None or what == "latency"):
        return Check(what, threshold=bound if what == "cost" or unit == "ms" else bound * 1000)
    raise ValueError("a limit is words <= 80, 2 <= characters <= 9, latency <= 5 s or cost <= 0.01.")


def _parse_steps(text: str) -> dict[str, Any]:
    value: dict[str, Any] = {}
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(
                f"steps: {text[position:]!r} cannot be read; write called NAME, not called NAME, in this order, "
                "at most 3, no failures, with commas between them."
            )
        if match["name"]:
            value.setdefault("not_called" if match["not"] else "called", []).append(_text(match["name"], "called"))
        elif match["most"]:
            value["at_most"] = int(match["most"])
        else:
            value |= {"order": "strict"} if match["order"] else {"no_failures": True}
        position = match.end()
    if not value:
        raise ValueError("steps: needs a condition, such as called run_sql.")
    return value


def _text(text: str, where: str, *, unquoted: bool = True) -> str:
    """A text, or what stands in double quotes."""
    if unquoted and len(text) > 1 and re.fullmatch(_STRING, text, re.DOTALL):
        text = _json_of(text)
    if not text:
        raise ValueError(f"{where} needs a text; an empty one would always pass.")
    return text


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}; write double quotes around a text.") from error


def _number(text: Any) -> float:
    with contextlib.suppress(ValueError, OverflowError, RecursionError):  # also of hundreds of digits
        number = json.loads(text) if isinstance(text, str) else text
        if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
            return number
    raise ValueError(f"a finite number is needed, not {text!r}.")


def compiled(value: Mapping[str, Any]) -> re.Pattern[str]:
    """The pattern that an ``agentbook:pattern`` looks for.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> compiled({"pattern": "a+", "flags": "i"}).search("AA") is not None
    True
    """
    pattern, flags = value.get("pattern"), value.get("flags") or ""
    if not isinstance(pattern, str) or not pattern or not isinstance(flags, str):
        raise ValueError(f"a pattern and its flags are texts, not {pattern!r}, {flags!r}.")
    unknown = next((flag for flag in flags if flag not in FLAGS), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is not a flag of patterns; the flags are {', '.join(FLAGS)}.")
    try:
        return re.compile(pattern, sum(FLAGS[flag] for flag in set(flags)))
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}.") from error
