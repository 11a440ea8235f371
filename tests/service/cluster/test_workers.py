"""``agentbook serve --workers``: several real processes on one port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from agentbook.service.discovery_file import is_alive
from service.databases import Cluster, database_url, give_back
from service.process import Service, command
from service.world import basic

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the processes are looked up in /proc"),
]


def children(service: Service) -> set[int]:
    pid = service.process.pid
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def request(service: Service, times: int) -> None:
    """Send requests, each on a connection of its own."""
    for _ in range(times):
        assert httpx.get(f"{service.base_url}/openapi.yaml", timeout=60).status_code == 200


def counted_requests(service: Service) -> float:
    text = httpx.get(f"{service.base_url.removesuffix('/v1')}/metrics", timeout=60).raise_for_status().text
    return sum(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("agentbook_http_requests_total")
    )


def test_a_process_that_dies_is_replaced_and_a_signal_ends_all(cluster: Cluster, tmp_path: Path) -> None:
    url = database_url(cluster.url, tmp_path)
    with Service(tmp_path, "--database", url, "--bare", "--workers", "2") as service:
        assert f"with 2 processes (pid {service.process.pid}); Ctrl+C ends it." in service.ready
        assert service.facts["pid"] == service.process.pid
        before = children(service)
        assert len(before) == 2
        made = command("accounts", "create", "acme", "--type", "organization", "--database", url, data=tmp_path)
        assert made.returncode == 0
        request(service, 10)
        until(lambda: counted_requests(service) == 10)
        assert [counted_requests(service) for _ in range(6)] == [10] * 6, "whichever process answers"
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(children(service) - {victim}) == 2)
        request(service, 20)
        until(lambda: counted_requests(service) == 30)
        workers = children(service)
        os.kill(max(workers), signal.SIGINT)  # as Ctrl+C does; the parent decides
        assert service.stop() == 0
        assert service.log == f"agentbook: process {victim} ended with -9; another takes its place.\n"
        assert not any(is_alive(pid) for pid in workers)
        assert not (tmp_path / "service.json").exists()
    give_back(tmp_path)


def test_a_signal_during_turns_closes_the_sockets_of_all_processes(cluster: Cluster, tmp_path: Path) -> None:
    url = database_url(cluster.url, tmp_path)
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=tmp_path)
    with Service(tmp_path, scripted=True, database=url, workers="2") as service, contextlib.ExitStack() as stack:
        workers = children(service)
        key = service.key("agents:write", "sessions:write", "workspaces:write")
        with service.http(key) as http:
            http.post("/workspaces", json={"name": "lab"})
            http.post("/agents", json={"name": "helper"})
            body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "draft:once hang"}
            session = http.post("/workspaces/lab/sessions", json=body).json()["id"]
        address = f"{service.base_url.replace('http', 'ws', 1)}/sessions/{session}/events/ws"
        headers = {"Authorization": basic(key)}
        opened = [
            stack.enter_context(connect(address, additional_headers=headers, open_timeout=60, max_queue=None))
            for _ in range(8)
        ]
        for socket in opened:
            assert json.loads(socket.recv(timeout=60))["content"]["delta"] == "once"
        assert service.stop() == 0
        for socket in opened:
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=60)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        assert service.log == ""
        assert not any(is_alive(pid) for pid in workers)
    give_back(tmp_path)


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_signal_to_all_processes_lets_turns_end_and_a_second_one_does_not(
    cluster: Cluster, tmp_path: Path, is_hurried: bool
) -> None:
    """systemd sends the first one to each of them, and then the parent passes it on."""
    url = database_url(cluster.url, tmp_path)
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=tmp_path)
    with Service(tmp_path, scripted=True, database=url, workers="2", drain_s="60") as service:
        with service.http(service.key("agents:write", "sessions:write", "workspaces:write")) as http:
            http.post("/workspaces", json={"name": "lab"})
            http.post("/agents", json={"name": "helper"})
            for number in range(6):
                body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": f"file:{tmp_path}/go {number}"}
                assert http.post("/workspaces/lab/sessions", json=body).status_code == 201
        for pid in (*children(service), service.process.pid):
            os.kill(pid, signal.SIGTERM)
        ready = service.base_url.replace("/v1", "/readyz")
        until(lambda: all(httpx.get(ready, timeout=60).status_code == 503 for _ in range(8)))
        if not is_hurried:
            (tmp_path / "go").touch()
        assert service.stop(signal.SIGTERM if is_hurried else 0) == 0
        assert service.log == ""
    with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:")) as connection:
        answers = connection.execute("SELECT count(*) FROM events WHERE type = 'runtime_done'").fetchone()
    assert answers == ((0,) if is_hurried else (6,))
    give_back(tmp_path)


def test_the_processes_stop_if_their_parent_is_killed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database_url(cluster.url, tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Service(tmp_path, "--database", url, "--bare", "--workers", "2") as service:
        workers = children(service)
        assert list(temporary.iterdir()) != []
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: not any(is_alive(pid) for pid in workers))
        assert service.log == ""
        assert list(temporary.iterdir()) == []
    give_back(tmp_path)


def test_more_processes_than_a_store_has_room_for_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    refused = command("serve", "--port", "0", "--workers", "2", data=tmp_path, check=False)
    assert refused.returncode == 1
    assert refused.stderr == (
        "agentbook: --workers needs a PostgreSQL database, see --database: a store in a directory has one process.\n"
    )
    url = database_url(cluster.url, tmp_path)
    options = ("--port", "0", "--workers", "2", "--database", url, "--seed", "7")
    refused = command("serve", *options, data=tmp_path, check=False)
    assert refused.stderr == "agentbook: A seeded store belongs to one process: leave out --workers.\n"
    give_back(tmp_path)
