"""One TLS setting for requests and streams, against a platform whose certificate only that setting trusts."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentbook as ab
from agentbook.events.pump import BEGINNING
from support.certificate import make_certificate
from support.fake_platform import FakePlatform, event


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[FakePlatform]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with FakePlatform(tls=context) as running:
        yield running


def test_requests_and_streams_trust_the_same_certificate(secure: FakePlatform, certificate: tuple[Path, Path]) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    secure.add(*[event(n) for n in range(3)])
    with ab.Client(secure.base_url, credentials="id:secret", tls=trusted) as client:
        assert [one.content.n for one in client.sessions.events("s")] == [0, 1, 2]
        with client.sessions.stream("s", from_id=BEGINNING) as stream:
            assert [next(stream).content.n for _ in range(3)] == [0, 1, 2]
            while not secure.sockets:
                assert stream.get(timeout_s=0.01) is None
            secure.add(event(3))
            assert next(stream).content.n == 3


def test_an_unknown_certificate_is_refused(secure: FakePlatform) -> None:
    with ab.Client(secure.base_url, credentials="id:secret", deadline_s=0.5) as client:
        with pytest.raises(ab.ConnectionFailed) as raised:
            client.me.get()
        assert "CERTIFICATE" in str(raised.value).upper()


def test_a_named_proxy_is_used_for_both() -> None:
    from agentbook.api.transport import Network

    network = Network(proxy="http://proxy:3128")
    assert network.of_httpx("http://127.0.0.1:1/v1")["proxy"] == "http://proxy:3128"
    assert network.of_websockets("http://127.0.0.1:1/v1") == {"proxy": "http://proxy:3128"}
    assert Network().of_websockets("http://127.0.0.1:1/v1") == {"proxy": None}
    assert Network().of_websockets("https://host/v1") == {"proxy": True}
