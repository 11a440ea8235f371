"""The rows and dtypes of a transcript table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...api.event_ids import is_persisted
from ...events.turns import Event
from ..text import replace_surrogates
from .exchange import Exchange

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("user", "agent")
STATUSES = ("sending", "waiting", "streaming", "stopped", "answered", "failed")

# column -> dtype; `role` and `status` become categoricals of ROLES and STATUSES.
COLUMNS = {
    "role": "category",
    "text": "str",
    "event_id": "str",
    "session_id": "str",
    "asked_at": "datetime64[us, UTC]",
    "time_to_first_event_s": "float64",
    "time_to_reply_s": "float64",
    "subtasks": "Int64",
    "status": "category",
    "request_id": "str",
}


def typed(frame: pd.DataFrame, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """`frame` with these dtypes; categories are those of `ROLES` or `STATUSES`."""
    import pandas as pd

    dtype: Any
    for column, dtype in dtypes.items():
        if dtype.startswith("datetime"):
            frame[column] = pd.to_datetime(frame[column], utc=True).astype(dtype)
        elif dtype == "category":
            categories = ROLES if column == "role" else STATUSES
            frame[column] = pd.Categorical(frame[column], categories=list(categories))
        elif dtype == "str":
            frame[column] = to_strings(frame[column])
        else:
            frame[column] = frame[column].astype(dtype)
    return frame


def to_strings(values: pd.Series[Any]) -> pd.Series[Any]:
    """`values` as a string column.

    Missing values stay missing whatever pandas' options are. What UTF-8 cannot encode
    becomes a question mark.
    """
    import numpy as np
    import pandas as pd

    dtype = pd.StringDtype(na_value=np.nan)
    try:
        return values.astype(dtype)
    except UnicodeEncodeError:
        return values.map(replace_surrogates, na_action="ignore").astype(dtype)


def rows_of(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """One untyped row for the question and one for its outcome."""
    turn = exchange.turn
    shared = {
        "session_id": turn.session_id or None,
        "asked_at": turn.asked_at,
        "status": exchange.status,
        "request_id": exchange.request_id,
    }
    if turn.prompt or turn.message_id:
        yield {"role": "user", "text": turn.prompt, "event_id": turn.message_id, **shared}
    if exchange.status not in ("sending", "waiting") or exchange.text or exchange.steps:
        yield {
            "role": "agent",
            "text": exchange.reason if exchange.status == "failed" else exchange.text or None,
            "event_id": _closing_id(turn.events) if turn.status != "open" else None,
            "time_to_first_event_s": exchange.time_to_first_event_s,
            "time_to_reply_s": exchange.time_to_reply_s,
            "subtasks": turn.subtasks,
            **shared,
        }


def _closing_id(events: list[Event]) -> str | None:
    """The id of the event that ended the turn: the last that did not end a subtask."""
    ids = [event.get("id") for event in events if event.get("content") != {}]
    return next((event_id for event_id in reversed(ids) if is_persisted(event_id)), None)
