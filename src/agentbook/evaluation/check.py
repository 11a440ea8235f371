"""A check, and the line of text that says what it is.

The line is what people type in a form, what ``str(check)`` returns, and what
`parse_check` reads back: ``words <= 80``, ``not: sorry``, ``/pattern/i``.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from .._text import clip
from .template import names_in

# Kinds with a text, a list of texts, or a JSON schema, as promptfoo calls them
TEXTS = ("equals", "contains", "icontains", "starts-with", "regex")
LISTS = ("contains-any", "contains-all", "icontains-any", "icontains-all")
SCHEMAS = ("is-json", "contains-json")
KINDS = (*TEXTS, *LISTS, *SCHEMAS, "similar", "llm-rubric", "word-count", "latency", "cost")
PREFIX = "agentbook:"  # of the kinds that only agentbook has
FUNCTION = f"{PREFIX}function"
OWN = f"{PREFIX}own"  # each input has a check of its own, or none
TURN = f"{PREFIX}turn"  # a check of one reply of a conversation, or of each
EVERY = "every"
# Flags of a pattern, by their letters.
FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
CODE_FILE = re.compile(r"(\S+\.py):([^\W\d]\w*)")  # the names of a file and of a function in it


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a reply: a kind, and what it looks for.

    Attributes
    ----------
    type : str
        A kind of `agentbook.evaluation.asserts.KINDS`, with ``not-`` in front if it is
        negated.
    value : object
        A string or a list of strings may name columns in braces.
    threshold : float or None
    name : str or None
        What people call it, and the column of its grades.
    rubric_prompt : str or None
        Prompt of the judge, in place of agentbook's own.
    agent : str or None
        The agent that judges; None for the lab's.
    children : tuple of Check
        Of an ``agentbook:turn``: what it checks.
    code : str or None
        Of a function: its file and its name there, ``checks.py:polite``.
    folder : Path or None
        Where that file is.
    """

    type: str
    value: Any = None
    threshold: float | None = None
    name: str | None = None
    rubric_prompt: str | None = None
    agent: str | None = None
    children: tuple[Check, ...] = ()
    code: str | None = None
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
    def judges(self) -> tuple[str, ...]:
        """The agents that have to be asked; without any, it decides on its own."""
        return tuple(dict.fromkeys(each.agent for each in self.rubrics if each.agent is not None))

    @property
    def rubrics(self) -> list[Check]:
        """What of it a judge decides."""
        return [each for each in self.flat() if each.base == "llm-rubric"]

    def judged_by(self, agent: str | None) -> Check:
        """The check with this judge, for its rubrics that name none."""
        return self.changed(
            lambda each: each if each.base != "llm-rubric" or each.agent else replace(each, agent=agent)
        )

    def changed(self, change: Callable[[Check], Check]) -> Check:
        """The check after a change of all within it, and of itself."""
        children = tuple(child.changed(change) for child in self.children)
        own = {name: each.changed(change) for name, each in self.value.items()} if self.base == OWN else self.value
        return change(replace(self, children=children, value=own))

    def flat(self) -> Iterator[Check]:
        """The check, and all within it."""
        yield self
        for check in (*self.children, *(self.value.values() if self.base == OWN else ())):
            yield from check.flat()

    @property
    def line(self) -> str:
        """The line without the name."""
        return _body(self)

    def __str__(self) -> str:
        """The check as the line that `parse_check` reads.

        Examples
        --------
        >>> str(parse_check("polite: judge acme~judge: It is polite."))
        'polite: judge acme~judge: It is polite.'
        """
        body = _body(self)
        lines = [body] if self.base == FUNCTION and self.code is None else [body, f"{self.name}: {body}"]
        return next((line for line in lines if _reads_as(line, self)), f"{json.dumps(self.name)}: {body}")


def named(check: Check) -> Check:
    """The check with a name that says what it looks for, if it has none."""
    return check if check.name is not None else replace(check, name=_default_name(check))


def _default_name(check: Check) -> str:
    value, limits = check.value, check.value if isinstance(check.value, Mapping) else {}
    text = clip(value, 40) if isinstance(value, str) else ""
    match check.base:
        case "icontains" if isinstance(value, str):
            name = f"contains {value}"
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
            made = getattr(value, "__name__", type(value).__name__)
            name = check.code.rpartition(":")[2] if check.code else str(made)
        case "agentbook:steps":
            name = _steps_text(limits)
        case "agentbook:turn" if check.children:
            name = f"{_turn_text(value)}: {check.children[0].label}"
        case _:
            return check.text
    return f"not {name}" if check.negated else name


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


