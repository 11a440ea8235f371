"""The files of a prompt lab.

One kind holds variants, inputs, checks and replies as JSON. An evaluation file holds
everything but the replies, for `agentbook eval`: a variant is a prompt in the form of a
chat, an input is a case with the columns of its row, and a check is an assert. What
people wrote is written so that it comes back as text. Anything the file cannot express
is not written, and a note says so.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._files import atomic_write
from ..._text import clip
from ..asserts import inlined
from ..check import CASES, CODE, FUNCTION, PREFIX, Check, code_file
from ..experiment import COLUMNS, LAST_COLUMNS, Experiment
from ..inputs import ORIGIN, Input, distinct, numbered
from ..javascript import to_text
from ..model import Case, Config, Prompt, Services
from ..template import file_template, fill, lab_template, literal_of, literal_value, names_in, protected, uses
from ..variant import PARAMETERS, Variant, variant_of
from . import cells
from .cells import Message, UnsendablePrompt, read_message, write_chat
from .read import read_config
from .source import HISTORY, Permissions
from .write import CASE_FILES, write_cases, write_config

EVALUATION_FILES = (".yaml", ".yml")
FORMAT = "agentbook-prompt-lab"
FORMAT_VERSION = 1
INPUT = "input"
OWN = "cases of the file"  # the name of the check that holds them
_OTHERS = ("description", "tools", "platform_tools", "mode", "version", "agent")
# Words that a template does not read as the name of a value.
_RESERVED = frozenset(
    (
        *("and", "as", "block", "by", "call", "elif", "else", "false", "filter", "for", "from", "if", "import", "in"),
        *("include", "is", "loop", "macro", "none", "not", "null", "or", "recursive", "self", "set", "super", "true"),
        *("undefined", "with", "without"),
    )
)


@dataclass(frozen=True, slots=True)
class SavedLab:
    """What a file holds of a lab.

    Attributes
    ----------
    experiment : Experiment
    agent, workspace : str or None
    notes : sequence of str
        Instructions in an evaluation file that a lab does not follow.
    """

    experiment: Experiment
    agent: str | None
    workspace: str | None
    notes: Sequence[str] = ()


def write_lab(
    path: str | Path, experiment: Experiment, *, agent: str | None = None, workspace: str | None = None
) -> list[str]:
    """Write variants, inputs and checks to an evaluation file, without replies.

    Parameters
    ----------
    path : str or Path
        A name in ``.csv`` or ``.jsonl`` makes a test set: inputs and checks alone.
    experiment : Experiment
    agent, workspace : str, optional
        The lab's own.

    Returns
    -------
    list of str
        Notes about what the file does not contain, or expresses differently.

    Raises
    ------
    ValueError
        If there is no variant, or a name in braces has no column.
    OSError
    """
    is_test_set = Path(path).suffix.lower() in CASE_FILES
    if not experiment.variants and not is_test_set:
        raise ValueError("There is no variant yet, so there is nothing to write: add one first.")
    inputs = experiment.input_set.fill(None, None, list(experiment.variants.values()))
    notes: list[str] = [] if inputs else ["There are no inputs yet, so the file has no cases."]
    talks = [each for each in inputs if each.is_conversation]
    notes += [f"“{clip(each.text, 60)}” is not in the file: it is a conversation." for each in talks]
    inputs = [each for each in inputs if not each.is_conversation]
    checks, variants = list(experiment.checks.values()), list(experiment.variants.values())
    judge = next((agent for check in checks for agent in check.judges), None)
    writer = _Writer(Path(path), judge, notes, variants, inputs)
    asserts = writer.checks(checks)
    own = [check for check in checks if check.type == CASES]
    notes += [f"“{check.name}” is not in the file: a case has one list of asserts." for check in own[1:]]
    cases: Mapping[str, Case] = own[0].value if own else {}
    config = Config(
        prompts=tuple(map(writer.prompt, variants)),
        cases=tuple(writer.case(each, cases.get(each.text), bool(asserts)) for each in inputs),
        default=Case(asserts=asserts),
        repeat=experiment.repeats,
        agent=agent,
        judge=judge,
        workspace=workspace,
    )
    if not is_test_set:
        write_config(path, config)
        return list(dict.fromkeys(notes))
    shared = dataclasses.replace(config.default, options={} if judge is None else {"provider": f"{PREFIX}{judge}"})
    notes += write_cases(path, (cells.with_defaults(shared, case) for case in config.cases))
    return list(dict.fromkeys(notes))


class _Writer:
    """Parts of a lab as parts of a file; `notes` get what the file cannot hold."""

    def __init__(
        self, path: Path, judge: str | None, notes: list[str], variants: Iterable[Variant], inputs: Sequence[Input]
    ) -> None:
        self._folder, self._judge, self._notes = path.parent.resolve(), judge, notes
        self._is_table = path.suffix.lower() in CASE_FILES
        used = {name for variant in variants for name in names_in(variant.system_prompt)}
        taken = {INPUT, *used, *(name for each in inputs for name in each.row)}
        # Columns whose names no template can read, and their names in the file.
        self._columns: dict[str, str] = {}
        for name in sorted(used):
            if name.startswith("_") or name in {"env", *_RESERVED} or not _is_name(name):
                column = _free(re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "column", taken)
                self._columns[name] = column
                taken.add(column)
                notes.append(f"The column “{name}” is called {column} in the file, as templates cannot name it.")
        clashing = {
            name for each in inputs for name, value in each.row.items() if fill("{{a}}", {"a": value}) != each.message
        }
        self._message = _free(INPUT, {*clashing, *self._columns.values()})  # what the file calls the message

    def prompt(self, variant: Variant) -> Prompt:
        data = {name: value for name, value in variant.as_data().items() if value is not None}
        settings: dict[str, Any] = {name: data[name] for name in PARAMETERS if name in data}
        others = {name: data[name] for name in _OTHERS if name in data}
        if names_in(variant.description):
            self._notes.append(
                f"The description of “{variant.name}” is not in the file, which does not fill in its columns."
            )
            del others["description"]
        if others:
            settings["agentbook"] = others
        system = None if variant.system_prompt is None else file_template(variant.system_prompt, self._columns)
        return Prompt(variant.name, write_chat(f"{{{{{self._message}}}}}", system), settings=settings)

    def case(self, each: Input, own: Case | None, has_others: bool) -> Case:
        row = {self._columns.get(name, name): value for name, value in each.row.items()}
        named = {INPUT: each.message, **row, self._message: each.message}
        values = {name: literal_value(value) for name, value in named.items()}
        origin = dict(each.origin)
        is_list = any(isinstance(value, list) and value and isinstance(value[0], str) for value in values.values())
        options: dict[str, Any] = {"disableVarExpansion": True} if is_list else {}
        if own is None:
            return Case(values, options=options, metadata=origin)
        asserts, threshold = self.checks(own.asserts), own.threshold
        if threshold is not None and has_others:  # it is about these asserts only
            asserts, threshold = (Check("assert-set", threshold=threshold, children=asserts),), None
        if "rubricPrompt" in own.options:
            options["rubricPrompt"] = own.options["rubricPrompt"]
        return Case(values, asserts, threshold, own.description, options=options, metadata={**own.metadata, **origin})

    def checks(self, checks: Iterable[Check]) -> tuple[Check, ...]:
        """Those that the file can hold."""
        names = ((check, None if check.name == check.text else check.name) for check in checks if self._holds(check))
        return tuple(dataclasses.replace(check.changed(self._without_judge), name=name) for check, name in names)

    def _holds(self, check: Check) -> bool:
        if check.type == CASES:
            return False
        for each in check.flat():
            reason = None
            if each.base in (FUNCTION, CASES):
                reason = "a file holds no functions" if each.base == FUNCTION else "a case has one list of asserts"
            elif each.base in CODE and self._is_table:
                reason = "a table holds no code; a name in .yaml makes a file that does"
            elif each.base in CODE and each.value is None:
                reason = "its code is not in this lab"
            elif code_file(each) and each.folder and each.folder.resolve() != self._folder:
                reason = f"its code {each.value} is in {each.folder}, and stays there"
            if reason is not None:
                self._notes.append(f"“{check.label}” is not in the file: {reason}.")
                return False
        return True

    def _without_judge(self, check: Check) -> Check:
        """The check without the agent that is the file's judge anyway."""
        return dataclasses.replace(check, agent=None) if check.agent == self._judge else check


