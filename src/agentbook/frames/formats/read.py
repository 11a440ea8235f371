"""`read_conversations`: files of other tools as a `History`.

Files are read record by record, each conversation becomes events at once, and events
become Arrow columns in pages, so memory holds little more than the texts.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import json
import mmap
import os
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..._masking import mask_secrets, masked
from ..._text import count_text, one_line, visible
from ...api.record import UNREADABLE, read_value
from ...events.turns import opens_turn
from ..export import unescaped
from ..history.history import History
from ..load.loader import Progress
from ..parse.frame import FrameBuilder
from ..tabular import frame_of, is_tabular
from .chat import are_several, grouped
from .coding import Sessions
from .messages import is_message
from .model import DAMAGE, Conversation, Problems, check_counts, events_of, separator_of
from .refusal import refusal
from .registry import FORMATS, Format, format_of
from .spans import Traces

_PAGE = 2_000  # events that are parsed at a time
_ROWS = 1_000  # rows of a table that are Python objects at a time
_PARQUET_ROWS = 100  # the same; each may unpack to a long text that all of them share
_LONGEST_SAMPLE = 256 << 20  # bytes; more is no conversation
# A compressed file may unpack to so many bytes, or to so many times its size: JSON
# shrinks to a tenth, what is made to fill the memory to a thousandth.
_FREE_BYTES, _MAX_RATIO = 256 << 20, 50
_VALUE_BYTES = 8  # of a number or a null in a table, at least
_ZSTD = 93  # how `zipfile` knows it from Python 3.14 on
_LONGEST_MENDED = 16 << 20  # bytes of a line that is read even if it is no strict JSON; that takes time
_LOOKED_AT = 100  # records that are tried before a file has no known format
_RESOURCES = ("events", "sessions", "agents", "workspaces")
_COLUMNS = {"id", "type", "session_id", "task_id", "content", "created_at", "updated_at"}  # which hold no secrets
_Numbered = Iterator[tuple[int, Any]]
# Where a document has its records: of the APIs of Langfuse, OpenAI, Phoenix and
# LangSmith, Langfuse's download of a trace, and Inspect's log.
_PAGES = ("data", "observations", "runs", "samples", "traces", "items", "spans", "rows")
_NESTED = ("observations", "child_runs")  # of a trace of Langfuse, and a run of LangSmith
# How files begin that are not read, and what they are.
_OTHERS = {
    b"\x1f\x8b": "compressed (gzip): unpack it first",
    b"PK\x03\x04": "a zip archive or a workbook: unpack it, or save the sheet as CSV",
    b"\x28\xb5\x2f\xfd": "compressed (zstd): unpack it first",
    b"BZh": "compressed (bzip2): unpack it first",
    b"\xfd7zXZ": "compressed (xz): unpack it first",
    b"\xff\xfe": "UTF-16 or UTF-32: save it as UTF-8",
    b"\xfe\xff": "UTF-16 or UTF-32: save it as UTF-8",
}


def read_conversations(source: Any, *, tz: str | tzinfo | None = None, progress: bool | None = None) -> History:
    r"""A `History` of conversations from elsewhere, for all analyses.

    The format is recognized by the content, never by the name of the file. Files are
    read piece by piece: memory holds the texts, not the file.

    Parameters
    ----------
    source : str, path, DataFrame, other table, or iterable of str or path
        A file; a folder, of which all files but hidden ones are read; several of them;
        or a table with a record per row. Files are JSON Lines, JSON, Parquet or CSV:

        =================== ============================================================
        format              what is read
        =================== ============================================================
        OpenAI chat         ``messages`` of fine-tuning, batches and logs, with a reply
                            among or beside them; responses and completions. Also
                            ChatGPT's export, Anthropic's messages and batches,
                            Inspect's logs, and messages of LangChain, the AI SDK,
                            Bedrock and Gemini
        ATIF                trajectories up to 1.8, and those of their subagents
        OTLP/JSON           traces with the GenAI conventions since 2024, OpenLLMetry
                            or OpenInference; also the events in logs
        Langfuse            observations and traces, with their sessions
        LangSmith           runs, with their threads
        OpenAI Agents SDK   traces and spans, as its exporters get them
        Phoenix             spans of its API, DataFrames and Parquet files
        Claude Code, Codex  the sessions on the disk: ``~/.claude/projects`` and
                            ``~/.codex/sessions``, with their subagents
        agentbook's own     events and turns of `export`; the JSON of a panel
        =================== ============================================================

        A compressed file is refused: unpack it. Of Parquet files and Inspect's logs,
        256 MB are read, or 50 times the file's size; the rest is a problem. The error
        for another format ends with the lines that convert it. What a folder has
        besides conversations, and a link out of it, is listed as a problem.
    tz : str or tzinfo, optional
        As for `History`. Default UTC.
    progress : bool, optional
        True shows a bar with rows and rate.

    Returns
    -------
    History
        A session per conversation, with its agent, version, workspace and initiator
        where the format names them. A conversation without an id has the name of its
        file and its line as one. Ids are the same whenever a file is read again, so
        labels keep their turns. Traces, and our own events and turns, of one session
        are one in all files of a call; of other conversations with one id, the second
        ends with ``-2``. `History.missing` says if something could not be read.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If `source` is neither a path nor a table.
    ValueError
        If a file is compressed, damaged, or in no known format, or no value of a field
        is a time; the message names it.

    Notes
    -----
    The last message of the agent before the next one of a user is the reply; what it
    wrote before, and its tool calls, belong to the same turn. Instructions are in the
    ``extra`` of the first event. What a format does not say is null: OpenAI chat has no
    times, so what is counted over time is empty or null, and a question at the end of a
    conversation is ``open``, not ``unanswered``. Parts that are not text are left out.
    Times are ISO 8601, or numbers of seconds, milliseconds, microseconds or nanoseconds
    since 1970, by their size. A time before 2015 or after tomorrow, and an end before
    its beginning, is a problem, and is unknown then.

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
    with Progress(progress) as bar:
        return _read(source, _Reading(bar)).history(tz)


