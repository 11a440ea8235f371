"""The JSON text of an event, written by hand because a million of them are.

Byte for byte what `agentbook.service.turns.event_json` writes (a test compares them).
An author is encoded once, not once an event.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_encode = msgspec.json.Encoder().encode


def quoted(value: object) -> str:
    """A JSON value as text."""
    return _encode(value).decode()


def event(id_: str, kind: str, content: str, task_id: str, author: str, created_at: str, updated_at: str) -> str:
    """One event; `content` and `author` are JSON text already."""
    return (
        f'{{"id":"{id_}","type":"{kind}","content":{content},"task_id":"{task_id}","author":{author},'
        f'"created_at":"{created_at}","updated_at":"{updated_at}"}}'
    )


def text_content(text: str) -> str:
    """``content`` that carries a text."""
    return f'{{"text":{quoted(text)}}}'


def failure_content(status: int, error: str, message: str) -> str:
    """``content`` of a turn that failed."""
    return quoted({"status": status, "error": error, "message": message})


def author(kind: str, id_: str, name: str) -> str:
    """An author as JSON text."""
    fields: Mapping[str, str] = {"type": kind, "id": id_, "name": name}
    return quoted(fields)
