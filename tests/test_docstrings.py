"""The docstrings are the reference: each documents its parameters, result and errors.

Their examples run offline, against the embedded service with a seeded store, with the
names of `NAMESPACE`. None is skipped.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from agentbook import doctor
from agentbook.listing import AsyncListing, Listing
from service.process import Service

ROOT = Path(__file__).parents[1]
SRC = Path(ab.__file__).parent
PARTS = re.findall(r"^== (.+)$", (ROOT / "tests/service/specification.txt").read_text(), re.MULTILINE)
NOUNS = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Names that examples can use, in addition to those of their module.
NAMESPACE = """
    ab, pd      agentbook and pandas
    client      a client of the embedded service
    session     a chat with the agent `guide` that has been answered once
    events      the events frame of three sessions
    store       a local store that holds them
    folder      an empty folder
"""


@dataclass(frozen=True)
class Name:
    """A public name: its path, its value, and the class it belongs to."""

    path: str
    value: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        return inspect.cleandoc(self.value.__doc__ or "")

    @property
    def owners_text(self) -> str:
        """The docstrings of its class and of that class's bases."""
        kind = self.owner or (self.value if inspect.isclass(self.value) else object)
        return "\n".join(
            inspect.cleandoc(base.__doc__ or "") for base in kind.__mro__ if "agentbook" in base.__module__
        )

    @property
    def call(self) -> Callable[..., Any] | None:
        """The function to check; None if this cannot be called."""
        value = self.value
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        value = getattr(value, "build", value)  # an endpoint of a resource
        if inspect.isfunction(value):
            return value
        made_elsewhere = self.is_error or re.search(r"\bMade by\b", self.text)
        return value.__init__ if inspect.isclass(value) and not made_elsewhere else None

    @property
    def is_error(self) -> bool:
        return inspect.isclass(self.value) and issubclass(self.value, BaseException)

    @property
    def referred(self) -> str | None:
        """The name that its docstring refers to, as in "As `Client.run`, awaited."."""
        match = re.match(r"As `([\w.]+)`", self.text)
        if match is None:
            return None
        return match[1] if "." in match[1] or self.owner is None else f"{self.path.rpartition('.')[0]}.{match[1]}"

    def section(self, title: str) -> str:
        """The text below a numpydoc heading; empty if there is none."""
        match = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-{{3,}}\n|\Z)", self.text, re.MULTILINE | re.DOTALL)
        return match[1] if match else ""


def members(path: str, kind: type) -> Iterator[Name]:
    """A class, and the members that it and its agentbook bases define."""
    yield Name(path, kind)
    ours = [base for base in kind.__mro__ if base.__module__ in (kind.__module__, "agentbook.api.connection")]
    for name in dict.fromkeys(name for base in ours for name in vars(base)):
        value = inspect.getattr_static(kind, name)
        described = (
            isinstance(value, (property, classmethod, staticmethod))
            or inspect.isfunction(value)
            or hasattr(value, "build")
        )
        if not name.startswith("_") and described and not hasattr(BaseException, name):
            yield Name(f"{path}.{name}", value, kind)


def public() -> Iterator[Name]:
    """Every public name: of the package, its modules, clients' resources, and lists."""
    for name in (*ab.__all__, *ab.errors.__all__):
        value = getattr(ab, name)
        if inspect.ismodule(value):
            for inner in value.__all__:
                kind = getattr(value, inner)
                yield from (
                    members(f"{name}.{inner}", kind) if inspect.isclass(kind) else [Name(f"{name}.{inner}", kind)]
                )
        elif inspect.isclass(value):
            yield from members(name, value)
        else:
            yield Name(name, value)
    client = ab.Client("http://127.0.0.1:9/v1")
    for noun in NOUNS:
        yield from list(members(f"client.{noun}", type(getattr(client, noun))))[1:]
    client.close()
    yield from members("Listing", Listing)
    yield from members("AsyncListing", AsyncListing)
    yield from [Name("doctor.examine", doctor.examine)]


NAMES = {name.path: name for name in public()}
UNITS = re.compile(
    r"second|hour|minute|day|millisecond|byte|character|how many|at most|number of|count|times|skipped|pixel|width|height|factor|"
    r"share|percent|port\b|from 0|from 1|between 0|seed|speed|per\b|rows|open at a time|how often|as for `",
    re.IGNORECASE,
)


