"""A YAML or JSON file as data, with checks of its parts; errors name file and line.

YAML is read as its version 1.2 says: ``no`` and ``1_000`` are texts, ``1e3`` is a
number, and a repeated key is an error.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .._text import clip

KeyPath = tuple[str | int, ...]

# More levels and values, which a few lines can name by aliases, would take all memory.
MAX_NESTING = 100
MAX_VALUES = 1_000_000


class ConfigError(ValueError):
    """A file that cannot be used. The message names the file, the line and the path.

    Attributes
    ----------
    problems : tuple of str
        Each with its file, line and path; the message is all of them, a line each.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with the plain scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own attribute


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)$", "-+0123456789"),
    ("float", r"^(?:[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
     "-+0123456789."),
    ("merge", r"^<<$", "<"),
):  # fmt: skip
    for _char in _first:
        YamlLoader.yaml_implicit_resolvers.setdefault("" if _char == "\0" else _char, []).append(
            (f"tag:yaml.org,2002:{_tag}", re.compile(_pattern))
        )


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if re.match(r"[-+]?0[ox]", text) else int(text)


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = loader.construct_scalar(node).lower()
    if text.endswith((".inf", ".nan")):
        return math.nan if text.endswith("nan") else math.copysign(math.inf, -1 if text[0] == "-" else 1)
    return float(text)


YamlLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
YamlLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)


@dataclass(slots=True, eq=False)
class Source:
    """A file, or a part of it, such as ``source["inputs"][0]``.

    Attributes
    ----------
    path : Path
    value : object
    node : yaml.Node or None
        The file's, for the lines of its parts.
    keys : tuple of str or int
        The path of the part.
    problems : list of ConfigError
        What was found wrong so far.
    """

    path: Path
    value: Any
    node: yaml.Node | None = field(default=None, repr=False)
    keys: KeyPath = ()
    problems: list[ConfigError] = field(default_factory=list, repr=False, compare=False)

    def __getitem__(self, key: str | int) -> Source:
        """A part; its value is None if the file does not have it."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else self.value[key]
        return Source(self.path, value, self.node, (*self.keys, key), self.problems)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the problem that the block raises, and go on."""
        try:
            yield
        except ConfigError as error:
            self.problems.append(error)

    def require_no_problems(self) -> None:
        """Raise what was collected, as one error."""
        if self.problems:
            raise ConfigError(*(text for each in self.problems for text in each.problems))

    @property
    def folder(self) -> Path:
        return self.path.parent

    def error(self, message: str, *keys: str | int) -> ConfigError:
        """An error about the part, or about a part of it: the line is the nearest."""
        keys, node = (*self.keys, *keys), self.node
        for key in keys:
            node = _child(node, key) or node
        where = str(self.path), f"line {node.start_mark.line + 1}" if node else "", format_keys(keys)
        return ConfigError(f"{', '.join(filter(None, where))}: {message}")

    @contextlib.contextmanager
    def locating(self, where: str = "") -> Iterator[None]:
        """Give a ValueError or TypeError of the block the place of the part."""
        try:
            yield
        except ConfigError:
            raise
        except (ValueError, TypeError) as error:
            raise self.error(f"{where}{error}") from error

    # What is expected

    def written(self) -> str:
        """A scalar as it stands in the file: ``1.0`` rather than 1.

        Raises
        ------
        ConfigError
            If it is none.
        """
        if self.value is None or isinstance(self.value, Mapping | list):
            raise self.error(f"a text is needed here, not {quoted(self.value)}.")
        node = self.node
        for key in self.keys:
            node = _child(node, key)
        if isinstance(self.value, str) or not isinstance(node, yaml.ScalarNode):
            return self.value if isinstance(self.value, str) else json.dumps(self.value)
        return str(node.value)

    def text(self) -> str:
        """The text; a number or another scalar is refused.

        Raises
        ------
        ConfigError
        """
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"a text is needed here, not {quoted(self.value)}.")
        return self.value

    def mapping(self, known: Iterable[str] | None = None, hint: str = "") -> Mapping[str, Any]:
        """The names with values; names that are not `known` are problems.

        Raises
        ------
        ConfigError
        """
        if not isinstance(self.value, Mapping):
            raise self.error(f"names with values are needed here, not {quoted(self.value)}.{hint}")
        names = list(self.value if known is None else known)
        for name in self.value:
            if name not in names:
                similar = difflib.get_close_matches(str(name), names, 1, 0.6)
                mean = f"did you mean `{similar[0]}`?" if similar else f"there are {', '.join(names)}."
                with self.collecting():
                    raise self.error(f"there is no `{name}`; {mean}{hint}", name)
        return self.value

    def items(self) -> list[Source]:
        """The items of a list; None means an empty list.

        Raises
        ------
        ConfigError
        """
        if self.value is not None and not isinstance(self.value, list):
            raise self.error(f"a list is needed here, not {quoted(self.value)}.")
        return [self[number] for number in range(len(self.value or ()))]


