"""A YAML or JSON file as data, with checks of its parts; errors name file and line.

YAML is read as promptfoo's parser reads it: version 1.2, in which ``yes`` is a string,
``1e3`` is a number, and a repeated key is an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..._text import clip
from .. import template

KeyPath = tuple[str | int, ...]
HISTORY = "_conversation"  # promptfoo fills it with the questions and replies so far
_CODE = re.compile(r"\.(?:py|js|ts|cjs|mjs|sh|exe|bat|rb|pl|go)(?::\w+)?\Z", re.ASCII)

# Deeper files would take the parser minutes, and more values, which a few lines can
# name by aliases, all memory.
MAX_NESTING = 100
MAX_VALUES = 1_000_000


class ConfigError(ValueError):
    """A file that cannot be run. The message names the file, the line and the path.

    Attributes
    ----------
    problems : tuple of str
        Each with its file, line and path; the message is all of them, a line each.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Unsupported(ConfigError):
    """A part that promptfoo runs and agentbook does not, so it can be left out."""


class YamlLoader(yaml.SafeLoader):
    """SafeLoader with the plain scalars of YAML 1.2.

    Within braces, YAML 1.1 ends a plain scalar at a question mark; 1.2 does not.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own attribute
    _in_plain_text = False

    def scan_plain(self) -> yaml.ScalarToken:
        self._in_plain_text = True
        try:
            return super().scan_plain()
        finally:
            self._in_plain_text = False

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        super().fetch_flow_collection_start(token_class)
        self._limit_nesting()

    def add_indent(self, column: int) -> bool:
        added: bool = super().add_indent(column)
        self._limit_nesting()
        return added

    def _limit_nesting(self) -> None:
        if self.flow_level + len(self.indents) > MAX_NESTING:
            raise yaml.scanner.ScannerError(None, None, f"more than {MAX_NESTING} levels", self.get_mark())

    def peek(self, index: int = 0) -> str:
        char: str = super().peek(index)
        return "x" if char == "?" and self._in_plain_text else char


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


class _FileLoader(YamlLoader):
    """Rejects repeated keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        names = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in names:
                    reason = f"the key {key.value!r} is repeated; keep one of them"
                    raise yaml.composer.ComposerError(None, None, reason, key.start_mark)
                names.add(key.value)
        return node


