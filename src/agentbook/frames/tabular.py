"""DataFrames from whatever is at hand: a list, a history, Arrow tables, other frames.

Analyses and charts take any of them. They are recognized by the methods they offer, so
this module imports neither the libraries that made them nor the packages above it.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import pandas as pd
import pyarrow as pa

from .._text import replace_surrogates
from ..api.address import checked_session_url
from .parse.frame import jsonable, to_pandas
from .parse.schemas import STR, TEXT

SESSION_URL = "session_url"  # in a frame's provenance; empty where ids are not the platform's
SESSION_URL_VARIABLE = "AGENTBOOK_SESSION_URL"
KEY = b"agentbook"  # the key of a frame's provenance in the metadata of an Arrow table
_SMALL_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
# Raised for what pandas does not have: a union, an unknown extension type, a date after
# the year 9999.
_UNLIKE_PANDAS = (pa.ArrowNotImplementedError, KeyError, ValueError)
_EVENTS = "ab.load_events(client, sessions)"
# What a frame holds -> the call that makes one.
_CALLS = {
    "events": _EVENTS,
    "turn_events": _EVENTS,
    "turns": f"ab.turns(events) or {_EVENTS}",
    "sessions": "client.sessions.list(workspace).to_pandas()",
    "workspaces": "client.workspaces.list(account).to_pandas()",
    "contexts": "client.workspaces.contexts(workspace).to_pandas()",
    "credentials": "client.credentials.list(account).to_pandas()",
    "credential_report": "ab.credential_report(credentials)",
}


def frame_of(data: Any, *, caller: str, resource: str = "") -> pd.DataFrame:
    """Anything tabular as a DataFrame with the dtypes of this package.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        A `Listing` is loaded. Polars frames, Arrow tables, batches and readers, and
        other libraries' tables are converted, if they offer Arrow's C stream or
        ``to_pandas()``. A pandas DataFrame is returned as it is, except for columns of
        Arrow's own dtypes and index names that are also columns.
    caller : str
        The function called, for error messages.
    resource : str
        What the frame holds, such as ``"credentials"``: the attribute of a `History`
        that is read, and the call that an error message names.

    Returns
    -------
    DataFrame
        Times with a time zone are UTC, texts are strings, lists are Arrow lists;
        ``attrs`` are kept where they exist.

    Raises
    ------
    TypeError
        If `data` is not tabular, or has to be awaited.

    Examples
    --------
    >>> frame_of(pa.table({"id": ["e1"]}), caller="turns").dtypes["id"]
    <StringDtype(na_value=nan)>
    >>> frame_of("e1", caller="turns", resource="events")
    Traceback (most recent call last):
    ...
    TypeError: turns needs a DataFrame, not a str: ab.load_events(client, sessions) ...
    """
    frame = data if isinstance(data, pd.DataFrame) else _converted(data, caller, resource)
    names = [None if name in frame.columns else name for name in frame.index.names]
    if names != frame.index.names:  # pandas would not know which of the two to group by
        frame = frame.set_axis(frame.index.set_names(names))
    return without_arrow_dtypes(frame)


def maker_of(resource: str) -> str:
    """The expression that makes a frame of a resource, for messages."""
    return _CALLS.get(resource, "the to_pandas() of a list, such as client.agents.list().to_pandas(),")


def events_of(data: Any, *, caller: str) -> pd.DataFrame:
    """The events of a `History`, of a listing of events, or of any table of events."""
    return frame_of(data, caller=caller, resource="events")


def is_tabular(data: Any) -> bool:
    """Whether `frame_of` accepts it, as opposed to a text, a number or a time."""
    return isinstance(data, pd.DataFrame) or any(
        hasattr(data, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_pandas")
    )


def part_of(data: Any, resource: str) -> pd.DataFrame | None:
    """The frame of this name of a `History`; None if `data` is not one."""
    if isinstance(data, pd.DataFrame):  # a column of that name is not a part
        return None
    part = getattr(data, resource, None)
    if part is None and resource == "turn_events":  # something like a history, but without a span
        part = getattr(data, "events", None)
    return part if isinstance(part, pd.DataFrame) else None


def without_arrow_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of Arrow's own dtypes converted to those of this package.

    They come from ``dtype_backend="pyarrow"``. Lists stay Arrow lists.
    """
    names = [
        name
        for name, dtype in frame.dtypes.items()
        if isinstance(dtype, pd.ArrowDtype) and not pa.types.is_nested(dtype.pyarrow_dtype)
    ]
    if not names:
        return frame
    table = pa.table({str(name): pa.chunked_array(frame[name].array.__arrow_array__()) for name in names})
    return frame.assign(**_of_arrow(table).set_axis(frame.index))


def _converted(data: Any, caller: str, resource: str) -> pd.DataFrame:
    part = part_of(data, resource) if resource else None
    if part is not None:
        return part
    convert = getattr(data, "to_pandas", None)
    if inspect.isawaitable(data) or inspect.iscoroutinefunction(convert):
        awaited = "it" if inspect.isawaitable(data) else "its to_pandas()"
        raise TypeError(
            f"{caller} needs a DataFrame, not a {type(data).__name__}: await {awaited} first, as in "
            "`frame = await listing.to_pandas()`."
        )
    table = _arrow_table(data)
    if table is not None:
        return _of_arrow(table)
    frame = convert() if callable(convert) else None
    if isinstance(frame, pd.DataFrame):
        return frame
    call = maker_of(resource)
    lazy = next((name for name in ("compute", "collect", "history") if callable(getattr(data, name, None))), None)
    hint = f"call its {lazy}() first" if lazy else f"{call} makes one"
    raise TypeError(f"{caller} needs a DataFrame, not a {type(data).__name__}: {hint}.")


