"""Reads an evaluation file. Anything that cannot run is rejected, with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import assert_types
from ..javascript import to_json, to_text
from ..model import Assertion, Case, Config, Permissions
from . import parts
from .csv_cases import case_data, read_rows
from .prompts import read_prompts
from .read_asserts import AGENT, TRANSFORMS_REFUSED, AssertReader, JudgeReader
from .source import ConfigError, Source, Steps, read_source

_USED = ("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios", "evaluateOptions")
_IGNORED = (
    *("$schema", "commandLineOptions", "env", "metadata", "outputPath", "sharing", "tags", "tracing"),
    *("writeLatestResults",),
)
_REFUSED = {
    "extensions": "hooks in JavaScript or Python are not run",
    "nunjucksFilters": "its filters are JavaScript",
    "derivedMetrics": "derived metrics are not computed",
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


def read_config(path: str | Path, allowed: Permissions | None = None) -> Config:
    """Read an evaluation file: the part of promptfoo's format that runs here.

    Parameters
    ----------
    path : str or Path
        YAML or JSON. Files that it names are relative to its folder, and within it.
    allowed : Permissions, optional
        What it may use besides.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If the file cannot be read, or something in it cannot run. The message names the
        file, the line and the path in it, and gives the reason.

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
    return _Reader(source if allowed is None else dataclasses.replace(source, allowed=allowed)).read()


def read_case(data: Mapping[str, Any], folder: Path | None = None) -> Case:
    """A case from its data in a file.

    Raises
    ------
    ConfigError
    """
    source = Source((folder or Path()) / "case", data)
    return _Reader(source).read_case(data)


def read_assertion(data: Mapping[str, Any], folder: Path | None = None) -> Assertion:
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
        self._judges = JudgeReader(self.notes)
        self._asserts = AssertReader(self._judges, self.notes)

    def read(self) -> Config:
        data = parts.mapping(self.source, (), self.source.value)
        self.notes += parts.check_keys(self.source, (), data, _USED, _REFUSED, _IGNORED)
        if "prompts" not in data:
            raise self.source.error((), "there are no `prompts`; an evaluation file begins with them.")
        prompts = read_prompts(self.source, data["prompts"])
        default = self._default(data.get("defaultTest"))
        cases = [*self._cases(self.source, ("tests",), data.get("tests")), *self._scenarios(data.get("scenarios"))]
        agent, workspace = self._providers(data)
        return Config(
            prompts=tuple(prompts),
            cases=tuple(cases),
            default=default,
            repeat=self._repeat(data.get("evaluateOptions")),
            description=data.get("description") if isinstance(data.get("description"), str) else None,
            agent=agent,
            judge=self._judges.judge,
            workspace=workspace,
            folder=self.source.folder,
            allowed=self.source.allowed,
            notes=tuple(self.notes),
        )

    def read_case(self, data: Mapping[str, Any]) -> Case:
        return self._case(self.source, (), data)

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

    def _default(self, data: Any) -> Case:
        if isinstance(data, str):
            source = self.source.part(parts.find_files(self.source, ("defaultTest",), data, "")[0])
            return self._case(source, (), source.value, is_default=True)
        return Case() if data is None else self._case(self.source, ("defaultTest",), data, is_default=True)

    def _scenarios(self, scenarios: Any) -> Iterator[Case]:
        for number, scenario in enumerate(parts.items(self.source, ("scenarios",), scenarios)):
            steps: Steps = ("scenarios", number)
            data = parts.mapping(self.source, steps, scenario)
            configs = list(self._cases(self.source, (*steps, "config"), data.get("config")))
            tests = list(self._cases(self.source, (*steps, "tests"), data.get("tests"))) or [Case()]
            for config in configs:
                yield from (_cross(config, test) for test in tests)

    def _cases(self, source: Source, steps: Steps, data: Any) -> Iterator[Case]:
        if isinstance(data, str):
            yield from self._file_of_cases(source, steps, data)
            return
        for number, item in enumerate(parts.items(source, steps, data)):
            here = (*steps, number)
            if isinstance(item, str):
                yield from self._file_of_cases(source, here, item)
            else:
                yield self._case(source, here, item)

    def _file_of_cases(self, source: Source, steps: Steps, name: str) -> Iterator[Case]:
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
            for number, line in enumerate(filter(str.strip, parts.read_text(path).splitlines())):
                yield self._case(_json_line(source, path, number, line), (), None)
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
        for number, row in enumerate(rows, 1):
            try:
                data = case_data(row, number, CSV_TYPES)
            except ValueError as error:
                raise ConfigError(f"{path}, {error}") from error
            part = source.part(path, data, f"row {number}", is_data=True)
            yield self._case(part, (), data, f"{path.name} row {number}")

    def _case(
        self, source: Source, steps: Steps, data: Any, location: str | None = None, *, is_default: bool = False
    ) -> Case:
        data = parts.mapping(source, steps, source.value if data is None and not steps else data)
        self.notes += parts.check_keys(source, steps, data, _CASE_USED, _CASE_REFUSED)
        for name in ("assert", "options"):
            parts.check_history(source, (*steps, name), data.get(name))
        options = parts.mapping(source, (*steps, "options"), data.get("options") or {})
        for name in options.keys() & _OPTION_REFUSED.keys():
            raise source.error((*steps, "options", name), f"`{name}` cannot be used: {_OPTION_REFUSED[name]}.")
        self._judges.read(options.get("provider"))
        return Case(
            vars=self._vars(source, (*steps, "vars"), data.get("vars")),
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
        texts = []
        folders = source.allowed.paths if source.is_data else source.folders
        for path in parts.find_files(source, steps, value, folders=folders):
            if path.suffix in (".py", ".js", ".ts", ".cjs", ".mjs", ".pdf"):
                raise source.error(steps, f"a value is not computed by {path.name}; write it into a text file.")
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
        return source.part(path, parse_json(line), f"line {number + 1}", is_data=True)
    except ValueError as error:
        raise ConfigError(f"{path}, line {number + 1}: not JSON: {error}.") from error