@dataclass(frozen=True, slots=True)
class Permissions:
    """What an evaluation file may use besides the files in its own folder.

    Whoever runs the file says so; the file itself cannot.

    Attributes
    ----------
    paths : tuple of Path
        Folders whose files it may read too.
    env : tuple of str
        Variables of the environment that its templates may use.
    javascript : bool
        Whether ``javascript`` asserts run.
    """

    paths: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    javascript: bool = False

    @classmethod
    def of(
        cls, paths: str | Path | Iterable[str | Path] = (), env: str | Iterable[str] = (), javascript: bool = False
    ) -> Permissions:
        """The permissions for these; a single one may be passed as it is.

        Examples
        --------
        >>> Permissions.of(env="REGION").env
        ('REGION',)
        """
        paths = [paths] if isinstance(paths, str | Path) else paths
        return cls(tuple(map(Path, paths)), (env,) if isinstance(env, str) else tuple(env), javascript)


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a part of it, such as ``source["tests"][0]``.

    Attributes
    ----------
    path : Path
        The file; references within it are relative to its folder.
    value : object
    node : yaml.Node or None
        The file's, for the lines of its parts.
    place : str
        Where in the file the value stands, if no `node` says so.
    keys : tuple of str or int
        The path of the part.
    root : Path or None
        The folder of the evaluation file, if that is a different file.
    allowed : Permissions
    is_data : bool
        Whether the values may be what anybody wrote, rather than the file's author.
    problems : list of ConfigError
        What was found wrong so far, in all files of the evaluation.
    """

    path: Path
    value: Any
    node: yaml.Node | None = field(default=None, repr=False)
    place: str = ""
    keys: KeyPath = ()
    root: Path | None = None
    allowed: Permissions = field(default_factory=Permissions)
    is_data: bool = False
    problems: list[ConfigError] = field(default_factory=list, repr=False, compare=False)

    def __getitem__(self, key: str | int) -> Source:
        """A part; its value is None if the file does not have it."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else self.value[key]
        return dataclasses.replace(self, value=value, keys=(*self.keys, key))

    def of(self, value: Any) -> Source:
        """The part with another value, such as the content of a file that it names."""
        return dataclasses.replace(self, value=value)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the problem that the block raises, and go on."""
        try:
            yield
        except ConfigError as error:
            self.problems.append(error)

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders whose files may be read."""
        return (self.root or self.folder, *self.allowed.paths)

    def file(self, path: Path, value: Any = None, place: str = "") -> Source:
        """Another file of the same evaluation; it is read unless there is a value.

        What a table (CSV, JSON or JSONL) holds, or names, are data.
        """
        source = Source(path, value) if place else read_source(path)
        root, is_data = self.root or self.folder, self.is_data or path.suffix not in (".yaml", ".yml")
        return dataclasses.replace(
            source, place=place, root=root, allowed=self.allowed, is_data=is_data, problems=self.problems
        )

    @property
    def line(self) -> int | None:
        """The line of the part, or else of its nearest parent, counted from 1."""
        return self._line_of(self.keys)

    def _line_of(self, keys: KeyPath) -> int | None:
        node = self.node
        for key in keys:
            child = _child(node, key)
            if child is None:
                break
            node = child
        return node.start_mark.line + 1 if node is not None else None

    def error(self, message: str, *keys: str | int) -> ConfigError:
        """An error about the part, or about a part of it."""
        return ConfigError(self._located(message, keys))

    def unsupported(self, message: str) -> Unsupported:
        """An error about a part that promptfoo runs."""
        return Unsupported(self._located(message))

    def _located(self, message: str, keys: KeyPath = ()) -> str:
        keys = (*self.keys, *keys)
        line = self._line_of(keys)
        where = str(self.path), self.place if line is None else f"line {line}", format_keys(keys)
        return f"{', '.join(filter(None, where))}: {message}"

    # What is expected

    def mapping(self, *, optional: bool = False) -> Mapping[str, Any]:
        """The names with values; nothing is an empty one if it is optional.

        Raises
        ------
        ConfigError
        """
        if optional and not self.value:
            return {}
        if not isinstance(self.value, Mapping):
            raise self.error(f"names with values are needed here, not {quoted(self.value)}.")
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

    def number(self) -> float | None:
        """The finite number, or None.

        Raises
        ------
        ConfigError
        """
        value = self.value
        if value is None:
            return None
        with contextlib.suppress(OverflowError):  # of hundreds of digits
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                return float(value)
        raise self.error(f"a number is needed here, not {quoted(value)}.")

    def check_history(self) -> None:
        """Raise a `ConfigError` if a text in it uses the history of a chat."""
        if isinstance(self.value, str) and template.uses(self.value, HISTORY):
            raise self.unsupported(f"`{HISTORY}` can be used in prompts only.")
        for part in self._nested():
            part.check_history()

    def check_template(self, *, has_history: bool = False) -> None:
        """Raise a `ConfigError` if the text cannot be rendered.

        Also if it uses the history of a chat, which only prompts have.
        """
        if not has_history:
            self.check_history()
        try:
            template.check(self.value)
        except template.TemplateError as error:
            raise self.unsupported(str(error)) from None

    def check_keys(self, used: Sequence[str], refused: Mapping[str, str], ignored: Sequence[str] = ()) -> list[str]:
        """Return notes about the keys that have no effect.

        A key that cannot be used, or is misspelt, is a problem of the source.
        """
        notes = []
        for name in (each for each in self.value if each not in used):
            similar = difflib.get_close_matches(str(name), [*used, *ignored], 1, 0.8)
            with self.collecting():
                if name in refused:
                    raise self[name].unsupported(f"`{name}` cannot be used: {refused[name]}.")
                if similar and similar[0] != name:
                    raise self[name].error(f"there is no `{name}`; did you mean `{similar[0]}`?")
                notes.append(f"{self.path.name}, line {self[name].line}: `{name}` has no effect here.")
        return notes

    # Files that it names

    def refuse_code(self, name: str, what: str) -> None:
        """Refuse the name of a program, such as ``file://cases.py:make``.

        Raises
        ------
        Unsupported
        """
        if _CODE.search(name):
            raise self.unsupported(f"{what} not computed by code, as in {quoted(name)}; write the result out.")

    def find_files(self, name: str, wildcards: str = "*?[", folders: Sequence[Path] | None = None) -> list[Path]:
        """The files that a reference such as ``file://cases/*.yaml`` names, in order.

        Only files in `folders` may be read; by default, in the folders of the source.

        Raises
        ------
        ConfigError
            If there are none, or one is outside the folders that may be read.
        """
        pattern = name.removeprefix("file://")
        try:
            paths = referenced_files(self.folder, pattern, self.folders if folders is None else folders, wildcards)
        except OutsideFolder as error:
            raise self.error(str(error)) from None
        if not paths:
            raise self.error(f"there is no file {quoted(pattern)} in {self.folder.absolute()}.")
        return paths

    def text(self) -> Any:
        """The value, or the text of the file that it names; data stay data.

        Raises
        ------
        ConfigError
        """
        if not isinstance(self.value, str) or not self.value.startswith("file://"):
            self.refuse_references()
            return self.value
        self.refuse_code(self.value, "a text is")
        path = self.find_files(self.value, "")[0]
        if path.suffix in (".yaml", ".yml"):
            return self.file(path).value
        if path.suffix not in (".txt", ".md", ".j2", ".json", ""):
            raise self.error(f"a text is not read from {path.name}; write it into a text file.")
        return read_text(path)

    def refuse_references(self) -> None:
        """Refuse ``file://`` deep in a value, where it is not read.

        Raises
        ------
        ConfigError
        """
        if isinstance(self.value, str) and self.value.startswith("file://"):
            raise self.error(
                f"{quoted(self.value)} is not read here: a file gives a whole value, or an item of a list."
            )
        for part in self._nested():
            part.refuse_references()

    def _nested(self) -> Iterator[Source]:
        steps = (
            self.value
            if isinstance(self.value, Mapping)
            else range(len(self.value))
            if isinstance(self.value, list)
            else ()
        )
        return (self[step] for step in steps)


