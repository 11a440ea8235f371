"""The explorer as a person and a page use it, without a browser."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import msgspec
import pandas as pd
import pyarrow as pa
import pytest

import agentbook as ab
from agentbook.chat.explorer.explorer import ExplorerView
from agentbook.chat.explorer.saved import explorer_html
from agentbook.chat.html import static_transcript
from agentbook.frames.history import History
from agentbook.frames.parse import to_frame
from chat.explorer.tables import event, make_events, make_turns
from chat.panels import answer
from frames.accounts import busy_account

TURNS = make_turns(400)


class PageOf:
    """The page of an explorer: sends messages as the module does, and keeps replies."""

    def __init__(self, explorer: ab.Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replies: list[dict[str, Any]] = []
        monkeypatch.setattr(ExplorerView, "send", lambda _, message, *__: self.replies.append(message))
        monkeypatch.setattr(static_transcript, "show_bundle", lambda bundle, **_: self.__setattr__("bundle", bundle))
        explorer._ipython_display_()
        assert explorer._box is not None
        self.view = explorer._box._view

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message and wait for its reply."""
        return answer(self.view, **message)


@pytest.fixture
def explorer() -> ab.Explorer:
    return ab.Explorer(TURNS)


@pytest.fixture
def page(explorer: ab.Explorer, monkeypatch: pytest.MonkeyPatch) -> PageOf:
    return PageOf(explorer, monkeypatch)


def test_a_page_is_drawn_from_one_snapshot_and_then_asks(explorer: ab.Explorer, page: PageOf) -> None:
    snapshot = page.view.get_state("_snapshot")["_snapshot"]
    assert snapshot["current"]["summary"]["turns"] == 400
    assert snapshot["empty"] == ""
    position = snapshot["fixed"]["groups"].index("data-desk")
    reply = page.ask(kind="select", filters={"groups": [position], "low": 3})
    assert reply["current"]["summary"]["turns"] == len(explorer.selection) > 0
    assert set(explorer.selection["agent"]) == {"data-desk"}
    assert [words for _, words in reply["current"]["chips"]] == ["latency 3.0 s or more", "agent data-desk"]
    assert page.view.get_state("_snapshot")["_snapshot"]["current"] == reply["current"]


def test_marimo_is_given_the_view(explorer: ab.Explorer) -> None:
    box = explorer._display_()
    assert isinstance(box._display_(), ExplorerView)
    assert explorer._display_() is box
    explorer.close()


def test_a_page_is_not_sent_what_it_shows_already(page: PageOf) -> None:
    """A brush over a chart leaves that chart as it is; a page may have missed more."""
    changes = page.view.get_state("_snapshot")["_snapshot"]["current"]["changes"]
    brushed = page.ask(kind="select", filters={"low": 3}, changes=changes)["current"]
    assert {"heat", "outcomes", "groups"} < brushed.keys()
    assert "latency" not in brushed
    assert brushed["changes"]["latency"] == changes["latency"]
    again = page.ask(kind="select", filters={"low": 3}, changes=brushed["changes"])["current"]
    assert again.keys().isdisjoint(("heat", "latency", "outcomes", "groups"))
    narrowed = page.ask(kind="select", filters={"low": 3, "hours": [9, 10]}, changes=brushed["changes"])["current"]
    assert {"latency", "outcomes", "groups"} < narrowed.keys()
    assert "heat" not in narrowed
    behind = page.ask(kind="select", filters={"low": 3, "hours": [9, 10]}, changes=changes)["current"]
    whole = page.view.get_state("_snapshot")["_snapshot"]["current"]
    assert {**whole, **behind} == whole
    assert {"heat", "latency", "outcomes", "groups"} <= behind.keys()


def test_pages_and_orders_of_the_table(page: PageOf) -> None:
    table = page.ask(kind="table", sort="asked", descending=False, offset=50)["table"]
    assert (table["offset"], len(table["rows"]), table["total"]) == (50, 50, 400)
    times = [row["asked"] for row in table["rows"]]
    assert times == sorted(times)
    assert page.ask(kind="table", sort="asked", descending=False, offset=10_000)["table"]["offset"] == 350
    # A new selection begins at its first page, in the same order.
    table = page.ask(kind="select", filters={"low": 1})["current"]["table"]
    assert (table["offset"], table["sort"], table["descending"]) == (0, "asked", False)