def _arrow_table(data: Any) -> Any:
    """A `pyarrow.Table` through Arrow's C interface; None if `data` has none."""
    try:
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
        else:
            return None
    except (pa.ArrowException, TypeError):  # a single column
        return None
    return reader.read_all()


def _of_arrow(table: Any) -> pd.DataFrame:
    try:
        table = table.cast(_our_schema(table.schema))
    except pa.ArrowInvalid:  # a time with nanoseconds
        table = table.cast(_our_schema(table.schema, "ns"), safe=False)
    try:
        frame = to_pandas(table)
    except _UNLIKE_PANDAS:
        columns = [_column(table.select([number])) for number in range(table.num_columns)]
        frame = pd.concat(columns, axis="columns")
    provenance = (table.schema.metadata or {}).get(KEY)
    if provenance is not None:
        frame.attrs["agentbook"] = json.loads(provenance)
    return frame


def _column(table: Any) -> pd.DataFrame:
    try:
        return to_pandas(table)
    except _UNLIKE_PANDAS:
        column = table[0].cast(pa.string()) if pa.types.is_date(table.schema[0].type) else table[0]
        return pd.DataFrame({table.column_names[0]: pd.Series(column.to_pylist(), dtype=object)})


def _our_schema(schema: Any, ns: str = "us") -> Any:
    return pa.schema([field.with_type(_our_type(field.type, ns)) for field in schema], schema.metadata)


def _our_type(type_: Any, ns: str) -> Any:
    """The Arrow type that this package uses for values of `type_`."""
    if pa.types.is_dictionary(type_):
        return pa.dictionary(pa.int32(), pa.string()) if _our_type(type_.value_type, ns) == TEXT else type_
    if pa.types.is_timestamp(type_):
        return pa.timestamp(ns if type_.unit == "ns" else "us", type_.tz and "UTC")
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(_our_type(type_.value_type, ns))
    if type_ in _SMALL_INTEGERS:
        return pa.int64()
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    return TEXT if is_text or pa.types.is_null(type_) else type_


def with_provenance(frame: pd.DataFrame, source: pd.DataFrame, derived: str, **details: Any) -> pd.DataFrame:
    """`frame` with the provenance of its source in ``attrs["agentbook"]``.

    `derived` names the function that made the frame. Rows of sessions get a ``link``,
    if their address is known.
    """
    frame = with_links(frame, source)
    known = {key: value for key, value in source.attrs.get("agentbook", {}).items() if key != "problems"}
    frame.attrs["agentbook"] = jsonable({**known, "derived": derived, **details})
    return frame


def session_url(frame: pd.DataFrame) -> str:
    """The address of the sessions in a frame, with placeholders; empty for none.

    Raises
    ------
    ValueError
        If the environment variable holds none.
    """
    known = frame.attrs.get("agentbook", {}).get(SESSION_URL)
    if known is None:
        named = os.environ.get(SESSION_URL_VARIABLE, "").strip()
        return checked_session_url(named, SESSION_URL_VARIABLE) if named else ""
    try:  # a file may be somebody else's
        return checked_session_url(str(known)) if known else ""
    except ValueError:
        return ""


def of_client(url: str | None) -> dict[str, str]:
    """What the provenance of a frame that a client loads says of its address."""
    return {} if url is None else {SESSION_URL: url}


def link(url: str, session: object, message: object = None) -> str | None:
    """The link to a session, or to a message in it; None without an address or an id.

    Examples
    --------
    >>> link("https://app.example/s/{session_id}#{message_id}", "s/1", "m1")
    'https://app.example/s/s%2F1#m1'
    >>> link("https://app.example/s/{session_id}#{message_id}", "s1")
    'https://app.example/s/s1'
    """
    if not url or not isinstance(session, str):
        return None
    message = quote(message, safe="") if isinstance(message, str) else ""
    filled = url.replace("{message_id}", message).replace("{session_id}", quote(session, safe=""))
    return filled.removesuffix("#")


def with_links(frame: pd.DataFrame, source: pd.DataFrame, id_: str = "session_id") -> pd.DataFrame:
    """The frame with a column ``link``, if `source` has an address; else as it is.

    A link leads to the question of a turn, or to its reply if it has no question.
    """
    if id_ not in frame or not (url := session_url(source)):
        return frame
    ids = [frame[name] for name in ("message_id", "reply_id") if name in frame]
    messages = ids[0].fillna(ids[-1]) if ids else pd.Series(None, frame.index, dtype=STR)
    links = [link(url, session, message) for session, message in zip(frame[id_], messages, strict=True)]
    linked = frame.assign(link=pd.Series(links, frame.index, dtype=STR))
    linked.attrs = frame.attrs
    return linked


def typed(
    frame: pd.DataFrame, dtypes: Mapping[str, str], categories: Mapping[str, Iterable[str]] | None = None
) -> pd.DataFrame:
    """`frame` with these dtypes, and the categories of the columns that have some."""
    for column, dtype in dtypes.items():
        if dtype.startswith("datetime"):
            frame[column] = pd.to_datetime(frame[column], utc=True).astype(dtype)  # type: ignore[call-overload]
        elif dtype == "category":
            frame[column] = pd.Categorical(frame[column], categories=list((categories or {})[column]))
        elif dtype == "str":
            frame[column] = to_strings(frame[column])
        else:
            frame[column] = frame[column].astype(dtype)  # type: ignore[call-overload]
    return frame


def to_strings(values: pd.Series[Any]) -> pd.Series[Any]:
    """`values` as a string column.

    Missing values stay missing, whatever pandas' options are. Characters that UTF-8
    cannot encode become question marks.
    """
    try:
        return values.astype(STR)
    except UnicodeEncodeError:
        return values.map(replace_surrogates, na_action="ignore").astype(STR)
