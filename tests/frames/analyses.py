"""Every analysis of events at the root, and how a test compares what they return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

import agentbook as ab

AS_OF = "2030-01-01"
# With what makes its answer the same wherever it runs.
OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "turns": (ab.turns, {"as_of": AS_OF}), "session_summary": (ab.session_summary, {"as_of": AS_OF}),
    "activity": (ab.activity, {}), "hour_of_week": (ab.hour_of_week, {"tz": "Europe/Berlin"}),
    "failures": (ab.failures, {"as_of": AS_OF}), "latency": (ab.latency, {"freq": "1D"}), "timing": (ab.timing, {}),
    "timing: gaps": (ab.timing, {"what": "gaps", "longer_than": "8s"}),
    "timing: idle": (ab.timing, {"what": "idle", "as_of": AS_OF}),
    "compare_periods": (ab.compare_periods, {"as_of": AS_OF, "period": "2000D"})
}  # fmt: skip
OF_EVENTS: dict[str, Callable[[Any], pd.DataFrame]] = {
    name: partial(analysis, **options) for name, (analysis, options) in OPTIONS.items()
}


def same(actual: pd.DataFrame, expected: pd.DataFrame) -> None:
    actual, expected = actual.copy(), expected.copy()
    actual.attrs, expected.attrs = {}, {}
    pd.testing.assert_frame_equal(actual, expected)