def _read(source: Any, reading: _Reading) -> _Reading:
    if is_tabular(source):
        frame = frame_of(source, caller="read_conversations")
        named = [name for name in frame.index.names if name is not None and name not in frame]
        frame = frame.reset_index(named) if named else frame  # Phoenix has the ids of spans there
        try:
            rows = _rows(pa.Table.from_pandas(frame, preserve_index=False).to_batches(_ROWS))
        except (pa.ArrowException, UnicodeError):  # such as texts and lists in one column, as OpenAI's contents are
            rows = enumerate(frame.astype(object).where(frame.notna(), None).to_dict("records"), 1)
        reading.problem.file = "table"
        reading.read("table", rows)
    else:
        seen = set[Path]()
        for path, name, folder in _paths(source):
            reading.problem.file, reading.problem.line = name, None
            try:
                _check(path, folder, seen)
                with path.open("rb") as file:
                    reading.read(name, _records(path, file, reading.problem), str(path))
            except (OSError, ValueError) as error:
                sentence, _, code = str(error).partition("\n")
                if folder is None:  # an OSError quotes the file's name, which may hold anything
                    whole = visible(sentence) + (code and f"\n{code}")
                    raise error if isinstance(error, OSError) else ValueError(whole) from None
                reading.problem(f"the file was not read: {sentence.partition(' The nearest is')[0]}")
        if not reading.names:
            reasons = [row["problem"] for row in reading.problem.rows[:1]] or ["there is no file"]
            raise ValueError(visible(f"{source} has no conversations: {reasons[0]}."))
    return reading