def _is_name(name: str) -> bool:
    return name.isidentifier() and unicodedata.normalize("NFKC", name) == name


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, with a number if it is taken."""
    return next(each for each in numbered(name, "{}_{}") if each not in {*taken, *_RESERVED})


# Reading


def read_lab(path: str | Path, allowed: Permissions | None = None) -> SavedLab:
    """The variants, inputs and checks of an evaluation file. Nothing in it is run.

    Parameters
    ----------
    path : str or Path
    allowed : Permissions, optional
        What the file may use besides the files in its folder.

    Raises
    ------
    ConfigError
        If the file cannot be read; the message names the line.
    ValueError
        If its prompts send different messages, or its cases are asked different numbers
        of times, which a lab cannot do; `agentbook eval` runs such a file.
    OSError
    """
    config = _without_references(read_config(path, allowed))
    if any(uses(prompt.text, HISTORY) for prompt in config.prompts):
        raise ValueError(
            f"{path}: its prompts use `{HISTORY}`. Run the file with `agentbook eval`; a lab takes conversations by "
            "lab.add_conversation([...]), and its prompts are system messages."
        )
    by_prompt: dict[int, list[Case]] = {}
    for cell in cells.expand(config):
        if cell.repeat == 1:
            by_prompt.setdefault(cell.prompt_number, []).append(cell.case)
    sent = {n: [_message(config.prompts[n], case, config) for case in cases] for n, cases in by_prompt.items()}
    cases = next(iter(by_prompt.values()), [])
    texts = [message.text for message in next(iter(sent.values()), [])]
    same_texts = all([message.text for message in messages] == texts for messages in sent.values())
    is_one_list = len(by_prompt) == len(config.prompts) and all(own == cases for own in by_prompt.values())
    if not is_one_list or not same_texts:
        raise ValueError(
            f"{path}: the prompts send different messages, and a lab asks all variants the same. "
            "Run the file with `agentbook eval`, or put what differs into system messages."
        )
    repeats = {int(case.options.get("repeat") or config.repeat) for case in cases}
    if len(repeats) > 1:
        raise ValueError(
            f"{path}: its cases are asked different numbers of times, and a lab asks all inputs equally often. "
            "Run the file with `agentbook eval`, or give all cases the same `repeat`."
        )
    used = dict.fromkeys(name for prompt in config.prompts for name in names_in(_system_template(prompt)))
    rows = [_row(case, text, used) for case, text in zip(cases, texts, strict=True)]
    if not config.cases and not "".join(texts).strip():  # only prompts
        rows = [{name: f"{name}{ending}" for name in used} for ending in ("", "2")]
        sent = {n: [_message(config.prompts[n], Case(row), config) for row in rows] for n in by_prompt}
        cases = []
    systems = {n: [message.system_prompt for message in messages] for n, messages in sent.items()}
    kept = _distinct_cases(zip(texts, rows, cases, strict=True)) if cases else []
    asked = distinct([(text, row) for text, row, _ in kept])
    cases_by_name = {each.text: case for each, (_, _, case) in zip(asked, kept, strict=True)}
    experiment = Experiment()
    for n in sent:
        experiment.add_variant(_variant(config.prompts[n], systems[n], rows))
    experiment.input_set.use(dataclasses.replace(each, origin=_origin(cases_by_name[each.text])) for each in asked)
    experiment.repeats = repeats.pop()
    experiment.check(list(_checks(config, cases_by_name)))
    notes = (*config.notes, *_notes(cases_by_name.values(), experiment.checks))
    return SavedLab(experiment, config.agent, config.workspace, notes)


def _without_references(config: Config) -> Config:
    """A config whose asserts hold the contents of files that they name."""
    read_file_of = functools.partial(inlined, services=Services(folder=config.folder, allowed=config.allowed))

    def read(case: Case) -> Case:
        return dataclasses.replace(case, asserts=tuple(each.changed(read_file_of) for each in case.asserts))

    return dataclasses.replace(config, default=read(config.default), cases=tuple(map(read, config.cases)))


def _message(prompt: Prompt, case: Case, config: Config) -> Message:
    try:
        return read_message(cells.render(prompt, case, config.allowed.env))
    except UnsendablePrompt as error:
        raise ValueError(f"{prompt.label!r}: {error}") from error


def _row(case: Case, message: str, used: Mapping[str, None]) -> dict[str, Any]:
    """The values of a case as the row of an input.

    Names that prompts use and the case does not have print nothing.
    """
    row = {name: literal_of(value) for name, value in cells.resolve(case.vars).items()}
    if INPUT in row and INPUT not in used and to_text(row[INPUT]) == message:
        del row[INPUT]  # every input has it
    return {**used, **row}


def _origin(case: Case) -> dict[str, str]:
    return {
        name: str(case.metadata[name]) for name in ORIGIN if case.metadata.get("session_id") and name in case.metadata
    }


def _variant(prompt: Prompt, systems: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> Variant:
    """The variant whose prompt, filled from each row, is the system message there."""
    template = _system_template(prompt)
    if template is not None and _fills(template, systems, rows):
        return variant_of(prompt, template)
    if len(set(systems)) > 1:
        raise ValueError(
            f"The system prompt of {prompt.label!r} differs from case to case by more than names in braces. "
            "Run the file with `agentbook eval`."
        )
    return variant_of(prompt, None if systems[0] is None else protected(systems[0]))


def _system_template(prompt: Prompt) -> str | None:
    """The system message of a prompt before it is filled, as a lab writes it."""
    try:
        template = read_message(prompt.text).system_prompt
    except UnsendablePrompt:
        return None
    return None if template is None else lab_template(template)


def _fills(template: str, systems: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> bool:
    try:
        return all(fill(template, row) == system for system, row in zip(systems, rows, strict=True))
    except ValueError:  # a name has no column
        return False


_Asked = tuple[str, Mapping[str, Any], Case]


def _distinct_cases(asked: Iterable[_Asked]) -> list[_Asked]:
    """The cases without those that ask and check the same as an earlier one."""
    earlier: dict[str, list[Any]] = {}
    kept = []
    for text, row, case in asked:
        meaning = (row, case.asserts, case.threshold, case.options)
        if meaning not in earlier.setdefault(text, []):
            earlier[text].append(meaning)
            kept.append((text, row, case))
    return kept


def _checks(config: Config, cases: Mapping[str, Case]) -> Iterator[Check]:
    """A check for each assert that all cases share, and one for the others."""
    shared, prompt = config.default.asserts, config.default.options.get("rubricPrompt")
    count = len(shared)
    stand_alone = all(each.weight == 1 and not each.children for each in shared) and all(
        case.asserts[:count] == shared and case.threshold is None and case.options.get("rubricPrompt") == prompt
        for case in cases.values()
    )
    others = (
        cases
        if not stand_alone
        else {name: dataclasses.replace(case, asserts=case.asserts[count:]) for name, case in cases.items()}
    )
    if not stand_alone or any(case.asserts for case in others.values()):
        yield Check(CASES, {name: _located(case, config) for name, case in others.items()}, name=OWN)
    taken = {*COLUMNS, *LAST_COLUMNS, OWN}
    for check in _located(config.default, config).asserts if stand_alone else ():
        name = next(each for each in numbered(check.label) if each not in taken)
        taken.add(name)
        yield dataclasses.replace(check, name=name)


def _located(case: Case, config: Config) -> Case:
    """A case whose checks know where their code is, and who judges."""
    prompt, locate = case.options.get("rubricPrompt"), functools.partial(dataclasses.replace, folder=config.folder)
    checks = (each.changed(locate).judged_by(config.judge, prompt) for each in case.asserts)
    return dataclasses.replace(case, asserts=tuple(checks))


def _notes(cases: Iterable[Case], checks: Mapping[str, Check]) -> Iterator[str]:
    """What a lab does not keep of the cases, or cannot decide."""
    cases = list(cases)
    if any(case.reply is not None for case in cases):
        yield "The stored replies (`providerOutput`) have no effect: a lab asks the agent."
    held = any(check.base == CASES for check in checks.values())
    described = any(case.description and not re.fullmatch(r"Row #\d+", case.description) for case in cases)
    if not held and (described or any({*case.metadata} - {*ORIGIN} for case in cases)):
        yield "The descriptions and metadata of the cases are not kept in a lab."
    every = [each for check in checks.values() for each in check.flat()]
    if any(each.base == "llm-rubric" and each.agent is None for each in every):
        yield "The file names no judge for its llm-rubric: name one (defaultTest.options.provider) before you run the lab."


# Files of either kind


def read_saved_lab(path: str | Path, allowed: Permissions | None = None) -> SavedLab:
    """The lab in a file of either kind.

    Parameters
    ----------
    path : str or Path
    allowed : Permissions, optional
        What an evaluation file may use besides the files in its folder.

    Raises
    ------
    ValueError
        If the file is neither, or damaged.
    OSError
    """
    if Path(path).suffix.lower() in EVALUATION_FILES:
        return read_lab(path, allowed)
    data = read_file(path)
    try:
        return SavedLab(Experiment.from_data(data), data["agent"], data["workspace"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def write_file(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write the data of a lab to a file, which is replaced as a whole or not at all."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **data}, ensure_ascii=False, indent=1)
    with atomic_write(target) as file:
        # Half a surrogate pair, which broken JSON may hold, is written as its escape.
        file.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    return target


def read_file(path: str | Path) -> dict[str, Any]:
    """The data that `write_file` wrote.

    Raises
    ------
    ValueError
        If the file is something else, is damaged, or has a later format version.
    OSError
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); open a file that lab.save(path) wrote.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f'{path} is not a prompt lab: a file of lab.save(path) begins with "format": "{FORMAT}".')
    if data.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {data.get('version')!r}; this agentbook reads version {FORMAT_VERSION}."
        )
    return data
