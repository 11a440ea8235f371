"""Better prompts, proposed by an agent or a model from replies that did not pass."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from .._masking import is_secret
from .._text import clip, safe_repr
from ..api.errors import AgentbookError
from ..client import is_uuid
from .check import FUNCTION, OWN, Check
from .experiment import Answer, Experiment
from .inputs import numbered
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
_MOST = 10  # failed replies, and questions whose replies passed, that a proposer reads
_MAX_TEXT = 1_000  # characters of a question, a reply, or what a check asks for


@dataclass(frozen=True, slots=True, repr=False)
class Suggestion:
    """A proposed variant. Nothing is asked or changed until you add it to the lab.

    Attributes
    ----------
    variant : Variant
        For `PromptLab.add_variant`.
    why : str
        What it tries to mend, in the proposer's words.
    before : str
        The prompt that it is to replace.
    """

    variant: Variant
    why: str
    before: str

    @property
    def diff(self) -> str:
        """The change of the system prompt, as a unified diff has it."""
        texts = (self.before.splitlines(), (self.variant.system_prompt or "").splitlines())
        lines = difflib.unified_diff(*texts, lineterm="", n=1)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))

    @safe_repr
    def __repr__(self) -> str:
        return f"{self.variant.name}: {self.why}\n{self.diff}"


def wanted(check: Check) -> str:
    """What a check asks for, as a proposer reads it: of a function, its code.

    Examples
    --------
    >>> wanted(Check("not-icontains", "sorry", name="kind"))
    'not: contains "sorry"'
    """
    line = check.line.removeprefix("not: ")
    if check.base == "icontains":
        line = f'contains "{check.value}"'
    elif check.base == FUNCTION and (code := _code(check.value)):
        line = f"function: {code}"
    return (f"not: {line}" if check.negated else line)[:_MAX_TEXT]


def _code(function: Any) -> str | None:
    """The body of a function, and what its names stand for; None if it is not there."""
    try:
        function = inspect.unwrap(getattr(function, "func", function))  # of a partial one
        lines = [line.encode() for line in inspect.findsource(function)[0]]
        spans = [(at[0], at[2], at[1], at[3]) for at in function.__code__.co_positions() if at[0] and at[3]]
        (first, start), (last, end) = min(at[:2] for at in spans), max(at[2:] for at in spans)
        lines[last - 1] = lines[last - 1][:end]
        code = b"".join(lines[first - 1 : last])[start:].decode()
        names = inspect.getclosurevars(function)
    except (OSError, TypeError, AttributeError, ValueError):  # it was not typed in a file or a cell
        return None
    values = {
        name: repr(value)
        for name, value in {**names.globals, **names.nonlocals}.items()
        if isinstance(value, str | int | float | tuple | list | set | re.Pattern) and not is_secret(name, value)
    }
    return "\n".join([code, *(f"{name} = {value}" for name, value in values.items())])


def reasons(experiment: Experiment, answer: Answer) -> Iterator[str]:
    """The reasons why checks or a person did not pass an answer."""
    for name, check in experiment.all_checks.items():
        grade = answer.verdicts.get(name)
        if grade is not None and (grade.passed is False or grade.error):
            own = wanted(check.value[answer.input]) if check.base == OWN else None
            yield ": ".join(filter(None, (f"“{name}”", own, grade.error or grade.reason)))
    if answer.thumb is False or (answer.note and answer.thumb is None):
        yield f"A person says: {answer.note or 'not good'}"
    elif answer.status == "failed":
        yield f"The agent did not answer: {answer.reason}"


def request(experiment: Experiment, prompt: str, answers: Iterable[Answer], tried: Iterable[str]) -> str:
    """What a proposer is asked; empty if there is nothing to mend."""
    failed, passed = list[str](), list[str]()
    for answer in answers:
        question, why = clip(answer.question, _MAX_TEXT), "\n".join(f"- {each}" for each in reasons(experiment, answer))
        reply = f"Question: {question}\n\nReply: {answer.shown[:_MAX_TEXT]}\n\nNot passed:\n{why}"
        if why:
            failed.append(f"# Reply {len(failed) + 1}\n\n{reply}")
        else:
            passed.append(f"- {question}")
    if not failed:
        return ""
    fence = "```" if "```" not in prompt else "````"
    checks = "\n".join(f"- “{name}”: {wanted(each)}" for name, each in experiment.checks.items())
    sections = {
        "The prompt": f"{fence}\n{prompt}\n{fence}",
        "What replies have to pass": checks,
        "Prompts that were tried and are not enough": "\n\n".join(f"- {each}" for each in tried),
        "Questions whose replies passed": "\n".join(passed[:_MOST]),
    }
    parts = [f"# {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n\n".join([_TASK, *parts, *failed[:_MOST]])


def read_proposal(reply: str | None) -> tuple[str, str] | None:
    """The prompt and the sentence in a proposer's reply; None if it has no prompt."""
    found = list(_FENCED.finditer((reply or "").replace("\r\n", "\n") + "\n"))
    prompt = found[-1]["prompt"].strip() if found else ""
    if not prompt or len(prompt) > MAX_PROMPT:
        return None
    return prompt, " ".join((reply or "")[: found[-1].start()].split()) or "No reason is given."


class Proposer(Lab):
    """Asks an agent of the platform, by its name or id, or one of its models."""

    def __init__(self, lab: Lab, model: str, options: Options) -> None:
        super().__init__(lab.client, lab.agent, lab.workspace, lab.follow)
        self.is_recorded, self._model, self._options = False, model, options
        is_agent = "~" in model or is_uuid(model)
        self._asked = Variant(model, agent=model) if is_agent else Variant(model, ROLE, model=model)

    async def require(self) -> None:
        """Check that it can be asked, before anything else is.

        Raises
        ------
        NotFound, NotOffered
        """
        if self._asked.agent is not None:
            await require_agents(self.client, [self._asked.agent])
        await require_parameters(self.client, [self._asked])

    async def propose(self, message: str, number: int) -> tuple[str, str] | None:
        """What it proposes: a prompt, and what that mends; None if that is no prompt.

        The same message with the same number is asked once.

        Raises
        ------
        AgentbookError
            If it does not answer.
        """
        key = (self._model, message, number)
        self.input_set.add([message])
        await self.ask(Plan([self._asked], [[key]], self._options))
        answer = self.answered.get(key) or Answer(*key, status="failed", reason=" ".join(self.notes))
        if answer.status != "answered":
            raise AgentbookError(f"{self._model} proposed nothing: {answer.reason}")
        return read_proposal(answer.reply)


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
    if not any(reason for answer in answers for reason in reasons(lab, answer)):
        raise ValueError(
            f"No reply of {chosen.name!r} has failed a check, a person or the run, so there is nothing to mend: "
            "run the lab with checks, or label its replies."
        )
    prompt, proposer = await prompt_of(lab, chosen), Proposer(lab, model, options)
    found: dict[str, str] = {}
    for number in range(1, n + 1):
        new, why = await proposer.propose(request(lab, prompt, answers, found), number) or (prompt, "")
        if new != prompt.strip():
            found.setdefault(new, why)
    if not found:
        raise ValueError(f"{model} proposed nothing new: its reply has no other prompt between two lines with ```.")
    names = (each for each in numbered(f"{chosen.name} suggested", "{} {}") if each not in lab.variants)
    return [
        Suggestion(replace(chosen, name=name, system_prompt=new), why, prompt)
        for name, (new, why) in zip(names, found.items(), strict=False)
    ]