# Writing a line

_UNITS = {"word-count": "words", "agentbook:characters": "characters"}


def _body(check: Check) -> str:
    """The line without a name."""
    if check.base == FUNCTION:
        limit = "" if check.threshold is None else f"({_number_text(check.threshold)})"
        body = f"function{limit}: {check.code or _quoted(check.name or '')}"
        return f"not: {body}" if check.negated else body
    if check.base == TURN and check.children and not (body := _body(check.children[0])).startswith("check:"):
        body = f"{_turn_text(check.value)}: {body}"
        return f"not: {body}" if check.negated else body
    for body in _bodies(check):
        line = f"not: {body}" if check.negated else body
        if _reads_as(f'"": {line}', replace(check, name="")):
            return line
    return f"check: {json.dumps(_mapping(check))}"


def _reads_as(line: str, check: Check) -> bool:
    """Whether a line says what the check is."""
    functions = {each.code or str(each.name): each.value for each in check.flat() if each.base == FUNCTION}
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
            yield f"{check.base.removeprefix('i')} {value}"
        case "icontains" if isinstance(value, str):
            yield value
            yield json.dumps(value)
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
            yield f"like{limit}: {_quoted(value)}"
        case "llm-rubric" if isinstance(value, str):
            is_plain = check.agent is None or re.fullmatch(r'[^\s:()"]+', check.agent)
            agent = check.agent if is_plain else json.dumps(check.agent)
            yield f"judge{f' {agent}' if agent else ''}{limit}: {_quoted(value)}"
        case "agentbook:steps":
            yield f"steps: {_steps_text(limits)}"
    if isinstance(value, str):
        yield f"{check.base}{limit}: {_quoted(value)}"
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
    return text if _is_one_line(text) and (text[0] not in '"[{' or text.startswith("{{")) else json.dumps(text)


def _number_text(value: Any) -> str:
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def _steps_text(value: Mapping[str, Any]) -> str:
    called = value.get("called") or ()
    parts = [f"called {_tool(name)}" for name in called]
    if isinstance(called, Mapping):
        parts = [f"called {_tool(name)} with {json.dumps(each, ensure_ascii=False)}" for name, each in called.items()]
    parts += [f"not called {_tool(name)}" for name in value.get("not_called") or ()]
    parts += ["in this order"] if value.get("order") == "strict" else []
    parts += [f"at most {value['at_most']}"] if value.get("at_most") is not None else []
    parts += ["no failures"] if value.get("no_failures") else []
    return ", ".join([*parts, *(["no loops"] if value.get("no_loops") else [])])


def _tool(name: str) -> str:
    return name if re.fullmatch(r"[\w.:/-]+", name) else json.dumps(name)


def check_data(check: Check) -> str | dict[str, Any]:
    """A check as it stands in a file: a line, or names with values.

    Examples
    --------
    >>> check_data(parse_check("words<=80"))
    'words <= 80'
    >>> check_data(parse_check('{"type": "object"}'))
    {'schema': {'type': 'object'}}
    """
    line = str(check)
    is_schema = any(each.base in ("agentbook:json", *SCHEMAS) and each.value for each in check.flat())
    if not is_schema and "check: {" not in line and _reads_as(line, check):
        return line
    name = {} if check.name == named(replace(check, name=None)).name else {"name": check.name}
    body = _body(check)
    return {**(_mapping(check) if is_schema or body.startswith("check: {") else {"check": body}), **name}


def _mapping(check: Check) -> dict[str, Any]:
    """A check, without its name, as names with values."""
    if check.negated:
        return {"not": check_data(named(replace(check, type=check.base, name=None)))}
    if check.base == TURN:
        return {_turn_text(check.value): check_data(check.children[0])}
    key = next((key for key, kind in _KEYS.items() if kind == check.base), check.base)
    options = {"threshold": check.threshold, "agent": check.agent, "prompt": check.rubric_prompt}
    return {key: check.value, **{name: value for name, value in options.items() if value is not None}}


