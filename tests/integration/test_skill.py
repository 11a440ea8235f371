"""The skill for coding agents: what it tells them to run works on the demo data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentbook.cli import main
from service.process import Service

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CAN_SAY = (0, 100)  # 100: a rule fired, or the bar was missed


def written(folder: Path) -> str:
    done = CliRunner().invoke(main, ["skill", "--out", str(folder)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(folder / "SKILL.md")), done.output
    return (folder / "SKILL.md").read_text("utf-8")


def test_a_skill_is_written_and_replaced_and_replaces_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "agentbook"
    skill = written(folder)
    about = yaml.safe_load(skill.split("---\n")[1])
    assert about["name"] == folder.name
    assert 0 < len(about["description"]) <= 1024
    (folder / "SKILL.md").write_text(skill.replace("\n", "\r\n") + "of an older version")
    assert written(folder) == skill
    (folder / "SKILL.md").write_text("---\nname: another\n---\n")
    refused = CliRunner().invoke(main, ["skill", "--out", str(folder)])
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "another" in (folder / "SKILL.md").read_text("utf-8")


@pytest.mark.timeout(1200)
def test_each_command_of_the_skill_runs(service: Service, key: str, tmp_path: Path) -> None:
    environment = {**os.environ, "AGENTBOOK_BASE_URL": service.base_url, "AGENTBOOK_API_KEY": key}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    commands = []
    for language, text in FENCE.findall(written(tmp_path)):
        if language == "yaml":
            (tmp_path / text.split()[1]).write_text(text, "utf-8")
            continue
        for command in text.splitlines():
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode in CAN_SAY, f"{command}\n{done.stdout}{done.stderr}"
            if " --json" in command:
                assert json.loads(done.stdout), command
            commands.append(" ".join(command.split()[:2]))
    assert {"agentbook doctor", "agentbook query", "agentbook check", "agentbook eval"} <= {*commands}
    rules = json.loads((tmp_path / "checked" / "results.json").read_text())["rules"]
    assert "unknown" not in {rule["state"] for rule in rules}
    assert json.loads((tmp_path / "proof" / "results.json").read_text())["verdict"]
    assert len((tmp_path / "questions.csv").read_text("utf-8").splitlines()) > 9
