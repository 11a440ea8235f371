"""Frames that were written to a file and read again: as Parquet with Arrow's own types,
as CSV with texts for instants.
"""

from __future__ import annotations

from io import BytesIO, StringIO

import pandas as pd
import pytest

import agentbook as ab
from frames.analyses import OF_EVENTS, same
from frames.plot.test_plot import credentials_of, events_of


def in_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    read: pd.DataFrame = pd.read_parquet(BytesIO(frame.to_parquet()), dtype_backend="pyarrow")
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in read.dtypes)
    return read


@pytest.mark.parametrize(("name", "zone"), list(zip(OF_EVENTS, ["UTC", "Asia/Tokyo"] * 5, strict=True)))
def test_columns_that_stay_arrows_are_taken(name: str, zone: str) -> None:
    events = events_of()
    moved = events.assign(created_at=events["created_at"].dt.tz_convert(zone))
    same(OF_EVENTS[name](in_arrow(moved)), OF_EVENTS[name](events))


def test_turns_and_credentials_whose_columns_stay_arrows_are_taken() -> None:
    turns, credentials = ab.turns(events_of()), credentials_of(9)
    for analysis in (ab.latency, ab.failures, ab.timing):
        same(analysis(in_arrow(turns)), analysis(turns))
    for of_credentials in (ab.credential_report, ab.credential_summary):
        same(of_credentials(in_arrow(credentials)), of_credentials(credentials))
    naive = in_arrow(turns.assign(asked_at=turns["asked_at"].dt.tz_localize(None)))
    with pytest.raises(ValueError, match="needs the column 'asked_at' as instants with a time zone, not as datetime64"):
        ab.latency(naive)


def test_turns_with_texts_for_instants_are_no_picture_either() -> None:
    turns = ab.turns(events_of())
    read = pd.read_csv(StringIO(turns.to_csv()))
    message = "needs the column 'asked_at' as instants with a time zone, not as str"
    for call in (ab.latency, ab.plot.latency, lambda frame: ab.plot.latency(frame, freq="1h", by="status")):
        with pytest.raises(ValueError, match=message):
            call(read)
    moved = turns.assign(asked_at=turns["asked_at"].dt.tz_convert("Asia/Tokyo"))
    same(ab.plot.latency(moved).data, ab.plot.latency(turns).data)
