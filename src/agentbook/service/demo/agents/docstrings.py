"""The docstrings of the public names, as sections that the guide can quote.

They are read from the source, which is always installed with the package. Nothing is
imported: the service shares no code with the client side.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .python_source import parse

REFERENCE = "API reference"
# Classes that are not public names, but that users get from one.
_RETURNED = {"Listing": "listing", "EventStream": "events.stream", "Chart": "frames.plot.chart"}
_NOUNS = "nouns"
_ENDPOINTS = "api.endpoints"
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_RULE = re.compile(r"=+( =+)+")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Entry(NamedTuple):
    """A public name with its docstring, in the paragraphs of a Markdown page."""

    name: str
    blocks: tuple[str, ...]


def read_docstrings(package: Path) -> list[Entry]:
    """The public names of the package in this folder, in the order it lists them."""
    try:
        return list(_public_entries(package))
    finally:
        _tree.cache_clear()


def _public_entries(package: Path) -> Iterator[Entry]:
    for name, module in (_assigned(package / "__init__.py", "_HOMES") | _RETURNED).items():
        node = _definitions(_file(package, module)).get(name)
        prefix = "" if name in _RETURNED else "ab."
        if node is not None:
            yield from _entries(f"{prefix}{name}", node, _file(package, module))
        else:  # a module, such as ab.plot
            yield from _module_entries(package, f"{prefix}{name}", _file(package, module))
    yield from _noun_entries(package)


def _module_entries(package: Path, name: str, file: Path) -> Iterator[Entry]:
    tree = _tree(file)
    homes = {
        alias.name: file.parent / f"{node.module.replace('.', '/')}.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
    }
    for public in _assigned(file, "__all__"):
        home = homes.get(public, file)
        node = _definitions(home).get(public)
        if node is not None:
            yield from _entries(f"{name}.{public}", node, home)


def _noun_entries(package: Path) -> Iterator[Entry]:
    """The methods of ``client.agents`` and the like, from the endpoints they use."""
    classes = {
        name: node for name, node in _definitions(_file(package, _NOUNS)).items() if isinstance(node, ast.ClassDef)
    }
    for node in classes.values():
        noun = (ast.get_docstring(node) or "").strip("`.")
        if re.fullmatch(r"client\.\w+", noun):
            inherited = [classes[base.id] for base in _names(node.bases) if base.id in classes]
            for owner in (*inherited, node):
                yield from _endpoint_entries(package, noun, owner)
            yield from _methods(noun, node)


def _endpoint_entries(package: Path, noun: str, node: ast.ClassDef) -> Iterator[Entry]:
    """From assignments such as ``get = Endpoint(agents.get)``."""
    for statement in node.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=method)],
                value=ast.Call(args=[ast.Attribute(value=ast.Name(id=module), attr=function)]),
            ):
                file = _file(package, f"{_ENDPOINTS}.{module}")
                endpoint = _definitions(file).get(function)
                if endpoint is not None:
                    yield from _entries(f"{noun}.{method}", endpoint, file)


def _names(bases: Iterable[ast.expr]) -> list[ast.Name]:
    plain = [base.value if isinstance(base, ast.Subscript) else base for base in bases]
    return [base for base in plain if isinstance(base, ast.Name)]


def _entries(name: str, node: Definition, file: Path) -> Iterator[Entry]:
    docstring = ast.get_docstring(node)
    if docstring:
        yield Entry(name, tuple(_blocks(_signature(name, node), docstring)))
    if isinstance(node, ast.ClassDef):
        yield from _methods(name.removeprefix("ab."), node)


def _methods(owner: str, node: ast.ClassDef) -> Iterator[Entry]:
    for function in node.body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name.startswith("_"):
            continue
        if docstring := ast.get_docstring(function):
            name = f"{owner}.{function.name}"
            yield Entry(name, tuple(_blocks(_signature(name, function), docstring)))


def _signature(name: str, node: Definition) -> str:
    function: ast.stmt | None = node
    if isinstance(node, ast.ClassDef):
        function = next((part for part in node.body if getattr(part, "name", "") == "__init__"), None)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return name
    if any(getattr(decorator, "id", "") in ("property", "cached_property") for decorator in function.decorator_list):
        return name
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    names = ast.unparse(function.args).removeprefix("self, ").removeprefix("self").removeprefix("/, ")
    return f"{name}({names})"


def _blocks(signature: str, docstring: str) -> Iterator[str]:
    """A numpydoc docstring as Markdown paragraphs, the summary first."""
    text = re.sub(r"``(.+?)``", r"`\1`", inspect.cleandoc(docstring))
    summary, *rest = _SECTION.split(text)
    first, *more = _paragraphs(summary)
    yield first
    yield f"```python\n{signature}\n```"
    yield from more
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        if heading == "Examples":
            yield f"```python\n{body.strip()}\n```"
        elif heading == "Notes":
            yield from _paragraphs(body)
        else:
            yield from _list(heading, body)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if _RULE.search(paragraph):
            yield f"```text\n{inspect.cleandoc(paragraph)}\n```"
        elif paragraph.strip():
            yield " ".join(paragraph.split())


def _list(heading: str, body: str) -> Iterator[str]:
    """The entries of a section such as Parameters, as one list, and its tables."""
    items, tables = [f"{heading}:"], list[str]()
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        title, _, rest = entry.partition("\n")
        name, _, kind = title.partition(" : ")
        prose = list[str]()
        for paragraph in _paragraphs(rest):
            (tables if paragraph.startswith("```") else prose).append(paragraph)
        label = f"`{name}`" + (f" ({kind})" if kind else "")
        items.append(f"- {label}: {' '.join(prose)}" if prose else f"- {label}")
    yield "\n".join(items)
    yield from tables


def _file(package: Path, module: str) -> Path:
    path = package.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(file: Path) -> ast.Module:
    """A module's syntax tree, in which functions have only their docstrings.

    Their bodies would be most of 30 MB, which the process would keep in memory.
    """
    tree: ast.Module = parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            del node.body[1:]
    return tree


def _definitions(file: Path) -> dict[str, Definition]:
    body: Iterable[ast.stmt] = _tree(file).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def _assigned(file: Path, name: str) -> dict[str, str]:
    """The literal dictionary or list of names that a module assigns to a name."""
    for node in _tree(file).body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == name for target in node.targets):
            value = ast.literal_eval(node.value)
            return dict(value) if isinstance(value, dict) else dict.fromkeys(value, "")
    return {}
