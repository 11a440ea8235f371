"""The JSON text of an event: encoded once, when it is stored, and sent as it is.

The order of the fields is fixed, so a seeded service repeats itself byte for byte.
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
    usage: Mapping[str, Any] | None = None,
    step: Mapping[str, Any] | None = None,
) -> str:
    """Encode one event (specification: "Resources and their fields", Session event).

    The specification has no `usage` and no `step`; they are a choice (see
    openapi.yaml).
    """
    fields: dict[str, Any] = {"id": id, "type": type, "content": content, "task_id": task_id}
    if author is not None:
        fields["author"] = author
    if usage is not None:
        fields["usage"] = usage
    if step is not None:
        fields["step"] = step
    fields["created_at"] = fields["updated_at"] = created_at
    return _encode(fields).decode()


def message(*, id: str, text: str, task_id: str, created_at: str, author: Mapping[str, Any]) -> str:
    """Encode a message.

    `author` is ``{"type": "api_key" | "user" | ..., "id": ..., "name": ...}``.
    """
    return event(id=id, type="message", content={"text": text}, task_id=task_id, created_at=created_at, author=author)


def done(
    *,
    id: str,
    task_id: str,
    created_at: str,
    author: Mapping[str, Any],
    text: str | None = None,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
    step: Mapping[str, Any] | None = None,
) -> str:
    """Encode the end of a task.

    `text` is the reply of a top-level turn. None encodes the content ``{}`` of a
    subtask or tool run. The specification has no `finish_reason`; it is an extension.
    """
    content = {} if text is None else {"text": text}
    if finish_reason is not None:
        content["finish_reason"] = finish_reason
    fields: dict[str, Any] = {"author": author, "usage": usage, "step": step}
    return event(id=id, type="runtime_done", content=content, task_id=task_id, created_at=created_at, **fields)


def failed(
    *,
    id: str,
    task_id: str,
    created_at: str,
    author: Mapping[str, Any],
    status: int,
    error: str,
    message: str,
    usage: Mapping[str, Any] | None = None,
) -> str:
    """Encode the end of a turn without a reply.

    The specification has no such event; this shape is a choice (see openapi.yaml).
    """
    content = {"status": status, "error": error, "message": message}
    return event(
        id=id, type="runtime_error", content=content, task_id=task_id, created_at=created_at, author=author, usage=usage
    )


def draft(*, id: str, task_id: str, created_at: str, content: Mapping[str, Any], replayed: bool) -> str:
    """Encode a draft, which is sent live and never stored; its id is not a UUID.

    `content` is ``{"delta", "offset"}`` for text and ``{"tool", "state"}`` for a tool
    run. `replayed` says that it happened before the socket opened.
    """
    fields: dict[str, Any] = {"id": id, "type": "runtime_draft", "content": content, "task_id": task_id}
    if replayed:
        fields["replayed"] = True
    fields["created_at"] = fields["updated_at"] = created_at
    return _encode(fields).decode()
