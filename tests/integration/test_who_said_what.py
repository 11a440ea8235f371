"""A panel says whose session it shows, and a saved notebook keeps what it may."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import agentbook as ab
from agentbook.chat.model import session_list
from agentbook.events import loop
from chat.panels import PagePerson, eventually, htmls, shown, static_page
from integration.conftest import SCOPES
from service.process import Service

WORKSPACE = "acme~playground"
HOSTILE = "<img src=x>\u202e"


@pytest.fixture(scope="module")
def colleague(service: Service) -> Iterator[ab.Client]:
    """Another key of the same account, with the same name."""
    with ab.Client(service.base_url, credentials=service.key(*SCOPES)) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(colleague: ab.Client) -> str:
    """A session of the colleague with another agent than `panel`'s."""
    return ask(colleague, "echo", "please repeat: kumquat")


@pytest.fixture
def panel(client: ab.Client) -> Iterator[ab.ChatPanel]:
    panel = ab.ChatPanel(client, workspace=WORKSPACE, agent="guide")
    yield panel
    panel.close()


def ask(client: ab.Client, agent: str, text: str) -> str:
    talk = ab.ChatPanel(client, workspace=WORKSPACE, agent=agent)
    talk.ask(text)
    talk.close()
    assert talk.session_id is not None
    return talk.session_id


def texts(panel: ab.ChatPanel) -> dict[str, str]:
    """What a person sees or saves of the conversation."""
    talk = panel.conversation
    return {
        "page": shown(panel),
        "saved": static_page(panel),
        "md": talk.to_markdown(),
        "html": talk.to_html(),
        "ipynb": talk.to_notebook(),
    }


def speakers(panel: ab.ChatPanel) -> dict[str, list[str]]:
    """The headings of the messages in each output."""
    outputs = texts(panel)
    heading = r'class="ab-who"><strong(?: dir="auto")?>(.*?)</strong>'
    parts = [part for turn in PagePerson(panel).snapshot["turns"] for part in turn[1]["html"].values()]
    cells = [cell["source"] for cell in json.loads(outputs["ipynb"])["cells"]]
    return {
        "page": re.findall(heading, "".join(parts)),
        "saved": re.findall(heading, outputs["saved"]),
        "html": re.findall(heading, outputs["html"]),
        "md": re.findall(r"(?m)^## (.+?)(?: \(.*)?$", outputs["md"]),
        "ipynb": re.findall(r"(?m)^## (.+?)(?: \(.*)?$", "\n".join(cells)),
        "pandas": panel.transcript["author"].to_list(),
    }


def test_a_session_of_another_agent_and_key_names_both(panel: ab.ChatPanel, theirs: str) -> None:
    panel.open_session(theirs, keep=True)
    assert {name: who for name, who in speakers(panel).items() if who != ["test", "echo"]} == {}
    page = PagePerson(panel)
    assert page.name == "echo"
    assert page.turn()["html"].keys() & {"whole", "question"}
    assert "ab-edit" not in str(page.turn())
    assert not {"guide", "You"} & set(re.findall(r"\w+", " ".join(texts(panel).values())))
    assert json.loads(panel.conversation.to_json())["agent_name"] == "echo"
    assert ab.Conversation.from_json(panel.conversation.to_json()).to_markdown() == texts(panel)["md"]


def test_messages_go_to_the_sessions_agent_and_afterwards_to_the_panels_own(
    client: ab.Client, colleague: ab.Client, panel: ab.ChatPanel
) -> None:
    mine = ask(client, "echo", "one")
    panel.open_session(mine)
    assert panel.ask("two").text == "two"
    assert {name: who for name, who in speakers(panel).items() if who != ["You", "echo"] * 2} == {}
    panel.new_session()
    assert PagePerson(panel).name == "guide"
    assert panel.ask("three").text != "three"
    assert set(panel.transcript["author"]) == {"You", "guide"}
    # The session that stays in the saved copy beside it has its own agent, too.
    assert speakers(panel)["saved"] == ["You", "echo"] * 2 + ["You", "guide"]

    other = ab.ChatPanel(colleague, session=mine)
    assert set(other.transcript["author"]) == {"test", "echo"}
    assert other.conversation.read_only
    other.close()


