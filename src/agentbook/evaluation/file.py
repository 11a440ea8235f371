"""An experiment as a file: YAML or JSON, which people write and a lab saves.

One table of fields reads it, and `lab_data` writes it, so what was saved is what is
read. Nothing in a file runs code unless the caller allows it, and no other files are
read than those in its folder that it names as inputs. `lab.schema.json` describes the
form for editors.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from .._files import write_text
from .._text import clip
from .asserts import columns_of, require_valid
from .check import CODE_FILE, FUNCTION, Check, check_data, read_check, whole_number
from .conversations import MAX_TURNS, STOP, SimulatedUser
from .experiment import Answer, Experiment, Revision, require_names
from .inputs import INPUT, ORIGIN, Input, named, plain_value, read_rows, talk
from .source import Source, YamlLoader, quoted, read_source, referenced_file
from .template import fill, protected, require
from .variant import FIELDS, Variant

SUFFIXES = (".yaml", ".yml", ".json")
TABLES = (".csv", ".jsonl")
FIELDS_OF_LAB = ("agent", "workspace", "judge", "variants", "inputs", "checks", "repeats", "replies", "$schema")
FIELDS_OF_INPUT = ("name", "message", "messages", "user", "values", "checks", "origin")
FIELDS_OF_USER = ("agent", "instructions", "max_turns", "stop")
WIDTH = 100


@dataclass(frozen=True, slots=True)
class SavedLab:
    """What a file holds of a lab.

    Attributes
    ----------
    experiment : Experiment
    agent, workspace : str or None
    """

    experiment: Experiment
    agent: str | None = None
    workspace: str | None = None


# Reading


def read_lab(path: str | Path, *, allow_code: bool = False, judge: str | None = None) -> SavedLab:
    """The experiment in a file.

    Parameters
    ----------
    path : str or Path
    allow_code : bool
        Whether ``function: checks.py:polite`` may be run: what is in that file can do
        anything. False refuses a file with such a check.
    judge : str, optional
        The agent that judges instead of the file's `judge`.

    Raises
    ------
    ConfigError
        If the file cannot be read; the message says what is wrong, and where.
    """
    source = read_source(path)
    has_replies = isinstance(source.value, Mapping) and "replies" in source.value
    return _read(source, _Functions(Path(path).parent, allow_code, has_replies), judge)


def from_data(data: Mapping[str, Any]) -> Experiment:
    """The experiment that `lab_data` wrote; what its functions do is not known.

    Raises
    ------
    ValueError
    """
    return _read(Source(Path("lab"), data), None, None).experiment


def _read(source: Source, functions: _Functions | None, judge: str | None) -> SavedLab:
    theirs = isinstance(source.value, Mapping) and not {"prompts", "tests", "providers"}.isdisjoint(source.value)
    hint = f" This is a file of promptfoo: `agentbook import {source.path}` makes a lab file of it." if theirs else ""
    source.mapping(FIELDS_OF_LAB, hint)
    reader = _Reader(source, functions, judge or _optional_text(source["judge"]))
    saved = SavedLab(reader.experiment, *(_optional_text(source[name]) for name in ("agent", "workspace")))
    source.require_no_problems()
    return saved


def _optional_text(part: Source) -> str | None:
    return None if part.value is None else part.text()


class _Functions(dict[str, Any]):
    """The functions in the files that checks name; None for one of a notebook."""

    def __init__(self, folder: Path, allowed: bool, has_replies: bool) -> None:
        super().__init__()
        self.folder, self._allowed, self._has_replies = folder, allowed, has_replies

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[..., Any] | None:
        self[name] = self._load(name)
        return self[name]  # type: ignore[no-any-return]

    def _load(self, name: str) -> Callable[..., Any] | None:
        match = CODE_FILE.fullmatch(name)
        if match is None and self._has_replies:
            return None
        if match is None:
            raise ValueError(f"a function is named by its file, checks.py:polite, not {quoted(name)}.")
        path = referenced_file(self.folder, match[1])
        if not self._allowed:
            how = "allow it with --allow-code, in Python allow_code=True"
            raise ValueError(f"{name} is Python code, which may do anything. Read {path}, and {how}.")
        spec = importlib.util.spec_from_file_location(f"agentbook_checks_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is no file of Python.")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
        function = getattr(module, match[2], None)
        if not callable(function):
            raise ValueError(f"there is no function {match[2]!r} in {path}.")
        return function  # type: ignore[no-any-return]


class _Reader:
    """Reads the parts of a file; what is wrong is collected in `source`."""

    def __init__(self, source: Source, functions: _Functions | None, judge: str | None) -> None:
        self._source, self._functions, self._judge = source, functions, judge
        self.experiment = made = Experiment()
        made.default_judge = judge
        for variant in self._variants(source["variants"]):
            made.add_variant(variant)
        checks = self._checks(source["checks"])
        inputs = self._inputs(source["inputs"])
        with source.collecting(), source["repeats"].locating():
            repeats = source["repeats"].value
            made.repeats = 1 if repeats is None else whole_number(repeats, "repeats", low=1)
        source.require_no_problems()
        made.input_set.use(named(inputs, [name for each in made.variants.values() for name in each.names]))
        with source["checks"].locating():
            made.use_checks({str(check.name): check for check in checks})
            require_names(made.all_checks)
        for variant in made.variants.values():
            self._require(variant.names, inputs, source["variants"][variant.name], f"The variant {variant.name!r}")
        for number, check in enumerate(checks):
            place = source["checks"][number] if isinstance(source["checks"].value, list) else source["checks"]
            self._require(columns_of(check), inputs, place, f"The check {check.label!r}")
        items = source["inputs"].value
        if isinstance(items, str) or any(
            isinstance(each, Mapping) and isinstance(each.get("values"), str) for each in items or ()
        ):
            made.input_set.source = source.folder.resolve(), items, tuple(made.inputs)
        replies = source["replies"]
        if replies.value is not None:
            with source.collecting(), replies.locating():
                read_replies(made, replies.mapping())

    @staticmethod
    def _require(names: Iterable[str], inputs: Iterable[Input], place: Source, owner: str) -> None:
        """Check that each input has a value for each of these names."""
        names = list(names)
        for each in inputs if names else ():
            row = {INPUT: each.message, **each.row}
            for name in names:
                try:
                    require(name, row, f"{owner}, for the input {clip(each.label, 40)!r},")
                except ValueError as error:
                    raise place.error(str(error)) from None

    def _variants(self, part: Source) -> Iterator[Variant]:
        for name in part.mapping() if part.value is not None else ():
            each = part[name]
            with part.collecting(), each.locating():
                settings = {} if each.value is None else each.mapping(FIELDS)
                known = {key: value for key, value in settings.items() if key in FIELDS}
                for key in ("tools", "platform_tools", "messages"):
                    if known.get(key) is not None:
                        each[key].items()
                yield Variant(str(name), **known)
        if part.value is not None and not part.value:
            with part.collecting():
                raise part.error("there is no variant: write one, or leave `variants` out to ask the agent as it is.")

    # Checks

    def _checks(self, part: Source) -> tuple[Check, ...]:
        if part.value is None:
            return ()
        by_name = isinstance(part.value, Mapping)
        parts = [(str(name), part[name]) for name in part.value] if by_name else [("", each) for each in part.items()]
        made: dict[str, Check] = {}
        for name, each in parts:
            with part.collecting(), each.locating():
                check = self._check(each)
                check = replace(check, name=name) if name else check
                if check.name in made:
                    raise each.error(f"two checks are called {check.name!r}: give one of them another name.")
                made[str(check.name)] = check
        if not parts:
            with part.collecting():
                raise part.error("there is no check: write one, or leave `checks` out.")
        return tuple(made.values())

    def _check(self, part: Source) -> Check:
        value = part.value
        key = next(iter(value), None) if isinstance(value, Mapping) and len(value) == 1 else None
        if key is not None and not isinstance(value[key], Mapping | list | None):
            value = f"{key}: {part[key].written()}"  # a line with a colon
        check = read_check(value, self._functions).judged_by(self._judge)
        require_valid(check)
        if self._functions is not None:
            if any(each.agent is None for each in check.rubrics):
                raise ValueError("no judge is named: write `judge: NAME` into the file, or pass --judge NAME.")
            folder = self._functions.folder.resolve()
            check = check.changed(lambda each: replace(each, folder=folder) if each.base == FUNCTION else each)
        return check

    # Inputs

    def _inputs(self, part: Source) -> list[Input]:
        value = part.value
        if value is None:
            return []
        if isinstance(value, str):
            return list(self._of_rows(part, None, ()))
        made: list[Input] = []
        for each in part.items():
            with part.collecting(), each.locating():
                made += self._input(each)
        if not value:
            with part.collecting():
                raise part.error("there is no input: write one, or the name of a file in .csv or .jsonl.")
        return made

    def _input(self, part: Source) -> Iterable[Input]:
        if isinstance(part.value, str):
            return [Input("", fill(part.text(), {}, "The input").strip())]
        if not isinstance(part.value, Mapping):
            return [Input("", part.written())]
        hint = " A text with a colon stands in quotes."
        data = part.mapping(FIELDS_OF_INPUT, hint)
        kinds = [name for name in ("message", "messages", "user") if name in data]
        if len(kinds) > 1:
            raise part.error(f"`{kinds[0]}` and `{kinds[1]}` cannot stand together.")
        checks, values = self._checks(part["checks"]) if "checks" in data else (), part["values"]
        if isinstance(values.value, str):
            if "name" in data:
                raise part.error("the rows of a file get their names from their values.", "name")
            return self._of_rows(values, part if kinds else None, checks)
        row = {} if values.value is None else {str(name): plain_value(each) for name, each in values.mapping().items()}
        if not kinds:
            raise part.error("an input needs a `message`, `messages`, a `user`, or the name of a file as `values`.")
        return [self._made(part, row, checks)]

    def _of_rows(self, values: Source, part: Source | None, checks: tuple[Check, ...]) -> Iterator[Input]:
        """An input for each row of a file beside this one."""
        name, line = str(values.value), 0
        if not name.lower().endswith(TABLES):
            raise values.error(f"a file of inputs ends in {' or '.join(TABLES)}, not {quoted(name)}.")
        with values.locating():
            path = referenced_file(values.folder, name)
            for line, row in read_rows(path):
                if part is None and INPUT not in row:
                    there = f"there is no column `{INPUT}`; there are {', '.join(row)}"
                    raise values.error(f"{there}. Name one in a `message`.")
                message = str(row.pop(INPUT) or "").strip() if part is None else ""
                with values.locating(f"line {line} of {name}: "):
                    if part is not None:
                        yield self._made(part, row, checks)
                    elif message:
                        yield Input("", message, row, checks=checks)
            if not line:
                raise values.error(f"there are no rows in {path}.")

    def _made(self, part: Source, row: dict[str, Any], checks: tuple[Check, ...]) -> Input:
        data = part.value
        text = part["name"].text() if "name" in data else ""
        origin = part["origin"].mapping(ORIGIN) if "origin" in data else {}
        others: dict[str, Any] = {"checks": checks, "origin": {name: str(each) for name, each in origin.items()}}
        if "messages" in data:
            messages = [each.text() for each in part["messages"].items()]
            return replace(talk(messages, row, **others), text=text)
        if "user" in data:
            return self._user(part["user"], text, row, others)
        return Input(text, fill(part["message"].written(), row, "The message").strip(), row, **others)

    @staticmethod
    def _user(part: Source, text: str, row: dict[str, Any], others: dict[str, Any]) -> Input:
        data = part.mapping(FIELDS_OF_USER)
        agent, told = part["agent"].text(), fill(part["instructions"].text(), row, "The instructions").strip()
        turns = whole_number(data.get("max_turns", MAX_TURNS), "max_turns", low=1)
        user = SimulatedUser(agent, told, turns, str(data.get("stop", STOP)))
        return Input(text or f"{agent}: {told}", user.first_message(), row, user=user, **others)


# Writing


def lab_data(
    experiment: Experiment,
    folder: Path | None = None,
    notes: list[str] | None = None,
    place: Mapping[str, str | None] = MappingProxyType({}),
    *,
    keeps_names: bool = False,
) -> dict[str, Any]:
    """An experiment as the data of a file, without replies.

    Parameters
    ----------
    experiment : Experiment
    folder : Path, optional
        Where the file will be. None keeps checks by functions, by their names alone.
    notes : list of str, optional
        Gets what the file does not hold, in words.
    place : mapping
        The lab's `agent` and `workspace`.
    keeps_names : bool
        Whether functions of a notebook stay by their names, for the grades they gave.

    Raises
    ------
    ValueError
        If an input names a column that is not there.
    """
    inputs = [experiment.input_set.find(text) for text in experiment.inputs]
    every = [*experiment.checks.values(), *(check for each in inputs for check in each.checks)]
    judge = experiment.default_judge or next((agent for check in every for agent in check.judges), None)

    def checks_data(checks: Iterable[Check]) -> list[Any]:
        return [_check_data(check, judge) for check in checks if is_written(check)]

    def is_written(check: Check) -> bool:
        has_file = any(each.code for each in check.flat())
        return folder is None or (keeps_names and not has_file) or _is_written(check, folder, notes)

    source = experiment.input_set.source
    if source and folder is not None and (source[0], list(source[2])) == (folder.resolve(), experiment.inputs):
        written = source[1]
    else:
        names = [name for variant in experiment.variants.values() for name in variant.names]
        labels = [each.text for each in named((replace(each, text="") for each in inputs), names)]
        own = labels == [each.text for each in inputs]
        written = [_input_data(each, own, checks_data(each.checks)) for each in inputs]
    data = {
        **{name: place.get(name) for name in ("agent", "workspace")},
        "judge": judge,
        "variants": {name: variant.as_data() for name, variant in experiment.variants.items()},
        "inputs": written,
        "checks": checks_data(experiment.checks.values()),
        "repeats": None if experiment.repeats == 1 else experiment.repeats,
    }
    return {name: value for name, value in data.items() if value not in (None, {}, [])}


def _check_data(check: Check, judge: str | None) -> Any:
    return check_data(check.changed(lambda each: replace(each, agent=None if each.agent == judge else each.agent)))


def _is_written(check: Check, folder: Path, notes: list[str] | None) -> bool:
    functions = [each for each in check.flat() if each.base == FUNCTION]
    reason = next(("a file holds no functions" for each in functions if each.code is None), None)
    away = next((each for each in functions if each.code and each.folder != folder.resolve()), None)
    reason = reason or (f"its code {away.code} is in {away.folder}, and stays there" if away else None)
    if reason and notes is not None:
        notes.append(f"“{check.label}” is not in the file: {reason}.")
    return reason is None


def _input_data(each: Input, has_label: bool, checks: list[Any]) -> Any:
    data: dict[str, Any] = {"name": None if has_label else each.text}
    if each.user is not None:
        user = {name: getattr(each.user, name) for name in FIELDS_OF_USER}
        defaults = {"max_turns": MAX_TURNS, "stop": STOP}
        data["name"] = None if each.text == f"{each.user.agent}: {each.user.instructions}" else each.text
        data["user"] = {name: value for name, value in user.items() if value != defaults.get(name)}
        data["user"]["instructions"] = protected(each.user.instructions)
    elif each.then:
        data["messages"] = [protected(text) for text in (each.message, *each.then)]
    else:
        data["message"] = protected(each.message)
    data |= {"values": dict(each.row), "checks": checks, "origin": dict(each.origin)}
    known = {name: value for name, value in data.items() if value not in (None, {}, [])}
    return known["message"] if known.keys() == {"message"} else known


def replies_data(experiment: Experiment) -> dict[str, Any]:
    """The replies of an experiment as plain data; empty without any."""

    def data(answers: Iterable[Answer]) -> list[Any]:
        return [answer.as_data() for answer in answers if answer.status != "asking"]

    earlier = {
        name: [{"variant": each.variant.as_data(), "answers": data(each.answers)} for each in revisions]
        for name, revisions in experiment.earlier.items()
    }
    replies = {"answers": data(experiment.answered.values()), "revisions": earlier}
    return {name: each for name, each in replies.items() if each}


def read_replies(experiment: Experiment, data: Mapping[str, Any]) -> None:
    """Add what `replies_data` wrote.

    Raises
    ------
    ValueError, TypeError
    """
    try:
        experiment.answered = {answer.key: answer for answer in map(Answer.from_data, data.get("answers", ()))}
        for name, revisions in data.get("revisions", {}).items():
            made = [(Variant(name, **each["variant"]), map(Answer.from_data, each["answers"])) for each in revisions]
            experiment.earlier[name] = [Revision(variant, tuple(answers)) for variant, answers in made]
    except (KeyError, AttributeError) as error:
        raise ValueError(f"the replies are damaged: {type(error).__name__}: {error}") from error


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes strings that YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {
    char: [*yaml.SafeDumper.yaml_implicit_resolvers.get(char, []), *YamlLoader.yaml_implicit_resolvers.get(char, [])]
    for char in {*yaml.SafeDumper.yaml_implicit_resolvers, *YamlLoader.yaml_implicit_resolvers}
}


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text and text == "\n".join(line.rstrip() for line in text.split("\n")) else None
    if re.search("[\x85\u2028\u2029]", text):  # PyYAML reads these as line breaks, unless they are escaped
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(data: Mapping[str, Any]) -> str:
    """The data of a file as YAML.

    Examples
    --------
    >>> print(dump({"inputs": ["What is a turn?"], "checks": ["not: sorry"]}))
    inputs:
    - What is a turn?
    checks:
    - 'not: sorry'
    <BLANKLINE>
    """
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": WIDTH, "default_flow_style": False}
    return str(yaml.dump(dict(data), Dumper=_Dumper, **options))


def write_lab(path: str | Path, experiment: Experiment, place: Mapping[str, str | None]) -> list[str]:
    """Write an experiment to a file, which is replaced as a whole or not at all.

    With a name in ``.json`` the file holds the replies, too.

    Parameters
    ----------
    path : str or Path
    experiment : Experiment
    place : mapping
        The lab's `agent` and `workspace`.

    Returns
    -------
    list of str
        What the file does not hold, in words.

    Raises
    ------
    ValueError
        If the name ends in something else, or a name in braces has no column.
    OSError
    """
    target, notes = Path(path), list[str]()
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"A lab is not written as {target.name!r}: use one of {', '.join(SUFFIXES)}.")
    experiment.input_set.fill(None, None, list(experiment.variants.values()), experiment.checks.values())
    replies = replies_data(experiment) if target.suffix.lower() == ".json" else {}
    data = lab_data(experiment, target.parent, notes, place, keeps_names=bool(replies))
    write_data(target, data | ({"replies": replies} if replies else {}))
    return notes


def write_data(path: Path, data: Mapping[str, Any]) -> None:
    """Write a lab's data: as JSON to a name in ``.json``, else as YAML."""
    is_json = path.suffix.lower() == ".json"
    write_text(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n" if is_json else dump(data))
