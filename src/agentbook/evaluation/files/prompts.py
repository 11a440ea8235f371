"""The prompts of an evaluation file, written in it or in separate files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import javascript
from ..model import Prompt
from . import parts
from .source import OutsideFolder, Source, Steps, referenced_files

_SEPARATOR = re.compile(r"^---$", re.MULTILINE)
_TEXT = (".txt", ".md", ".j2")
_DATA = (".json", ".yaml", ".yml")
_SUFFIXES = (*_TEXT, *_DATA, ".jsonl")
_WILDCARDS = "*?"


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
    prompts = []
    for steps, item in items:
        with source.collecting():
            prompts += _read(source, steps, item)
    if not prompts and not source.problems:
        raise source.error(("prompts",), "there is no prompt.")
    return _with_unique_labels(prompts)


def _read(source: Source, steps: Steps, item: Any) -> Iterator[Prompt]:
    if isinstance(item, str):
        yield from _read_text(source, steps, item, None, None, {})
        return
    if not isinstance(item, Mapping):
        raise source.error(steps, f"a prompt is a text or has `raw`, not {item!r}.")
    if "function" in item:
        raise source.unsupported((*steps, "function"), "a prompt is not computed by code.")
    raw = item.get("raw", item.get("id"))
    if isinstance(raw, list | Mapping):
        raw = javascript.to_json(raw)
    if not isinstance(raw, str):
        raise source.error(steps, "a prompt needs its text as `raw`, or its file as `id`.")
    settings = item.get("config") or {}
    if not isinstance(settings, Mapping):
        raise source.error((*steps, "config"), "names with values are needed here.")
    identifier = str(item["id"]) if "raw" in item and item.get("id") is not None else None
    yield from _read_text(source, steps, raw, item.get("label"), identifier, settings)


def _read_text(
    source: Source, steps: Steps, text: str, label: Any, identifier: str | None, settings: Mapping[str, Any]
) -> Iterator[Prompt]:
    paths = _files(source, steps, text)
    if paths is None:
        parts.check_template(source, steps, text)
        yield Prompt(str(label or text), text, identifier, settings)
        return
    for path in paths:
        texts = list(_texts(source, steps, path))
        for part in texts:
            parts.check_template(source, steps, part)
            name = str(label) if label and len(texts) == len(paths) == 1 else f"{label or _name(source, path)}: {part}"
            yield Prompt(name, part, identifier, settings)


def _files(source: Source, steps: Steps, text: str) -> list[Path] | None:
    """The files that a text names; None if the text is itself a prompt."""
    if text.startswith("file://"):
        parts.refuse_code(source, steps, text, "a prompt is")
        return parts.find_files(source, steps, text, _WILDCARDS)
    if "\n" in text or not text.strip():
        return None
    try:
        return referenced_files(source.folder, text, source.folders, _WILDCARDS) or None
    except OutsideFolder as error:
        if _looks_like_a_file(source.folder, text):
            raise source.error(steps, str(error)) from None
        return None


def _looks_like_a_file(folder: Path, text: str) -> bool:
    try:
        return (Path(text).suffix in _SUFFIXES and len(text.split()) == 1) or (folder / text).is_file()
    except (OSError, ValueError):
        return False


def _texts(source: Source, steps: Steps, path: Path) -> Iterator[str]:
    parts.refuse_code(source, steps, path.name, "a prompt is")
    if path.suffix not in (*_SUFFIXES, ""):
        raise source.error(
            steps, f"prompts are read from .txt, .md, .json, .jsonl and .yaml files, not from {path.name}."
        )
    text = parts.read_text(path)
    parts.check_history(source, steps, text)
    if path.suffix == ".json":
        try:
            yield javascript.to_json(javascript.parse_json(text))
        except ValueError:  # a template that makes JSON
            yield text
        return
    if path.suffix in _DATA:
        yield javascript.to_json(source.part(path).value)
        return
    if path.suffix == ".jsonl":
        yield from filter(None, text.splitlines())
    elif path.suffix == ".txt":
        yield from filter(None, map(str.strip, _SEPARATOR.split(text)))
    else:
        yield text


def _name(source: Source, path: Path) -> str:
    return path.relative_to(source.folder).as_posix() if path.is_relative_to(source.folder) else path.name


def _with_unique_labels(prompts: list[Prompt]) -> list[Prompt]:
    """Prompts with unique labels: a repeated label is numbered."""
    import dataclasses

    counts: dict[str, int] = {}
    unique = []
    for prompt in prompts:
        counts[prompt.label] = count = counts.get(prompt.label, 0) + 1
        unique.append(prompt if count == 1 else dataclasses.replace(prompt, label=f"{prompt.label} ({count})"))
    return unique