def test_a_persons_messages_have_their_name(client: ab.Client, panel: ab.ChatPanel) -> None:
    ada = next(each for each in client.sessions.list("acme~support") if each.initiator["name"] == "ada")
    panel.open_session(ada, keep=True)
    authors = {name: set(who) for name, who in speakers(panel).items()}
    assert {name: who for name, who in authors.items() if who != {"ada", "helpdesk"}} == {}
    assert panel.conversation.read_only


def test_lists_name_the_agent_and_who_started_it(
    client: ab.Client, colleague: ab.Client, panel: ab.ChatPanel, theirs: str
) -> None:
    own = ask(client, "guide", "quince: what is a turn?")
    others = ask(colleague, "guide", "quince again")
    echoed = ask(client, "echo", "quince once more")
    expected = {own: ("", ""), others: ("", "test"), echoed: ("echo", "")}
    entries = {entry.session_id: entry for entry in panel.find_sessions("quince")}
    assert {each: (entry.agent, entry.initiator) for each, entry in entries.items()} == expected
    for session_id in expected:
        panel.open_session(session_id)  # now the panel knows them from their events
    entries = {entry.session_id: entry for entry in panel.find_sessions("quince")}
    assert {each: (entry.agent, entry.initiator) for each, entry in entries.items()} == expected
    assert "echo" in entries[echoed].label
    assert "test" in entries[others].label
    assert "test" in repr(entries[others])
    assert theirs in [entry.session_id for entry in panel.find_sessions("kumquat echo")]


def test_an_agent_of_another_account_with_the_same_name_is_told_apart(service: Service) -> None:
    with ab.Client(service.base_url, credentials=service.key(*SCOPES, account="northwind")) as client:
        own = client.agents.create("guide", template="BLANK")
        client.workspaces.create("desk")
        talk = ab.ChatPanel(client, workspace="northwind~desk", agent="acme~guide")
        talk.ask("sorrel")
        panel = ab.ChatPanel(client, workspace="northwind~desk", agent=own)
        for opened in (False, True):
            if opened:
                panel.open_session(talk.session_id)
            assert [entry.agent for entry in panel.find_sessions("sorrel")] == ["acme~guide"]
            assert [entry.agent for entry in talk.find_sessions("sorrel")] == [""]
        panel.close()
        talk.close()


def test_a_saved_notebook_keeps_what_was_asked_here_or_was_asked_for(
    client: ab.Client, panel: ab.ChatPanel, theirs: str
) -> None:
    own = ask(client, "echo", "medlar")
    panel.open_session(theirs)
    assert "kumquat" in shown(panel)
    assert "kumquat" not in static_page(panel)
    with pytest.raises(ab.errors.NotFound):
        panel.ask("May I?")  # refused, so nothing was asked
    assert "kumquat" not in static_page(panel)
    panel.open_session(own)
    panel.new_session()
    assert not {"kumquat", "medlar"} & set(re.findall(r"\w+", static_page(panel)))
    panel.open_session(own)
    panel.ask("and another medlar")
    panel.open_session(theirs, keep=True)
    assert {"kumquat", "medlar"} <= set(re.findall(r"\w+", static_page(panel)))
    panel.forget(theirs)
    assert "kumquat" in shown(panel)
    assert "kumquat" not in static_page(panel)
    panel.open_session(own)
    panel.forget(client.sessions.get(own))
    panel.ask("a third medlar")
    assert "medlar" not in static_page(panel), "it stays forgotten"
    with pytest.raises(ValueError, match="nowhere"):
        panel.forget("nowhere")


@pytest.mark.parametrize("keep", [True, False])
def test_a_session_named_in_code_is_kept_unless_it_says_otherwise(client: ab.Client, theirs: str, keep: bool) -> None:
    panel = ab.ChatPanel(client, session=theirs, **({} if keep else {"keep": False}))
    assert len(panel.transcript) == 2
    assert ("kumquat" in static_page(panel)) is keep
    panel.close()


