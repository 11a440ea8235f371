"""Converts a lab to an evaluation file for `agentbook eval`, and back.

A variant is a prompt in the form of a chat, an input is a case, and a check is an
assert. Anything the file cannot express is not written, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...evaluation import cells, js_regex
from ...evaluation.messages import UnsendablePrompt, read_message, write_chat
from ...evaluation.model import Assertion, Case, Config, Prompt
from ...evaluation.read import read_config
from ...evaluation.write import write_config
from .checks import Check, read_checks
from .criteria import Cost, Latency, Length, Rubric, Similar
from .experiment import Experiment
from .file_checks import FileAssert, FileCases
from .variant import Variant

INPUT = "input"
# Settings of a variant that promptfoo's providers accept under the same name.
_PARAMETERS = ("model", "temperature", "max_tokens", "top_p")
_OTHERS = ("description", "tools", "platform_tools", "mode", "version", "agent")


@dataclass(frozen=True, slots=True)
class LabFile:
    """The part of a lab that an evaluation file holds.

    Attributes
    ----------
    variants : tuple of Variant
    inputs : tuple of str
    rows : tuple of dict
        The values of each input by name, ``input`` included.
    checks : dict of str to Check
    agent, workspace : str or None
    repeats : int
    notes : tuple of str
        What has no effect in a lab.
    """

    variants: tuple[Variant, ...]
    inputs: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    checks: Mapping[str, Check]
    agent: str | None = None
    workspace: str | None = None
    repeats: int = 1
    notes: tuple[str, ...] = ()


def write_lab(
    path: str | Path,
    experiment: Experiment,
    *,
    agent: str | None = None,
    workspace: str | None = None,
    repeats: int = 1,
) -> list[str]:
    """Write variants, inputs and checks to an evaluation file, without replies.

    Parameters
    ----------
    path : str or Path
    experiment : Experiment
    agent, workspace : str, optional
        The lab's own.
    repeats : int
        Number of times to ask each input.

    Returns
    -------
    list of str
        Notes about what the file does not contain, or expresses differently.

    Raises
    ------
    ValueError
        If there is no variant.
    OSError
    """
    if not experiment.variants:
        raise ValueError("There is no variant yet, so there is nothing to write: add one first.")
    notes: list[str] = []
    checks = list(experiment.checks.values())
    asserts = [made for check in checks if (made := _assertion(check, notes)) is not None]
    cases = next((check.criterion for check in checks if isinstance(check.criterion, FileCases)), None)
    judges = [check.criterion.agent for check in checks if isinstance(check.criterion, Rubric)]
    if len(set(judges)) > 1:
        notes.append(f"A file has one judge: {judges[0]} judges by all rubrics in it.")
    config = Config(
        prompts=tuple(_prompt(variant) for variant in experiment.variants.values()),
        cases=tuple(_case(text, cases) for text in experiment.inputs),
        default=Case(asserts=tuple(asserts)),
        repeat=repeats,
        agent=agent,
        judge=judges[0] if judges else None,
        workspace=workspace,
    )
    write_config(path, config)
    return notes


def _prompt(variant: Variant) -> Prompt:
    data = {name: value for name, value in variant.as_data().items() if value is not None}
    settings: dict[str, Any] = {name: data[name] for name in _PARAMETERS if name in data}
    others = {name: data[name] for name in _OTHERS if name in data}
    if others:
        settings["agentbook"] = others
    return Prompt(variant.name, write_chat(f"{{{{{INPUT}}}}}", variant.system_prompt), settings=settings)


def _case(text: str, cases: FileCases | None) -> Case:
    own = cases.cases.get(text) if cases is not None else None
    if own is None:
        return Case({INPUT: text})
    return Case({**own.vars, INPUT: text}, own.asserts, own.threshold, own.description, metadata=own.metadata)


def _assertion(check: Check, notes: list[str]) -> Assertion | None:
    """The assert that means the same as a check; otherwise adds a note."""
    criterion = check.criterion
    match check.kind:
        case "assert":
            return criterion.assertion if isinstance(criterion, FileAssert) else None
        case "contains":
            return Assertion("icontains", criterion, metric=check.name)
        case "regex":
            return Assertion(*_pattern(criterion), metric=check.name)
        case "json_schema":
            notes.append(
                f"“{check.name}” accepts JSON in a code fence here; in the file it is is-json, which does not."
            )
            return Assertion("is-json", dict(criterion), metric=check.name)
        case "length" if isinstance(criterion, Length):
            return _length(criterion, check.name)
        case "latency" if isinstance(criterion, Latency):
            return Assertion("latency", threshold=criterion.max_s * 1000, metric=check.name)
        case "cost" if isinstance(criterion, Cost):
            return Assertion("cost", threshold=criterion.max, metric=check.name)
        case "similar" if isinstance(criterion, Similar):
            return Assertion("similar", criterion.expected, criterion.threshold, metric=check.name)
        case "rubric" if isinstance(criterion, Rubric):
            if criterion.strict:
                notes.append(f"“{check.name}”: a judgement without “pass” fails here; in the file it passes.")
            return Assertion("llm-rubric", criterion.text, criterion.threshold, metric=check.name)
        case "cases":
            return None
    notes.append(f"“{check.name}” is not in the file: a {check.kind} has no assert that means the same.")
    return None


def _pattern(pattern: re.Pattern[str]) -> tuple[str, str]:
    """A pattern as an assert: ``regex`` if JavaScript reads it as Python does."""
    plain = re.fullmatch(r"[\w \-#/:@,;!\"']*", pattern.pattern, re.ASCII)
    if pattern.flags & ~re.UNICODE == 0 and plain and not re.search(r"\\", pattern.pattern):
        js_regex.translate(pattern.pattern)
        return "regex", pattern.pattern
    return "python", f"__import__('re').search({pattern.pattern!r}, output, {pattern.flags}) is not None"


def _length(length: Length, name: str) -> Assertion:
    limits = {word: limit for word, limit in (("min", length.min), ("max", length.max)) if limit is not None}
    if length.unit == "words":
        return Assertion("word-count", limits, metric=name)
    conditions = [f"len(output) >= {length.min}"] * (length.min is not None)
    conditions += [f"len(output) <= {length.max}"] * (length.max is not None)
    return Assertion("python", " and ".join(conditions), metric=name)


# Reading


def read_lab(path: str | Path, *, judge: str | None = None) -> LabFile:
    """The variants, inputs and checks of an evaluation file. Nothing in it is run.

    Parameters
    ----------
    path : str or Path
    judge : str, optional
        The agent that judges by the file's rubrics, unless the file names one.

    Raises
    ------
    ConfigError
        If the file cannot be read; the message names the line.
    ValueError
        If its prompts send different messages, which a lab cannot do; `agentbook eval`
        runs such a file.
    """
    config = read_config(path)
    atoms = cells.expand(config)
    by_prompt: dict[int, list[cells.Cell]] = {}
    for cell in atoms:
        if cell.repeat == 1:
            by_prompt.setdefault(cell.prompt_number, []).append(cell)
    variants = [_variant(config.prompts[number], group) for number, group in by_prompt.items()]
    inputs = [_inputs(group) for group in by_prompt.values()]
    if not inputs or any(texts != inputs[0] for texts in inputs):
        raise ValueError(
            f"{path}: the prompts send different messages, and a lab asks all variants the same. "
            "Run the file with `agentbook eval`, or put what differs into system messages."
        )
    first = next(iter(by_prompt.values()))
    return LabFile(
        variants=tuple(variants),
        inputs=tuple(inputs[0]),
        rows=tuple({**cells.resolve(cell.case.vars), INPUT: text} for cell, text in zip(first, inputs[0], strict=True)),
        checks=read_checks(list(_checks(config, first, inputs[0], judge or config.judge))),
        agent=config.agent,
        workspace=config.workspace,
        repeats=config.repeat,
        notes=config.notes,
    )


def _variant(prompt: Prompt, group: Sequence[cells.Cell]) -> Variant:
    systems = {_message(cell).system_prompt for cell in group}
    if len(systems) > 1:
        raise ValueError(
            f"The system prompt of {prompt.label!r} differs from case to case. Run the file with `agentbook eval`."
        )
    return variant_of(prompt, next(iter(systems)))


def variant_of(prompt: Prompt, system_prompt: str | None) -> Variant:
    """The variant that a prompt with this system message stands for.

    Examples
    --------
    >>> variant_of(Prompt("brief", "…", settings={"temperature": 0}), "Be brief.")
    Variant('brief', system_prompt='Be brief.', temperature=0)
    """
    settings = dict(prompt.settings)
    own = settings.pop("agentbook", None)
    known = {each.name for each in fields(Variant)} - {"name"}
    data = {name: value for name, value in {**settings, **(own or {})}.items() if name in known}
    name = " ".join(prompt.label.split())[:80] or "prompt"
    return Variant.from_data({**data, "name": name, "system_prompt": system_prompt})


def _inputs(group: Iterable[cells.Cell]) -> list[str]:
    return [_message(cell).text for cell in group]


def _message(cell: cells.Cell) -> Any:
    try:
        return read_message(cells.render(cell.prompt, cell.case))
    except UnsendablePrompt as error:
        raise ValueError(f"{cell.prompt.label!r}: {error}") from error


def _checks(config: Config, group: Sequence[cells.Cell], texts: Sequence[str], judge: str | None) -> Iterable[Check]:
    """A check for each assert if all cases share them; else one check for the cases."""
    shared = config.default.asserts
    own = any(cell.case.asserts[len(shared) :] or cell.case.threshold is not None for cell in group)
    weighted = any(assertion.weight != 1 or assertion.children for assertion in shared)
    if not own and not weighted:
        for number, assertion in enumerate(shared, 1):
            criterion = _criterion(assertion, config.folder, judge)
            name = criterion.name if assertion.metric is None else assertion.metric
            repeated = [other.label for other in shared].count(assertion.label) > 1
            yield Check(f"{name} ({number})" if repeated else name, criterion.kind, criterion)
        return
    cases = {text: cell.case for cell, text in zip(group, texts, strict=True)}
    yield Check("cases of the file", FileCases.kind, FileCases(cases, config.folder))


def _criterion(assertion: Assertion, folder: Path, judge: str | None) -> Any:
    if assertion.type == "llm-rubric" and judge is not None and isinstance(assertion.value, str):
        return Rubric(assertion.value, judge, assertion.threshold, strict=False)
    return FileAssert(assertion, folder)
