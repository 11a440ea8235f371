"""The manual's persona for jupyter-ai, word by word, with stand-ins for its classes."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import agentbook as ab
from chat.fakes import FakePlatform

PAGE = (Path(__file__).parents[2] / "docs" / "26-jupyter-ai.md").read_text("utf-8")


class Chat(SimpleNamespace):
    """What jupyterlab_chat keeps of a chat, as far as the persona uses it."""

    def add_message(self, message: Any) -> int:
        self.messages.append(message)
        return len(self.messages)

    def get_message(self, id: int) -> Any:
        return SimpleNamespace(id=id, body=self.messages[id - 1].body)

    def update_message(self, message: Any) -> None:
        self.messages[message.id - 1] = message
        self.written.set()

    def get_metadata(self) -> dict[str, Any]:
        return dict(self.metadata)

    def set_metadata(self, name: str, value: Any) -> None:
        self.metadata[name] = value


class BasePersona:
    id = "persona"

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def set_status(self, status: str) -> None:
        self.chat.statuses.append(status)

    def clear_status(self) -> None:
        self.set_status("")

    async def shutdown(self) -> None:
        pass


def test_the_persona_writes_while_the_agent_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(platform: FakePlatform, text: str) -> None:
        while "follow" not in platform.requests:  # a draft is not repeated
            await asyncio.sleep(0)
        chat.written.clear()
        platform.write("You", 0)
        written = await asyncio.to_thread(chat.written.wait, 20)
        platform.reply(f"You said: {text}" if written else "The draft was not written.")

    platform = FakePlatform(answer)
    for name in ("jupyter_ai_persona_manager", "jupyterlab_chat", "jupyterlab_chat.models"):
        stand_in = ModuleType(name)
        vars(stand_in).update(
            BasePersona=BasePersona, PersonaDefaults=dict, Message=SimpleNamespace, NewMessage=SimpleNamespace
        )
        monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.setattr(ab, "connect", lambda: platform)
    monkeypatch.setattr(ab, "Conversation", partial(ab.Conversation, follow=platform.follow))
    names: dict[str, Any] = {}
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(code, names)
    chat = Chat(messages=[], written=threading.Event(), metadata={}, statuses=[])

    async def ask(persona: Any, text: str) -> str:
        await persona.prepare()
        await persona.process_message(SimpleNamespace(body=text, attachments=None))
        await persona.shutdown()
        return str(chat.messages[-1].body)

    assert names["Guide"](chat).defaults["name"] == "guide"
    assert asyncio.run(ask(names["Guide"](chat), "Hello")) == "You said: Hello"
    assert asyncio.run(ask(names["Guide"](chat), "Again")) == "You said: Again"  # after a restart
    assert platform.requests.count("start") == 1
    assert len(chat.messages) == 2
    assert chat.statuses[-1] == ""
