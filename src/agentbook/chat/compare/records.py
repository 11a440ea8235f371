"""A comparison as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...frames.tabular import typed
from ..model.conversation import Conversation
from ..model.serialization import check_format, load_json
from ..model.transcript import CATEGORIES, COLUMNS, Transcript, rows_of
from .comparison import NONE, TIE, Comparison, Round

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "agentbook-comparison"
VERSION = 1

_REPLY_COLUMNS = (
    "event_id", "session_id", "asked_at", "time_to_first_event_s", "time_to_reply_s", "subtasks", "reason",
    "request_id", "finish_reason",
)  # fmt: skip
REPLY_DTYPES = {
    "round": "Int64",
    "message": "str",
    "agent": "str",
    "column": "Int64",
    "text": "str",
    "status": "category",
    **{name: COLUMNS[name] for name in _REPLY_COLUMNS},
    "preferred": "boolean",
}
PREFERENCES = {
    "round": "Int64",
    "message": "str",
    "preferred": "str",
    "column": "Int64",
    "agents": "object",
    "latencies_s": "object",
    "session_ids": "object",
    "blind": "boolean",
    "preferred_at": "datetime64[us, UTC]",
}


def reply_table(comparison: Comparison) -> pd.DataFrame:
    """Every reply; the columns are those of `Compare.to_pandas`."""
    import pandas as pd

    labels = comparison.labels
    rows = [_reply(round_, side, labels[side]) for round_ in comparison.rounds for side in range(len(round_.order))]
    return typed(pd.DataFrame(rows, columns=list(REPLY_DTYPES), dtype=object), REPLY_DTYPES, CATEGORIES)


def _reply(round_: Round, side: int, label: str) -> dict[str, Any]:
    exchange = round_.exchanges[side]
    reply = next((row for row in rows_of(exchange) if row["role"] == "agent"), {})
    return {
        "round": round_.number,
        "message": round_.message,
        "agent": label,
        "column": round_.order.index(side) + 1,
        "status": exchange.status,
        "session_id": exchange.turn.session_id or None,
        "asked_at": exchange.turn.asked_at,
        **{name: value for name, value in reply.items() if name in REPLY_DTYPES},
        "preferred": None if round_.preferred is None else round_.preferred == side,
    }


def preferences(comparison: Comparison) -> pd.DataFrame:
    """Every preference; the columns are those of `Compare.preferences`."""
    import pandas as pd
    import pyarrow as pa

    from ...frames.parse.frame import TEXTS, list_column

    labels = comparison.labels
    rows = [_preference(round_, labels) for round_ in comparison.rounds if round_.preferred is not None]
    frame = typed(pd.DataFrame(rows, columns=list(PREFERENCES), dtype=object), PREFERENCES)
    types = {"agents": TEXTS, "latencies_s": pa.list_(pa.float64()), "session_ids": TEXTS}
    return frame.assign(**{name: list_column(frame[name], type_=type_) for name, type_ in types.items()})


def _preference(round_: Round, labels: list[str]) -> dict[str, Any]:
    choice = round_.preferred
    by_column = [round_.exchanges[side] for side in round_.order]
    return {
        "round": round_.number,
        "message": round_.message,
        "preferred": labels[choice] if isinstance(choice, int) else choice,
        "column": round_.order.index(choice) + 1 if isinstance(choice, int) else None,
        "agents": [labels[side] for side in round_.order],
        "latencies_s": [exchange.time_to_reply_s for exchange in by_column],
        "session_ids": [exchange.turn.session_id or None for exchange in by_column],
        "blind": round_.blind,
        "preferred_at": round_.preferred_at,
    }


def labels(comparison: Comparison) -> pd.DataFrame:
    """Every preference as labels; the columns are those of `Compare.labels`."""
    from ...frames.labels import BOOL, labels_frame, me

    given = {"question": "preferred", "kind": BOOL, "rater": me(), "source": "person"}
    return labels_frame(
        {
            "session_id": exchange.turn.session_id, "message_id": exchange.turn.message_id,
            "value": round_.preferred == side, "at": round_.preferred_at, **given,
        }
        for round_ in comparison.rounds
        if round_.preferred is not None
        for side, exchange in enumerate(round_.exchanges)
        if exchange.turn.session_id
    )  # fmt: skip


def to_json(comparison: Comparison) -> str:
    """The comparison as JSON, with the persisted events of each side."""
    return json.dumps(as_data(comparison), ensure_ascii=False, indent=1)


def as_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain data, ready for JSON."""
    sides = comparison.conversations
    return {
        "format": FORMAT,
        "version": VERSION,
        "blind": comparison.blind,
        "seed": comparison.seed,
        "sides": [side.transcript.to_data() for side in sides],
        "rounds": [_round_data(round_, sides) for round_ in comparison.rounds],
    }


def _round_data(round_: Round, sides: list[Conversation]) -> dict[str, Any]:
    at = round_.preferred_at
    return {
        "message": round_.message,
        # The position among its side's exchanges, which may include failed attempts.
        "exchanges": [side.exchanges.index(exchange) for side, exchange in zip(sides, round_.exchanges, strict=False)],
        "order": list(round_.order),
        "blind": round_.blind,
        "revealed": round_.revealed,
        "preferred": round_.preferred,
        "preferred_at": at.isoformat() if at else None,
    }


def from_json(source: str | Path) -> Comparison:
    """The comparison that `to_json` wrote; nothing can be sent to it.

    Raises
    ------
    ValueError
        If it is something else, is damaged, or has a later format version.
    """
    return load_json(source, _read)


def _read(record: Any) -> Comparison:
    check_format(record, "comparison", FORMAT, VERSION)
    try:
        sides = [_side(data) for data in record["sides"]]
        rounds = [_read_round(n, data, sides) for n, data in enumerate(record["rounds"], 1)]
        return Comparison(sides, bool(record["blind"]), record["seed"], rounds, recorded=True)
    except ValueError as error:
        raise ValueError(f"This comparison is damaged: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"This comparison is damaged: {type(error).__name__}: {error}") from error


def _side(data: Any) -> Conversation:
    side = Conversation._from_transcript(Transcript.from_data(data))
    side.stop()  # replies that were pending when it was written
    return side


def _read_round(number: int, data: Mapping[str, Any], sides: list[Conversation]) -> Round:
    order, choice, at = data["order"], data["preferred"], data["preferred_at"]
    count = len(data["exchanges"])  # of 0.2.0, fewer than sides before an agent joined
    if sorted(order) != list(range(count)) or not 0 < count <= len(sides):
        raise ValueError(f"round {number} does not show each side exactly once.")
    if choice not in (None, TIE, NONE, *order):
        raise ValueError(f"round {number} prefers {choice!r}, which is not one of its sides.")
    return Round(
        number,
        str(data["message"]),
        [side.exchanges[n] for side, n in zip(sides, data["exchanges"], strict=False)],
        list(order),
        bool(data["blind"]),
        choice,
        datetime.fromisoformat(at) if at else None,
        bool(data["revealed"]),
    )
