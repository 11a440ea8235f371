from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from agentbook.service.engines.base import TurnRequest
from agentbook.service.engines.llm import tools
from agentbook.service.engines.llm.chunks import ToolCall
from agentbook.service.engines.llm.tools import PLATFORM_TOOLS, callable_name, offered
from agentbook.service.store.activity import StoreActivity

from ..turns import request

ALL = list(PLATFORM_TOOLS)


def turn(*platform_tools: str, **facts: Any) -> TurnRequest:
    return replace(request("Hello"), platform_tools=list(platform_tools), **facts)


def ran(name: str, arguments: object, asked: TurnRequest | None = None) -> str:
    asked = asked or turn(*ALL)
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(tools.run(ToolCall("call_1", name, written), offered(asked), asked))


def test_only_the_tools_that_the_version_names_are_offered() -> None:
    assert list(offered(turn())) == []
    assert list(offered(turn("now", "calculator", "now"))) == ["now", "calculator"]
    assert "There is no tool 'search_docs'. There are: now." in ran("search_docs", {"query": "x"}, turn("now"))


def test_every_tool_is_offered_as_a_function_with_a_schema() -> None:
    for name, tool in offered(turn(*ALL)).items():
        function = tool.offered()["function"]
        assert function["name"] == name == callable_name(name)
        assert function["parameters"]["type"] == "object"
        assert function["description"]


def test_calculator() -> None:
    assert json.loads(ran("calculator", {"expression": "(2 + 3) * 4 / 3"})) == {
        "expression": "(2 + 3) * 4 / 3",
        "value": "6.666667…",
    }
    assert "nothing can be divided by zero" in json.loads(ran("calculator", {"expression": "1 / 0"}))["error"]
    assert "too large" in ran("calculator", {"expression": "9^9^9^9"})
    assert "error" in ran("calculator", {"expression": "__import__('os').system('true')"})


def test_search_docs_names_its_sources() -> None:
    found = json.loads(ran("search_docs", {"query": "How do I create an agent?"}))["found"]
    assert 0 < len(found) <= 3
    assert found[0]["source"] == "Agents and versions › Create an agent"
    assert "client.agents.create" in found[0]["text"]
    nothing = json.loads(ran("search_docs", {"query": "zebra crossings of Portugal"}))
    assert nothing["found"] == []
    assert "Agents and versions" in nothing["note"]


def test_now() -> None:
    said = json.loads(ran("now", {}))
    now = datetime.fromisoformat(said["utc"])
    assert timedelta() <= datetime.now(UTC) - now < timedelta(seconds=10)
    assert said["weekday"] == f"{now:%A}"


def test_query_activity_counts_by_real_queries_and_for_the_account_alone(demo_engine: Engine) -> None:
    counts = {}
    for name in ("acme", "northwind"):
        with demo_engine.connect() as db:
            account = db.execute(text("SELECT id FROM accounts WHERE name = :name"), {"name": name}).scalar_one()
            query = (
                "SELECT count(*) FROM sessions s JOIN workspaces w ON w.id = s.workspace_id "
                "WHERE w.owner_id = :id AND w.should_restrict_members = FALSE"
            )
            counts[name] = db.execute(text(query), {"id": account}).scalar_one()
        asked = turn("query_activity", activity=StoreActivity(demo_engine, account), account_id=account)
        said = ran("query_activity", {"question": "How many sessions are there?"}, asked)
        assert f"{counts[name]:,}" in said
    assert counts["acme"] != counts["northwind"]


def test_an_integration_is_not_connected_and_says_so() -> None:
    asked = turn("web_search", tools=[{"integration": "google drive", "tools": ["find", "x" * 80]}, {}, {"tools": 3}])
    names = list(offered(asked))
    assert names[:2] == ["web_search", "google_drive__find"]
    assert all(len(name) <= 64 for name in names)
    said = json.loads(ran("google_drive__find", {"anything": 1}, asked))["error"]
    assert said.startswith("The integration 'google drive' is not connected on this service, so nothing was done.")
    assert "not part of this service" in ran("web_search", {}, asked)


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", "7", '"x"', "[" * 10_000, "x" * 20_001, '{"expression": 7}', "{}", ""]
)
def test_bad_arguments_are_answered(arguments: str) -> None:
    assert "error" in json.loads(ran("calculator", arguments))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*ALL, "other"]), st.text(max_size=60) | st.dictionaries(st.text(max_size=8), st.text(max_size=20))
)
def test_no_call_fails_a_turn(name: str, arguments: object) -> None:
    class Nothing:
        def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
            return []

    assert ran(name, arguments, turn(*ALL, activity=Nothing()))


def test_a_tool_that_breaks_is_logged_and_the_model_told(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
            raise OSError("disk")

    said = ran("query_activity", {"question": "How many sessions?"}, turn("query_activity", activity=Broken()))
    assert json.loads(said)["error"].startswith("The tool failed")
    assert "disk" not in said
    assert "the tool query_activity of turn task failed" in caplog.text


def test_a_long_result_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_LONGEST_RESULT", 10)
    assert ran("calculator", {"expression": "1 + 1"}).endswith("… (cut)")
