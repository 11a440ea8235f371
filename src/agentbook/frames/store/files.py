"""A store's files: a manifest, and the Parquet files that it names.

A change writes new Parquet files under new names, and then replaces the manifest, which
is the moment at which it takes effect. A file that the manifest does not name does not
belong to the store: an interrupted change left it, and the next sync removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from msgspec.structs import replace

from ..._files import FileLock, atomic_write
from ...api.errors import AgentbookError
from ..parse.schemas import arrow_schema, schema_of

MANIFEST = "manifest.json"
FORMAT = 2  # increased when older versions of agentbook can no longer read it
WAIT_S = 60.0  # for another process that changes the store
SCHEMA = arrow_schema(schema_of("events"))
SMALL_ROWS, MAX_SMALL = 100_000, 16  # more small files than this are joined at the end of a sync
_DICTIONARY_COLUMNS = ["session_id", "type", "author_type", "author_id", "author_name", "content", "extra"]
# Names that a store writes, also before a file is whole: nothing else is removed. The
# folders of days are those of agentbook 0.1, which 0.2 took over.
_NAME = r"^(events/(day=[A-Z0-9_-]+/group=[0-9]+/part-)?|tables/[a-z]+-)[0-9a-f]{32}\.parquet\Z"
_UNFINISHED = r"^((events|tables)/)?\.(writing-)?[0-9a-f]{32}(\.part)?\Z"
_WRITTEN = re.compile(f"{_NAME}|{_UNFINISHED}")
_TABLE = re.compile(r"(events|tables)/.*\.parquet\Z", re.DOTALL)


class StoreError(AgentbookError):
    """A store could not be read or written; the message names the file."""


class StoreBusy(StoreError):
    """Another process is changing the store."""


# -- the manifest ------------------------------------------------------------------


class File(msgspec.Struct):
    """A Parquet file of the store, and how many rows it has."""

    name: Annotated[str, msgspec.Meta(pattern=_NAME)]
    rows: int


class StoredHistory(msgspec.Struct):
    """The files of an account's lists; the rest as in `Catalog`."""

    tables: dict[str, File] = {}
    missing: dict[str, str] = {}
    listed: list[str] = []


class Cursor(msgspec.Struct, omit_defaults=True):
    """How far a session was read.

    Attributes
    ----------
    before : str or None
        An id of the session, older than the overlap; None is the beginning. The next
        sync continues from here.
    recent : list of str
        All stored ids after `before`, ascending. The next sync will see them again.
    updated_us : int or None
        Its ``updated_at`` when all of it was read, in microseconds since 1970: while a
        list shows the same value, it need not be read. None means read it.
    listed : bool
        Whether it came from the list of a workspace that the store keeps up to date.
    """

    before: str | None = None
    recent: list[str] = []
    updated_us: int | None = None
    listed: bool = False


class Manifest(msgspec.Struct):
    """What a store holds, and how far each session was read.

    `histories` are those of accounts, by id or name; ``""`` is that of the credential.
    `workspaces` are those synced on their own. `shows_replies` is whether the
    ``updated_at`` of this platform's sessions changes with each reply, as observed so
    far; None if nothing was observed.
    """

    format: int = FORMAT
    generation: int = 0
    synced_at: str | None = None
    platform: str | None = None
    files: list[File] = []
    sessions: dict[str, Cursor] = {}
    failed: dict[str, str] = {}
    histories: dict[str, StoredHistory] = {}
    workspaces: list[str] = []
    shows_replies: bool | None = None

    @property
    def tables(self) -> list[File]:
        """The tables of all histories."""
        return [table for history in self.histories.values() for table in history.tables.values()]

    def provenance(self, operation: str, **details: Any) -> dict[str, Any]:
        """Where its events come from, for the ``attrs`` of a frame."""
        return {
            "resource": "events", "operation": operation, "loaded_at": self.synced_at, "complete": not self.failed,
            "failed_sessions": dict(self.failed), "problem_count": 0, "problems": [], **details,
        }  # fmt: skip


def load(folder: Folder) -> Manifest:
    """The manifest of a store, an empty one if there is no store.

    Raises a `StoreError` that names the file if it cannot be read, or an agentbook with
    another format wrote it.
    """
    data, path = folder.read(MANIFEST), folder.path(MANIFEST)
    if data is None:
        return Manifest()
    try:
        values = msgspec.json.decode(data, type=dict[str, Any])
        version = int(values["format"])
        if version == FORMAT:
            return msgspec.convert(values, Manifest)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is not the manifest of a store, or is damaged ({error}). The Parquet files beside it are plain "
            f"tables and still readable. To start again, move the folder away and sync."
        ) from error
    advice = "newer agentbook: update agentbook" if version > FORMAT else "agentbook 0.1: move the folder away and sync"
    raise StoreError(
        f"{path} was written by a{'n' * (version < FORMAT)} {advice} (it has format {version}, not {FORMAT})."
    )


