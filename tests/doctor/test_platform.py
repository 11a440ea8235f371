"""Problems with a platform: address, proxy, certificates, key, and the embedded one."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agentbook import doctor
from service.process import Service
from support.certificate import make_certificate

from .kit import SECRET, answering, platform, problem, send, states, write

NOWHERE = "https://platform.invalid/v1"


def web_page(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"<!doctype html><title>Welcome</title>")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AGENTBOOK_BASE_URL": "http://127.0.0.1:9/v1"}, ("http://127.0.0.1:9/v1", "port")),
        ({"AGENTBOOK_BASE_URL": NOWHERE}, (NOWHERE, "spelling", "network")),
        ({"AGENTBOOK_BASE_URL": NOWHERE, "SSL_CERT_FILE": "/gone.pem"}, ("SSL_CERT_FILE=/gone.pem",)),
    ],
)
def test_a_platform_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: tuple[str, ...]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    problem("platform", *words)


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (f"id:{SECRET}", "https://host/v1"),
        ("", "AGENTBOOK_BASE_URL"),
        ("https://host:99999/v1", "65535"),
        ("https://[::1", "https://host/v1"),
        ("https://ho st/v1", "spaces"),
        (f"https://user:{SECRET}@host/v1", "user name"),
        ("'https://host/v1'", "https://"),
        ("http://127.0.0.1:9", "export AGENTBOOK_BASE_URL=http://127.0.0.1:9/v1"),
        ("http://platform.invalid/v1", "AGENTBOOK_ALLOW_HTTP"),
    ],
)
def test_an_address_that_cannot_be_right(monkeypatch: pytest.MonkeyPatch, address: str, advice: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
    problem("address", advice)


def test_an_unencrypted_address_gets_no_request_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://platform.invalid/v1")
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    assert states("platform") == []
    monkeypatch.setenv("AGENTBOOK_ALLOW_HTTP", "1")
    assert states("address") == []
    assert states("platform") == ["wrong"]


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        (f"http://ada:{SECRET}@127.0.0.1:9", ("…@127.0.0.1:9", "proxy's address")),
        (f"ada:{SECRET}@127.0.0.1:9", ("…@127.0.0.1:9",)),
        (f"http://ada:{SECRET}/x@127.0.0.1:9", ("…@127.0.0.1:9",)),
        (f"gopher://ada:{SECRET}@127.0.0.1:9", ("…@127.0.0.1:9", "http://proxy:3128")),
        (f"socks5://ada:{SECRET}@127.0.0.1:9", ("…@127.0.0.1:9", "proxy")),
    ],
)
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, proxy: str, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", proxy)
    problem("platform", *words, "NO_PROXY=platform.invalid")


@pytest.mark.parametrize(("status", "words"), [(407, "http://USER:PASSWORD@proxy"), (403, "administrator")])
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, status: int, words: str) -> None:
    with answering(lambda handler: handler.send_error(status)) as address:
        proxy = address.removesuffix("/v1")
        monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
        monkeypatch.setenv("https_proxy", proxy)
        problem("platform", proxy, words)


def test_another_server_answers(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(web_page) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        problem("platform", address, "openapi.yaml")
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("/v1", "/v2"))
    problem("platform", "/v2", "404")


def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    # Not 127.0.0.1, for which the environment is ignored.
    with answering(platform, context, "127.0.0.2") as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        problem("platform", "certificate", "SSL_CERT_FILE")
        # The advice works.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert states("platform") == ["ok"]


def test_tls_to_a_server_that_does_not_speak_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("http:", "https:"))
    problem("platform", "TLS", "https:// or http://")


def test_a_key_that_is_missing_malformed_or_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    problem("credential", "AGENTBOOK_API_KEY", "sign_in", state="note")
    monkeypatch.setenv("AGENTBOOK_API_KEY", SECRET)
    problem("credential", "AGENTBOOK_API_KEY", "<api_key_id>:<api_key_secret>")
    for key_id in ("id", service.key("agents:read").partition(":")[0]):
        monkeypatch.setenv("AGENTBOOK_API_KEY", f"{key_id}:{SECRET}")
        problem("credential", f"{key_id}:…", "AGENTBOOK_API_KEY")
    monkeypatch.delenv("AGENTBOOK_BASE_URL")
    problem("address", "AGENTBOOK_BASE_URL", state="note")
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    assert states("platform") == ["ok"], "it answers, whatever the key"


def test_the_account_and_the_scopes_of_a_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key("agents:read", "workspaces:read"))
    finding = problem("scopes", "skills:read", "integrations:read", "sessions:write", state="note")
    assert "agents:read" not in finding.message
    [credential] = [finding for finding in doctor.examine() if finding.about == "credential"]
    assert credential.state == "ok"
    assert "acme" in credential.message
    assert "agents:read" in credential.message
    everything = ("agents:read", "workspaces:read", "skills:read", "integrations:read", "sessions:write")
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key(*everything))
    assert states("scopes") == []


def test_the_running_embedded_service_and_its_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(service.data))
    [credential] = [finding for finding in doctor.examine() if finding.about == "credential"]
    assert credential.state == "ok", "connect() makes a key"
    write(service.data / "local-key.json", {"api_key": service.key("agents:read")}).chmod(0o600)
    messages = {(finding.about, finding.state): finding.message for finding in doctor.examine()}
    assert service.base_url in messages["embedded service", "ok"]
    assert str(service.facts["pid"]) in messages["embedded service", "ok"]
    assert service.base_url in messages["platform", "ok"]
    assert "acme" in messages["credential", "ok"]
    assert "llama3.2" in messages["language model", "note"], "it is not configured here, but there"
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr("agentbook.doctor.language_model.answers", lambda: iter(()))
    assert states("language model") == []


def test_an_embedded_service_that_was_killed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": ended.pid})
    problem("embedded service", "connect()", state="note")


def test_an_embedded_service_that_does_not_answer(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": os.getpid()})
    problem("embedded service", f"kill {os.getpid()}")
    file.write_text("{")
    assert states("embedded service") == ["ok"], "connect() replaces the file"
