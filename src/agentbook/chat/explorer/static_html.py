"""What a saved notebook shows of an explorer: a picture, a table, a conversation."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ..._text import shorten
from ...frames.plot.chart import LEGIBLE
from ..html.sanitize import plain
from ..html.static_transcript import empty_element, static_element
from .conversation import OpenedConversation
from .filters import duration
from .svg import WIDTH, description, render_svg

_TABLE_ROWS = 10
_QUESTION = 80  # characters


def explorer_html(
    fixed: dict[str, Any], current: dict[str, Any], opened: OpenedConversation | None, emptiness: str, uid: str
) -> str:
    """An explorer as one element of safe HTML; needs neither a kernel nor trust."""
    if emptiness:
        return empty_element(uid, emptiness)
    text = description(fixed, current)
    svg = b64encode(render_svg(fixed, current, text).encode()).decode()
    # On a narrow page it shrinks as long as its labels stay legible, and then scrolls.
    style = f"max-width: 100%; min-width: {int(LEGIBLE * WIDTH)}px"
    img = f'<img alt="{plain(text)}" src="data:image/svg+xml;base64,{svg}" style="{style}">'
    image = f'<div style="overflow-x: auto" tabindex="0" role="region" aria-label="The views">{img}</div>'
    conversation = ""
    if opened is not None:
        who = f"Conversation with {plain(opened.title) or 'an agent'}, session {plain(opened.session_id)}"
        conversation = f'<div class="ab-who">{who}</div>{opened.near}'
    lacks = f"<p>{plain(fixed['incomplete'])}</p>" if fixed["incomplete"] else ""
    return static_element(
        uid, f"<p>{plain(text)}</p>{lacks}{image}{_table(fixed, current)}{conversation}", "ab-x-saved"
    )


def _table(fixed: dict[str, Any], current: dict[str, Any]) -> str:
    table = current["table"]
    group = plain(fixed["by"]) or "group"
    heads = ["Asked", group[:1].upper() + group[1:], "Outcome", "Latency", *(["Question"] if fixed["texts"] else [])]
    order = {
        "latency": "slowest" if table["descending"] else "quickest",
        "asked": "latest" if table["descending"] else "first",
    }
    rows = "".join(_row(fixed, row) for row in table["rows"][:_TABLE_ROWS])
    cells = "".join(f'<th style="text-align: left">{head}</th>' for head in heads)
    title = f"The {order[table['sort']]} turns"
    # On a narrow page it scrolls by itself; no line is wrapped.
    return (
        f'<p>{title}:</p><div style="overflow-x: auto" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(fixed: dict[str, Any], row: dict[str, Any]) -> str:
    latency = "" if row["latency"] is None else duration(row["latency"])
    texts = [row["asked"], row["group"], fixed["outcomes"][row["outcome"]], latency]
    texts += [shorten(row["text"], _QUESTION)] if fixed["texts"] else []
    cells = "".join(f'<td style="text-align: left; white-space: nowrap">{plain(text)}</td>' for text in texts)
    return f"<tr>{cells}</tr>"
