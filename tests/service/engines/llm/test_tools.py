from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.engines.base import TurnRequest
from agentbook.service.engines.llm import tools
from agentbook.service.engines.llm.completion_stream import ToolCall
from agentbook.service.engines.llm.tools import PLATFORM_TOOLS, callable_name, run_tool
from service.engines.engine_runs import request

ALL = list(PLATFORM_TOOLS)


def turn(*platform_tools: str, **fields: Any) -> TurnRequest:
    return replace(request("Hello"), platform_tools=list(platform_tools), **fields)


def offered(turn: TurnRequest) -> dict[str, tools.Tool]:
    return tools.offered_tools(turn, tools.Memory(None))


def call(name: str, arguments: object, request: TurnRequest | None = None) -> str:
    """The result of a tool; `arguments` is JSON text or a value to encode."""
    request = request or turn(*ALL)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(run_tool(ToolCall("call_1", name, text), offered(request), request))


def test_only_the_tools_of_the_version_are_offered() -> None:
    assert list(offered(turn())) == []
    assert list(offered(turn("now", "calculator", "now"))) == ["now", "calculator"]
    assert "There is no tool 'search_docs'. There are: now." in call("search_docs", {"query": "x"}, turn("now"))


def test_every_tool_is_offered_as_a_function_with_a_schema() -> None:
    for name, tool in offered(turn(*ALL)).items():
        function = tool.as_function()["function"]
        assert function["name"] == name == callable_name(name)
        assert function["parameters"]["type"] == "object"
        assert function["description"]


def test_calculator() -> None:
    assert json.loads(call("calculator", {"expression": "(2 + 3) * 4 / 3"})) == {
        "expression": "(2 + 3) * 4 / 3",
        "value": "6.66666666667",
    }
    for expression in ("1 / 0", "9^9^9^9", "2^0.5", "5(3)", "1 +", "(" * 400, "1e9", "__import__('os').system('true')"):
        assert "error" in json.loads(call("calculator", {"expression": expression})), expression


def test_arguments_have_a_limit_which_unlimited_power_mode_raises() -> None:
    long, longer = (json.dumps({"query": "agent " * count}) for count in (10_000, 100_000))
    assert "20,000 characters" in call("search_docs", long)
    powerful = turn(*ALL, unlimited_power_mode=True)
    assert "found" in json.loads(call("search_docs", long, powerful))
    assert "400,000 characters" in call("search_docs", longer, powerful)


def test_search_docs_names_its_sources() -> None:
    sections = json.loads(call("search_docs", {"query": "How do I create an agent?"}))["found"]
    assert 0 < len(sections) <= 3
    assert sections[0]["source"] == "Agents › Create an agent"
    assert "client.agents.create" in sections[0]["text"]
    nothing = json.loads(call("search_docs", {"query": "zebra crossings of Portugal"}))
    assert nothing["found"] == []
    assert "Workspaces" in nothing["note"]


def test_now() -> None:
    result = json.loads(call("now", {}))
    now = datetime.fromisoformat(result["utc"])
    assert timedelta() <= datetime.now(UTC) - now < timedelta(seconds=10)
    assert result["weekday"] == f"{now:%A}"


def test_the_result_of_an_integration_says_that_it_is_not_connected() -> None:
    request = turn("web_search", tools=[{"integration": "google drive", "tools": ["find", "x" * 80]}, {}, {"tools": 3}])
    names = list(offered(request))
    assert names[:2] == ["web_search", "google_drive__find"]
    assert all(len(name) <= 64 for name in names)
    error = json.loads(call("google_drive__find", {"anything": 1}, request))["error"]
    assert error.startswith("The integration 'google drive' is not connected on this service, so nothing was done")
    assert "not part of this service" in call("web_search", {}, request)


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", "7", '"x"', "[" * 10_000, "x" * 20_001, '{"expression": 7}', "{}", ""]
)
def test_bad_arguments_give_an_error(arguments: str) -> None:
    assert "error" in json.loads(call("calculator", arguments))


@given(
    st.sampled_from([*ALL, "other"]), st.text(max_size=60) | st.dictionaries(st.text(max_size=8), st.text(max_size=20))
)
def test_no_call_fails_a_turn(name: str, arguments: object) -> None:
    assert call(name, arguments)


def test_a_tool_that_raises_is_logged_and_reported_to_the_model(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(expression: str) -> str:
        raise OSError("disk")

    monkeypatch.setattr(tools, "calculate", broken)
    result = call("calculator", {"expression": "1 + 1"})
    assert json.loads(result)["error"].startswith("The tool failed")
    assert "disk" not in result
    assert "the tool calculator of turn task failed" in caplog.text
