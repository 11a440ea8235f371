"""Provenance of derived frames."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.frame import jsonable


def with_provenance(frame: pd.DataFrame, source: pd.DataFrame, derived: str, **details: Any) -> pd.DataFrame:
    """`frame` with the provenance of its source in ``attrs["agentbook"]``.

    `derived` names the function that made the frame.
    """
    known = {key: value for key, value in source.attrs.get("agentbook", {}).items() if key != "problems"}
    frame.attrs["agentbook"] = jsonable({**known, "derived": derived, **details})
    return frame
