"""The service as a process: start, discovery file, end, and what survives a kill."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from service.process import COMMAND, Service, command, furnished, on_database
from service.world import basic, on_sqlite, one_platform

SCOPES = ("sessions:write", "workspaces:write", "agents:write")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    command("accounts", "create", "acme", "--type", "organization", data=folder)
    return folder


@one_platform("each process announces itself")
def test_it_announces_itself_and_removes_its_file_on_exit(data: Path) -> None:
    with Service(data, "--bare") as service:
        assert service.ready == (
            f"agentbook serves {service.base_url} from {data} (pid {service.process.pid}); Ctrl+C ends it.\n"
        )
        assert service.facts["pid"] == service.process.pid
        assert service.base_url == f"http://127.0.0.1:{service.facts['port']}/v1"
        assert stat.S_IMODE((data / "service.json").stat().st_mode) == 0o600
        assert httpx.get(f"{service.base_url}/openapi.yaml").status_code == 200
        assert service.stop(signal.SIGTERM) == 0
        assert service.log == ""
    assert not (data / "service.json").exists()
    with Service(data, "--bare") as service:
        assert service.stop(signal.SIGINT) == 0


@on_sqlite("nothing is stored in the directory")
@pytest.mark.skipif(os.name == "nt", reason="files in use cannot be removed")
@pytest.mark.parametrize("name", ["store.db", "service.lock", ""])
def test_it_stops_when_its_files_are_not_in_their_place_any_more(data: Path, name: str) -> None:
    with Service(data, "--bare") as service:
        (data / name).rename(data.with_name("away"))
        if name:
            (data / name).touch()
        _, log = service.process.communicate(timeout=30)
        assert service.process.returncode == 1
        assert log.count("\n") == 1
        assert str(data / name) in log


def test_documents_and_challenges_name_the_public_address(data: Path) -> None:
    with Service(data, "--bare", "--public-url", "https://agents.example.org/") as service:
        root = service.base_url.removesuffix("/v1")
        assert root.startswith("http://127.0.0.1:")  # processes on this machine go on finding it there
        known = {"Host": "agents.example.org"}
        document = httpx.get(f"{root}/.well-known/oauth-authorization-server", headers=known).json()
        assert document["issuer"] == "https://agents.example.org"
        assert document["token_endpoint"] == "https://agents.example.org/v1/oauth/token"
        resource = httpx.get(f"{root}/.well-known/oauth-protected-resource/v1").json()
        assert resource["resource"] == "https://agents.example.org/v1"
        link = "https://agents.example.org/.well-known/oauth-protected-resource/v1"
        assert link in httpx.get(f"{root}/v1/me").headers["WWW-Authenticate"]
        assert httpx.get(f"{root}/v1/openapi.yaml", headers={"Host": "elsewhere.example.org"}).status_code == 400


@pytest.mark.parametrize(
    "url", ["host", "ftp://host", "https://", "https://a@host", "https://host?q", "https://host:x"]
)
def test_an_invalid_public_address(data: Path, url: str) -> None:
    refused = command("serve", "--port", "0", "--public-url", url, data=data, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("agentbook: --public-url takes an address such as https://host")


@one_platform("a database has room for many")
def test_a_second_service_on_the_same_data_is_refused_in_one_line(data: Path) -> None:
    with Service(data, "--bare") as service:
        refused = command("serve", "--port", "0", "--data", str(data), data=data, check=False)
        assert refused.returncode == 1
        assert refused.stderr == (
            f"agentbook: Another service (pid {service.process.pid}) is using {data}; "
            "stop it, or give this one its own --data directory.\n"
        )
        assert httpx.get(f"{service.base_url}/openapi.yaml").status_code == 200
        service.stop(signal.SIGKILL)
    with Service(data, "--bare") as after_a_crash:
        assert after_a_crash.stop() == 0


def test_a_busy_port_is_reported_in_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        refused = command("serve", "--port", port, "--data", str(tmp_path / "new"), data=tmp_path, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"agentbook: Cannot listen on 127.0.0.1:{port} (")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_an_idle_socket_ends_when_the_command_line_revokes_its_key(data: Path) -> None:
    with Service(data, "--bare") as service:
        key = service.key(*SCOPES)
        with service.http(key) as http:
            http.post("/workspaces", json={"name": "lab"}).raise_for_status()
            agent = http.post("/agents", json={"name": "silent", "template": "BLANK"}).json()["id"]
            body = {"session_type": "chat", "agent_id": agent, "initial_prompt": "hello"}
            session = http.post("/workspaces/lab/sessions", json=body).json()["id"]
        # Only what does not happen: an event would have access checked too.
        url = f"ws{service.base_url.removeprefix('http')}/sessions/{session}/events/ws?types=runtime_draft"
        with connect(url, additional_headers={"Authorization": basic(key)}) as listener:
            command("keys", "revoke", key.partition(":")[0], data=data)
            with pytest.raises(ConnectionClosed) as closed:
                listener.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4401, "Invalid API key")


def test_the_demo_data_is_there_and_written_once(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        with Service(tmp_path) as service, service.http(service.key(*SCOPES)) as http:
            counts.append(http.get("/workspaces/data/sessions").json()["pagination"]["total_count"])
            names = {agent["full_name"] for agent in http.get("/agents?limit=100").json()["items"]}
            assert {"acme~guide", "acme~helpdesk"} <= names
            service.stop()
    assert counts[0] == counts[1] > 5


def said_at_start(data: Path) -> str:
    """The first line that a service says which starts with demo data."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--data", str(data), *on_database(data)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert process.stderr.readline().startswith("agentbook serves")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0
    return said


