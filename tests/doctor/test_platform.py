"""Problems with a platform: address, proxy, certificates, clock, key."""

from __future__ import annotations

import ssl
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agentbook import doctor
from service.process import Service
from support.certificate import make_certificate

from .kit import SECRET, answering, findings_about, no_check_fails, platform, problem, send

pytestmark = pytest.mark.python_versions


def late_platform(handler: BaseHTTPRequestHandler) -> None:
    handler.server.behind_s = 300.0  # type: ignore[attr-defined]
    platform(handler)


def web_page(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"<!doctype html><title>Welcome</title>")


def test_a_key_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    problem("AGENTBOOK_API_KEY", "with another key", "AGENTBOOK_BASE_URL", state="note")


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (f"id:{SECRET}", "https://host/v1"),
        ("", "unset AGENTBOOK_BASE_URL"),
        ("https://host:99999/v1", "65535"),
        ("https://[::1", "https://host/v1"),
        ("https://ho st/v1", "spaces"),
        ("http://platform.invalid ", "export AGENTBOOK_BASE_URL=http://platform.invalid/v1"),
        (f"https://user:{SECRET}@host/v1", "without quotes, user name"),
        ("'https://host/v1'", "without quotes"),
        ("http://127.0.0.1:9", "export AGENTBOOK_BASE_URL=http://127.0.0.1:9/v1"),
        ("http://platform.invalid/v1", "export AGENTBOOK_BASE_URL=https://platform.invalid/v1"),
    ],
)
def test_an_address_that_cannot_be_right(monkeypatch: pytest.MonkeyPatch, address: str, advice: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
    findings = findings_about("AGENTBOOK_BASE_URL")
    assert {finding.state for finding in findings} == {"wrong"}
    assert any(advice in finding.advice for finding in findings), findings
    assert SECRET not in "".join(map(str, doctor.examine()))
    assert no_check_fails()


def test_an_unencrypted_address_gets_no_key_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://platform.invalid/v1")
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    problem("AGENTBOOK_BASE_URL", "connect() refuses it", "AGENTBOOK_ALLOW_HTTP=1")
    assert findings_about("platform") == [], "nothing is sent there"
    monkeypatch.setenv("AGENTBOOK_ALLOW_HTTP", "1")
    assert [finding.state for finding in findings_about("AGENTBOOK_BASE_URL")] == ["note"]
    assert findings_about("platform") != []


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
    [finding] = findings_about("proxy")
    assert finding.state == state
    assert all(word in f"{finding.message} {finding.advice}" for word in words)
    assert SECRET not in "".join(map(str, doctor.examine()))
    assert no_check_fails()


@pytest.mark.parametrize(("status", "words"), [(407, "user name and password"), (403, "the proxy's administrator")])
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, status: int, words: str) -> None:
    with answering(lambda handler: handler.send_error(status)) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
        monkeypatch.setenv("https_proxy", address.removesuffix("/v1"))
        problem("platform", "through the proxy", "the proxy", words)


def test_a_proxy_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    problem("platform", "the proxy http://127.0.0.1:9 cannot be reached", "NO_PROXY=platform.invalid")


def test_nothing_listens_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")
    problem("platform", "no server listens", "Check the address")


def test_the_host_name_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    problem("platform", "no network", "Unset AGENTBOOK_BASE_URL")


def test_another_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(web_page) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        problem("platform", "not as an Agent Platform", "Check the address")


def test_another_path_of_a_platform(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("/v1", "/v2"))
    finding = problem("platform", "not as an Agent Platform", "404 The requested URL was not found")
    assert "the key's account" not in finding.advice  # advice for other 404s


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_do_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv(name, str(tmp_path / "gone"))
    problem("TLS", f"{name} names {tmp_path / 'gone'}", f"unset {name}")
    assert no_check_fails()


def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    # Not 127.0.0.1, for which the environment is ignored.
    with answering(platform, context, "127.0.0.2") as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        problem("TLS", "certificate", "SSL_CERT_FILE")
        # The advice works.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert [finding.state for finding in findings_about("platform")] == ["ok"]


def test_tls_to_a_server_that_does_not_speak_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("http:", "https:"))
    problem("TLS", "does not speak TLS", "https:// or http://")


def test_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(late_platform) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        problem("clock", "ahead of", "Set this machine's clock")


def test_a_key_that_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    assert SECRET not in str(problem("credential", "refused (Not authenticated)", "placeholder", "Create a key"))
    key_id = service.key("agents:read").partition(":")[0]
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"{key_id}:{SECRET}")
    assert SECRET not in str(problem("credential", "refused (Invalid API key)", "revoked", "Create a key"))


def test_a_key_of_the_wrong_form(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", SECRET)
    assert SECRET not in str(problem("credential", "malformed", "api_key_id"))


def test_no_key_at_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    problem("credential", "only public agents", "sign_in", state="note")
