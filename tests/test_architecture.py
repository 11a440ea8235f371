"""The architecture: which module may import which.

Every import statement counts: those inside functions and those under `TYPE_CHECKING`
too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import agentbook

SRC = Path(agentbook.__file__).parent

# From top to bottom: a package imports only from itself and from those below it.
LAYERS = [
    *("cli", "mcp", "_queries", "doctor", "jupyterlab", "_connect", "embedded", "chat", "promptfoo", "evaluation"),
    *("client", "resources", "listing"),
    *("live", "frames", "events", "api", "_masking", "_text", "_files", "agents"),
]
CHAT_LAYERS = [
    *("magics", "replay", "panel", "prompt_lab", "compare", "explorer", "widgets", "model", "html"),
    # What is drawn: a turn, its steps, and an error in words.
    *("model.exchange", "model.user_errors"),
    "assets",
]
FRAMES_LAYERS = [
    *("store", "formats.read", "history", "dask", "session_log", "analysis.modes", "labels", "plot", "load", "export"),
    *("formats", "analysis", "tabular", "parse"),
]
SERVICE_LAYERS = [
    *("http", "admin", "pages", "oauth"),
    # What the pages and OAuth share: who looks at a page, and how it is rendered.
    *("pages.visitor", "pages.html"),
    *("operations", "members", "state", "faults", "web"),
    # The processes on one PostgreSQL know the turns, which know their interface.
    *("cluster.postgres", "cluster.delivery", "cluster.drafts", "cluster.bus", "cluster.lease", "turns"),
    *("demo", "engines.registry", "engines.llm", "engines"),
    *("auth", "contract", "cluster", "store", "errors", "text", "store.event_json", "demo.manual"),
]
# Below both the client and the service: the version, what agents give, files and texts.
SHARED = {"agentbook", "agentbook.agents", "agentbook._files", "agentbook._masking", "agentbook._text"}
# These start the service, or manage its data.
USES_THE_SERVICE = {"cli", "doctor", "jupyterlab", "_connect", "embedded"}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, by its full name."""
    return {
        ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files_of(SRC)
    }


def files_of(folder: Path) -> list[Path]:
    """The Python files of a folder, but what builds the site: a wheel carries docs/."""
    return [path for path in sorted(folder.rglob("*.py")) if path.relative_to(folder).parts[0] != "docs"]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that `module` imports, anywhere in its code."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                names.add(full if full in modules() else origin)
    return frozenset(names & modules().keys() - {module})


def layer_violations(package: str, layers: list[str]) -> list[str]:
    """Imports between the layers of a package that run upward."""

    def rank(module: str) -> int | None:
        name = module.removeprefix(f"{package}.")
        names = [layer for layer in layers if name == layer or name.startswith(f"{layer}.")]
        return layers.index(max(names, key=len)) if names and name != module else None

    return [
        f"{module} imports {imported}"
        for module in modules()
        for imported in imports(module)
        if (upper := rank(imported)) is not None and (lower := rank(module)) is not None and upper < lower
    ]


@pytest.mark.parametrize(
    ("package", "layers"),
    [
        ("agentbook", LAYERS),
        ("agentbook.frames", FRAMES_LAYERS),
        ("agentbook.chat", CHAT_LAYERS),
        ("agentbook.service", SERVICE_LAYERS),
    ],
)
def test_a_package_imports_only_from_those_below_it(package: str, layers: list[str]) -> None:
    assert {f"{package}.{layer}" for layer in layers} <= modules().keys(), "a layer that is not there checks nothing"
    assert layer_violations(package, layers) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: imports(module) for module in modules()}).prepare()  # else its error has the circle


@pytest.mark.parametrize(
    ("package", "libraries"),
    [
        ("agentbook.chat.model", {"ipywidgets", "IPython", "anywidget"}),
        ("agentbook.chat.html", {"ipywidgets", "anywidget"}),
    ],
)
def test_models_and_html_know_no_widget_library(package: str, libraries: set[str]) -> None:
    assert [name for name in modules() if name.startswith(package) and foreign(name) & libraries] == []


