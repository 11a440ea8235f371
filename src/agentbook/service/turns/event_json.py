"""An event as it is sent: written once, when it is stored, and never re-serialised.

Field order is fixed so that a seeded service repeats itself byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def event(
    *,
    id: str,
    type: str,
    content: Mapping[str, Any],
    task_id: str,
    created_at: str,
    author: Mapping[str, Any] | None = None,
) -> str:
    """The JSON text of one event (specification: "Resources and their fields", Session event)."""
    fields: dict[str, Any] = {"id": id, "type": type, "content": content, "task_id": task_id}
    if author is not None:
        fields["author"] = author
    fields["created_at"] = fields["updated_at"] = created_at
    return _encode(fields).decode()


def message(*, id: str, text: str, task_id: str, created_at: str, author: Mapping[str, Any]) -> str:
    """A message somebody wrote. `author` is ``{"type": "api_key" | "user" | ..., "id": ..., "name": ...}``."""
    return event(id=id, type="message", content={"text": text}, task_id=task_id, created_at=created_at, author=author)


def done(*, id: str, task_id: str, created_at: str, author: Mapping[str, Any], text: str | None = None) -> str:
    """A finished task: `text` is the reply on the top-level turn, None (content ``{}``) on subtasks and tool runs."""
    content = {} if text is None else {"text": text}
    return event(id=id, type="runtime_done", content=content, task_id=task_id, created_at=created_at, author=author)


def failed(
    *, id: str, task_id: str, created_at: str, author: Mapping[str, Any], status: int, error: str, message: str
) -> str:
    """A turn that ended without an answer (a choice in a gap of the specification: see openapi.yaml)."""
    content = {"status": status, "error": error, "message": message}
    return event(id=id, type="runtime_error", content=content, task_id=task_id, created_at=created_at, author=author)


def draft(*, id: str, task_id: str, created_at: str, content: Mapping[str, Any]) -> str:
    """Live only: ``{"delta", "offset"}`` for text, ``{"tool", "state"}`` for a tool run. Its id is no UUID."""
    return event(id=id, type="runtime_draft", content=content, task_id=task_id, created_at=created_at)