# What a mapping calls the kinds of ours, and what may stand beside a kind.
_KEYS = {"judge": "llm-rubric", "schema": "agentbook:json", "steps": "agentbook:steps", "like": "agentbook:overlap"}
_KEYS |= {"similar": "similar", "function": FUNCTION}
_LIMIT = ("threshold",)
_OPTIONS = {"judge": (*_LIMIT, "agent", "prompt"), "like": _LIMIT, "similar": _LIMIT, "function": _LIMIT}
_TYPED = ("judge", "similar", "function")
_TURN = re.compile(r"turn (-?[1-9]\d{0,3})|every turn")


def read_check(data: Any, functions: Mapping[str, Any] | None = None) -> Check:
    """The check in a file: a line, or names with values; see `check_data`.

    Parameters
    ----------
    data : object
    functions : mapping of str to object, optional
        As for `parse_check`.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> read_check({"similar": "A key.", "threshold": 0.8, "name": "close"}).threshold
    0.8
    """
    if isinstance(data, str):
        return parse_check(data, functions)
    if not isinstance(data, Mapping):
        raise ValueError(f"a check is a line such as words <= 80, or names with values, not {clip(repr(data), 60)}.")
    known = [*_KEYS, "not", "check", *TEXTS, *LISTS, *SCHEMAS]
    kinds = [key for key in data if key in known or _TURN.fullmatch(str(key))]
    if len(kinds) != 1:
        if not kinds and len(data) == 1 and isinstance(next(iter(data.values())), str):  # a line with a colon
            return parse_check(": ".join(*data.items()), functions)
        similar = difflib.get_close_matches(str(next(iter(data), "")), known, 1)
        hint = f"did you mean `{similar[0]}`?" if similar and not kinds else f"write one of {', '.join(known)}."
        raise ValueError(f"a check has one kind, and here {', '.join(map(str, data)) or 'nothing'} stands; {hint}")
    [key] = kinds
    value, name = data[key], data.get("name")
    if unknown := [each for each in data if each not in (key, "name", *_OPTIONS.get(key, ()))]:
        allowed = ", ".join(("name", *_OPTIONS.get(key, ())))
        raise ValueError(f"beside `{key}` there is no `{unknown[0]}`; there may be {allowed}.")
    if not isinstance(name, str | None):
        raise ValueError(f"the name of a check is a text, not {clip(repr(name), 60)}.")
    check = _of_kind(key, value, data, functions)
    return named(check) if name is None else replace(check, name=name)


def _of_kind(key: str, value: Any, data: Mapping[str, Any], functions: Mapping[str, Any] | None) -> Check:
    if key in ("not", "check"):
        check = read_check(value, functions)
        return _negated(check) if key == "not" else check
    if match := _TURN.fullmatch(key):
        return Check(TURN, int(match[1]) if match[1] else EVERY, children=(read_check(value, functions),))
    limit = None if data.get("threshold") is None else _number(data["threshold"])
    if key == "function":
        return replace(_function(value, functions), threshold=limit)
    texts = value if isinstance(value, list) and key in (*LISTS, "similar") else [value]
    if key in ("schema", *SCHEMAS):
        if not isinstance(value, Mapping) and (key == "schema" or value is not None):
            raise ValueError(f"`{key}` needs a JSON schema, not {clip(repr(value), 60)}.")
    elif key != "steps" and not (texts and all(isinstance(text, str) and text for text in texts)):
        raise ValueError(f"`{key}` needs a text{' or texts' * (key in LISTS)}, not {clip(repr(value), 60)}.")
    options = {name: data.get(name) for name in ("agent", "prompt")}
    if not all(isinstance(text, str | None) for text in options.values()):
        raise ValueError("the agent and the prompt of a judge are texts.")
    return Check(_KEYS.get(key, key), value, limit, agent=options["agent"], rubric_prompt=options["prompt"])


def _negated(check: Check) -> Check:
    return replace(check, type=check.base if check.negated else f"not-{check.base}", name=None)


def _function(name: Any, functions: Mapping[str, Any] | None) -> Check:
    if not isinstance(name, str):
        raise ValueError(f"a function is named checks.py:polite, not {clip(repr(name), 60)}.")
    if functions is not None and name not in functions:
        there = ", ".join(map(str, functions)) or "none yet"
        raise ValueError(f"there is no function called {name!r}; there are: {there}.")
    value, code = None if functions is None else functions[name], CODE_FILE.fullmatch(name)
    return Check(FUNCTION, value, name=code[2] if code else name, code=name if code else None)


