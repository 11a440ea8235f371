"""Links to sessions where they live: in every table, and only where they lead."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pandas as pd
import pytest

import agentbook as ab
from agentbook import mcp
from agentbook.chat.explorer.conversation import open_conversation
from agentbook.chat.explorer.source import source_of
from agentbook.frames.analysis import analyses
from agentbook.live.rules import check_rules, message_of, read_rule
from frames.accounts import busy_account

URL = "https://app.example/s/{session_id}?a&b#{message_id}"


def place(session: str, message: str = "") -> str:
    return f"https://app.example/s/{session}?a&b#{message}".removesuffix("#")


@pytest.fixture(scope="module")
def history() -> ab.History:
    client = busy_account().client()
    client.session_url = URL
    return ab.load_history(client, "acme")


def test_each_row_of_a_session_or_turn_leads_there(history: ab.History) -> None:
    turns, sessions = history.turns, history.sessions
    messages = turns["message_id"].fillna(turns["reply_id"])
    assert turns["link"].to_list() == [*map(place, turns["session_id"], messages)]
    assert sessions["link"].to_list() == [*map(place, sessions["id"])]
    assert turns["link"].dtype == "str"
    linked = []
    for name, function in analyses().items():
        frame = function(history)
        assert ("link" in frame) == ("session_id" in frame), name
        linked += [name] if "link" in frame else []
    assert {"turns", "steps", "session_summary"} <= {*linked}


def test_lists_of_sessions_and_events_have_the_address_of_their_client() -> None:
    client = busy_account().client()
    client.session_url = URL
    sessions = client.sessions.list(client.workspaces.list("acme").first()).to_pandas()
    assert sessions["link"].to_list() == [*map(place, sessions["id"])]
    assert "link" in ab.turns(client.sessions.events(sessions["id"][0]))
    assert client.asynchronous().session_url == URL


def test_without_an_address_there_are_none_and_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ab.load_history(busy_account().client(), "acme")
    assert "link" not in ab.turns(plain.events)
    assert "link" not in plain.sessions
    monkeypatch.setenv("AGENTBOOK_SESSION_URL", "https://env.example/{session_id}")
    assert ab.turns(plain.events)["link"].str.startswith("https://env.example/").all()
    labels = pd.DataFrame({"session_id": ["s/1 ü"], "question": "solved", "value": "yes"})
    assert ab.read_labels(labels)["link"].to_list() == ["https://env.example/s%2F1%20%C3%BC"]
    monkeypatch.setenv("AGENTBOOK_SESSION_URL", "javascript:alert({session_id})")
    with pytest.raises(ValueError, match="AGENTBOOK_SESSION_URL"):
        ab.turns(plain.events)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert('{session_id}')",
        "data:text/html,{session_id}",
        "http://app.example/{session_id}",
        "https://{session_id}.example/",
        "https://user:pass@app.example/{session_id}",
        "https://app.example/{session}",
        "https://app.example/{session_id}{other}",
        "https://app.example/\"onclick='{session_id}'",
        "https://app.example/",
        "{session_id}",
        "",
    ],
)
def test_a_wrong_address_is_refused_and_in_a_file_it_makes_no_links(url: str, history: ab.History) -> None:
    with pytest.raises(ValueError, match=r"session_url is no address.*\{session_id\}"):
        ab.connect("https://host/v1", api_key="id:secret", session_url=url)
    events = history.events.copy()
    events.attrs["agentbook"] = {**events.attrs["agentbook"], "session_url": url}
    assert "link" not in ab.turns(events)


def test_pages_and_answers_carry_them(history: ab.History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = {*history.turns["link"]}
    page = ab.export(history.turns, tmp_path / "turns.html").read_text()
    assert {*map(html.unescape, re.findall('<td><a href="(.*?)"', page))} == links
    report = ab.export(history, tmp_path / "report.html").read_text()
    shown = {*map(html.unescape, re.findall('<td><a href="(.*?)"', report))}
    assert shown
    assert shown <= links
    anchors = re.findall(' id="session-(.*?)"', report)
    assert anchors
    assert len(anchors) == len({*anchors})
    opened = open_conversation(source_of(history, events=None, client=None, by=None), 0)
    assert f'href="{html.escape(history.turns["link"][0])}"' in opened.html
    idle = {"analysis": "timing", "what": "idle", "limit": "idle_s < 0"}
    [rule] = message_of(check_rules([read_rule(idle)], history), history)["rules"]
    assert any(place(session) in rule["reason"] for session in history.sessions["id"])
    monkeypatch.setattr(mcp, "_loaded", lambda *_: history)
    rows = mcp.find_sessions()["rows"]
    assert [row["link"] for row in rows] == [place(row["session_id"]) for row in rows]
    chart = ab.plot.turn_timeline(history, history.sessions["id"][0])
    assert json.dumps(place(history.sessions["id"][0]))[1:-1] in json.dumps(chart.to_dict())


def test_a_table_of_others_cannot_make_a_page_run_something(tmp_path: Path) -> None:
    table = pd.DataFrame({"link": ["javascript:alert(1)", "https://a.example/\"x='", None]})
    assert "<a" not in ab.export(table, tmp_path / "table.html").read_text()


def test_pseudonyms_lead_nowhere(history: ab.History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_SESSION_URL", URL)
    other = ab.anonymize(history)
    for frame in (other.turns, other.sessions, ab.session_summary(other)):
        assert "link" not in frame
