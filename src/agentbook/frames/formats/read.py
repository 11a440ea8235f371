"""`read_conversations`: files of other tools as a `History`.

Files are read record by record, each conversation becomes events at once, and events
become Arrow columns in pages, so memory holds little more than the texts.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...api.json import UNREADABLE, read_value
from ..export import unescaped
from ..history.frames import count_text
from ..history.history import History
from ..parse.frame import FrameBuilder, to_frame
from ..tabular import frame_of, is_tabular
from .model import Conversation, Problems, events_of
from .registry import FORMATS, format_of

_PAGE = 2_000  # events that are parsed at a time
_ROWS = 1_000  # rows of a table that are Python objects at a time
_LOOKED_AT = 100  # records that are tried before a file has no known format
_DAMAGE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_Numbered = Iterator[tuple[int, Any]]
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".csv")
# How files begin that are not read, and what they are.
_OTHERS = {
    b"\x1f\x8b": "compressed (gzip): unpack it first",
    b"PK\x03\x04": "a zip archive or a workbook: unpack it, or save the sheet as CSV",
    b"\x28\xb5\x2f\xfd": "compressed (zstd): unpack it first",
    b"BZh": "compressed (bzip2): unpack it first",
    b"\xfd7zXZ": "compressed (xz): unpack it first",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}


def read_conversations(source: Any, *, tz: str | tzinfo | None = None) -> History:
    r"""A `History` of conversations from elsewhere, for all analyses.

    The format is recognized by the content, never by the name of the file. Files are
    read piece by piece: memory holds the texts, not the file.

    Parameters
    ----------
    source : str, path, DataFrame, other table, or iterable of str or path
        A file; a folder, whose files are read; several of them; or a table with a
        record per row. Files are JSON Lines, JSON, Parquet or CSV:

        =================== ============================================================
        format              what is read
        =================== ============================================================
        OpenAI chat         ``messages`` of fine-tuning, batches and logs; responses
        ATIF                trajectories up to 1.8, and those of their subagents
        OTLP/JSON           traces with the GenAI conventions, today's names and those
                            before, or OpenInference; also the events in logs
        Langfuse            exported observations, with their sessions
        LangSmith           exported runs, with their threads
        ShareGPT            ``conversations``, with calls as LLaMA-Factory writes them
        agentbook's own     events and turns of `export`; the JSON of a panel
        =================== ============================================================

        A compressed file is refused: unpack it.
    tz : str or tzinfo, optional
        As for `History`. Default UTC.

    Returns
    -------
    History
        A session per conversation, with its agent, version, workspace and initiator
        where the format names them. A conversation without an id has the name of its
        file and its line as one. Ids are the same whenever a file is read again, so
        labels keep their turns. `History.missing` says if something could not be read.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If `source` is neither a path nor a table.
    ValueError
        If a file is compressed, damaged, or in no known format; the message names it.

    Notes
    -----
    The last message of the agent before the next one of a user is the reply; what it
    wrote before, and its tool calls, belong to the same turn. Instructions are in the
    ``extra`` of the first event. What a format does not say is null: OpenAI chat and
    ShareGPT have no times, so what is counted over time is empty or null, and a
    question at the end of a conversation is ``open``, not ``unanswered``. Parts that
    are not text are left out.

    `load_problems` lists what could not be read, with its ``file`` and ``line``; in a
    JSON array or a table, that is the number of the item. Secrets in the arguments of
    tools are masked. Specification: "Resources and their fields", Session event.

    Examples
    --------
    >>> path = folder / "talks.jsonl"
    >>> lines = [
    ...     '{"messages": [{"role": "user", "content": "Hi"}]}',
    ...     '{"messages": 7}',
    ... ]
    >>> size = path.write_text("\n".join(lines))
    >>> history = read_conversations(path)
    >>> history.turns["prompt"].to_list(), history.complete
    (['Hi'], False)
    >>> ab.load_problems(history)[["file", "line"]].values.tolist()
    [['talks.jsonl', '2']]
    """
    reading = _Reading()
    if is_tabular(source):
        frame = frame_of(source, caller="read_conversations")
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, UnicodeError) as error:
            raise ValueError(f"read_conversations cannot read a column of this table: {error}") from None
        reading.read("table", _rows(table.to_batches(_ROWS)))
    else:
        for path in _paths(source):
            with path.open("rb") as file:
                reading.read(path.name, _records(path, file, reading.problem))
    return reading.history(tz)


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.problem = Problems()
        self._events = FrameBuilder("events")
        self._sessions: dict[str, Any] = {}  # rows; as JSON where no more of it comes
        self._agents: dict[str, dict[str, Any]] = {}
        self._workspaces: dict[str, dict[str, Any]] = {}
        self._waiting: list[bytes] = []  # the events of conversations, and how many
        self._rows = 0
        self._formats: dict[str, None] = {}
        self._names: dict[str, None] = {}

    def read(self, name: str, records: _Numbered) -> None:
        """Read the conversations of one file."""
        self.problem.file, begin = name, []
        for numbered in itertools.islice(records, _LOOKED_AT):
            begin.append(numbered)
            if (found := format_of(numbered[1])) is not None:
                break
        else:
            reason = f"the first of {len(begin)} records" if begin else "nothing that is JSON or a table"
            raise ValueError(
                f"{name} has no conversations in a format that read_conversations knows "
                f"({', '.join(each.name for each in FORMATS)}): it has {reason}."
            )
        self._names[name] = self._formats[found.name] = None

        def matching() -> Iterator[Mapping[str, Any]]:
            for self.problem.line, record in itertools.chain(begin, records):
                if format_of(record) is found:
                    yield record
                else:
                    self.problem("not a record of the format of this file", record)

        rest, more = matching(), True
        while more:  # a record that is damaged in a way that its format does not expect is one problem
            try:
                for conversation in found.read(rest, self.problem):
                    self._add(conversation)
                more = False
            except _DAMAGE as error:
                self.problem(f"damaged: {type(error).__name__} {error}")
        self._parse()

    def _add(self, conversation: Conversation) -> None:
        id_ = conversation.id or f"{self.problem.file}:{self.problem.line}"
        if conversation.events is None:
            id_ = next(name for name in _numbered(id_) if name not in self._sessions)
        events = events_of(conversation, id_)
        if not events:
            self.problem("no message of a user or an agent")
            return
        times = [event["created_at"] for event in events if event["created_at"] is not None]
        row: dict[str, Any] = {
            "id": id_, "name": conversation.title, "agent_version_id": conversation.agent_version,
            "agent_id": conversation.agent_id or conversation.agent,
            "workspace_id": conversation.workspace_id or conversation.workspace,
            "initiator_id": conversation.initiator_id or conversation.initiator,
            "initiator": {"type": "user", "name": conversation.initiator} if conversation.initiator else None,
            "created_at": min(times, default=None), "updated_at": max(times, default=None),
        }  # fmt: skip
        if row["agent_id"]:
            self._agents[row["agent_id"]] = {"id": row["agent_id"], "name": conversation.agent}
        if row["workspace_id"]:
            names = dict.fromkeys(("name", "full_name"), conversation.workspace)
            self._workspaces[row["workspace_id"]] = {"id": row["workspace_id"], **names}
        known = self._sessions.get(id_)
        if known is not None:  # a further part of one of our own sessions
            ends = [row["created_at"], row["updated_at"], known["created_at"], known["updated_at"]]
            ends = [end for end in ends if end is not None]
            known |= {"created_at": min(ends, default=None), "updated_at": max(ends, default=None)}
        else:
            self._sessions[id_] = msgspec.json.encode(row) if conversation.events is None else row
        self._waiting.append(_encoded(events))
        self._rows += len(events)
        if self._rows >= _PAGE:
            self._parse()

    def _parse(self) -> None:
        self._events.add(b'{"items":[' + b",".join(self._waiting) + b"]}")
        self._waiting, self._rows = [], 0

    def history(self, tz: str | tzinfo | None) -> History:
        """All that was read."""
        lists = {"sessions": self._sessions, "agents": self._agents, "workspaces": self._workspaces}
        frames = {name: to_frame(name, _pages(rows)) for name, rows in lists.items()}
        events = self._events.finish({
            "operation": "read_conversations", "source": [*self._names], "format": [*self._formats],
            "problems": self.problem.rows, "problem_count": self.problem.count,
        })  # fmt: skip
        events["at"] = events["at"].where(events["created_at"].notna())
        count = self.problem.count
        return History(
            events,
            frames["sessions"],
            agents=frames["agents"],
            workspaces=frames["workspaces"],
            account=", ".join(self._names),
            missing={count_text(count, "problems"): "ab.load_problems(history) lists them"} if count else None,
            tz=tz,
        )


def _pages(rows: dict[str, Any]) -> Iterator[bytes]:
    """Pages of some rows, which are let go."""
    while rows:
        some = [rows.pop(key) for key in list(itertools.islice(rows, _PAGE))]
        yield (
            b'{"items":['
            + b",".join(row if isinstance(row, bytes) else msgspec.json.encode(row) for row in some)
            + b"]}"
        )


def _numbered(name: str) -> Iterator[str]:
    return itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))


def _paths(source: Any) -> list[Path]:
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        if not path.is_dir():
            return [path]
        paths = sorted(each for each in path.rglob("*") if each.suffix.lower() in _SUFFIXES)
        if not paths:
            raise ValueError(f"{path} has no file that ends in {', '.join(_SUFFIXES)}.")
        return paths
    if isinstance(source, Iterable):
        return [path for each in source for path in _paths(each)]
    raise TypeError(
        f"read_conversations needs the path of a file or folder, or a table, not a {type(source).__name__}."
    )


def _encoded(events: list[dict[str, Any]]) -> bytes:
    """Events as the inside of a JSON array."""
    try:
        return msgspec.json.encode(events)[1:-1]
    except OverflowError:  # an integer beyond 64 bits
        return json.dumps(events, default=str).encode()[1:-1]


def _records(path: Path, file: Any, problem: Problems) -> _Numbered:
    """The numbered records of a file."""
    begin = file.read(8)
    for magic, what in _OTHERS.items():
        if begin.startswith(magic):
            raise ValueError(f"{path} is {what}.")
    if not begin:
        raise ValueError(f"{path} is empty.")
    file.seek(0)
    if begin.startswith(b"PAR1"):
        try:
            return _rows(pq.ParquetFile(file).iter_batches(_ROWS))
        except pa.ArrowException as error:
            raise ValueError(f"{path} is a damaged Parquet file: {error}") from None
    first = next((line for line in file if line.strip()), b"")
    is_marked = first.startswith(b"\xef\xbb\xbf")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return _rows(_csv(path, is_marked))
    one_value = _value(first)
    document = _document(file) if one_value is None or isinstance(one_value, list) else None
    file.seek(0)
    return _lines(file, problem) if document is None else document


def _lines(file: Any, problem: Problems) -> _Numbered:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield number, read_value(line)
        except UNREADABLE as error:
            problem(f"not JSON: {error}", line.decode("utf-8", "replace"), number)
            continue
        try:
            line.decode()
        except UnicodeDecodeError as error:
            problem(f"not UTF-8: what is not was read as \N{REPLACEMENT CHARACTER} ({error.reason})", None, number)


def _value(text: bytes) -> Any:
    try:
        return read_value(text)
    except UNREADABLE:
        return None


def _document(file: Any) -> _Numbered | None:
    """The items of one JSON document; None if the file is not one."""
    text: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        items: list[Any] = msgspec.json.decode(text, type=list[msgspec.Raw])  # parts of the file, not copies
    except UNREADABLE:
        whole = _value(bytes(text))
        items = whole if isinstance(whole, list) else [whole]
        return None if whole is None else iter(list(enumerate(items, 1)))
    return ((number, _value(bytes(item))) for number, item in enumerate(items, 1))


def _csv(path: Path, is_escaped: bool) -> Iterator[Any]:
    """The rows of a CSV file as Arrow batches; an empty cell is null."""
    try:
        for frame in pd.read_csv(
            path, dtype=str, chunksize=_ROWS, encoding="utf-8-sig", na_values=[""], keep_default_na=False
        ):
            yield pa.RecordBatch.from_pandas(frame.map(unescaped, na_action="ignore") if is_escaped else frame)
    except ValueError as error:
        raise ValueError(f"{path.name} is neither JSON nor a table that can be read: {error}") from None


def _rows(batches: Iterable[Any]) -> _Numbered:
    return enumerate((row for batch in batches for row in batch.to_pylist()), 1)


__all__ = ["read_conversations"]
