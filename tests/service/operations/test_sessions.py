from __future__ import annotations

import pytest

from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

ABSENT = (404, "NotFound", "Session not found")


async def test_a_session_is_started_and_answered(filled: World) -> None:
    body = {
        "session_type": "chat",
        "agent_id": "helper",
        "initial_prompt": "**a**\n\n```csv\nid\n7\n```\n\n  hello\nthere",
    }
    answer = await filled.post("/workspaces/acme~lab/sessions", body, filled.full)
    assert answer.status_code == 201
    session, key_id = answer.json(), filled.full.partition(":")[0]
    assert session["initiator_id"] == key_id
    assert session["initiator"] == {"id": key_id, "type": "api_key", "name": "test key"}
    assert (session["type"], session["name"], session["status"]) == ("chat", "hello there", "RUNNING")
    await filled.idle()
    again = (await filled.get(f"/sessions/{session['id']}", filled.full)).json()
    assert again["status"] == "IDLE"
    assert again["updated_at"] >= session["updated_at"]
    message, reply = await filled.events(session["id"])
    assert (message["type"], message["content"]) == ("message", {"text": body["initial_prompt"]})
    assert message["author"] == {"type": "api_key", "id": key_id, "name": "test key"}
    assert (reply["type"], reply["author"]["type"], reply["author"]["name"]) == ("runtime_done", "agent", "helper")
    assert reply["content"]["text"].startswith("You said")
    assert message["task_id"] == reply["task_id"]


@pytest.mark.parametrize("kind", ["time", "webhook", "api_trigger", "agent_test"])
async def test_a_key_can_only_start_chats(filled: World, kind: str) -> None:
    body = {"session_type": kind, "agent_id": "helper", "initial_prompt": "x"}
    answer = await filled.post("/workspaces/lab/sessions", body, filled.full)
    assert error(answer) == (403, "Forbidden", f"This credential cannot start sessions of type {kind}")
    assert filled.rows("sessions") == filled.rows("events") == filled.rows("pending_turns") == []


async def test_what_cannot_be_started(filled: World) -> None:
    body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "x"}
    filled.agent_row(owner="bob", name="hidden")
    for agent in ("hidden", "nothing"):
        answer = await filled.post("/workspaces/lab/sessions", {**body, "agent_id": agent}, filled.full)
        assert error(answer) == (404, "NotFound", "Agent not found")
    filled.agent_row(name="old", is_archived=True)
    answer = await filled.post("/workspaces/lab/sessions", {**body, "agent_id": "old"}, filled.full)
    assert error(answer) == (403, "Forbidden", "This agent is archived")
    filled.workspace(name="attic", archived_at=filled.store.clock.instant())
    answer = await filled.post("/workspaces/attic/sessions", body, filled.full)
    assert error(answer) == (403, "Forbidden", "This workspace is archived")


@pytest.mark.parametrize("blank", ["", " ", "\n\t \u3000"])
async def test_a_blank_message_is_refused(filled: World, blank: str) -> None:
    body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": blank}
    refused = await filled.post("/workspaces/lab/sessions", body, filled.full)
    session = await filled.start("first")
    follow_up = await filled.post(f"/sessions/{session}/events", {"content": blank}, filled.full)
    for answer, field in ((refused, "initial_prompt"), (follow_up, "content")):
        status, kind, message = error(answer)
        assert (status, kind) == (400, "InvalidInputError")
        assert f"body.{field}: Input should not be blank" in message
    assert len(filled.rows("sessions")) == 1


async def test_only_the_initiator_can_post_a_message(filled: World) -> None:
    session = await filled.start("first")
    await filled.idle()
    path = f"/sessions/{session}/events"
    other = filled.key("acme", *ALL)
    assert error(await filled.post(path, {"content": "x"}, other)) == ABSENT
    assert error(await filled.post(path, {"content": "x"}, filled.key("bob", *ALL))) == ABSENT
    assert error(await filled.post("/sessions/nothing/events", {"content": "x"}, filled.full)) == ABSENT
    body = {"content": "second", "mode": "text", "agent_id": filled.accounts["bob"]}
    posted = await filled.post(path, body, filled.full)
    assert (posted.status_code, posted.json()["content"]) == (201, {"text": "second"})
    await filled.idle()
    events = await filled.events(session, other)
    assert events[2] == posted.json()
    assert [event["type"] for event in events] == ["message", "runtime_done"] * 2
    assert "user: first" in events[3]["content"]["text"]


