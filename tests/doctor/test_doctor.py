"""`agentbook doctor` as a whole, and the manual's list of what it checks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentbook import doctor
from agentbook._files import packaged

from .kit import SECRET

PAGE = packaged("docs") / "troubleshooting.md"
SOURCES = sorted(Path(doctor.__file__).parent.glob("*.py"))


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_started(tmp_path: Path) -> None:
    assert [finding for finding in doctor.examine() if finding.state != "ok"] == []
    assert not (tmp_path / "data").exists()


def test_a_check_that_fails_is_reported_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("urllib.request.getproxies", broken)
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    findings = doctor.examine()
    [finding] = [finding for finding in findings if finding.state == "wrong"]
    assert finding.about == "platform"
    assert "RuntimeError" in finding.message
    assert SECRET not in "".join(map(str, findings))
    assert [finding.about for finding in findings if finding.state == "ok"] != []


def test_the_command_exits_with_0_if_nothing_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentbook", "doctor"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "WRONG" not in ended.stdout
    assert not (tmp_path / "data").exists()


def test_the_troubleshooting_page_lists_every_subject() -> None:
    source = "".join(path.read_text() for path in SOURCES)
    subjects = {"widgets", "anywidget", *re.findall(r'Finding\((?:"\w+"|state), "([^"]+)"', source)}
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(subjects - {"agentbook"})
