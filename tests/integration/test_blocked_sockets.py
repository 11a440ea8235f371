"""Everything that waits for a reply, where a proxy blocks WebSockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import agentbook as ab
from agentbook.events.reader import BEGINNING
from chat.panels import PagePerson
from service.process import Service
from support.upgrade_proxy import UpgradeProxy, http

WHERE = {"workspace": "acme~playground"}
SCOPES = ("agents:write", "sessions:write", "workspaces:write")


@pytest.fixture(scope="module")
def proxy(service: Service) -> Iterator[UpgradeProxy]:
    with UpgradeProxy(urlsplit(service.base_url).port or 0) as running:
        running.answer = lambda: http(403, b"<html>Blocked</html>", "Content-Type: text/html")
        yield running


@pytest.fixture(scope="module")
def blocked(proxy: UpgradeProxy, key: str) -> Iterator[ab.Client]:
    with ab.Client(proxy.base_url, credentials=key) as client:
        yield client


@pytest.fixture(scope="module")
def session(blocked: ab.Client) -> Any:
    session = blocked.sessions.start(**WHERE, agent_id="acme~echo", prompt="one")
    assert blocked.sessions.ask(session.id, "two", timeout_s=60).status == "answered"
    return session


def test_what_the_platform_refuses_is_refused_as_on_a_socket(
    client: ab.Client, blocked: ab.Client, session: Any
) -> None:
    def refusal(where: ab.Client, session_id: str, **options: Any) -> tuple[Any, ...]:
        with pytest.raises(ab.ApiError) as raised, where.sessions.stream(session_id, **options) as stream:
            stream.get(timeout_s=60)
        return type(raised.value), raised.value.status

    strange = {"session_id": BEGINNING, "from_id": BEGINNING}
    assert refusal(blocked, **strange) == refusal(client, **strange) == (ab.NotFound, 404)
    assert refusal(client, session.id, types=["no-such-type"]) == (ab.InvalidInput, 400)


def test_panels_comparisons_and_labs_get_their_replies(client: ab.Client, blocked: ab.Client) -> None:
    statuses = []
    for where in (blocked, client):
        panel = ab.ChatPanel(where, **WHERE, agent="acme~echo")
        assert panel.ask("Hello").status == "answered"
        statuses.append(PagePerson(panel).status)
        panel.close()
    assert statuses[0] != statuses[1], "it says that there are no drafts"
    compare = ab.Compare(blocked, **WHERE, agents=["acme~echo", "acme~guide"])
    assert {turn.status for turn in compare.ask("What is a session?").values()} == {"answered"}
    compare.close()
    lab = ab.PromptLab(blocked, agent="acme~scribe", **WHERE)
    lab.add_variant("brief", system_prompt="Answer in one sentence.")
    replies = lab.run(["What is a session?"], progress=False)
    assert replies["status"].tolist() == ["answered"]
