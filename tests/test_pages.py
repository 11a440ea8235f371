"""All names in the manual and the README exist: attributes, arguments, options."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import agentbook as ab
from agentbook.cli import main
from agentbook.evaluation.file import read_lab
from agentbook.service.demo.manual import ORDER, manual, order
from frames.plot.test_plot import events_of

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
PAGES["README.md"] = (ROOT / "README.md").read_text("utf-8")
PROSE = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
# What these names mean on every page.
NAMES: dict[str, Any] = {
    "ab": ab,
    "client": ab.Client("https://host.example/v1"),
    "panel": ab.ChatPanel,
    "compare": ab.Compare,
    "explorer": ab.Explorer,
    "lab": ab.PromptLab,
    "store": ab.Store,
    "conversation": ab.Conversation,
    "turn": ab.Turn,
    "chart": type(ab.plot.failures(events_of(5))),
}
NO_ATTRIBUTES = {"lab": {"json"}}  # lab.json is a file


def code(page: str) -> Iterator[str]:
    """A page's Python blocks, and the inline code that is Python."""
    yield from re.findall(r"^```python[^\n]*\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    for inline in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)):
        try:
            ast.parse(inline)
        except SyntaxError:
            continue
        yield inline


def resolve(node: ast.expr) -> tuple[bool, Any]:
    """Whether an expression starts with one of `NAMES`, and its value.

    Results of calls are not followed.
    """
    if isinstance(node, ast.Name):
        return node.id in NAMES, NAMES.get(node.id)
    if not isinstance(node, ast.Attribute):
        return False, None
    known, owner = resolve(node.value)
    if not known or isinstance(owner, property) or node.attr in NO_ATTRIBUTES.get(getattr(node.value, "id", ""), ()):
        return False, None
    try:
        return True, inspect.getattr_static(owner, node.attr) if inspect.isclass(owner) else getattr(owner, node.attr)
    except AttributeError:
        # Dataclass fields without a default, and attributes set by __init__, are not
        # attributes of the class.
        classes = [each for each in getattr(owner, "__mro__", ()) if each.__module__.startswith("agentbook")]
        if any(
            node.attr in inspect.get_annotations(each)
            or re.search(rf"\bself\.{node.attr}\b(: [^=\n]+)? = ", inspect.getsource(each))
            for each in classes
        ):
            return False, None
        raise AssertionError(f"there is no {ast.unparse(node)}") from None


def problems(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            try:
                resolve(node)
            except AssertionError as error:
                yield str(error)
        elif isinstance(node, ast.Call):
            try:
                known, target = resolve(node.func)
            except AssertionError:
                continue  # reported above
            if not known or not callable(target):
                continue
            parameters = inspect.signature(target).parameters
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
                continue
            for keyword in node.keywords:
                if keyword.arg and keyword.arg not in parameters:
                    yield f"{ast.unparse(node.func)} takes no {keyword.arg}="


@pytest.mark.parametrize("name", PAGES)
def test_the_python_names_on_a_page_exist(name: str) -> None:
    assert [f"{problem}: {source}" for source in code(PAGES[name]) for problem in problems(source)] == []


def test_a_prompt_lab_has_few_public_names_each_on_a_page() -> None:
    names = {name for name in dir(ab.PromptLab(NAMES["client"])) if not name.startswith("_")}
    assert len(names) <= 40
    assert names - set(re.findall(r"\b(?:lab|experts|PromptLab)\.(\w+)", "".join(PAGES.values()))) == set()


def options_of(command: click.Command) -> set[str]:
    own = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    if isinstance(command, click.Group):
        return own.union(*(options_of(subcommand) for subcommand in command.commands.values()))
    return own


def test_the_files_that_the_pages_for_contributors_name_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = {path for path in re.findall(r"`([\w./-]+/[\w./-]*)`", text) if not path.startswith("how-to")}
    ways = (ROOT / "docs" / "about" / "architecture.md").read_text("utf-8")
    paths |= set(re.findall(r"^ *([\w/]+\.py) ", ways, re.MULTILINE))
    homes = (ROOT, ROOT / "src" / "agentbook", ROOT / "tests")
    missing = {
        path for path in paths if not any((home / path).exists() or (home / f"{path}.py").exists() for home in homes)
    }
    assert len(paths) > 30
    assert missing == set()


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_and_options_on_a_page_exist(name: str) -> None:
    text = "\n".join(re.findall(r"`[^`]+`|^.*agentbook .*$", PAGES[name], re.MULTILINE))
    for line in re.findall(r"\bagentbook ([a-z]+(?: [^`\n|#]*)?)", text):
        command: click.Command = main
        for word in re.findall(r'"[^"]*"|\S+', line):
            word = word.strip('"')
            found = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
            if found is None:
                break
            command = found
        if command is main:
            continue  # prose: "agentbook ships the platform"
        assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= options_of(command), line


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.rst"))
    listed = set(re.findall(r"^   (\w+)$", pages, re.MULTILINE))
    for owner in (ab, ab.checks, ab.dask, ab.errors, ab.plot, ab.session_log):
        public = {name for name in owner.__all__ if not inspect.ismodule(getattr(owner, name))}
        assert public <= listed, f"add to a page in docs/reference: {sorted(public - listed)}"


def test_every_chart_is_in_the_gallery() -> None:
    """The site's gallery shows the charts that cells of the notebooks have stored."""
    drawn: set[str] = set()
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if "data:image/svg+xml" in json.dumps(cell.get("outputs", ())):
                drawn |= set(re.findall(r"ab\.plot\.(\w+)\(", "".join(cell["source"])))
    assert set(ab.plot.__all__) <= drawn


def test_the_readme_names_ten_names_to_begin_with() -> None:
    section = PAGES["README.md"].partition("## Ten names to begin with")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `ab\.(\w+)` \|", section, re.MULTILINE)
    assert len(set(names)) == 10
    assert set(names) <= set(ab.__all__)


def test_every_page_of_the_manual_has_a_place_and_a_subject() -> None:
    listed = order((ROOT / "docs" / ORDER).read_text("utf-8"))
    pages = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
    assert sorted([*pages, "reference"]) == sorted(listed)
    assert {name: text.count("\n") for name, text in pages.items() if text.count("\n") > 250} == {}


def test_the_tables_of_notebooks_list_each_with_its_minutes() -> None:
    tables = PAGES["tutorials.md"] + PAGES["how-tos.md"]
    rows = re.findall(r"^\| \[[^\]]+\]\(\.\./notebooks/([^)]+)\) \| \d+ \| \S", tables, re.MULTILINE)
    assert sorted(rows) == sorted(
        path.relative_to(ROOT / "notebooks").as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb")
    )


def test_every_public_name_is_explained_on_a_page() -> None:
    text = "\n".join(block for section in manual().sections for block in section.blocks)
    assert [name for name in ab.__all__ if not re.search(rf"\bab\.{name}\b", text)] == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_prose_wraps_at_88_columns(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > 88 and not line.startswith(("|", "!["))] == []


def test_the_example_of_coming_from_openai_evals_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    item = {"ticket": "My screen is dark.", "label": "Hardware"}
    Path("data.jsonl").write_text(json.dumps({"item": item}) + "\n", "utf-8")
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGES["coming-from-openai-evals.md"], re.MULTILINE | re.DOTALL))
    Path("lab.yaml").write_text(blocks["yaml"], "utf-8")
    [text] = read_lab("lab.yaml").experiment.inputs
    assert text == "My screen is dark."
