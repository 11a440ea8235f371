"""The JSON text of an event, formatted by hand because there are millions of them.

It equals byte for byte what `agentbook.service.turns.event_json` writes (a test
compares them). An author is encoded once, not once per event.
"""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode


def encode(value: object) -> str:
    """A JSON value as text."""
    return _encode(value).decode()


def event(
    id_: str, kind: str, content: str, task_id: str, author: str, created_at: str, updated_at: str, step: str = ""
) -> str:
    """Format one event.

    `content` and `author` are JSON text; `step` comes from `step_field`.
    """
    return (
        f'{{"id":"{id_}","type":"{kind}","content":{content},"task_id":"{task_id}","author":{author},{step}'
        f'"created_at":"{created_at}","updated_at":"{updated_at}"}}'
    )


def step_field(name: str, started_at: str, ended_at: str) -> str:
    """The field ``step`` of a finished tool run, with a trailing comma."""
    step = {"kind": "tool", "name": name, "started_at": started_at, "ended_at": ended_at}
    return f'"step":{encode(step)},'


def text_content(text: str) -> str:
    """The ``content`` of a message or a reply."""
    return f'{{"text":{encode(text)}}}'


def failure_content(status: int, error: str, message: str) -> str:
    """The ``content`` of a failed turn."""
    return encode({"status": status, "error": error, "message": message})


def author(kind: str, id_: str, name: str) -> str:
    """An author as JSON text."""
    return encode({"type": kind, "id": id_, "name": name})
