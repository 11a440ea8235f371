"""The report of a history: one page that loads and runs nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.history.findings import findings
from agentbook.frames.history.report import report_html, table_html
from agentbook.frames.parse.frame import to_frame
from frames.accounts import busy_account
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

HOUR = 3_600_000
HOSTILE = "<img src=x onerror=alert(1)></td></table><script>alert(2)</script>"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def history_of(latencies: list[int]) -> ab.History:
    """Sessions an hour apart; each asks three times and waits so many seconds."""
    platform = HttpPlatform({})
    for number, seconds in enumerate(latencies):
        start = number * HOUR
        for turn in range(3):
            question_at = start + turn * 600_000
            platform.add(
                f"s{number}", event_id(question_at, 2 * turn), event_id(question_at + seconds * 1000, 2 * turn + 1)
            )
    names = [f"s{number}" for number in range(len(latencies))]
    events = ab.load_events(platform.client(), names)
    sessions = pd.DataFrame({"id": names, "workspace_id": "w", "agent_id": "a", "initiator_id": "u", "name": names})
    agents = pd.DataFrame({"id": ["a"], "name": ["helper"], "owner_name": ["acme"]})
    workspaces = ab.load_history(busy_account().client(), "acme").workspaces.head(1).assign(id="w")
    return ab.History(events, sessions, agents=agents, workspaces=workspaces)


def shown_counts(page: str) -> dict[str, set[int]]:
    """Every count of a report's text, by its noun."""
    counts: dict[str, set[int]] = {}
    for number, noun in re.findall(r"([\d,]+) (workspace|session|turn|event|agent|person|people)", Elements(page).text):
        counts.setdefault(noun, set()).add(int(number.replace(",", "")))
    return counts


