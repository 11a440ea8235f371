"""Writes whose reply was lost: read back, sent again, or of unknown outcome."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

import agentbook as ab
from agentbook.api.calls import Call, Reply
from agentbook.api.endpoints import agents, sessions, skills, workspaces
from agentbook.api.policy import NoReply
from api.world import CUT, DOWN, NOT_FOUND, OK, OUTAGE, RATE, World, body

CREATED = {"id": "1", "created_at": "2023-11-14T22:13:20Z"}  # when the world began
EMPTY = body(items=[], pagination={"total_count": 0})
CONFLICT = Reply(409, {}, b'{"error": "Conflict", "message": "Agent \\"acme~helper\\" already exists."}')


def page(**fields: Any) -> Reply:
    return body(items=[fields], pagination={"total_count": 1})


def test_a_write_is_sent_again_only_when_nothing_was_applied() -> None:
    world = World(DOWN, OK)
    assert world.run(sessions.send("s", "hello")) == {"id": "1"}
    assert len(world.sent) == 2
    for trouble in (CUT, OUTAGE):
        world = World(trouble)
        with pytest.raises(ab.OutcomeUnknown):
            world.run(sessions.send("s", "hello"))
        assert len(world.sent) == 1


def test_a_named_create_is_read_back_after_a_lost_reply() -> None:
    ours = body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="LLM")
    world = World(CUT, ours)
    assert world.run(agents.create("helper", template="LLM")).id == "1"
    assert [(send.method, send.path) for send in world.sent] == [("POST", "agents"), ("GET", "agents/helper")]


def test_a_reply_without_a_body_is_not_the_entity() -> None:
    empty = Reply(200, {}, b"")
    ours = body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="LLM")
    assert World(empty, ours).run(agents.create("helper", template="LLM")).id == "1"
    with pytest.raises(ab.errors.OutcomeUnknown):
        World(empty).run(agents.configure_llm("helper", system_prompt="p", description="d"))
    with pytest.raises(ab.errors.ApiError, match=r"agents.get: the reply \(200, no content type\) is not the JSON"):
        World(Reply(200, {"content-length": "0"}, b"")).run(agents.get("helper"))


def test_a_reply_whose_body_the_specification_does_not_show_may_be_empty() -> None:
    for call in (sessions.send("s", "hello"), workspaces.uninstall_agent("i")):
        assert World(Reply(204, {}, b"")).run(call) == {}


@pytest.mark.parametrize(
    "reply",
    [
        body(id="1", name="helper", created_at="2023-11-14T20:00:00Z", template="LLM"),  # older than the call
        body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="BLANK"),  # not what was sent
        body(id="1", name="helper"),
        Reply(200, {}, b"[]"),
    ],
)
def test_what_is_read_back_must_be_what_was_sent(reply: Reply) -> None:
    world = World(CUT, reply)
    with pytest.raises(ab.OutcomeUnknown):
        world.run(agents.create("helper", template="LLM"))
    assert [send.method for send in world.sent] == ["POST", "GET"]


@pytest.mark.parametrize("trouble", [CUT, OUTAGE])
@pytest.mark.parametrize(
    ("call", "target"),
    [
        (workspaces.create("w"), "me/workspaces"),
        (workspaces.create("w", owner_id="acme"), "accounts/acme/workspaces"),
        (skills.create("acme", "w"), "accounts/acme/skills"),
    ],
)
def test_a_create_is_looked_up_in_its_list(call: Call[Any], target: str, trouble: Any) -> None:
    world = World(trouble, page(name="w", **CREATED))
    assert world.run(call).id == "1"
    assert [(send.method, send.path) for send in world.sent] == [("POST", call.path), ("GET", target)]
    world = World(trouble, EMPTY)
    with pytest.raises(ab.OutcomeUnknown):
        world.run(call)
    assert world.methods == ["POST", "GET"], "a duplicate might be created"


OURS = {"id": "1", "name": "w", "created_at": "2023-11-14T22:13:20.5Z", "creator_id": "key", "full_name": "acme~w"}


@pytest.mark.parametrize(
    "others",
    [
        {"created_at": "2023-11-14T22:13:17Z"},  # three seconds before the call
        {"creator_id": "another key"},
        {"full_name": "globex~w"},
        {"owner_id": "0199a0b2-0000-7000-8000-000000000000", "full_name": None},
    ],
    ids=["older", "another creator", "another owner's name", "another owner's id"],
)
def test_a_workspace_of_the_same_name_is_not_taken_for_ours(others: dict[str, Any]) -> None:
    call = workspaces.create("w", owner_id="acme")
    assert World(CUT, page(**OURS), key="key:secret").run(call).id == "1"
    world = World(CUT, page(**OURS | others), key="key:secret")
    with pytest.raises(ab.OutcomeUnknown, match="shows whether it was"):
        world.run(call)
    assert world.methods == ["POST", "GET"]


@pytest.mark.parametrize("zone", ["Pacific/Honolulu", "Asia/Tokyo"])
def test_a_time_without_zone_is_in_utc(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        call = workspaces.create("w", owner_id="acme")
        assert World(CUT, page(**OURS | {"created_at": "2023-11-14T22:13:20.5"}), key="key:secret").run(call).id == "1"
        with pytest.raises(ab.OutcomeUnknown):
            World(CUT, page(**OURS | {"created_at": "2023-11-14T22:13:17"}), key="key:secret").run(call)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_of_two_that_may_be_ours_none_is_returned() -> None:
    twins = body(items=[OURS, OURS | {"id": "2"}], pagination={"total_count": 2})
    with pytest.raises(ab.OutcomeUnknown):
        World(CUT, twins, key="key:secret").run(workspaces.create("w"))


def test_a_token_does_not_know_whom_the_platform_records_as_the_creator() -> None:
    assert World(CUT, page(**OURS)).run(workspaces.create("w")).id == "1"


@pytest.mark.parametrize(("date", "created_at"), [("21:13:20", "21:13:20.2"), ("23:13:20", "23:13:20.2")])
def test_the_age_is_measured_by_the_platforms_clock(date: str, created_at: str) -> None:
    """It may be an hour behind or ahead of ours."""

    def listed(time: str) -> Reply:
        item = msgspec.json.encode({"items": [OURS | {"created_at": f"2023-11-14T{time}Z"}]})
        return Reply(200, {"date": f"Tue, 14 Nov 2023 {date} GMT"}, item)

    assert World(CUT, listed(created_at)).run(workspaces.create("w")).id == "1"
    hour, _, _ = date.partition(":")
    with pytest.raises(ab.OutcomeUnknown):
        World(CUT, listed(f"{hour}:13:17")).run(workspaces.create("w"))


def test_an_agent_that_was_not_created_is_created_once_more() -> None:
    world = World(CUT, NOT_FOUND, OK)
    assert world.run(agents.create("helper")).id == "1"
    assert world.methods == ["POST", "GET", "POST"]
    assert len(world.slept) == 1
    # Lost again, or applied in the meantime: reading back decides, and there is no
    # third attempt.
    for second in (CUT, CONFLICT):
        world = World(CUT, NOT_FOUND, second, body(name="helper", **CREATED))
        assert world.run(agents.create("helper")).id == "1"
        world = World(CUT, NOT_FOUND, second, NOT_FOUND)
        with pytest.raises(ab.OutcomeUnknown):
            world.run(agents.create("helper"))
        assert world.methods == ["POST", "GET", "POST", "GET"]
    world = World(CUT, NOT_FOUND, Reply(403, {}, b"{}"))
    with pytest.raises(ab.Forbidden):
        world.run(agents.create("helper"))


def test_reading_back_takes_no_longer_than_the_deadline() -> None:
    world = World(CUT, *[OUTAGE] * 99, deadline_s=5.0)
    with pytest.raises(ab.OutcomeUnknown):
        world.run(agents.create("helper"))
    assert world.now <= 5.0


@pytest.mark.parametrize("trouble", [CUT, OUTAGE, DOWN])
@pytest.mark.parametrize(
    ("call", "method"), [(agents.update("a", is_archived=True), "PATCH"), (workspaces.uninstall_agent("1"), "DELETE")]
)
def test_a_write_that_is_idempotent_by_its_body_is_retried(call: Call[Any], method: str, trouble: Any) -> None:
    world = World(trouble, trouble, OK)
    assert world.run(call) == {"id": "1"}
    assert world.methods == [method] * 3
    assert len(world.slept) == 2


def test_an_idempotent_write_without_any_reply_stays_unknown() -> None:
    # The last attempt was not applied for certain; an earlier one may have been.
    for outcomes in ([CUT] * 5, [CUT, *[DOWN] * 4], [CUT, RATE]):
        with pytest.raises(ab.OutcomeUnknown):
            World(*outcomes, deadline_s=25.0).run(agents.update("a", is_archived=True))
    with pytest.raises(ab.ConnectionFailed):
        World(*[DOWN] * 5).run(agents.update("a", is_archived=True))


def test_a_deletion_whose_reply_was_lost_is_done_when_nothing_is_there_any_more() -> None:
    assert World(CUT, NOT_FOUND).run(workspaces.uninstall_agent("1")) == {}
    for outcomes in ([NOT_FOUND], [OUTAGE, NOT_FOUND]):
        with pytest.raises(ab.NotFound):
            World(*outcomes).run(workspaces.uninstall_agent("1"))


@pytest.mark.parametrize("trouble", [CUT, OUTAGE, Reply(200, {}, b"<html>")])
@pytest.mark.parametrize(
    ("call", "read"),
    [
        (agents.create("x", owner_id="acme"), 'client.agents.get("acme~x")'),
        (agents.update({"id": "0190"}, is_pinned=True), 'client.agents.get("0190")'),
        (agents.configure_llm("x", system_prompt="s", description="d"), 'client.agents.versions("x")'),
        (skills.create("acme", "sql"), 'client.skills.list("acme", search="sql")'),
        (workspaces.create("w"), 'client.me.workspaces(sort_by="-created_at")'),
        (workspaces.create("w", owner_id="acme"), 'client.workspaces.list("acme", search="w")'),
        (workspaces.uninstall_agent("1"), "client.workspaces.agents(workspace)"),
        (sessions.start("w", agent_id="a", prompt="Hi"), 'client.sessions.list("w")'),
        (sessions.send("0190", "Hi"), 'client.sessions.events("0190")'),
    ],
)
def test_the_message_names_the_read_that_tells(call: Call[Any], read: str, trouble: Any) -> None:
    with pytest.raises(ab.OutcomeUnknown) as raised:
        World(*[trouble] * 9, deadline_s=2.0).run(call)
    assert f"{read} shows whether it was" in str(raised.value)


def test_a_lost_reply_says_what_came() -> None:
    reason = NoReply("RemoteProtocolError: cut", sent=True)
    with pytest.raises(
        ab.OutcomeUnknown, match=r"sent, but no reply came \(RemoteProtocolError: cut\)\. It may have been"
    ):
        World(reason).run(sessions.send("s", "hello"))
