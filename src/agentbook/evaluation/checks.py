r"""`ab.checks`: checks of texts, length, latency, cost, similarity, steps, by a judge.

They can be used wherever a check can, as in
``lab.check({"short": ab.checks.length(max=80)})``. Texts, patterns, JSON schemas and
functions are checks themselves.

A check is a function of one reply and never asks the agent again, so checks can be
changed and applied to existing replies. An `ab.checks.rubric` asks a judge.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

from ..api.calls import ref
from . import judge
from .asserts import SIMILAR, require_valid
from .check import EVERY, FLAGS, FUNCTION, TURN, Check, named, number, parse_check, whole_number
from .template import names_in

__all__ = ["contains", "cost", "equals", "latency", "length", "overlap", "rubric", "similar", "steps", "turn"]

# Criteria for whole conversations, for `rubric`.
GOAL_REACHED = "By the end of the conversation, the user has got what they came for."
FORGOT = "The agent remembers what was said before: it asks for nothing that the user has already told it."
GAVE_UP = "The user does not give up: the conversation does not end with an open request or in frustration."

_KINDS_OF_LENGTH = {"words": "word-count", "characters": "agentbook:characters"}


def contains(text: str) -> Check:
    """A check that the reply contains a text, in any case.

    A text itself is such a check: ``"refund"``.

    Parameters
    ----------
    text : str
        ``"{{expected}}"`` stands for the column `expected` of the inputs.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If the text is empty.

    Examples
    --------
    >>> ab.checks.contains("{{expected}}").name
    'contains {{expected}}'
    """
    return _made("icontains", _template(text, "The text of a check"))


def equals(text: str) -> Check:
    """A check that the reply is exactly a text.

    Parameters
    ----------
    text : str
        ``"{{expected}}"`` stands for the column `expected` of the inputs.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If the text is empty.

    Examples
    --------
    >>> ab.checks.equals("{{expected}}").name
    'equals {{expected}}'
    """
    return _made("equals", _template(text, "The text of a check"))


def length(*, max: int | None = None, min: int | None = None, unit: str = "words") -> Check:
    """A check that the reply is neither too short nor too long.

    Parameters
    ----------
    max, min : int, optional
        The most and the fewest words or characters.
    unit : {"words", "characters"}

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If there is no limit, or the unit is a different one.

    Examples
    --------
    >>> ab.checks.length(max=80).name
    'at most 80 words'
    """
    if unit not in _KINDS_OF_LENGTH:
        raise ValueError(f"The unit of a length must be words or characters, not {unit!r}.")
    limits = {
        name: whole_number(limit, f"{name} of a length", low=0)
        for name, limit in (("min", min), ("max", max))
        if limit is not None
    }
    if not limits:
        raise ValueError("A length needs max= or min=.")
    return _made(_KINDS_OF_LENGTH[unit], limits)


def latency(max_s: float) -> Check:
    """A check that the reply arrives within a time limit.

    Parameters
    ----------
    max_s : float
        Seconds from sending the question to the reply.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If it is not greater than 0.

    Examples
    --------
    >>> ab.checks.latency(2.5).name
    'within 2.5 s'
    """
    limit = number(max_s, "The limit of a latency in seconds")
    if not limit > 0:
        raise ValueError(f"The limit of a latency must be more than 0 s, not {max_s!r}.")
    return _made("latency", threshold=limit * 1000)


def cost(max: float) -> Check:
    """A check that the reply does not cost too much.

    Parameters
    ----------
    max : float
        A reply may cost at most this much, in the currency of ``prices=``. Without a
        price or tokens, the check is undecided.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If it is below 0.

    Examples
    --------
    >>> ab.checks.cost(0.01).name
    'costs at most 0.01'
    """
    return _made("cost", threshold=number(max, "The limit of a cost", low=0))


def overlap(expected: str, *, threshold: float = 0.5) -> Check:
    """A check that the reply shares words with an expected answer. Needs no model.

    The score is the F1 measure of the words in common, ignoring case and order.

    Parameters
    ----------
    expected : str
        A template: ``"{{expected}}"`` takes the column `expected` of the inputs.
    threshold : float
        The minimum score to pass, from 0 to 1.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If the text is empty: nothing could share a word with it.

    Examples
    --------
    >>> ab.checks.overlap("Your key is in Settings").name
    'shares words with Your key is in Settings'
    """
    return _made("agentbook:overlap", _template(expected, "The expected answer"), _score(threshold, 0.5))


def similar(expected: str, *, threshold: float = SIMILAR) -> Check:
    """A check that the reply means much the same as an expected answer.

    The score is the cosine of their embeddings, which come from the OpenAI-compatible
    endpoint in ``OPENAI_BASE_URL``; `overlap` needs no endpoint.

    Parameters
    ----------
    expected : str
        A template: ``"{{expected}}"`` takes the column `expected` of the inputs.
    threshold : float
        The minimum score to pass, from 0 to 1.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If the text is empty.

    Examples
    --------
    >>> ab.checks.similar("In the settings.", threshold=0.8).name
    'similar to In the settings.'
    """
    return _made("similar", _template(expected, "The expected answer"), _score(threshold, SIMILAR))


def rubric(text: str, agent: Any, *, threshold: float | None = None, prompt: str = judge.PROMPT) -> Check:
    """A check by a judge: an agent is asked whether the reply meets a criterion.

    Judges prefer long replies and those of their own family: calibrate one against
    labels with ``lab.judge.calibration`` before you trust it. If the judgement does not
    say whether the reply passes, the check stays undecided.

    Parameters
    ----------
    text : str
        The criterion, in one sentence: "It names a source." A template.
    agent : str or Record
        The agent that judges: id or name.
    threshold : float, optional
        A minimum score from 0 to 1 that the judge must also give.
    prompt : str
        Prompt of the judge, with ``{{ output }}`` and ``{{ rubric }}``.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If the criterion or the name of the agent is empty, or the prompt does not show
        the reply.

    Examples
    --------
    >>> ab.checks.rubric("It greets.", agent="acme~judge").name
    'judged: It greets.'
    """
    name = ref(agent)
    if not name:
        raise ValueError('A rubric needs the agent that judges: agent="acme~judge".')
    own = None if prompt == judge.PROMPT else _template(prompt, "The prompt of a judge")
    if own is not None and "output" not in names_in(own):
        raise ValueError("The prompt of a judge needs {{ output }}, where the reply stands, and {{ rubric }}.")
    limit = None if threshold is None else number(threshold, "The threshold of a rubric")
    criterion = _template(text, "The criterion of a rubric, such as “It names a source.”,")
    return _made("llm-rubric", criterion, limit, rubric_prompt=own, agent=name)


def steps(
    *,
    called: str | Iterable[str] | Mapping[str, Any] = (),
    not_called: str | Iterable[str] = (),
    at_most: int | None = None,
    order: str = "any",
    no_failures: bool = False,
    no_loops: bool = False,
) -> Check:
    """A check of what the agent ran before it replied, such as calls of tools.

    Parameters
    ----------
    called : str, iterable of str, or dict
        Tools that it must call; one that is named twice, at least twice. A dict has the
        arguments of each that must be among those of a call: ``{"find_order":
        {"number": 7}}``. ``"{{order}}"`` is the column `order` of the inputs.
    not_called : str or iterable of str
        Tools that it must not call.
    at_most : int, optional
        The largest number of steps.
    order : {"any", "strict"}
        ``"strict"`` if the calls must come in the order of `called`; others may be
        between them.
    no_failures : bool
        Whether no step may fail.
    no_loops : bool
        Whether no tool may run again and again in vain, as for `loops`.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If there is no condition.

    Notes
    -----
    Where arguments or results are not known, a check that needs them stays undecided.

    Examples
    --------
    >>> ab.checks.steps(called="run_sql", at_most=3, no_failures=True).name
    'called run_sql, at most 3, no failures'
    """
    if order not in ("any", "strict"):
        raise ValueError(f"The order of steps must be any or strict, not {order!r}.")
    value = {
        "called": [called]
        if isinstance(called, str)
        else dict(called)
        if isinstance(called, Mapping)
        else list(called),
        "not_called": [not_called] if isinstance(not_called, str) else list(not_called),
        "order": None if order == "any" else order,
        "at_most": None if at_most is None else whole_number(at_most, "at_most", low=0),
        "no_failures": bool(no_failures) or None,
        "no_loops": bool(no_loops) or None,
    }
    return _made("agentbook:steps", {name: each for name, each in value.items() if each not in (None, [], {})})


def turn(number: int | str, check: Any) -> Check:
    """A check of one reply of a conversation.

    Other checks look at the last reply of a conversation, at its slowest reply, its
    whole cost and all of its steps; a judge reads all of it.

    Parameters
    ----------
    number : int or "every"
        Which reply, from 1; from the end, from -1. ``"every"`` if all replies must
        pass: the first that does not, decides.
    check : check
        A text, pattern, JSON schema or function, or one of `ab.checks`.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If there can be no such turn.
    TypeError
        If it is not a check.

    Examples
    --------
    >>> ab.checks.turn(2, "refund").name
    'turn 2: contains refund'
    >>> ab.checks.turn("every", ab.checks.length(max=80)).name
    'every turn: at most 80 words'
    """
    if number != EVERY and (isinstance(number, bool) or not isinstance(number, Integral) or number == 0):
        raise ValueError(f'The turn of a check is a whole number from 1, or "every", not {number!r}.')
    return named(Check(TURN, number if number == EVERY else int(number), children=(named(_read_check(check)),)))


def _made(kind: str, value: Any = None, threshold: float | None = None, **others: Any) -> Check:
    check = Check(kind, value, threshold, **others)
    require_valid(check)
    return named(check)


def _template(text: Any, label: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{label} must be a text that is not empty, not {text!r}.")
    return text


def _score(threshold: float, default: float) -> float | None:
    limit = number(threshold, "The threshold of an expected answer")
    return None if limit == default else limit


# Checks by name


def read_checks(checks: Any) -> dict[str, Check]:
    r"""Checks by name.

    Parameters
    ----------
    checks : mapping of name to check, or iterable of checks
        A string must be contained in the reply, ignoring case; ``{{name}}`` in it is a
        column of the inputs. A compiled pattern must
        be found in it. A mapping is a JSON schema that the reply must satisfy. A
        function takes the reply, or reply and input, and returns a bool or a score from
        0 to 1, which passes from 0.5. `ab.checks` has length, latency, similarity,
        steps and a judge. Checks in a list are named by what they look for.

    Raises
    ------
    TypeError, ValueError

    Examples
    --------
    >>> list(read_checks(["refund", re.compile("a+"), ab.checks.length(max=80)]))
    ['contains refund', 'matches a+', 'at most 80 words']
    """
    if checks is None:
        return {}
    if isinstance(checks, str | re.Pattern | Check) or (callable(checks) and not isinstance(checks, Mapping)):
        checks = [checks]
    if isinstance(checks, Mapping):
        parsed = [dataclasses.replace(_read_check(each), name=str(name)) for name, each in checks.items()]
    elif isinstance(checks, Iterable):
        parsed = [named(_read_check(each)) for each in checks]
    else:
        raise TypeError(f"Checks must be a dict of name to check, or a list of checks, not {type(checks).__name__}.")
    names = [str(check.name) for check in parsed]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Two checks are called {repeated[0]!r}: pass them as a dict with a name for each.")
    return dict(zip(names, parsed, strict=True))


def _read_check(check: Any) -> Check:
    if isinstance(check, Check):
        return check
    if isinstance(check, str):
        if not check:
            raise ValueError("A check for an empty text would always pass.")
        return Check("icontains", check)
    if isinstance(check, re.Pattern):
        flags = "".join(letter for letter, flag in FLAGS.items() if check.flags & flag)
        return _made("agentbook:pattern", {"pattern": check.pattern, **({"flags": flags} if flags else {})})
    if isinstance(check, Mapping):
        return _made("agentbook:json", dict(check))
    if callable(check):
        return Check(FUNCTION, check)
    kinds = "a string, a compiled pattern, a JSON schema, a function or one of ab.checks"
    raise TypeError(f"A check must be {kinds}, not {type(check).__name__} ({check!r}).")


def parse_checks(
    text: str,
    known: Iterable[Check] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    judge: str | None = None,
) -> dict[str, Check]:
    r"""The checks in a text area: a line each, as `agentbook.evaluation.check` says.

    Parameters
    ----------
    text : str
    known : iterable of Check
        A line that is the text of one of these is that check, with its code.
    functions : mapping of str to callable, optional
        Functions by name.
    judge : str, optional
        The agent that judges where a line names none.

    Raises
    ------
    ValueError
        If a line cannot be read.

    Examples
    --------
    >>> checks = parse_checks("Source\ndigits: /\\d+/\nnot: sorry\nwords <= 80\n")
    >>> [str(check) for check in checks.values()]
    ['Source', 'digits: /\\d+/', 'not: sorry', 'words <= 80']
    """
    known = list(known)
    lines = {str(check): check for check in known}
    by_name = {str(check.name): check.value for check in known if check.base == FUNCTION}
    parsed: list[Check] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            check = lines.get(line) or parse_check(line, {**(functions or {}), **by_name}).judged_by(judge)
            require_valid(check)
            if any(each.agent is None for each in check.rubrics):
                raise ValueError("a judge has a name: judge NAME: It is polite.")
        except ValueError as error:
            raise ValueError(f"Checks: “{line}” cannot be read: {error}") from error
        parsed.append(check)
    return read_checks(parsed)
