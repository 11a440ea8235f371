"""Sessions are chosen by first words and time; an empty panel says who the agent is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook._text import shorten
from agentbook.api.errors import Forbidden, NotOffered, ServerError
from agentbook.api.record import Record
from agentbook.chat.html.message_html import EMPTY
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.session_list import (
    SessionEntry,
    find_sessions,
    last_session,
    name_session,
    remember,
    remembered,
    session_names,
)
from agentbook.chat.model.start import GENERIC, welcome_of
from agentbook.chat.widgets.panel_view import empty_html
from agentbook.evaluation.experiment import Answer, Experiment
from agentbook.evaluation.file import lab_data
from agentbook.evaluation.runs import Recorder
from chat.fakes import AGENT, KEY, FakePlatform, event, make_conversation, recorded, refused

pytestmark = pytest.mark.anyio


async def test_first_words_and_time_latest_first() -> None:
    def shown(current: str | None = None, **sessions: list[Any]) -> Any:
        return SimpleNamespace(sessions=sessions, session_id=current, workspace=None, _who=lambda _: ("", ""))

    first, second = recorded(("What is\n a turn?", "A question.")), recorded(("x " * 100, "y"))
    conversation = shown("second", first=first.exchanges, second=second.exchanges, empty=[])
    listed = await find_sessions(conversation, None, {}, "", 20)
    assert [(entry.label, entry.is_current) for entry in listed] == [
        ("What is a turn? · 1 Mar 10:00", False), (f"{'x ' * 29}x… · 1 Mar 10:00", True), ("Session …empty", False),
    ]  # fmt: skip
    attached = recorded(("**orders** (1 rows)\n\n```csv\nid\n7\n```\n\nWhich is late?", "7"))
    [entry] = await find_sessions(shown(attached=attached.exchanges), None, {}, "", 20)
    assert entry.title == "Which is late?"
    for search, ids in (("QUESTION turn", ["first"]), ("nswer", []), ("turn x", [])):
        assert [entry.session_id for entry in await find_sessions(conversation, None, {}, search, 20)] == ids


async def test_a_search_shows_the_latest_turns_with_the_words_and_the_text_around_them() -> None:
    pairs = [
        ("Was ist los?", "Die Straße ist zu.  " + "Noch mehr. " * 20),
        ("أين الطلب؟", "A reply."),
        *[("x", "y STRASSE")] * 6,
    ]
    log = recorded(*pairs)
    conversation = SimpleNamespace(
        sessions={"s": log.exchanges}, session_id="s", workspace=None, _who=lambda _: ("", "")
    )

    async def hits(search: str) -> list[tuple[str | None, tuple[str, str, str]]]:
        [entry] = await find_sessions(conversation, None, {}, search, 20)
        assert all(hit.asked_at is not None for hit in entry.hits)
        return [(hit.message_id, hit.parts) for hit in entry.hits]

    ids = [exchange.turn.message_id for exchange in log.exchanges]
    assert await hits("الطلب") == [(ids[1], ("أين ", "الطلب", "؟"))]
    assert await hits("strasse y") == [(each, ("y ", "STRASSE", "")) for each in ids[:2:-1]]
    [(message_id, (before, word, after))] = await hits("straße los zu")
    assert (message_id, before, word) == (ids[0], "Die ", "Straße")
    assert after.startswith(" ist zu. Noch mehr.")
    assert (after[-1], len(after) < 130) == ("…", True)
    assert [message_id for message_id, _ in await hits("reply strasse")] == ids[:2:-1], "no turn has both"
    assert await hits("") == []


@pytest.mark.parametrize(
    ("text", "words"), [("", ""), ("a" * 90, "a" * 60 + "…"), ("one, " * 30, "one, " * 11 + "one…")]
)
def test_titles_are_short(text: str, words: str) -> None:
    assert shorten(text) == words


class Listed:
    """A client that lists sessions of the workspace, and reads their first events."""

    def __init__(self, *records: Any) -> None:
        self.sessions, self._records = self, records

    async def list(self, workspace: Any, **options: Any) -> AsyncIterator[Any]:
        for record in self._records:
            if isinstance(record, Exception):
                raise record
            yield record

    async def events(self, session_id: str, **options: Any) -> AsyncIterator[Any]:
        if session_id == "foreign":
            raise refused(Forbidden, 403, "no")
        yield event(1, "runtime_done", {}, AGENT)
        yield event(2, "message", {"text": "Where is\nmy order?"}, KEY)


def test_kernels_keep_each_others_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))
    remember("cell", "s0")
    with ThreadPoolExecutor(8) as kernels:
        list(kernels.map(lambda n: name_session(f"s{n}", f"Talk {n}"), range(40)))
    assert session_names() == {f"s{n}": f"Talk {n}" for n in range(40)}
    assert remembered("cell") == "s0"
    (tmp_path / "sessions.json").write_text('{"names": {"s1": "T')
    assert (session_names(), remembered("cell")) == ({}, None)
    assert name_session("s1", "Again") == {"s1": "Again"}
    assert name_session("s1", "") == {}
    for others in ('[{"id": "s1"}]', '{"s1": {"name": "mine"}}'):
        (tmp_path / "sessions.json").write_text(others)
        remember("cell", "s0")
        assert (session_names(), remembered("cell")) == ({}, None)
        with pytest.raises(FileExistsError, match=r"sessions\.json"):
            name_session("s1", "Talk")
        assert (tmp_path / "sessions.json").read_text() == others


async def test_other_sessions_of_the_workspace_are_offered_too() -> None:
    conversation = make_conversation(FakePlatform())
    at = "2026-03-02T10:00:00Z"
    client = Listed(
        Record(id="s1", created_at=at),
        Record(id="s2", name="Named", created_at="soon"),
        Record(id="foreign", created_at=at),
    )

    async def find(client: Any, search: str = "") -> list[SessionEntry]:
        return await find_sessions(conversation, client, {}, search, 20)

    assert sorted(entry.label for entry in await find(client)) == [
        "Named", "Session …foreign · 2 Mar 10:00", "Where is my order? · 2 Mar 10:00",
    ]  # fmt: skip
    assert [entry.session_id for entry in await find(client, "ORDER")] == ["s1"]
    for error in (NotOffered("sessions.list"), refused(Forbidden, 403, "no")):
        assert await find(Listed(error)) == []


async def test_the_readers_own_are_listed_by_their_last_message_whoever_else_fills_the_list() -> None:
    desk = {"initiator": {"id": "k9", "name": "desk"}}
    theirs = [Record(id=f"o{n}", name="Theirs", updated_at="2026-03-09T10:00:00Z", **desk) for n in range(90)]
    times = {"old": ("01", "04"), "new": ("03", "03"), "none": ("02", None)}
    mine = [
        Record(id=id, name=id, created_at=f"2026-03-{begun}T10:00:00Z", updated_at=last and f"2026-03-{last}T10:00:00Z")
        for id, (begun, last) in times.items()
    ]
    conversation, client = make_conversation(FakePlatform()), Listed(*theirs, *mine)
    found = await find_sessions(conversation, client, {}, "", 20, others=False)
    assert [entry.label for entry in found] == ["old · 4 Mar 10:00", "new · 3 Mar 10:00", "none · 2 Mar 10:00"]
    assert await find_sessions(conversation, client, {}, "theirs", 20, others=False) == []
    found = await find_sessions(conversation, client, {}, "", 20)
    assert [entry.initiator for entry in found] == [*["desk"] * 20, "", "", ""]


async def test_runs_of_labs_and_newer_sessions_do_not_hide_older_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_RUNS", str(tmp_path))
    recorder = Recorder({"lab": lab_data(Experiment()), "agent": None})
    tested = [Record(id=f"lab{number}", name="Where is my rake?") for number in range(30)]
    for record in tested:
        recorder.record(Answer("now", record["id"], session_id=record["id"]))
    recorder.end()
    others = [Record(id=f"s{number}", name=f"Question {number}") for number in range(30)]
    conversation, client = (
        make_conversation(FakePlatform()),
        Listed(*tested, *others, Record(id="mine", name="My rake")),
    )

    async def find(search: str) -> list[str]:
        return [entry.session_id for entry in await find_sessions(conversation, client, {}, search, 20)]

    assert await find("") == [f"s{number}" for number in range(20)]
    assert await find("rake") == ["mine"]
    last = await last_session(conversation, client, {})
    assert last is not None
    assert last.session_id == "s0"
    desk = {"initiator": {"id": "k9", "name": "desk"}}
    of_others = [Record(id=f"o{number}", name="Theirs", **desk) for number in range(90)]
    last = await last_session(conversation, Listed(*of_others, others[0]), {})
    assert last is not None
    assert last.session_id == "s0"


@pytest.mark.parametrize(
    ("record", "prompts"),
    [
        ({}, GENERIC),
        ({"starter_prompts": ["One?", "Two?", "Three?", "Four?"]}, ("One?", "Two?", "Three?")),
        ({"starter_prompts": [" One? ", 5, " ", None, "x" * 1_000, "One?", GENERIC[0]]}, ("One?", GENERIC[0])),
        ({"starter_prompts": "no list", "starters": ["One?"]}, GENERIC),
    ],
)
def test_starter_prompts_are_the_agents_own_where_it_has_some(record: dict[str, Any], prompts: tuple[str, ...]) -> None:
    assert welcome_of(record).prompts == prompts


async def test_an_empty_panel_says_who_the_agent_is() -> None:
    conversation = make_conversation(FakePlatform())
    assert empty_html(conversation) == EMPTY
    await conversation._read_welcome()
    assert conversation._welcome is not None
    assert "<strong>guide</strong>" in empty_html(conversation)
    conversation._welcome = welcome_of({"name": "<b>", "description": "<i>", "starter_prompts": ['"><script>']})
    html = empty_html(conversation)
    assert html.count('<button type="button" class="ab-start"') == 1
    for text in ("&lt;b&gt;", "&lt;i&gt;", 'data-text="&quot;&gt;&lt;script&gt;"'):
        assert text in html
    assert "<script" not in html


async def test_an_agent_that_cannot_be_read_now_is_told_and_without_one_the_panel_is_empty() -> None:
    platform = FakePlatform()
    platform.refusals["get"] = [ServerError("agents.get: 502", operation="agents.get", status=502)]
    conversation = make_conversation(platform)
    await conversation._read_welcome()
    assert "The platform failed (502). Try again in a moment." in empty_html(conversation)
    without = Conversation(None)
    await without._read_welcome()
    assert empty_html(without) == EMPTY


async def test_an_empty_panel_offers_the_readers_last_session_with_the_agent() -> None:
    platform = FakePlatform()
    own, at = {"initiator": KEY, "agent": {"name": "guide"}}, "2026-03-02T10:00:00Z"
    platform.other_sessions = [
        Record(id="s1", name="Another's", created_at=at, initiator={"id": "k9", "type": "api_key", "name": "desk"}),
        Record(id="s2", name="With another", created_at=at, **own | {"agent": {"name": "echo"}}),
        Record(id="s3", name="<b>Mine</b>", created_at=at, updated_at="2026-03-03T08:05:00Z", **own),
        Record(id="s4", name="Before", created_at=at, **own),
    ]
    conversation = make_conversation(platform)
    await conversation._read_welcome()
    shown = empty_html(conversation)
    assert 'data-session="s3"' in shown
    assert "<span>Continue: &lt;b&gt;Mine&lt;/b&gt;</span>" in shown
    assert '<time datetime="2026-03-03T08:05:00+00:00">3 Mar 08:05 UTC</time>' in shown
    assert shown.count("data-session") == 1
    await conversation.start("Hello")
    await conversation.new_session()
    assert "data-session" not in empty_html(conversation), "the last one is among its own sessions"
    await conversation.aclose()