class _Reading:
    """What was read so far."""

    def __init__(self, bar: Progress) -> None:
        self.problem, self._bar = Problems(), bar
        self.traces, self.sessions = Traces(self.problem), Sessions(self.problem)
        self.names: dict[str, None] = {}
        self._formats: dict[str, None] = {}
        # Secrets in events are masked before: in their JSON, that takes far longer.
        self._builders = {name: FrameBuilder(name, reveal=name == "events") for name in _RESOURCES}
        self._waiting: dict[str, list[bytes]] = {name: [] for name in _RESOURCES}  # JSON items, without brackets
        self._rows = 0  # events among them
        self._found = 0  # events so far
        self._ids: dict[str, int] = {}  # of sessions, and how often
        self._named: set[tuple[str, str]] = set()  # agents and workspaces
        self._own: dict[str, dict[str, Any]] = {}  # sessions of which further parts may come

    def read(self, name: str, records: _Numbered, path: str | None = None) -> None:
        """Read the conversations of one file."""
        parts, begin = _parts(records), list[tuple[int, Any, Format | None]]()
        while not begin or (begin[-1][2] is None and len(begin) < _LOOKED_AT):
            if (part := next(parts, None)) is None:
                break
            begin.append(part)
        are_messages = all(is_message(each) and "message" not in each for _, each, _ in begin)
        if begin and begin[-1][2] is None and are_messages and not are_several([each for _, each, _ in begin]):
            parts = _parts(enumerate(grouped(self._messages(itertools.chain(begin, parts))), 1))
            begin = [next(parts)]
        if not begin or (found := begin[-1][2]) is None:
            why = next(self._problems(name), "")
            raise ValueError(
                refusal(path or name, [each for _, each, _ in begin], [each.name for each in FORMATS], why)
            )
        before = self._progress()
        self.names[name] = self._formats[found.name] = None

        def matching() -> Iterator[Mapping[str, Any]]:
            for self.problem.line, record, format_ in itertools.chain(begin, parts):
                self._bar.add(1)
                if format_ is found or (isinstance(record, dict) and found.continues(record)):
                    yield record
                else:
                    self.problem("not a record of the format of this file", record)

        rest, more = matching(), True
        while more:  # a record that is damaged in a way that its format does not expect is one problem
            try:
                self._add_all(found.read(rest, getattr(self, found.keeps)))
                more = False
            except DAMAGE as error:
                self.problem.damaged(error)
        if self._progress() == before:
            *_, why = ["it has what tools keep beside them", *self._problems(name)]
            raise ValueError(f"{name} has no conversation: {why}.")

    def _messages(self, parts: Iterable[tuple[int, Any, Any]]) -> Iterator[dict[str, Any]]:
        """The messages among records that are of no format."""
        for self.problem.line, record, _ in parts:
            if is_message(record):
                yield record
            else:
                self.problem("not a message, as the others of this file are", record)

    def _problems(self, name: str) -> Iterator[str]:
        return (row["problem"] for row in self.problem.rows if row["file"] == name)

    def _progress(self) -> int:
        """How much was found so far: events, spans, and copies of known records."""
        return self._found + self.traces.count + self.sessions.count

    def _add_all(self, talks: Iterable[Conversation]) -> None:
        for talk in talks:
            try:
                self._add(talk)
            except DAMAGE as error:
                self.problem.damaged(error)

    def _add(self, talk: Conversation) -> None:
        id_ = talk.id or f"{self.problem.file}:{self.problem.line}"
        if talk.events is None and id_ in self._ids:
            known = id_
            while id_ in self._ids:
                self._ids[known] += 1
                id_ = f"{known}-{self._ids[known]}"
            self.problem(f"another conversation has the id {known!r:.80}: this one is {id_!r:.80}")
        events = events_of(talk, id_)
        if not events:
            self.problem("no message of a user or an agent")
            return
        asked: dict[str, datetime] = {}
        for event in events:
            check_counts(event.get("usage"), self.problem)
            is_question, task = opens_turn(event), str(event.get("task_id"))
            began = None if is_question else asked.get(task)
            event["created_at"] = at = self.problem.end(began, event.get("created_at"), "created_at")
            event["updated_at"] = at if talk.items else self.problem.time(event.get("updated_at"), "updated_at")
            if is_question and event.get("task_id") and at is not None:
                asked[task] = at
        times = [event["created_at"] for event in events if event["created_at"] is not None]
        row: dict[str, Any] = {
            "id": id_, "name": talk.title, "agent_version_id": talk.agent_version,
            "agent_id": talk.agent_id or talk.agent, "workspace_id": talk.workspace_id or talk.workspace,
            "initiator_id": talk.initiator_id or talk.initiator,
            "initiator": {"type": "user", "name": talk.initiator} if talk.initiator else None,
        }  # fmt: skip
        self._name("agents", row["agent_id"], name=talk.agent)
        self._name("workspaces", row["workspace_id"], name=talk.workspace, full_name=talk.workspace)
        self._ids.setdefault(id_, 1)
        self._waiting["events"].append(_encoded(events))
        self._rows += len(events)
        self._found += len(events)
        if talk.events is not None:
            row = self._own.setdefault(id_, row)
            times += filter(None, (row.get("created_at"), row.get("updated_at")))
        row |= {"created_at": min(times, default=None), "updated_at": max(times, default=None)}
        if talk.events is None:
            self._waiting["sessions"].append(msgspec.json.encode(row))
        if self._rows >= _PAGE:
            self._flush()

    def _name(self, resource: str, id_: str | None, **names: str | None) -> None:
        if id_ and (resource, id_) not in self._named:
            self._named.add((resource, id_))
            self._waiting[resource].append(msgspec.json.encode({"id": id_, **names}))

    def _flush(self) -> None:
        for resource, rows in self._waiting.items():
            if rows:
                self._builders[resource].add(b'{"items":[' + b",".join(rows) + b"]}")
                rows.clear()
        self._rows = 0

    def history(self, tz: str | tzinfo | None) -> History:
        """All that was read."""
        self._add_all(self.traces.conversations())
        if not self._found:
            *_, why = ["nobody says anything in it", *(row["problem"] for row in self.problem.rows)]
            raise ValueError(visible(f"{', '.join(self.names)} has no conversation: {why}."))
        self.problem.check_times()
        self._waiting["sessions"] += map(msgspec.json.encode, self._own.values())
        self._flush()
        provenance = {
            "operation": "read_conversations", "source": [*self.names], "format": [*self._formats],
            "problems": self.problem.rows, "problem_count": self.problem.count,
        }  # fmt: skip
        events, *lists = (
            self._builders.pop(name).finish(provenance if name == "events" else None) for name in _RESOURCES
        )
        events["at"] = events["at"].where(events["created_at"].notna())
        missing = {count_text(self.problem.count, "problem"): "ab.load_problems(history) lists them"}
        return History(
            events, lists[0], agents=lists[1], workspaces=lists[2], account=", ".join(self.names),
            missing=missing if self.problem.count else None, tz=tz,
        )  # fmt: skip


