"""Writes evaluation files, and their cases alone, for `read_config` and promptfoo."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..._files import atomic_write
from ..._text import clip
from ..check import PREFIX, check_data
from ..model import Case, Config, Prompt
from ..template import REFERENCES, literal_value
from .csv import case_row
from .read import CSV_TYPES
from .source import YamlLoader

CASE_FILES = (".csv", ".jsonl")
WIDTH = 100


class _Dumper(yaml.SafeDumper):
    """Quotes strings that YAML 1.1 or 1.2 would read as something else."""


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


def write_config(path: str | Path, config: Config) -> Path:
    """Write an evaluation file. It is replaced as a whole or not at all.

    Parameters
    ----------
    path : str or Path
    config : Config
        A config that `read_config` returned, or a new one. Its notes are not written,
        and the file contains no key.

    Returns
    -------
    Path

    Raises
    ------
    OSError

    Examples
    --------
    >>> config = Config((Prompt("ask", "{{question}}"),), (Case({"question": "Hi"}),))
    >>> path = write_config(folder / "eval.yaml", config)
    >>> from agentbook.evaluation.files.read import read_config
    >>> read_config(path).cases[0].vars
    {'question': 'Hi'}
    """
    target = Path(path)
    text = yaml.dump(
        config_data(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False
    )
    with atomic_write(target) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return target


def write_cases(path: str | Path, cases: Iterable[Case]) -> list[str]:
    """Write cases alone, for ``tests: file://NAME``: as CSV or as JSON Lines.

    The file is replaced as a whole or not at all.

    Returns
    -------
    list of str
        Notes about what a row of CSV cannot hold; a line of JSON holds everything.

    Examples
    --------
    >>> write_cases(folder / "cases.csv", [Case({"question": "Hi"}, threshold=0.5)])
    []
    >>> (folder / "cases.csv").read_text()
    '"question","__threshold"\\n"Hi","0.5"\\n'
    """
    notes: list[str] = []
    if Path(path).suffix.lower() == ".csv":
        file, rows, missing = io.StringIO(newline=""), [], defaultdict[str, list[str]](list)
        for number, data in enumerate(map(case_data, cases), 1):
            lost: list[str] = []
            row = case_row(data, CSV_TYPES, lost)
            rows += [] if row is None else [row]
            for each in lost:
                missing[each].append(str(number))
        for each, numbers in missing.items():
            notes.append(
                f"CSV cannot hold {each} of case {clip(', '.join(numbers), 60)}; a name in .jsonl makes a file that does."
            )
        writer = csv.DictWriter(
            file, dict.fromkeys(name for row in rows for name in row), "", quoting=csv.QUOTE_ALL, lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
        text = file.getvalue()
    else:
        text = "".join(f"{json.dumps(case_data(case))}\n" for case in cases)
    with atomic_write(Path(path)) as binary:
        binary.write(text.encode("utf-8", "backslashreplace"))
    return notes


def config_data(config: Config) -> dict[str, Any]:
    """A file's data, as `write_config` writes it."""
    default = case_data(config.default)
    if config.judge is not None:
        default.setdefault("options", {})["provider"] = f"{PREFIX}{config.judge}"
    data: dict[str, Any] = {
        "description": config.description,
        "prompts": [_prompt_data(prompt) for prompt in config.prompts],
        "providers": _providers(config),
        "defaultTest": default,
        "tests": [case_data(case) for case in config.cases],
        "evaluateOptions": {"repeat": config.repeat} if config.repeat != 1 else None,
    }
    return {name: value for name, value in data.items() if value}


def _providers(config: Config) -> list[Any]:
    if config.agent is None:
        return ["echo"]  # promptfoo needs a provider; this one repeats the prompt
    name = f"{PREFIX}{config.agent}"
    return [name if config.workspace is None else {"id": name, "config": {"workspace": config.workspace}}]


def _prompt_data(prompt: Prompt) -> Any:
    if prompt.label == prompt.text and prompt.id is None and not prompt.settings:
        return prompt.text
    data = {"id": prompt.id, "label": prompt.label, "raw": prompt.text, "config": dict(prompt.settings)}
    return {name: value for name, value in data.items() if value}


def case_data(case: Case) -> dict[str, Any]:
    """A case as it is written to a file."""
    data: dict[str, Any] = {
        "description": case.description,
        "vars": {name: _from_a_file(value) for name, value in case.vars.items()},
        "assert": [check_data(check) for check in case.asserts],
        "threshold": case.threshold,
        "prompts": None if case.prompts is None else list(case.prompts),
        "providerOutput": case.reply,
        "options": dict(case.options),
        "metadata": dict(case.metadata),
    }
    present = {name: value for name, value in data.items() if value is not None and value != {} and value != []}
    return {name: _plain(value) for name, value in present.items()}


def _from_a_file(value: Any) -> Any:
    """A value as it is; the content of a file is not itself the name of one."""
    texts = value if isinstance(value, list) else [value]
    is_reference = any(isinstance(text, str) and text.startswith(REFERENCES) for text in texts)
    return literal_value(value) if is_reference else value


def _plain(value: Any) -> Any:
    """Data in YAML's types, with whole numbers written without a decimal point."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