def save(folder: Folder, manifest: Manifest, before: Sequence[str] = ()) -> None:
    """Replace the manifest: the moment at which a change of the store takes effect.

    Then the files from `before` are removed that do not belong to the store any more.
    """
    if load(folder).generation != manifest.generation:
        raise StoreBusy(
            f"Another process changed the store {folder.path('')} meanwhile, so this change was not made. Sync again, "
            "from one process at a time."
        )
    folder.write(MANIFEST, msgspec.json.encode(replace(manifest, generation=manifest.generation + 1, format=FORMAT)))
    manifest.generation += 1
    _remove_others(folder, manifest, before)


def _remove_others(folder: Folder, manifest: Manifest, names: Iterable[str]) -> None:
    """Remove the files that the manifest does not name; the next sync retries."""
    kept = {file.name for file in [*manifest.files, *manifest.tables]}
    for name in set(names) - kept:
        with contextlib.suppress(OSError):
            folder.arrow.delete_file(folder.path(name))


# -- where the files lie -----------------------------------------------------------


class Folder:
    """A folder of this machine; only the user can read what is written to it."""

    def __init__(self, path: str) -> None:
        self._root = Path(path).absolute().as_posix()
        self.arrow: Any = pyarrow.fs.LocalFileSystem()

    def path(self, name: str) -> str:
        """The full path of a file."""
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        path = self.path(name)
        try:
            return self._read(path)
        except FileNotFoundError:
            return None
        except Exception as error:  # each protocol raises errors of its own
            raise StoreError(f"The store's {path} cannot be read: {_reason(error)}.") from error

    def write(self, name: str, data: Any) -> None:
        """Write a file as a whole; it is safe on disk when this returns."""
        path = self.path(name)
        try:
            self._write(path, data)
        except Exception as error:
            raise StoreError(
                f"The store's {path} cannot be written: {_reason(error)}. What was in the store before is unharmed."
            ) from error

    def _read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def _write(self, path: str, data: Any) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(Path(path), private=True) as file:
            file.write(data)

    def names(self) -> list[str]:
        """The names of all files."""
        selector = pyarrow.fs.FileSelector(self._root, allow_not_found=True, recursive=True)
        paths = [info.path for info in self.arrow.get_file_info(selector) if info.type == pyarrow.fs.FileType.File]
        return [path.replace("\\", "/").removeprefix(self.path("")) for path in paths]

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock; `StoreBusy` if another process keeps it.

        Where the file system has no locks, `save` notices a second writer.
        """
        path = Path(self.path("lock"))
        with contextlib.ExitStack() as stack:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                lock = FileLock(path, holder=f"process {os.getpid()} on {socket.gethostname()}", optional=True)
                stack.callback(lock.release)
                is_free = lock.acquire(timeout_s=WAIT_S)
            except OSError as error:
                raise StoreError(f"The store's {path} cannot be locked: {_reason(error)}.") from error
            if not is_free:
                raise StoreBusy(
                    f"Another process ({lock.holder()}) is changing the store {self._root}; waited {WAIT_S:g} s. "
                    "Try again when it is done."
                )
            yield


class RemoteFolder(Folder):
    """A location that fsspec opens, such as ``s3://``."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # type: ignore[import-untyped,unused-ignore]

            self._fs, self._root = fsspec.core.url_to_fs(url.rstrip("/"))
        except (ImportError, ValueError) as error:
            raise StoreError(
                f"A store at {url} cannot be opened: {error}. It needs fsspec and the package of its protocol."
            ) from error
        self.arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(self._fs))

    def _read(self, path: str) -> bytes:
        self._fs.invalidate_cache()
        return bytes(self._fs.cat_file(path))

    def _write(self, path: str, data: Any) -> None:
        self._fs.pipe_file(path, bytes(data))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        yield  # no protocol has locks; `save` notices a second writer


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def open_folder(path: str) -> Folder:
    """The folder that a path or URL names."""
    text = path.removeprefix("file://")
    return RemoteFolder(text) if "://" in text else Folder(text)


# -- Parquet files -----------------------------------------------------------------


