"""What a page of events says, read the slow way: one value after another."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

COLUMNS = (
    "id", "session_id", "type", "author_type", "author_id", "author_name", "text", "content", "task_id",
    "created_at", "updated_at", "extra",
)  # fmt: skip
_TEXTS = ("id", "session_id", "type", "task_id")
_TIMES = ("created_at", "updated_at")
_AUTHOR = ("type", "id", "name")


def read_page(page: bytes) -> list[dict[str, Any]]:
    """The values of each event; ``content`` and ``extra`` as objects."""
    items = json.loads(page, parse_constant=lambda name: None)["items"]
    return [_read_event(item) for item in items]


def _read_event(item: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    extra: dict[str, Any] = {}
    for name, value in item.items():
        if name in _TEXTS:
            _set_text(row, name, value, extra, name)
        elif name in _TIMES:
            row[name] = _instant(value)
            if row[name] is None and value is not None:
                extra[name] = value
        elif name == "author" and isinstance(value, dict):
            others: dict[str, Any] = {}
            for key, member in value.items():
                if key in _AUTHOR:
                    _set_text(row, f"author_{key}", member, others, key)
                else:
                    others[key] = member
            if others:
                extra["author"] = others
        elif name == "content":
            row["text"], row["content"] = _split(value)
            if value is not None and not isinstance(value, (str, dict)):
                extra["content"] = value
        elif name != "author" or value is not None:
            extra[name] = value
    row["extra"] = extra or None
    return row


def _set_text(row: dict[str, Any], column: str, value: Any, extra: dict[str, Any], name: str) -> None:
    if value is None or isinstance(value, str):
        row[column] = value
    else:
        extra[name] = value


def _split(content: Any) -> tuple[str | None, dict[str, Any] | None]:
    if not isinstance(content, dict):
        return content if isinstance(content, str) else _joined(content) if isinstance(content, list) else None, None
    text = content.get("text")
    if text is not None and not isinstance(text, str):
        return _joined(text if isinstance(text, list) else [text]), content
    return text, {name: value for name, value in content.items() if name != "text"}


def _joined(parts: list[Any]) -> str | None:
    texts = []
    for part in parts:
        if isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
            part = part.get("text", part.get("value"))
        if isinstance(part, dict):
            part = part.get("value")
        if isinstance(part, str):
            texts.append(part)
    return "\n".join(texts) if texts else None


def _instant(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value.upper())
    except (AttributeError, ValueError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
