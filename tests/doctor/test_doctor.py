"""The doctor as a whole: it finds nothing where nothing is wrong, and the troubleshooting page lists what it looks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentbook import doctor
from agentbook.doctor import finding
from agentbook.service.demo.agents.documentation import manual
from service.process import Service

from .kit import SECRET, told, write

PAGE = manual() / "19-troubleshooting.md"
SOURCES = sorted(Path(doctor.__file__).parent.glob("*.py"))


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_started(tmp_path: Path) -> None:
    assert [finding for finding in doctor.examine() if finding.state != "ok"] == []
    assert not (tmp_path / "data").exists()


def test_a_configured_platform_is_reached_and_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    key = service.key("agents:read", "workspaces:read")
    monkeypatch.setenv("AGENTBOOK_API_KEY", key)
    found = doctor.examine()
    assert [finding.found for finding in found if finding.about == "credential" and "acme" in finding.found]
    assert all(finding.state != "wrong" for finding in found)
    assert key.partition(":")[2] not in "".join(map(str, found))
    told("scope", "lacks skills:read, integrations:read", "make a key", state="note")


def test_the_running_embedded_service_is_found(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(service.data))
    key = write(service.data / "local-key.json", {"api_key": service.key("agents:read")})
    key.chmod(0o600)
    found = {(finding.about, finding.state): finding.found for finding in doctor.examine()}
    assert found["embedded service", "ok"] == f"answers at {service.base_url} (pid {service.facts['pid']})"
    assert "acme" in found["credential", "ok"]


def test_a_fresh_embedded_service_has_no_key_yet_and_that_is_well(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = (service.data / "service.json").read_text()
    write(tmp_path / "data" / "service.json", facts)
    assert [(one.state, "connect()" in one.found) for one in doctor.examine() if one.about == "credential"] == [
        ("ok", True)
    ]


def test_a_check_that_fails_itself_is_said_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(shutil, "disk_usage", broken)
    assert SECRET not in str(told("disk", "could not be examined (RuntimeError)"))


def test_the_command_ends_with_1_where_something_is_wrong_and_writes_to_any_terminal(tmp_path: Path) -> None:
    for address, code in ((None, 0), ("http://127.0.0.1:9/v1", 1)):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "AGENTBOOK_API_KEY": f"id:{SECRET}"}
        environment |= {} if address is None else {"AGENTBOOK_BASE_URL": address}
        ended = subprocess.run(
            [sys.executable, "-m", "agentbook", "doctor"], env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert SECRET not in ended.stdout + ended.stderr
        assert len(ended.stderr.splitlines()) == code
    assert not (tmp_path / "data").exists()


def test_the_troubleshooting_page_lists_what_is_looked_for() -> None:
    source = "".join(path.read_text() for path in SOURCES)
    looked_for = set(re.findall(r'Finding\(\s*"(?:wrong|note)(?:" if [^"]+ "\w+)?",\s*"([^"]+)"', source))
    looked_for |= set(re.findall(r'_at_least\(\s*"([^"]+)"', source)) | {"TLS", "platform"}
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(set(rows)) == sorted(looked_for)
    assert len(rows) >= 20


@pytest.mark.parametrize(
    ("version", "numbers"), [("4.6.6", (4, 6, 6)), ("10.0", (10, 0)), ("x", ()), ("1.post2", (1, 2))]
)
def test_versions_are_compared_by_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert finding.numbers(version) == numbers
