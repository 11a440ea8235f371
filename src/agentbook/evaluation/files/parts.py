"""Parts of an evaluation file, checked as they are read; errors name file and line."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import template
from .source import ConfigError, OutsideFolder, Source, Steps, referenced_files

HISTORY = "_conversation"  # promptfoo fills it with the questions and replies so far


def mapping(source: Source, steps: Steps, data: Any) -> Mapping[str, Any]:
    """Check that data are a mapping, and return it.

    Raises
    ------
    ConfigError
    """
    if not isinstance(data, Mapping):
        raise source.error(steps, f"names with values are needed here, not {shown(data)}.")
    return data


def items(source: Source, steps: Steps, data: Any) -> Sequence[Any]:
    """Check that data are a list, and return it; None means an empty list.

    Raises
    ------
    ConfigError
    """
    if data is None:
        return ()
    if not isinstance(data, list):
        raise source.error(steps, f"a list is needed here, not {shown(data)}.")
    return data


def number(source: Source, steps: Steps, value: Any) -> float | None:
    """Check that a value is a finite number or None, and return it.

    Raises
    ------
    ConfigError
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise source.error(steps, f"a number is needed here, not {shown(value)}.")
    return float(value)


def labels(source: Source, steps: Steps, value: Any) -> tuple[str, ...] | None:
    """Check that a value is a list of strings or None, and return it.

    Raises
    ------
    ConfigError
    """
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise source.error(steps, f"a list of labels of prompts is needed here, not {shown(value)}.")
    return tuple(value)


def check_history(source: Source, steps: Steps, data: Any) -> None:
    """Raise a `ConfigError` if a text in data uses promptfoo's history of a chat."""
    if isinstance(data, str) and template.uses(data, HISTORY):
        raise source.unsupported(
            steps,
            f"`{HISTORY}` cannot be used: each question has a session of its own, so there is no history of a chat. "
            "Write the earlier messages out, in the system message.",
        )
    if isinstance(data, Mapping | list):
        for step, item in data.items() if isinstance(data, Mapping) else enumerate(data):
            check_history(source, (*steps, step), item)


def check_template(source: Source, steps: Steps, text: str) -> None:
    """Raise a `ConfigError` if a text cannot be rendered, or uses a chat's history."""
    check_history(source, steps, text)
    try:
        template.check(text)
    except template.TemplateError as error:
        raise source.unsupported(steps, str(error)) from None


def check_keys(
    source: Source,
    steps: Steps,
    data: Mapping[str, Any],
    used: Sequence[str],
    refused: Mapping[str, str],
    ignored: Sequence[str] = (),
) -> list[str]:
    """Return notes about the keys that have no effect.

    A key that cannot be used, or is misspelt, is a problem of the source.
    """
    notes = []
    for name in data:
        similar = difflib.get_close_matches(str(name), [*used, *ignored], 1, 0.8)
        with source.collecting():
            if name in refused:
                raise source.unsupported((*steps, name), f"`{name}` cannot be used: {refused[name]}.")
            if name not in used and similar and similar[0] != name:
                raise source.error((*steps, name), f"there is no `{name}`; did you mean `{similar[0]}`?")
            if name not in used:
                notes.append(f"{source.path.name}, line {source.line((*steps, name))}: `{name}` has no effect here.")
    return notes


def shown(value: Any) -> str:
    """A value as an error message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# Files named in a file


_CODE = re.compile(r"\.(?:py|js|ts|cjs|mjs|sh|exe|bat|rb|pl|go)(?::\w+)?\Z", re.ASCII)


def refuse_code(source: Source, steps: Steps, name: str, what: str) -> None:
    """Refuse the name of a program, such as ``file://cases.py:make``.

    Raises
    ------
    Unsupported
    """
    if _CODE.search(name):
        raise source.unsupported(steps, f"{what} not computed by code, as in {shown(name)}; write the result out.")


def find_files(
    source: Source, steps: Steps, name: str, wildcards: str = "*?[", folders: Sequence[Path] | None = None
) -> list[Path]:
    """The files that a reference such as ``file://cases/*.yaml`` names, in order.

    Only files in `folders` may be read; by default, in the folders of the source.

    Raises
    ------
    ConfigError
        If there are none, or one is outside the folders that may be read.
    """
    pattern = name.removeprefix("file://")
    try:
        paths = referenced_files(source.folder, pattern, source.folders if folders is None else folders, wildcards)
    except OutsideFolder as error:
        raise source.error(steps, str(error)) from None
    if not paths:
        raise source.error(steps, f"there is no file {shown(pattern)} in {source.folder}.")
    return paths


def text_of(source: Source, steps: Steps, value: Any) -> Any:
    """A value, or the text of the file that it names; data stay data.

    Raises
    ------
    ConfigError
    """
    if not isinstance(value, str) or not value.startswith("file://"):
        refuse_references(source, steps, value)
        return value
    refuse_code(source, steps, value, "a text is")
    path = find_files(source, steps, value, "")[0]
    if path.suffix in (".yaml", ".yml"):
        return source.part(path).value
    if path.suffix not in (".txt", ".md", ".j2", ".json", ""):
        raise source.error(steps, f"a text is not read from {path.name}; write it into a text file.")
    return read_text(path)


def refuse_references(source: Source, steps: Steps, value: Any) -> None:
    """Refuse ``file://`` deep in a value, where it is not read.

    Raises
    ------
    ConfigError
    """
    if isinstance(value, str) and value.startswith("file://"):
        raise source.error(steps, f"{shown(value)} is not read here: a file gives a whole value, or an item of a list.")
    nested = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, item in nested:
        refuse_references(source, (*steps, step), item)


def read_text(path: Path) -> str:
    """The text of a file.

    Raises
    ------
    ConfigError
        If it cannot be read as UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the file cannot be read as UTF-8 text: {error}.") from error
