"""Better prompts, proposed by an agent or a model from replies that did not pass."""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._masking import is_secret
from .._text import clip, safe_repr
from ..client import is_uuid
from .check import FUNCTION, OWN, TURN, Check
from .experiment import Answer, Experiment
from .inputs import Input, numbered
from .judging import require_agents
from .platform import read_versions, require_parameters
from .run import Lab, Options, Plan
from .variant import Variant

ROLE = "You improve the system prompts of AI agents."
# What a proposer is told; the demo's own proposer knows the request by the first line.
_TASK = f"""{ROLE}
Below are a prompt, what replies to it have to pass, and replies that did not, each with
the reasons. Write one better prompt: keep what works, and add what the reasons ask for.
It has to help with questions that you do not see, so copy no words of these questions
and replies. First write one sentence on what it mends, then the whole prompt between two
lines with ```."""
_FENCED = re.compile(r"^(`{3,}).*\n(?P<prompt>(?:.*\n)*?)\1\s*$", re.MULTILINE)
MAX_PROMPT = 20_000  # characters of a proposal
_MOST_FAILURES = 8
_MOST_PASSED = 12
_MAX_REPLY = 1_000  # characters of a reply that a proposer reads
_MAX_CHECK = 600  # characters of what a check asks for
_MAX_VALUE = 200  # of what a name in a function stands for
_MAX_CHECKS = 4_000  # of all of them
_PROPOSER, _REQUEST = "proposer", "proposal"


@dataclass(frozen=True, slots=True, repr=False)
class Suggestion:
    """A proposed variant. Nothing is asked or changed until you add it to the lab.

    Attributes
    ----------
    variant : Variant
        For `PromptLab.add_variant`.
    why : str
        What it tries to mend, in the proposer's words.
    diff : str
        The change of the system prompt.
    """

    variant: Variant
    why: str
    diff: str

    @safe_repr
    def __repr__(self) -> str:
        return f"{self.variant.name}: {self.why}\n{self.diff}"


def wanted(check: Check) -> str:
    """What a check asks for, as a proposer reads it: of a function, its code.

    Examples
    --------
    >>> wanted(Check("not-icontains", "sorry", name="kind"))
    'not: contains "sorry"'
    >>> wanted(Check("agentbook:turn", 2, children=(Check("icontains", "refund"),)))
    'turn 2: contains "refund"'
    """
    if check.base == TURN:
        line = f"{check.line.removeprefix('not: ').partition(':')[0]}: {wanted(check.children[0])}"
    elif check.base == "icontains" and isinstance(check.value, str):
        line = f"contains {json.dumps(check.value, ensure_ascii=False)}"
    elif check.base == FUNCTION and (code := _code(check.value)):
        line = f"function: {code}"[:_MAX_CHECK]
    else:
        return clip(check.line, _MAX_CHECK)
    return f"not: {line}" if check.negated else line


def _code(function: Any) -> str | None:
    """The code of a function, and no more of its line; None where it cannot be read.

    After it stands what its names stand for, if that is short and no secret.
    """
    try:
        function = inspect.unwrap(getattr(function, "func", function))  # of a partial one
        function = function if hasattr(function, "__code__") else type(function).__call__
        text = "".join(inspect.findsource(function)[0])
        start = min((at[0], at[2]) for at in function.__code__.co_positions() if at[0] and at[3])
        nodes = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Lambda | ast.FunctionDef)]
        around = [
            each
            for each in nodes
            if (each.lineno, each.col_offset) <= start < (each.end_lineno or 0, each.end_col_offset or 0)
        ]
        code = ast.get_source_segment(text, max(around, key=lambda each: (each.lineno, each.col_offset)))
        names = inspect.getclosurevars(function)
    except (OSError, TypeError, AttributeError, ValueError, SyntaxError):  # it was not typed in a file or a cell
        return None
    values = {
        name: repr(value)
        for name, value in {**names.globals, **names.nonlocals}.items()
        if isinstance(value, str | int | float | tuple | list | set | re.Pattern) and not is_secret(name, value)
    }
    return "\n".join([code or "", *(f"{name} = {value}" for name, value in values.items() if len(value) <= _MAX_VALUE)])


def failures(experiment: Experiment, answers: Iterable[Answer]) -> list[tuple[Answer, list[str]]]:
    """The answers, each with the reasons why a check or a person did not pass it."""
    found = []
    for answer in answers:
        reasons = []
        for name, check in experiment.all_checks.items():
            grade = answer.verdicts.get(name)
            if grade is not None and (grade.passed is False or grade.error):
                own = wanted(check.value[answer.input]) if check.base == OWN else None
                reasons.append(": ".join(filter(None, (f"“{name}”", own, grade.error or grade.reason))))
        if answer.thumb is False or (answer.note and answer.thumb is None):
            reasons.append(f"A person says: {answer.note or 'not good'}")
        elif answer.status == "failed":
            reasons.append(f"The agent did not answer: {answer.reason}")
        found.append((answer, reasons))
    return found


