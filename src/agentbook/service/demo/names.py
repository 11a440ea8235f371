"""Where a name of the package is defined: a docstring, or a section of the manual.

The docstrings are read from the source, so that the service loads no pandas.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from .manual import Section

_PACKAGE = Path(__file__).parents[2]
# What looks like code: with an underscore, a dot or a capital inside, or in backticks.
_CODE = re.compile(r"`([A-Za-z_][\w.]*)`|\b((?:[A-Za-z]\w*\.)+\w+|\w+_\w+|[A-Z]\w*[a-z]{2,}\w*[A-Z]\w*|[a-z]+[A-Z]\w*)")
# The modules of which every name can be asked for, with what stands before it.
_PREFIXES = {"frames.plot": "plot.", "evaluation.checks": "checks.", "api.errors": ""}
# What the manual calls objects of a class.
_OBJECTS = {"lab": "PromptLab", "panel": "ChatPanel", "client": "Client", "chat": "Conversation"}
_MOST = 2  # definitions of a name


def defined(question: str, sections: Sequence[Section]) -> list[Section]:
    """What defines the first exact name in a question; empty if there is none.

    A name of the package is answered from its docstring, a column or a parameter from
    the line of the docstring that describes it, and anything else from the blocks of
    the manual that have it.
    """
    for match in _CODE.finditer(question[:2000]):
        name = (match[1] or match[2]).removeprefix("agentbook.").removeprefix("ab.").removeprefix("errors.")
        is_code = match[1] or re.search(r"[_.]|Error$", name)  # and not a product, such as OpenAI
        found = _docstring(name) or (is_code and (_lines(name) or _blocks(name, sections)))
        if found:
            return found[:_MOST]
    return []


def _docstring(name: str) -> list[Section]:
    owner, _, method = name.rpartition(".")
    if is_method := owner not in ("", "plot", "checks"):
        name = f"{_OBJECTS.get(owner, owner.capitalize())}.{method}"
    if name not in (docs := _docstrings()):
        return []
    text = re.split(r"\n[A-Z].*\n-{3,}\n", docs[name])[0].strip()
    shown = name if is_method else f"ab.{name}"
    return [Section("Python reference", shown, (*text.split("\n\n"), f"`help({shown})` shows all of it."))]


def _lines(name: str) -> list[Section]:
    """The lines of docstrings that describe a column or a parameter."""
    if "." in name:
        return []
    line = re.compile(rf"^ *{re.escape(name)}(?: +:? *|, \w+ +)(\S.*(?:\n +\S.*)*?)$", re.MULTILINE)
    found = [(key, " ".join(match[1].split())) for key, text in _docstrings().items() if (match := line.search(text))]
    return [Section("Python reference", f"ab.{key}", (f"`{name}`, in `ab.{key}`: {text}",)) for key, text in found]


def _blocks(name: str, sections: Sequence[Section]) -> list[Section]:
    """The section that has a name in its title, at the head of a row, or in code."""
    code = re.compile(rf"`[^`\n]*(?<![\w.]){re.escape(name)}(?!\w)[^`\n]*`|(?<!\w){re.escape(name)}(?!\w)")
    head = re.compile(rf"^(?:\||- )\s*`?{re.escape(name)}\b", re.MULTILINE)
    found = []
    for section in sections:
        blocks = tuple(block for block in section.blocks if code.search(block))
        if blocks or name in section.title:
            order = (name not in section.title, not any(map(head.search, blocks)))
            found.append((order, Section(section.page, section.title, blocks or section.blocks)))
    return [section for _, section in sorted(found, key=lambda each: each[0])][:1]


@cache
def _docstrings() -> dict[str, str]:
    """The docstrings of the public names and their public methods, by name."""
    homes: dict[str, str] = import_module("agentbook")._HOMES
    return dict(entry for home in dict.fromkeys([*homes.values(), *_PREFIXES]) for entry in _of_module(home, homes))


def _of_module(home: str, homes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    path = _PACKAGE.joinpath(*home.split("."))
    files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    for node in (node for file in files for node in ast.parse(file.read_text("utf-8")).body):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if home in _PREFIXES or homes.get(node.name) == home:
            yield f"{_PREFIXES.get(home, '')}{node.name}", ast.get_docstring(node) or ""
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    yield f"{node.name}.{method.name}", ast.get_docstring(method) or ""
