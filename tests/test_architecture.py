"""The house itself: who may import whom, what `import agentbook` costs, and which names it offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentbook

SRC = Path(agentbook.__file__).parent
# A package imports only from those before it. `service` stands apart: see test_service_and_client_meet_in_local_alone.
ROAD = ["api", "events", "frames", "listing", "nouns", "client", "chat"]


def imported(path: Path) -> set[str]:
    """The agentbook packages a module imports, `TYPE_CHECKING` blocks included."""
    found = set()
    package = ("agentbook", *path.relative_to(SRC).parent.parts)
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            root = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{root}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("agentbook.")}
    return found


def modules(package: str) -> list[Path]:
    folder = SRC / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


@pytest.mark.parametrize("package", ROAD)
def test_a_package_imports_only_from_those_above_it(package: str) -> None:
    allowed = set(ROAD[: ROAD.index(package) + 1])
    wrong = {
        str(path.relative_to(SRC)): bad
        for path in modules(package)
        if (bad := imported(path) & {*ROAD, "service", "embedded", "cli"} - allowed)
    }
    assert wrong == {}


def test_service_and_client_meet_in_local_alone() -> None:
    wrong = {
        str(path.relative_to(SRC)): bad
        for path in modules("service")
        if (bad := imported(path) - {"service", "__version__", "_file_lock"})
    }
    assert wrong == {}


def test_httpx_is_touched_in_one_module() -> None:
    touching = [
        path.relative_to(SRC).as_posix()
        for package in ROAD
        for path in modules(package)
        if "import httpx" in path.read_text() or "from httpx" in path.read_text()
    ]
    assert touching == ["api/http_client.py"]


def test_importing_agentbook_is_light() -> None:
    heavy = {
        "pandas",
        "pyarrow",
        "websockets",
        "ipywidgets",
        "altair",
        "starlette",
        "sqlalchemy",
        "nest_asyncio",
        "nest_asyncio2",
        "httpx",
    }
    code = "import sys, agentbook; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert heavy.isdisjoint(loaded)


def test_making_a_client_is_light() -> None:
    code = (
        "import sys, agentbook; agentbook.Client('http://h/v1'); print(*sorted({n.split('.')[0] for n in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"pandas", "pyarrow", "websockets", "ipywidgets", "httpx", "starlette"}.isdisjoint(loaded)


def test_every_public_name_is_there_and_listed() -> None:
    for name in dir(agentbook):
        assert getattr(agentbook, name) is not None, name
    assert set(agentbook._HOMES) == set(agentbook.__all__)


def test_the_error_classes_are_all_listed_by_their_module_and_not_by_the_package() -> None:
    errors = {
        name
        for name, value in vars(agentbook.errors).items()
        if isinstance(value, type)
        and issubclass(value, (agentbook.AgentbookError, UserWarning))
        and value.__module__.startswith("agentbook")
    }
    assert errors == set(dir(agentbook.errors))
    assert errors.isdisjoint(dir(agentbook))
    assert agentbook.NotFound is agentbook.errors.NotFound


@pytest.mark.parametrize(
    ("misspelt", "name"), [("ChatPannel", "ChatPanel"), ("turn", "turns"), ("NotFond", "NotFound")]
)
def test_a_misspelt_name_suggests_the_nearest(misspelt: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"agentbook has no attribute '{misspelt}'; did you mean '{name}'"):
        getattr(agentbook, misspelt)


def test_a_name_like_no_other_lists_the_names_that_exist() -> None:
    with pytest.raises(AttributeError, match="it has: ApiKey, AsyncClient, "):
        agentbook.xyz  # noqa: B018


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: path.relative_to(SRC).as_posix())
def test_every_module_says_what_lives_there(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), path
