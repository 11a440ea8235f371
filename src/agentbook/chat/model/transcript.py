"""A conversation as a table: one row for each thing said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...api.event_ids import is_persisted
from ...events.turns import Event
from ..text import whole
from .exchange import Exchange

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("user", "agent")
STATUSES = ("sending", "waiting", "streaming", "stopped", "answered", "failed")

# column -> dtype; `role` and `status` become categoricals of the words above.
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


def to_frame(exchanges: Iterable[Exchange]) -> pd.DataFrame:
    """The transcript of a conversation as a DataFrame.

    Parameters
    ----------
    exchanges : iterable of Exchange

    Returns
    -------
    DataFrame
        One row for each question and one for what became of it, in order; typed the same when empty.

        ========================  ===================  ====  ==========================================================
        column                    dtype                unit  meaning
        ========================  ===================  ====  ==========================================================
        role                      category                   ``user`` or ``agent``
        text                      str                        what was said; of a failed turn, why
        event_id                  str                        id of the persisted event; missing until there is one
        session_id                str
        asked_at                  datetime64[us, UTC]        when the question was asked, on both rows
        time_to_first_event_s     float64              s     from sending to the first sign of the agent; agent rows
        time_to_reply_s           float64              s     from sending to the reply; agent rows
        subtasks                  Int64                      finished subtasks and tool runs; agent rows
        status                    category                   sending, waiting, streaming, stopped, answered or failed
        request_id                str                        of the request that was refused
        ========================  ===================  ====  ==========================================================

    Notes
    -----
    Specification: "Events", rules 3 to 5. Times to the first event are known for questions asked here; for others the time to the
    reply is the difference of the two events' ``created_at``.

    Examples
    --------
    >>> to_frame([]).dtypes["asked_at"]
    datetime64[us, UTC]
    """
    import pandas as pd

    rows = [row for exchange in exchanges for row in rows_of(exchange)]
    return typed(pd.DataFrame(rows, columns=list(COLUMNS), dtype=object), COLUMNS)


def typed(frame: pd.DataFrame, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """`frame` with these dtypes; a category is one of the words that stand above."""
    import pandas as pd

    dtype: Any
    for column, dtype in dtypes.items():
        if dtype.startswith("datetime"):
            frame[column] = pd.to_datetime(frame[column], utc=True).astype(dtype)
        elif dtype == "category":
            words = ROLES if column == "role" else STATUSES
            frame[column] = pd.Categorical(frame[column], categories=list(words))
        elif dtype == "str":
            frame[column] = texts(frame[column])
        else:
            frame[column] = frame[column].astype(dtype)
    return frame


def texts(values: pd.Series[Any]) -> pd.Series[Any]:
    """`values` as texts: what is missing stays so however pandas is set, and what UTF-8 cannot carry is a question mark."""
    import numpy as np
    import pandas as pd

    dtype = pd.StringDtype(na_value=np.nan)
    try:
        return values.astype(dtype)
    except UnicodeEncodeError:
        return values.map(whole, na_action="ignore").astype(dtype)


def rows_of(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """One row for the question and one for what became of it, untyped."""
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
    """The id of the event that ended the turn: the last that was no subtask's end."""
    ids = [event.get("id") for event in events if event.get("content") != {}]
    return next((event_id for event_id in reversed(ids) if is_persisted(event_id)), None)
