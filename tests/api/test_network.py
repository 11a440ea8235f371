"""The way to a platform: names, proxies and certificates, for requests and streams."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import socketserver
import ssl
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import certifi
import pytest

import agentbook as ab
from agentbook.api import policy
from agentbook.api.transport import Network
from agentbook.chat.model.user_errors import explain
from agentbook.events import reader
from agentbook.events.reader import BEGINNING
from support.certificate import make_certificate
from support.fake_platform.over_socket import SocketPlatform, event
from support.raw_platform import RawPlatform

SECRET = "s3cret-of-a-proxy"
NAME = "platform.test"
RESOLVE = socket.getaddrinfo


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("SSL_CERT_"):
            monkeypatch.delenv(name)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let `NAME` stand for these addresses; an address has a port of its own."""

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return RESOLVE(host, port, *args, **options)
        return [info for ip, own in addresses for info in RESOLVE(ip, own or port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def mute() -> Iterator[tuple[str, int]]:
    """An address that answers no connection: the queue of its listener is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filling = [socket.socket() for _ in range(3)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()
        for each in filling:
            each.close()


# -- names and addresses ---------------------------------------------------------------


def test_a_stream_tries_the_next_address_while_the_first_does_not_answer(
    mute: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SocketPlatform() as platform:
        resolve_to(monkeypatch, mute, ("127.0.0.1", int(platform.base_url.rpartition(":")[2].partition("/")[0])))
        platform.add(event(0))
        began = time.monotonic()
        with (
            ab.Client(f"http://{NAME}/v1", credentials="id:secret", allow_http=True) as client,
            client.sessions.stream("s", from_id=BEGINNING) as stream,
        ):
            while not platform.sockets:
                stream.get(timeout_s=0.01)
                assert time.monotonic() - began < 8  # one address takes ten seconds to give up


def test_a_name_that_is_looked_up_for_long_does_not_outlast_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [] if answered.wait(60) else None)
    with (
        ab.Client(f"http://{NAME}/v1", allow_http=True, timeout_s=0.2, deadline_s=0.5) as client,
        pytest.raises(ab.AgentbookError, match="timed out"),
    ):
        client.me.get()
    answered.set()


# -- proxies ---------------------------------------------------------------------------


class Proxy(socketserver.ThreadingTCPServer):
    """An HTTP proxy, or a SOCKS proxy; passes everything to one port, notes how."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.port = port
        self.seen: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Tunnel(socketserver.StreamRequestHandler):
    server: Proxy
    wbufsize = 0

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            self.open(upstream)
            back = threading.Thread(target=pump, args=(upstream, self.connection), daemon=True)
            back.start()
            while data := self.rfile.read1(1 << 16):
                upstream.sendall(data)
            upstream.shutdown(socket.SHUT_WR)
            back.join(10)

    def open(self, upstream: socket.socket) -> None:
        first = self.rfile.read(1)
        if first == b"\x05":
            self.rfile.read(self.rfile.read(1)[0])
            self.wfile.write(b"\x05\x00")
            _, _, _, kind, length = self.rfile.read(5)
            assert kind == 3, "the proxy looks up the name"
            self.server.seen.append(f"SOCKS {self.rfile.read(length).decode()}")
            self.rfile.read(2)
            self.wfile.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            return
        method, target, _ = (first + self.rfile.readline()).decode().split()
        self.server.seen.append(method)
        if method != "CONNECT":
            upstream.sendall(f"{method} /{target.split('/', 3)[3]} HTTP/1.1\r\n".encode())
            return
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SocketPlatform, Proxy]]:
    """A platform and a proxy in front of it."""
    resolve_to(monkeypatch, ("127.0.0.1", 0))
    with SocketPlatform() as platform, Proxy(int(platform.base_url.split(":")[2].split("/")[0])) as proxy:
        platform.add(event(0))
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        yield platform, proxy
        proxy.shutdown()


def request_and_stream(platform: SocketPlatform, host: str = NAME, **options: Any) -> None:
    address = platform.base_url.replace("127.0.0.1", host)
    with ab.Client(address, credentials="id:secret", allow_http=True, deadline_s=20, **options) as client:
        assert len(list(client.sessions.events("s"))) == 1
        with client.sessions.stream("s", from_id=BEGINNING) as stream:
            assert stream.get(timeout_s=20) is not None
            until = time.monotonic() + 20
            while not platform.sockets and time.monotonic() < until:
                assert stream.get(timeout_s=0.01) is None


