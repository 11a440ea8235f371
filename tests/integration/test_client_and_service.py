"""Each operation of the specification: the real client against the real service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from service.process import Service

WORKSPACE = "acme~playground"

# Every list operation of the specification, and those in its gaps that the embedded
# service offers.
LISTS: dict[str, Callable[[Any], Any]] = {
    "agents": lambda c: c.agents.list(),
    "agent versions": lambda c: c.agents.versions("acme~helpdesk"),
    "skills": lambda c: c.skills.list("acme"),
    "credentials": lambda c: c.credentials.list("acme"),
    "workspaces": lambda c: c.workspaces.list("acme"),
    "my workspaces": lambda c: c.me.workspaces(which="all"),
    "contexts": lambda c: c.workspaces.contexts("acme~support"),
    "invitations": lambda c: c.organizations.invitations("acme"),
    "my invitations": lambda c: c.me.invitations(),
    "sessions": lambda c: c.sessions.list("acme~support"),
    "events": lambda c: c.sessions.events(c.sessions.list("acme~support").first().id),
    "workspace agents": lambda c: c.workspaces.agents("acme~support"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_the_same_iterated_counted_framed_and_awaited(client: ab.Client, name: str) -> None:
    listing = LISTS[name](client)
    records = list(listing)
    frame = LISTS[name](client).to_pandas()
    assert len(listing) == len(records) == len(frame)
    assert frame.attrs["agentbook"]["complete"] is True
    assert frame.attrs["agentbook"]["problem_count"] == 0
    if name not in ("my invitations",):
        assert len(records) > 0
    assert [record["id"] for record in records] == frame["id"].tolist()

    async def awaited() -> pd.DataFrame:
        async with ab.AsyncClient(client.base_url, credentials=client.auth) as async_client:
            if name == "events":
                session = await async_client.sessions.list("acme~support").first()
                return await async_client.sessions.events(session).to_pandas()
            return await LISTS[name](async_client).to_pandas()

    pd.testing.assert_frame_equal(asyncio.run(awaited()), frame)


def test_a_question_is_answered_streamed_and_recorded(client: ab.Client) -> None:
    session = client.sessions.start(WORKSPACE, agent_id=client.agents.get("acme~guide").id, prompt="What is a turn?")
    assert session.initiator_id == client.auth.key_id  # type: ignore[union-attr]
    first = reply_to_the_prompt(client, session.id)
    turn = client.sessions.ask(session, "What is a credential?", timeout_s=60)
    assert turn.status == "answered"
    assert turn.text
    assert turn.subtasks == 1
    assert turn.latency_s is not None
    assert turn.latency_s >= 0
    events = client.sessions.events(session).to_pandas()
    turns = ab.turns(events)
    assert turns["status"].tolist() == ["answered", "answered"]
    assert events.loc[events["text"].notna() & (events["type"] == "runtime_done"), "text"].tolist() == [
        first,
        turn.text,
    ]
    assert events["id"].is_monotonic_increasing


def reply_to_the_prompt(client: ab.Client, session_id: str) -> str:
    from agentbook.events.reader import BEGINNING

    drafts = ""
    with client.sessions.stream(session_id, from_id=BEGINNING) as stream:
        while (event := stream.get(timeout_s=60)) is not None:
            if event.type == "runtime_draft" and "delta" in event.content:
                drafts = drafts[: event.content["offset"]] + event.content["delta"]
            if event.type == "runtime_done" and "text" in event.content:
                assert event.content["text"].startswith(drafts)
                return str(event.content["text"])
    raise AssertionError("no reply came")


def test_an_async_client_asks(client: ab.Client) -> None:
    async def ask() -> ab.Turn:
        async with ab.AsyncClient(client.base_url, credentials=client.auth) as async_client:
            session = await async_client.sessions.start(WORKSPACE, agent_id="acme~echo", prompt="one")
            return await async_client.sessions.ask(session.id, "two", timeout_s=60, mode="text", agent_id=session.id)

    turn = asyncio.run(ask())
    assert (turn.status, turn.prompt) == ("answered", "two")
    assert "two" in (turn.text or "")


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_both_schemes_of_a_key_work_on_requests_and_streams(service: Service, key: str, scheme: Any) -> None:
    with ab.Client(service.base_url, credentials=ab.ApiKey(key, scheme=scheme)) as client:
        session = client.sessions.start(WORKSPACE, agent_id="acme~echo", prompt="one")
        assert client.sessions.ask(session.id, "two", timeout_s=60).status == "answered"


def test_a_wrong_key_is_refused_on_requests_and_streams(service: Service, client: ab.Client, key: str) -> None:
    session = client.sessions.list("acme~support").first()
    wrong = key.split(":")[0] + ":wrong"
    with ab.Client(service.base_url, credentials=wrong) as stranger:
        with pytest.raises(ab.Unauthorized, match="Invalid API key"):
            stranger.me.get()
        with stranger.sessions.stream(session.id) as stream, pytest.raises(ab.Unauthorized):  # type: ignore[union-attr]
            stream.get(timeout_s=60)


def test_public_agents_need_no_credential(service: Service) -> None:
    with ab.Client(service.base_url) as nobody:
        agents = list(nobody.agents.list())
        assert agents
        assert all(agent.is_public for agent in agents)
        with pytest.raises(ab.Unauthorized, match="Not authenticated"):
            nobody.me.get()


def test_many_names_stay_one_path_segment(client: ab.Client) -> None:
    for name in ("ümlaut agent", "50% off?", "a#b", "..", "a.b"):
        made = client.agents.create(f"{name} {uuid.uuid4().hex[:6]}", template="BLANK")
        assert client.agents.get(f"acme~{made.name}").id == made.id


# -- many sessions ---------------------------------------------------------------------


def test_a_session_that_cannot_be_read_is_named_and_the_rest_is_kept(client: ab.Client) -> None:
    good = [session.id for session in client.sessions.list("acme~support", limit=3)]
    gone = str(uuid.uuid4())
    with pytest.raises(ab.PartialLoad) as raised:
        ab.load_events(client, [good[0], gone, *good[1:]])
    assert set(raised.value.problems) == {gone}
    assert raised.value.partial_frame["session_id"].drop_duplicates().tolist() == good
    frame = ab.load_events(client, [gone, *good], errors="keep")
    assert frame.attrs["agentbook"]["complete"] is False
    assert gone in frame.attrs["agentbook"]["failed_sessions"]
    with pytest.raises(ab.PartialLoad):
        raised.value.resume()
