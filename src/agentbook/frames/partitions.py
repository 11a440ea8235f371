"""Partitions of a Dask DataFrame of events: what `agentbook.dask` and a store share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from .parse.frame import to_frame
from .parse.json_arrays import TEXT
from .parse.schemas import STR


def import_dask() -> Any:
    """The module `dask.dataframe`, or an `ImportError` that says how to install it."""
    try:
        import dask.dataframe
    except ImportError:
        raise ImportError("This needs Dask: pip install 'agentbook[dask]'.") from None
    return dask.dataframe


def from_map(function: Callable[..., pd.DataFrame], parts: Sequence[Any], **options: Any) -> Any:
    """A Dask DataFrame of events, one partition for each of `parts`."""
    frames = import_dask()
    import dask.config

    # Dask would convert texts to a third kind of column, whose missing value differs
    # from that of pandas' default.
    with dask.config.set({"dataframe.convert-string": False}):
        return frames.from_map(function, parts, meta=meta_of_events(), enforce_metadata=False, **options)


def meta_of_events() -> pd.DataFrame:
    """An empty frame with the columns and dtypes of a partition.

    Returns
    -------
    DataFrame
        Without rows. Columns and dtypes are those of `agentbook.load_events`, with
        categories as text.

    Notes
    -----
    Specification: "Resources and their fields", Session event.

    Examples
    --------
    >>> str(meta_of_events().dtypes["type"])
    'str'
    """
    return without_categories(to_frame("events", []))


def without_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with categories as text, because they may differ between partitions."""
    texts = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    return frame.assign(**{str(name): _as_text(frame[name]) for name in texts})


def _as_text(series: pd.Series) -> pd.Series:
    """The category of each row, without the object that pandas makes of each."""
    categories = pa.array(series.cat.categories.astype(STR), TEXT)
    codes = series.cat.codes.to_numpy()
    texts = categories.take(pa.array(codes, mask=codes < 0))
    return pd.Series(pd.array(texts, STR), series.index)
