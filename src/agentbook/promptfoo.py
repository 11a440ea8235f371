"""A provider for promptfoo that asks an agent of the platform.

``python -m agentbook.promptfoo > agentbook_provider.py`` writes it. It is named in
promptfoo's file::

    providers:
      - id: file://agentbook_provider.py
        config: {agent: acme~writer, workspace: acme~playground}

The system message of a chat replaces the agent's prompt for its question.
"""

import functools
from pathlib import Path
from typing import Any

import agentbook
from agentbook.evaluation.asking import ask
from agentbook.evaluation.platform import AgentConfigurator
from agentbook.evaluation.promptfoo_import import read_chat
from agentbook.evaluation.variant import Variant
from agentbook.events import loop

connect = functools.cache(lambda: agentbook.connect().asynchronous())


def call_api(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The agent's reply to a prompt, or why there is none."""
    config = options.get("config") or {}
    if not config.get("agent") or not config.get("workspace"):
        return {"error": "The config of the provider names the agent and the workspace."}
    try:
        return loop.run(_ask(prompt, config["agent"], config["workspace"]))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


async def _ask(prompt: str, agent: str, workspace: str) -> dict[str, Any]:
    chat = read_chat(prompt) or [{"role": "user", "content": prompt}]
    if [each["role"] for each in chat] not in (["user"], ["system", "user"]):
        return {"error": "An agent gets one message of the user, and before it a system message or none."}
    version_id = None
    if len(chat) == 2:
        configurator = await AgentConfigurator.open(connect(), agent)
        version_id = (await configurator.draft(Variant("promptfoo", system_prompt=chat[0]["content"]))).id
    outcome = await ask(connect(), chat[-1]["content"], workspace=workspace, agent=agent, version_id=version_id)
    if outcome.text is None:
        return {"error": outcome.reason}
    return {"output": outcome.text, "metadata": {"session": outcome.session_id}}


if __name__ == "__main__":
    print(Path(__file__).read_text("utf-8"), end="")
