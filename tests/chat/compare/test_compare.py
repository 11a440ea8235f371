"""Comparisons of several agents on a scripted platform, without a browser."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pandas as pd
import pytest

from agentbook.api.errors import Unauthorized
from agentbook.chat.compare.compare import Compare
from agentbook.chat.compare.text import static_html
from agentbook.events import loop
from chat.compare.agents import Agents, PageReader, never, shout, words
from chat.fakes import FakePlatform, echo, refused
from chat.panels import eventually, on_loop


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


def test_a_reply_that_was_cut_off_says_so(agents: Agents, make: Any) -> None:
    def cut(platform: FakePlatform, text: str) -> None:
        platform.persist("runtime_done", {"text": "It goes", "finish_reason": "length"}, {"type": "agent", "id": "a"})

    agents.answers["cut"] = cut
    compare = make("echo", "cut")
    compare.ask("Hello")
    assert words(compare).count("cut off") == 1
    assert static_html(compare.comparison, "uid").count("cut off") == 1
    assert compare.to_pandas()["finish_reason"].dropna().tolist() == ["length"]
    again = Compare.from_json(compare.to_json())
    assert words(again).count("cut off") == 1
    again.close()


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

    PageReader(compare).retry_side(2)
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    assert "HELLO" in words(compare)
    assert compare.to_pandas()["text"].to_list()[2] == "**HELLO**"
    # The second round goes to those who failed, too.
    assert compare.ask("More")["shout"].text == "**MORE**"


def test_a_retry_keeps_what_was_streamed_before(agents: Agents, make: Any) -> None:
    compare = make("echo", "breaks")
    compare.ask("Hello")
    assert "Let me" in words(compare)
    agents.started[1].answer = shout
    PageReader(compare).retry_side(1)
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "answered")
    assert len(agents.started) == 2, "it was retried in its own session"
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


def test_a_timeout_concerns_only_late_sides(make: Any) -> None:
    compare = make("echo", "never")
    turns = compare.ask("Hello", timeout_s=2.0)
    assert [turn.status for turn in turns.values()] == ["answered", "open"]
    assert [exchange.status for exchange in compare.rounds[0].exchanges] == ["answered", "stopped"]


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


def test_an_interrupt_stops_waiting(make: Any) -> None:
    compare = make("echo", "never")
    work = loop.submit(compare._ask("Hello", None))
    eventually(compare, lambda: bool(compare.rounds) and len(compare.comparison.pending) == 1)
    work.cancel()  # as `loop.run` does when the cell is interrupted
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "stopped")
    assert compare.rounds[0].exchanges[0].status == "answered"


@pytest.mark.parametrize("workspace", [["a", "b"], ("a", "b"), pd.DataFrame({"id": ["a", "b"]})])
def test_agents_in_place_of_the_workspace_are_told_apart(agents: Agents, workspace: Any) -> None:
    for others in ((), "acme~lab"):
        with pytest.raises(
            TypeError, match=r"in one workspace, but workspace= lists several\. Write ab\.Compare\(client, "
        ):
            Compare(agents, workspace, others)  # type: ignore[arg-type]
