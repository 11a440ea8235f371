"""The data files of the demo can be read, and every text in them can be filled."""

from __future__ import annotations

import random
import re

from agentbook.service.demo.texts import Thread, draw_slots, fill, follow_ups, run_of, thread_values, threads, versions

WORKSPACES = (
    "support", "data", "release", "on-call", "sales", "finance", "onboarding", "playground", "shop", "notes",
)  # fmt: skip
UNFILLED = re.compile(r"\[[^\]]*\|[^\]]*\]|\{[a-z_]+\}")
OTHERS = {"on-call": "alerts", "release": "digests", "playground": "trials"}


def every_thread() -> list[Thread]:
    kinds = [*((name, "chats") for name in WORKSPACES), *OTHERS.items(), ("release", "builds")]
    return [thread for workspace, kind in kinds for thread in threads(workspace, kind)]


def test_every_text_can_be_filled() -> None:
    rng = random.Random(1)
    for thread in every_thread():
        values = thread_values(thread, rng)
        for exchange in (*thread.exchanges, *follow_ups()):
            texts = [fill(text, values, rng) for text in (thread.name, exchange.ask, exchange.reply)]
            texts += [str(part) for tool in exchange.tools for n in range(3) for part in run_of(tool, values, n)]
            assert all(text.strip() and not UNFILLED.search(text) for text in texts)


def test_a_tool_that_runs_again_asks_something_else() -> None:
    values = draw_slots(random.Random(1))
    tools = {tool for thread in every_thread() for each in (*thread.exchanges, *follow_ups()) for tool in each.tools}
    for tool in tools:
        (first, result), (second, _) = (run_of(tool, values, number) for number in range(2))
        assert first != second, tool
        assert result, tool
    assert list(run_of("think", values, 0)) == [None, None]


def test_every_version_has_a_prompt_and_the_newest_is_last() -> None:
    for agent, agent_versions in versions().items():
        assert all(version.system_prompt for version in agent_versions), agent
        days = [version.days for version in agent_versions]
        assert days == sorted(days, reverse=True), agent