def _check(path: Path, folder: Path | None, seen: set[Path]) -> None:
    """Raise a `ValueError` if a file would have no end, or is not of its folder."""
    if path.exists() and not path.is_file():  # a pipe, a device, or a link to a folder
        raise ValueError(f"{path} is neither a file nor a folder.")
    real = path.resolve()
    if folder is not None and not real.is_relative_to(folder):
        raise ValueError("a link out of the folder: name it to read it")
    if folder is not None and real in seen:
        raise ValueError("a link to a file that was read")
    seen.add(real)


def _paths(source: Any) -> Iterator[tuple[Path, str, Path | None]]:
    """Files with their names, and the folder that the caller named instead of them."""
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        if not path.is_dir():
            yield path, path.name, None
        for each in sorted(path.rglob("*")) if path.is_dir() else ():
            name = each.relative_to(path)
            # What is no file, such as a link to a folder, fails above and is listed.
            is_hidden = any(part.startswith(".") for part in name.parts) or name.match("subagents/*.meta.json")
            if (each.is_symlink() or not each.is_dir()) and not is_hidden:
                yield each, name.as_posix(), path.resolve()
    elif isinstance(source, Iterable):
        for each in source:
            yield from _paths(each)
    else:
        raise TypeError(
            f"read_conversations needs the path of a file or folder, or a table, not a {type(source).__name__}."
        )


