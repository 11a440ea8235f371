"""Loaded frames for other libraries: Arrow tables and Polars frames of the same
columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

KEY = b"agentbook"


def to_arrow(frame: pd.DataFrame) -> Any:
    """The frame as a `pyarrow.Table`, with its provenance.

    ``attrs["agentbook"]`` becomes JSON in ``table.schema.metadata[b"agentbook"]``.
    Texts and ids are ``large_string``, enums dictionaries, times ``timestamp[us,
    UTC]``.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> table = to_arrow(to_frame("workspaces", []))
    >>> str(table.schema.field("created_at").type)
    'timestamp[us, tz=UTC]'
    >>> json.loads(table.schema.metadata[KEY])["complete"]
    True
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {KEY: json.dumps(frame.attrs.get("agentbook", {}), default=str).encode()}
    return table.replace_schema_metadata(metadata)


def to_polars(frame: pd.DataFrame) -> Any:
    """The frame as a `polars.DataFrame`, from the same columns.

    Raises
    ------
    ImportError
        If Polars is not installed.
    """
    try:
        import polars  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError("to_polars() needs Polars: pip install polars.") from None
    return polars.from_arrow(to_arrow(frame))


__all__ = ["KEY", "to_arrow", "to_polars"]
