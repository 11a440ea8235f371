"""Many sessions in one frame: complete and in order however they are read, with what
went wrong said.
"""

from __future__ import annotations

import itertools
import json
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.span import first_id_of
from agentbook.frames.load.session_ids import session_ids
from agentbook.frames.parse import frame as load
from agentbook.frames.parse import to_frame
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.001)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpPlatform, "page_limit", 10)


@pytest.mark.parametrize("connections", [1, 2, 8])
def test_long_and_short_sessions_are_whole_and_in_order(connections: int) -> None:
    platform = HttpPlatform(
        {"long": [event_id(n * n * 50, n) for n in range(400)], "empty": [], "one": [event_id(7, 1)]}
    )
    frame = ab.load_events(platform.client(), ["one", "long", "empty"], concurrency=connections)
    assert frame["id"].tolist() == platform.ids("one") + platform.ids("long")
    assert frame.attrs["agentbook"]["complete"] is True
    assert frame.attrs["agentbook"]["problem_count"] == 0
    assert frame.attrs["agentbook"]["requests"] == platform.requests == 45 + 1 + 1, "pages share an event"


def test_a_platform_that_takes_only_known_cursors_is_filtered_here() -> None:
    ids = [event_id(n * 100, n) for n in range(300)]
    platform = HttpPlatform({"long": ids}, known_cursors_only=True)
    frame = ab.load_events(platform.client(), "long", since=platform.moment(20_050))
    assert frame["id"].tolist() == ids[201:]
    assert frame.attrs["agentbook"]["complete"] is True
    events = platform.client().sessions.events("long", since=platform.moment(20_050))
    assert (len(events), [event["id"] for event in events]) == (99, ids[201:])
    assert [event["id"] for event in events[5:8]] == ids[206:209]
    assert events.to_pandas()["id"].tolist() == ids[201:]


def test_a_platform_that_says_no_totals_is_read_whole() -> None:
    platform = HttpPlatform({"long": [event_id(n * 100, n) for n in range(300)]}, totals=False)
    assert ab.load_events(platform.client(), "long")["id"].tolist() == platform.ids("long")


def test_a_platform_that_ignores_from_id_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpPlatform, "page_limit", 10)
    ids = [event_id(n, n) for n in range(33)]
    platform = HttpPlatform({"s": ids}, ignores_from_id=True, totals=False)
    frame = ab.load_events(platform.client(), "s", since=platform.moment(25), errors="keep")
    assert set(frame["id"]) <= set(ids[25:])
    assert frame.attrs["agentbook"]["complete"] is False


@given(
    times=st.lists(st.integers(0, 200_000), max_size=120),
    connections=st.integers(1, 6),
    page=st.integers(1, 20),
    since=st.integers(0, 200_000) | st.none(),
)
def test_each_event_comes_once(times: list[int], connections: int, page: int, since: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpPlatform, "page_limit", page)
        platform = HttpPlatform({"s": [event_id(at, n) for n, at in enumerate(times)]})
        moment = None if since is None else platform.moment(since)
        frame = ab.load_events(platform.client(), "s", since=moment, concurrency=connections)
    start = "" if since is None else first_id_of(platform.millisecond(since))
    assert frame["id"].tolist() == [event for event in platform.ids("s") if event > start]


def test_events_that_do_not_belong_are_named_and_kept() -> None:
    first, second = event_id(1, 1), event_id(2, 2)
    items = [{"id": second, "session_id": "s"}, {"id": first, "session_id": "other"}, {"id": first, "session_id": "s"}]
    body = json.dumps({"pagination": {"has_more": False, "total_count": 3}, "items": items}).encode()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=transport))
    frame = ab.load_events(client, ["s"])
    assert len(frame) == 3
    problems = [
        (problem["row"], problem["field"], problem["problem"].split(":")[0])
        for problem in frame.attrs["agentbook"]["problems"]
    ]
    assert problems == [
        (1, "session_id", "an event of a session that was not asked for"),
        (1, "id", "out of order"),
        (2, "id", "this id came twice"),
    ]


ODD_ITEMS: list[list[Any]] = [
    [],
    [{"id": event_id(5, 5), "created_at": "2026-10-03T08:15:00", "session_id": None}],
    [{"id": event_id(7, 7), "session_id": "other"}],
    [{"id": event_id(9, 9)}, {"id": event_id(9, 9)}, {"id": event_id(8, 8)}],
    [{"id": event_id(6, 6), "new": {"field": [1]}, "content": {"text": "t", "more": 1}}],
    [{"id": event_id(6, 6), "type": 5, "author": "nobody"}],
    [{"type": "message"}, "no object", {"id": None}],
    [{"id": "draft-1", "created_at": "once"}, {"id": event_id(1, 1), "content": "plain"}],
]


