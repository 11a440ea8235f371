"""Reads an evaluation file. Anything that cannot run is rejected, with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import assert_types
from ..check import Check
from ..javascript import to_json, to_text
from ..model import Case, Config, Permissions
from . import parts
from .csv_cases import case_data, read_rows
from .prompts import read_prompts
from .read_asserts import AGENT, TRANSFORMS_REFUSED, AssertReader, JudgeReader
from .source import ConfigError, Source, Steps, Unsupported, read_source

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
_OPTION_REFUSED = dict.fromkeys(
    ("transform", "postprocess", "transformVars", "responseFormat", "storeOutputAs", "runSerially"),
    TRANSFORMS_REFUSED,
)
_CASE_USED = ("description", "vars", "assert", "threshold", "options", "metadata", "prompts", "providerOutput")
# Includes unsupported types: a cell that begins with one is not a text to compare with.
CSV_TYPES = tuple(sorted((*assert_types.SUPPORTED, *assert_types.REFUSED), key=len, reverse=True))
MAX_REPEAT = 1000


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


def read_case(data: Mapping[str, Any], folder: Path | None = None) -> Case:
    """A case from its data in a file.

    Raises
    ------
    ConfigError
    """
    source = Source((folder or Path()) / "case", data)
    return _Reader(source).read_case(data)


def read_assertion(data: Mapping[str, Any], folder: Path | None = None) -> Check:
    """An assert from its data in a file.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> read_assertion({"type": "contains", "value": "refund"}).value
    'refund'
    """
    return read_case({"assert": [data]}, folder).asserts[0]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes: list[str] = []
        self._reading: list[Path] = []
        self._shared: tuple[Check, ...] = ()  # the asserts of all cases
        self._judges = JudgeReader(self.notes)
        self._asserts = AssertReader(self._judges, self.notes)

    def read(self, skip_unsupported: bool) -> Config:
        data = parts.mapping(self.source, (), self.source.value)
        self.notes += parts.check_keys(self.source, (), data, _USED, _REFUSED, _IGNORED)
        if "prompts" not in data:
            raise self.source.error((), "there are no `prompts`; an evaluation file begins with them.")
        prompts = read_prompts(self.source, data["prompts"])
        default = Case()
        with self.source.collecting():
            default = self._default(data.get("defaultTest")) or default
        cases: list[Case] = []
        for read in (self._cases(self.source, ("tests",), data.get("tests")), self._scenarios(data.get("scenarios"))):
            with self.source.collecting():
                cases += read
        repeat, providers = 1, (None, None)
        with self.source.collecting():
            repeat = self._repeat(data.get("evaluateOptions"))
        with self.source.collecting():
            providers = self._providers(data)
        is_all_left_out = not prompts or (not cases and bool(data.get("tests") or data.get("scenarios")))
        self._require_no_problems(skip_unsupported and not is_all_left_out)
        return Config(
            prompts=tuple(prompts),
            cases=tuple(cases),
            default=default,
            repeat=repeat,
            description=data.get("description") if isinstance(data.get("description"), str) else None,
            agent=providers[0],
            judge=self._judges.judge,
            workspace=providers[1],
            folder=self.source.folder,
            allowed=self.source.allowed,
            notes=tuple(self.notes),
            skipped=tuple(text for error in self.source.problems for text in error.problems),
        )

    def _require_no_problems(self, skip_unsupported: bool) -> None:
        problems = [each for each in self.source.problems if not (skip_unsupported and isinstance(each, Unsupported))]
        if problems:
            raise ConfigError(*dict.fromkeys(text for each in problems for text in each.problems))

    def read_case(self, data: Mapping[str, Any]) -> Case:
        case = self._case(self.source, (), data)
        self._require_no_problems(skip_unsupported=False)
        return case or Case()

    # Providers and options

    def _providers(self, data: Mapping[str, Any]) -> tuple[str | None, str | None]:
        name = "targets" if "targets" in data else "providers"
        providers = data.get(name)
        agents: list[tuple[str, str | None]] = []
        for provider in providers if isinstance(providers, list) else [providers]:
            identifier = provider.get("id") if isinstance(provider, Mapping) else provider
            if isinstance(identifier, str) and identifier.startswith(AGENT):
                settings = provider.get("config") if isinstance(provider, Mapping) else None
                workspace = settings.get("workspace") if isinstance(settings, Mapping) else None
                agents.append((identifier.removeprefix(AGENT), workspace))
            elif provider not in (None, "echo"):
                self.notes.append(f"{name}: {parts.shown(identifier)} is not asked; an agent of the platform is.")
        if len(agents) > 1:
            raise self.source.error((name, 1), "one file asks one agent; use --agent for another one.")
        return agents[0] if agents else (None, None)

    def _repeat(self, options: Any) -> int:
        if options is None:
            return 1
        repeat = parts.mapping(self.source, ("evaluateOptions",), options).get("repeat", 1)
        if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= MAX_REPEAT:
            raise self.source.error(
                ("evaluateOptions", "repeat"),
                f"repeat must be a number from 1 to {MAX_REPEAT}, not {parts.shown(repeat)}.",
            )
        return repeat

    # Cases

    def _default(self, data: Any) -> Case | None:
        if isinstance(data, str):
            source = self.source.part(parts.find_files(self.source, ("defaultTest",), data, "")[0])
            return self._case(source, (), source.value, is_default=True)
        return Case() if data is None else self._case(self.source, ("defaultTest",), data, is_default=True)

    def _scenarios(self, scenarios: Any) -> Iterator[Case]:
        for number, scenario in enumerate(parts.items(self.source, ("scenarios",), scenarios)):
            steps: Steps = ("scenarios", number)
            data = parts.mapping(self.source, steps, scenario)
            configs = list(self._cases(self.source, (*steps, "config"), data.get("config")))
            tests = list(self._cases(self.source, (*steps, "tests"), data.get("tests")))
            for config in configs:
                yield from (_cross(config, test) for test in (tests if data.get("tests") else [Case()]))

    def _cases(self, source: Source, steps: Steps, data: Any) -> Iterator[Case]:
        if isinstance(data, str):
            yield from self._file_of_cases(source, steps, data)
            return
        for number, item in enumerate(parts.items(source, steps, data)):
            here = (*steps, number)
            with source.collecting():
                cases = (
                    self._file_of_cases(source, here, item)
                    if isinstance(item, str)
                    else [self._case(source, here, item)]
                )
                yield from filter(None, cases)

    def _file_of_cases(self, source: Source, steps: Steps, name: str) -> Iterator[Case]:
        parts.refuse_code(source, steps, name, "cases are")
        for path in parts.find_files(source, steps, name):
            if path in self._reading:
                raise source.error(steps, f"{path.name} names itself as a file of cases.")
            self._reading.append(path)
            yield from self._cases_in(source, steps, path)
            self._reading.remove(path)

    def _cases_in(self, source: Source, steps: Steps, path: Path) -> Iterator[Case]:
        if path.suffix == ".csv":
            yield from self._csv(source, path)
        elif path.suffix == ".jsonl":
            for number, line in enumerate(parts.read_text(path).splitlines(), 1):
                if line.strip():
                    with source.collecting():
                        yield from filter(None, [self._case(_json_line(source, path, number, line), (), None)])
        elif path.suffix in (".yaml", ".yml", ".json"):
            part = source.part(path, is_data=path.suffix == ".json")
            value = part.value if isinstance(part.value, list) else [part.value]
            yield from self._cases(part, (), value)
        else:
            raise source.error(steps, f"cases are read from .csv, .yaml, .json and .jsonl files, not from {path.name}.")

    def _csv(self, source: Source, path: Path) -> Iterator[Case]:
        try:
            rows = read_rows(parts.read_text(path))
        except ValueError as error:
            raise ConfigError(f"{path}, {error}") from error
        for number, (line, row) in enumerate(rows.items(), 1):
            part = source.part(path, row, f"line {line} (row {number})", is_data=True)
            with source.collecting():
                try:
                    data = case_data(row, number, CSV_TYPES)
                except ValueError as error:
                    raise part.error((), str(error)) from error
                yield from filter(None, [self._case(part, (), data, f"{path.name} row {number}")])

    def _case(
        self, source: Source, steps: Steps, data: Any, location: str | None = None, *, is_default: bool = False
    ) -> Case | None:
        """The case, or None if more than some of its asserts cannot run."""
        known = len(source.problems)
        data = parts.mapping(source, steps, source.value if data is None and not steps else data)
        self.notes += parts.check_keys(source, steps, data, _CASE_USED, _CASE_REFUSED)
        parts.check_history(source, (*steps, "options"), data.get("options"))
        options = parts.mapping(source, (*steps, "options"), data.get("options") or {})
        for name in _OPTION_REFUSED:
            with source.collecting():
                if name in options:
                    where = (*steps, "options", name)
                    raise source.unsupported(where, f"`{name}` cannot be used: {_OPTION_REFUSED[name]}.")
        self._judges.read(options.get("provider"))
        values: dict[str, Any] = {}
        with source.collecting():
            values = self._vars(source, (*steps, "vars"), data.get("vars"))
        is_whole = len(source.problems) == known
        if is_default and not is_whole:  # no case would be what it is
            source.problems[known:] = [ConfigError(*each.problems) for each in source.problems[known:]]
        case = Case(
            vars=values,
            asserts=tuple(self._asserts.read(source, (*steps, "assert"), data.get("assert"))),
            threshold=parts.number(source, (*steps, "threshold"), data.get("threshold")),
            description=data.get("description"),
            prompts=parts.labels(source, (*steps, "prompts"), data.get("prompts")),
            reply=data.get("providerOutput"),
            options={
                name: parts.text_of(source, (*steps, "options", name), value) if name == "rubricPrompt" else value
                for name, value in options.items()
                if name != "provider"
            },
            metadata=parts.mapping(source, (*steps, "metadata"), data.get("metadata") or {}),
            location=location or f"line {source.line(steps)}",
        )
        # A case of which no assert is left would pass, whatever the reply.
        is_checked = bool(case.asserts or self._shared) or not data.get("assert") or is_default
        if is_default:
            self._shared = case.asserts
        return case if is_whole and is_checked else None

    def _vars(self, source: Source, steps: Steps, data: Any) -> dict[str, Any]:
        if isinstance(data, str) or (isinstance(data, list) and all(isinstance(name, str) for name in data)):
            merged: dict[str, Any] = {}
            for name in [data] if isinstance(data, str) else data:
                for path in parts.find_files(source, steps, name):
                    part = source.part(path, is_data=path.suffix == ".json")
                    merged |= self._vars(part, (), parts.mapping(part, (), part.value))
            return merged
        values = parts.mapping(source, steps, data or {})
        parts.check_history(source, steps, {name: item for name, item in values.items() if not _is_literal(item)})
        return {to_text(name): self._value(source, (*steps, name), value) for name, value in values.items()}

    def _value(self, source: Source, steps: Steps, value: Any) -> Any:
        """A value, read from a file if it names one, or a list if it names several."""
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            values = [self._value(source, (*steps, number), item) for number, item in enumerate(value)]
            return [text for each in values for text in (each if isinstance(each, list) else [each])]
        if not isinstance(value, str):
            if not _is_literal(value):
                parts.refuse_references(source, steps, value)
            return value
        if not value.startswith("file://"):
            parts.check_template(source, steps, value)
            return value
        if source.is_data and not source.allowed.paths:
            raise source.error(
                steps,
                f"{parts.shown(value)} is not read: in a data file, a value may be what anybody wrote. Write it into the "
                "evaluation file, or allow the folder: --allow-path DIR, in Python allow_paths=[DIR].",
            )
        parts.refuse_code(source, steps, value, "a value is")
        texts = []
        folders = source.allowed.paths if source.is_data else source.folders
        for path in parts.find_files(source, steps, value, folders=folders):
            if path.suffix == ".pdf":
                raise source.unsupported(steps, f"a value is not read from {path.name}; write it into a text file.")
            texts.append(
                to_json(source.part(path).value) if path.suffix in (".yaml", ".yml") else parts.read_text(path).strip()
            )
            parts.check_history(source, steps, texts[-1])
        return texts[0] if len(texts) == 1 else texts


def _cross(config: Case, test: Case) -> Case:
    return dataclasses.replace(
        test,
        vars={**config.vars, **test.vars},
        asserts=(*config.asserts, *test.asserts),
        options={**config.options, **test.options},
        metadata={**config.metadata, **test.metadata},
        threshold=config.threshold if test.threshold is None else test.threshold,
        description=test.description or config.description,
        reply=config.reply if test.reply is None else test.reply,
        prompts=config.prompts if test.prompts is None else test.prompts,
    )


def _is_literal(value: Any) -> bool:
    """Whether it is a text in a list in a list, which is how to write any text."""
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and len(value[0]) == 1


def _json_line(source: Source, path: Path, number: int, line: str) -> Source:
    from ..javascript import parse_json

    try:
        return source.part(path, parse_json(line), f"line {number}", is_data=True)
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: not JSON: {error}.") from error