class OutsideFolder(ValueError):
    """A reference to a file that must not be read."""


def referenced_files(folder: Path, name: str, folders: Sequence[Path], wildcards: str = "*?[") -> list[Path]:
    """The files that a reference names, in order; nothing outside `folders` is touched.

    Parameters
    ----------
    folder : Path
        What the reference is relative to.
    name : str
        Without ``file://``.
    folders : sequence of Path
        Folders whose files may be read. Where a link leads counts, not where it stands.
    wildcards : str
        Characters that make a name a pattern.

    Raises
    ------
    OutsideFolder
        If it leads elsewhere.
    """
    within = [each.resolve() for each in folders]
    parts = Path(name).parts
    first = next((n for n, part in enumerate(parts) if any(char in part for char in wildcards)), len(parts))
    fixed, pattern = Path(folder, *parts[:first]), parts[first:]
    try:
        if ".." in pattern:
            raise OutsideFolder
        # The name first: on Windows, to look where it leads may ask another machine.
        _require_within(Path(os.path.normpath(fixed.absolute())), [*map(Path.absolute, folders), *within])
        _require_within(fixed.resolve(), within)
        found = [path for path in (fixed.glob(str(Path(*pattern))) if pattern else [fixed]) if path.is_file()]
        for path in found:
            _require_within(path.resolve(), within)
    except OutsideFolder:
        raise OutsideFolder(
            f"{clip(name, 200)!r} leads outside {folders[0].absolute()}, the folder of the evaluation file. "
            "Copy the file there, or allow its folder: --allow-path DIR, in Python allow_paths=[DIR]."
        ) from None
    except (OSError, ValueError, RuntimeError, NotImplementedError):  # not a name, a pattern, or a loop of links
        found = []
    return sorted(found)


def _require_within(path: Path, folders: Sequence[Path]) -> None:
    if not any(path.is_relative_to(os.path.normpath(folder)) for folder in folders):
        raise OutsideFolder


def format_keys(keys: Sequence[str | int]) -> str:
    """The path of a part.

    Examples
    --------
    >>> format_keys(("tests", 0, "assert", 1))
    'tests[0].assert[1]'
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
    path = Path(path)
    try:
        loader = _FileLoader(text)
        try:
            node = loader.get_single_node()
            _refuse_bombs(node, path)
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{where}: not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: not valid YAML: {_reason(error)}.") from error
    return Source(path, value, node)


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child: yaml.Node = node.value[step]
        return child
    return None


def _refuse_bombs(root: yaml.Node | None, path: Path) -> None:
    """Refuse aliases that expand to more levels or values than a file could hold."""
    measured: dict[int, tuple[int, int]] = {}  # levels and values of each node; (0, 0) while it is measured

    def measure(node: yaml.Node) -> tuple[int, int]:
        if id(node) not in measured:
            measured[id(node)] = (0, 0)
            parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            parts = [] if isinstance(node, yaml.ScalarNode) else [measure(part) for part in parts]
            measured[id(node)] = (1 + max((levels for levels, _ in parts), default=0), 1 + sum(n for _, n in parts))
        levels, values = measured[id(node)]
        if not levels or levels > MAX_NESTING or values > MAX_VALUES:
            reason = "an alias stands within what it names" if not levels else "its aliases expand to too much"
            raise ConfigError(f"{path}, line {node.start_mark.line + 1}: {reason}; write it out.")
        return levels, values

    if root is not None:
        measure(root)


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
        raise ConfigError(
            f"{path}: the file cannot be read ({_reason(error)}). Check its path and encoding."
        ) from error


def quoted(value: Any) -> str:
    """A value as an error message quotes it."""
    return clip(repr(value), 60)
