"""What a store holds, in one file that is replaced as a whole: its parts, and how far each session was read.

The manifest is the store's truth: a part that it does not name is not there, whatever lies in the directory.
"""

from __future__ import annotations

import msgspec

from .storage import Storage, StoreError

NAME = "manifest.json"
FORMAT = 1  # raised when an older agentbook could no longer read it
GROUPS = 8


class Part(msgspec.Struct):
    """One Parquet file: where, how much, and a checksum of its bytes."""

    name: str
    rows: int
    size: int
    crc32: int


class Cursor(msgspec.Struct, omit_defaults=True):
    """How far a session was read.

    Attributes
    ----------
    before : str or None
        An id of the session, further back than the overlap; None is the beginning. The next sync reads on from here.
    recent : list of str
        All ids stored after `before`, ascending: the next sync meets them again.
    whole : bool
        True: parts of it were lost, so the next sync reads it from the beginning.
    """

    before: str | None = None
    recent: list[str] = []
    whole: bool = False


class Manifest(msgspec.Struct):
    """The store's table of contents."""

    format: int = FORMAT
    groups: int = GROUPS
    generation: int = 0
    synced_at: str | None = None
    platform: str | None = None
    parts: list[Part] = []
    sessions: dict[str, Cursor] = {}
    failed: dict[str, str] = {}

    @property
    def rows(self) -> int:
        """Events in the store."""
        return sum(part.rows for part in self.parts)


class _Version(msgspec.Struct):
    format: int


def load(place: Storage) -> Manifest | None:
    """The manifest of the store at a place; None where there is no store.

    Raises
    ------
    StoreError
        It cannot be read, or a newer agentbook wrote it. The message names the file.
    """
    data = place.read(NAME)
    if data is None:
        return None
    path = place.show(NAME)
    try:
        version = msgspec.json.decode(data, type=_Version).format
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is no manifest of a store ({error}). The Parquet files beside it are plain tables and still readable."
        ) from error
    if version > FORMAT:
        raise StoreError(
            f"{path} was written by a newer agentbook (format {version}; this one reads up to {FORMAT}). Update agentbook."
        )
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is damaged ({error}). The Parquet files beside it are plain tables; remove {path} and sync anew to mend it."
        ) from error


def save(place: Storage, manifest: Manifest) -> None:
    """Replace the manifest: the moment at which a change of the store happens."""
    manifest.generation += 1
    place.write(NAME, msgspec.json.encode(manifest))
