"""The log of sessions that this user started."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import httpx
import pytest

import agentbook as ab
from agentbook.frames import session_log
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "sessions.jsonl"
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(path))
    return path


def test_what_is_started_through_it_can_be_loaded(file: Path) -> None:
    platform = HttpPlatform({"s1": [event_id(1, 1)], "s2": [event_id(2, 2)]})
    names = iter(["s1", "s2"])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(
                201, json={"id": next(names), "workspace_id": "w", "name": "Hi", "created_at": "2026-10-03T08:15:00Z"}
            )
        return platform.respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    assert len(session_log.sessions()) == 0
    session_log.start(client, "acme~lab", agent_id="acme~guide", prompt="a secret question")
    session_log.start(client, "acme~lab", agent_id="acme~guide", prompt="another")
    session_log.note(client, "s1")
    noted = ab.session_log.sessions(client)
    assert noted["session_id"].tolist() == ["s1", "s2"]
    assert noted[["workspace_id", "agent_id", "name"]].iloc[0].tolist() == ["w", "acme~guide", "Hi"]
    assert str(noted["started_at"].dtype) == "datetime64[us, UTC]"
    assert ab.load_events(client, noted)["session_id"].tolist() == ["s1", "s2"]
    assert len(session_log.sessions(ab.Client("https://elsewhere/v1"))) == 0
    assert "secret" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_many_write_at_once_and_a_torn_line_harms_no_other(file: Path) -> None:
    client = ab.Client("https://h/v1")
    session_log.note(client, "first")
    with file.open("a") as torn:
        torn.write('{"session_id": "to')
    threads = [threading.Thread(target=session_log.note, args=(client, f"s{n}")) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    noted = session_log.sessions()
    assert set(noted["session_id"]) == {"first", *(f"s{n}" for n in range(20))}
    assert noted.attrs["agentbook"]["problem_count"] == 1
    json.dumps(noted.attrs)


def test_a_file_that_cannot_be_is_named(file: Path) -> None:
    file.mkdir(parents=True)
    for call in (lambda: session_log.note(ab.Client("https://h/v1"), "s"), session_log.sessions):
        with pytest.raises(ab.AgentbookError, match=r"sessions\.jsonl cannot be"):
            call()


def test_only_the_functions_are_listed() -> None:
    assert dir(ab.session_log) == ["note", "path", "sessions", "start"]


def test_the_log_of_an_earlier_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(session_log.PATH_VARIABLE)
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / name)
    (tmp_path / "agentbook").mkdir()
    earlier = {"session_id": "s0", "base_url": "https://h/v1", "started_at": "2026-10-03T08:15:00.000+00:00"}
    (tmp_path / "agentbook" / "sessions.jsonl").write_text("\n" + json.dumps(earlier) + "\n")
    session_log.note(ab.Client("https://h/v1"), "s1")
    assert session_log.sessions()["session_id"].to_list() == ["s0", "s1"]


def test_a_ledger_on_a_full_disk_says_which_session_it_could_not_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(tmp_path / "sessions.jsonl"))

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(
            ab.AgentbookError, match=r"sessions\.jsonl cannot be written .* the session s1 is not recorded"
        ):
            session_log.note(ab.Client("https://h/v1"), "s1")
    assert len(session_log.sessions()) == 0
