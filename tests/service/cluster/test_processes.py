"""Real processes on one database, behind a proxy that takes them in turn."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from service.databases import Cluster, database_url, give_back
from service.process import command
from service.world import basic
from support.processes import PlatformOfProcesses

SCOPES = ("agents:write", "sessions:write", "workspaces:write")


@pytest.fixture(scope="module")
def url(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("database")
    yield database_url(cluster.url, folder)
    give_back(folder)


@pytest.fixture(scope="module")
def platform(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformOfProcesses]:
    """Two services that start at once on an empty database."""
    folder = tmp_path_factory.mktemp("services")
    with PlatformOfProcesses(folder, url, "--speed", "0") as running:
        yield running
        for service in list(running.services):
            assert running.remove(service, signal.SIGTERM) == 0
            assert service.log == ""


@pytest.fixture(scope="module")
def key(platform: PlatformOfProcesses) -> str:
    return platform.key(*SCOPES)


@contextlib.contextmanager
def sockets(platform: PlatformOfProcesses, session: str, key: str) -> Iterator[list[ClientConnection]]:
    """A socket to each service."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                connect(
                    f"{service.base_url.replace('http', 'ws', 1)}/sessions/{session}/events/ws",
                    additional_headers={"Authorization": basic(key)},
                    open_timeout=60,
                    max_queue=None,
                )
            )
            for service in platform.services
        ]


def wait_until_closed(opened: list[ClientConnection]) -> list[int]:
    """The close codes of sockets that the service closes."""
    codes = []
    for socket in opened:
        with pytest.raises(ConnectionClosed) as closed:
            _read_to_the_end(socket)
        assert closed.value.rcvd is not None
        codes.append(closed.value.rcvd.code)
    return codes


def _read_to_the_end(socket: ClientConnection) -> None:
    while True:
        socket.recv(timeout=60)


def a_session(platform: PlatformOfProcesses, key: str) -> str:
    with platform.http(key) as http:
        agent = http.get("/agents/echo").json()["id"]
        body = {"session_type": "chat", "agent_id": agent, "initial_prompt": "hello"}
        answer = http.post("/workspaces/acme~playground/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def test_two_that_start_at_once_write_the_demo_data_once(platform: PlatformOfProcesses, key: str) -> None:
    counts = platform.each(lambda http: http.get("/agents").json()["pagination"]["total_count"], key)
    assert counts[0] == counts[1] > 0
    assert all("left out" not in service.ready for service in platform.services)
    roots = platform.each(
        lambda http: httpx.get(f"{http.base_url.join('/')}.well-known/oauth-authorization-server").json(), key
    )
    assert roots[0] == roots[1]
    assert roots[0]["issuer"] == platform.root_url


def test_a_revoked_key_is_refused_everywhere_and_its_sockets_close(platform: PlatformOfProcesses, key: str) -> None:
    session = a_session(platform, key)
    revoked = platform.key(*SCOPES)
    with sockets(platform, session, revoked) as opened:
        command("keys", "revoke", revoked, "--database", platform.database, data=platform.folder)
        assert platform.each(lambda http: http.get(f"/sessions/{session}").status_code, revoked) == [401, 401]
        # Without an event, which would have access checked too.
        assert wait_until_closed(opened) == [4401, 4401]


def test_a_sign_in_link_works_once_on_all_of_them(platform: PlatformOfProcesses) -> None:
    options = ("--database", platform.database)
    link = command("signin", "--account", "acme", *options, data=platform.services[0].data).stdout.strip()
    path = link.removeprefix(platform.base_url)
    assert path.startswith("/signin?code="), "an address for others, not the process's own"
    with httpx.Client(base_url=platform.base_url, limits=httpx.Limits(max_keepalive_connections=0)) as browser:
        page = browser.get(path)
        fields = dict(_hidden_fields(page.text))
        assert browser.post("/signin", data=fields).status_code == 303
        assert [browser.get("/settings").status_code for _ in range(3)] == [200] * 3, "signed in, on each of them"
        again = browser.post(
            "/signin", data=dict(_hidden_fields(browser.get("/signin").text)) | {"code": fields["code"]}
        )
        assert again.status_code == 400


def _hidden_fields(page: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
