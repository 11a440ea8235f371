"""A secret that a platform repeats reaches no message, pickle or traceback.

A hostile platform repeats the credential of each request in its status line, its
headers and its body, in several encodings. `shown_by` walks over everything that an
error shows: messages, reprs, pickles, and the variables of our code in the traceback.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import pickle
import socket
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import agentbook as ab
from agentbook._masking import Hidden, Redactor
from agentbook.api import transport
from agentbook.api.calls import Call, record
from agentbook.api.oauth.sign_in import request_tokens
from agentbook.api.record import Record
from agentbook.resources import Endpoint, Resource, SyncMode

SRC = str(Path(ab.__file__).parent)
SECRET = "s3cr+t/p@ss"
KEY = f"id1:{SECRET}"
TOKEN = "t0ken+of/a&person"


def shown_by(error: BaseException) -> Iterator[str]:
    """Everything that a person, a log or another process sees of an error."""
    chain: list[BaseException] = [error]
    for exception in chain:
        yield from (str(exception), repr(exception), str(vars(exception)))
        for linked in (exception.__cause__, exception.__context__):
            if linked is not None and linked not in chain:
                chain.append(linked)
        with contextlib.suppress(TypeError, pickle.PicklingError, AttributeError):
            yield pickle.dumps(exception).decode("latin-1")
        for frame, _ in traceback.walk_tb(exception.__traceback__):
            if frame.f_code.co_filename.startswith(SRC):
                yield from values_in(frame)
    yield "".join(traceback.format_exception(error))


def values_in(frame: FrameType) -> Iterator[str]:
    for name, value in frame.f_locals.items():
        with contextlib.suppress(AttributeError):  # an object whose __init__ failed
            yield f"{frame.f_code.co_qualname} {name} = {value!r}"
            yield f"{frame.f_code.co_qualname} {name} = {value}"


def assert_hidden(error: BaseException, *secrets: str) -> None:
    forms = {form for secret in secrets for form in (secret, quote(secret, safe=""), secret.replace("&", "&amp;"))}
    forms |= {base64.b64encode(secret.encode()).decode() for secret in secrets}
    leaks = [text for text in shown_by(error) for form in forms if form in text]
    assert leaks == []


class Echo(socketserver.StreamRequestHandler):
    """Repeats the credential and the body of each request wherever it can."""

    def handle(self) -> None:
        authorization, length, line = "", 0, self.rfile.readline().decode()
        if not line:
            return  # connected, and interrupted before a request
        path = line.split()[1]
        while header := self.rfile.readline().decode().strip():
            name, _, value = header.partition(": ")
            if name.lower() == "authorization":
                authorization = value
            if name.lower() == "content-length":
                length = int(value)
        body = self.rfile.read(length).decode()
        token = authorization.partition(" ")[2]
        pair = token if ":" in token or not token else base64.b64decode(token + "==", validate=False).decode("latin-1")
        texts = f"{authorization} {pair} {quote(pair, safe='')} {body}".replace("\n", " ")
        status = next(part for part in path.split("/") if part in STATUSES)
        if status == "garbage":  # no HTTP: the library quotes the line in its error
            self.wfile.write(f"{texts}\r\n\r\n".encode())
            return
        reply = f'{{"error": "E {texts}", "message": "M {texts}"}}' if status != "200" else f"<html>{texts}</html>"
        self.wfile.write(
            f"HTTP/1.1 {status} {texts}\r\nContent-Type: text/html; {texts}\r\nX-Request-ID: {texts}\r\n"
            f'WWW-Authenticate: Bearer realm="{texts}"\r\nLocation: http://h/{quote(texts)}\r\n'
            f"Date: {texts}\r\nContent-Length: {len(reply.encode())}\r\nConnection: close\r\n\r\n{reply}".encode()
        )


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


CREDENTIALS: dict[str, Callable[[str], Any]] = {
    "basic": lambda key: ab.ApiKey(key),
    "bearer": lambda key: ab.ApiKey(key, scheme="bearer"),
    "token": lambda key: ab.OAuthToken(TOKEN),
}
STATUSES = ["200", "301", "400", "401", "403", "404", "409", "413", "422", "429", "500", "503", "garbage"]


def error_of(
    base_url: str, method: str, path: str, *, awaited: bool = False, callers: bool = False, **options: Any
) -> ab.AgentbookError:
    """The error of a request, by connections of our own or by a caller's client."""

    def ask() -> None:
        with httpx.Client(trust_env=False) as http:
            ab.Client(base_url, http_client=http if callers else None, **options).request(method, path)

    async def ask_async() -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            await ab.AsyncClient(base_url, http_client=http if callers else None, **options).request(method, path)

    with pytest.raises(ab.AgentbookError) as raised:
        asyncio.run(ask_async()) if awaited else ask()
    return raised.value


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_credential_that_the_platform_repeats_is_shown_nowhere(
    echo: str, kind: str, status: str, method: str
) -> None:
    key = f"of-{status}:{SECRET}"  # a reply of 429 stops the requests of its key for a minute
    for awaited in (False, True) if kind == "basic" else (False,):
        error = error_of(echo, method, status, awaited=awaited, credentials=CREDENTIALS[kind](key), deadline_s=0.4)
        assert_hidden(error, SECRET, key, TOKEN)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_credential_in_a_reply_that_is_not_read_to_its_end_is_shown_nowhere(
    echo: str, awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a caller's own client, which keeps the text of the status line."""
    monkeypatch.setattr(transport, "MAX_BODY_BYTES", 10)
    error = error_of(echo, "GET", "200", awaited=awaited, callers=True, credentials=KEY)
    assert "larger than" in str(error)
    assert_hidden(error, SECRET, KEY)


@pytest.mark.parametrize("end", ["\n", "\r\nx: y", "\x00", "\r"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_header_with_a_line_break_is_neither_sent_nor_shown(echo: str, method: str, end: str) -> None:
    """A credential of the user's own making may hold one, read from a file."""

    class Credentials(ab.OAuthToken):
        def authorization(self) -> str:
            return super().authorization() + end

    error = error_of(echo, method, "200", credentials=Credentials(TOKEN), deadline_s=0.4)
    assert "line break" in str(error)
    assert_hidden(error, TOKEN)


@pytest.mark.parametrize(("step", "callers"), [("send", False), ("recv", False), ("send", True), ("recv", True)])
def test_an_interrupt_shows_no_credential(echo: str, step: str, callers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In no variable of any frame, those of libraries too."""

    def interrupt(*args: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(socket.socket, step, interrupt)
    with (
        httpx.Client(trust_env=False) as http,
        ab.Client(echo, credentials=KEY, http_client=http if callers else None) as client,
        pytest.raises(KeyboardInterrupt) as raised,
    ):
        client.request("POST", "200", json={"token": TOKEN})
    raised.value.__traceback__ = raised.tb.tb_next  # without the frame of this test
    report = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    for secret in (SECRET, ab.ApiKey(KEY).authorization()[6:]):
        assert secret not in report
    assert "_send" in report


def test_a_cancelled_request_shows_no_credential() -> None:
    async def cancelled() -> BaseException:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with ab.AsyncClient(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", credentials=KEY) as client:
                request = asyncio.create_task(client.me.get())
                while not client._transport._clients:
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)
                request.cancel()
                with pytest.raises(asyncio.CancelledError) as raised:
                    await request
                return raised.value

    report = traceback.TracebackException.from_exception(asyncio.run(cancelled()), capture_locals=True)
    for secret in (SECRET, ab.ApiKey(KEY).authorization()[6:]):
        assert secret not in "".join(report.format())


@pytest.mark.parametrize("status", ["401", "garbage"])
def test_a_credential_that_a_refused_socket_repeats_is_shown_nowhere(echo: str, status: str) -> None:
    from agentbook.events.websocket import open_socket

    async def handshake() -> BaseException:
        async with ab.AsyncClient(f"{echo}/{status}", credentials=KEY) as client:
            with pytest.raises(ab.AgentbookError) as failed:
                async with open_socket(client, "s", from_id=None, types=None):
                    pass
        return failed.value

    assert_hidden(asyncio.run(handshake()), SECRET, KEY)


@pytest.mark.parametrize("status", ["200", "400", "401", "500", "garbage"])
def test_a_code_that_the_token_endpoint_repeats_is_shown_nowhere(echo: str, status: str) -> None:
    form = {"grant_type": "authorization_code", "code": Hidden(TOKEN), "code_verifier": Hidden(SECRET)}
    with pytest.raises(ab.AgentbookError) as raised:
        request_tokens(f"{echo}/{status}", form)
    assert_hidden(raised.value, SECRET, TOKEN)


@pytest.mark.parametrize("key", ["malformed-S3CRET", "S3CRET key:with space", "S3CRET:"])
@pytest.mark.parametrize(
    "use",
    [
        lambda key: ab.ApiKey(key),
        lambda key: ab.Client("https://h/v1", credentials=key),
        lambda key: ab.AsyncClient("https://h/v1", credentials=key),
        lambda key: ab.connect("https://h/v1", api_key=key),
        lambda key: ab.connect("https://h/v1", credentials=key),
        lambda key: ab.connect(key),
        lambda key: ab.Client(key),
    ],
)
def test_a_malformed_key_is_shown_nowhere(use: Callable[[str], Any], key: str) -> None:
    with pytest.raises(ValueError, match=r"API key|base_url") as raised:
        use(key)
    assert_hidden(raised.value, "S3CRET")


@pytest.mark.parametrize("name", ["AGENTBOOK_API_KEY", "AGENTBOOK_BASE_URL"])
def test_a_malformed_key_in_the_environment_is_shown_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://h/v1")
    monkeypatch.setenv(name, "malformed-S3CRET")
    with pytest.raises(ValueError, match=r"API key|base_url") as raised:
        ab.connect()
    assert_hidden(raised.value, "S3CRET")


@pytest.mark.parametrize("make", [ab.Client, ab.AsyncClient, ab.connect])
def test_the_password_of_a_proxy_is_shown_nowhere(make: Callable[..., Any]) -> None:
    proxy = f"http://me:{SECRET}@127.0.0.1:9"
    with pytest.raises(ValueError, match="timeout_s") as raised:
        make("https://h/v1", credentials=KEY, proxy=proxy, timeout_s=0)
    assert_hidden(raised.value, SECRET)
    client = make("https://h/v1", proxy=proxy)
    assert client._network.proxy == proxy
    assert SECRET not in repr(client) + repr(client._network)


def test_httpx_logs_no_status_line_of_the_platform(echo: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for awaited in (False, True):
        assert isinstance(error_of(echo, "GET", "404", awaited=awaited, credentials=KEY), ab.NotFound)
    assert len(caplog.records) == 2
    assert SECRET not in caplog.text


def test_what_is_hidden_can_be_used_and_not_seen() -> None:
    secret = Hidden(Hidden("s3cret"))
    assert (f"{secret}", str(secret), repr(secret), f"{secret:>3}") == ("…", "…", "'…'", "  …")
    assert secret.reveal() == "s3cret" == secret
    assert type(secret.reveal()) is str


def test_a_redactor_masks_every_encoding_and_no_short_word() -> None:
    redactor = Redactor([ab.ApiKey("id:a<b&c/d").authorization(), "abc"])
    assert redactor.text("a<b&c/d a&lt;b&amp;c/d a%3Cb%26c%2Fd id%3Aa%3Cb%26c%2Fd abc") == "… … … … abc"
    assert redactor.data(b"Basic " + base64.b64encode(b"id:a<b&c/d")) == "Basic …".encode()


@pytest.mark.parametrize("status", ["200", "400", "403", "500", "garbage", "not sent"])
def test_the_parameters_of_a_new_credential_are_shown_nowhere(echo: str, status: str) -> None:
    def build(params: dict[str, Any]) -> Call[Any]:
        return Call("attach", "POST", status, record, body={"params": params})

    class Things(Resource[SyncMode]):
        attach = Endpoint(build)

    note = "half \ud83d" if status == "not sent" else ""
    params = {"headers": [{"x": TOKEN}], "password": SECRET, "note": note}
    asynchronous = ab.AsyncClient(echo, credentials=KEY)
    with ab.Client(echo, credentials=KEY) as client:
        for use in (
            lambda: Things(client).attach(params=params),
            lambda: client.credentials.attach("", params=params),
            lambda: client.request("POST", status, json={"params": params}),
            lambda: client.request("NO METHOD", status, json={"params": params}),
            lambda: asyncio.run(asynchronous.request("NO METHOD", status, json={"params": params})),
        ):
            with pytest.raises((ab.AgentbookError, ValueError)) as raised:
                use()
            assert_hidden(raised.value, SECRET, TOKEN)


def test_the_values_of_a_misspelt_argument_are_shown_nowhere() -> None:
    with ab.Client("https://h/v1") as client, pytest.raises(TypeError, match="did you mean 'search'") as raised:
        client.credentials.list("acme", serch=SECRET)  # type: ignore[call-arg]
    assert_hidden(raised.value, SECRET)


def test_a_record_shows_of_a_webhook_only_its_host() -> None:
    credential = Record(
        webhook_url="https://u:S3CRET@hooks.example.com:8443/S3CRET?sig=S3CRET",
        webhook_owner_identifier="S3CRET-T024BE7LD",
        integration={"webhook_url": "S3CRET", "webhook_uri": "https://[S3CRET"},
    )
    for text in (repr(credential), str(credential), credential._repr_html_(), repr(credential.integration)):
        assert "S3CRET" not in text
    assert "webhook_url='hooks.example.com'" in repr(credential)
    assert credential.webhook_url.endswith("sig=S3CRET")