def test_demo_data_with_a_taken_name_is_left_out_completely(data: Path) -> None:
    assert "names are taken" in said_at_start(data)
    assert command("keys", "list", data=data).stdout == ""


def test_demo_data_are_not_written_into_a_store_that_began_without(tmp_path: Path) -> None:
    with Service(tmp_path, "--bare") as service:
        service.stop()
    assert "--bare" in said_at_start(tmp_path)
    assert command("accounts", "list", data=tmp_path).stdout == ""


@one_platform("the others take new turns while one drains")
@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_signal_lets_turns_end_and_a_second_one_does_not(data: Path, tmp_path: Path, is_hurried: bool) -> None:
    with Service(data, scripted=True, drain_s="60") as service:
        with service.http(service.key(*SCOPES)) as http:
            [session] = furnished(http, f"file:{tmp_path}/go")
            service.process.send_signal(signal.SIGTERM)
            while http.get(service.base_url.replace("/v1", "/readyz")).status_code != 503:
                time.sleep(0.01)
        if not is_hurried:
            (tmp_path / "go").touch()
        assert service.stop(signal.SIGTERM if is_hurried else 0) == 0
        assert service.log == ""
    with Service(data, scripted=True) as service, service.http(service.key(*SCOPES)) as http:
        events = http.get(f"/sessions/{session}/events?sort_by=id").json()["items"]
        assert [event["type"] for event in events] == ["message", "runtime_error" if is_hurried else "runtime_done"]


PREFIX = "/user/ada/"


@one_platform("on a hub; here others reach it at the proxy's address")
@pytest.mark.parametrize("on_a_hub", [False, True])
def test_the_hubs_host_is_only_accepted_on_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_a_hub: bool
) -> None:
    if on_a_hub:
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", PREFIX)
    else:
        monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    with Service(tmp_path / "data", "--bare") as service:
        answer = httpx.get(f"{service.base_url}/docs", headers={"Host": "hub.example"})
        assert answer.status_code == (200 if on_a_hub else 400)
        command("accounts", "create", "ada", "--type", "user", data=service.data)
        result = command("signin", "--account", "ada", data=service.data)
        code = result.stdout.strip().partition("code=")[2]
        hint = f"On this hub, open {PREFIX}proxy/{service.facts['port']}/v1/signin?code={code} on the hub's address.\n"
        assert result.stderr == (hint if on_a_hub else "")