def write(folder: Folder, name: str, table: Any, **options: Any) -> File:
    """Write a table to a new file, whose name begins with `name`."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    file = File(f"{name}{uuid.uuid4().hex}.parquet", table.num_rows)
    folder.write(file.name, memoryview(sink.getvalue()))
    return file


def write_events(folder: Folder, table: Any) -> File:
    """Write events, which are sorted by session."""
    encoding = {"id": "DELTA_BYTE_ARRAY"}
    return write(
        folder, "events/", table, use_dictionary=_DICTIONARY_COLUMNS, column_encoding=encoding, row_group_size=131_072
    )


def dataset(folder: Folder, files: Sequence[File]) -> Any:
    """Files of events as a `pyarrow.dataset.Dataset`; nothing is read yet."""
    import pyarrow.dataset as ds

    return ds.dataset([folder.path(file.name) for file in files], SCHEMA, format="parquet", filesystem=folder.arrow)


def read_events(folder: Folder, files: Sequence[File], columns: Sequence[str], condition: Any = None) -> Any:
    """The events of some files, in the order of the files."""
    return dataset(folder, files).to_table(columns=list(columns), filter=condition)


def read_table(folder: Folder, file: File) -> Any:
    """A file as a table."""
    import pyarrow.dataset as ds

    return ds.dataset(folder.path(file.name), format="parquet", filesystem=folder.arrow).to_table()


def stored_ids(folder: Folder, manifest: Manifest, sessions: Sequence[str]) -> dict[str, list[str]]:
    """All ids of these sessions that are in the store, ascending."""
    if not sessions:
        return {}
    condition = pc.field("session_id").isin(list(sessions))
    table = read_events(folder, manifest.files, ["session_id", "id"], condition)
    ids: dict[str, list[str]] = {session: [] for session in sessions}
    for session, event_id in zip(table["session_id"].to_pylist(), table["id"].to_pylist(), strict=True):
        ids[session].append(event_id)
    return {session: sorted(each, key=str.lower) for session, each in ids.items()}


def changes(folder: Folder, manifest: Manifest, table: Any) -> tuple[Any, list[str]]:
    """The events that are not stored as they are, and the ids of the edited ones."""
    sessions = pc.field("session_id").isin(pc.unique(table["session_id"]))
    stored, ids = set[int](), set[tuple[str, str]]()
    for row in _rows(read_events(folder, manifest.files, SCHEMA.names, sessions)):
        stored.add(hash(tuple(row.values())))
        ids.add((row["session_id"], row["id"]))
    is_new = [hash(tuple(row.values())) not in stored for row in _rows(table.select(SCHEMA.names))]
    table = table.filter(pa.array(is_new, pa.bool_()))
    pairs = zip(table["session_id"].to_pylist(), table["id"].to_pylist(), strict=True)
    return table, [pair[1] for pair in pairs if pair in ids]


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def leave_out(folder: Folder, manifest: Manifest, condition: Any) -> list[str]:
    """Rewrite the files that hold such events without these; returns the replaced ones.

    The caller saves the manifest.
    """
    replaced = []
    for file in list(manifest.files):
        kept = read_events(folder, [file], SCHEMA.names, ~condition)
        if kept.num_rows < file.rows:
            manifest.files.remove(file)
            manifest.files += [write_events(folder, kept)] if kept.num_rows else []
            replaced.append(file.name)
    return replaced


def sort_events(table: Any) -> Any:
    """The rows sorted by session and id, whose case does not matter."""
    table = table.unify_dictionaries().combine_chunks()
    keys = pa.table({"session": table["session_id"], "id": pc.utf8_lower(table["id"])})
    return table.take(pc.sort_indices(keys, sort_keys=[("session", "ascending"), ("id", "ascending")]))


def join_small(folder: Folder, manifest: Manifest, most: int) -> list[str]:
    """Join the small files if there are more than `most`; returns the replaced ones.

    The caller saves the manifest.
    """
    small = [file for file in manifest.files if file.rows < SMALL_ROWS]
    if len(small) <= most:
        return []
    joined = write_events(folder, sort_events(read_events(folder, small, SCHEMA.names)))
    manifest.files = [*(file for file in manifest.files if file.rows >= SMALL_ROWS), joined]
    return [file.name for file in small]


def remove_orphans(folder: Folder, manifest: Manifest) -> None:
    """Remove the files that an interrupted change left behind.

    Raises a `StoreError` if another program's tables are where a new store would begin.
    """
    names = folder.names()
    others = [name for name in names if _TABLE.match(name) and not _WRITTEN.match(name)]
    if others and not manifest.generation:
        raise StoreError(
            f"{folder.path(others[0])} is not a store's, and a new store would begin beside it: name another folder."
        )
    _remove_others(folder, manifest, filter(_WRITTEN.match, names))