# Reading a line

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOOL = rf"{_STRING}|[\w.:/-]+"
_NAMED = re.compile(rf"(?:(?P<quoted>{_STRING})|(?P<name>[^:/{{\"]{{1,60}})):\s+(?P<body>.+)", re.DOTALL)
_KINDS = "|".join(map(re.escape, sorted(KINDS, key=len, reverse=True)))
_KIND = re.compile(
    rf"(?:(?P<word>not|function|steps|like|check|every\s+turn|turn\s+-?\d{{1,4}})|(?P<kind>(?:not-)?(?:{_KINDS}))"
    rf"|judge(?:\s+(?P<agent>{_STRING}|[^\s:()\"]+))?)\s*(?:\((?P<limit>[^()]*)\))?:(?:\s+(?P<value>.*))?",
    re.DOTALL,
)
_BOUND = re.compile(
    r"(?:(?P<low>\S+)\s*<=\s*)?(?P<what>words|characters|latency|cost)\s*(?P<sign><=|>=|=)\s*(?P<limit>\S+?)\s*(?P<unit>m?s)?"
)
_PATTERN = re.compile(r"/(?P<pattern>.+)/(?P<flags>[a-z]*)", re.DOTALL)
_OF_TEXT = re.compile(r"(?P<kind>contains|equals|starts-with)\s+(?P<value>.+)", re.DOTALL)
# A text that is more likely a check with a slip: a limit, or a kind without its colon.
_SLIP = re.compile(
    r"\S+\s*(?:[<>]=?|==?)\s*-?[\d.]+\s*\w*|(?:not[- ])?"
    r"(?:(?:is|contains)[- ]json|i?contains[- ](?:any|all)\s.+|(?:icontains|starts with|ends[- ]with)\s.+)"
    r"|not[- ](?:contains|equals|starts[- ]with)\s.+",
    re.DOTALL | re.IGNORECASE,
)
_STEP = re.compile(
    rf"(?:(?P<not>not )?called (?P<name>{_TOOL})|at most (?P<most>\d+)|(?P<order>in this order)"
    r"|no (?P<none>failures|loops))\s*(?:,\s*|\Z)"
)


