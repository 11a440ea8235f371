"""A store's table of contents: its parts, and how far each session was read.

It is one file that is replaced as a whole. A part that it does not name does not belong
to the store, even if it lies in the directory.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from .storage import Storage, StoreError

NAME = "manifest.json"
FORMAT = 1  # increased when older versions of agentbook can no longer read it
GROUPS = 8
MAX_GROUPS = 65_536
ROOT = "events"
# The name that Hive, Spark, DuckDB and Arrow read as null.
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
DIRECTORY = rf"{ROOT}/day=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}|{NO_DAY})/group=([0-9]{{1,5}})"
# A manifest may come from someone else. Every path that is read or removed is built
# from these names, so only names that a store itself writes are accepted.
PART_NAME = rf"^{DIRECTORY}/part-[0-9a-f]{{32}}\.parquet\Z"
TABLES = "tables"
TABLE_NAME = rf"^{TABLES}/(workspaces|sessions|agents|credentials)-[0-9a-f]{{32}}\.parquet\Z"

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Part(msgspec.Struct):
    """One Parquet file: its name, its size, and a checksum of its bytes."""

    name: Annotated[str, msgspec.Meta(pattern=PART_NAME)]
    rows: _Count
    size: _Count
    crc32: _Count


class Table(msgspec.Struct):
    """One table of a history: its file's name and size, and a checksum."""

    name: Annotated[str, msgspec.Meta(pattern=TABLE_NAME)]
    rows: _Count
    size: _Count
    crc32: _Count


class StoredHistory(msgspec.Struct):
    """The tables of an account's history, besides its events.

    Attributes
    ----------
    tables : dict
        Resource to its file.
    missing : dict
        What could not be read, and why.
    listed : list of str
        The workspaces whose sessions are all known.
    """

    tables: dict[str, Table] = {}
    missing: dict[str, str] = {}
    listed: list[str] = []


class SessionCursor(msgspec.Struct, omit_defaults=True):
    """How far a session was read.

    Attributes
    ----------
    before : str or None
        An id of the session, older than the overlap; None is the beginning. The next
        sync continues from here.
    recent : list of str
        All stored ids after `before`, ascending. The next sync will see them again.
    reload : bool
        Whether parts of it were lost, so that the next sync reads it from the
        beginning.
    updated_us : int or None
        Its ``updated_at`` when all of it was read, in microseconds since 1970: while a
        list shows the same value, it need not be read. None means read it.
    settled : bool
        Whether it was read long enough after that: a platform may show a change before
        its events.
    listed : bool
        Whether it came from the list of a workspace that the store keeps up to date.
    """

    before: str | None = None
    recent: list[str] = []
    reload: bool = msgspec.field(default=False, name="whole")
    updated_us: int | None = None
    settled: bool = False
    listed: bool = False


class Manifest(msgspec.Struct):
    """The store's table of contents.

    `histories` are those of accounts, by id or name; ``""`` is that of the credential.
    `workspaces` are those synced on their own. `shows_replies` is whether the
    ``updated_at`` of this platform's sessions changes with each reply, as observed so
    far; None if nothing was observed.
    """

    format: int = FORMAT
    groups: Annotated[int, msgspec.Meta(ge=1, le=MAX_GROUPS)] = GROUPS
    generation: int = 0
    synced_at: str | None = None
    platform: str | None = None
    parts: list[Part] = []
    sessions: dict[str, SessionCursor] = {}
    failed: dict[str, str] = {}
    histories: dict[str, StoredHistory] = {}
    workspaces: list[str] = []
    shows_replies: bool | None = None

    @property
    def tables(self) -> list[Table]:
        """The tables of all histories."""
        return [table for history in self.histories.values() for table in history.tables.values()]

    @property
    def rows(self) -> int:
        """Events in the store."""
        return sum(part.rows for part in self.parts)


class _Version(msgspec.Struct):
    format: int


def load(storage: Storage) -> Manifest | None:
    """The manifest of a store; None if there is no store.

    Raises
    ------
    StoreError
        If it cannot be read, or a newer agentbook wrote it. The message names the file.
    """
    data = storage.read(NAME)
    if data is None:
        return None
    path = storage.full_path(NAME)
    try:
        version = msgspec.json.decode(data, type=_Version).format
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is not the manifest of a store ({error}). The Parquet files beside it are plain tables and still "
            "readable."
        ) from error
    if version > FORMAT:
        raise StoreError(
            f"{path} was written by a newer agentbook (format {version}; this one reads up to {FORMAT}). "
            "Update agentbook."
        )
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is damaged ({error}). The Parquet files beside it are plain tables. To repair the store, remove "
            f"{path} and sync again."
        ) from error


def save(storage: Storage, manifest: Manifest) -> None:
    """Replace the manifest: the moment at which a change of the store takes effect."""
    manifest.generation += 1
    storage.write(NAME, msgspec.json.encode(manifest))