@pytest.mark.parametrize(("connections", "odd"), [(4, ODD_ITEMS), (1, ODD_ITEMS[:4])])
def test_small_sessions_read_together_make_the_rows_that_each_alone_makes(
    connections: int, odd: list[list[Any]]
) -> None:
    platform = HttpPlatform({})
    plain = [[platform.event(event_id(n, n)) for n in range(k, k + 4)] for k in range(30)]
    bodies = {
        f"s{n}": json.dumps({"items": items, "pagination": {"has_more": False}}).encode()
        for n, items in enumerate(plain)
    }
    bodies |= {
        f"odd{n}": json.dumps({"items": items, "pagination": {"has_more": False}}).encode()
        for n, items in enumerate(odd)
    }
    bodies |= {"nonsense": b"<html>", "cut": b'{"items": [{"id"', "again": bodies["s3"], "last": bodies["odd1"]}
    order = sorted(bodies, key=lambda name: hash_of(name))

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=bodies[request.url.path.split("/")[3]])

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    together = ab.load_events(client, order, errors="keep", concurrency=connections)
    alone = [ab.load_events(client, name, errors="keep") for name in order]
    rows = [row for frame in alone for row in frame.astype(object).where(frame.notna(), None).to_dict("records")]
    assert together.astype(object).where(together.notna(), None).to_dict("records") == rows
    starts = dict(zip(order, itertools.accumulate([0, *map(len, alone)]), strict=False))
    problems = [
        {**problem, "row": None if problem["row"] is None else problem["row"] + starts[name]}
        for name, frame in zip(order, alone, strict=True)
        for problem in frame.attrs["agentbook"]["problems"]
    ]
    assert together.attrs["agentbook"]["problems"] == problems
    assert {problem["problem"].split(":")[0] for problem in problems} >= {
        "no time zone",
        "an event of a session that was not asked for",
        "out of order",
        "this id came twice",
    }
    failed = {name for frame in alone for name in frame.attrs["agentbook"]["failed_sessions"]}
    assert set(together.attrs["agentbook"]["failed_sessions"]) == failed == {"nonsense", "cut"}


def hash_of(name: str) -> int:
    return zlib.crc32(name.encode())


def test_an_interrupt_keeps_the_small_sessions_that_have_arrived() -> None:
    platform = HttpPlatform({f"s{n}": [event_id(n, n)] for n in range(20)})
    names = list(platform.sessions)
    client = platform.client()
    requests = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        if requests == 13:
            raise KeyboardInterrupt
        return platform.respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(ab.PartialLoad) as raised:
        ab.load_events(client, names, concurrency=1)
    assert raised.value.partial_frame["session_id"].tolist() == names[:12]
    assert set(raised.value.problems) == set(names[12:])
    whole = raised.value.resume()
    assert whole["session_id"].tolist() == names
    assert platform.requests == 20  # what had arrived was not asked for again
    assert len(raised.value.partial_frame) == 12


def test_a_frame_of_many_batches_is_that_of_one() -> None:
    items = [HttpPlatform({}).event(event_id(n, n)) | {"type": f"kind {n // 100}"} for n in range(1000)]
    page = json.dumps({"items": items, "pagination": {}}).encode()
    builder = load.FrameBuilder("events", {"session_id": "s"})
    for _ in range(71):
        builder.add(page)
    frame = builder.finish()
    expected = pd.concat([to_frame("events", [page], context={"session_id": "s"})] * 71, ignore_index=True)
    pd.testing.assert_frame_equal(frame, expected)
    assert builder.to_arrow()["id"].num_chunks == 8


def test_sessions_are_named_in_many_ways() -> None:
    client = HttpPlatform({}, workspaces={"acme~lab": ["w1", "w2"], "w": ["w1", "w2"]}).client()
    assert session_ids(client, "s") == ["s"]
    assert session_ids(client, "wss://h/v1/sessions/a%20b/events/ws?x=1") == ["a b"]
    assert session_ids(client, pd.DataFrame({"session_id": ["a", None, "a", "b"]})) == ["a", "b"]
    assert session_ids(client, [{"id": "w", "full_name": "acme~lab"}, "s"]) == ["w1", "w2", "s"]
    assert session_ids(client, workspace="acme~lab") == ["w1", "w2"]
    workspaces = to_frame("workspaces", [b'{"items": [{"id": "w", "full_name": "acme~lab"}]}'])
    assert session_ids(client, workspaces) == ["w1", "w2"]
    sessions = to_frame("sessions", [b'{"items": [{"id": "s", "workspace_id": "w"}]}'])
    assert session_ids(client, sessions) == ["s"]
    assert len(ab.load_events(client, workspace="acme~lab")) == 0
    for wrong in ("https://h/v1/agents/x", pd.DataFrame({"x": [1]})):
        with pytest.raises(ValueError):
            session_ids(client, wrong)
    with pytest.raises(ValueError, match="workspace="):
        session_ids(client)
    with pytest.raises(ValueError, match=r"'acme~lab' names a workspace, not a session: pass workspace='acme~lab'"):
        ab.load_events(client, "acme~lab")
    with pytest.raises(ValueError, match=r"'acme~lab' names a workspace, not a session: pass sessions instead"):
        session_ids(None, "acme~lab")
    with pytest.raises(TypeError):
        session_ids(client, 5)