def problems_of(name: Name) -> Iterator[str]:
    """What a docstring lacks."""
    if not re.match(r"[A-Z`%0-9].*[.:;,]$", name.text.partition("\n")[0]):
        yield "its first line is not a sentence"
        return
    if name.referred is not None:
        if name.referred not in NAMES or NAMES[name.referred].referred:
            yield f"it refers to `{name.referred}`, which does not exist"
        return
    both = f"{name.text}\n{name.owners_text}"
    quoted = re.findall(r'"([^"]+)"', " ".join(re.findall(r"Specification: ((?:[^\n]|\n(?!\n))*)", both)))
    if quoted and not {part.partition(",")[0] for part in quoted} & set(PARTS):
        yield "what it names is no part of the specification"
    if name.call is None:
        return
    yield from wrong_parameters(name)
    taken = parameters_of(name)
    if taken and not re.search(r"Raises\n---|[Rr]aises nothing|not raised", name.text):
        yield "it does not say what it raises"
    returned = str(inspect.signature(name.call).return_annotation)
    if "DataFrame" in returned and not re.search(r"={3,} +={3,}|[Cc]olumns|``\w+``|`results`", name.section("Returns")):
        yield "it returns a frame, and its Returns does not say which columns"
    short = name.path.rpartition(".")[2]
    if taken and ">>>" not in name.text and not re.search(rf"(?:>>>|``).*\b{short}\(", both):
        yield "it has no example, and the class it belongs to has none that calls it"


def parameters_of(name: Name) -> list[inspect.Parameter]:
    assert name.call is not None
    return [
        p
        for p in inspect.signature(name.call).parameters.values()
        if p.name not in ("self", "cls") and p.name[0] != "_"
    ]


def wrong_parameters(name: Name) -> Iterator[str]:
    section = name.section("Parameters") + name.section("Attributes")
    entries = re.split(r"^(?=[\w*`])", section, flags=re.MULTILINE)
    for parameter in parameters_of(name):
        entry = next(
            (e for e in entries if re.search(rf"(?:^|[\s,*`]){parameter.name}\b", e.split(":")[0].split("\n")[0])), None
        )
        if entry is None:
            yield f"its parameter {parameter.name} is not described"
        elif re.search(r"\b(int|float)\b", str(parameter.annotation)) and not UNITS.search(entry + parameter.name):
            yield f"its number {parameter.name} has no unit"


def test_every_public_name_documents_parameters_result_and_errors() -> None:
    problems = {path: list(problems_of(name)) for path, name in NAMES.items()}
    assert {path: found for path, found in problems.items() if found} == {}


# -- the examples --


def modules() -> Iterator[str]:
    for path in sorted(SRC.rglob("*.py")):
        # The wheel carries docs/, with what builds the site; Sphinx is not here.
        if path.relative_to(SRC).parts[0] != "docs" and ">>>" in path.read_text():
            parts = path.relative_to(SRC.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("docstrings") / "data"
    with Service(data, "--seed", "7", "--speed", "0") as running:
        before = os.environ["AGENTBOOK_DATA"]
        os.environ["AGENTBOOK_DATA"] = str(data)  # used by connect(), here and in processes that examples start
        yield running
        os.environ["AGENTBOOK_DATA"] = before
        running.stop()


@pytest.fixture(scope="module")
def namespace(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    import pandas as pd

    # Many examples begin with the same history.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(ab, "load_history", functools.cache(ab.load_history))
    monkeypatch.setenv("AGENTBOOK_SESSION_LOG", str(tmp_path_factory.mktemp("session_log") / "sessions.jsonl"))
    with ab.connect() as client:
        session = client.sessions.start("acme~playground", agent_id="acme~guide", prompt="What is a turn?")
        client.sessions.ask(session.id, "And an event?", timeout_s=60)
        events = ab.load_events(client, client.sessions.list("acme~support", limit=3))
        store = ab.Store(tmp_path_factory.mktemp("store"))
        store.sync(client, client.sessions.list("acme~support", limit=3))
        yield {"ab": ab, "pd": pd, "client": client, "session": session, "events": events, "store": store}
    monkeypatch.undo()


def run(test: doctest.DocTest) -> str:
    """The doctest report of a failed example; empty if all examples passed."""
    report: list[str] = []
    before = dict(test.globs)
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.append, clear_globs=False)
    close_new_clients(before, test.globs)
    return "".join(report)


def close_new_clients(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Close the clients that an example created."""
    for name, value in after.items():
        if isinstance(value, ab.Client) and value is not before.get(name):
            value.close()


@pytest.mark.parametrize("module", list(modules()))
def test_the_examples_run(module: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    loaded = importlib.import_module(module)
    # The service's own examples need no platform.
    names = (
        {} if module.startswith("agentbook.service") else dict(request.getfixturevalue("namespace"), folder=tmp_path)
    )
    tests = [
        test
        for test in doctest.DocTestFinder(exclude_empty=True).find(loaded, globs={**names, **vars(loaded)})
        if test.examples
    ]
    assert tests, "the file has >>>, but not in a docstring"
    assert not [e.source for test in tests for e in test.examples if doctest.SKIP in e.options]
    if report := "".join(map(run, tests)):
        pytest.fail(report, pytrace=False)