def referenced_file(folder: Path, name: str) -> Path:
    """The file that a reference names; nothing outside the folder is touched.

    Where a link leads counts, not where it stands.

    Raises
    ------
    ValueError
        If it leads elsewhere, or there is no such file.
    """
    path, leads_outside = Path(folder, name), False
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # not a name, or a loop of links
        # The name first: on Windows, to look where it leads may ask another machine.
        leads_outside = not Path(os.path.normpath(path.absolute())).is_relative_to(os.path.normpath(folder.absolute()))
        leads_outside = leads_outside or not path.resolve().is_relative_to(folder.resolve())
        if not leads_outside and path.is_file():
            return path
    if leads_outside:
        name = clip(name, 200)
        raise ValueError(f"{name!r} leads outside {folder.absolute()}, the folder of the file: copy it there.")
    raise ValueError(f"there is no file {quoted(name)} in {folder.absolute()}.")


def format_keys(keys: Sequence[str | int]) -> str:
    """The path of a part.

    Examples
    --------
    >>> format_keys(("inputs", 0, "checks", 1))
    'inputs[0].checks[1]'
    """
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def read_source(path: str | Path) -> Source:
    """Read a YAML or JSON file.

    Raises
    ------
    ConfigError
        If it cannot be read or parsed, or repeats a key.
    """
    return parse_source(read_text(Path(path)), path)


def parse_source(text: str, path: str | Path) -> Source:
    """Parse YAML or JSON; `path` is where it comes from, for messages.

    Raises
    ------
    ConfigError
        If it cannot be parsed, or repeats a key.
    """
    path, is_json, value = Path(path), False, None
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            value, is_json = json.loads(text, object_pairs_hook=_once), True
    try:
        loader = YamlLoader(text)
        try:
            node = loader.get_single_node()
            _refuse(node, path, len(text), is_json=is_json)
            if not is_json:
                value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        if is_json:
            return Source(path, value)  # without lines
        mark, problem = (getattr(error, name, None) for name in ("problem_mark", "problem"))
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{where}: not valid YAML: {problem or _reason(error)}.") from error
    return Source(path, value, node)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is repeated")  # which one, and where, is found below
    return dict(pairs)


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child: yaml.Node = node.value[step]
        return child
    return None


def _refuse(root: yaml.Node | None, path: Path, size: int, *, is_json: bool) -> None:
    """Refuse repeated keys, and aliases that expand to more than a file could hold."""
    measured: dict[int, tuple[int, int]] = {}  # levels and values of each node; (0, 0) while it is measured

    def measure(node: yaml.Node, depth: int) -> tuple[int, int]:
        reason = ""
        if id(node) not in measured:
            measured[id(node)] = (0, 0)
            parts: list[yaml.Node] = [] if isinstance(node, yaml.ScalarNode) else node.value
            if isinstance(node, yaml.MappingNode):
                names = set[str]()
                for key, _ in node.value:
                    if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                        if key.value in names and not is_json:
                            reason = f"the key {key.value!r} is repeated; keep one of them."
                            raise ConfigError(f"{path}, line {key.start_mark.line + 1}: {reason}")
                        names.add(key.value)
                parts = [part for pair in node.value for part in pair]
            sizes = [measure(part, depth + 1) for part in parts] if depth <= MAX_NESTING else [(MAX_NESTING, 1)]
            measured[id(node)] = (1 + max((levels for levels, _ in sizes), default=0), 1 + sum(n for _, n in sizes))
        elif measured[id(node)] == (0, 0):
            reason = "an alias stands within what it names; write it out."
        levels, values = measured[id(node)]
        if levels > MAX_NESTING:
            reason = f"more than {MAX_NESTING} levels stand within each other."
        elif values > max(MAX_VALUES, size):
            reason = "its aliases expand to too much; write it out."
        if reason:
            raise ConfigError(f"{path}, line {node.start_mark.line + 1}: {reason}")
        return levels, values

    if root is not None:
        measure(root, 1)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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
        raise ConfigError(f"{path}: the file cannot be read ({_reason(error)}). Check path and encoding.") from error


def quoted(value: Any) -> str:
    """A value as an error message quotes it."""
    return clip(repr(value), 60)