def _encoded(events: list[dict[str, Any]]) -> bytes:
    """Events as the inside of a JSON array, without secrets beside their contents."""
    for event in events:
        beside = {name: value for name, value in event.items() if name not in _COLUMNS}
        shown = masked(mask_secrets, beside)
        event |= shown if isinstance(shown, dict) else dict.fromkeys(beside, shown)
    try:
        return msgspec.json.encode(events)[1:-1]
    except OverflowError:  # an integer beyond 64 bits
        return json.dumps(events, default=str).encode()[1:-1]


def _records(path: Path, file: Any, problem: Problems) -> _Numbered:
    """The numbered records of a file."""
    begin = file.read(8)
    limit = max(_FREE_BYTES, _MAX_RATIO * os.fstat(file.fileno()).st_size)
    if begin.startswith(b"PK\x03\x04"):
        with contextlib.suppress(Exception):  # it is a damaged one
            archive = zipfile.ZipFile(file)
            if parts := [each for each in archive.infolist() if each.filename.startswith("samples/")]:
                return _samples(archive, parts, problem, limit)
    for magic, what in _OTHERS.items():
        if begin.startswith(magic):
            raise ValueError(f"{path} is {what}.")
    if not begin:
        raise ValueError(f"{path} is empty.")
    file.seek(0)
    if begin.startswith(b"PAR1"):
        return enumerate(_parquet(path, file, limit), 1)
    lines = [*itertools.islice((line for line in file if line.strip()), 2)]
    is_marked = begin.startswith(codecs.BOM_UTF8)
    first = lines[0].removeprefix(codecs.BOM_UTF8).lstrip()[:1] if lines else b""
    if first not in (b"{", b"["):
        return _rows(_csv(path, is_marked))
    texts = None
    if first == b"[" or not any(isinstance(_value(line), dict) for line in lines):
        texts = _document(file, is_marked)
    file.seek(0)
    if texts is None and lines[0].strip() == b"{":
        texts = _indented(file)
    return _values(enumerate(file, 1) if texts is None else texts, problem)


def _parquet(path: Path, file: Any, limit: int) -> Iterator[Any]:
    """The rows of a Parquet file."""
    try:
        table = pq.ParquetFile(file)
        groups = [table.metadata.row_group(number) for number in range(table.metadata.num_row_groups)]
        columns = [group.column(number) for group in groups for number in range(group.num_columns)]
        size = sum(max(column.total_uncompressed_size, _VALUE_BYTES * column.num_values) for column in columns)
        _check_size("it", size, limit)
        size = 0  # counted anew, because a text that many rows share is stored once
        for batch in table.iter_batches(_PARQUET_ROWS):
            rows = batch.to_pylist()
            size += sum(len(msgspec.json.encode(row, enc_hook=str)) for row in rows)
            _check_size("it", size, limit)
            yield from rows
    except Exception as error:  # of Arrow, or of the system
        raise ValueError(f"{path} cannot be read as Parquet: {one_line(str(error), 300)}") from None


def _samples(archive: zipfile.ZipFile, parts: list[zipfile.ZipInfo], problem: Problems, limit: int) -> _Numbered:
    """The samples of an ``.eval`` file of Inspect."""
    size = 0
    for number, part in enumerate(parts, 1):
        try:
            with _opened(archive, part) as member:
                text = member.read(_LONGEST_SAMPLE + 1)
            if (size := size + len(text)) > limit:
                break
            if len(text) > _LONGEST_SAMPLE:
                problem(f"a sample of more than {_LONGEST_SAMPLE >> 20} MB was left out", part.filename, number)
            else:
                yield number, read_value(text)
        except Exception as error:  # of zlib, LZMA, Arrow ..., or that it is encrypted
            problem(f"a sample cannot be read: {type(error).__name__} {error}", part.filename, number)
    _check_size(problem.file, size, limit)


def _check_size(what: str, size: int, limit: int) -> None:
    """Raise a `ValueError` if a compressed file is made to fill the memory."""
    if size > limit:
        raise ValueError(
            f"{what} unpacks to more than {limit >> 20} MB; if you trust it, unpack it first, or pass it as a table"
        )


