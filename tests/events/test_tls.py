"""One TLS setting for requests and streams, which alone trusts the certificate."""

from __future__ import annotations

import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from agentbook.api import policy
from agentbook.chat.model.user_errors import explain
from agentbook.events import reader
from agentbook.events.reader import BEGINNING
from support.certificate import make_certificate
from support.fake_platform.over_socket import SocketPlatform, event


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[SocketPlatform]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with SocketPlatform(tls=context) as running:
        yield running


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