def test_arguments_that_make_no_sense_are_named_before_anything_is_asked_for() -> None:
    platform = HttpPlatform({"s": [event_id(n, n) for n in range(4)]})
    client = platform.client()
    for call, message in (
        (lambda: ab.load_events(client, "s", since="soon"), "since must be a time such as"),
        (lambda: ab.load_events(client, "s", since=pd.NaT), "since must be a time such as"),
        (lambda: ab.load_events(client, "s", concurrency=0), "concurrency must be 1 or more, not 0"),
        (lambda: ab.dask.load_events(client, "s", partitions=-1), "partitions must be 1 or more, not -1"),
        (lambda: ab.dask.load_events(client, "s", since="soon"), "since must be a time such as"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert platform.requests == 0
    day = platform.moment(0).date()
    assert len(ab.load_events(client, "s", since=day)) == 4


@pytest.mark.parametrize("envelope", ['{"items": [%s], "pagination": {}}', '{"pagination": {}, "items": [%s]}'])
@pytest.mark.parametrize("value", ["NaN", '"\\ud800"', '"\xff"'])
def test_a_page_that_is_not_strict_json_is_read_wherever_its_members_stand(envelope: str, value: str) -> None:
    page = envelope % f'{{"id": "{event_id(0, 0)}", "type": "note", "content": {{"value": {value}}}}}'
    pages = [page.encode("latin-1"), b"\xef\xbb\xbf" + envelope.encode() % b""]

    def client() -> ab.Client:
        def respond(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, content=pages["from_id" in request.url.params])

        return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(respond)))

    assert ab.load_events(client(), "s")["id"].tolist() == [event_id(0, 0)]
    assert client().sessions.events("s").to_pandas()["type"].tolist() == ["note"]
    assert [event["type"] for event in client().sessions.events("s", sort_by="id")] == ["note"]


def test_ids_of_sessions_come_in_many_shapes() -> None:
    first, second = (f"019a0b1c-0000-7000-8000-00000000000{n}" for n in "ab")
    frame = pd.DataFrame({"id": [first, second], "workspace_id": "w", "full_name": None})
    events = pd.DataFrame({"id": ["e1", "e2"], "session_id": [first, second]})
    assert session_ids(None, pd.Series([first, None, second])) == [first, second], "as a column with nulls"
    assert session_ids(None, frame.iloc[1]) == session_ids(None, events.iloc[1]) == [second]
    assert session_ids(None, [frame.iloc[1], first, events.iloc[0]]) == [second, first]
    assert session_ids(None, next(frame.itertuples())) == [first]
    assert session_ids(None, UUID(first)) == session_ids(None, [UUID(first)]) == [first]
    address = f"https://host/v1/sessions/{first.upper()}/events"
    assert session_ids(None, [first.upper(), first, address, "S1", "s1"]) == [first, "S1", "s1"], (
        "only UUIDs are the same"
    )
    assert session_ids(None, frame.assign(id=[first, first.upper()])) == [first]
    with pytest.raises(TypeError, match=r"^sessions, item 1: Expected an id, a name or a record, not None"):
        session_ids(None, [first, None])


def test_a_session_in_upper_case_is_read_once(tmp_path: Path) -> None:
    session = "019a0b1c-0000-7000-8000-00000000000a"
    platform = HttpPlatform({session: [event_id(n, n) for n in range(21)]})
    assert len(ab.load_events(platform.client(), [session, session.upper()])) == 21
    store = ab.Store(tmp_path)
    store.sync(platform.client(), session)
    assert len(store.events(session.upper())) == 21


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (
            ab.AsyncClient("http://127.0.0.1:1/v1"),
            r"not an AsyncClient: .* `await asyncio.to_thread\(%s, ab.connect\(\), ",
        ),
        (None, r"not None: pass the Client that ab\.connect\(\) returns first\."),
        ("s", r"not a str: pass the Client that ab\.connect\(\) returns first\."),
    ],
)
def test_what_is_no_client_is_said_before_anything_is_read(client: Any, message: str, tmp_path: Path) -> None:
    calls = {
        "ab.load_events": ab.load_events,
        "ab.dask.load_events": ab.dask.load_events,
        "store.sync": ab.Store(tmp_path).sync,
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name} needs a Client, {message.replace('%s', name)}"):
            call(client, ["s"])


def test_problems_are_those_of_a_loaded_frame() -> None:
    for wrong in (None, HttpPlatform({"s0": []}).client().sessions.events("s0"), [1]):
        with pytest.raises(
            TypeError, match=r"load_problems needs the DataFrame that was loaded, not a \w+: ab\.load_events"
        ):
            ab.load_problems(wrong)  # type: ignore[arg-type]
