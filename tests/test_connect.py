"""`connect`: where address and key come from, and how the embedded service starts."""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import httpx
import pytest
from click.testing import CliRunner

import agentbook as ab
from agentbook import doctor, embedded, jupyterlab
from agentbook.api.oauth import token_store
from agentbook.cli import main
from agentbook.doctor import trial
from agentbook.events.websocket import open_socket
from agentbook.service import discovery_file


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / "data"
    monkeypatch.setenv("AGENTBOOK_DATA", str(data))
    monkeypatch.setenv("AGENTBOOK_SPEED", "0")
    for check in ("imports", "service"):  # of the doctor; they take seconds
        monkeypatch.setattr(trial, check, lambda: iter(()))
    yield data
    end_services()


def end_services(*, at_once: bool = False) -> None:
    """End the services that were started."""
    for child in embedded.children:
        (child.kill if at_once else child.terminate)()
        child.wait(60)
    embedded.children.clear()


@pytest.fixture(scope="module")
def folder_of_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a service that runs for several tests."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY"):
            patch.delenv(name, raising=False)
        patch.setenv("AGENTBOOK_DATA", str(folder))
        patch.setenv("AGENTBOOK_SPEED", "0")
        ab.connect().close()
    [process] = embedded.children
    embedded.children.clear()
    yield folder
    process.terminate()
    process.wait(60)


@pytest.fixture
def shared(data: Path, folder_of_service: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTBOOK_DATA", str(folder_of_service))
    return folder_of_service


def test_connect_takes_what_a_client_takes(data: Path) -> None:
    context = ssl.create_default_context()
    options = {"timeout_s": 5.0, "deadline_s": 6.0, "tls": context, "proxy": "http://127.0.0.1:3128"}
    client = ab.connect("https://arg/v1", credentials="arg:s", **options)
    assert repr(client.auth) == "ApiKey('arg:…')"
    assert (client._network.tls, client._network.proxy) == (context, "http://127.0.0.1:3128")
    parameters = inspect.signature(ab.connect).parameters
    assert parameters.keys() - {"api_key", "session_url"} == inspect.signature(ab.Client).parameters.keys()
    for name in options:
        assert parameters[name] == inspect.signature(ab.Client).parameters[name]


def test_arguments_come_before_the_environment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", " HTTPS://env/v1/ ")
    monkeypatch.setenv("AGENTBOOK_API_KEY", "env:s")
    client = ab.connect("https://arg/v1", api_key="arg:s")
    assert (client.base_url, repr(client.auth)) == ("https://arg/v1", "ApiKey('arg:…')")
    client = ab.connect()
    assert (client.base_url, repr(client.auth)) == ("https://env/v1", "ApiKey('env:…')")
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://env/v1")
    assert ab.connect("https://env/v1").auth is not None
    assert ab.connect("https://other/v1").auth is None, "the key of another address"
    monkeypatch.setenv("AGENTBOOK_BASE_URL", " ")
    with pytest.raises(ValueError, match=r"AGENTBOOK_BASE_URL is set and empty\. Unset it"):
        ab.connect()
    assert not data.exists()


def test_a_key_without_an_address_is_not_left_unused_in_silence(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = SimpleNamespace(base_url="http://127.0.0.1:9/v1")
    monkeypatch.setattr(embedded, "find_or_start", lambda: service)
    monkeypatch.setattr(embedded, "local_key", lambda _: ab.ApiKey("local:s"))
    assert repr(ab.connect().auth) == "ApiKey('local:…')"
    monkeypatch.setenv("AGENTBOOK_API_KEY", "env:s")
    with pytest.warns(UserWarning, match="AGENTBOOK_BASE_URL"):
        assert repr(ab.connect().auth) == "ApiKey('local:…')"


def test_the_keyring_has_keys_by_address(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {("agentbook", "https://ring/v1"): "ring:s"}
    monkeypatch.setitem(
        sys.modules,
        "keyring",
        SimpleNamespace(get_password=lambda *entry: entries.get(entry)),  # type: ignore[arg-type]
    )
    assert repr(ab.connect("https://ring/v1").auth) == "ApiKey('ring:…')"
    assert ab.connect("https://elsewhere/v1").auth is None
    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password={}.__getitem__))  # type: ignore[arg-type]
    assert ab.connect("https://ring/v1").auth is None, "a keyring that fails counts as no key"


def test_a_keyring_that_does_not_answer_is_left_and_not_asked_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, asked = threading.Event(), []

    def wait(*entry: str) -> None:
        asked.append(entry)
        opened.wait()

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=wait))  # type: ignore[arg-type]
    monkeypatch.setattr(token_store, "KEYRING_TIMEOUT_S", 0.05)
    with pytest.warns(UserWarning, match="AGENTBOOK_API_KEY"):
        assert ab.connect("https://ring/v1").auth is None
    assert ab.connect("https://ring/v1").auth is None
    opened.set()
    assert len(asked) == 1


