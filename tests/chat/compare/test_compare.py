"""Comparisons of several agents on a scripted platform, without a browser."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from typing import Any

import pandas as pd
import pytest
from ipywidgets import VBox

from agentbook.api.errors import Unauthorized
from agentbook.chat.compare.page import CompareView
from agentbook.chat.compare.view import static_html
from agentbook.chat.compare.widget import Compare
from agentbook.chat.html import static_transcript
from agentbook.events import loop
from chat.compare.agents import Agents, PageReader, buttons, eventually, never, shout, words
from chat.fakes import FakePlatform, echo, refused
from chat.panels import on_loop, widgets_in

pytestmark = pytest.mark.python_versions


def test_pictures_load_when_the_reader_allows_it(make: Any) -> None:
    compare = make("echo", "shout")

    page = PageReader(compare)

    def pictures() -> tuple[int, str]:
        return sum(turn.get("body", "").count("<img ") for turn in page.turns.values()), page.fields["pictures"][0]

    compare.ask("none")
    assert page.fields["pictures"] is None
    compare.ask("![cat](https://e.test/cat.png)")
    assert pictures() == (0, "Load pictures")
    page.say(do="pictures")
    assert pictures() == (2, "Hide pictures")
    page.say(do="pictures")
    assert pictures() == (0, "Load pictures")
    assert "<img" not in static_html(compare.comparison, "uid")
    assert make("echo", "shout", images=True).ask("![cat](https://e.test/cat.png)")


def test_ask_returns_the_turns_by_name(agents: Agents, make: Any) -> None:
    compare = make("echo", "shout")
    turns = compare.ask("Hello")
    assert {name: turn.text for name, turn in turns.items()} == {"echo": "You said: Hello", "shout": "**HELLO**"}
    assert sorted(agents.sent) == [("echo", "Hello"), ("shout", "Hello")]
    assert "You said: Hello" in words(compare)
    assert "HELLO" in words(compare)
    assert words(compare).count("Reply after") == 2
    assert "All answered. Which is better?" in words(compare)
    assert asyncio.run(compare.aask("Again"))["shout"].text == "**AGAIN**"
    assert len(agents.started) == 2, "the second round continues in the same sessions"
    assert [len(side.exchanges) for side in compare.comparison.conversations] == [2, 2]


def test_a_failure_does_not_affect_the_others(agents: Agents, make: Any) -> None:
    agents.refusals["shout"] = [refused(Unauthorized, 401, "Invalid API key")]
    compare = make("echo", "fails", "shout", "nobody")
    turns = compare.ask("Hello")
    assert [turn.status for turn in turns.values()] == ["answered", "failed", "failed", "failed"]
    assert turns["fails"].failure.kind == "llm_tokens"
    assert (turns["shout"].failure.status, turns["nobody"].failure.status) == (401, 404)
    text = words(compare)
    assert "exceeded LLM token limit" in text
    assert "did not accept the credential" in text
    assert "Request req-7" in text
    assert "Request req-9" in text
    assert "1 of 4 answered; 3 failed" in text
    frame = compare.to_pandas()
    assert frame["request_id"].to_list()[2:] == ["req-7", "req-9"]
    assert frame["time_to_reply_s"].notna().to_list() == [True, True, False, False]

    PageReader(compare).retry(2)
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    assert "HELLO" in words(compare)
    assert compare.to_pandas()["text"].to_list()[2] == "**HELLO**"
    # The second round goes to those who failed, too.
    assert compare.ask("More")["shout"].text == "**MORE**"


def test_a_failed_run_is_retried_in_its_own_session(agents: Agents, make: Any) -> None:
    compare = make("echo", "fails")
    compare.ask("Hello")
    agents.started[1].answer = shout
    PageReader(compare).retry(1)
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "answered")
    assert len(agents.started) == 2
    assert compare.to_pandas()["status"].to_list() == ["answered", "answered"]


def test_a_retry_keeps_what_was_streamed_before(agents: Agents, make: Any) -> None:
    compare = make("echo", "breaks")
    compare.ask("Hello")
    assert "Let me" in words(compare)
    agents.started[1].answer = shout
    PageReader(compare).retry(1)
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "answered")
    attempt = "Let me Incomplete: the reply was cut off here. Failed. exceeded LLM token limit"
    assert attempt in words(compare)
    assert words(compare).index(attempt) < words(compare).index("HELLO")
    again = Compare.from_json(compare.to_json())
    assert attempt in words(again)
    saved = re.sub(r"<[^>]*>", " ", static_html(again.comparison, "uid"))
    assert attempt in " ".join(saved.split())
    compare.ask("Hello")
    assert words(compare).count("Let me") == 1
    again.close()


def test_answers_stream_and_none_waits_for_another(make: Any, agents: Agents) -> None:
    proceed = asyncio.Event()

    async def slow(platform: FakePlatform, text: str) -> None:
        await never(platform, text)
        await proceed.wait()
        platform.reply("Let me think.")

    agents.answers["slow"] = slow
    compare = make("shout", "slow")
    asking = threading.Thread(target=compare.ask, args=("Hello",))
    asking.start()
    eventually(compare, lambda: [side.get("body", "") != "" for side in sides(compare)] == [True, True])
    first, second = sides(compare)
    assert "HELLO" in first["body"]
    assert (first["data"]["pending"], second["data"]["pending"]) == (False, True)
    assert "Let me" in second["body"]
    on_loop(proceed.set)
    asking.join(60)
    assert "Let me think." in sides(compare)[1]["body"]


def sides(compare: Compare) -> list[dict[str, Any]]:
    """The replies of the only round; none before it is on the page."""
    page = PageReader(compare)
    return page.columns() if any("columns" in turn["data"] for turn in page.turns.values()) else []


def test_an_agent_may_occur_more_than_once(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout", "echo", {"id": "echo", "name": "echo"})
    turns = compare.ask("Hi")
    assert list(turns) == ["echo #1", "shout", "echo #2", "echo #3"]
    assert len(set(compare.session_ids.values())) == 4


def test_an_agent_passed_by_id_is_labelled_by_its_id(make: Any, agents: Agents) -> None:
    known = "0199a0b2-0000-7000-8000-00000000000a"
    agents.answers[known] = echo
    compare = make("shout", known)
    assert compare.comparison.labels == ["shout", "agent …0000000a"]
    assert repr(compare) == "Compare('shout', 'agent …0000000a')"


def test_a_click_stores_a_preference_and_another_changes_it(make: Any) -> None:
    compare = make("echo", "shout")
    assert len(compare.preferences) == 0
    compare.ask("Hello")
    assert set(buttons(compare)) == {"Prefer echo", "Prefer shout", "Tie", "None of them"}
    buttons(compare)["Prefer shout"].click()
    eventually(compare, lambda: compare.rounds[0].preferred == 1)
    assert set(buttons(compare)) == {"Prefer echo", "✓ shout preferred", "Tie", "None of them"}
    row = compare.preferences.iloc[0]
    assert (row["round"], row["message"], row["preferred"], row["column"]) == (1, "Hello", "shout", 2)
    assert row["agents"] == ["echo", "shout"]
    assert row["session_ids"] == list(compare.session_ids.values())
    assert all(seconds >= 0 for seconds in row["latencies_s"])
    assert str(row["preferred_at"].tz) == "UTC"
    assert "preferred: shout 1" in words(compare)
    assert compare.to_pandas()["preferred"].to_list() == [False, True]

    buttons(compare)["Tie"].click()
    eventually(compare, lambda: compare.rounds[0].preferred == "tie")
    assert compare.preferences["preferred"].to_list() == ["tie"]
    assert compare.preferences["column"].isna().all()
    buttons(compare)["✓ Tie"].click()
    eventually(compare, lambda: compare.rounds[0].preferred is None)
    assert len(compare.preferences) == 0

    compare.ask("Once more")
    compare.prefer("echo", round=1)
    compare.prefer("none")
    assert compare.preferences["preferred"].to_list() == ["echo", "none"]
    compare.prefer(None)
    assert compare.preferences["preferred"].to_list() == ["echo"]


def test_only_answered_sides_can_be_preferred(make: Any, agents: Agents) -> None:
    compare = make("echo", "fails", "never")
    asking = threading.Thread(target=compare.ask, args=("Hello",))
    asking.start()
    eventually(compare, lambda: bool(compare.rounds) and compare.rounds[0].exchanges[2].text == "Let me")
    eventually(compare, lambda: len(compare.comparison.pending) == 1)
    assert all(button.disabled for button in buttons(compare).values())
    page = PageReader(compare)
    assert page.fields["composer"]["busy"]
    assert "1 of 3 answered, 1 failed…" in words(compare)
    with pytest.raises(ValueError, match="does not allow"):
        compare.prefer("echo")
    page.say(do="stop")
    asking.join(60)
    assert {name for name, button in buttons(compare).items() if not button.disabled} == {"Prefer echo", "None of them"}
    for choice, message in (("fails", "does not allow"), ("tie", "does not allow"), ("nobody", "none of these")):
        with pytest.raises(ValueError, match=message):
            compare.prefer(choice)
    with pytest.raises(ValueError, match="There is no round 2: the last is 1"):
        compare.prefer("echo", round=2)
    # A late reply appears, and can be preferred then.
    on_loop(lambda: agents.started[2].reply("At last"))
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    compare.prefer("never")
    assert compare.preferences["preferred"].to_list() == ["never"]


@pytest.mark.parametrize("ask", [Compare.ask, lambda *a, **k: asyncio.run(Compare.aask(*a, **k))], ids=["ask", "aask"])
def test_a_timeout_concerns_only_late_sides(make: Any, ask: Any) -> None:
    compare = make("echo", "never")
    turns = ask(compare, "Hello", timeout_s=2.0)
    assert [turn.status for turn in turns.values()] == ["answered", "open"]
    assert [exchange.status for exchange in compare.rounds[0].exchanges] == ["answered", "stopped"]


def test_the_page_sends_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = make("echo", "never")
    page = PageReader(compare)
    answers: list[tuple[str, bool]] = []
    widget = compare._views.page.chat.widget
    monkeypatch.setattr(widget, "send", lambda message: answers.append((message.get("kind"), message.get("accepted"))))
    page.write("Typed")
    page.write("Typed")  # a double click sends once
    assert page.fields["composer"]["busy"]  # read on the toolkit's thread, after both messages
    assert len(compare.rounds) == 1
    assert [accepted for kind, accepted in answers if kind == "answer"] == [True, False]


def test_the_plain_view_reads_sends_and_prefers(make: Any, agents: Agents) -> None:
    compare = make("echo", "breaks")
    compare.ask("First")
    on_loop(compare._views.switch.show_plain)
    assert not any(isinstance(widget, CompareView) for widget in widgets_in(compare))

    def named() -> dict[str, Any]:
        on_loop(compare._throttle.flush)
        return {label: each for each in widgets_in(compare) if (label := getattr(each, "description", ""))}

    def values() -> str:
        on_loop(compare._throttle.flush)
        return " ".join(value for each in widgets_in(compare) if isinstance(value := getattr(each, "value", ""), str))

    assert "You said: First" in values()
    assert "agentbook doctor" in values()
    agents.started[1].answer = shout
    named()["Try again"].click()
    eventually(compare, lambda: compare.rounds[0].complete and compare.rounds[0].exchanges[1].status == "answered")
    assert "FIRST" in values()
    assert "Let me" in values(), "what was streamed before the retry"
    named()["Prefer echo"].click()
    eventually(compare, lambda: compare.rounds[0].preferred == 0)
    named()["✓ echo preferred"].click()
    eventually(compare, lambda: compare.rounds[0].preferred is None)
    named()["Message"].value = "Second"
    named()["Send to all"].click()
    eventually(compare, lambda: len(compare.rounds) == 2 and compare.rounds[1].complete)
    assert "You said: Second" in values()
    assert named()["Message"].value == ""
    on_loop(compare._views.switch.show_page)
    assert [isinstance(child, CompareView) for child in compare.children] == [True]


def test_a_page_is_told_of_each_round_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    page = PageReader(compare)
    assert page.fields  # all is drawn
    patches: list[dict[str, Any]] = []
    monkeypatch.setattr(compare._views.page.chat.widget, "send", patches.append)
    compare.ask("Second")
    assert page.fields["status"][0] == "All answered. Which is better?"
    known = {"r1", "t1", "t2"}
    changed = [op[1] for patch in patches for op in patch["ops"] if op[0] in ("html", "data", "body")]
    assert changed
    assert not known & set(changed)
    questions = [op for patch in patches for op in patch["ops"] if op[:1] == ["html"] and op[2] == "question"]
    assert [op[1] for op in questions] == ["r2"], "the question is sent once, not with each column"


@pytest.mark.parametrize(
    "message",
    [
        {"do": "prefer"},
        {"do": "prefer", "round": "r9", "choice": 0},
        {"do": "prefer", "round": "r1", "choice": 7},
        {"do": "prefer", "round": "r1", "choice": None},
        {"do": "retry", "turn": "r1"},
        {"do": "send", "text": None, "number": "1"},
        {"do": "session", "session": "x"},
        "prefer",
    ],
)
def test_garbage_from_a_page_is_ignored(make: Any, message: Any) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    compare._views.page.chat.widget._handle_custom_msg(message, [])
    assert PageReader(compare).fields["preferred"] == ""
    assert len(compare.rounds) == 1


def test_the_static_html_is_not_typeset(make: Any) -> None:
    compare = make("echo", r"$\let\hr\href$")
    empty = static_html(compare.comparison, "ap-0")
    compare.ask("Hello")
    for html_text in (empty, static_html(compare.comparison, "ap-0")):
        assert re.match(r'<div class="ap-0-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html_text)


def test_names_are_hidden_until_there_is_a_preference(make: Any) -> None:
    compare = make("echo", "shout", blind=True, seed=1)
    for _ in range(8):
        compare.ask("Hello")
    text = words(compare) + static_html(compare.comparison, "ap-0")
    assert "echo" not in text
    assert "shout" not in text
    assert set(buttons(compare)) == {"Prefer A", "Prefer B", "Tie", "None of them"}
    orders = [round_.order for round_ in compare.rounds]
    assert [0, 1] in orders
    assert [1, 0] in orders
    again = make("echo", "shout", blind=True, seed=1)
    for _ in range(8):
        again.ask("Hello")
    assert [round_.order for round_ in again.rounds] == orders

    compare.prefer("shout", round=1)
    column = orders[0].index(1)
    assert f"{'AB'[column]} · shout" in words(compare)
    row = compare.preferences.iloc[0]
    assert (row["preferred"], row["column"], row["blind"]) == ("shout", column + 1, True)
    assert row["agents"] == [["echo", "shout"][side] for side in orders[0]]
    assert "HELLO" in PageReader(compare).columns(0)[column]["body"]
    compare.prefer(None, round=1)
    assert f"{'AB'[column]} · shout" in words(compare), "names stay visible once shown"


def test_the_static_transcript_shows_answers_side_by_side(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    record = lambda bundle, **options: sent.append((bundle.get("text/html", ""), options))  # noqa: E731
    monkeypatch.setattr(static_transcript, "show_bundle", record)
    monkeypatch.setattr(static_transcript, "_in_kernel", lambda: True)
    compare = make("echo", "shout")
    compare._ipython_display_()
    compare.ask("Hello")
    compare.prefer("echo")
    final = sent[-1][0]
    assert sent[-1][1]["update"]
    assert re.search(
        r'<div class="ab-columns"><div class="ab-column ab-chosen">.*<div class="ab-column">', final, re.DOTALL
    )
    assert "echo was preferred." in final
    assert "onload" not in final
    assert not any(session in final for session in compare.session_ids.values())


def test_drawing_is_throttled_and_loses_nothing(make: Any, agents: Agents) -> None:
    pieces = [f"word{n} " for n in range(1_500)]

    async def stream(platform: FakePlatform, text: str) -> None:
        at = 0
        for piece in pieces:
            platform.write(piece, at)
            at += len(piece)
            await asyncio.sleep(0)
        platform.reply("".join(pieces) + "end")

    agents.answers["one"] = agents.answers["two"] = stream
    compare = make("one", "two")
    drawn: list[float] = []
    throttle = compare._throttle
    draw = throttle._draw
    # The start of each drawing by the throttle's own clock: this thread may be
    # suspended before it reads another one.
    throttle._draw = lambda: (drawn.append(throttle._last), draw())  # type: ignore[func-returns-value]
    turns = compare.ask("Much")
    assert [turn.text for turn in turns.values()] == ["".join(pieces) + "end"] * 2
    gaps = [later - earlier for earlier, later in itertools.pairwise(drawn)]
    # The last drawing comes at once, when all have answered.
    assert all(gap >= 0.045 for gap in gaps[:-2])
    assert words(compare).count("word1499 end") == 2


def test_agents_may_be_a_frame_a_column_or_an_iterator(make: Any, agents: Agents) -> None:
    frame = pd.DataFrame({"id": ["echo", "shout"], "name": ["Echo", None], "is_public": [True, False]})
    for collection in (frame, frame["id"], (name for name in ("echo", "shout"))):
        compare = Compare(agents, "acme~lab", collection, follow=agents.follow)  # type: ignore[arg-type]
        assert {turn.status for turn in compare.ask("Hello").values()} == {"answered"}
        assert sorted({name for name, _ in agents.sent}) == ["echo", "shout"]
        agents.sent.clear()
        compare.close()


def test_invalid_arguments_raise_at_once(make: Any) -> None:
    for names in ((), ("echo",)):
        with pytest.raises(ValueError, match="at least two agents"):
            make(*names)
    with pytest.raises(ValueError, match="at least two agents"):
        Compare(None, "acme~lab", "echo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least two agents"):
        Compare(None, "acme~lab", {"id": "a", "name": "guide"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int"):
        Compare(None, "acme~lab", 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"needs a column 'id'.*columns: agent"):
        Compare(None, "acme~lab", pd.DataFrame({"agent": ["a", "b"]}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workspace="):
        Compare(None, None, ["a", "b"])  # type: ignore[arg-type]
    compare = make("echo", "shout")
    with pytest.raises(ValueError, match="empty"):
        compare.ask("  ")
    with pytest.raises(ValueError, match="not valid Unicode"):
        compare.ask("cut \ud83d")
    with pytest.raises(TypeError, match="not None"):
        compare.ask(None)  # type: ignore[arg-type]
    assert compare.rounds == []


def test_a_closed_comparison_keeps_its_data(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    assert repr(compare) == "Compare('echo', 'shout')"
    compare.ask("Hello")
    compare.close()
    compare.close()
    assert [platform.readers for platform in agents.started] == [[], []]
    with pytest.raises(ValueError, match="closed"):
        compare.ask("Hello?")
    assert compare.to_pandas()["status"].to_list() == ["answered", "answered"]


def test_no_attribute_shadows_one_of_vbox(make: Any) -> None:
    compare = make("echo", "shout")
    assert not (set(vars(compare)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(Compare).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}


def test_an_interrupt_stops_waiting(make: Any) -> None:
    compare = make("echo", "never")
    work = loop.submit(compare._ask("Hello", None))
    eventually(compare, lambda: bool(compare.rounds) and len(compare.comparison.pending) == 1)
    work.cancel()  # as `loop.run` does when the cell is interrupted
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "stopped")
    assert compare.rounds[0].exchanges[0].status == "answered"
