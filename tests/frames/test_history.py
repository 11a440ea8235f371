"""A history of a platform that does not offer, or does not answer, everything."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pytest

import agentbook as ab
from agentbook.frames import session_log
from agentbook.frames.parse.frame import to_frame
from frames.accounts import Account, busy_account
from support.fake_platform.core import event_id


def client_frame(resource: str, records: list[dict[str, Any]]) -> pd.DataFrame:
    return to_frame(resource, [json.dumps({"items": records}).encode()])


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(tmp_path / "sessions.jsonl"))
    monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.001)


def account() -> Account:
    return Account(
        {"s1": [event_id(1, 1)], "s2": [event_id(2, 2)]}, workspaces={"lab": ["s1"], "desk": ["s2"], "empty": []}
    )


def test_without_a_list_of_sessions_the_noted_ones_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = account()
    platform.openapi = False
    client = platform.client()
    assert "ab.session_log.start(" in ab.load_history(client, "acme").hint, "others would not be in a history"
    session_log.note(client, {"id": "s2", "workspace_id": "desk", "name": "Hi"})
    session_log.note(client, {"id": "s1", "workspace_id": "of somebody else"})
    history = ab.load_history(client, "acme")
    assert history.events[["session_id", "session", "workspace"]].values.tolist() == [["s2", "Hi", "acme~desk"]]
    assert "ab.session_log" in history.missing["sessions"]


def test_a_session_that_cannot_be_read_is_named_and_can_be_read_later() -> None:
    platform = account()
    events = platform.histories.pop("s1")
    client = platform.client()
    with pytest.raises(ab.PartialLoad, match="load_events: 1 of 2 sessions are incomplete") as stopped:
        ab.load_history(client, "acme")
    assert stopped.value.partial_frame["session_id"].tolist() == ["s2"]
    partial = ab.load_history(client, "acme", errors="keep")
    assert "no such session" in partial.missing["session s1"]
    platform.histories["s1"] = events
    history = stopped.value.resume()
    assert history.events["session_id"].tolist() == ["s1", "s2"]
    assert "session s1" not in history.missing


def test_a_load_that_lacks_a_scope_names_it_and_keeps_what_arrived() -> None:
    platform = account()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("sessions/s1/events"):
            message = "This credential lacks the agents:read scope"
            return httpx.Response(403, json={"error": "InsufficientScope", "message": message})
        return platform.respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(ab.PartialLoad, match="the key needs the scope agents:read: load again with a key") as stopped:
        ab.load_history(client, "acme")
    assert "resume" not in str(stopped.value)
    assert stopped.value.partial_frame["session_id"].tolist() == ["s2"]
    platform.histories.pop("s2")
    with pytest.raises(ab.PartialLoad, match=r"for 1 of them the key needs the scope agents:read: .*error\.resume\(\)"):
        ab.load_history(client, "acme")


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"since": "1d", "until": "2d"}, "since must be before until"),
        (
            {"since": "30 days ago"},
            "since must be a time such as .*, or a length of time such as '7d', not '30 days ago'",
        ),
        ({"until": 3}, "a number has no unit"),
        ({"errors": "ignore"}, "'raise' or 'keep'"),
        ({"concurrency": 0}, "1 or more"),
    ],
)
def test_an_invalid_argument_is_named(span: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ab.load_history(account().client(), "acme", **span)  # type: ignore[arg-type]


def test_the_time_of_no_question_is_the_default_of_as_of() -> None:
    history = ab.load_history(Account({}, workspaces={"desk": []}).client(), "acme")
    as_of = history.turns["asked_at"].max()
    assert as_of is pd.NaT
    for data in (history, history.events, history.turns):
        with pytest.warns(ab.errors.EmptyWarning, match="There are no sessions"):
            assert ab.compare_periods(data, by="agent", metric="latency", as_of=as_of).empty
    with pytest.raises(ValueError, match="as_of must be a time such as"):
        ab.compare_periods(ab.load_history(account().client(), "acme"), as_of=pd.NaT)


@pytest.mark.parametrize("analysis", [ab.activity, ab.latency, ab.plot.waterfall])
def test_an_empty_history_tells_every_analysis_what_to_do(analysis: Callable[[ab.History], object]) -> None:
    history = ab.load_history(Account({}, workspaces={"desk": []}).client(), "acme")
    assert ": 1 workspace, 0 sessions, " in repr(history)
    with pytest.warns(ab.errors.EmptyWarning, match=r"There are no sessions: start one with client\.sessions\.start"):
        analysis(history)


def test_events_that_could_not_be_read_are_not_called_absent() -> None:
    platform = account()
    platform.histories.clear()
    history = ab.load_history(platform.client(), "acme", errors="keep")
    assert "; no events: session s1 and 1 more could not be read: sessions.events: 404 " in repr(history)
    assert "send a message" not in history._repr_html_()
    with pytest.warns(ab.errors.EmptyWarning, match=r"There are no events: session s1 and 1 more could not be read"):
        ab.activity(history)


def test_a_deleted_agent_is_counted_among_what_is_missing() -> None:
    platform = account()
    platform.agents, platform.updated = [], {"s1": 0, "s2": 0}
    reason = ab.load_history(platform.client(), "acme").missing["agents"]
    assert reason.startswith("1 agent of sessions cannot be read: ")


def test_an_unknown_account_tells_how_to_do_without() -> None:
    with pytest.raises(ab.NotFound) as raised:
        ab.load_history(account().client(), "nobody")
    assert "client.me.get() shows the account" in " ".join(raised.value.__notes__)
    with pytest.raises(ab.NotFound) as raised:
        ab.load_history(account().client(), "acme~lab")
    assert raised.value.__notes__ == ["'acme~lab' names a workspace: pass workspaces='acme~lab' instead."]


def test_texts_of_the_platform_are_escaped_in_html() -> None:
    platform = account()
    platform.workspaces = {"<b>x": ["s1"]}
    del platform.histories["s1"]
    assert "<b>x" not in ab.load_history(platform.client(), "acme", errors="keep")._repr_html_()


def test_lists_of_many_workspaces_load_at_the_same_time() -> None:
    """Four requests wait for each other, which only happens if all are under way."""
    platform = Account({}, workspaces={f"w{n}": [] for n in range(16)})
    together = threading.Barrier(4, timeout=30)
    respond = platform.respond

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/sessions"):
            together.wait()
        return respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    assert len(ab.load_history(client, "acme", concurrency=4).workspaces) == 16


def test_a_load_that_stops_between_its_lists_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, paths = account(), list[str]()
    respond, cut = platform.respond, {"desk": True}

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        if "desk" in request.url.path and cut["desk"]:
            raise httpx.ConnectError("the network is gone", request=request)
        return respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(ab.PartialLoad, match="load_history: stopped after 4 rows of lists") as stopped:
        ab.load_history(client, "acme")
    assert list(stopped.value.partial_frame.columns) == list(ab.load_events(client, []).columns)
    cut["desk"] = False
    read = {path for path in paths if "desk" not in path}
    paths.clear()
    history = stopped.value.resume()
    assert history.events["session_id"].tolist() == ["s1", "s2"]
    assert read.isdisjoint(path for path in paths if "workspaces" in path), "what was read is not read again"


def test_the_whole_load_has_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Any] = []

    class Bar:
        def __init__(self, **_: object) -> None:
            bars.append(self)
            self.rows, self.closed, self.total = 0, 0, None

        def update(self, rows: int) -> None:
            self.rows += rows

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    ab.load_history(account().client(), "acme", progress=True)
    [bar] = bars
    assert (bar.rows, bar.closed) == (3 + 2 + 2, 1), "workspaces, sessions and events"
    ab.read_conversations(pd.DataFrame({"messages": [[{"role": "user", "content": "Hi"}]] * 2}), progress=True)
    assert (bars[1].rows, bars[1].closed) == (2, 1)


def test_an_empty_account_is_typed_and_says_what_to_do() -> None:
    platform = Account({}, workspaces={})
    history = ab.load_history(platform.client(), "acme")
    full = ab.load_history(account().client(), "acme")
    for name in ("workspaces", "sessions", "events", "turns", "agents", "credentials"):
        empty, frame = getattr(history, name), getattr(full, name)
        assert empty.empty
        assert empty.dtypes.astype(str).to_dict() == frame.dtypes.astype(str).to_dict(), name
    for text in (repr(history), history._repr_html_()):
        assert "client.workspaces.create(name)" in text
    platform.workspaces = {"lab": []}
    assert "client.sessions.start(" in repr(ab.load_history(platform.client(), "acme"))


def test_a_turn_belongs_to_the_span_of_its_question() -> None:
    """The reply that came after the span closes it; one before the span opens none."""
    platform = Account({"s1": [event_id(minute * 60_000, n) for n, minute in enumerate((0, 5, 10, 15))]})
    platform.workspaces = {"lab": ["s1"]}
    first, second = platform.moment(2 * 60_000), platform.moment(12 * 60_000)
    history = ab.load_history(platform.client(), "acme", since=first, until=second)
    assert len(history.events) == 2
    assert history.turns[["status", "latency_s"]].values.tolist() == [["answered", 300.0]]


def test_every_analysis_of_a_span_counts_the_same_turns() -> None:
    """The span begins and ends between a question and its reply."""
    platform = Account({"s1": [event_id(minute * 60_000, n) for n, minute in enumerate((0, 5, 10, 15, 20, 25))]})
    platform.workspaces = {"lab": ["s1"]}
    first, end = (pd.Timestamp(platform.moment(minute * 60_000)) for minute in (2, 22))
    whole = ab.load_history(platform.client(), "acme")
    loaded = ab.load_history(platform.client(), "acme", since=first, until=end)
    spans: Any = {"a": (first, first + (end - first) / 2), "b": (first + (end - first) / 2, end)}
    counted = ["events", "turns", "answered", "failed", "unanswered", "open"]
    for history in (loaded, ab.History(whole.events, whole.sessions, since=first, until=end)):
        assert history.turns["message_id"].to_list() == whole.turns["message_id"].to_list()[1:]
        assert history.turns["status"].to_list() == ["answered"] * 2
        tables = (history.turns, ab.turns(history), ab.turns(history.turn_events), ab.latency(history, by="turn"))
        assert [table["turn"].to_list() for table in tables] == [[1, 2]] * 4
        for table in (
            ab.session_summary(history),
            ab.session_summary(whole, since=first, until=end),
            ab.session_summary(whole.events, since=first, until=end),
        ):
            assert table[counted].to_numpy().tolist() == [[4, 2, 2, 0, 0, 0]]
        for compared in (ab.compare_periods(history, **spans), ab.compare_periods(whole, **spans)):
            values = compared.set_index("metric")[["before", "after"]].sum(axis=1)
            assert values[counted[:3]].to_list() == [4, 2, 2]
        assert "2 turns, 2 answered" in ab.plot.turn_timeline(history).text


def test_an_empty_span_names_the_end_to_move() -> None:
    load = functools.partial(ab.load_history, account().client(), "acme")
    before, after = pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2199-01-01", tz="UTC")
    for span, ends in (({"until": before}, "until="), ({"since": after}, "since=")):
        hint = load(**span).hint
        assert [end for end in ("since=", "until=") if end in hint] == [ends]


def test_an_account_that_was_passed_by_its_id_is_shown_by_its_name() -> None:
    workspaces = client_frame(
        "workspaces", [{"id": "w", "full_name": "acme~lab", "owner": {"id": "u1", "name": "acme"}}]
    )
    workspaces["owner_id"] = "u1"
    events = to_frame("events", [])
    assert ab.History(events, workspaces=workspaces, account="u1").title == "acme"
    assert ab.History(events, workspaces=workspaces, account="u2").title == "u2"
    assert ab.History(events, workspaces=workspaces).title == "this credential"


def test_a_session_without_a_turn_in_the_span_has_no_turns() -> None:
    platform = Account({"s1": [event_id(0, 0), event_id(5 * 60_000, 1)]})
    platform.workspaces = {"lab": ["s1"]}
    history = ab.load_history(platform.client(), "acme")
    between = pd.Timestamp(platform.moment(60_000))
    late = ab.session_summary(history, since=between)
    assert late[["events", "turns", "answered", "subtasks", "prompt_chars"]].to_numpy().tolist() == [[1, 0, 0, 0, 0]]
    assert late.dtypes.to_dict() == ab.session_summary(history).dtypes.to_dict()
    assert late["initiator_id"].to_list() == ab.session_summary(history)["initiator_id"].to_list()
    assert ab.session_summary(ab.load_history(platform.client(), "acme", since=between))["turns"].to_list() == [0]


def test_names_of_people_come_from_what_they_wrote() -> None:
    events = ab.load_events(account().client(), ["s1", "s2"])
    events["author_id"], events["author_name"] = ["u", None], pd.Categorical(["ada", None])
    initiators: list[dict[str, Any]] = [
        {"initiator_id": "u"},
        {"initiator_id": "v", "initiator": {"name": "key of bob"}},
        {"initiator_id": "w"},
    ]
    sessions = client_frame("sessions", [{"id": f"s{n}", **each} for n, each in enumerate(initiators, 1)])
    history = ab.History(events, sessions)
    assert history.sessions["initiator"].tolist() == ["ada", "key of bob", "w"]
    assert history.events["initiator"].tolist() == ["ada", "key of bob"]


def test_turns_say_first_who_asked_whom_and_what_came_back() -> None:
    history = ab.load_history(busy_account().client(), "acme")
    first = ["asked_at", "workspace", "agent", "author", "status", "latency_s", "prompt", "reply"]
    assert history.turns.columns[: len(first)].tolist() == first
    assert ab.turns(history, texts=True).columns[: len(first)].tolist() == first


def test_the_author_of_a_question_is_not_always_who_started_the_session() -> None:
    events = ab.load_events(account().client(), ["s1", "s2"])
    events["author_id"] = events["author_name"] = pd.Series(["u", "v"], dtype="str")
    events["type"], events["author_type"] = pd.Categorical(["message"] * 2), pd.Categorical(["user"] * 2)
    sessions = client_frame("sessions", [{"id": name, "initiator_id": "v"} for name in ("s1", "s2")])
    turns = ab.History(events, sessions).turns
    assert turns["author"].tolist() == turns["author_id"].tolist() == ["u", "v"]
    assert turns["initiator"].tolist() == ["v", "v"]
    assert ab.authors(turns)["author"].tolist() == ["u", "v"]


def test_who_started_a_session_is_one_thing_in_a_span_in_which_only_others_wrote() -> None:
    events = ab.load_events(account().client(), ["s1", "s2"])
    events["author_id"] = events["author_name"] = pd.Series(["u", "v"], dtype="str")
    events["type"], events["author_type"] = pd.Categorical(["message"] * 2), pd.Categorical(["user"] * 2)
    listed = [{"id": f"s{n}", "initiator_id": "w", "initiator": {"type": "api_key", "name": "ci"}} for n in (1, 2)]
    history = ab.History(events, client_frame("sessions", listed), since=events["at"].max())
    summary = ab.session_summary(history)
    assert summary["session_id"].tolist() == ["s2"]
    for name, value in {"initiator_id": "w", "initiator_type": "api_key", "initiator": "ci"}.items():
        for frame in (history.sessions, history.events, history.turns, ab.activity(history, "1D", by=name)):
            assert frame[name].tolist() == [value], name
    assert summary[["initiator_id", "first_author_id"]].to_numpy().tolist() == [["w", "v"]]
    plain = ab.session_summary(events)
    assert plain["first_author_id"].tolist() == ["u", "v"]
    assert "initiator_id" not in plain, "who started a session is in the list of sessions"
    with pytest.raises(ValueError, match="initiator_id"):
        ab.activity(events, by="initiator_id")


def test_what_has_no_name_is_told_apart_by_its_id() -> None:
    """Deleted agents and workspaces, people of whom only ids are known."""
    events = ab.load_events(account().client(), ["s1", "s2"])
    events["author_id"], events["author_name"] = ["g1", "g2"], pd.Categorical(["writer", None])
    events["author_type"] = pd.Categorical(["agent"] * 2)

    def names(**ids: Any) -> list[list[str]]:
        sessions = [{"id": f"s{n}", "workspace_id": f"w{n}", "initiator_id": f"u{n}", **ids} for n in (1, 2)]
        columns = ["workspace", "agent", "initiator"]
        return ab.History(events, client_frame("sessions", sessions)).sessions[columns].to_numpy().tolist()  # type: ignore[no-any-return]

    assert names(agent_id="g2") == [["w1", "g2", "u1"], ["w2", "g2", "u2"]]
    assert names(agent_id="g1") == [["w1", "writer", "u1"], ["w2", "writer", "u2"]]
    assert names() == [["w1", "writer", "u1"], ["w2", "g2", "u2"]], "who replied is the best that is known"


def test_people_and_keys_of_one_name_are_told_apart() -> None:
    events = ab.load_events(account().client(), ["s1", "s2"])
    events["author_id"], events["author_name"] = ["0a1b2c3d4e", "9f8e7d6c5b"], pd.Categorical(["ci", "ci"])
    sessions = client_frame("sessions", [{"id": "s1", "initiator_id": "9f8e7d6c5b"}])
    history = ab.History(events, sessions)
    assert history.turns["author"].dropna().isin(["ci (0a1b2c3d)", "ci (9f8e7d6c)"]).all()
    assert history.sessions["initiator"].iloc[0] == "ci (9f8e7d6c)"


def test_a_history_takes_whatever_is_tabular_and_names_what_it_lacks() -> None:
    platform = busy_account()
    client = platform.client()
    events = ab.load_events(client, client.sessions.list("lab"))
    history = ab.History(pa.Table.from_pandas(events), client.sessions.list("lab"), agents=client.agents.list())
    assert set(history.events["agent"]) == {"helper"}
    with pytest.raises(ValueError, match=r"ab\.History \(sessions\) needs the column.* 'agent_id'"):
        ab.History(events, history.sessions.drop(columns="agent_id"))
    with pytest.raises(TypeError, match=r"ab\.History needs a DataFrame, not a str: ab\.load_events"):
        ab.History("s1")


def test_some_workspaces_are_named_also_one_that_no_list_has() -> None:
    platform = busy_account()
    platform.say("guest", 50, workspace="other~shared")
    platform.listed = ("lab", "desk")
    client = platform.client()
    history = ab.load_history(client, workspaces=["acme~lab", "other~shared"])
    assert history.workspaces["full_name"].tolist() == ["acme~lab", "other~shared"]
    assert set(history.turns["workspace"]) == {"acme~lab", "other~shared"}
    only = ab.load_history(client, "acme", workspaces=client.workspaces.list("acme").first())
    assert only.workspaces["id"].tolist() == ["lab"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("acme~lba", "did you mean 'acme~lab'?"), ("other~shared", "client.me.workspaces() shows those that it sees.")],
)
def test_a_workspace_that_is_not_there_is_refused(name: str, hint: str) -> None:
    client = busy_account().client()
    with pytest.raises(ab.NotFound) as raised:
        ab.load_history(client, workspaces=["acme~lab", name])
    expected = f"There is no workspace {name!r}, or this credential may not see it; {hint}"
    assert raised.value.__notes__ == [expected]


def test_an_account_in_place_of_a_workspace_is_told_apart() -> None:
    with pytest.raises(ab.NotFound) as raised:
        ab.load_history(busy_account().client(), workspaces="acme")
    assert raised.value.__notes__ == ["'acme' is an account: pass account='acme' instead."]


def test_a_listed_workspace_that_is_gone_is_among_what_is_missing() -> None:
    platform = busy_account()
    platform.listed = ("lab", "desk", "gone")
    history = ab.load_history(platform.client(), workspaces=["acme~lab", "acme~gone"])
    assert set(history.missing) == {"sessions of acme~gone"}
    assert set(history.turns["workspace"]) == {"acme~lab"}


def test_without_a_list_all_noted_sessions_belong_to_a_credential() -> None:
    platform = account()
    platform.openapi = False
    client = platform.client()
    for session in ("s1", "s2"):
        session_log.note(client, session)
    assert sorted(ab.load_history(client).events["session_id"]) == ["s1", "s2"]


# -- the time zone


def test_texts_of_a_span_are_on_the_clock_of_the_zone() -> None:
    """The questions are asked at 19:43, 19:44, ... in Kolkata, on 21 September."""
    client = busy_account().client()
    asked = ab.load_history(client, "acme").turns["asked_at"].sort_values(ignore_index=True)
    local = asked.dt.tz_convert("Asia/Kolkata")
    assert str(local[0]) == "2026-09-21 19:43:20+05:30"
    for since, until, count in (
        ("2026-09-21 19:45", None, 4),
        ("2026-09-21T19:45:20", "2026-09-21 19:47", 2),
        (datetime(2026, 9, 21, 19, 45), None, 4),
        ("2026-09-21", "2026-09-22", 6),
        ("2026-09-22", None, 0),
        ("2026-09-21T14:15:00Z", None, 4),
    ):
        history = ab.load_history(client, "acme", since=since, until=until, tz="Asia/Kolkata")
        assert len(history.turns) == count, since
        assert (history.tz, str(history.events["at"].dtype)) == ("Asia/Kolkata", "datetime64[us, UTC]")
        begin = pd.Timestamp(since)
        begin = begin.tz_localize("Asia/Kolkata") if begin.tzinfo is None else begin.tz_convert("Asia/Kolkata")
        assert f"{begin:%Y-%m-%d %H:%M} to " in repr(history)
        assert "UTC" not in repr(history) + history._repr_html_()
    in_utc = ab.load_history(client, "acme", since="2026-09-21 14:15", tz="UTC")
    assert len(in_utc.turns) == 4
    assert len(ab.load_history(client, "acme", since="2026-09-21 14:15").turns) == 4, "UTC without a zone"
    with pytest.raises(ValueError, match="Unknown time zone"):
        ab.load_history(client, "acme", tz="Asia/Bombai")
    platform = busy_account()
    platform.histories.pop("s1")
    with pytest.raises(ab.PartialLoad) as stopped:
        ab.load_history(platform.client(), "acme", tz="Asia/Kolkata")
    platform.add("s1")
    assert stopped.value.resume().tz == "Asia/Kolkata"


@pytest.fixture(params=["loaded", "stored", "watched", "from frames", "from its frames"])
def in_kolkata(request: pytest.FixtureRequest, tmp_path: Path) -> ab.History:
    client, tz = busy_account().client(), "Asia/Kolkata"
    if request.param == "stored":
        store = ab.Store(tmp_path / "store")
        store.sync(client, account="acme")
        return store.history(tz=tz)
    if request.param == "watched":
        with ab.watch(client, account="acme", tz=tz) as watch:
            assert "+05:30" in watch.status.line or tz in watch.status.line
            return watch.history
    history = ab.load_history(client, "acme", tz=None if request.param == "from frames" else tz)
    if request.param == "loaded":
        return history
    return ab.History(history.events, history.sessions, tz=tz if request.param == "from frames" else None)


def test_a_history_has_its_zone_however_it_was_made(in_kolkata: ab.History) -> None:
    assert in_kolkata.tz == "Asia/Kolkata"
    for data in (in_kolkata, in_kolkata.events, in_kolkata.turns):
        assert str(ab.latency(data, freq="1h")["period"].dt.tz) == "Asia/Kolkata"


def test_a_history_shows_times_in_its_zone_unless_told_another() -> None:
    tz = "Asia/Kolkata"
    history = ab.load_history(busy_account().client(), "acme", tz=tz)
    for data in (history, history.events, history.turns):
        for table in (
            ab.latency(data, freq="1h"),
            ab.failures(data, freq="1h", kinds=False),
            ab.usage(data, freq="1h"),
        ):
            assert str(table["period"].dt.tz) == tz
            assert table["period"].dt.strftime("%H:%M").to_list() == ["19:00"]
        assert str(ab.latency(data, freq="1h", tz="UTC")["period"].dt.tz) == "UTC"
        assert len(ab.authors(data, since="2026-09-21 19:45")) == 1
        assert ab.authors(data, since="2026-09-21 19:45")["turns"].sum() == 4
        assert f"asked ({tz})" in json.dumps(ab.plot.latency(data).to_dict())
    for chart in (ab.plot.failure_rate(history), ab.plot.authors(history.turns)):
        assert tz in json.dumps(chart.to_dict())
    for events in (history, history.events):
        assert str(ab.activity(events)["period"].dt.tz) == tz
        assert ab.hour_of_week(events).loc["Monday", 19] == 12
        assert ab.hour_of_week(events, tz="UTC").loc["Monday", 14] == 12
        assert f"({tz})" in ab.plot.activity_heatmap(events).text
    spans: Any = {"a": ("2026-09-21 19:43", "2026-09-21 19:46"), "b": ("2026-09-21 19:46", "2026-09-22")}
    table = ab.compare_periods(history, **spans, metric="turns")
    assert table[["before", "after"]].to_numpy().tolist() == [[3, 3]]
    assert "2026-09-21 to 2026-09-22 (after)" in json.dumps(ab.plot.comparison(table).chart.to_dict())


def test_sessions_and_turns_carry_the_version_of_their_agent() -> None:
    """Where the platform says it; null elsewhere."""
    client = account().client()
    events = ab.load_events(client, client.sessions.list("lab"))
    sessions = client.sessions.list("lab").to_pandas()
    assert sessions["agent_version"].isna().all(), "this platform does not say it"
    versions = [f"v{n}" for n in range(len(sessions))]
    history = ab.History(events, sessions.assign(agent_version=versions))
    by_session = dict(zip(history.sessions["id"], versions, strict=True))
    for frame in (history.turns, history.events, ab.turns(history.events), ab.steps(history)):
        assert frame["agent_version"].to_list() == frame["session_id"].map(by_session).to_list()


@functools.cache
def of_two_agents() -> ab.History:
    """Two agents, two workspaces, and two authors, who take turns in ``s2``."""
    times = {"s0": [0], "s1": [60_000], "s2": [120_000, 130_000, 140_000]}
    platform = Account({})
    for session, moments in times.items():
        ids = [event_id(at + part * 1000, 2 * n + part) for n, at in enumerate(moments) for part in (0, 1)]
        platform.add(session, *ids)
    events = ab.load_events(platform.client(), list(times))
    asked = events["type"] == "message"
    authors = pd.Series(["u", "v", "u", "v", "u"], events.index[asked], dtype="str")
    events = events.assign(author_id=authors.reindex(events.index), author_name=authors.reindex(events.index) + "ser")
    sessions = client_frame(
        "sessions",
        [
            {"id": f"s{n}", "workspace_id": f"w{n % 2}", "agent_id": f"a{n % 2}", "name": "chat", "initiator_id": who}
            for n, who in enumerate("uvu")
        ],
    )
    owner = {"name": "acme", "id": "acme"}
    agents = client_frame("agents", [{"id": f"a{n}", "name": f"agent {n}", "owner": owner} for n in range(3)])
    workspaces = client_frame(
        "workspaces", [{"id": f"w{n}", "full_name": f"acme~{n}", "owner": owner} for n in range(2)]
    )
    credentials = client_frame("credentials", [{"id": "c", "owner_id": "acme"}])
    return ab.History(
        events,
        sessions,
        agents=agents,
        workspaces=workspaces,
        credentials=credentials,
        account="acme",
        tz="Asia/Kolkata",
    )


@pytest.mark.parametrize(
    ("chosen", "turns", "sessions"),
    [
        ({}, 5, ["s0", "s1", "s2"]),
        ({"agent": "agent 0"}, 4, ["s0", "s2"]),
        ({"agent": "acme~agent 0"}, 4, ["s0", "s2"]),
        ({"agent": {"id": "a1"}}, 1, ["s1"]),
        ({"agent": ["a0", "agent 1"]}, 5, ["s0", "s1", "s2"]),
        ({"agent": "agent 2"}, 0, []),
        ({"workspace": "acme~1"}, 1, ["s1"]),
        ({"author": "user"}, 3, ["s0", "s2"]),
        ({"author": "v", "workspace": "w0"}, 1, ["s2"]),
        ({"initiator": "vser"}, 1, ["s1"]),
        ({"initiator": ["u", "v"], "author": "v"}, 2, ["s1", "s2"]),
        ({"since": "2026-09-21 19:45:25"}, 2, ["s2"]),
        ({"agent": "agent 0", "until": "2026-09-21T14:14:30Z"}, 1, ["s0"]),
    ],
)
def test_a_part_of_a_history_is_one_too(chosen: dict[str, Any], turns: int, sessions: list[str]) -> None:
    whole = of_two_agents()
    part = whole.where(**chosen)
    assert (len(part.turns), part.sessions["id"].to_list()) == (turns, sessions)
    assert set(part.events["session_id"]) == set(sessions)
    pd.testing.assert_frame_equal(
        part.turns.drop(columns="turn"),
        whole.turns[whole.turns["message_id"].isin(part.turns["message_id"])]
        .reset_index(drop=True)
        .drop(columns="turn"),
        check_categorical=False,
    )
    assert len(ab.turns(part)) == turns
    assert (part.tz, part.account) == (whole.tz, whole.account)
    is_of_account = not chosen.keys() & {"agent", "workspace", "author", "initiator"}
    assert len(part.credentials) == is_of_account
    assert set(part.workspaces["id"]) == ({"w1"} if chosen.get("workspace") == "acme~1" else set(part.workspaces["id"]))


def test_sessions_of_one_title_are_not_one_session() -> None:
    history = of_two_agents()
    assert history.sessions["session"].to_list() == ["chat (s0)", "chat (s1)", "chat (s2)"]
    assert ab.latency(history, by="session")["n"].to_list() == [1, 1, 3]
    assert history.turns.groupby("session")["session_id"].nunique().eq(1).all()
    titles = history.sessions.assign(name=pd.Series([None, "once", None], dtype="str"))
    assert ab.History(history.events, titles).sessions["session"].to_list() == [
        "untitled (s0)",
        "once",
        "untitled (s2)",
    ]


def test_every_analysis_takes_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    history = of_two_agents()
    report = ab.credential_report(history.credentials, history.workspaces)
    pd.testing.assert_frame_equal(ab.credential_findings(history), ab.credential_findings(report))
    with pytest.warns(ab.errors.EmptyWarning, match="contexts=True"):
        ab.context_status(history)
    platform = busy_account()

    def respond(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/contexts"):
            return Account.respond(platform, request)
        return platform.page(
            [{"id": "c", "status": "DRAFT", "workspace_id": request.url.path.split("/")[-2]}], 1, False
        )

    monkeypatch.setattr(platform, "respond", respond)
    history = ab.load_history(platform.client(), "acme", contexts=True)
    table = ab.context_status(history, by="workspace")
    assert table[["workspace", "contexts"]].to_numpy().tolist() == [["acme~desk", 1], ["acme~lab", 1]]
    assert ab.context_status(history.where(workspace="acme~lab"))["contexts"].to_list() == [1]


def test_parts_of_parts_are_within_them_and_say_which_they_are() -> None:
    part = of_two_agents().where(agent="a0", since="2026-09-21").where(author="v", since="2026-09-01")
    assert "acme, agent 0, vser, 2026-09-21 00:00 to now" in part.title
    assert part.turns["author"].to_list() == ["vser"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"agent": "agnt 1"}, "no agent 'agnt 1': did you mean 'agent 1'"),
        ({"author": "zoe"}, "no author 'zoe'.* user, vser"),
        ({"workspace": "desk"}, "no workspace 'desk'"),
        ({"since": "soon"}, "since"),
    ],
)
def test_a_part_that_is_not_there_is_named(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        of_two_agents().where(**chosen)
