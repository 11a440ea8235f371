"""Reads an evaluation file. Anything that cannot run is rejected, with its line."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .. import template
from ..asserts import require_valid
from ..check import CODE, PREFIX, REFUSED, SET, SUPPORTED, TURN, Check, code_file, is_promptfoos
from ..check import refusal as refusal_of_kind
from ..code_assert import refusal
from ..javascript import parse_json, to_json, to_text
from ..model import Case, Config, Prompt
from .cells import merge
from .csv import case_data, read_rows
from .source import (
    HISTORY,
    ConfigError,
    OutsideFolder,
    Permissions,
    Source,
    Unsupported,
    format_keys,
    quoted,
    read_source,
    read_text,
    referenced_files,
)

_USED = ("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios", "evaluateOptions")
_IGNORED = (
    *("$schema", "commandLineOptions", "derivedMetrics", "env", "metadata", "outputPath", "sharing", "tags", "tracing"),
    *("writeLatestResults",),
)
_REFUSED = {
    "extensions": "hooks in JavaScript or Python are not run",
    "nunjucksFilters": "its filters are JavaScript",
    "redteam": "red teaming needs promptfoo's own service",
    "transform": "it is JavaScript",
}
_CASE_REFUSED = {
    "assertScoringFunction": "scoring functions are not run; weights and thresholds are",
    "assertTemplates": "write the asserts out",
    "provider": "all cases ask the same agent",
    "providers": "all cases ask the same agent",
}
_TRANSFORMS_REFUSED = "transforms run code; compare the reply as it is"
_OPTION_REFUSED = dict.fromkeys(
    ("transform", "postprocess", "transformVars", "responseFormat", "storeOutputAs", "runSerially"),
    _TRANSFORMS_REFUSED,
)
_CASE_USED = ("description", "vars", "assert", "threshold", "options", "metadata", "prompts", "providerOutput")
_ASSERT_USED = ("type", "value", "threshold", "weight", "metric", "rubricPrompt", "provider", "config", "assert")
# Includes unsupported types: a cell that begins with one is not a text to compare with.
CSV_TYPES = tuple(sorted((*SUPPORTED, *REFUSED), key=len, reverse=True))
MAX_REPEAT = 1000
_SEPARATOR = re.compile(r"^---$", re.MULTILINE)
_TEXT = (".txt", ".md", ".j2")
_DATA = (".json", ".yaml", ".yml")
_SUFFIXES = (*_TEXT, *_DATA, ".jsonl")
_WILDCARDS = "*?"


def read_config(path: str | Path, allowed: Permissions | None = None, *, skip_unsupported: bool = False) -> Config:
    """Read an evaluation file: the part of promptfoo's format that runs here.

    Parameters
    ----------
    path : str or Path
        YAML or JSON. Files that it names are relative to its folder, and within it.
    allowed : Permissions, optional
        What it may use besides.
    skip_unsupported : bool
        Leave out what promptfoo runs and agentbook does not, and say so in `skipped`.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If the file cannot be read, or something in it cannot run. The message has all
        problems, each with its file, its line and the path in it, and the reason.

    Examples
    --------
    >>> path = folder / "greeting.yaml"
    >>> _ = path.write_text('''
    ... prompts: ["{{question}}"]
    ... tests:
    ...   - vars: {question: Hi}
    ...     assert: [{type: contains, value: Hello}]
    ... ''')
    >>> config = read_config(path)
    >>> config.prompts[0].text, config.cases[0].asserts[0].type
    ('{{question}}', 'contains')
    """
    source = read_source(path)
    return _Reader(source if allowed is None else dataclasses.replace(source, allowed=allowed)).read(skip_unsupported)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes: list[str] = []
        self._reading: list[Path] = []
        self._has_history = False
        self._shared: tuple[Check, ...] = ()  # the asserts of all cases
        self._judge: str | None = None  # the first agent that the file names

    def read(self, skip_unsupported: bool) -> Config:
        source, data = self.source, self.source.mapping()
        self.notes += source.check_keys(_USED, _REFUSED, _IGNORED)
        if "prompts" not in data:
            raise source.error("there are no `prompts`; an evaluation file begins with them.")
        prompts = read_prompts(source["prompts"])
        self._has_history = any(template.uses(prompt.text, HISTORY) for prompt in prompts)
        default = Case()
        with source.collecting():
            default = self._default(source["defaultTest"]) or default
        cases: list[Case] = []
        for read in (
            self._cases(source["tests"]),
            self._scenarios(source["scenarios"], dataclasses.replace(default, asserts=())),
        ):
            with source.collecting():
                cases += read
        if data.get("scenarios") and not cases and not source.problems:
            raise source["scenarios"].error("no scenario has `tests`, so there is nothing to ask.")
        repeat = 1
        providers: tuple[str | None, str | None] = None, None
        with source.collecting():
            repeat = self._repeat(source["evaluateOptions"])
        with source.collecting():
            providers = self._providers(source["targets" if "targets" in data else "providers"])
        is_all_left_out = not prompts or (not cases and bool(data.get("tests") or data.get("scenarios")))
        self._require_no_problems(skip_unsupported and not is_all_left_out)
        return Config(
            prompts=tuple(prompts),
            cases=tuple(cases),
            default=default,
            repeat=repeat,
            description=data.get("description") if isinstance(data.get("description"), str) else None,
            agent=providers[0],
            judge=self._judge,
            workspace=providers[1],
            folder=source.folder,
            allowed=source.allowed,
            notes=tuple(self.notes),
            skipped=tuple(text for error in source.problems for text in error.problems),
        )

    def _require_no_problems(self, skip_unsupported: bool) -> None:
        problems = [each for each in self.source.problems if not (skip_unsupported and isinstance(each, Unsupported))]
        if problems:
            raise ConfigError(*dict.fromkeys(text for each in problems for text in each.problems))

    # Providers and options

    def _providers(self, source: Source) -> tuple[str | None, str | None]:
        agents: list[tuple[str, str | None]] = []
        for provider in source.value if isinstance(source.value, list) else [source.value]:
            identifier = provider.get("id") if isinstance(provider, Mapping) else provider
            if isinstance(identifier, str) and identifier.startswith(PREFIX):
                settings = provider.get("config") if isinstance(provider, Mapping) else None
                workspace = settings.get("workspace") if isinstance(settings, Mapping) else None
                agents.append((identifier.removeprefix(PREFIX), workspace))
            elif provider not in (None, "echo"):
                self.notes.append(f"{source.keys[0]}: {quoted(identifier)} is not asked; an agent of the platform is.")
        if len(agents) > 1:
            raise source[1].error("one file asks one agent; use --agent for another one.")
        return agents[0] if agents else (None, None)

    def _repeat(self, options: Source) -> int:
        repeat = 1 if options.value is None else options.mapping().get("repeat", 1)
        if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= MAX_REPEAT:
            raise options["repeat"].error(f"repeat must be a number from 1 to {MAX_REPEAT}, not {quoted(repeat)}.")
        return repeat

    def _read_judge(self, provider: Any) -> str | None:
        """Read the provider of a file or a case; returns the agent it names, if any."""
        if isinstance(provider, Mapping):
            provider = provider.get("text", provider)
            provider = provider.get("id") if isinstance(provider, Mapping) else provider
        if isinstance(provider, str) and provider.startswith(PREFIX):
            agent = provider.removeprefix(PREFIX)
            self._judge = self._judge or agent
            return agent
        if provider is not None:
            self.notes.append(f"options.provider: {quoted(provider)} is not asked; --judge names an agent that judges.")
        return None

    # Cases

    def _default(self, source: Source) -> Case | None:
        if isinstance(source.value, str):
            source = source.file(source.find_files(source.value, "")[0])
        elif source.value is None:
            return Case()
        return self._case(source, is_default=True)

    def _scenarios(self, scenarios: Source, default: Case) -> Iterator[Case]:
        numbers = itertools.count()
        for scenario in scenarios.items():
            if not scenario.mapping().get("tests"):
                self.notes.append(f"{format_keys(scenario.keys)} has no `tests`, so nothing of it is asked.")
            configs = list(self._cases(scenario["config"]))
            tests = list(self._cases(scenario["tests"]))
            for config in configs:
                # As in promptfoo, what is asked for a config is a conversation.
                own = {"conversationId": f"__scenario_{next(numbers)}__"} if self._has_history else {}
                shared = merge(Case(metadata=own), merge(default, config))
                yield from (merge(shared, test) for test in tests)

    def _cases(self, source: Source) -> Iterator[Case]:
        if isinstance(source.value, str):
            yield from self._file_of_cases(source)
            return
        for item in source.items():
            with source.collecting():
                cases = self._file_of_cases(item) if isinstance(item.value, str) else [self._case(item)]
                yield from filter(None, cases)

    def _file_of_cases(self, source: Source) -> Iterator[Case]:
        source.refuse_code(source.value, "cases are")
        for path in source.find_files(source.value):
            if path in self._reading:
                raise source.error(f"{path.name} names itself as a file of cases.")
            self._reading.append(path)
            yield from self._cases_in(source, path)
            self._reading.remove(path)

    def _cases_in(self, source: Source, path: Path) -> Iterator[Case]:
        if path.suffix == ".csv":
            yield from self._csv(source, path)
        elif path.suffix == ".jsonl":
            for number, line in enumerate(read_text(path).splitlines(), 1):
                if line.strip():
                    with source.collecting():
                        yield from filter(None, [self._case(_json_line(source, path, number, line))])
        elif path.suffix in (".yaml", ".yml", ".json"):
            file = source.file(path)
            yield from self._cases(file if isinstance(file.value, list) else file.of([file.value]))
        else:
            raise source.error(f"cases are read from .csv, .yaml, .json and .jsonl files, not from {path.name}.")

    def _csv(self, source: Source, path: Path) -> Iterator[Case]:
        try:
            rows = read_rows(read_text(path))
        except ValueError as error:
            raise ConfigError(f"{path}, {error}") from error
        for number, (line, row) in enumerate(rows.items(), 1):
            file = source.file(path, row, f"line {line} (row {number})")
            with source.collecting():
                try:
                    data = case_data(row, number, CSV_TYPES)
                except ValueError as error:
                    raise file.error(str(error)) from error
                yield from filter(None, [self._case(file.of(data))])

    def _case(self, source: Source, *, is_default: bool = False) -> Case | None:
        """The case, or None if more than some of its asserts cannot run."""
        known = len(source.problems)
        data, options = source.mapping(), source["options"]
        self.notes += source.check_keys(_CASE_USED, _CASE_REFUSED)
        options.check_history()
        for name in options.mapping(optional=True):
            with source.collecting():
                if name in _OPTION_REFUSED:
                    raise options[name].unsupported(f"`{name}` cannot be used: {_OPTION_REFUSED[name]}.")
        self._read_judge(options.mapping(optional=True).get("provider"))
        values: dict[str, Any] = {}
        with source.collecting():
            values = self._vars(source["vars"])
        is_whole = len(source.problems) == known
        if is_default and not is_whole:  # no case would be what it is
            source.problems[known:] = [ConfigError(*each.problems) for each in source.problems[known:]]
        case = Case(
            vars=values,
            asserts=tuple(self._asserts(source["assert"])),
            threshold=source["threshold"].number(),
            description=data.get("description"),
            prompts=_labels(source["prompts"]),
            reply=data.get("providerOutput"),
            options={
                name: options[name].text() if name == "rubricPrompt" else value
                for name, value in options.mapping(optional=True).items()
                if name != "provider"
            },
            metadata=source["metadata"].mapping(optional=True),
        )
        # A case of which no assert is left would pass, whatever the reply.
        is_checked = bool(case.asserts or self._shared) or not data.get("assert") or is_default
        if is_default:
            self._shared = case.asserts
        return case if is_whole and is_checked else None

    def _asserts(self, source: Source) -> Iterator[Check]:
        for item in source.items():
            with source.collecting():
                yield self._assert(item)

    def _assert(self, source: Source) -> Check:
        data = source.mapping()
        kind = data.get("type")
        if not isinstance(kind, str):
            raise source.error("an assert needs a `type`, such as `contains`.")
        base = kind.removeprefix("not-")
        reason = None if kind == SET else refusal_of_kind(base)
        if reason is not None:
            refuse = source["type"].unsupported if is_promptfoos(base) else source["type"].error
            raise refuse(f"the assert `{kind}` cannot run: {reason}.")
        for name in ("transform", "contextTransform"):
            if name in data:
                raise source[name].unsupported(f"`{name}` cannot be used: {_TRANSFORMS_REFUSED}.")
        for name in ("value", "rubricPrompt"):
            source[name].check_history()
        self.notes += source.check_keys(_ASSERT_USED, {}, ("normalizeUnicode",))
        if isinstance(data.get("metric"), Mapping | list):
            raise source["metric"].error(f"a name is needed here, not {quoted(data['metric'])}.")
        agent = self._read_judge(data.get("provider"))
        children = list(self._asserts(source["assert"]) if kind in (SET, TURN) else ())
        if kind == SET and data.get("assert") and not children:
            raise source.unsupported("none of the asserts of the set can run.")
        weight = source["weight"].number()
        check = Check(
            type=kind,
            value=data.get("value"),
            threshold=source["threshold"].number(),
            weight=1.0 if weight is None else weight,
            name=data.get("metric"),
            rubric_prompt=source["rubricPrompt"].text(),
            config=data.get("config"),
            agent=agent,
            children=tuple(children),
            is_data=source.is_data,
        )
        if check.base in CODE and source.is_data:
            raise source["type"].unsupported(
                f"`{kind}` cannot stand in a data file, which may be what anybody wrote. Write it into the evaluation file."
            )
        if check.base == "javascript":
            reason = refusal(check, is_allowed=source.allowed.javascript)
            if reason is not None:
                raise source["type"].unsupported(f"the assert `{kind}` cannot run: {reason}.")
        _check_value(source["value"], check)
        return check

    def _vars(self, source: Source) -> dict[str, Any]:
        data = source.value
        if isinstance(data, str) or (isinstance(data, list) and all(isinstance(name, str) for name in data)):
            merged: dict[str, Any] = {}
            for name in [data] if isinstance(data, str) else data:
                for path in source.find_files(name):
                    file = source.file(path)
                    file.mapping()
                    merged |= self._vars(file)
            return merged
        values = source.mapping(optional=True)
        for name, value in values.items():
            if not _is_literal(value):
                source[name].check_history()
        return {to_text(name): self._value(source[name]) for name in values}

    def _value(self, source: Source) -> Any:
        """A value, read from a file if it names one, or a list if it names several."""
        value = source.value
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            values = map(self._value, source.items())
            return [text for each in values for text in (each if isinstance(each, list) else [each])]
        if not isinstance(value, str):
            if not _is_literal(value):
                source.refuse_references()
            return value
        if not value.startswith("file://"):
            source.check_template()
            return value
        if source.is_data and not source.allowed.paths:
            raise source.error(
                f"{quoted(value)} is not read: in a data file, a value may be what anybody wrote. Write it into the "
                "evaluation file, or allow the folder: --allow-path DIR, in Python allow_paths=[DIR].",
            )
        source.refuse_code(value, "a value is")
        texts = []
        folders = source.allowed.paths if source.is_data else source.folders
        for path in source.find_files(value, folders=folders):
            if path.suffix == ".pdf":
                raise source.unsupported(f"a value is not read from {path.name}; write it into a text file.")
            texts.append(
                to_json(source.file(path).value) if path.suffix in (".yaml", ".yml") else read_text(path).strip()
            )
            source.of(texts[-1]).check_history()
        return texts[0] if len(texts) == 1 else texts


def _labels(source: Source) -> tuple[str, ...] | None:
    labels = source.value
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise source.error(f"a list of labels of prompts is needed here, not {quoted(labels)}.")
    return tuple(labels)


def _check_value(source: Source, check: Check) -> None:
    value = check.value
    if check.base.startswith(PREFIX) and (not isinstance(value, str) or check.base == TURN):
        try:
            require_valid(check)
        except ValueError as error:
            raise source.error(f"`{check.type}`: {error}") from None
        return
    if isinstance(value, str) and (value.startswith("file://") or code_file(check) is not None):
        _check_file(source, check, value)
    else:
        source.refuse_references()
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                source.of(text).check_template()
    if check.base == "word-count" and isinstance(value, Mapping):
        for name in ("min", "max"):
            source[name].number()


def _check_file(source: Source, check: Check, value: str) -> None:
    code = code_file(check)
    name = value.removeprefix("file://") if code is None else code[0]
    is_program = Path(name).suffix in (".py", ".js", ".ts", ".cjs", ".mjs", ".rb")
    if code is None and is_program:
        raise source.unsupported(f"`{check.type}` cannot take its value from {name}.")
    if code is None and check.base in ("python", "javascript"):
        raise source.error(f"`{check.type}` cannot take its code from {name}.")
    source.find_files(name, "")


def _is_literal(value: Any) -> bool:
    """Whether it is a text in a list in a list, which is how to write any text."""
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and len(value[0]) == 1


def _json_line(source: Source, path: Path, number: int, line: str) -> Source:
    try:
        return source.file(path, parse_json(line), f"line {number}")
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: not JSON: {error}.") from error


# Prompts


def read_prompts(source: Source) -> list[Prompt]:
    """The prompts of a file.

    Parameters
    ----------
    source : Source
        A string, a reference to a file, a mapping with ``raw`` or ``id``, ``label`` and
        ``config``, or a list of these.

    Raises
    ------
    ConfigError
    """
    prompts: list[Prompt] = []
    for item in source.items() if isinstance(source.value, list) else [source]:
        with source.collecting():
            prompts += _read_prompt(item)
    if not prompts and not source.problems:
        raise source.error("there is no prompt.")
    return _with_unique_labels(prompts)


def _read_prompt(source: Source) -> Iterator[Prompt]:
    item = source.value
    if isinstance(item, str):
        yield from _read_text(source)
        return
    if not isinstance(item, Mapping):
        raise source.error(f"a prompt is a text or has `raw`, not {item!r}.")
    if "function" in item:
        raise source["function"].unsupported("a prompt is not computed by code.")
    raw = item.get("raw", item.get("id"))
    if isinstance(raw, list | Mapping):
        raw = to_json(raw)
    if not isinstance(raw, str):
        raise source.error("a prompt needs its text as `raw`, or its file as `id`.")
    settings = item.get("config") or {}
    if not isinstance(settings, Mapping):
        raise source["config"].error("names with values are needed here.")
    identifier = str(item["id"]) if "raw" in item and item.get("id") is not None else None
    yield from _read_text(source.of(raw), item.get("label"), identifier, settings)


def _read_text(
    source: Source, label: Any = None, identifier: str | None = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Prompt]:
    paths = _files(source)
    if paths is None:
        source.check_template(has_history=True)
        yield Prompt(str(label or source.value), source.value, identifier, settings)
        return
    for path in paths:
        texts = list(_texts_of(source, path))
        for text in texts:
            source.of(text).check_template(has_history=True)
            is_only = label and len(texts) == len(paths) == 1
            name = str(label) if is_only else f"{label or _file_name(source, path)}: {text}"
            yield Prompt(name, text, identifier, settings)


def _files(source: Source) -> list[Path] | None:
    """The files that a text names; None if the text is itself a prompt."""
    text = source.value
    if text.startswith("file://"):
        source.refuse_code(text, "a prompt is")
        return source.find_files(text, _WILDCARDS)
    if "\n" in text or not text.strip():
        return None
    try:
        return referenced_files(source.folder, text, source.folders, _WILDCARDS) or None
    except OutsideFolder as error:
        if _looks_like_a_file(source.folder, text):
            raise source.error(str(error)) from None
        return None


def _looks_like_a_file(folder: Path, text: str) -> bool:
    try:
        return (Path(text).suffix in _SUFFIXES and len(text.split()) == 1) or (folder / text).is_file()
    except (OSError, ValueError):
        return False


def _texts_of(source: Source, path: Path) -> Iterator[str]:
    source.refuse_code(path.name, "a prompt is")
    if path.suffix not in (*_SUFFIXES, ""):
        raise source.error(f"prompts are read from .txt, .md, .json, .jsonl and .yaml files, not from {path.name}.")
    text = read_text(path)
    if path.suffix == ".json":
        try:
            yield to_json(parse_json(text))
        except ValueError:  # a template that makes JSON
            yield text
        return
    if path.suffix in _DATA:
        yield to_json(source.file(path).value)
        return
    if path.suffix == ".jsonl":
        yield from filter(None, text.splitlines())
    elif path.suffix == ".txt":
        yield from filter(None, map(str.strip, _SEPARATOR.split(text)))
    else:
        yield text


def _file_name(source: Source, path: Path) -> str:
    return path.relative_to(source.folder).as_posix() if path.is_relative_to(source.folder) else path.name


def _with_unique_labels(prompts: list[Prompt]) -> list[Prompt]:
    """Prompts with unique labels: a repeated label is numbered."""
    counts: dict[str, int] = {}
    unique = []
    for prompt in prompts:
        counts[prompt.label] = count = counts.get(prompt.label, 0) + 1
        unique.append(prompt if count == 1 else dataclasses.replace(prompt, label=f"{prompt.label} ({count})"))
    return unique
