"""The manual's page about own agents, word by word."""

from __future__ import annotations

import asyncio
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from agentbook.service.engines.base import LlmUsage, Message, Reply, Step, ToolDone, ToolStarted
from agentbook.service.engines.function import FunctionEngine
from service.engines.engine_runs import collect, request
from service.process import Service
from service.world import on_sqlite
from support import fake_openai
from support.fake_openai import FakeOpenAI

PAGE = (Path(__file__).parents[3] / "docs" / "25-your-own-agent.md").read_text("utf-8")


def blocks(title: str, language: str) -> list[str]:
    """The blocks of code in the section whose heading ends with this."""
    section = re.search(rf"^## [^\n]*{title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, title
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


@on_sqlite("a notebook finds the service by its directory")
def test_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, notebook = blocks("Serve a function as an agent", "python")
    [command] = blocks("Serve a function as an agent", "bash")
    (tmp_path / "my_agent.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    with Service(tmp_path / "data", *shlex.split(command)[2:], "--seed", "7", "--speed", "0") as service:
        *lines, last = notebook.strip().splitlines()
        names: dict[str, Any] = {}
        exec("\n".join(lines), names)
        assert eval(last, names) == "Order 7 is sent on Monday. "
        [step] = ab.steps(names["client"].sessions.events(names["session"])).itertuples()
        assert (step.name, step.status) == ("find_order", "done")
        names["client"].close()
        service.stop()


@pytest.mark.parametrize(
    ("title", "packages"), [("With chatlas", ["chatlas"]), ("With LangGraph", ["langgraph", "langchain_openai"])]
)
def test_a_framework(title: str, packages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (tmp_path / "agent.py").write_text(*blocks(title, "python"))
    script = [fake_openai.calls(("find_order", '{"number": 7}')), fake_openai.text("It was ", "sent on Monday.")]
    history = [Message("user", "Hello"), Message("assistant", "Hi")]

    async def turn() -> list[Step]:
        engine = FunctionEngine(f"{tmp_path / 'agent.py'}:answer")
        try:
            return await collect(engine, request("Where is order 7?", history=history))
        finally:
            await engine.aclose()

    with FakeOpenAI(*script) as endpoint:
        for name, value in {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "none"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AGENTBOOK_LLM_MODEL", "tiny")
        steps = asyncio.run(turn())
        first, second = endpoint.bodies()
    for message, text in zip(first["messages"], ["Hello", "Hi", "Where is order 7?"], strict=True):
        assert text in str(message["content"])
    assert "sent on Monday" in str(second["messages"][-1])
    assert ToolStarted("find_order", {"number": 7}) in steps
    [done] = (step for step in steps if isinstance(step, ToolDone))
    assert (done.name, done.result, done.error) == ("find_order", "Order 7 was sent on Monday.", None)
    assert steps[-1] == Reply("It was sent on Monday.")
    if "LangGraph" in title:
        assert sum(step.tokens for step in steps if isinstance(step, LlmUsage)) == 19
