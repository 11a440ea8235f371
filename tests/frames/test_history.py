"""A history of a platform that does not offer, or does not answer, everything."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

import agentbook as ab
from agentbook.frames import session_log
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform, refusal


class Account(HttpPlatform):
    """An account ``acme`` with workspaces, and nothing else but sessions and events."""

    openapi = True  # offers a list of sessions

    def respond(self, request: httpx.Request) -> httpx.Response:
        parts = unquote(request.url.path).split("/")[2:]
        if parts[-1] == "openapi.yaml" and not self.openapi:
            return httpx.Response(200, text="openapi: 3.1.0\npaths: {}\n")
        if parts == ["accounts", "acme", "workspaces"]:
            items = [{"id": name, "full_name": f"acme~{name}", "owner_id": "acme"} for name in self.workspaces]
            return self.page(items, len(items), False)
        if parts[0] in ("accounts", "agents"):
            return refusal(404, "NotFound", "Nothing here.")
        return super().respond(request)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(tmp_path / "sessions.jsonl"))
    monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.001)


def account() -> Account:
    return Account(
        {"s1": [event_id(1, 1)], "s2": [event_id(2, 2)]}, workspaces={"lab": ["s1"], "desk": ["s2"], "empty": []}
    )


def test_workspaces_are_joined_in_order() -> None:
    history = ab.load_history(account().client(), "acme")
    assert history.events[["session_id", "workspace"]].values.tolist() == [["s1", "acme~lab"], ["s2", "acme~desk"]]
    assert set(history.missing) == {"agents", "credentials"}


def test_without_a_list_of_sessions_the_noted_ones_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = account()
    platform.openapi = False
    client = platform.client()
    session_log.note(client, {"id": "s2", "workspace_id": "desk", "name": "Hi"})
    session_log.note(client, {"id": "s1", "workspace_id": "of somebody else"})
    history = ab.load_history(client, "acme")
    assert history.events[["session_id", "session", "workspace"]].values.tolist() == [["s2", "Hi", "acme~desk"]]
    assert "ab.session_log" in history.missing["sessions"]


def test_a_session_that_cannot_be_read_is_named_and_can_be_read_later() -> None:
    platform = account()
    events = platform.histories.pop("s1")
    client = platform.client()
    with pytest.raises(ab.PartialLoad, match="load_events: 1 of 2 sessions are incomplete") as stopped:
        ab.load_history(client, "acme")
    assert stopped.value.partial_frame["session_id"].tolist() == ["s2"]
    partial = ab.load_history(client, "acme", errors="keep")
    assert "no such session" in partial.missing["session s1"]
    platform.histories["s1"] = events
    history = stopped.value.resume()
    assert history.events["session_id"].tolist() == ["s1", "s2"]
    assert "session s1" not in history.missing


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"since": "1d", "until": "2d"}, "since must be before until"),
        ({"since": "soon"}, "since must be a time"),
        ({"until": 3}, "a number has no unit"),
        ({"errors": "ignore"}, "'raise' or 'keep'"),
        ({"concurrency": 0}, "1 or more"),
    ],
)
def test_an_invalid_argument_is_named(span: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ab.load_history(account().client(), "acme", **span)  # type: ignore[arg-type]


def test_texts_of_the_platform_are_escaped_in_html() -> None:
    platform = account()
    platform.workspaces = {"<b>x": ["s1"]}
    del platform.histories["s1"]
    assert "<b>x" not in ab.load_history(platform.client(), "acme", errors="keep")._repr_html_()
