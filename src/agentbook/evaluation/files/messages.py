"""What a rendered prompt sends: the agent's system prompt, and one message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import javascript
from .source import ConfigError, parse_source

# What promptfoo takes for JSON: {…}, or […] that goes on as a list in JSON does.
_JSON = re.compile(r"\{.*\}|\[\s*(?:[\[{\"\d-].*|true.*|false.*|null.*)?\]", re.DOTALL)


class UnsendablePrompt(ValueError):
    """A chat that cannot be sent as one message to an agent."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to an agent.

    Attributes
    ----------
    text : str
    system_prompt : str or None
        None keeps the agent's own.
    """

    text: str
    system_prompt: str | None = None


def read_message(prompt: str) -> Message:
    """The message in a rendered prompt, which may be a chat in JSON or YAML.

    As in promptfoo, text that begins with ``- role:`` must be YAML, and text that looks
    like JSON must be JSON.

    Raises
    ------
    UnsendablePrompt
        If the chat cannot be read, or does not end with its only user message.

    Examples
    --------
    >>> read_message("Hello")
    Message(text='Hello', system_prompt=None)
    >>> read_message('[{"role": "user", "content": "Hi"}]')
    Message(text='Hi', system_prompt=None)
    >>> read_message("- role: user\\n  content: Hi")
    Message(text='Hi', system_prompt=None)
    """
    chat = parse_chat(prompt)
    if not isinstance(chat, list) or not chat or not all(isinstance(each, dict) and "role" in each for each in chat):
        return Message(prompt)
    texts = [(str(each["role"]), each.get("content")) for each in chat]
    if not all(isinstance(content, str) for _, content in texts):
        raise UnsendablePrompt("The messages of a chat must be texts; the platform takes no images or parts.")
    system = [str(content) for role, content in texts if role in ("system", "developer")]
    users = [str(content) for role, content in texts if role == "user"]
    if len(users) != 1 or texts[-1][0] != "user" or len(system) + len(users) != len(texts):
        raise UnsendablePrompt(
            "An agent gets one message in a session of its own, so a chat must be system messages and then one of the user."
        )
    return Message(users[0], "\n\n".join(system) or None)


def parse_chat(prompt: str) -> Any:
    """The data in a rendered prompt, as promptfoo reads it; None if it is plain text.

    Raises
    ------
    UnsendablePrompt
        If it begins as a chat in YAML or looks like JSON, and is not.
    """
    text = javascript.strip(prompt)
    if text.startswith("- role:"):
        try:
            chat = parse_source(prompt, "prompt").value
        except ConfigError as error:
            raise UnsendablePrompt(f"The prompt begins as a chat in YAML, but is not one: {error}") from None
        if not isinstance(chat, list) or not all(isinstance(each, dict) and "role" in each for each in chat):
            raise UnsendablePrompt("The prompt begins as a chat in YAML, but some of its messages have no role.")
        return chat
    try:
        return javascript.parse_json(prompt)
    except ValueError as error:
        if _JSON.fullmatch(text):
            raise UnsendablePrompt(f"The prompt looks like JSON, but is not: {error}.") from None
        return None


def write_chat(message: str, system_prompt: str | None) -> str:
    """The prompt that `read_message` reads.

    It is a chat even without a system prompt: within JSON, braces in a value are text.

    Examples
    --------
    >>> read_message(write_chat("{{input}}", "Be brief.")).system_prompt
    'Be brief.'
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt is not None else []
    return javascript.to_json([*system, {"role": "user", "content": message}], 2)