def parse_check(line: str, functions: Mapping[str, Any] | None = None) -> Check:
    r"""The check that a line of text says.

    Parameters
    ----------
    line : str
        A text that the reply contains, in any case, or ``contains TEXT``, ``equals
        TEXT`` and ``starts-with TEXT``, where ``{{column}}`` stands for the text in a
        column; ``/pattern/`` with the flags i,
        m, s, x and a; a JSON schema; ``words <= 80``, ``2 <= characters <= 9``,
        ``latency <= 5 s``, ``cost <= 0.01``; ``like: …`` for words in common; ``judge
        NAME: …``, or ``judge: …`` for the lab's judge; ``steps: called run_sql, not
        called send, in this order, at most 3, no failures``; ``turn 2: …`` or ``every
        turn: …`` for a reply of a conversation; ``function: NAME``, or ``function:
        checks.py:polite`` in a file; or a kind with a colon, such as ``regex: …`` or
        ``similar(0.8): …``. ``not:`` in front negates it, and a name with a colon
        before all that names it; before a bare text, the name stands in double quotes.
        Text in double quotes is a text.
    functions : mapping of str to object, optional
        Functions by name. None reads their names alone.

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
    line = line.strip()
    match = _NAMED.fullmatch(line)
    if match is None or _KIND.fullmatch(line) is not None:
        return named(_parse_body(line, functions))
    name = match["name"].strip() if match["quoted"] is None else json.loads(match["quoted"])
    body = match["body"].strip()
    check = _parse_body(body, functions)
    is_said = body.startswith('"') or _KIND.fullmatch(body) or _OF_TEXT.fullmatch(body)
    if match["quoted"] is None and check.base == "icontains" and not is_said:
        if kind := difflib.get_close_matches(name.lower(), (*_TYPED, *TEXTS, *LISTS, *SCHEMAS), 1, 0.8):
            raise ValueError(f"did you mean {kind[0]}: …? Put double quotes around it if you mean this text.")
        return named(_parse_body(json.dumps(line), functions))  # “Subject: Refund” is a text with a colon
    return replace(check, name=name)


def _parse_body(body: str, functions: Mapping[str, Any] | None) -> Check:
    if match := _KIND.fullmatch(body):
        return _parse_kind(match, functions)
    if match := _BOUND.fullmatch(body):
        return _parse_bound(**match.groupdict())
    if body.startswith("/"):
        return _parse_pattern(body)
    if body.startswith("{") and not names_in(body):
        return Check("agentbook:json", _json_of(body))
    if _SLIP.fullmatch(body):
        kinds = "words <= 80, latency <= 5 s, starts-with: Dear or is-json:"
        raise ValueError(
            f"it looks like another kind, such as {kinds}. Put double quotes around it if you mean this text."
        )
    if match := _OF_TEXT.fullmatch(body):
        kind = match["kind"].lower()
        return Check("icontains" if kind == "contains" else kind, _text(match["value"], kind))
    return Check("icontains", _text(body, "a check"))


def _parse_pattern(body: str) -> Check:
    match = _PATTERN.fullmatch(body)
    if match is None or not set(match["flags"]) <= set(FLAGS):
        flags = f"with the flags {', '.join(FLAGS)} after them"
        raise ValueError(f"a pattern stands between slashes, {flags}; put double quotes around a text with a slash.")
    value = {"pattern": match["pattern"], **({"flags": match["flags"]} if match["flags"] else {})}
    compiled(value)
    return Check("agentbook:pattern", value)


def _parse_kind(match: re.Match[str], functions: Mapping[str, Any] | None) -> Check:
    word, kind, text = match["word"], match["kind"], (match["value"] or "").strip()
    limit = None if match["limit"] is None else _number(match["limit"])
    if word == "not":
        body = _text(text, "not:", unquoted=False)
        if re.match(r"not\s*:\s*not\s*:", body):
            raise ValueError("not: stands once or twice before a check.")
        return _negated(_parse_body(body, functions))
    if word == "steps":
        return Check("agentbook:steps", _parse_steps(text))
    if word == "check":
        return read_check(_json_of(text), functions)
    if word is not None and word.split()[0] in ("every", "turn"):
        number = EVERY if word.startswith(EVERY) else int(word.split()[1])
        if number == 0:
            raise ValueError("turns count from 1, and from the end from -1.")
        return Check(TURN, number, children=(named(_parse_body(text, functions)),))
    if word == "like":
        return Check("agentbook:overlap", _text(text, "like:"), limit)
    if word == "function":
        return replace(_function(_text(text, "function:"), functions), threshold=limit)
    if kind is None:
        agent = None if match["agent"] is None else _text(match["agent"], "judge")
        return Check("llm-rubric", _text(text, "judge"), limit, agent=agent)
    is_json = text[:1] == "[" or (text[:1] == "{" and not names_in(text))
    value: Any = _json_of(text) if is_json and kind not in TEXTS else _text(text, f"{kind}:") if text else None
    return Check(kind, value, limit)


def _parse_bound(low: str | None, what: str, sign: str, limit: str, unit: str | None) -> Check:
    bound = _number(limit)
    if min(bound, 0 if low is None else _number(low)) < 0:
        raise ValueError("a limit is 0 or more.")
    if what in ("words", "characters"):
        kind = next(kind for kind, name in _UNITS.items() if name == what)
        if unit is None and (low is None or sign == "<="):
            names = {"<=": "max", ">=": "min"}
            value = {} if low is None else {"min": _number(low)}
            return Check(kind, {**value, **({names[sign]: bound} if sign in names else {})} or bound)
    elif sign == "<=" and low is None and (unit is None or what == "latency"):
        return Check(what, threshold=bound if what == "cost" or unit == "ms" else bound * 1000)
    raise ValueError("a limit is words <= 80, 2 <= characters <= 9, latency <= 5 s or cost <= 0.01.")


def _parse_steps(text: str) -> dict[str, Any]:
    value: dict[str, Any] = {}
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            known = "called NAME, not called NAME, in this order, at most 3, no failures, no loops, with commas between"
            raise ValueError(f"steps: {text[position:]!r} cannot be read; write {known}.")
        if match["name"]:
            value.setdefault("not_called" if match["not"] else "called", []).append(_text(match["name"], "called"))
        elif match["most"]:
            value["at_most"] = int(match["most"])
        else:
            value |= {"order": "strict"} if match["order"] else {f"no_{match['none']}": True}
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
