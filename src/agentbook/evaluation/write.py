"""Writes an evaluation file that `read_config` and promptfoo read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .._whole_file import whole_file
from .model import Assertion, Case, Config, Prompt
from .read_asserts import AGENT
from .source import YamlLoader

WIDTH = 100


class _Dumper(yaml.SafeDumper):
    """Quotes strings that YAML 1.1 or 1.2 would read as something else."""


_Dumper.yaml_implicit_resolvers = {
    char: [*yaml.SafeDumper.yaml_implicit_resolvers.get(char, []), *YamlLoader.yaml_implicit_resolvers.get(char, [])]
    for char in {*yaml.SafeDumper.yaml_implicit_resolvers, *YamlLoader.yaml_implicit_resolvers}
}


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text and text == "\n".join(line.rstrip() for line in text.split("\n")) else None
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
    >>> from agentbook.evaluation.read import read_config
    >>> read_config(path).cases[0].vars
    {'question': 'Hi'}
    """
    target = Path(path)
    text = yaml.dump(
        config_data(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False
    )
    with whole_file(target) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return target


def config_data(config: Config) -> dict[str, Any]:
    """A file's data, as `write_config` writes it."""
    default = case_data(config.default)
    if config.judge is not None:
        default.setdefault("options", {})["provider"] = f"{AGENT}{config.judge}"
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
    name = f"{AGENT}{config.agent}"
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
        "vars": dict(case.vars),
        "assert": [assertion_data(assertion) for assertion in case.asserts],
        "threshold": case.threshold,
        "prompts": None if case.prompts is None else list(case.prompts),
        "providerOutput": case.reply,
        "options": dict(case.options),
        "metadata": dict(case.metadata),
    }
    present = {name: value for name, value in data.items() if value is not None and value != {} and value != []}
    return {name: _plain(value) for name, value in present.items()}


def assertion_data(assertion: Assertion) -> dict[str, Any]:
    """An assert as it is written to a file."""
    data = {
        "type": assertion.type,
        "value": assertion.value,
        "threshold": assertion.threshold,
        "weight": None if assertion.weight == 1 else assertion.weight,
        "metric": assertion.metric,
        "rubricPrompt": assertion.rubric_prompt,
        "assert": [assertion_data(child) for child in assertion.children] or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def _plain(value: Any) -> Any:
    """Data in YAML's types, with whole numbers written without a decimal point."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
