"""A conversation as data: a typed table, JSON, Markdown or an HTML page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..._files import atomic_write
from ..._text import replace_surrogates
from ...api.span import is_persisted
from ...events.turns import Event, how_incomplete
from ..html import message_html
from ..html.sanitize import escape, heading, quote
from ..html.static_transcript import static_html
from .exchange import Exchange
from .serialization import FORMAT, VERSION, check_format, exchange_from_data, exchange_to_data, load_json

if TYPE_CHECKING:
    import pandas as pd

# Nothing in an exported page may run or be fetched, whatever the agent wrote.
_OPTIONAL = ("incomplete", "agent_version", "version_number")  # in JSON
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, eq=False)
class Transcript:
    """The exchanges of one session.

    Attributes
    ----------
    exchanges : sequence of Exchange
    session_id : str or None
    agent_name : str
    incomplete : str
        Why turns of the session may be missing; empty if none are.
    agent_version, version_number : str
        Id and number of the agent's version when the session began; empty where the
        platform does not say it.

    Examples
    --------
    >>> Transcript.from_json(Transcript([]).to_json()) == Transcript([])
    True
    """

    exchanges: Sequence[Exchange]
    session_id: str | None = None
    agent_name: str = ""
    incomplete: str = ""
    agent_version: str = ""
    version_number: str = ""

    @property
    def events(self) -> list[Event]:
        """The persisted events of all turns, in order."""
        return [event for exchange in self.exchanges for event in exchange.turn.events]

    def to_pandas(self) -> pd.DataFrame:
        """As `Conversation.to_pandas`."""
        import pandas as pd

        from ...frames.tabular import typed

        rows = [row for exchange in self.exchanges for row in rows_of(exchange, self.agent_name, self.agent_version)]
        frame = typed(pd.DataFrame(rows, columns=list(COLUMNS), dtype=object), COLUMNS, CATEGORIES)
        if self.incomplete:
            frame.attrs["incomplete"] = self.incomplete
        return frame

    def to_data(self) -> dict[str, Any]:
        """The transcript as plain data, ready for JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "session_id": self.session_id,
            "agent_name": self.agent_name,
            **{name: value for name in _OPTIONAL if (value := getattr(self, name))},
            "exchanges": [exchange_to_data(exchange) for exchange in self.exchanges],
        }

    @classmethod
    def from_data(cls, record: Any) -> Self:
        """The transcript that `to_data` wrote.

        Raises
        ------
        ValueError
            If `record` is something else, damaged, or of a later format version.
        """
        check_format(record, "transcript", FORMAT, VERSION)
        try:
            exchanges = [exchange_from_data(data) for data in record["exchanges"]]
            optional = {name: str(record.get(name, "")) for name in _OPTIONAL}
            return cls(exchanges, record["session_id"], str(record["agent_name"]), **optional)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"This transcript is damaged: {type(error).__name__}: {error}") from error

    @property
    def _agent(self) -> str:
        """The agent with its version, for a title."""
        return f"{self.agent_name or 'an agent'}{self.version_number and f', version {self.version_number}'}"

    def to_json(self) -> str:
        """As `Conversation.to_json`."""
        return json.dumps(self.to_data(), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """The transcript that `to_json` wrote, from JSON text or the name of a file.

        Raises
        ------
        ValueError
            If it is not a transcript; the message names the file.
        OSError
            If the file cannot be read.
        """
        return load_json(source, cls.from_data)

    def to_markdown(self) -> str:
        """As `Conversation.to_markdown`."""
        return "\n\n".join(self._markdown_parts()) + "\n"

    def _markdown_parts(self) -> Iterator[str]:
        """The title, then each message with its speaker."""
        title = f"# Conversation with {heading(self._agent)}"
        yield f"{title}\n\n**{message_html.INCOMPLETE}** {heading(self.incomplete)}" if self.incomplete else title
        for exchange in self.exchanges:
            if exchange.prompt:
                asked_at = exchange.turn.asked_at
                time = f" ({asked_at:%Y-%m-%d %H:%M} UTC)" if asked_at else ""
                yield f"## {heading(message_html.asker(exchange))}{time}\n\n{quote(exchange.prompt)}"
            reply = list(_reply_markdown(exchange))
            if reply:
                yield "\n\n".join([f"## {heading(self.agent_name) or 'Agent'}", *reply])

    def to_notebook(self) -> str:
        """As `Conversation.to_notebook`."""
        cells = [
            {"cell_type": "markdown", "id": f"message-{n}", "metadata": {}, "source": part}
            for n, part in enumerate(self._markdown_parts())
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"

    def export(self, path: str | os.PathLike[str]) -> Path:
        """As `Conversation.export`."""
        path = Path(path).expanduser()
        suffix = path.suffix.lower()
        if suffix not in _WRITERS:
            raise ValueError(f"{path} is not written: its suffix is none of {', '.join(_WRITERS)}. Choose one of them.")
        with atomic_write(path) as file:
            file.write(self.to_text(suffix).encode())
        return path

    def to_text(self, suffix: str) -> str:
        """What `export` writes to a file with this suffix, such as ``.md``."""
        return replace_surrogates(_WRITERS[suffix](self))

    def to_html(self) -> str:
        """As `Conversation.to_html`."""
        body = static_html(self.exchanges, self.agent_name, "transcript", self.incomplete, level=1, about=self._agent)
        return html_page(f"Conversation with {self._agent}", body)

    def __eq__(self, other: object) -> bool:
        return self.to_data() == other.to_data() if isinstance(other, Transcript) else NotImplemented

    # Its exchanges may change, so there can be no hash.
    __hash__ = None  # type: ignore[assignment]


_WRITERS = {
    ".md": Transcript.to_markdown,
    ".html": Transcript.to_html,
    ".json": Transcript.to_json,
    ".ipynb": Transcript.to_notebook,
}


def html_page(title: str, body: str) -> str:
    """Safe HTML as a standalone page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title></head>'
        f'<body style="max-width: 980px; margin: 2em auto; padding: 0 1em">{body}</body></html>\n'
    )


def _reply_markdown(exchange: Exchange) -> Iterable[str]:
    if exchange.text:
        yield quote(exchange.text)
    if exchange.status == "failed":
        if message_html.is_cut_off(exchange):
            yield f"*{message_html.CUT_OFF}*"
        yield f"**Failed.** {heading(exchange.reason or message_html.NO_REASON)}"
    elif exchange.status == "stopped":
        yield f"*{message_html.UNSENT if exchange.unsent else message_html.STOPPED}*"
    elif exchange.pending:
        yield f"*{message_html.UNFINISHED if exchange.text else message_html.UNANSWERED}*"
    else:
        incomplete = how_incomplete(exchange.turn.finish_reason)
        late = message_html.LATE if exchange.phase == "stopped" else ""
        facts = incomplete, late, message_html.latency(exchange), message_html.used(exchange)
        if any(facts):
            yield f"*{heading(' · '.join(filter(None, facts)))}*"


ROLES = ("user", "agent")
STATUSES = ("sending", "waiting", "streaming", "stopped", "answered", "failed")
CATEGORIES = {"role": ROLES, "status": STATUSES}

# column -> dtype; `role` and `status` become categoricals of CATEGORIES.
COLUMNS = {
    "role": "category",
    "author": "str",
    "text": "str",
    "event_id": "str",
    "session_id": "str",
    "asked_at": "datetime64[us, UTC]",
    "time_to_first_event_s": "float64",
    "time_to_reply_s": "float64",
    "subtasks": "Int64",
    "status": "category",
    "reason": "str",
    "request_id": "str",
    "finish_reason": "str",
    "model": "str",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "tokens": "Int64",
    "cached_tokens": "Int64",
    "cache_write_tokens": "Int64",
    "reported_cost": "float64",
    "cost": "float64",
    "agent_version": "str",
}


def rows_of(exchange: Exchange, agent_name: str = "", version: str = "") -> Iterator[dict[str, Any]]:
    """One untyped row for the question and one for its outcome."""
    turn = exchange.turn
    shared = {
        "session_id": turn.session_id or None,
        "asked_at": turn.asked_at,
        "status": exchange.status,
        "request_id": exchange.request_id,
    }
    if turn.prompt or turn.message_id:
        author = message_html.asker(exchange)
        yield {"role": "user", "author": author, "text": turn.prompt, "event_id": turn.message_id, **shared}
    if exchange.status not in ("sending", "waiting") or exchange.text or exchange.steps:
        yield {
            "role": "agent",
            "author": agent_name or None,
            "text": exchange.text or None,
            "reason": exchange.reason,
            "event_id": _closing_id(turn.events) if turn.status != "open" else None,
            "time_to_first_event_s": exchange.time_to_first_event_s,
            "time_to_reply_s": exchange.time_to_reply_s,
            "subtasks": turn.subtasks,
            "finish_reason": turn.finish_reason,
            **exchange.usage,
            "cost": exchange.cost,
            "agent_version": version or None,
            **shared,
        }


def _closing_id(events: list[Event]) -> str | None:
    """The id of the event that ended the turn: the last that did not end a subtask."""
    ids = [event.get("id") for event in events if event.get("content") != {}]
    return next((event_id for event_id in reversed(ids) if is_persisted(event_id)), None)
