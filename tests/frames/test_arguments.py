"""What the analyses are told beside the frame: lengths of time, instants, columns to group by, time zones."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.load import to_frame
from agentbook.frames.require import instant_of, length_of


@pytest.mark.parametrize("number", [7, 7.0, True, np.int64(7), np.float32(7), np.True_])
def test_a_number_is_no_length_of_time_and_no_instant(number: Any, tmp_path: Path) -> None:
    events, store = to_frame("events", []), ab.Store(tmp_path)
    lengths = {
        "period": lambda: ab.compare_periods(events, period=number),
        "after": lambda: ab.idle_sessions(events, after=number),
        "longer_than": lambda: ab.gaps(events, longer_than=number),
        "unanswered_after": lambda: ab.turns(events, unanswered_after=number),
    }
    for name, call in lengths.items():
        with pytest.raises(ValueError, match=rf"^{name} must be a length .* a number has no unit, write '7D'\.$"):
            call()
    client = ab.Client("http://127.0.0.1:1/v1")
    instants = {
        "as_of": lambda: ab.turns(events, as_of=number),
        "now": lambda: ab.credential_report(to_frame("credentials", []), now=number),
        "since": lambda: store.events(since=number),
        "until": lambda: store.events(until=number),
        "since ": lambda: ab.load_events(client, ["s"], since=number),
    }
    for name, call in instants.items():
        with pytest.raises(ValueError, match=rf"^{name.strip()} must be a time such as .* a number has no unit"):
            call()


def test_digits_are_no_length_of_time_either() -> None:
    for digits in ("7", " 600 ", "1.5", "-3", np.timedelta64(7)):
        with pytest.raises(ValueError, match="a number has no unit"):
            length_of(digits, "after")


def test_lengths_and_instants_that_say_their_unit_are_taken() -> None:
    week = pd.Timedelta("7D")
    for length in ("7D", "P7D", timedelta(7), np.timedelta64(7, "D"), week):
        assert length_of(length, "after") == week
    moment = pd.Timestamp("2026-10-03", tz="UTC")
    for instant in ("2026-10-03", datetime(2026, 10, 3), moment, np.datetime64("2026-10-03"), moment.to_pydatetime()):
        assert instant_of(instant, "since") == moment