def request(experiment: Experiment, prompt: str, answers: Iterable[Answer], tried: Sequence[str]) -> str:
    """What a proposer is asked; empty if there is nothing to mend."""
    judged = failures(experiment, answers)
    failed = [(answer, reasons) for answer, reasons in judged if reasons]
    if not failed:
        return ""
    fence = "```" if "```" not in prompt else "````"
    parts = [_TASK, f"# The prompt\n\n{fence}\n{prompt}\n{fence}"]
    checks = "\n".join(f"- “{name}”: {wanted(each)}" for name, each in experiment.checks.items())
    if checks:
        parts.append(f"# What replies have to pass\n\n{checks[:_MAX_CHECKS]}")
    if tried:
        parts.append("# Prompts that were tried and are not enough\n\n" + "\n\n".join(f"- {each}" for each in tried))
    for number, (answer, reasons) in enumerate(failed[:_MOST_FAILURES], 1):
        why = "\n".join(f"- {reason}" for reason in reasons)
        parts.append(
            f"# Reply {number}\n\nQuestion: {clip(answer.question, _MAX_REPLY)}\n\n"
            f"Reply: {answer.shown[:_MAX_REPLY]}\n\nNot passed:\n{why}"
        )
    passed = [f"- {clip(answer.question, _MAX_REPLY)}" for answer, reasons in judged if not reasons]
    if passed:
        parts.append("# Questions whose replies passed\n\n" + "\n".join(passed[:_MOST_PASSED]))
    return "\n\n".join(parts)


def read_proposal(reply: str | None) -> tuple[str, str] | None:
    """The prompt and the sentence in a proposer's reply; None if it has no prompt."""
    found = list(_FENCED.finditer((reply or "").replace("\r\n", "\n") + "\n"))
    prompt = found[-1]["prompt"].strip() if found else ""
    if not prompt or len(prompt) > MAX_PROMPT:
        return None
    return prompt, " ".join((reply or "")[: found[-1].start()].split()) or "No reason is given."


def _proposer(model: str) -> Variant:
    is_agent = "~" in model or is_uuid(model)
    return Variant(_PROPOSER, agent=model) if is_agent else Variant(_PROPOSER, ROLE, model=model)


async def require_proposer(lab: Lab, model: str) -> None:
    """Check that a proposer can be asked, before anything else is.

    Raises
    ------
    NotFound, NotOffered
    """
    variant = _proposer(model)
    if variant.agent is not None:
        await require_agents(lab.client, [variant.agent])
    await require_parameters(lab.client, [variant])


async def ask_proposer(lab: Lab, model: str, message: str, options: Options) -> Answer:
    """Ask an agent of the platform, by its name or id, or one of its models."""
    work = Lab(lab.client, lab.agent, lab.workspace, lab.follow)
    work.is_recorded = False
    work.input_set.use([Input(_REQUEST, message)])
    key = (_PROPOSER, _REQUEST, 1)
    await work.ask(Plan([_proposer(model)], [[key]], options))
    return work.answered.get(key) or Answer(*key, status="failed", reason=" ".join(work.notes))


async def prompt_of(lab: Lab, variant: Variant) -> str:
    """The system prompt of a variant; that of its agent if it sets none.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    if variant.system_prompt is not None:
        return variant.system_prompt
    versions = await read_versions(lab.client, variant.agent or lab.require_agent())
    if not versions or versions[0].system_prompt is None:
        raise ValueError(
            f"The prompt of {variant.name!r} cannot be read: give the variant one, as in "
            f"lab.edit_variant({variant.name!r}, system_prompt=...)."
        )
    return versions[0].system_prompt


async def suggest(lab: Lab, variant: str | Variant, model: str, n: int, options: Options) -> list[Suggestion]:
    """See `PromptLab.suggest`."""
    chosen = lab.variant(variant)
    answers = [answer for answer in lab.answers if answer.variant == chosen.name]
    if not any(reasons for _, reasons in failures(lab, answers)):
        raise ValueError(
            f"No reply of {chosen.name!r} has failed a check, a person or the run, so there is nothing to mend: "
            "run the lab with checks, or label its replies."
        )
    prompt = await prompt_of(lab, chosen)
    found: list[Suggestion] = []
    taken = set(lab.variants)
    for _ in range(n):
        tried = [each.variant.system_prompt or "" for each in found]
        answer = await ask_proposer(lab, model, request(lab, prompt, answers, tried), options)
        if answer.status != "answered":
            raise ValueError(f"{model} proposed nothing: {answer.reason}")
        proposal = read_proposal(answer.reply)
        if proposal is None or proposal[0] in (prompt.strip(), *tried):
            continue
        name = next(each for each in numbered(f"{chosen.name} suggested", "{} {}") if each not in taken)
        taken.add(name)
        new = replace(chosen, name=name, system_prompt=proposal[0])
        found.append(Suggestion(new, proposal[1], diff_of(prompt, proposal[0])))
    if not found:
        raise ValueError(f"{model} proposed nothing new: its reply has no other prompt between two lines with ```.")
    return found


def diff_of(before: str, after: str) -> str:
    """The lines that differ, as a unified diff has them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))
