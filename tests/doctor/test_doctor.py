"""`agentbook doctor` as a whole, and the manual's list of what it checks."""

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

from .kit import SECRET, findings_about, problem, write

pytestmark = pytest.mark.python_versions

PAGE = manual() / "19-troubleshooting.md"
SOURCES = sorted(Path(doctor.__file__).parent.glob("*.py"))


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_started(tmp_path: Path) -> None:
    assert [finding for finding in doctor.examine() if finding.state != "ok"] == []
    assert not (tmp_path / "data").exists()


def test_a_configured_platform_is_reached_and_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    key = service.key("agents:read", "workspaces:read")
    monkeypatch.setenv("AGENTBOOK_API_KEY", key)
    findings = doctor.examine()
    assert [finding for finding in findings if finding.about == "credential" and "acme" in finding.message]
    assert all(finding.state != "wrong" for finding in findings)
    assert key.partition(":")[2] not in "".join(map(str, findings))
    problem("scope", "lacks skills:read, integrations:read", "create a key", state="note")


def test_a_key_that_cannot_chat_is_noted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    readable = [f"{group}:read" for group in ("agents", "workspaces", "skills", "integrations", "sessions")]
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key(*readable))
    problem("scope", "the key lacks sessions:write:", "create a key", state="note")
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key(*readable, "sessions:write"))
    assert findings_about("scope") == []


def test_the_running_embedded_service_is_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(service.data))
    key = write(service.data / "local-key.json", {"api_key": service.key("agents:read")})
    key.chmod(0o600)
    messages = {(finding.about, finding.state): finding.message for finding in doctor.examine()}
    assert messages["embedded service", "ok"] == f"answers at {service.base_url} (pid {service.facts['pid']})"
    assert "acme" in messages["credential", "ok"]


def test_a_new_embedded_service_has_no_key_yet_which_is_ok(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = (service.data / "service.json").read_text()
    write(tmp_path / "data" / "service.json", facts)
    [finding] = findings_about("credential")
    assert finding.state == "ok"
    assert "connect()" in finding.message


def test_a_check_that_fails_is_reported_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(shutil, "disk_usage", broken)
    assert SECRET not in str(problem("disk", "could not be checked (RuntimeError)"))


def test_the_command_exits_with_1_if_something_is_wrong_and_writes_to_any_terminal(tmp_path: Path) -> None:
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


def test_the_troubleshooting_page_lists_every_subject() -> None:
    source = "".join(path.read_text() for path in SOURCES)
    subjects = set(re.findall(r'Finding\(\s*"(?:wrong|note)(?:" if [^"]+ "\w+)?",\s*"([^"]+)"', source))
    subjects |= set(re.findall(r'_at_least\(\s*"([^"]+)"', source)) | {"TLS", "platform"}
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(set(rows)) == sorted(subjects)
    assert len(rows) >= 20


@pytest.mark.parametrize(
    ("version", "numbers"), [("4.6.6", (4, 6, 6)), ("10.0", (10, 0)), ("x", ()), ("1.post2", (1, 2))]
)
def test_versions_are_compared_by_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert finding.numbers(version) == numbers