def test_a_replay_is_left_out_of_the_saved_notebook_when_forgotten(client: ab.Client, theirs: str) -> None:
    panel = ab.replay(list(client.sessions.events(theirs)), speed=float("inf"))
    panel.played.result(30)
    assert "kumquat" in static_page(panel)
    panel.forget(panel.session_id)
    assert "kumquat" in shown(panel)
    assert "kumquat" not in static_page(panel)
    panel.close()


def test_hostile_names_show_as_text() -> None:
    events = [
        {
            "id": f"01900000-0000-7000-8000-00000000000{n}",
            "type": kind,
            "content": {"text": "hello"},
            "author": {"type": author, "id": "x", "name": HOSTILE},
        }
        for n, (kind, author) in enumerate([("message", "api_key"), ("runtime_done", "agent")])
    ]
    panel = ab.replay(events, speed=float("inf"))
    panel.played.result(30)
    pages = texts(panel) | {"page": "".join(htmls(panel))}
    for name, text in pages.items():
        assert "<img" not in text, name
        assert "\u202e" not in text, name
        assert "U+202E" in text, name
    panel.close()


def test_the_texts_of_a_store_are_searched_and_a_hit_opens_its_turn(
    client: ab.Client, theirs: str, tmp_path: Path
) -> None:
    store = ab.Store(tmp_path / "store")
    store.sync(client, client.sessions.list(WORKSPACE, limit=50))
    panel = ab.ChatPanel(client, workspace=WORKSPACE, agent="guide", store=store)
    [entry] = panel.find_sessions("REPEAT kumquat")
    assert (entry.session_id, entry.agent, bool(entry.initiator)) == (theirs, "echo", True)
    [hit] = entry.hits
    assert hit.parts == ("please ", "repeat", ": kumquat")
    assert entry.started_at is not None
    assert panel.find_sessions("repeat '; DROP") == []
    panel.open_session(theirs)
    assert panel.conversation.exchanges[0].turn.message_id == hit.message_id
    assert panel.find_sessions("kumquat")[0].is_current
    panel.close()


def test_each_cell_continues_the_session_in_which_it_asked_last(
    client: ab.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))

    def run(cell: str) -> ab.ChatPanel:
        shell = SimpleNamespace(parent_header={"metadata": {"cellId": cell}})
        monkeypatch.setattr(session_list, "ipython_shell", lambda: shell)
        panel = ab.ChatPanel(client, workspace=WORKSPACE, agent="guide")
        loop.run(panel.conversation._read_welcome(), 60)
        return panel

    def offered(cell: str) -> str | None:
        panel = run(cell)
        last = panel.conversation._welcome and panel.conversation._welcome.last
        panel.close()
        return last and last.session_id

    first, second = run("one"), run("two")
    first.ask("Is there mango?")
    second.ask("Is there papaya?")
    assert [offered("one"), offered("two")] == [first.session_id, second.session_id]
    assert offered("three") == second.session_id, "no cell of that id asked"
    first.ask("And now?")
    assert offered("three") == first.session_id, "the last that was used, not the last that was started"
    (tmp_path / "sessions.json").write_text("{damaged")
    assert offered("two") == first.session_id
    for panel in (first, second):
        panel.close()


def test_the_version_of_the_agent_is_told_in_the_head_the_exports_and_the_table(
    client: ab.Client, panel: ab.ChatPanel
) -> None:
    panel.ask("What is a version?")
    eventually(panel, lambda: bool(panel.conversation.version_number))
    [version] = client.agents.versions("acme~guide")
    again = ab.ChatPanel(client, session=panel.session_id)
    eventually(again, lambda: bool(again.conversation.version_number))
    for each in (panel, again):
        assert f"version {version.version_number}" in PagePerson(each).session[0]
        talk = each.conversation
        for text in (talk.to_markdown(), talk.to_html(), talk.to_notebook()):
            assert f"Conversation with guide, version {version.version_number}" in text
        assert each.transcript["agent_version"].tolist()[-1] == version.id
        assert ab.Conversation.from_json(talk.to_json()).version_number == version.version_number
    again.close()
