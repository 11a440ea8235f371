"""A conversation as semantic HTML, for a page that shows it without a live panel.

An untrusted notebook keeps the elements of an output but drops its styles. So headings
name the speakers, a quotation holds the question, and line breaks are elements. With
styles, it looks like the panel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.exchange import Exchange
from . import message_html
from .sanitize import plain, visible
from .steps_html import steps

# The heading level of the title in a notebook; the speakers' headings are one level
# below. JupyterLab's table of contents ends at this level, so it lists conversations
# and not each message.
NOTEBOOK_LEVEL = 4


def heading(text: str, level: int, *classes: str) -> str:
    """Text as a heading, such as the name of who speaks below it."""
    return f'<h{level} class="{" ".join(["ab-who", *classes])}"><strong>{plain(text)}</strong></h{level}>'


def title(text: str, level: int = NOTEBOOK_LEVEL) -> str:
    """The heading of a conversation or a comparison."""
    return heading(text, level, "ab-heading")


def quotation(text: str) -> str:
    r"""A question as a quotation that keeps its lines; code between fences is code.

    Examples
    --------
    >>> quotation("Sum this:\n```csv\na,b\n```")
    '<blockquote class="ab-said" dir="auto">Sum this:<pre>a,b</pre></blockquote>'
    """
    parts: list[str] = []
    lines: list[str] = []
    fence = 0  # backticks that opened the code; 0 outside code
    for line in visible(text).split("\n"):
        ticks = len(line) - len(line.lstrip("`"))
        opens = not fence and ticks >= 3 and "`" not in line[ticks:]
        if opens or (fence and ticks >= fence and not line[ticks:].strip()):
            parts.append(_lines(lines, code=bool(fence)))
            lines, fence = [], ticks if opens else 0
        else:
            lines.append(line)
    parts.append(_lines(lines, code=bool(fence)))
    return f'<blockquote class="ab-said" dir="auto">{"".join(parts)}</blockquote>'


def _lines(lines: Sequence[str], *, code: bool) -> str:
    return f"<pre>{plain(chr(10).join(lines))}</pre>" if code else "<br>".join(map(plain, lines))


def saved_exchange(exchange: Exchange, agent_name: str, level: int = NOTEBOOK_LEVEL + 1) -> str:
    """A question and its reply, each below a heading that names the speaker."""
    question = ""
    if exchange.prompt:
        asker = heading(message_html.asker(exchange), level)
        question = f'<div class="ab-me">{asker}{quotation(exchange.prompt)}</div>'
    return question + saved_reply(exchange, agent_name or "Agent", level)


def saved_reply(exchange: Exchange, name: str, level: int) -> str:
    """The reply below its heading; empty if there is nothing to show."""
    if not (exchange.text or exchange.steps or exchange.pending or exchange.status in ("failed", "stopped")):
        return ""
    text = message_html.body([message_html.rendered(exchange.text)]) if exchange.text else ""
    parts = heading(name, level), steps(exchange), text, _note(exchange)
    return f'<div class="ab-agent ab-said">{"".join(parts)}</div>'


def _note(exchange: Exchange) -> str:
    if exchange.pending:
        note = message_html.UNFINISHED if exchange.text else message_html.UNANSWERED
        return f'<div class="ab-foot"><em>{note}</em></div>'
    return message_html.foot(exchange) if exchange.status in ("failed", "answered", "stopped") else ""