@pytest.mark.parametrize("kind", ["time", "webhook", "api_trigger", "agent_test"])
async def test_no_follow_ups_in_other_session_types(filled: World, kind: str) -> None:
    session = await filled.start("first")
    await filled.idle()
    filled.change("sessions", session, type=kind)
    assert error(await filled.post(f"/sessions/{session}/events", {"content": "x"}, filled.full)) == ABSENT
    assert len(await filled.events(session)) == 2


async def test_who_reads_a_session(filled: World) -> None:
    session = await filled.start("first")
    await filled.idle()
    path = f"/sessions/{session}/events"
    for account in ("bob", "ada"):
        assert error(await filled.get(path, filled.key(account, *ALL))) == ABSENT
        assert error(await filled.get(f"/sessions/{session}", filled.key(account, *ALL))) == ABSENT
    lacking = error(await filled.get(path, filled.key("acme", "workspaces:read")))
    assert lacking == (403, "InsufficientScope", "This credential lacks the agents:read scope")
    filled.change("sessions", session, agent_id=None)
    assert (await filled.get(path, filled.key("acme", "workspaces:read"))).status_code == 200
    filled.change("workspaces", filled.rows("workspaces")[0]["id"], should_restrict_members=True)
    assert error(await filled.get(path, filled.full)) == ABSENT
    assert error(await filled.post(path, {"content": "x"}, filled.full)) == ABSENT


async def test_pages_of_events(filled: World) -> None:
    session = await filled.start("tool:a tool:b tool:c")
    await filled.idle()
    everything = await filled.events(session)
    assert [event["content"] for event in everything[1:4]] == [{}, {}, {}]
    path = f"/sessions/{session}/events"
    newest = (await filled.get(path, filled.full, limit=2)).json()
    assert newest["items"] == everything[:-3:-1]
    assert newest["pagination"] == {"total_count": 5, "limit": 2, "offset": 0, "has_more": True}
    after = (await filled.get(path, filled.full, from_id=everything[1]["id"], sort_by="id")).json()
    assert after["items"] == everything[2:]
    assert after["pagination"] == {"total_count": 3, "limit": 20, "offset": 0, "has_more": False}
    after = (await filled.get(path, filled.full, from_id=everything[1]["id"].upper(), limit=1, offset=2)).json()
    assert after["items"] == [everything[2]]
    assert (await filled.get(path, filled.full, from_id=everything[-1]["id"])).json()["items"] == []


async def test_a_session_says_which_version_answers_its_first_message(filled: World) -> None:
    async def version_of(session: str) -> str | None:
        record = (await filled.get(f"/sessions/{session}", filled.full)).json()
        listed = (await filled.get("/workspaces/lab/sessions", filled.full)).json()["items"]
        again = next(each for each in listed if each["id"] == session)  # its turn may have ended meanwhile
        assert again["agent_version_id"] == record["agent_version_id"]
        return str(record["agent_version_id"]) if record["agent_version_id"] else None

    agent = (await filled.get("/agents/helper", filled.full)).json()["id"]
    row = {"agent_id": agent, "creator_id": "x", "type": "COMMITTED", "version_number": "1.0.0"}
    before = await filled.start("one")
    filled.add("agent_versions", **{**row, "type": "EPHEMERAL"})
    first = filled.add("agent_versions", **row)
    after = await filled.start("two")
    second = filled.add("agent_versions", **row)
    assert [await version_of(each) for each in (before, after)] == [None, first]
    named = await filled.start("three")
    filled.change("sessions", named, agent_version_id=first)
    assert [await version_of(each) for each in (named, await filled.start("four"))] == [first, second]
    await filled.idle()


async def test_the_list_of_sessions(filled: World) -> None:
    first, second = await filled.start("one"), await filled.start("two")
    await filled.idle()
    filled.change("sessions", second, type="webhook")
    path = "/workspaces/lab/sessions"
    page = (await filled.get(path, filled.full)).json()
    assert [item["id"] for item in page["items"]] == [second, first]
    assert page["items"][1] == (await filled.get(f"/sessions/{first}", filled.full)).json()
    for params, expected in (
        ({"type": "chat"}, [first]),
        ({"sort_by": "name"}, [first, second]),
        ({"agent_id": "helper", "limit": "1", "offset": "1"}, [first]),
    ):
        page = (await filled.get(path, filled.full, **params)).json()
        assert [item["id"] for item in page["items"]] == expected
    assert error(await filled.get(path, filled.full, agent_id="nothing"))[0] == 404