@pytest.mark.parametrize(
    ("variable", "scheme"),
    [
        ("http_proxy", ""),
        ("ALL_PROXY", "socks5h://"),
        ("proxy=", "http://"),
        ("proxy=", "socks://"),
        ("http_proxy", "socks5://"),
    ],
)
def test_requests_and_streams_take_the_same_way(
    behind: tuple[SocketPlatform, Proxy], variable: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, proxy = behind
    if scheme.startswith("socks"):
        pytest.importorskip("socksio", reason="pip install 'agentbook[socks]'")
        pytest.importorskip("python_socks", reason="pip install 'agentbook[socks]'")
    options = {}
    if variable == "proxy=":
        options = {"proxy": scheme + proxy.address}
    else:
        monkeypatch.setenv(variable, scheme + proxy.address)
    request_and_stream(platform, **options)
    ways = {way for way in proxy.seen if way in ("CONNECT", f"SOCKS {NAME}")}
    assert ways == ({f"SOCKS {NAME}"} if scheme.startswith("socks") else {"CONNECT"}), "the stream's way"
    assert scheme.startswith("socks") or "GET" in proxy.seen, "the requests' way"


@pytest.mark.parametrize(
    "exception", [NAME, f".{NAME.partition('.')[2]}", "*", "fd00::/8, 10.0.0.0/8,platform.test", "[::1]," + NAME]
)
def test_neither_takes_a_proxy_that_no_proxy_excludes(
    behind: tuple[SocketPlatform, Proxy], exception: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, proxy = behind
    monkeypatch.setenv("ALL_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", exception)
    request_and_stream(platform)
    assert proxy.seen == []


def test_this_machine_needs_no_proxy_unless_one_is_passed(
    platform: RawPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "nonsense://")
    with ab.Client(platform.base_url) as client:
        assert client.me.get().id == "a1"
    with Proxy(platform.server_address[1]) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        with ab.Client(platform.base_url, proxy=f"http://{proxy.address}") as client:
            assert client.me.get().id == "a1"
        proxy.shutdown()
    assert proxy.seen == ["GET"]


def failures(**options: Any) -> list[ab.AgentbookError]:
    """The errors of a request, of an awaited request and of a stream."""
    errors = []
    with ab.Client(f"https://{NAME}/v1", credentials="id:secret", deadline_s=0.5, **options) as client:
        with pytest.raises(ab.AgentbookError) as raised:
            client.me.get()
        errors.append(raised.value)
        with pytest.raises(ab.AgentbookError) as raised, client.sessions.stream("s", from_id=BEGINNING) as stream:
            stream.get(timeout_s=20)
        errors.append(raised.value)

    async def awaited() -> None:
        async with ab.AsyncClient(f"https://{NAME}/v1", deadline_s=0.5, **options) as client:
            with pytest.raises(ab.AgentbookError) as raised:
                await client.me.get()
            errors.append(raised.value)

    asyncio.run(awaited())
    return errors


@pytest.mark.parametrize(
    "address",
    ["gopher://me:{}@h:1", "http://me:{}/x@h:1", "http://", "http://h:port", "socks4://h:1", "http://me:{}@h:99999"],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address.format(SECRET)
    for error in failures(proxy=address):
        assert "proxy=" in str(error)
        assert SECRET not in str(error)
    monkeypatch.setenv("HTTPS_PROXY", address)
    for error in failures():
        assert "HTTPS_PROXY" in str(error)
        assert f"NO_PROXY={NAME}" in str(error)
        assert SECRET not in str(error)


def test_spaces_around_a_proxy_are_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("python_socks", reason="python-socks is not installed: pip install 'agentbook[socks]'")
    for address in (" http://h:1\n", "\tsocks://h:1 ", "h:1\r\n"):
        monkeypatch.setenv("HTTPS_PROXY", address)
        assert Network(f"https://{NAME}/v1").websocket_options()["proxy"].endswith("://h:1")


def test_a_socks_proxy_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("all_proxy", f"socks5h://me:{SECRET}@127.0.0.1:9")
    for error in failures():
        assert "all_proxy" in str(error)
        assert "pip install 'httpx2[socks]'" in str(error)
        assert SECRET not in str(error)


# -- certificates ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[SocketPlatform]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with SocketPlatform(tls=context) as running:
        yield running


@pytest.mark.parametrize("known_by", ["certifi", "SSL_CERT_FILE", "tls="])
def test_requests_and_streams_trust_the_same_authorities(
    secure: SocketPlatform, certificate: tuple[Path, Path], known_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, options = str(certificate[0]), {}
    if known_by == "tls=":
        options = {"tls": ssl.create_default_context(cafile=file)}
    elif known_by == "certifi":
        monkeypatch.setattr(certifi, "where", lambda: file)
    else:
        monkeypatch.setenv(known_by, file)
    secure.add(event(0))
    request_and_stream(secure, "127.0.0.1", **options)


# -- event loops and processes ---------------------------------------------------------


def test_an_ended_loop_leaves_no_connection_behind(platform: RawPlatform) -> None:
    client, loops = ab.AsyncClient(platform.base_url), []

    async def once() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await client.me.get()

    for _ in range(5):
        asyncio.run(once())
    for _ in range(5):
        assert platform.ended.acquire(timeout=60)
    gc.collect()
    assert [loop() for loop in loops] == [None] * 5


def test_requests_name_the_library_and_its_version(platform: RawPlatform) -> None:
    async def ask_async() -> None:
        async with ab.AsyncClient(platform.base_url) as client:
            await client.me.get()

    with ab.Client(platform.base_url) as client:
        client.me.get()
    asyncio.run(ask_async())
    for request in platform.requests:
        lines = request.lower().split(b"\r\n")
        assert [line for line in lines if line.startswith(b"user-agent:")] == [
            f"user-agent: agentbook/{ab.__version__}".encode()
        ]


def test_a_child_works_that_was_forked_during_the_first_request(platform: RawPlatform) -> None:
    platform.reply = b""  # the reply keeps waiting
    client = ab.Client(platform.base_url, timeout_s=20, deadline_s=20)
    before = client._transport._http_client()
    with client._transport._lock:  # as another thread of this process would hold it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what notebooks do
            child = os.fork()
        if child == 0:
            signal.alarm(60)  # it would wait for a lock that nobody holds
            os._exit(0 if client._transport._http_client() is not before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client._transport._http_client() is before
    client.close()


# -- certificates that are not trusted -------------------------------------------------


def test_an_unknown_certificate_is_refused_at_once(secure: SocketPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "BACKOFF_S", 600.0)  # whoever waits fails
    monkeypatch.setattr(reader, "BACKOFF_S", 600.0)
    advice = "certificate is not accepted.*SSL_CERT_FILE.*tls="
    with ab.Client(secure.base_url, credentials="id:secret") as client:
        for act in (client.me.get, lambda: client.sessions.start("w", agent_id="a", prompt="Hello")):
            with pytest.raises(ab.ConnectionFailed, match=advice) as raised:
                act()
            assert not raised.value.retryable
            assert "certificate is not accepted" in explain(raised.value).text
        with pytest.raises(ab.ConnectionFailed, match=advice), client.sessions.stream("s", from_id=BEGINNING) as stream:
            stream.get(timeout_s=60)


def test_a_certificate_that_was_accepted_before_is_waited_for(
    secure: SocketPlatform, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, open_socket = threading.Event(), reader.open_socket

    @asynccontextmanager
    async def noted(*args: Any, **options: Any) -> AsyncIterator[Any]:
        try:
            async with open_socket(*args, **options) as socket:
                yield socket
        except ab.ConnectionFailed as error:
            if not error.retryable:
                refused.set()
            raise

    monkeypatch.setattr(reader, "open_socket", noted)
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    with (
        ab.Client(secure.base_url, credentials="id:secret", tls=trusted) as client,
        client.sessions.stream("s", from_id=BEGINNING) as stream,
    ):
        secure.add(event(0))
        assert next(stream).content.n == 0
        # A network that wants its terms accepted first answers in the platform's place.
        assert secure.tls is not None
        secure.tls.load_cert_chain(*make_certificate(tmp_path))
        secure.cut()
        while not refused.is_set():
            assert stream.get(timeout_s=0.01) is None
        secure.tls.load_cert_chain(*certificate)
        secure.add(event(1))
        assert next(stream).content.n == 1