def test_a_search_shows_where_its_words_are(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = ["Nothing."] * 399 + [f"{'before ' * 50}the PARCEL is late{' after' * 50}"]
    explorer = ab.Explorer(TURNS.assign(reply=replies))
    page = PageOf(explorer, monkeypatch)
    reply = page.ask(kind="select", filters={"text": "  parcel   late "})["current"]
    [row] = reply["table"]["rows"]
    assert row["row"] == 399
    assert row["text"].startswith("Reply: …")
    assert "the PARCEL is late" in row["text"]
    assert reply["filters"]["text"] == "parcel late"
    assert reply["summary"]["turns"] == 1
    assert page.ask(kind="open", row=399)["conversation"]["row"] == 399
    explorer.select(text="question 17 of")
    assert set(explorer.selection["prompt"]) == {f"Question {n} of many" for n in range(400) if "17" in str(n)}
    assert {each["text"] for each in page.replies[-1]["current"]["table"]["rows"]} == set(explorer.selection["prompt"])
    explorer.clear()
    assert len(explorer.selection) == 400
    with pytest.raises(TypeError, match="words to search for"):
        explorer.select(text=["parcel"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"ab\.turns\(events, texts=True\)"):
        ab.Explorer(TURNS.drop(columns="prompt")).select(text="parcel")


def test_a_score_of_sessions_is_a_group_of_their_turns() -> None:
    sessions = TURNS[["session_id"]].drop_duplicates().assign(check="solved")
    scores = sessions.assign(passed=pd.array([n % 3 > 0 for n in range(len(sessions))], "boolean"))
    turns = ab.with_scores(TURNS.assign(reply_id=TURNS["message_id"]), scores)
    explorer = ab.Explorer(turns, by="solved")
    explorer.select(groups=[False])
    assert len(explorer.selection) == (~turns["solved"]).sum() > 0
    with pytest.raises(ValueError, match="shows turns"):
        ab.Explorer(scores)


def test_a_malformed_message_is_answered_and_changes_nothing(explorer: ab.Explorer, page: PageOf) -> None:
    explorer.select(min_latency_s=2)
    before = explorer.code()
    for message in ({"kind": "select", "filters": {"hours": [500]}}, {"kind": "select"}, {"kind": "open", "row": -3}):
        assert page.ask(**message)["kind"] == "none"
    assert explorer.code() == before


def test_whatever_fails_the_page_is_answered(
    explorer: ab.Explorer, page: PageOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(explorer._model, "turn_pages", fail)
    assert page.ask(kind="table")["kind"] == "none"


def test_a_turn_opens_and_closes(explorer: ab.Explorer, page: PageOf) -> None:
    conversation = page.ask(kind="open", row=7)["conversation"]
    assert (conversation["row"], conversation["session"]) == (7, TURNS["session_id"][7])
    assert "ab.Explorer(turns, client=client)" in conversation["html"]
    assert page.ask(kind="close")["conversation"] is None
    explorer.open(3)
    assert page.replies[-1]["conversation"]["row"] == 3
    with pytest.raises(KeyError, match="No turn has the index 'x'"):
        explorer.open("x")


def test_listeners_hear_of_the_page_and_of_code(explorer: ab.Explorer, page: PageOf) -> None:
    lengths: list[int] = []
    end = explorer.listen(lambda: lengths.append(len(explorer.selection)))
    explorer.select(outcomes="answered", since="2026-09-30")
    page.ask(kind="select", filters={"low": 4})
    wait_until(lambda: len(lengths) == 2)
    assert lengths[1] == len(explorer.selection)
    end()
    explorer.clear()
    assert len(lengths) == 2
    assert len(explorer.selection) == 400
    with pytest.raises(TypeError):
        explorer.listen(3)  # type: ignore[arg-type]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": ["data-dusk"]}, "did you mean 'data-desk'"),
        ({"outcomes": ["lost"]}, "which no turn has"),
        ({"since": "2026-10-02", "until": "2026-10-01"}, "since must be before until"),
        ({"min_latency_s": 5, "max_latency_s": 1}, "must not be above"),
        ({"hours": [168]}, "0 to 167"),
        ({"since": "yesterday?"}, "since must be a time"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(explorer: ab.Explorer, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        explorer.select(**arguments)
    assert len(explorer.selection) == 400


def test_without_turns_there_is_no_group_to_select() -> None:
    with pytest.raises(ValueError, match=r"groups= has 'data-desk', which no turn has; there are: none\.$"):
        ab.Explorer(TURNS.head(0)).select(groups=["data-desk"])


def test_turns_are_grouped_by_their_path() -> None:
    talk = make_events(("How many?", "Seven."), ("Why?", "Because."))
    talk.insert(1, event(2, "tool_call", {"tool": "sql", "arguments": {}}))
    events = to_frame("events", [msgspec.json.encode({"items": talk})])
    explorer = ab.Explorer(events, by="path")
    explorer.select(groups=["sql"])
    assert explorer.selection[["prompt", "path"]].to_numpy().tolist() == [["How many?", "sql"]]
    names = {"events": events}
    exec(explorer.code("events"), names)
    assert list(names["selection"]["path"]) == ["sql"]


def test_what_cannot_be_explored_is_refused() -> None:
    with pytest.raises(TypeError, match="Explorer needs a DataFrame, not a str"):
        ab.Explorer("acme")
    with pytest.raises(ValueError, match="Explorer needs the column 'latency_s'"):
        ab.Explorer(TURNS.drop(columns="latency_s"))
    with pytest.raises(ValueError, match="did you mean 'agent'"):
        ab.Explorer(TURNS, by="agnet")
    with pytest.raises(
        ValueError, match=r"Explorer cannot group by 'team', which is not a column: .* ab\.with_sessions"
    ):
        ab.Explorer(TURNS, by="team")
    with pytest.raises(ValueError, match="Unknown time zone"):
        ab.Explorer(TURNS, tz="Europe/Bonn")
    with pytest.raises(ValueError, match="name must be the name of a variable"):
        ab.Explorer(TURNS).code("history.turns")


def test_other_tables_are_taken_too() -> None:
    explorer = ab.Explorer(pa.Table.from_pandas(TURNS))
    assert len(explorer.selection) == 400
    assert "turns = turns.to_pandas()" in explorer.code()


def test_newer_data_keep_the_selection(explorer: ab.Explorer, page: PageOf) -> None:
    explorer.select(groups=["data-desk"])
    newer = make_turns(800, seed=8)
    explorer.update(newer)
    assert len(explorer.selection) == (newer["agent"] == "data-desk").sum()
    assert page.replies[-1]["fixed"]["axes"]["periods"] > 0
    with pytest.raises(TypeError):
        explorer.update(3)
    assert explorer.selection["agent"].unique().tolist() == ["data-desk"]


def test_newer_data_keep_the_conversation_and_refuse_what_was_meant_for_older(
    explorer: ab.Explorer, page: PageOf
) -> None:
    old = page.view.get_state("_snapshot")["_snapshot"]["fixed"]["version"]
    explorer.open(7)
    newer = TURNS.sample(frac=1, random_state=1)
    explorer.update(newer)
    reply = page.replies[-1]
    assert reply["fixed"]["version"] > old
    row = reply["conversation"]["row"]
    assert newer.iloc[row][["session_id", "turn"]].to_list() == TURNS.iloc[7][["session_id", "turn"]].to_list()
    # Groups and rows are named by position, and the positions are others now.
    summary = page.ask(kind="select", filters={"groups": [1]}, version=old)["current"]["summary"]
    assert summary["turns"] == 400
    assert page.ask(kind="open", row=7, version=old)["conversation"]["row"] == row
    assert page.ask(kind="open", row=7, version=old + 1)["conversation"]["row"] == 7


def test_an_empty_history_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = ab.Explorer(History(to_frame("events", [])))
    page = PageOf(explorer, monkeypatch)
    text = page.view.get_state("_snapshot")["_snapshot"]["empty"]
    assert text.startswith("The history of this credential has no workspaces: create one with ")
    assert len(explorer.selection) == 0
    static = explorer_html(*explorer._model.static_content(), "ap-1")
    assert "no workspaces: create one" in static
    assert "<img" not in static


def test_what_a_history_lacks_is_said() -> None:
    events = to_frame("events", [msgspec.json.encode({"items": make_events(("One?", "1"))})])
    explorer = ab.Explorer(History(events, missing={"credentials": "no scope"}))
    text = "This history is not complete: it lacks credentials. history.missing says why."
    assert explorer._model.snapshot()["fixed"]["incomplete"] == text
    assert text in explorer_html(*explorer._model.static_content(), "ap-1")


def test_a_saved_notebook_has_a_picture_and_a_table(explorer: ab.Explorer) -> None:
    explorer.select(groups=[TURNS["agent"][0]], since="2026-09-25")
    html = explorer_html(*explorer._model.static_content(), "ap-1")
    picture = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert picture is not None
    svg = base64.b64decode(picture[1]).decode()
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert f"{TURNS['agent'][0]} {len(explorer.selection)}" in texts
    assert len(svg) < 20_000
    assert html.count("<tr>") == 11
    assert html == explorer_html(*explorer._model.static_content(), "ap-1")
    assert "of 400 turns" in re.search(r'<img alt="([^"]+)"', html)[1]  # type: ignore[index]


def test_names_of_agents_are_never_markup() -> None:
    hostile = "<img src=x onerror=hit()>\x00]]>&\u202e"
    explorer = ab.Explorer(TURNS.assign(agent=hostile, prompt=hostile))
    html = explorer_html(*explorer._model.static_content(), "ap-1")
    assert "<img src=x" not in html
    picture = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert picture is not None
    ElementTree.fromstring(base64.b64decode(picture[1]))  # well-formed
    assert "<img" not in base64.b64decode(picture[1]).decode()


def test_a_closed_explorer_says_nothing_more(explorer: ab.Explorer, page: PageOf) -> None:
    explorer.close()
    count = len(page.replies)
    explorer.select(min_latency_s=1)
    assert len(page.replies) == count
    assert 0 < len(explorer.selection) < 400
    assert repr(explorer).startswith("<Explorer of ")


def test_a_turn_is_added_to_a_test_set_after_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ab.PromptLab(ab.Client("https://host.test/v1"))
    turns = make_turns(20).assign(prompt="I am ada@acme.test. Why?")
    page = PageOf(ab.Explorer(turns, lab=lab), monkeypatch)
    assert page.view.snapshot()["collects"] is True
    shown = page.ask(kind="collect", row=3)["collected"]
    assert (shown["text"], shown["masked"], shown["added"]) == ("I am […]. Why?", "an e-mail address", False)
    assert lab.inputs == []
    added = page.ask(kind="collect", row=3, confirm=True)["collected"]
    assert (added["added"], added["inputs"], lab.inputs) == (True, 1, ["I am […]. Why?"])
    assert lab._lab.input_set.known(lab.inputs[0]).origin["session_id"] == turns["session_id"].iloc[3]
    assert page.ask(kind="collect", row=99)["collected"] is None
    without = PageOf(ab.Explorer(turns.drop(columns="prompt"), lab=lab), monkeypatch)
    assert "need the column 'prompt'" in without.ask(kind="collect", row=0)["collected"]["error"]


@pytest.mark.parametrize("tz", ["Asia/Kolkata", None])
def test_the_conversation_is_in_the_zone_of_the_views(tz: str | None) -> None:
    """That of the explorer, or of the history that it shows."""
    history = ab.load_history(busy_account().client(), "acme", tz=None if tz else "Asia/Kolkata")
    explorer = ab.Explorer(history, tz=tz)
    explorer.select(since="2026-09-21 19:45")
    assert len(explorer.selection) == 4
    explorer.open(explorer.selection.index[0])
    shown = explorer._snapshot()
    assert shown["fixed"]["tz"] == "Asia/Kolkata"
    assert re.findall(r"2026-09-21 [0-9:]{5} [^<]*", shown["conversation"]["html"]) == [
        "2026-09-21 19:45 Asia/Kolkata · selected"
    ]
    saved = explorer_html(*explorer._model.static_content(), "uid")
    assert "2026-09-21 19:45 Asia/Kolkata" in saved
    assert "UTC" not in saved
    explorer.close()
