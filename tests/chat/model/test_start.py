"""A panel says at once why no session can start, and what to do."""

from __future__ import annotations

import pytest

from agentbook.api.errors import (
    AgentbookError,
    ConnectionFailed,
    Forbidden,
    InsufficientScope,
    NotFound,
    RateLimited,
    ServerError,
    Unauthorized,
)
from agentbook.api.record import Record
from agentbook.chat.html.message_html import NOT_READY
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.user_errors import UserError
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets.panel_view import describe, empty_html
from chat.fakes import AGENT_ID, FakePlatform, finished, make_conversation, refused
from chat.panels import PagePerson, eventually, shown

pytestmark = pytest.mark.anyio

NO_AGENT = refused(NotFound, 404, "Agent not found")
NO_WORKSPACE = refused(NotFound, 404, "Workspace not found")
AGENT_TEXT = (
    "Agent 'giude' was not found: it does not exist, or this credential cannot see it. Did you mean 'guide'? "
    "Otherwise check the name or id; client.agents.list() shows what the credential can see."
)
WORKSPACE_TEXT = (
    "Workspace 'acme~lab' was not found: it does not exist, or this credential cannot see it. "
    "Check the name or id; client.me.workspaces() shows what the credential can see."
)
ARCHIVED_TEXT = (
    "Agent 'acme~guide' is archived, so no session can start with it. Use another agent: client.agents.list() shows "
    "those that are not. Or have it restored by someone who may change it, signed in with ab.sign_in: "
    "client.agents.update('acme~guide', is_archived=False)."
)


@pytest.fixture
def nowhere(platform: FakePlatform) -> FakePlatform:
    """A platform that knows neither the agent nor the workspace."""
    platform.refusals.update(get=[NO_AGENT], contexts=[NO_WORKSPACE])
    return platform


async def test_a_missing_agent_and_workspace_are_named_with_what_to_do(nowhere: FakePlatform) -> None:
    conversation = make_conversation(nowhere, workspace="acme~lab", agent="giude")
    await conversation._read_welcome()
    assert conversation._start_errors == [UserError(AGENT_TEXT, "req-7"), UserError(WORKSPACE_TEXT, "req-7")]
    assert "Did you mean &#x27;guide&#x27;?" in empty_html(conversation)
    assert describe(conversation) == (NOT_READY, False)


async def test_the_names_that_cannot_be_listed_are_left_out() -> None:
    platform = FakePlatform()
    platform.refusals.update(get=[NO_AGENT], contexts=[NO_WORKSPACE])
    platform.own_workspaces = refused(InsufficientScope, 403, "no")
    conversation = make_conversation(platform, workspace="acme~lab", agent=Record(id="a1", name="mine"))
    await conversation._read_welcome()
    assert [error.text for error in conversation._start_errors] == [WORKSPACE_TEXT]


async def test_a_message_is_not_held_back_and_tells_more(nowhere: FakePlatform) -> None:
    conversation = make_conversation(nowhere)
    await conversation._read_welcome()
    exchange = await conversation.send("Hi")
    assert (conversation._start_errors, (await finished(exchange)).text) == ([], "You said: Hi")


@pytest.mark.parametrize(
    ("refusals", "sentence"),
    [
        ({"get": refused(InsufficientScope, 403, "no", missing_scope="agents:read")}, "lacks the scope agents:read"),
        ({"get": refused(Forbidden, 403, "no")}, "refused the request (403): no."),
        ({"get": refused(ServerError, 502, "Bad gateway")}, "failed (502: Bad gateway). Try again in a moment."),
        ({"contexts": refused(ServerError, 503, "Overloaded")}, "failed (503: Overloaded). Try again in a moment."),
        ({"contexts": ConnectionFailed("no reply", operation="workspaces.contexts")}, "could not be reached."),
        ({"get": refused(RateLimited, 429, "Slow down")}, None),
        ({"get": ConnectionFailed("no reply", operation="agents.get")}, "could not be reached. Check the address"),
        ({"contexts": refused(Unauthorized, 401, "Invalid API key")}, "did not accept the credential"),
        ({"contexts": refused(InsufficientScope, 403, "no", missing_scope="workspaces:read")}, None),
    ],
)
async def test_only_what_prevents_a_session_is_an_error(
    refusals: dict[str, AgentbookError], sentence: str | None
) -> None:
    platform = FakePlatform()
    platform.refusals.update({operation: [error] for operation, error in refusals.items()})
    conversation = make_conversation(platform)
    await conversation._read_welcome()
    texts = [error.text for error in conversation._start_errors]
    assert len(texts) == (sentence is not None)
    assert all(str(sentence) in text for text in texts)


@pytest.mark.parametrize(
    "refusals", [{"get": NO_AGENT}, {"contexts": NO_WORKSPACE}, {"get": refused(ServerError, 502, "Bad gateway")}]
)
async def test_what_is_there_meanwhile_is_found_when_the_panel_is_shown_again(
    platform: FakePlatform, refusals: dict[str, AgentbookError]
) -> None:
    platform.refusals.update({operation: [error] for operation, error in refusals.items()})
    conversation = make_conversation(platform)
    await conversation._read_welcome()
    assert describe(conversation) == (NOT_READY, False)
    await conversation._read_welcome()
    assert conversation._start_errors == []
    assert "<strong>guide</strong>" in empty_html(conversation)


async def test_an_archived_agent_is_named_with_what_to_do(platform: FakePlatform) -> None:
    platform.agent = Record(id=AGENT_ID, name="guide", full_name="acme~guide", is_archived=True)
    conversation = make_conversation(platform, workspace="acme~lab", agent="guide")
    await conversation._read_welcome()
    assert conversation._start_errors == [UserError(ARCHIVED_TEXT)]
    assert describe(conversation) == (NOT_READY, False)
    platform.agent = Record(platform.agent, is_archived=False)
    await conversation._read_welcome()
    assert (conversation._start_errors, describe(conversation)) == ([], ("Ready.", False))
    earlier = Record(id=AGENT_ID, name="guide", is_archived=True)  # which is read again
    conversation = make_conversation(platform, workspace="acme~lab", agent=earlier)
    await conversation._read_welcome()
    assert conversation._start_errors == []


async def test_an_id_that_cannot_be_read_may_be_of_an_agent_that_can_be_used() -> None:
    platform = FakePlatform()
    platform.refusals["get"] = [NO_AGENT]
    conversation = make_conversation(platform, workspace="acme~lab", agent=AGENT_ID)
    await conversation._read_welcome()
    assert conversation._start_errors == []


async def test_a_conversation_without_a_workspace_asks_for_none(nowhere: FakePlatform) -> None:
    conversation = make_conversation(nowhere, agent="guide")
    await conversation._read_welcome()
    assert "contexts" not in nowhere.requests
    await Conversation(None, workspace="acme~lab", agent="guide")._read_welcome()


@pytest.mark.parametrize("shown_by", ["a cell", "a page"])
def test_the_panel_says_it_without_holding_the_cell(nowhere: FakePlatform, panel: ChatPanel, shown_by: str) -> None:
    if shown_by == "a cell":
        panel._ipython_display_()
    else:
        PagePerson(panel).say(do="hello", page="p", count=1, version=-1)
    eventually(panel, lambda: bool(panel.conversation._start_errors))
    assert "Did you mean 'guide'?" not in shown(panel)  # it is the name
    assert "client.agents.list() shows what the credential can see." in shown(panel)
    assert PagePerson(panel).status == (NOT_READY, False)
    panel.ask("Hi")
    assert "You said: Hi" in shown(panel)
