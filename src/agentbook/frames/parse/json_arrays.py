"""Arrow columns of JSON texts, from the bytes as received."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TEXT = pa.large_string()  # the type in which pandas keeps strings, so no copy is needed
Lengths = npt.NDArray[np.int64]
Lines = npt.NDArray[np.uint8]
INSTANT = pa.timestamp("us", tz="UTC")


def json_array(data: bytes, lengths: Lengths, is_null: npt.NDArray[np.bool_] | None = None) -> Any:
    """A column of the texts that `data` holds one after another, without decoding them.

    Bytes that are not UTF-8 are replaced.

    Examples
    --------
    >>> json_array(b'{"a":1}{}', np.array([7, 2])).to_pylist()
    ['{"a":1}', '{}']
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    valid = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    array = pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data), valid)
    if data.isascii():
        return array
    try:
        array.validate(full=True)  # nothing else checks these bytes
        return array
    except pa.ArrowInvalid:
        texts = [data[start:end].decode("utf-8", "replace") for start, end in itertools.pairwise(offsets.tolist())]
        return pa.array(texts, TEXT, mask=is_null)


def text_array(texts: Sequence[str | None]) -> Any:
    """A column of texts. Twice as fast if all have one length, as ids and times do.

    Examples
    --------
    >>> text_array(["ab", "cd"]).to_pylist(), text_array(["ab", None]).to_pylist()
    (['ab', 'cd'], ['ab', None])
    """
    lines = equal_lines(texts)
    return pa.array(texts, TEXT) if lines is None else array_of_lines(lines[1])


def equal_lines(texts: Sequence[str | None]) -> tuple[bytes, Lines] | None:
    """Texts of one length as lines, each with its line feed: as bytes, and as a grid.

    None if their lengths differ, or if one has a line feed or is null.
    """
    try:
        data = "\n".join(texts).encode() + b"\n"  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):  # a null, or half of a surrogate pair
        return None
    width = data.index(b"\n") + 1
    if width < 2 or len(data) != width * len(texts) or data.count(b"\n") != len(texts):
        return None
    grid = np.frombuffer(data, np.uint8).reshape(len(texts), width)
    return (data, grid) if (grid[:, -1] == ord("\n")).all() else None


def array_of_lines(lines: Lines) -> Any:
    """The column of the texts in a grid of `equal_lines`."""
    count, width = lines.shape[0], lines.shape[1] - 1
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int64)
    characters = np.ascontiguousarray(lines[:, :-1])
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))


def object_array(fields: Mapping[str, Sequence[Any]]) -> Any:
    """A column of JSON objects of raw values; a row without any value is null.

    Parameters
    ----------
    fields : dict
        The encoded name of each member, with quotes, to its raw value in every row;
        empty where the row has none.

    Examples
    --------
    >>> object_array({'"a"': [b"1", b""], '"b"': [b"[]", b""]}).to_pylist()
    ['{"a":1,"b":[]}', None]
    """
    count = len(next(iter(fields.values())))
    sizes = {name: np.fromiter(map(len, raws), np.int64, count) for name, raws in fields.items()}
    columns = {name: raws for name, raws in fields.items() if sizes[name].any()}
    if not columns:
        return pa.nulls(count, TEXT)
    if not all(sizes[name].all() for name in columns):
        return _sparse_objects(columns)
    # The end of each object is part of the piece that begins the next one.
    step = 2 * len(columns)
    pieces: list[Any] = [b""] * (count * step)
    lengths = np.ones(count, np.int64)
    for number, (name, raws) in enumerate(columns.items()):
        key = f"{',' if number else '{'}{name}:".encode()
        pieces[2 * number :: step] = [key if number else b"}" + key] * count
        pieces[2 * number + 1 :: step] = raws
        lengths += len(key) + sizes[name]
    pieces[0] = pieces[0][1:]
    pieces.append(b"}")
    return json_array(b"".join(pieces), lengths)


def objects(fields: Mapping[str, Sequence[Any]]) -> list[bytes]:
    """The JSON object of each row's raw values; empty for a row without any.

    Examples
    --------
    >>> objects({'"a"': [b"1", b""], '"b"': [b"[]", b""]})
    [b'{"a":1,"b":[]}', b'']
    """
    columns = {f"{name}:".encode(): raws for name, raws in fields.items() if any(raws)}
    if columns and all(map(all, columns.values())):
        pieces: list[Iterable[Any]] = []
        for key, raws in columns.items():
            pieces += itertools.repeat(b"," + key if pieces else b"{" + key), raws
        return list(map(b"".join, zip(*pieces, itertools.repeat(b"}"))))
    members = [
        b",".join([key + raw for key, raw in zip(columns, raws, strict=True) if raw])
        for raws in zip(*columns.values(), strict=True)
    ] or [b""] * len(next(iter(fields.values())))
    return [b"{" + member + b"}" if member else b"" for member in members]


def _sparse_objects(columns: Mapping[str, Sequence[Any]]) -> Any:
    return pa.array([raw.decode("utf-8", "replace") if raw else None for raw in objects(columns)], TEXT)


__all__ = ["INSTANT", "TEXT", "array_of_lines", "equal_lines", "json_array", "object_array", "objects", "text_array"]
