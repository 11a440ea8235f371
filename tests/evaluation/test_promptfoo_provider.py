"""The provider by which promptfoo itself asks agents, alone and with promptfoo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import agentbook as ab
from agentbook.events import loop

CONFIG = {"agent": "acme~scribe", "workspace": "acme~playground"}
QUESTION = "What is a turn?"


@pytest.fixture(scope="module")
def platform() -> Iterator[dict[str, str]]:
    """The variables by which a process finds a platform."""
    with ab.platform() as platform:
        yield {"AGENTBOOK_BASE_URL": platform.base_url, "AGENTBOOK_API_KEY": platform.api_key}


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, "-m", "agentbook.promptfoo"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def provider(printed: str, platform: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """What is printed, as promptfoo loads it."""
    for name, value in platform.items():
        monkeypatch.setenv(name, value)
    module = ModuleType("provider")
    module.__file__ = "provider.py"
    exec(printed, vars(module))
    yield module
    loop.run(module.connect().aclose())


def test_it_gives_the_reply_of_the_agent_with_the_prompt_of_a_chat(provider: ModuleType) -> None:
    chat = [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": QUESTION}]
    full, brief = (
        provider.call_api(prompt, {"config": CONFIG}, {}) for prompt in (QUESTION, json.dumps(chat, indent=2))
    )
    assert "question" in brief["output"]
    assert len(brief["output"]) < len(full["output"])
    assert full["metadata"]["session"] != brief["metadata"]["session"]


@pytest.mark.parametrize(
    ("prompt", "config"),
    [
        ("Hi", {**CONFIG, "agent": "acme~nobody"}),
        ("Hi", {}),
        (
            '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]',
            CONFIG,
        ),
    ],
)
def test_what_fails_is_an_error_in_words(prompt: str, config: dict[str, str], provider: ModuleType) -> None:
    reply = provider.call_api(prompt, {"config": config}, {})
    assert list(reply) == ["error"]
    assert reply["error"]


def test_promptfoo_runs_with_it(printed: str, platform: dict[str, str], tmp_path: Path) -> None:
    """With the `promptfoo` that is on the path; none is installed for the test."""
    promptfoo = shutil.which("promptfoo")
    if promptfoo is None:
        pytest.skip("promptfoo is not on the path: its provider is tried without it")
    (tmp_path / "agentbook_provider.py").write_text(printed, "utf-8")
    asserts = [{"type": "icontains", "value": "session"}, {"type": "javascript", "value": "output.length > 10"}]
    config = {
        "prompts": ["{{q}}", '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{q}}"}]'],
        "providers": [{"id": "file://agentbook_provider.py", "config": CONFIG}],
        "tests": [{"vars": {"q": "What is a session?"}, "assert": asserts}],
    }
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
    switches = ("DISABLE_TELEMETRY", "DISABLE_UPDATE", "DISABLE_REMOTE_GENERATION", "DISABLE_SHARING")
    environment = {
        **os.environ,
        **platform,
        **{f"PROMPTFOO_{name}": "1" for name in switches},
        "PROMPTFOO_CONFIG_DIR": str(tmp_path / "promptfoo"),
        "PROMPTFOO_PYTHON": sys.executable,
    }
    command = [promptfoo, "eval", "-c", "promptfooconfig.json", "-o", "results.json", "--no-cache", "--no-table"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    results = json.loads((tmp_path / "results.json").read_text())["results"]["results"]
    assert [row["success"] for row in results] == [True, True], done.stdout + done.stderr
