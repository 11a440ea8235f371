"""Every public function takes whatever is tabular, and says what to pass instead of
anything else.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import inspect
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pytest

import agentbook as ab
import agentbook.frames
from agentbook.frames.export import to_arrow
from agentbook.frames.tabular import frame_of
from frames.analyses import AS_OF, OF_EVENTS, same
from support.fake_platform.core import event_id

EVENTS = [
    {
        "id": event_id(9000 * n, n), "created_at": f"2026-10-03T08:{n:02d}:00Z", "content": {"text": "?"},
        **({"type": "message", "author": {"type": "user", "id": "u"}} if n % 2 == 0 else {"type": "runtime_done"}),
    }
    for n in range(6)
]  # fmt: skip
ITEMS: dict[str, list[dict[str, Any]]] = {
    "events": EVENTS,
    "credentials": [{"id": "c1", "integration": "github", "owner_id": "o", "webhook_enabled": True}],
    "workspaces": [{"id": "w1", "name": "lab", "owner_id": "o", "created_at": "2026-10-03T08:15:00Z"}],
    "contexts": [{"id": "x1", "status": "DRAFT", "created_at": "2026-10-03T08:15:00Z"}],
    "sessions": [{"id": "s1", "workspace_id": "w1"}],
}
LISTS: dict[str, Callable[[Any], Any]] = {
    "events": lambda client: client.sessions.events("s1"),
    "credentials": lambda client: client.credentials.list("acme"),
    "workspaces": lambda client: client.workspaces.list("acme"),
    "contexts": lambda client: client.workspaces.contexts("w1"),
    "sessions": lambda client: client.sessions.list("w1"),
}


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("openapi.yaml"):
        return httpx.Response(200, text="paths: {'/workspaces/{w}/sessions': {get: {}}}")
    items = ITEMS[request.url.path.rpartition("/")[2]]
    return httpx.Response(200, json={"items": items, "pagination": {"total_count": len(items), "has_more": False}})


def listing(resource: str) -> Any:
    return LISTS[resource](ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer))))


def awaited(resource: str) -> Any:
    transport = httpx.MockTransport(answer)
    return LISTS[resource](ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=transport)))


@functools.cache
def loaded(resource: str) -> pd.DataFrame:
    frame: pd.DataFrame = listing(resource).to_pandas()
    frame.attrs["agentbook"]["loaded_at"] = "2026-11-01T00:00:00+00:00"
    return frame


def public_functions() -> dict[str, Callable[..., Any]]:
    """The analyses and charts, by the names their messages use."""
    functions = {name: getattr(ab, name) for name in ab.__all__} | {
        f"plot.{name}": getattr(ab.plot, name) for name in ab.plot.__all__
    }
    homes = ("agentbook.frames.analysis", "agentbook.frames.plot")
    return {
        name: call for name, call in functions.items() if inspect.isfunction(call) and call.__module__.startswith(homes)
    }


def to_polars(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_arrow(to_arrow(frame))


KINDS: dict[str, Callable[[pd.DataFrame, str], Any]] = {
    "listing": lambda _frame, resource: listing(resource),
    "history": lambda frame, resource: SimpleNamespace(
        **{resource: frame}, turns=ab.turns(frame, texts=True) if resource == "events" else None
    ),
    "pandas": lambda frame, _resource: frame,
    "pandas with Arrow's dtypes": lambda frame, _resource: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda frame, _resource: to_polars(frame),
    "table": lambda frame, _resource: to_arrow(frame),
    "batch": lambda frame, _resource: to_arrow(frame).combine_chunks().to_batches()[0],
    "reader": lambda frame, _resource: to_arrow(frame).to_reader(),
    "to_pandas": lambda frame, _resource: SimpleNamespace(to_pandas=lambda: frame),
}
TAKES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{name: ("events", call) for name, call in OF_EVENTS.items()},
    "with_cost": ("events", lambda data: ab.with_cost(data, {"*": (1, 2)})),
    "topics": ("events", lambda data: ab.topics(data).frame),
    "plot.credentials": ("credentials", ab.plot.credentials),
    "with_sessions": ("events", lambda data: ab.with_sessions(data, loaded("sessions"))),
    "with_sessions (sessions)": ("sessions", lambda data: ab.with_sessions(loaded("events"), data)),
    "credential_report": ("credentials", lambda data: ab.credential_report(data, as_of=AS_OF)),
    "credential_report (workspaces)": (
        "workspaces", lambda data: ab.credential_report(loaded("credentials"), data, as_of=AS_OF)
    ),
    "credential_report (candidates)": (
        "credentials", lambda data: ab.credential_report(loaded("credentials"), candidates=data, as_of=AS_OF)
    ),
    "credential_summary": ("credentials", lambda data: ab.credential_summary(data, as_of=AS_OF)),
    "context_status": ("contexts", lambda data: ab.context_status(data, as_of=AS_OF)),
}  # fmt: skip


def required_parameters(call: Callable[..., Any]) -> int:
    return sum(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        for parameter in inspect.signature(call).parameters.values()
    )


TAKES = {
    **{name: ("events", call) for name, call in public_functions().items() if required_parameters(call) == 1},
    **TAKES,
}
del TAKES["credential_findings"], TAKES["failure_modes"]  # of a report, and of labels


def table_of(result: Any) -> pd.DataFrame:
    """A frame, or the rows of a chart."""
    return result if isinstance(result, pd.DataFrame) else result.data  # type: ignore[no-any-return]


def pairs() -> list[tuple[str, str]]:
    """Each function with a kind of tables, and each kind with some functions.

    One place reads them all: what has to be shown of a function is that it asks there.
    """
    return list(zip(TAKES, itertools.cycle(KINDS)))


@functools.cache
def expected(name: str) -> pd.DataFrame:
    resource, call = TAKES[name]
    return table_of(call(loaded(resource)))


@pytest.mark.parametrize(("name", "kind"), pairs())
def test_a_function_takes_every_kind_of_table(name: str, kind: str) -> None:
    resource, call = TAKES[name]
    table = table_of(call(KINDS[kind](loaded(resource), resource)))
    if kind == "history":  # its turns have texts, too
        assert {*table} - {*expected(name)} <= {"prompt", "reply"}
        table = table[[*expected(name)]]
    same(table, expected(name))


@pytest.mark.parametrize("name", TAKES)
def test_anything_else_is_answered_with_the_call_that_makes_a_table(name: str) -> None:
    resource, call = TAKES[name]
    for wrong in (None, "s1", [], ITEMS[resource], {"id": ["e1"]}, ab.Client("https://h/v1"), pd.Series(["e1"])):
        if name.endswith(")") and wrong is None:
            continue
        with pytest.raises(TypeError) as raised:
            call(wrong)
        message = str(raised.value)
        assert message.startswith(f"{name.partition(':')[0]} needs a DataFrame, not a {type(wrong).__name__}: ")
        assert message.endswith(" makes one.")
        assert "ab.load_events(client" in message or ".to_pandas()" in message


@pytest.mark.parametrize("name", ["turns", "plot.credentials", "with_sessions (sessions)", "context_status"])
def test_a_list_of_an_async_client_is_to_be_awaited(name: str) -> None:
    resource, call = TAKES[name]
    with pytest.raises(TypeError, match=r"not a AsyncListing: await its to_pandas\(\) first"):
        call(awaited(resource))
    coroutine = awaited(resource).to_pandas()
    with pytest.raises(TypeError, match=r"not a coroutine: await it first"):
        call(coroutine)
    coroutine.close()
    call(asyncio.run(awaited(resource).to_pandas()))


def test_a_frame_keeps_its_provenance_and_a_table_gives_it_back() -> None:
    frame = loaded("events")
    for kind in ("pandas", "table", "reader"):
        assert frame_of(KINDS[kind](frame, "events"), caller="turns").attrs == frame.attrs


def test_times_are_utc_and_texts_are_strings_whatever_sends_them() -> None:
    table = pa.table(
        {
            "at": pa.array([0], pa.timestamp("ns", tz="Asia/Tokyo")), "text": pa.array(["a"], pa.string_view()),
            "tags": pa.array([["a"]], pa.large_list(pa.string())), "count": pa.array([1], pa.uint8()),
            "kind": pa.array(["a"]).dictionary_encode(), "nothing": pa.nulls(1),
        }
    )  # fmt: skip
    dtypes = {name: str(dtype) for name, dtype in frame_of(table, caller="turns").dtypes.items()}
    assert dtypes == {
        "at": "datetime64[us, UTC]", "text": "str", "tags": "list<item: large_string>[pyarrow]", "count": "Int64",
        "kind": "category", "nothing": "str",
    }  # fmt: skip


def test_a_lazy_frame_is_to_be_computed_first() -> None:
    with pytest.raises(TypeError, match=r"not a Store: call its history\(\) first"):
        ab.usage(ab.Store("none"))
    lazy = SimpleNamespace(collect=lambda: None)
    with pytest.raises(TypeError, match=r"not a SimpleNamespace: call its collect\(\) first"):
        ab.turns(lazy)


def test_a_reader_that_fails_says_why() -> None:
    def batches() -> Any:
        yield pa.record_batch({"id": ["e1"]})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.string()}), batches())
    with pytest.raises(OSError, match="the disk is gone"):
        ab.turns(reader)


def test_a_single_column_is_no_table() -> None:
    for column in (pa.chunked_array([["a"]]), pa.array(["a"])):
        with pytest.raises(TypeError, match=r"not a \w+Array: ab\.load_events\(client, sessions\) makes one"):
            ab.turns(column)


def test_an_older_pandas_is_named_as_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    [bound] = [text for text in importlib.metadata.requires("agentbook") or () if text.startswith("pandas>")]
    assert bound == "pandas>=3.0"
    monkeypatch.setattr(pd, "__version__", "2.3.3")
    with pytest.warns(UserWarning, match=r"2\.3\.3.*'pandas>=3\.0'"):
        importlib.reload(agentbook.frames)