def _opened(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> Any:
    """A file of an archive, which may be compressed by zstd, as Inspect does it."""
    if part.compress_type != _ZSTD or archive.fp is None:
        return archive.open(part)
    archive.fp.seek(part.header_offset + 26)  # how long its name and its extra fields are
    archive.fp.seek(sum(struct.unpack("<HH", archive.fp.read(4))), os.SEEK_CUR)
    return pa.CompressedInputStream(pa.py_buffer(archive.fp.read(part.compress_size)), "zstd")


def _document(file: Any, is_marked: bool) -> Iterable[tuple[int, bytes]] | None:
    """The items of one JSON document, or the document; None if the file is not one."""
    text: Any = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[3 if is_marked else 0 :]
    try:
        items: list[Any] = msgspec.json.decode(text, type=list[msgspec.Raw])  # parts of the file, not copies
        return ((number, bytes(item)) for number, item in enumerate(items, 1))
    except UNREADABLE:
        value = _value(bytes(text))
    return (
        None if value is None else enumerate(map(msgspec.json.encode, value if isinstance(value, list) else [value]), 1)
    )


def _indented(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Documents over several lines each, as jq and OpenTelemetry's console write."""
    part: list[bytes] = []
    for number, line in enumerate(lines, 1):
        part.append(line)
        if line.rstrip() == b"}":
            yield number - len(part) + 1, b"".join(part)
            part = []
    if part:
        yield number - len(part) + 1, b"".join(part)


def _values(texts: Iterable[tuple[int, bytes]], problem: Problems) -> _Numbered:
    """The values of numbered JSON texts."""
    for number, text in texts:
        if text.isspace():
            continue
        try:
            try:
                yield number, msgspec.json.decode(text)
            except UNREADABLE:
                if len(text) > _LONGEST_MENDED:
                    raise
                yield number, read_value(text)
                text.decode()
        except UnicodeDecodeError as error:
            problem(f"not UTF-8: what is not was read as \N{REPLACEMENT CHARACTER} ({error.reason})", None, number)
        except UNREADABLE as error:
            problem(f"not JSON: {error}", text.decode("utf-8", "replace"), number)


def _parts(records: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any, Format | None]]:
    """The records, those within pages and other records too, with their formats."""
    found: Format | None = None
    for number, record in records:
        if isinstance(record, list) and all(map(is_message, record)):
            record = {"messages": record}
        if not isinstance(record, dict):
            yield number, record, None
            continue
        if found is None or not found.matches(record):
            found = format_of(record)
        lists = [record.get(name) for name in (_PAGES if found is None else _NESTED)]
        inner = [each for each in lists if isinstance(each, list)]
        if found is not None or not (
            inner := [each for each in inner if any(format_of(part) or is_message(part) for part in each)][:1]
        ):
            yield number, record, found
        elif format_of(record.get("trace")):  # which the others are parts of
            inner.insert(0, [record["trace"]])
        for each in inner:
            yield from _parts((number, part) for part in each if found is None or isinstance(part, dict))


def _value(text: bytes) -> Any:
    try:
        return read_value(text)
    except UNREADABLE:
        return None


def _csv(path: Path, is_escaped: bool) -> Iterator[Any]:
    """The rows of a CSV file as Arrow batches; an empty cell is null."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        separator = separator_of(file.readline())
    try:
        for frame in pd.read_csv(
            path, compression=None, dtype=str, chunksize=_ROWS, encoding="utf-8-sig", na_values=[""],
            keep_default_na=False, sep=separator,
        ):  # fmt: skip
            yield pa.RecordBatch.from_pandas(frame.map(unescaped, na_action="ignore") if is_escaped else frame)
    except ValueError as error:
        advice = ": save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise ValueError(f"{path.name} is neither JSON nor a table that can be read{advice}: {error}") from None


def _rows(batches: Iterable[Any]) -> _Numbered:
    return enumerate((row for batch in batches for row in batch.to_pylist()), 1)


__all__ = ["read_conversations"]