def foreign(module: str) -> set[str]:
    """The top-level names of the other libraries that a module imports."""
    names = set()
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_the_service_and_the_client_import_nothing_of_each_other() -> None:
    def outside(module: str) -> bool:
        return module not in SHARED and not module.startswith("agentbook.service")

    upward = [
        f"{module} imports {imported}"
        for module in modules()
        for imported in imports(module)
        if module.startswith("agentbook.service") and outside(imported)
    ]
    users = {
        module.split(".")[1]
        for module in modules()
        for imported in imports(module)
        if imported.startswith("agentbook.service") and outside(module)
    }
    assert upward == []
    assert users <= USES_THE_SERVICE


@pytest.mark.parametrize("module", ["agentbook.cli.evaluate", "agentbook.pytest_plugin"])
def test_a_file_is_evaluated_without_panels_and_their_html(module: str) -> None:
    assert {name for name in imports(module) if name.startswith("agentbook.chat")} == set()


def test_one_module_knows_the_http_library() -> None:
    libraries = {"httpx", "httpx2", "httpcore2"}
    assert [name for name in modules() if foreign(name) & libraries] == ["agentbook.api.transport"]


def test_a_service_on_sqlite_loads_nothing_of_postgresql() -> None:
    """The service of a notebook is on SQLite, where memory is short (Binder)."""
    users = {
        name
        for name, path in modules().items()
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom | ast.Import)
        and re.search(r"postgres|psycopg", ast.unparse(node))
        and not name.startswith("agentbook.service.cluster.")
    }
    assert users == set()


def loaded_after(code: str) -> set[str]:
    """The modules that an interpreter has loaded after running `code`."""
    script = f"import sys, agentbook; {code}; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    )


def test_there_are_few_public_names() -> None:
    assert len(agentbook.__all__) == len(set(agentbook.__all__)) <= 66


@pytest.mark.parametrize("code", ["pass", "agentbook.Client('https://h/v1')"])
def test_importing_agentbook_and_making_a_client_are_light(code: str) -> None:
    heavy = {"pandas", "pyarrow", "websockets", "ipywidgets", "anywidget", "altair", "starlette", "sqlalchemy"}
    heavy |= {"nest_asyncio", "nest_asyncio2", *(["httpx2"] if code == "pass" else [])}
    assert loaded_after(code).isdisjoint(heavy)


def test_a_list_of_agents_loads_a_small_part() -> None:
    """README has the figure: who reads the API layer first reads this much."""
    page = {"items": [{"id": "a"}], "pagination": {"has_more": False}}
    http = f"httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, json={page!r})))"
    code = f"import httpx2; list(agentbook.Client('https://h/v1', http_client={http}).agents.list())"
    loaded = loaded_after(code)
    files = [modules()[name] for name in loaded if name.partition(".")[0] == "agentbook"]
    assert len(files) <= 28
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= 8_100
    assert loaded.isdisjoint({"pandas", "numpy", "pyarrow"})


def test_every_module_says_what_lives_there() -> None:
    assert [module for module, path in modules().items() if not ast.get_docstring(tree_of(path))] == []


def test_no_wait_swallows_a_cancellation() -> None:
    """On Python 3.11, `asyncio.wait_for` may; `asyncio.timeout` does not."""
    assert [path.name for path in files_of(SRC) if "asyncio.wait_for(" in path.read_text("utf-8")] == []


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5, such as Debian's, reads one that can backtrack wrongly."""
    harmless = r'(?:\\.[^"\\]*+)*+'
    texts = {path.name: path.read_text(encoding="utf-8").replace(harmless, "") for path in files_of(SRC)}
    assert [name for name, text in texts.items() if re.search(r"\)[+*?]\+(?!,;=)", text)] == []


def test_no_python_that_is_started_imports_from_the_current_folder() -> None:
    """It may be one that somebody cloned, with an ``agentbook.py`` in it."""
    lists = [node for path in files_of(SRC) for node in ast.walk(tree_of(path)) if type(node) is ast.List]
    commands = [ast.unparse(node) for node in lists]
    started = [command for command in commands if command.startswith("[sys.executable,")]
    assert started
    assert [command for command in started if not command.startswith("[sys.executable, '-P',")] == []
