"""A seeded service gives the same bytes again, also after a restart, and says so."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import agentbook as ab
from agentbook import embedded
from agentbook.service import admin, ids
from agentbook.service.errors import OperatorError
from agentbook.service.store import Seeding, Store
from service.process import Service, command
from service.world import one_platform

SCOPES = ("agents:write", "sessions:write", "workspaces:write", "integrations:read")
PLAYGROUND = "/workspaces/acme~playground/sessions"


def run_service(data: Path, *arguments: str) -> tuple[list[tuple[int, str, bytes]], str]:
    """What a scripted visit is answered, and everything that the store then holds."""
    answers: list[tuple[int, str, bytes]] = []
    with Service(data, "--speed", "0", *arguments) as service:
        key = service.key(*SCOPES)

        def ask(method: str, path: str, body: object = None) -> httpx.Response:
            answer = http.request(method, path, json=body)
            answers.append((answer.status_code, answer.headers["x-request-id"], answer.content))
            return answer

        with service.http(key) as http:
            ask("GET", "/me")
            ask("POST", "/workspaces", {"name": "mine"})
            ask("POST", "/workspaces", {"name": "mine"})  # a conflict, which changes nothing
            ask("POST", "/agents", {"name": "own", "template": "LLM"})
            started = {}
            for agent in ("verbose", "echo", "helpdesk", "flaky"):
                body = {"session_type": "chat", "agent_id": f"acme~{agent}", "initial_prompt": "Where is my order?"}
                started[agent] = ask("POST", PLAYGROUND, body).json()["id"]
            # Follow-ups at once: whether the first turns have ended is not left to
            # chance.
            for session in started.values():
                ask("POST", f"/sessions/{session}/events", {"content": "and 12 more?"})
            # Reading does not change what is stored, however often it is done.
            wait_for_turns(http, started.values())
            for path in ("/agents", "/accounts/acme/workspaces", PLAYGROUND, "/accounts/acme/credentials"):
                ask("GET", f"{path}?limit=200")
            for session in started.values():
                ask("GET", f"/sessions/{session}/events?sort_by=id&limit=1000")
        assert service.stop() == 0
        assert "ids, times and secrets repeat themselves; for tutorials and tests only." in service.ready
    with closing(sqlite3.connect(data / "store.db")) as db:
        return [(0, "key", key.encode()), *answers], "\n".join(sorted(db.iterdump()))  # indexes are made in no order


def wait_for_turns(http: httpx.Client, sessions: Iterable[str]) -> None:
    for session in sessions:
        while http.get(f"/sessions/{session}").json()["status"] != "IDLE":
            time.sleep(0.02)


def without_request_ids(answers: list[tuple[int, str, bytes]]) -> list[tuple[int, bytes]]:
    return [(status, body) for status, _, body in answers]


@one_platform("a seeded store belongs to it")
def test_two_runs_are_the_same_byte_by_byte(tmp_path: Path) -> None:
    first, facts = run_service(tmp_path / "one", "--seed", "7")
    again, facts_again = run_service(tmp_path / "two", "--seed", "7")
    assert without_request_ids(first) == without_request_ids(again)
    assert hashlib.sha256(facts.encode()).digest() == hashlib.sha256(facts_again.encode()).digest()
    assert {status for status, _, _ in first} == {0, 200, 201, 409}
    other, _ = run_service(tmp_path / "three", "--seed", "8")
    assert [a == b for a, b in zip(first, other, strict=True)].count(True) == 0


@one_platform("a seeded store belongs to it")
def test_the_clock_starts_at_now_moves_by_a_second_with_every_write_and_continues_after_a_restart(
    tmp_path: Path,
) -> None:
    made, key = [], ""
    for arguments in (("--seed", "1", "--now", "2026-03-01T00:00:00Z"), ("--seed", "1"), ()):
        with Service(tmp_path, "--bare", *arguments) as service:
            if not made:
                command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
                key = service.key(*SCOPES)
            with service.http(key) as http:
                made.append(http.post("/workspaces", json={"name": f"w{len(made)}"}).json())
                assert http.get("/agents").status_code == 200
                made.append(http.post("/workspaces", json={"name": f"w{len(made)}"}).json())
            service.stop()
            assert "Seeded with 1:" in service.ready
    times = [workspace["created_at"] for workspace in made]
    assert times == [f"2026-03-01T00:00:{second:02d}.000000Z" for second in (4, 5, 7, 8, 10, 11)], "a start writes, too"
    assert [ids.instant_of_ms(ids.milliseconds_of(workspace["id"])) for workspace in made] == times


def test_secrets_come_from_the_seed_in_this_mode_alone(tmp_path: Path) -> None:
    keys = []
    for name, seeding in (("a", Seeding(1)), ("b", Seeding(1)), ("c", Seeding(2)), ("d", None), ("e", None)):
        store = Store(tmp_path / name, seeding=seeding)
        admin.create_account(store, "ada", "user")
        keys.append(admin.create_key(store, "ada", "k", []))
        store.close()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    store = Store(tmp_path / "a")
    assert admin.create_key(store, "ada", "k", []) != keys[0], "the next one is another"
    store.close()


def test_parts_of_a_turn_do_not_depend_on_what_else_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path, seeding=Seeding(1))
    whole = store.clock.new_id()
    parts = [store.clock.part_id(whole, number) for number in range(300)]
    store.clock.new_id()
    store.write_now(lambda tx: tx.clock.secret())
    assert parts == [store.clock.part_id(whole, number) for number in range(300)]
    assert parts == sorted(set(parts))
    assert all(ids.is_id(part) for part in parts)
    store.close()


def test_a_store_keeps_its_seed(tmp_path: Path) -> None:
    store = Store(tmp_path / "seeded", seeding=Seeding(1))
    store.close()
    with pytest.raises(OperatorError, match="created with the seed 1; use that seed, or another --data directory"):
        Store(tmp_path / "seeded", seeding=Seeding(2))
    store = Store(tmp_path / "plain")
    admin.create_account(store, "ada", "user")
    store.close()
    with pytest.raises(OperatorError, match="created without a seed"):
        Store(tmp_path / "plain", seeding=Seeding(2))


@pytest.mark.parametrize("arguments", [("--now", "2026-01-01"), ("--seed", "1", "--now", "soon"), ("--seed", "x")])
def test_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    refused = command("serve", "--port", "0", "--data", str(tmp_path / "d"), *arguments, data=tmp_path, check=False)
    assert refused.returncode == 2
    assert not (tmp_path / "d").exists()


def test_the_embedded_service_takes_its_seed_and_speed_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOOK_SEED", "7")
    monkeypatch.setenv("AGENTBOOK_SPEED", "0")
    seen = []
    for name in ("one", "two"):
        monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / name))
        running = embedded.find_or_start()
        try:
            with ab.Client(running.base_url, credentials=embedded.local_key(running)) as client:
                session = client.sessions.start("acme~playground", agent_id="acme~verbose", prompt="2")
                turn = client.sessions.ask(session, "3", timeout_s=60)
                events = [dict(event) for event in client.sessions.events(session)]
                seen.append((client.me.get()["credential"]["id"], session.id, turn.text, events))
        finally:
            embedded.children[-1].terminate()
            embedded.children.pop().wait(60)
    assert seen[0] == seen[1]
    assert len(seen[0][3]) == 2 + 2 + 5
