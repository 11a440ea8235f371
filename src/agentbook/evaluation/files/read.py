"""Reads an evaluation file. Anything that cannot run is rejected, with its line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import template
from ..asserts import require_valid
from ..check import PREFIX, REFUSED, SET, SUPPORTED, TURN, Check, is_promptfoos
from ..check import refusal as refusal_of_kind
from ..code_assert import code_file, refusal
from ..javascript import parse_json, to_json, to_text
from ..model import Case, Config, Permissions, Prompt
from .csv import case_data, read_rows
from .source import (
    HISTORY,
    ConfigError,
    KeyPath,
    OutsideFolder,
    Source,
    Unsupported,
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
        data = self.source.mapping((), self.source.value)
        self.notes += self.source.check_keys((), data, _USED, _REFUSED, _IGNORED)
        if "prompts" not in data:
            raise self.source.error((), "there are no `prompts`; an evaluation file begins with them.")
        prompts = read_prompts(self.source, data["prompts"])
        self._has_history = any(template.uses(prompt.text, HISTORY) for prompt in prompts)
        default = Case()
        with self.source.collecting():
            default = self._default(data.get("defaultTest")) or default
        cases: list[Case] = []
        for read in (self._cases(self.source, ("tests",), data.get("tests")), self._scenarios(data.get("scenarios"))):
            with self.source.collecting():
                cases += read
        repeat = 1
        providers: tuple[str | None, str | None] = None, None
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
            judge=self._judge,
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

    # Providers and options

    def _providers(self, data: Mapping[str, Any]) -> tuple[str | None, str | None]:
        name = "targets" if "targets" in data else "providers"
        providers = data.get(name)
        agents: list[tuple[str, str | None]] = []
        for provider in providers if isinstance(providers, list) else [providers]:
            identifier = provider.get("id") if isinstance(provider, Mapping) else provider
            if isinstance(identifier, str) and identifier.startswith(PREFIX):
                settings = provider.get("config") if isinstance(provider, Mapping) else None
                workspace = settings.get("workspace") if isinstance(settings, Mapping) else None
                agents.append((identifier.removeprefix(PREFIX), workspace))
            elif provider not in (None, "echo"):
                self.notes.append(f"{name}: {quoted(identifier)} is not asked; an agent of the platform is.")
        if len(agents) > 1:
            raise self.source.error((name, 1), "one file asks one agent; use --agent for another one.")
        return agents[0] if agents else (None, None)

    def _repeat(self, options: Any) -> int:
        if options is None:
            return 1
        repeat = self.source.mapping(("evaluateOptions",), options).get("repeat", 1)
        if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= MAX_REPEAT:
            raise self.source.error(
                ("evaluateOptions", "repeat"),
                f"repeat must be a number from 1 to {MAX_REPEAT}, not {quoted(repeat)}.",
            )
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

    def _default(self, data: Any) -> Case | None:
        if isinstance(data, str):
            source = self.source.part(self.source.find_files(("defaultTest",), data, "")[0])
            return self._case(source, (), source.value, is_default=True)
        return Case() if data is None else self._case(self.source, ("defaultTest",), data, is_default=True)

    def _scenarios(self, scenarios: Any) -> Iterator[Case]:
        for number, scenario in enumerate(self.source.items(("scenarios",), scenarios)):
            keys: KeyPath = ("scenarios", number)
            data = self.source.mapping(keys, scenario)
            configs = list(self._cases(self.source, (*keys, "config"), data.get("config")))
            tests = list(self._cases(self.source, (*keys, "tests"), data.get("tests")))
            # As in promptfoo, a scenario is a conversation.
            shared = {"conversationId": f"__scenario_{number}__"} if self._has_history else {}
            for config in configs:
                made = [_cross(config, test) for test in (tests if data.get("tests") else [Case()])]
                yield from (dataclasses.replace(each, metadata={**shared, **each.metadata}) for each in made)

    def _cases(self, source: Source, keys: KeyPath, data: Any) -> Iterator[Case]:
        if isinstance(data, str):
            yield from self._file_of_cases(source, keys, data)
            return
        for number, item in enumerate(source.items(keys, data)):
            here = (*keys, number)
            with source.collecting():
                cases = (
                    self._file_of_cases(source, here, item)
                    if isinstance(item, str)
                    else [self._case(source, here, item)]
                )
                yield from filter(None, cases)

    def _file_of_cases(self, source: Source, keys: KeyPath, name: str) -> Iterator[Case]:
        source.refuse_code(keys, name, "cases are")
        for path in source.find_files(keys, name):
            if path in self._reading:
                raise source.error(keys, f"{path.name} names itself as a file of cases.")
            self._reading.append(path)
            yield from self._cases_in(source, keys, path)
            self._reading.remove(path)

    def _cases_in(self, source: Source, keys: KeyPath, path: Path) -> Iterator[Case]:
        if path.suffix == ".csv":
            yield from self._csv(source, path)
        elif path.suffix == ".jsonl":
            for number, line in enumerate(read_text(path).splitlines(), 1):
                if line.strip():
                    with source.collecting():
                        yield from filter(None, [self._case(_json_line(source, path, number, line), (), None)])
        elif path.suffix in (".yaml", ".yml", ".json"):
            part = source.part(path, is_data=path.suffix == ".json")
            value = part.value if isinstance(part.value, list) else [part.value]
            yield from self._cases(part, (), value)
        else:
            raise source.error(keys, f"cases are read from .csv, .yaml, .json and .jsonl files, not from {path.name}.")

    def _csv(self, source: Source, path: Path) -> Iterator[Case]:
        try:
            rows = read_rows(read_text(path))
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
        self, source: Source, keys: KeyPath, data: Any, location: str | None = None, *, is_default: bool = False
    ) -> Case | None:
        """The case, or None if more than some of its asserts cannot run."""
        known = len(source.problems)
        data = source.mapping(keys, source.value if data is None and not keys else data)
        self.notes += source.check_keys(keys, data, _CASE_USED, _CASE_REFUSED)
        source.check_history((*keys, "options"), data.get("options"))
        options = source.mapping((*keys, "options"), data.get("options") or {})
        for name in _OPTION_REFUSED:
            with source.collecting():
                if name in options:
                    where = (*keys, "options", name)
                    raise source.unsupported(where, f"`{name}` cannot be used: {_OPTION_REFUSED[name]}.")
        self._read_judge(options.get("provider"))
        values: dict[str, Any] = {}
        with source.collecting():
            values = self._vars(source, (*keys, "vars"), data.get("vars"))
        is_whole = len(source.problems) == known
        if is_default and not is_whole:  # no case would be what it is
            source.problems[known:] = [ConfigError(*each.problems) for each in source.problems[known:]]
        case = Case(
            vars=values,
            asserts=tuple(self._asserts(source, (*keys, "assert"), data.get("assert"))),
            threshold=source.number((*keys, "threshold"), data.get("threshold")),
            description=data.get("description"),
            prompts=source.labels((*keys, "prompts"), data.get("prompts")),
            reply=data.get("providerOutput"),
            options={
                name: source.text_of((*keys, "options", name), value) if name == "rubricPrompt" else value
                for name, value in options.items()
                if name != "provider"
            },
            metadata=source.mapping((*keys, "metadata"), data.get("metadata") or {}),
            location=location or f"line {source.line(keys)}",
        )
        # A case of which no assert is left would pass, whatever the reply.
        is_checked = bool(case.asserts or self._shared) or not data.get("assert") or is_default
        if is_default:
            self._shared = case.asserts
        return case if is_whole and is_checked else None

    def _asserts(self, source: Source, keys: KeyPath, data: Any) -> Iterator[Check]:
        for number, item in enumerate(source.items(keys, data)):
            with source.collecting():
                yield self._assert(source, (*keys, number), item)

    def _assert(self, source: Source, keys: KeyPath, item: Any) -> Check:
        data = source.mapping(keys, item)
        kind = data.get("type")
        if not isinstance(kind, str):
            raise source.error(keys, "an assert needs a `type`, such as `contains`.")
        base = kind.removeprefix("not-")
        reason = None if kind == SET else refusal_of_kind(base)
        if reason is not None and not is_promptfoos(base):
            raise source.error((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        if reason is not None:
            raise source.unsupported((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        for name in ("transform", "contextTransform"):
            if name in data:
                raise source.unsupported((*keys, name), f"`{name}` cannot be used: {_TRANSFORMS_REFUSED}.")
        for name in ("value", "rubricPrompt"):
            source.check_history((*keys, name), data.get(name))
        self.notes += source.check_keys(keys, data, _ASSERT_USED, {}, ("normalizeUnicode",))
        if isinstance(data.get("metric"), Mapping | list):
            raise source.error((*keys, "metric"), f"a name is needed here, not {quoted(data['metric'])}.")
        agent = self._read_judge(data.get("provider"))
        children = list(self._asserts(source, (*keys, "assert"), data.get("assert")) if kind in (SET, TURN) else ())
        if kind == SET and data.get("assert") and not children:
            raise source.unsupported(keys, "none of the asserts of the set can run.")
        weight = source.number((*keys, "weight"), data.get("weight"))
        check = Check(
            type=kind,
            value=data.get("value"),
            threshold=source.number((*keys, "threshold"), data.get("threshold")),
            weight=1.0 if weight is None else weight,
            name=data.get("metric"),
            rubric_prompt=source.text_of((*keys, "rubricPrompt"), data.get("rubricPrompt")),
            config=data.get("config"),
            agent=agent,
            children=tuple(children),
            location=f"line {source.line(keys)}",
            is_data=source.is_data,
        )
        if check.base == "javascript":
            reason = refusal(check, is_allowed=source.allowed.javascript)
            if reason is not None:
                raise source.unsupported((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        _check_value(source, (*keys, "value"), check)
        return check

    def _vars(self, source: Source, keys: KeyPath, data: Any) -> dict[str, Any]:
        if isinstance(data, str) or (isinstance(data, list) and all(isinstance(name, str) for name in data)):
            merged: dict[str, Any] = {}
            for name in [data] if isinstance(data, str) else data:
                for path in source.find_files(keys, name):
                    part = source.part(path, is_data=path.suffix == ".json")
                    merged |= self._vars(part, (), part.mapping((), part.value))
            return merged
        values = source.mapping(keys, data or {})
        source.check_history(keys, {name: item for name, item in values.items() if not _is_literal(item)})
        return {to_text(name): self._value(source, (*keys, name), value) for name, value in values.items()}

    def _value(self, source: Source, keys: KeyPath, value: Any) -> Any:
        """A value, read from a file if it names one, or a list if it names several."""
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            values = [self._value(source, (*keys, number), item) for number, item in enumerate(value)]
            return [text for each in values for text in (each if isinstance(each, list) else [each])]
        if not isinstance(value, str):
            if not _is_literal(value):
                source.refuse_references(keys, value)
            return value
        if not value.startswith("file://"):
            source.check_template(keys, value)
            return value
        if source.is_data and not source.allowed.paths:
            raise source.error(
                keys,
                f"{quoted(value)} is not read: in a data file, a value may be what anybody wrote. Write it into the "
                "evaluation file, or allow the folder: --allow-path DIR, in Python allow_paths=[DIR].",
            )
        source.refuse_code(keys, value, "a value is")
        texts = []
        folders = source.allowed.paths if source.is_data else source.folders
        for path in source.find_files(keys, value, folders=folders):
            if path.suffix == ".pdf":
                raise source.unsupported(keys, f"a value is not read from {path.name}; write it into a text file.")
            texts.append(
                to_json(source.part(path).value) if path.suffix in (".yaml", ".yml") else read_text(path).strip()
            )
            source.check_history(keys, texts[-1])
        return texts[0] if len(texts) == 1 else texts


def _check_value(source: Source, keys: KeyPath, check: Check) -> None:
    value = check.value
    if check.base.startswith(PREFIX) and (not isinstance(value, str) or check.base == TURN):
        try:
            require_valid(check)
        except ValueError as error:
            raise source.error(keys, f"`{check.type}`: {error}") from None
        return
    if isinstance(value, str) and (value.startswith("file://") or code_file(check) is not None):
        _check_file(source, keys, check, value)
    else:
        source.refuse_references(keys, value)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                source.check_template(keys, text)
    if check.base == "word-count" and isinstance(value, Mapping):
        for name in ("min", "max"):
            source.number((*keys, name), value.get(name))


def _check_file(source: Source, keys: KeyPath, check: Check, value: str) -> None:
    code = code_file(check)
    name = value.removeprefix("file://") if code is None else code[0]
    is_program = Path(name).suffix in (".py", ".js", ".ts", ".cjs", ".mjs", ".rb")
    if code is None and is_program:
        raise source.unsupported(keys, f"`{check.type}` cannot take its value from {name}.")
    if code is None and check.base in ("python", "javascript"):
        raise source.error(keys, f"`{check.type}` cannot take its code from {name}.")
    source.find_files(keys, name, "")


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
    try:
        return source.part(path, parse_json(line), f"line {number}", is_data=True)
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: not JSON: {error}.") from error


# Prompts


def read_prompts(source: Source, data: Any) -> list[Prompt]:
    """The prompts of a file.

    Parameters
    ----------
    source : Source
    data : object
        A string, a reference to a file, a mapping with ``raw`` or ``id``, ``label`` and
        ``config``, or a list of these.

    Raises
    ------
    ConfigError
    """
    items = (
        [(("prompts",), data)]
        if not isinstance(data, list)
        else [(("prompts", n), item) for n, item in enumerate(data)]
    )
    prompts: list[Prompt] = []
    for keys, item in items:
        with source.collecting():
            prompts += _read_prompt(source, keys, item)
    if not prompts and not source.problems:
        raise source.error(("prompts",), "there is no prompt.")
    return _with_unique_labels(prompts)


def _read_prompt(source: Source, keys: KeyPath, item: Any) -> Iterator[Prompt]:
    if isinstance(item, str):
        yield from _read_text(source, keys, item, None, None, {})
        return
    if not isinstance(item, Mapping):
        raise source.error(keys, f"a prompt is a text or has `raw`, not {item!r}.")
    if "function" in item:
        raise source.unsupported((*keys, "function"), "a prompt is not computed by code.")
    raw = item.get("raw", item.get("id"))
    if isinstance(raw, list | Mapping):
        raw = to_json(raw)
    if not isinstance(raw, str):
        raise source.error(keys, "a prompt needs its text as `raw`, or its file as `id`.")
    settings = item.get("config") or {}
    if not isinstance(settings, Mapping):
        raise source.error((*keys, "config"), "names with values are needed here.")
    identifier = str(item["id"]) if "raw" in item and item.get("id") is not None else None
    yield from _read_text(source, keys, raw, item.get("label"), identifier, settings)


def _read_text(
    source: Source, keys: KeyPath, text: str, label: Any, identifier: str | None, settings: Mapping[str, Any]
) -> Iterator[Prompt]:
    paths = _files(source, keys, text)
    if paths is None:
        source.check_template(keys, text, has_history=True)
        yield Prompt(str(label or text), text, identifier, settings)
        return
    for path in paths:
        texts = list(_texts_of(source, keys, path))
        for part in texts:
            source.check_template(keys, part, has_history=True)
            name = (
                str(label)
                if label and len(texts) == len(paths) == 1
                else f"{label or _file_name(source, path)}: {part}"
            )
            yield Prompt(name, part, identifier, settings)


def _files(source: Source, keys: KeyPath, text: str) -> list[Path] | None:
    """The files that a text names; None if the text is itself a prompt."""
    if text.startswith("file://"):
        source.refuse_code(keys, text, "a prompt is")
        return source.find_files(keys, text, _WILDCARDS)
    if "\n" in text or not text.strip():
        return None
    try:
        return referenced_files(source.folder, text, source.folders, _WILDCARDS) or None
    except OutsideFolder as error:
        if _looks_like_a_file(source.folder, text):
            raise source.error(keys, str(error)) from None
        return None


def _looks_like_a_file(folder: Path, text: str) -> bool:
    try:
        return (Path(text).suffix in _SUFFIXES and len(text.split()) == 1) or (folder / text).is_file()
    except (OSError, ValueError):
        return False


def _texts_of(source: Source, keys: KeyPath, path: Path) -> Iterator[str]:
    source.refuse_code(keys, path.name, "a prompt is")
    if path.suffix not in (*_SUFFIXES, ""):
        raise source.error(
            keys, f"prompts are read from .txt, .md, .json, .jsonl and .yaml files, not from {path.name}."
        )
    text = read_text(path)
    if path.suffix == ".json":
        try:
            yield to_json(parse_json(text))
        except ValueError:  # a template that makes JSON
            yield text
        return
    if path.suffix in _DATA:
        yield to_json(source.part(path).value)
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