def test_the_embedded_service_is_started_once_shared_and_keyed(data: Path) -> None:
    clients: list[ab.Client] = []
    threads = [threading.Thread(target=lambda: clients.append(ab.connect())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = "import agentbook as ab; c = ab.connect(); print(c.base_url, c.auth.key_id, c.me.get().name)"
    code += "; import sys; print('sqlalchemy' in sys.modules, 'pandas' in sys.modules)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=True).stdout
    [address] = {client.base_url for client in clients}
    [key_id] = {client.auth.key_id for client in clients}  # type: ignore[union-attr]
    # The last two: connecting loads neither the service's store nor pandas.
    assert other.split() == [address, key_id, "acme", "False", "False"]
    assert stat.S_IMODE((data / discovery_file.KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for client in clients:
        client.close()


def test_a_revoked_key_is_replaced(shared: Path) -> None:
    before = ab.connect()
    assert CliRunner().invoke(main, ["keys", "revoke", before.auth.key_id]).exit_code == 0  # type: ignore[union-attr]
    with pytest.raises(ab.Unauthorized):
        before.me.get()
    with ab.connect() as after:
        assert after.me.get().name == "acme"
        assert after.auth.key_id != before.auth.key_id  # type: ignore[union-attr]
    before.close()


def test_a_service_is_started_again_at_its_former_address(data: Path) -> None:
    first = embedded.find_or_start()
    end_services()
    assert not (data / "service.json").exists()
    assert embedded.find_or_start().base_url == first.base_url, "stored data would seem to come from another platform"
    end_services()
    with socket.create_server(("127.0.0.1", int(first.base_url.rpartition(":")[2].partition("/")[0]))):
        assert embedded.find_or_start().base_url != first.base_url


def test_after_a_service_was_killed_clients_say_what_to_do_and_connect_starts_it_again(data: Path) -> None:
    client = ab.connect(timeout_s=5, deadline_s=5)
    before = client.me.get().id
    end_services(at_once=True)
    with pytest.raises(ab.ConnectionFailed, match="`agentbook doctor`") as raised:
        client.me.get()
    assert "\n" not in str(raised.value)
    [finding] = [finding for finding in doctor.examine() if finding.about == "embedded service"]
    assert "connect() again" in finding.advice
    with ab.connect() as again:
        assert again.me.get().id == before
        # On its former port, so that existing clients and panels work again.
        assert again.base_url == client.base_url
        assert client.me.get().id == before
    client.close()


@pytest.mark.skipif(os.name == "nt", reason="has no modes")
@pytest.mark.parametrize("theirs", ["mode of all", "mode of the group", "owner"])
def test_a_data_directory_of_others_is_not_believed(data: Path, theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data.mkdir()
    data.chmod({"mode of all": 0o777, "mode of the group": 0o770}.get(theirs, 0o755))
    (data.parent / "mine").write_text("mine")
    (data / "service.log").symlink_to(data.parent / "mine")
    if theirs == "owner" and os.geteuid() == 0:
        os.chown(data, 1, -1)
    elif theirs == "owner":
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
    assert [each.state for each in doctor.examine() if each.about == "embedded service"] == ["wrong"]
    with pytest.raises(ab.ConnectionFailed, match="AGENTBOOK_DATA"):
        ab.connect()
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr(jupyterlab, "_run", lambda *_: 0)
    with pytest.raises(ab.errors.AgentbookError, match="AGENTBOOK_DATA"):
        jupyterlab.lab(browser=False)
    assert [path.name for path in data.iterdir()] == ["service.log"]
    assert (data.parent / "mine").read_text() == "mine"


@pytest.mark.parametrize("text", [None, "mine"])
def test_a_log_that_leads_elsewhere_is_not_written(data: Path, text: str | None) -> None:
    data.mkdir(mode=0o700)
    target = data.parent / "mine"
    (data / "service.log").symlink_to(target)
    if text is not None:
        target.write_text(text)
    with pytest.raises(ab.ConnectionFailed, match=r"service\.log"):
        ab.connect()
    assert (target.read_text() if target.exists() else None) == text


def test_another_program_on_the_port_of_a_dead_service_is_not_mistaken_for_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert discovery_file.find() is None
    assert not data.exists(), "finding starts nothing"
    data.mkdir()
    for text in ("", "{}", '{"base_url": "http://127.0.0.1:9/v1", "pid": 1}', '{"base_url": 3, "pid": "x"}'):
        (data / "service.json").write_text(text)
        assert discovery_file.find() is None
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    with impostor() as base_url:
        facts = {"base_url": base_url, "port": 1, "token": "t0ken"}
        # Its id may belong to another process of this user meanwhile.
        for pid in (ended.pid, 0, -1, 2**40, os.getpid()):
            (data / "service.json").write_text(json.dumps(facts | {"pid": pid}))
            assert discovery_file.find() is None, pid
        # Of an earlier version, whose file has no token: no answer proves anything.
        monkeypatch.setattr(Impostor, "token", "")
        (data / "service.json").write_text(json.dumps(facts | {"pid": os.getpid(), "token": ""}))
        assert discovery_file.find() is None
        # The one that can answer is the service.
        monkeypatch.setattr(Impostor, "token", "t0ken")
        (data / "service.json").write_text(json.dumps(facts | {"pid": os.getpid()}))
        service = discovery_file.find()
        assert service is not None
        assert "t0ken" not in repr(service)
        # A nonce that another program passed on is answered for another address.
        monkeypatch.setattr(Impostor, "address", "http://127.0.0.1:9/v1")
        assert discovery_file.find() is None


class Impostor(BaseHTTPRequestHandler):
    """Has a guess for the service's token, and answers every request with 200."""

    token = "guess"
    address = ""
    got_a_key: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path, _, nonce = self.path.partition("?nonce=")
        base_url = self.address or f"http://127.0.0.1:{self.server.server_port}/v1"  # type: ignore[attr-defined]
        if "Authorization" in self.headers:
            self.got_a_key.append(path)
        self.send_response(200)
        self.end_headers()
        is_proof = path == "/_proof"
        self.wfile.write(
            discovery_file.proof(self.token, base_url, nonce).encode() if is_proof else b'{"name": "acme"}'
        )

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def impostor() -> Iterator[str]:
    """The address at which an impostor answers until the end of the block."""
    with HTTPServer(("127.0.0.1", 0), Impostor) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize("driver", ["ours", "httpx", "async", "httpx async", "socket"])
def test_a_client_sends_its_key_to_no_program_that_took_the_port(
    data: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked_again(client: ab.AsyncClient) -> None:
        async with client, httpx.AsyncClient() as http:
            if driver == "httpx async":
                client = ab.AsyncClient(client.base_url, credentials=client.auth, deadline_s=2, http_client=http)
            await client.me.get()
            take_the_port()
            if driver == "socket":
                async with open_socket(client, "s1", from_id=None, types=None):
                    pass
            await client.me.get()

    def ask_again(client: ab.Client) -> None:
        if driver not in ("ours", "httpx"):
            asyncio.run(asked_again(client.asynchronous()))
        take_the_port()
        client.me.get()

    def take_the_port() -> None:
        assert set(Impostor.got_a_key) == {"/v1/me"}
        Impostor.got_a_key.clear()
        monkeypatch.setattr(Impostor, "token", "guess")

    data.mkdir()
    (data / discovery_file.KEY_FILE).write_text('{"api_key": "0199a0b2-0000-7000-8000-000000000001:s"}')
    monkeypatch.setattr(Impostor, "token", "t0ken")  # until its port is taken, it is the service
    with impostor() as base_url, httpx.Client() as http:
        facts = {"base_url": base_url, "port": 1, "token": "t0ken", "pid": os.getpid()}
        (data / "service.json").write_text(json.dumps(facts))
        client = ab.connect(deadline_s=2, http_client=http if driver == "httpx" else None)
        client.me.get()
        with pytest.raises(ab.ConnectionFailed):
            ask_again(client)
        client.close()
    assert Impostor.got_a_key == []


def test_two_users_have_a_service_and_a_key_each(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ab.connect() as mine:
        monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "theirs"))
        with ab.connect() as theirs:
            assert mine.base_url != theirs.base_url
            with ab.Client(theirs.base_url, credentials=mine.auth) as intruder, pytest.raises(ab.Unauthorized):
                intruder.me.get()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_another_users_directory_is_one_clear_error(shared: Path) -> None:
    # Import everything first: the other user may not be able to read this environment.
    code = (
        "import agentbook as ab, os, agentbook.doctor.platform, agentbook.service.store, agentbook.embedded\n"
        "os.setuid(65534)\n"
        "try: ab.connect()\n"
        "except ab.ConnectionFailed as error: print(error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "Set AGENTBOOK_DATA to a directory that can be written" in output
    assert len(output.splitlines()) == 1


WORK = """
import shutil
import socket
known, resolve = ("127.0.0.1", "localhost", None), socket.getaddrinfo
def offline(host, *args, **options):
    if host not in known:
        raise socket.gaierror(-3, "Temporary failure in name resolution")
    return resolve(host, *args, **options)
socket.getaddrinfo = offline
import agentbook as ab
with ab.connect() as client:
    events = ab.load_events(client, client.sessions.list("acme~support", limit=3))
    chart = ab.plot.activity_heatmap(events)
    panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")
    print(events["session_id"].nunique(), "<svg" in chart.svg(), panel.ask("What is a turn?", timeout_s=60).status)
    panel.close()
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder here that even root cannot write")
def test_everything_works_without_a_network_in_a_folder_that_cannot_be_written(shared: Path) -> None:
    pytest.importorskip("vl_convert")
    # With a proxy that does not answer, as in an office without network.
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    ended = subprocess.run(
        [sys.executable, "-c", WORK], cwd="/proc", env=environment, capture_output=True, text=True, timeout=200
    )
    assert ended.stdout.split() == ["3", "True", "answered"], ended.stderr


def test_a_directory_without_locks_is_one_clear_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some NFS and Lustre file systems."""
    fcntl = pytest.importorskip("fcntl", reason="locks are those of POSIX")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(ab.ConnectionFailed) as raised:
        ab.connect()
    assert str(data) in str(raised.value)
    assert "AGENTBOOK_DATA" in str(raised.value)


def test_the_services_own_error_is_passed_on_when_it_cannot_start(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "store.db").mkdir(parents=True)
    files = [data / name for name in ("service.json", "service.log")]
    for file in files:
        file.write_text("mine\n")
    with pytest.raises(ab.ConnectionFailed) as raised:
        ab.connect()
    assert "did not start" in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert all(file.read_text().startswith("mine\n") for file in files)


@pytest.mark.parametrize(
    ("script", "free", "reason"),
    [
        ("raise SystemExit(1)", 0, "disk"),
        ("raise SystemExit(1)", 1 << 30, "nothing"),
        ("import os; os.kill(os.getpid(), 9)", 1 << 30, "SIGKILL"),
    ],
)
def test_a_service_that_ends_without_a_word_is_explained(
    data: Path, monkeypatch: pytest.MonkeyPatch, script: str, free: int, reason: str
) -> None:
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **more: start([sys.executable, "-c", script], **more))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    data.mkdir()
    (data / "service.log").write_text("what an earlier one said\n")
    with pytest.raises(ab.ConnectionFailed, match=reason):
        ab.connect()


def test_a_service_that_does_not_answer_in_time_is_ended(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.0)
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **more: processes.append(start(*a, **more)) or processes[-1])
    with pytest.raises(ab.ConnectionFailed) as raised:
        ab.connect()
    assert "did not answer within 0 s" in str(raised.value)
    assert str(data / "service.log") in str(raised.value)
    assert processes
    for process in processes:
        process.wait(60)
    assert discovery_file.find() is None