@pytest.fixture
def _without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts, which take longest, have tests of their own."""
    monkeypatch.setattr("agentbook.frames.history.report._figures", lambda *_: [])


@pytest.fixture
def of_four_sources(tmp_path: Path) -> Callable[..., list[ab.History]]:
    """Histories of a span: loaded, stored, watched and made from frames."""
    platform = busy_account()
    platform.agents = [*(platform.agents or []), {"id": "a2", "name": "idle", "owner": {"name": "acme"}}]
    platform.add("without events")
    platform.updated = {**(platform.updated or {}), "without events": 0}
    platform.workspaces = {**platform.workspaces, "quiet": ["without events"]}
    client = platform.client()
    store = ab.Store(tmp_path / "store")
    store.sync(client, account="acme")

    def load(since: int | None, until: int | None) -> list[ab.History]:
        span = {
            name: None if minute is None else pd.Timestamp(platform.moment(minute * 60_000))
            for name, minute in (("since", since), ("until", until))
        }
        whole, loaded = ab.load_history(client, "acme"), ab.load_history(client, "acme", **span)
        histories = [loaded, store.history(**span), whole.where(**span)]
        histories.append(ab.History(whole.events, whole.sessions, **span))  # type: ignore[arg-type]
        if until is None:
            with ab.watch(client, account="acme", since=span["since"]) as watch:
                histories.append(watch.history)
        return histories

    return load


@pytest.mark.usefixtures("_without_charts")
@pytest.mark.parametrize(("since", "until", "sessions"), [(1, 4, 3), (1_000_000, None, 0), (None, None, 7)])
def test_each_count_is_that_of_the_events(
    of_four_sources: Callable[..., list[ab.History]],
    since: int | None,
    until: int | None,
    sessions: int,
    tmp_path: Path,
) -> None:
    """A whole history also has the session without events."""
    for history in of_four_sources(since, until):
        events = history.events
        assert len(history.sessions) == sessions
        assert f" {sessions} session" in repr(history)
        assert f"<td>{sessions}</td>" in history._repr_html_()
        if since is not None or until is not None:
            assert set(history.sessions["id"]) == set(events["session_id"])
        assert history.sessions.groupby("agent_id").size().to_dict() == ({"a1": sessions} if sessions else {})
        shown = shown_counts(history.report(tmp_path / "x.html").read_text("utf-8"))
        asked = len(history.turns)
        in_events = events["session_id"].nunique()
        assert shown["event"] == {len(events)}
        assert shown["turn"] <= {asked}
        assert shown["session"] <= {sessions, in_events}
        assert sessions in shown["session"]
        assert shown["agent"] == {history.sessions["agent_id"].nunique()} == {min(sessions, 1)}
        assert shown["workspace"] == {history.sessions["workspace_id"].nunique()}
        assert shown.get("person", set()) | shown.get("people", set()) == ({1} if asked else set())
        assert len(ab.session_summary(history)) == in_events if in_events else True


@pytest.mark.usefixtures("_without_charts")
def test_sessions_of_events_that_no_list_has_are_counted() -> None:
    whole = history_of([1, 2, 3])
    for sessions in (None, whole.sessions.head(1)):
        bare = ab.History(whole.events, sessions)
        assert sorted(bare.sessions["id"]) == ["s0", "s1", "s2"]
        assert shown_counts(report_html(bare))["session"] == {3}
    in_capitals = "019A0B1C-0000-7000-8000-000000000001"
    events = whole.events.assign(session_id=in_capitals.lower())
    listed = whole.sessions.head(1).assign(id=in_capitals)
    assert ab.History(events, listed, since=whole.events["at"].min()).sessions["id"].to_list() == [in_capitals]


def texts(history: ab.History, kind: str = "") -> list[str]:
    return [finding.text for finding in findings(history) if finding.kind.startswith(kind)]


def test_an_agent_is_not_called_steady_where_nothing_came_before() -> None:
    history = history_of([2, 3] * 10)
    history = history.where(since=history.turns["asked_at"].min() - pd.Timedelta("30D"))
    assert not any("slower" in text for text in texts(history, "fine"))
    assert any("too few turns to tell" in text for text in texts(history, "note"))


@pytest.mark.usefixtures("_without_charts")
def test_a_report_says_who_asked_how_much(tmp_path: Path) -> None:
    history = history_of([2, 3])
    text = Elements(history.report(tmp_path / "page.html").read_text(encoding="utf-8")).text
    table = text[text.index("People and keys") : text.index("Failures by kind")]
    assert "tokens" in table
    assert "2166" in re.sub(r"\D", "", table), "sessions, agents, turns, answered"


def test_an_agent_that_became_slower_by_more_than_noise_is_named() -> None:
    slower = history_of([2, 3] * 10 + [9, 8] * 10)
    [sentence] = [text for text in texts(slower, "look") if "slowly" in text]
    assert re.match(
        r"helper answers more slowly: median 3 s before, 8\.5 s now \(2\.8 times as long\), comparing", sentence
    )
    steady = history_of([2, 3] * 20)
    assert any("No agent became slower by more than noise" in text for text in texts(steady, "fine"))


def test_too_few_turns_are_not_called_steady() -> None:
    sentences = texts(history_of([4]))
    assert not any("noise" in text for text in sentences)
    assert any("too few turns" in text and ", comparing the 10 minutes until " in text for text in sentences)


def test_a_report_in_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        history_of([4]).report(tmp_path / "none" / "report.html")


@pytest.mark.usefixtures("_without_charts")
def test_what_is_missing_or_unanswered_is_named() -> None:
    history = history_of([2] * 4)
    events = history.events.iloc[:-1]  # the last reply
    events.attrs["agentbook"] = {"loaded_at": "2030-01-01T00:00:00+00:00"}
    late = ab.History(events, history.sessions, agents=history.agents, missing={"credentials": "no <scope>"})
    assert any(
        text.startswith("1 question has no reply from helper (1); the latest was asked on")
        for text in texts(late, "look")
    )
    assert "Not complete: credentials: no <scope>" in texts(late, "look")
    page = report_html(late)
    assert "Loaded at 2030-01-01 00:00 UTC." in page
    assert "no &lt;scope&gt;" in page
    assert "Unanswered questions" in page


def test_turns_without_times_are_named_too(tmp_path: Path) -> None:
    items = [
        {"id": event_id(n, n), "type": "message", "author": {"type": "user"}, "task_id": f"t{n}"} for n in range(2)
    ]
    items.append({"id": event_id(2, 2), "type": "x", "content": {"message": "TURN_TIMEOUT: x"}, "task_id": "t1"})
    page = json.dumps({"items": items}).encode()
    history = ab.History(to_frame("events", [page], context={"session_id": "s"}))
    assert history.turns["asked_at"].isna().all()
    unanswered = ab.History(history.events.iloc[:1])
    unanswered.turns["status"] = "unanswered"
    assert any("failed, most recently at an unknown time:" in text for text in texts(history, "look"))
    assert any("the latest was asked at an unknown time." in text for text in texts(unanswered, "look"))
    assert history.report(tmp_path / "x.html").exists()


def test_texts_are_texts(tmp_path: Path) -> None:
    history = history_of([2] * 4)
    events = history.events.assign(text=HOSTILE)
    named = history.agents.assign(name=HOSTILE)
    hostile = ab.History(events, history.sessions.assign(name=HOSTILE), agents=named, workspaces=history.workspaces)
    page = ab.export(hostile, tmp_path / "x.html").read_text("utf-8")
    parsed = Elements(page)
    assert not parsed.named("script")
    assert HOSTILE in parsed.text
    assert all((image["src"] or "").startswith("data:image/svg+xml;base64,") for image in parsed.named("img"))
    for _, attributes in parsed.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"href", "src"} & attributes.keys() or attributes.get("src", "").startswith("data:")  # type: ignore[union-attr]
    assert "default-src 'none'" in page


def test_the_page_is_semantic(tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="charts need the extra lab")
    page = history_of([2, 3] * 4).report(tmp_path / "x.html").read_text("utf-8")
    parsed = Elements(page)
    assert [len(parsed.named(tag)) for tag in ("html", "main", "header", "footer", "h1")] == [1] * 5
    assert len(parsed.named("figcaption")) == len(parsed.named("figure")) == len(parsed.named("img")) == 3
    assert len(parsed.named("caption")) == len(parsed.named("table"))
    assert {cell.get("scope") for cell in parsed.named("th")} == {"col"}
    labels = {section["aria-labelledby"] for section in parsed.named("section")}
    assert labels <= {attributes.get("id") for _, attributes in parsed.elements}
    assert "helper" in parsed.text


@pytest.mark.filterwarnings("error::agentbook.api.errors.EmptyWarning")  # the page says it
def test_an_empty_history_has_a_report_too(tmp_path: Path) -> None:
    empty = ab.History(history_of([1]).events.iloc[:0])
    text = Elements(empty.report(tmp_path / "x.html").read_text("utf-8")).text
    assert "No workspaces: create one with client.workspaces.create(name)" in text
    assert "There are no turns." in text
    assert "No data to draw." in text
    assert "Slowest turns: none." in text


def test_without_altair_the_rest_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*_: object) -> None:
        raise ImportError("Charts need Altair. Install them with: pip install 'altair'")

    monkeypatch.setattr("agentbook.frames.history.report.activity_heatmap", missing)
    page = history_of([2] * 4).report(tmp_path / "x.html").read_text("utf-8")
    assert html.escape("pip install 'altair'") in page
    assert "Slowest turns" in page


def test_only_a_page_can_be_written_and_only_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    history = history_of([1])
    with pytest.raises(ValueError, match=r"ab\.export\(history\.turns, path\)"):
        ab.export(history, tmp_path / "x.csv")
    path = tmp_path / "x.html"
    path.write_text("before")
    monkeypatch.setattr("agentbook.frames.history.report.findings", lambda history: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        history.report(path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]


def test_long_texts_and_tables_are_cut_and_say_so() -> None:
    table = table_html(pd.DataFrame({"n": range(50), "text": "x" * 1000}), "Rows")
    assert "Rows (20 of 50)" in table
    assert table.count("<tr>") == 21
    assert "x" * 199 + "…" in table
    assert "x" * 200 not in table


@pytest.mark.usefixtures("_without_charts")
def test_a_part_has_a_report_of_its_own(tmp_path: Path) -> None:
    history = ab.load_history(busy_account().client(), "acme")
    part = history.where(workspace="acme~lab")
    page = Elements(part.report(tmp_path / "x.html").read_text("utf-8")).text
    assert "History of acme, acme~lab" in page
    assert "acme~desk" not in page
    page = part.report(tmp_path / "x.html", title="Lab <of> the week").read_text("utf-8")
    assert page.count("Lab &lt;of&gt; the week") == 2


def test_every_time_of_the_page_is_in_its_zone(tmp_path: Path) -> None:
    """Also that of an export, and of a question that nobody answered."""
    tz = "America/New_York"
    history = history_of([2] * 30)
    events = history.events.iloc[:-1]
    events.attrs["agentbook"] = {"loaded_at": "2030-01-01T00:00:00+00:00"}
    since = events["at"].min()
    late = ab.History(events, history.sessions, agents=history.agents, since=since, tz="Asia/Kolkata")
    for page in (late.report(tmp_path / "x.html", tz=tz), ab.export(late, tmp_path / "y.html")):
        zone = tz if page.name == "x.html" else "Asia/Kolkata"
        text = html.unescape(re.sub(r'src="[^"]*"', "", page.read_text("utf-8")))
        assert "UTC" not in text
        assert re.search(rf"All times are .*{zone}", text)
        assert f"Loaded at {pd.Timestamp('2030-01-01', tz='UTC').tz_convert(zone):%Y-%m-%d %H:%M} {zone}" in text
        shown = {pd.Timestamp(moment) for moment in re.findall(r"<td class=\"number\">(\d{4}-[^<]*)", text)}
        asked = late.turns["asked_at"].dt.tz_convert(zone).dt.tz_localize(None).dt.floor("s")
        assert shown
        assert shown <= set(asked)
        last = late.turns["asked_at"].max().tz_convert(zone)
        assert f"the latest was asked on {last:%Y-%m-%d %H:%M} {zone}" in text
        assert f"{since.tz_convert(zone):%Y-%m-%d %H:%M} to now {zone}" in text
    with pytest.raises(ValueError, match="Unknown time zone"):
        late.report(tmp_path / "z.html", tz="Mars/Base")
