from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbook import doctor
from service.process import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("doctor"), "--speed", "0") as running:
        yield running
        running.stop()


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))


def states(about: str) -> list[tuple[str, str]]:
    return [(finding.state, finding.found) for finding in doctor.examine() if finding.about == about]


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_started(tmp_path: Path) -> None:
    assert [finding for finding in doctor.examine() if finding.state == "wrong"] == []
    assert not (tmp_path / "data").exists()


def test_a_configured_platform_is_reached_and_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key("agents:read", "workspaces:read"))
    [(state, found)] = states("credential")
    assert state == "ok"
    assert "acme" in found
    assert [found for _, found in states("scope")] == ["the key lacks skills:read", "the key lacks integrations:read"]
    assert all(finding.state != "wrong" for finding in doctor.examine())


@pytest.mark.parametrize(
    ("address", "key", "about", "advice"),
    [
        ("http://127.0.0.1:9/v1", None, "platform", "Check the address"),
        ("not an address", None, "AGENTBOOK_BASE_URL", "https://host/v1"),
        (None, "nonsense", "AGENTBOOK_API_KEY", "api_key_id"),
        (None, "id:wrong", "credential", "new key"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(
    service: Service, monkeypatch: pytest.MonkeyPatch, address: str | None, key: str | None, about: str, advice: str
) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", address or service.base_url)
    if key:
        monkeypatch.setenv("AGENTBOOK_API_KEY", key)
    wrong = [finding for finding in doctor.examine() if finding.state == "wrong"]
    assert about in [finding.about for finding in wrong]
    assert any(advice in finding.advice for finding in wrong)


def test_the_running_embedded_service_is_found(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(service.data))
    (service.data / "local-key.json").write_text(json.dumps({"api_key": service.key("agents:read")}))
    assert ("ok", f"the embedded service answers at {service.base_url} (pid {service.facts['pid']})") in states(
        "platform"
    )
    assert states("credential")[0][0] == "ok"


def test_a_directory_that_cannot_be_written_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere, so ask as somebody else would
    assert [finding.state for finding in doctor.data()] == ["wrong"]


@pytest.mark.parametrize(
    ("version", "numbers"), [("4.6.6", (4, 6, 6)), ("10.0", (10, 0)), ("x", ()), ("1.post2", (1, 2))]
)
def test_versions_are_compared_by_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert doctor._numbers(version) == numbers
