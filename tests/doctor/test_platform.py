"""What is wrong on the way to a platform is found: address, proxy, certificates, clock, key."""

from __future__ import annotations

import ssl
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agentbook import doctor
from service.process import Service
from support.certificate import make_certificate

from .kit import SECRET, answering, platform, says, told


def late_platform(handler: BaseHTTPRequestHandler) -> None:
    handler.server.behind_s = 300.0  # type: ignore[attr-defined]
    platform(handler)


def web_page(handler: BaseHTTPRequestHandler) -> None:
    says(handler, b"<!doctype html><title>Welcome</title>")


def test_a_key_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    told("AGENTBOOK_API_KEY", "not with that key", "AGENTBOOK_BASE_URL", state="note")


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (f"id:{SECRET}", "https://host/v1"),
        ("", "unset AGENTBOOK_BASE_URL"),
        ("https://host:99999/v1", "65535"),
        ("https://[::1", "https://host/v1"),
        ("https://ho st/v1", "blanks"),
        ("http://platform.invalid ", "export AGENTBOOK_BASE_URL=http://platform.invalid/v1"),
        (f"https://user:{SECRET}@host/v1", "without quotes, user name"),
        ("'https://host/v1'", "without quotes"),
        ("http://127.0.0.1:9", "export AGENTBOOK_BASE_URL=http://127.0.0.1:9/v1"),
        ("http://platform.invalid/v1", "export AGENTBOOK_BASE_URL=https://platform.invalid/v1"),
    ],
)
def test_an_address_that_cannot_be_right(monkeypatch: pytest.MonkeyPatch, address: str, advice: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
    found = doctor.examine()
    about = [finding for finding in found if finding.about == "AGENTBOOK_BASE_URL"]
    assert {finding.state for finding in about} == {"wrong"}
    assert any(advice in finding.advice for finding in about), about
    assert SECRET not in "".join(map(str, found))
    assert not any("could not be examined" in finding.found for finding in found)


@pytest.mark.parametrize(
    ("proxy", "state", "words"),
    [
        (f"http://ada:{SECRET}@127.0.0.1:9", "note", ("…@127.0.0.1:9", "NO_PROXY=platform.invalid")),
        ("127.0.0.1:9", "wrong", ("http://proxy:3128",)),
        ("socks5://127.0.0.1:9", "wrong", ("httpx[socks]",)),
    ],
)
def test_a_proxy_in_between(monkeypatch: pytest.MonkeyPatch, proxy: str, state: str, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)  # type: ignore[arg-type]
    found = doctor.examine()
    [one] = [finding for finding in found if finding.about == "proxy"]
    assert one.state == state
    assert all(word in f"{one.found} {one.advice}" for word in words)
    assert SECRET not in "".join(map(str, found))
    assert not any("could not be examined" in finding.found for finding in found)


@pytest.mark.parametrize(("status", "words"), [(407, "user name and password"), (403, "whoever runs the proxy")])
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, status: int, words: str) -> None:
    with answering(lambda handler: handler.send_error(status)) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
        monkeypatch.setenv("https_proxy", address.removesuffix("/v1"))
        told("platform", "through the proxy", "the proxy", words)


def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    told("platform", "the proxy http://127.0.0.1:9 cannot be reached", "NO_PROXY=platform.invalid")


def test_nothing_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")
    told("platform", "nothing listens", "Check the address")


def test_there_is_no_such_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    told("platform", "no network", "Unset AGENTBOOK_BASE_URL")


def test_something_else_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(web_page) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("platform", "not as an Agent Platform", "Check the address")


def test_another_path_of_a_platform(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("/v1", "/v2"))
    said = told("platform", "not as an Agent Platform", "404 The requested URL was not found")
    assert "the key's account" not in said.advice  # advice for other 404s


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv(name, str(tmp_path / "gone"))
    told("TLS", f"{name} names {tmp_path / 'gone'}", f"unset {name}")
    assert not any("could not be examined" in finding.found for finding in doctor.examine())


def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    # Not 127.0.0.1, which is reached without a look at the environment.
    with answering(platform, context, "127.0.0.2") as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("TLS", "certificate", "SSL_CERT_FILE")
        # What it advises helps.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert ("platform", "ok") in [(one.about, one.state) for one in doctor.examine()]


def test_tls_is_asked_of_what_does_not_speak_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("http:", "https:"))
    told("TLS", "does not speak TLS", "https:// or http://")


def test_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(late_platform) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("clock", "ahead of", "Set this machine's clock")


def test_a_key_that_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    assert SECRET not in str(told("credential", "refused (Not authenticated)", "placeholder", "Make a new key"))
    key_id = service.key("agents:read").partition(":")[0]
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"{key_id}:{SECRET}")
    assert SECRET not in str(told("credential", "refused (Invalid API key)", "revoked", "Make a new key"))


def test_a_key_of_the_wrong_form(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", SECRET)
    assert SECRET not in str(told("credential", "not the right form", "api_key_id"))


def test_no_key_at_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    told("credential", "only public agents", "sign_in", state="note")
