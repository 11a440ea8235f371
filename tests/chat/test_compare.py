"""A comparison without a browser: several agents of one process, asked the same."""

from __future__ import annotations

import asyncio
import html
import itertools
import json
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ipywidgets import VBox

from agentbook.api.errors import NotFound, Unauthorized
from agentbook.api.record import Record
from agentbook.chat.compare import records
from agentbook.chat.compare.html import static_html
from agentbook.chat.compare.widget import Compare
from agentbook.chat.html import static_transcript
from agentbook.events import loop

from .fakes import FakePlatform, echo, refused
from .panels import on_loop, widgets_in

Answer = Callable[[FakePlatform, str], Any]


class Agents:
    """Client and pump of several agents: each session is a platform of its own."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.started: list[FakePlatform] = []
        self.sent: list[tuple[str, str]] = []
        self.refusals: dict[str, list[Exception]] = {}
        self.sessions = self.agents = self

    def asynchronous(self) -> Agents:
        return self

    async def get(self, name: str) -> Record:
        if name not in self.answers:
            raise NotFound("no", operation="agents.get", status=404, message="Agent not found", request_id="req-9")
        return Record(id=name, name=name)

    async def start(self, workspace: Any, *, agent_id: str, prompt: str) -> Record:
        if self.refusals.get(agent_id):
            raise self.refusals[agent_id].pop(0)
        platform = FakePlatform(self.answers[agent_id])
        self.started.append(platform)
        self.sent.append((agent_id, prompt))
        platform.say(prompt)
        return Record(id=f"01900000-0000-7000-8000-{len(self.started):012x}", workspace_id=workspace)

    async def send(self, session_id: str, text: str) -> Record:
        self.sent.append((session_id, text))
        return self.of(session_id).say(text)

    def of(self, session_id: str) -> FakePlatform:
        return self.started[int(session_id[-12:], 16) - 1]

    def follow(self, client: Any, session_id: str, **options: Any) -> AsyncGenerator[Record]:
        return self.of(session_id).follow(client, session_id, **options)


def shout(platform: FakePlatform, text: str) -> None:
    platform.reply(f"**{text.upper()}**")


def fails(platform: FakePlatform, text: str) -> None:
    platform.fail("exceeded LLM token limit for this execution tree")


async def never(platform: FakePlatform, text: str) -> None:
    while not platform.readers:  # a draft reaches those who listen, and nobody else
        await asyncio.sleep(0)
    platform.write("Let me", 0)


@pytest.fixture
def agents() -> Agents:
    return Agents(echo=echo, shout=shout, fails=fails, never=never)


@pytest.fixture
def make(agents: Agents) -> Iterator[Callable[..., Compare]]:
    made: list[Compare] = []

    def build(*names: Any, **options: Any) -> Compare:
        compare = Compare(agents, "acme~lab", names, follow=agents.follow, **options)  # type: ignore[arg-type]
        made.append(compare)
        return compare

    yield build
    for compare in made:
        compare.close()


def words(compare: Compare) -> str:
    """What a person reads, buttons included."""
    on_loop(compare._pace.flush)
    parts = [widget for child in compare.children[1:] for widget in widgets_in(child)]
    texts = (getattr(part, "value", None) or getattr(part, "description", "") for part in parts)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(texts))).split())


def eventually(compare: Compare, condition: Callable[[], bool]) -> None:
    """Wait until the comparison meets the condition, woken by its changes."""
    changed = threading.Event()
    compare.comparison.listen(changed.set)
    until = time.monotonic() + 60
    while not condition():
        assert changed.wait(max(0.0, until - time.monotonic())), "nothing changed in 60 s"
        changed.clear()


def buttons(compare: Compare, round_: int = -1) -> dict[str, Any]:
    """The buttons of a round by what they say."""
    on_loop(compare._pace.flush)
    return {made.description: made for made in compare._frame.views[round_]._prefer.values()}


def test_pictures_load_when_the_reader_allows_it(make: Any) -> None:
    compare = make("echo", "shout")

    def pictures() -> int:
        on_loop(compare._pace.flush)
        return "".join(str(getattr(part, "value", "")) for part in widgets_in(compare._frame.inner)).count("<img ")

    compare.ask("none")
    button = compare._frame.pictures
    assert "ab-hidden" in button._dom_classes
    compare.ask("![cat](https://e.test/cat.png)")
    assert pictures() == 0
    assert "ab-hidden" not in button._dom_classes
    button.click()
    assert (pictures(), button.description) == (2, "Hide pictures")
    button.click()
    assert (pictures(), button.description) == (0, "Load pictures")
    assert "<img" not in static_html(compare.comparison, "uid")
    assert make("echo", "shout", images=True).ask("![cat](https://e.test/cat.png)")


def test_everyone_is_asked_and_the_turns_come_back_by_name(agents: Agents, make: Any) -> None:
    compare = make("echo", "shout")
    turns = compare.ask("Hello")
    assert {name: turn.text for name, turn in turns.items()} == {"echo": "You said: Hello", "shout": "**HELLO**"}
    assert sorted(agents.sent) == [("echo", "Hello"), ("shout", "Hello")]
    assert "You said: Hello" in words(compare)
    assert "HELLO" in words(compare)
    assert words(compare).count("Reply after") == 2
    assert "All answered. Which is better?" in words(compare)
    assert asyncio.run(compare.aask("Again"))["shout"].text == "**AGAIN**"
    assert len(agents.started) == 2, "a round goes on in the sessions of the one before"
    assert [len(side.exchanges) for side in compare.comparison.conversations] == [2, 2]


def test_one_fails_and_the_others_do_not_notice(agents: Agents, make: Any) -> None:
    agents.refusals["shout"] = [refused(Unauthorized, 401, "Invalid API key")]
    compare = make("echo", "fails", "shout", "nobody")
    turns = compare.ask("Hello")
    assert [turn.status for turn in turns.values()] == ["answered", "failed", "failed", "failed"]
    assert turns["fails"].failure.kind == "llm_tokens"
    assert (turns["shout"].failure.status, turns["nobody"].failure.status) == (401, 404)
    said = words(compare)
    assert "exceeded LLM token limit" in said
    assert "did not accept the credential" in said
    assert "Request req-7" in said
    assert "Request req-9" in said
    assert "1 of 4 answered; 3 failed" in said
    frame = compare.to_pandas()
    assert frame["request_id"].to_list()[2:] == ["req-7", "req-9"]
    assert frame["time_to_reply_s"].notna().to_list() == [True, True, False, False]

    view = compare._frame.views[0]._views[2]
    view._retry.click()
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    assert "HELLO" in words(compare)
    assert compare.to_pandas()["text"].to_list()[2] == "**HELLO**"
    # The second round goes to those who failed, too.
    assert compare.ask("More")["shout"].text == "**MORE**"


def test_a_failed_run_is_asked_again_in_its_own_session(agents: Agents, make: Any) -> None:
    compare = make("echo", "fails")
    compare.ask("Hello")
    agents.started[1].answer = shout
    compare._frame.views[0]._views[1]._retry.click()
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "answered")
    assert len(agents.started) == 2
    assert compare.to_pandas()["status"].to_list() == ["answered", "answered"]


def test_the_same_agent_twice_is_told_apart(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout", "echo", {"id": "echo", "name": "echo"})
    turns = compare.ask("Hi")
    assert list(turns) == ["echo #1", "shout", "echo #2", "echo #3"]
    assert len(set(compare.session_ids.values())) == 4


def test_an_agent_given_by_id_gets_its_name_once_it_is_known(make: Any, agents: Agents) -> None:
    known = "0199a0b2-0000-7000-8000-00000000000a"
    agents.answers[known] = echo
    compare = make("shout", known)
    assert compare.comparison.labels == ["shout", "agent …0000000a"]
    assert repr(compare) == "Compare('shout', 'agent …0000000a')"


def test_a_click_says_which_is_better_and_another_changes_it(make: Any) -> None:
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


def test_only_what_was_answered_can_be_preferred(make: Any, agents: Agents) -> None:
    compare = make("echo", "fails", "never")
    asking = threading.Thread(target=compare.ask, args=("Hello",))
    asking.start()
    eventually(compare, lambda: bool(compare.rounds) and compare.rounds[0].exchanges[2].text == "Let me")
    eventually(compare, lambda: len(compare.comparison.pending) == 1)
    assert all(made.disabled for made in buttons(compare).values())
    assert (compare._frame.composer.send.disabled, "ab-hidden" in compare._frame.composer.stop._dom_classes) == (
        True,
        False,
    )
    assert "1 of 3 answered, 1 failed…" in words(compare)
    with pytest.raises(ValueError, match="does not allow"):
        compare.prefer("echo")
    compare._frame.composer.stop.click()
    asking.join(60)
    assert {name for name, made in buttons(compare).items() if not made.disabled} == {"Prefer echo", "None of them"}
    for choice, said in (("fails", "does not allow"), ("tie", "does not allow"), ("nobody", "none of these")):
        with pytest.raises(ValueError, match=said):
            compare.prefer(choice)
    with pytest.raises(ValueError, match="There is no round 2: the last is 1"):
        compare.prefer("echo", round=2)
    # The late reply is taken in, and can be preferred then.
    on_loop(lambda: agents.started[2].reply("At last"))
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    compare.prefer("never")
    assert compare.preferences["preferred"].to_list() == ["never"]


@pytest.mark.parametrize("ask", [Compare.ask, lambda *a, **k: asyncio.run(Compare.aask(*a, **k))], ids=["ask", "aask"])
def test_time_runs_out_for_those_who_are_late_alone(make: Any, ask: Any) -> None:
    compare = make("echo", "never")
    turns = ask(compare, "Hello", timeout_s=2.0)
    assert [turn.status for turn in turns.values()] == ["answered", "open"]
    assert [exchange.status for exchange in compare.rounds[0].exchanges] == ["answered", "stopped"]


def test_send_by_the_button(make: Any) -> None:
    compare = make("echo", "shout")
    compare._frame.composer.input.value = "Typed"
    compare._frame.composer.send.click()
    compare._frame.composer.send.click()  # a double click sends once
    eventually(compare, lambda: bool(compare.rounds) and compare.rounds[0].settled)
    assert len(compare.rounds) == 1
    assert compare._frame.composer.input.value == ""
    assert "You said: Typed" in words(compare)


def test_what_it_leaves_in_the_notebook_is_no_tex(make: Any) -> None:
    compare = make("echo", r"$\let\hr\href$")
    empty = static_html(compare.comparison, "ap-0")
    compare.ask("Hello")
    for twin in (empty, static_html(compare.comparison, "ap-0")):
        assert re.match(r'<div class="ap-0-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', twin)


def test_names_are_hidden_until_a_preference_is_made(make: Any) -> None:
    compare = make("echo", "shout", blind=True, seed=1)
    for _ in range(8):
        compare.ask("Hello")
    said = words(compare) + static_html(compare.comparison, "ap-0")
    assert "echo" not in said
    assert "shout" not in said
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
    texts = [view._columns[side].children for view in compare._frame.views[:1] for side in view.round.order]
    assert "HELLO" in "".join(getattr(part, "value", "") for part in widgets_in(texts[column][0]))
    compare.prefer(None, round=1)
    assert f"{'AB'[column]} · shout" in words(compare), "what was seen is not unseen"


def test_json_reads_back_to_the_same(make: Any, tmp_path: Path) -> None:
    compare = make("echo", "fails", "never", blind=True, seed=3)
    compare.ask("Grüße ☃", timeout_s=0.3)
    compare.ask("more", timeout_s=0.3)
    eventually(compare, lambda: [round_.exchanges[0].status for round_ in compare.rounds] == ["answered"] * 2)
    compare.prefer("echo", round=2)
    path = tmp_path / "compared.json"
    path.write_text(compare.to_json(), encoding="utf-8")
    again = Compare.from_json(path)
    assert again.to_json() == compare.to_json()
    assert again.to_pandas().equals(compare.to_pandas())
    assert again.preferences.to_dict() == compare.preferences.to_dict()
    assert static_html(again.comparison, "ap-0") == static_html(compare.comparison, "ap-0")
    assert again._frame.composer.input.disabled
    assert len(again._frame.views) == 2
    with pytest.raises(ValueError, match="recording"):
        again.ask("More?")
    again.prefer("none", round=1)  # it can still be judged
    assert again.preferences["preferred"].to_list() == ["none", "echo"]
    again.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record.update(format="else"), "Not a comparison"),
        (lambda record: record.update(version=9), "version 9"),
        (lambda record: record.pop("sides"), "damaged"),
        (lambda record: record["rounds"][0].update(order=[0, 0]), "each side once"),
        (lambda record: record["rounds"][0].update(preferred=7), "no side"),
        (lambda record: record["rounds"][0].update(exchanges=[5, 5]), "damaged"),
        (lambda record: record["sides"][0].update(exchanges=[{}]), "damaged"),
        (lambda record: record["rounds"][0].update(preferred_at="x"), "This comparison is damaged: Invalid isoformat"),
    ],
)
def test_what_is_no_comparison_is_refused_in_words(make: Any, change: Any, said: str) -> None:
    compare = make("echo", "shout")
    compare.ask("Hello")
    record = json.loads(compare.to_json())
    change(record)
    with pytest.raises(ValueError, match=said):
        records.from_json(json.dumps(record))


def test_the_twin_shows_them_side_by_side(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    keep = lambda bundle, **options: sent.append((bundle.get("text/html", ""), options))  # noqa: E731
    monkeypatch.setattr(static_transcript, "show_bundle", keep)
    monkeypatch.setattr("agentbook.chat.compare.widget.show_bundle", keep)
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


def test_drawing_is_paced_and_loses_nothing(make: Any, agents: Agents) -> None:
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
    draw = compare._pace._draw
    # When it began by the pace's own clock: this thread may be put aside before a line here reads another.
    compare._pace._draw = lambda: (drawn.append(compare._pace._last), draw())  # type: ignore[func-returns-value]
    turns = compare.ask("Much")
    assert [turn.text for turn in turns.values()] == ["".join(pieces) + "end"] * 2
    gaps = [later - earlier for earlier, later in itertools.pairwise(drawn)]
    # The last is drawn at once, when the question has been answered.
    assert all(gap >= 0.045 for gap in gaps[:-2])
    assert words(compare).count("word1499 end") == 2


def test_agents_come_as_people_have_them(make: Any, agents: Agents) -> None:
    frame = pd.DataFrame({"id": ["echo", "shout"], "name": ["Echo", None], "is_public": [True, False]})
    for given in (frame, frame["id"], (name for name in ("echo", "shout"))):
        compare = Compare(agents, "acme~lab", given, follow=agents.follow)  # type: ignore[arg-type]
        assert {turn.status for turn in compare.ask("Hello").values()} == {"answered"}
        assert sorted({name for name, _ in agents.sent}) == ["echo", "shout"]
        agents.sent.clear()
        compare.close()


def test_what_it_needs_is_said_at_once(make: Any) -> None:
    for names in ((), ("echo",)):
        with pytest.raises(ValueError, match="two agents"):
            make(*names)
    with pytest.raises(ValueError, match="two agents"):
        Compare(None, "acme~lab", "echo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two agents"):
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
    with pytest.raises(TypeError, match="not NoneType"):
        compare.ask(None)  # type: ignore[arg-type]
    assert compare.rounds == []


def test_closing_is_final_and_the_data_stays(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    assert repr(compare) == "Compare('echo', 'shout')"
    compare.ask("Hello")
    compare.close()
    compare.close()
    assert [platform.readers for platform in agents.started] == [[], []]
    with pytest.raises(ValueError, match="closed"):
        compare.ask("Hello?")
    assert compare.to_pandas()["status"].to_list() == ["answered", "answered"]


def test_no_attribute_hides_one_of_the_widget_it_extends(make: Any) -> None:
    compare = make("echo", "shout")
    assert not (set(vars(compare)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(Compare).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}


def test_an_interrupt_stops_the_waiting(make: Any) -> None:
    compare = make("echo", "never")
    work = loop.submit(compare._ask("Hello", None))
    eventually(compare, lambda: bool(compare.rounds) and len(compare.comparison.pending) == 1)
    work.cancel()  # as `loop.run` does when the cell is interrupted
    eventually(compare, lambda: compare.rounds[0].exchanges[1].status == "stopped")
    assert compare.rounds[0].exchanges[0].status == "answered"
