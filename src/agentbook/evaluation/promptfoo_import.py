"""Reads a file of promptfoo once, and makes a lab file of it.

Nothing of the file runs, and nothing is read but files in its folder: no variable of
the environment, no address. What a lab cannot say is listed, with its line and what to
do instead.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import difflib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .asserts import columns_of, require_valid
from .check import FUNCTION, KINDS, LISTS, Check, check_data, named, read_check, whole_number
from .experiment import require_names
from .inputs import read_rows
from .source import ConfigError, Source, parse_source, quoted, read_source, read_text, referenced_file
from .template import fill, names_in, protected, require
from .variant import Variant

_KINDS = (*KINDS, "python")
_ELSE = "run it in promptfoo itself, with the provider that `python -m agentbook.promptfoo` prints"
_AS_FUNCTION = "write it in Python, in a file of the folder, and name it: `function: FILE.py:NAME`"
_INSTEAD = {
    **dict.fromkeys(("javascript", "python", "ruby"), _AS_FUNCTION),
    **dict.fromkeys(("factuality", "g-eval", "answer-relevance", "model-graded-closedqa"), "write it as llm-rubric"),
    **dict.fromkeys(("select-best", "max-score"), "lab.compare_variants compares replies"),
    **dict.fromkeys(("assert-set", "threshold", "weight"), "every check has to pass; take out those that need not"),
    **dict.fromkeys(("prefix", "suffix"), "write it into the prompt"),
    **dict.fromkeys(("disableDefaultAsserts", "disableVarExpansion", "scenarios"), "write out what each test has"),
    "config": "a function gets the reply, the message and the values, and nothing else",
    "provider": "a variant may name its `agent`",
    "providerOutput": "ab.score checks replies that exist",
    "rubricPrompt": "the judge is asked in agentbook's words; `prompt` beside `judge` replaces them",
    "storeOutputAs": "write what is asked in turn as `messages` of one input",
    "transform": "a check reads the whole reply",
}
# What is read of each part, or changes neither a question nor a verdict.
_OF_FILE = (
    *("prompts", "tests", "defaultTest", "evaluateOptions", "providers", "targets"),
    *("$schema", "description", "tags", "metadata", "outputPath", "sharing", "writeLatestResults"),
)
_OF_TEST = ("vars", "assert", "options", "prompts", "description", "metadata")
_OF_CHECK = ("type", "value", "threshold", "metric", "provider", "weight", "description")
_STOPS = ("providerOutput", "transform", "transformVars", "storeOutputAs", "$values", "path")  # it is another test
_SETTINGS = ("model", "temperature", "max_tokens", "top_p")

_NAME = r"[A-Za-z_$][\w$]*(?:\.[\w$]+)*"
_TAG = re.compile(
    r"(?P<raw>\{%\s*raw\s*%\}(?:(?!\{%\s*raw)[\s\S])*?\{%\s*endraw\s*%\})|\{#(?:(?!\{#)[\s\S])*?#\}"
    rf"|\{{\{{\s*(?P<name>{_NAME})\s*\}}\}}"
)
_OTHER = re.compile(r"\{[{%][^}\n]*\}*")  # any other tag
_DUMPED = re.compile(rf"\{{\{{\s*({_NAME})\s*\|\s*dump\s*(?:\|\s*safe\s*)?\}}\}}")
_CODE = re.compile(r"(?:file://)?(\S+\.(?:py|[cm]?[jt]s|sh|rb|go))(?::(\w+))?", re.ASCII)
_CELL = re.compile(r"((?:not-)?[a-z][a-z0-9-]*(?::[a-z]+)?)(?:\((\d+(?:\.\d+)?)\))?(:[\s\S]*)?")
_ADDRESS = re.compile(r"(?:file|exec|langfuse|portkey|helicone|package):|[^\s{]+\.(?:txt|md|j2|jsonl?|ya?ml|csv)\Z")


class _Prompt(NamedTuple):
    source: Source
    label: str
    message: str
    variant: dict[str, Any]


class _Test(NamedTuple):
    source: Source
    values: dict[str, Any]
    checks: list[Check]
    prompts: Any = None  # the labels of those that are asked


def import_promptfoo(path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """The lab file that asks and checks what a file of promptfoo does.

    Parameters
    ----------
    path : str or Path
        YAML or JSON.

    Returns
    -------
    dict, list of str
        The lab file, empty if nothing is left to ask; and what is left out, each with
        its file, its line, and what to do instead.

    Raises
    ------
    ConfigError
        If it cannot be read.

    Examples
    --------
    >>> path = folder / "promptfooconfig.yaml"
    >>> _ = path.write_text('''
    ... prompts: ["Translate: {{text}}", "{{text | upper}}"]
    ... tests: [{vars: {text: Hello}, assert: [{type: contains, value: Bonjour}]}]
    ... ''')
    >>> lab, left_out = import_promptfoo(path)
    >>> lab["inputs"][0]["checks"], len(left_out)
    (['contains: Bonjour'], 1)
    """
    if _CODE.fullmatch(Path(path).name):
        raise ConfigError(f"{path} is code, which is not run: write what it makes into a YAML file.")
    root = read_source(path)
    try:
        lab = _Reader(root).lab()
    except RecursionError:
        raise root.error("its files name each other in a circle.") from None
    return lab, list(dict.fromkeys(text for each in root.problems for text in each.problems))


class _Reader:
    def __init__(self, root: Source) -> None:
        self.root = root

    def lab(self) -> dict[str, Any]:
        root, nothing = self.root, _Test(self.root, {}, [])
        given = root.mapping()
        _list_others(root, _OF_FILE)
        prompts = [each for item in _items(root["prompts"], "{{prompt}}") for each in self._prompts(item)]
        tests = list(self._tests(root["tests"])) if given.get("tests") else [] if "scenarios" in given else [nothing]
        default = next(self._tests(root["defaultTest"]), None) if given.get("defaultTest") else nothing
        if not prompts or not tests or default is None:  # without the defaults, each test is another one
            return {}
        shared = _distinct(default.checks, ())
        variants, messages = _compared(prompts)
        inputs: list[dict[str, Any]] = []
        for test in tests:
            merged = test._replace(values={**default.values, **test.values})
            for each, prompt in itertools.product(_expanded(merged), messages):
                if len(messages) == 1 or prompt.label in (test.prompts or default.prompts or [prompt.label]):
                    with root.collecting():
                        inputs.append(_input(prompt.message, variants, each, shared))
        checks, repeats = [check_data(check) for check in shared], _of(root, "evaluateOptions", "repeat") or 1
        with root.collecting(), root.locating():
            repeats = whole_number(repeats, "evaluateOptions.repeat", low=1)
        lab = {"variants": variants, "inputs": inputs, "checks": checks, "repeats": repeats}
        return {name: value for name, value in lab.items() if value not in ([], {}, 1)} if inputs else {}

    # Files

    def _files(self, source: Source, name: str) -> list[Path]:
        """The files that a name such as ``file://tests/*.yaml`` stands for."""
        name, folder, names = name.removeprefix("file://"), self.root.folder, list[str]()
        if _CODE.fullmatch(name) or re.match(r"[a-z]+:", name):
            raise source.error(f"{quoted(name)} is not run or fetched: write what it gives into a file.")
        with source.locating():
            if not Path(name).is_absolute() and ".." not in Path(name).parts:
                name = f"{name}/*" if (folder / name).is_dir() else name
                found = [path for path in folder.glob(name) if path.resolve().is_relative_to(folder.resolve())]
                names = sorted(str(path.relative_to(folder)) for path in found if not path.is_dir())
            return [referenced_file(folder, each) for each in names or [name]]

    def _read(self, source: Source, *, as_text: bool = False) -> Iterator[Source]:
        """What stands in the files a part names: data, rows of a table, or texts."""
        for path in self._files(source, str(source.value)):
            place = Source(path, None, problems=self.root.problems)
            if path.suffix in (".csv", ".jsonl"):
                with source.locating():
                    for line, row in read_rows(path):
                        yield dataclasses.replace(place, value=row, keys=(f"line {line}",))
            elif path.suffix in (".yaml", ".yml") or (path.suffix == ".json" and not as_text):
                yield dataclasses.replace(read_source(path), problems=self.root.problems)
            else:
                yield dataclasses.replace(place, value=read_text(path).strip())

    def _opened(self, source: Source) -> Iterator[Source]:
        """The items of a part, also of the files that it names."""
        for item in _items(source):
            with source.collecting():
                if isinstance(item.value, str):
                    yield from (each for part in self._read(item) for each in self._opened(part))
                else:
                    yield item

    # Prompts

    def _prompts(self, source: Source) -> Iterator[_Prompt]:
        with source.collecting():
            label, config = _of(source, "label"), _part(source, "config")
            if isinstance(source.value, Mapping):
                _list_others(source, ("id", "raw", "label", "config"))
                source = source["raw" if "raw" in source.value else "id"]
            if not isinstance(source.value, str) or not (_ADDRESS.match(source.value) or _CODE.fullmatch(source.value)):
                yield self._prompt(source, source.value, str(label or ""), config)
                return
            parts = [(part, text) for part in self._read(source, as_text=True) for text in _texts(part)]
            for part, text in parts:
                title = _of(part, "label") or (label if label and len(parts) == 1 else part.path.stem)
                with source.collecting():
                    if isinstance(text, str) or read_chat(text):
                        yield self._prompt(source, text, str(title), config)
                    else:
                        yield from (prompt for item in part.items() for prompt in self._prompts(item))

    def _prompt(self, source: Source, text: Any, label: str, config: Source) -> _Prompt:
        chat = read_chat(text) or [{"role": "user", "content": text}]
        if not all(isinstance(each.get("content"), str) for each in chat):
            raise source.error("the prompt is left out: an agent gets texts, no pictures or other parts.")
        said = [{"role": each["role"], "content": _template(source, each["content"])} for each in chat]
        system = [each["content"] for each in said if each["role"] in ("system", "developer")]
        said = [each for each in said if each["role"] not in ("system", "developer")]
        if [each["role"] for each in said] != ["user", *["assistant", "user"] * (len(said) // 2)]:
            raise source.error("the prompt is left out: user and assistant take turns, and the user is the last.")
        _list_others(config, _SETTINGS)
        variant: dict[str, Any] = {"system_prompt": "\n\n".join(system), "messages": said[:-1]}
        variant |= {name: _of(config, name) for name in _SETTINGS}
        variant = {name: value for name, value in variant.items() if value not in (None, "", [])}
        with config.locating():
            Variant("prompt", **variant)
        return _Prompt(source, label, said[-1]["content"], variant)

    # Tests

    def _tests(self, source: Source) -> Iterator[_Test]:
        for item in self._opened(source):
            with source.collecting(), item.locating():
                value = _row(item.value) if item.path.suffix == ".csv" else item.value
                yield self._test(dataclasses.replace(item, value=value))

    def _test(self, source: Source) -> _Test:
        source.mapping()
        options = _part(source, "options")
        for part, name in itertools.product((source, options), _STOPS):
            if _of(part, name):
                raise part.error(f"the test is left out with its `{name}`: {_instead(name)}.", name)
        _list_others(source, _OF_TEST)
        _list_others(options, ("provider",))
        parts = list(self._opened(_part(source, "vars")))
        values = {str(name): self._var(part[name]) for part in parts for name in part.mapping()}
        return _Test(source, values, list(self._checks(_part(source, "assert"))), _of(source, "prompts"))

    def _var(self, source: Source) -> Any:
        value = source.value
        if _is_list(value):
            parts = [self._var(each) for each in source.items()]
            return [text for part in parts for text in (part if isinstance(part, list) else [part])]
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        if source.path != self.root.path and source.path.suffix not in (".yaml", ".yml"):
            raise source.error(f"the test is left out: a table names no files, as {quoted(value)}; write the text.")
        parts = [part.value for part in self._read(source, as_text=True)]
        texts = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts]
        return texts[0] if len(texts) == 1 else texts

    # Checks

    def _checks(self, source: Source) -> Iterator[Check]:
        for item in self._opened(source):
            with source.collecting():
                yield self._check(item)

    def _check(self, source: Source) -> Check:
        data = source.mapping()
        kind = str(data.get("type")).removesuffix(":cosine")
        base = kind.removeprefix("not-")
        stops = [name for name in data if name not in _OF_CHECK or (name == "weight" and data[name] == 0)]
        if stops or base not in _KINDS:
            similar = [] if base in _KINDS else difflib.get_close_matches(base, _KINDS, 1, 0.85)
            reason = f"did you mean `{similar[0]}`?" if similar else f"{_instead(*stops, base)}."
            raise source.error(f"`{kind}` is left out{f' with its `{stops[0]}`' if stops else ''}: {reason}", "type")
        with source.locating():
            check = self._made(kind, base, _part(source, "value"), data.get("threshold"))
            require_valid(check)
            metric = data.get("metric")
            if isinstance(metric, str) and "{" not in metric:
                with contextlib.suppress(ValueError):  # the results have another column of that name
                    require_names([metric])
                    check = dataclasses.replace(check, name=metric)
            return read_check(check_data(named(check)))

    def _made(self, kind: str, base: str, value: Source, threshold: Any) -> Check:
        if not isinstance(threshold, int | float) and (threshold is not None or base in ("latency", "cost")):
            raise value.error(f"`{base}` is left out: its `threshold` is no number.")
        data, takes_data = value.value, base in (*LISTS, "is-json", "contains-json")
        if isinstance(data, str) and data.startswith("file://") and (takes_data or base == "equals"):
            data = next(self._read(value)).value
        elif isinstance(data, str) and takes_data and data[:1] in ("{", "["):
            data = json.loads(data)
        match base:
            case "python":
                name, code = self._function(value)
                return Check(kind.replace(base, FUNCTION), None, threshold, name=name, code=code)
            case "equals" if isinstance(data, list | Mapping):
                return Check(kind.replace(base, "agentbook:json"), {"const": data})
            case "is-json" | "contains-json":
                return Check(kind, data)
            case "latency" | "cost":
                return Check(kind, None, threshold)
            case "word-count":
                return Check(kind, data if isinstance(data, Mapping) else json.loads(_shown(float(str(data)))))
        if base in LISTS or (base == "similar" and isinstance(data, list)):
            data = next(csv.reader([data], skipinitialspace=True), []) if isinstance(data, str) else data
            data = data if isinstance(data, list) else []
            return Check(kind, [_template(value, str(each).strip()) for each in data], threshold)
        return Check(kind, self._text(value), threshold if base in ("similar", "llm-rubric") else None)

    def _text(self, source: Source) -> str:
        """A text with names, or what a file holds, which is no template."""
        value = source.value
        if isinstance(value, str) and value.startswith("file://"):
            return protected(str(next(self._read(source, as_text=True)).value))
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise source.error(f"the check is left out: it needs a text, not {quoted(value)}.")
        return _template(source, _shown(value))

    def _function(self, source: Source) -> tuple[str, str]:
        code = _CODE.fullmatch(source.value) if isinstance(source.value, str) else None
        if code is None or not code[1].endswith(".py"):
            raise source.error(f"`python` is left out: {_AS_FUNCTION}.")
        path, name = referenced_file(self.root.folder, code[1]).relative_to(self.root.folder), code[2] or "get_assert"
        _leave(source, f"`context` is left out: {name} gets reply, message and values, and returns a score; change it.")
        return name, f"{path.as_posix()}:{name}"


# Parts


def _instead(*names: str) -> str:
    return next((_INSTEAD[each] for each in names if each in _INSTEAD), _ELSE)


def _leave(source: Source, text: str, *keys: str) -> None:
    source.problems.append(source.error(text, *keys))


def _list_others(source: Source, known: Iterable[str]) -> None:
    """List the names of a part that are not read."""
    for name in source.value if isinstance(source.value, Mapping) else ():
        if name not in known:
            similar = difflib.get_close_matches(str(name), known, 1, 0.8)
            reason = f"did you mean `{similar[0]}`?" if similar else f"{_instead(name)}."
            _leave(source, f"`{name}` is left out: {reason}", name)


def _of(source: Source, *keys: str) -> Any:
    value = source.value
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _part(source: Source, key: str) -> Source:
    return source[key] if isinstance(source.value, Mapping) else dataclasses.replace(source, value=None)


def _items(source: Source, default: Any = None) -> list[Source]:
    """The items of a list, or the one that stands alone."""
    source = dataclasses.replace(source, value=default) if source.value is None else source
    return source.items() if source.value is None or isinstance(source.value, list) else [source]


def _is_list(value: Any) -> bool:
    """Whether a value stands for several: promptfoo asks each text of a list."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


# Prompts and their texts


def _texts(source: Source) -> list[Any]:
    """The prompts in a file, or in a row of it."""
    content, is_text = source.value, source.path.suffix == ".txt"
    if isinstance(content, Mapping):
        return [content.get("prompt") or json.dumps(content, ensure_ascii=False)]
    parts = re.split(r"^---$", content, flags=re.MULTILINE) if is_text else [content]
    return [part.strip() if isinstance(part, str) else part for part in parts if part]


def read_chat(text: Any) -> list[dict[str, Any]] | None:
    """The messages of a chat, which may be JSON or YAML; None for a text."""
    if isinstance(text, str) and text.lstrip().startswith("- role:"):
        text = re.sub(r"(?m)^(\s*content: +)(\{\{.*)$", lambda line: line[1] + json.dumps(line[2]), text)
        text = parse_source(text, "prompt").value
    elif isinstance(text, str):
        with contextlib.suppress(ValueError, RecursionError):
            text = json.loads(_DUMPED.sub(r'"{{\1}}"', text))
    is_chat = isinstance(text, list) and all(isinstance(each, dict) and "role" in each for each in text)
    return text if is_chat else None


def _template(source: Source, text: str) -> str:
    """A text with its names, as a lab writes them."""
    tag = _OTHER.search(_TAG.sub("", text)) or re.search(r"\{\{-?\s*(?:env|_conversation)\b[^}]*\}\}", text)
    if tag:
        raise source.error(f"{quoted(tag[0])} and its text are left out: only {{{{a}}}} and {{{{a.b}}}} are filled in.")
    return _TAG.sub(lambda tag: tag["raw"] or (f"{{{{{tag['name']}}}}}" if tag["name"] else ""), text)


def _compared(prompts: list[_Prompt]) -> tuple[dict[str, Any], list[_Prompt]]:
    """The variants, and the prompts whose message is sent."""
    first, variants = prompts[0], dict[str, Any]()
    if all(each.variant == first.variant for each in prompts):
        return ({first.label or "prompt": first.variant} if first.variant else {}), prompts
    for number, each in enumerate(prompts, 1):
        if each.message == first.message:
            name = f"{each.label or 'prompt'} {number}" if each.label in ("", *variants) else each.label
            variants[name] = each.variant
        else:
            reason = "the first has another message and other settings; import it alone"
            _leave(each.source, f"the prompt is left out: {reason}.")
    return variants, [first]


# Tests and their values


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a table as a test."""
    test: dict[str, Any] = {name[2:]: cell for name, cell in row.items() if name.startswith("__") and cell.strip()}
    expected = [test.pop(name) for name in [*test] if name.startswith("expected")]
    metric = {"metric": test.pop("metric", None)}
    test = {name: cell for name, cell in test.items() if not name.startswith("metadata:")}
    values = {name.strip(): cell for name, cell in row.items() if not name.startswith("__")}
    return {**test, "vars": values, "assert": [{**_cell(cell.strip()), **metric} for cell in expected]}


def _cell(text: str) -> dict[str, Any]:
    """The assert in a cell such as ``not-contains: refund`` or ``similar(0.8): Hi``."""
    text = re.sub(r"\A(?:fn|eval):", "javascript:", re.sub(r"\Agrade:", "llm-rubric:", text))
    if text.startswith("file://") and (code := _CODE.fullmatch(text)):
        return {"type": "python" if code[1].endswith(".py") else "javascript", "value": text}
    match = _CELL.fullmatch(text)
    kind, limit, rest = match.groups() if match else ("", None, None)
    base = kind.removeprefix("not-")
    if not (limit or rest or base in _KINDS or base.startswith("is-")):
        return {"type": "equals", "value": text}
    threshold = float(limit) if limit else 0.8 if base == "similar" else None
    return {"type": kind, "value": (rest or "")[1:].strip() or None, "threshold": threshold}


def _expanded(test: _Test) -> Iterator[_Test]:
    """A test for each combination of its lists of texts."""
    lists = {name: value for name, value in test.values.items() if _is_list(value)}
    for chosen in itertools.product(*lists.values()):
        yield test._replace(values={**test.values, **dict(zip(lists, chosen, strict=True))})


def _distinct(checks: Iterable[Check], others: Iterable[Check]) -> list[Check]:
    """Checks that others do not repeat, each with a name of its own."""
    made: dict[str | None, Check] = {check.name: check for check in others}
    known = len(made)
    for check in checks:
        name, numbers = check.name, itertools.count(2)
        while made.get(check.name, check) != check:
            check = dataclasses.replace(check, name=f"{name} {next(numbers)}")
        made[check.name] = check
    return list(made.values())[known:]


def _input(message: str, variants: Any, test: _Test, shared: list[Check]) -> dict[str, Any]:
    values, checks = _resolved(test.values), _distinct(test.checks, shared)
    for name, value in values.items():
        if isinstance(value, str) and (tag := _OTHER.search(value)):
            raise test.source.error(f"the test is left out: {quoted(tag[0])} in `{name}` is not known; write it out.")
    names = names_in(json.dumps([message, variants]))
    for name in [*names, *(name for check in (*checks, *shared) for name in columns_of(check))]:
        try:
            require(name, values, "")
        except ValueError:
            values[name] = ""
            _leave(test.source, f"{{{{{name}}}}} has no value, so nothing is filled in.")
    values = {name: _plain(value) for name, value in values.items()}
    if not fill(message, values).strip():
        raise test.source.error("the test is left out: there is nothing to send.")
    made = {"message": message, "values": values, "checks": [check_data(check) for check in checks]}
    return {name: value for name, value in made.items() if value}


def _resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others filled in, as promptfoo does it, and no line break last."""
    made = {name: value.removesuffix("\n") if isinstance(value, str) else value for name, value in values.items()}
    for name in [*made] * 5:
        match = _TAG.search(made[name]) if isinstance(made[name], str) else None
        if match is not None and match["name"]:
            with contextlib.suppress(ValueError):  # there is no such value
                made[name] = made[name].replace(match[0], fill(match[0], _plain(made)), 1)
    return made


def _plain(value: Any) -> Any:
    """A value as a lab file holds it; lists are texts, as promptfoo prints them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return json.dumps(value, ensure_ascii=False)
    return ",".join(map(_shown, value)) if isinstance(value, list) else "" if value is None else value


def _shown(value: Any) -> str:
    return fill("{{x}}", {"x": _plain(value)})
