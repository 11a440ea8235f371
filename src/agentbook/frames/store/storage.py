"""Where a store is kept: a directory on this machine, or any fsspec URL.

Files appear as a whole or not at all. Names are relative, with ``/``, and never lead
out of the store. A local file is written under a temporary name, synced to disk and
renamed; only its owner can read it. Object stores themselves replace an object as a
whole.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ..._files import FileLock
from ...api.errors import AgentbookError

TEMPORARY_PREFIX = ".writing-"  # begins the name of an incomplete file
LOCK = "lock"
LOCK_EXPIRES_S = 900.0  # a remote lock that was not refreshed for this long is free
UNHARMED = "What was in the store before is unharmed."


class StoreError(AgentbookError):
    """A store could not be read or written; the message names the file."""


class StoreBusy(StoreError):
    """Another process is changing the store."""


class Storage(Protocol):
    """What a store needs from a file system."""

    def full_path(self, name: str) -> str:
        """The full path of a file, for messages and for readers.

        Raises a `StoreError` if the path leads out of the store.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        ...

    def write(self, name: str, data: Any) -> None:
        """Write a file as a whole; it is safe on disk when this returns."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def files(self, name: str, *, deep: bool = True) -> list[str]:
        """The names of all files below a directory; unless `deep`, only those in it."""
        ...

    def lock(self, wait_s: float) -> contextlib.AbstractContextManager[None]:
        """Hold the store's lock; `StoreBusy` if another process keeps it."""
        ...

    def arrow_filesystem(self) -> Any:
        """The `pyarrow.fs.FileSystem` for paths as `full_path` returns them."""
        ...


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """The storage that a path or URL names."""
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return RemoteStorage(text) if "://" in text else LocalStorage(Path(text).expanduser().absolute())


class LocalStorage:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def full_path(self, name: str) -> str:
        return str(self._path(name))

    def _path(self, name: str, *, replaces: bool = False) -> Path:
        """The path of a file; a `StoreError` if it leads out of the store.

        A store may come from someone else, so a link in it may point anywhere. With
        `replaces` the file itself may be a link, since only the link changes.
        """
        path, members = self.root, name.split("/") if name else []
        for number, member in enumerate(members, 1):
            if member in ("", ".", "..") or any(sign in member for sign in "\\:\0"):
                raise StoreError(f"The store {self.root} has no file {name!r}: such a name leads out of it.")
            path /= member
            if os.path.islink(path) and not (replaces and number == len(members)):
                raise StoreError(
                    f"The store's {path} is a symbolic link, which may lead out of the store. Replace it with what it "
                    "points to, or remove it."
                )
        return path

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"The store's {path} cannot be read: {_reason(error)}.") from error

    def write(self, name: str, data: Any) -> None:
        path = self._path(name, replaces=True)
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(temporary, "xb", opener=_open_private) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_directory(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreError(f"The store's {path} cannot be written: {_reason(error)}. {UNHARMED}") from error

    def remove(self, name: str) -> None:
        path = self._path(name, replaces=True)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"The store's {path} cannot be removed: {_reason(error)}.") from error

    def files(self, name: str, *, deep: bool = True) -> list[str]:
        folders = os.walk(self._path(name))
        return [
            (Path(directory) / file_name).relative_to(self.root).as_posix()
            for directory, _, file_names in (folders if deep else itertools.islice(folders, 1))
            for file_name in file_names
        ]

    @contextlib.contextmanager
    def lock(self, wait_s: float) -> Iterator[None]:
        path = self._path(LOCK)
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(path, holder=_process_name())
        except OSError as error:
            raise StoreError(f"The store's {path} cannot be opened: {_reason(error)}.") from error
        try:
            if not lock.acquire(timeout_s=wait_s):
                raise StoreBusy(
                    f"Another process ({lock.holder()}) is changing the store {self.root}; waited {wait_s:g} s. "
                    "Try again when it is done, or wait longer with wait_s=."
                )
            yield
        finally:
            lock.release()

    def arrow_filesystem(self) -> Any:
        import pyarrow.fs

        return pyarrow.fs.LocalFileSystem()


class RemoteStorage:
    """A location that fsspec opens, such as ``s3://``, ``gs://`` or ``memory://``."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise StoreError(
                f"A store at {url} needs fsspec: pip install fsspec, and the package of its protocol."
            ) from None
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url.rstrip("/"))
        except (ImportError, ValueError) as error:
            raise StoreError(f"A store at {url} cannot be opened: {error}") from error
        self._url = url.rstrip("/")
        self._lock_lost_to: str | None = None  # who acquired the lock while this process held it

    def full_path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def read(self, name: str) -> bytes | None:
        try:
            content: bytes = self._fs.cat_file(self.full_path(name))
            return content
        except FileNotFoundError:
            return None
        except Exception as error:  # each protocol raises errors of its own
            raise StoreError(f"The store's {self._url}/{name} cannot be read: {error}") from error

    def write(self, name: str, data: Any) -> None:
        if self._lock_lost_to is not None:
            raise StoreBusy(
                f"The store's {self._url}/{name} is not written: another process ({self._lock_lost_to}) took over the "
                f"store, because this one did not refresh its lock for {LOCK_EXPIRES_S / 60:.0f} minutes. "
                "Sync again when it is done."
            )
        try:
            self._fs.makedirs(self.full_path(name).rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(self.full_path(name), bytes(data))
        except Exception as error:
            raise StoreError(f"The store's {self._url}/{name} cannot be written: {error}. {UNHARMED}") from error

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self.full_path(name))

    def files(self, name: str, *, deep: bool = True) -> list[str]:
        self._fs.invalidate_cache()
        depth = None if deep else 1
        try:
            paths = self._fs.find(self.full_path(name), maxdepth=depth)
            return [path.removeprefix(f"{self._root}/") for path in paths]
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def lock(self, wait_s: float) -> Iterator[None]:
        # Not every protocol can create a file exclusively. With those that cannot, two
        # syncs that start at the same instant could both succeed.
        deadline = time.monotonic() + wait_s
        own_name = f"{_process_name()} {uuid.uuid4().hex}"
        while True:
            lock = self._read_lock()
            if lock is None or time.time() - lock[1] > LOCK_EXPIRES_S:
                self._write_lock(own_name)
                if self._lock_holder() == own_name:
                    break
            if time.monotonic() >= deadline:
                raise StoreBusy(
                    f"Another process ({lock[0] if lock is not None else 'unknown'}) is changing the store {self._url}; "
                    f"waited {wait_s:g} s. Try again when it is done. If it was killed, its lock expires "
                    f"{LOCK_EXPIRES_S / 60:.0f} minutes later."
                )
            time.sleep(0.2)
        done = threading.Event()
        refresher = threading.Thread(
            target=self._refresh_lock, args=(own_name, done), name="agentbook-lock", daemon=True
        )
        refresher.start()
        try:
            yield
        finally:
            done.set()
            refresher.join()
            self._lock_lost_to = None
            if self._lock_holder() == own_name:
                self.remove(LOCK)

    def _refresh_lock(self, own_name: str, done: threading.Event) -> None:
        """Refresh the lock from time to time; notice if another process acquired it.

        That happens if this machine slept until the lock had expired.
        """
        while not done.wait(LOCK_EXPIRES_S / 10):
            with contextlib.suppress(StoreError):  # the network may be back next time
                holder = self._lock_holder()
                if holder is not None and holder != own_name:
                    self._lock_lost_to = holder
                    return
                self._write_lock(own_name)

    def _read_lock(self) -> tuple[str, float] | None:
        """Who holds the lock, and when they refreshed it; None if nobody does."""
        data = self.read(LOCK)
        if data is None:
            return None
        try:
            lock = json.loads(data)
            return str(lock["holder"]), float(lock["at"])
        except (ValueError, KeyError, TypeError):
            return "unknown", 0.0

    def _lock_holder(self) -> str | None:
        lock = self._read_lock()
        return None if lock is None else lock[0]

    def _write_lock(self, holder: str) -> None:
        self.write(LOCK, json.dumps({"holder": holder, "at": time.time()}).encode())

    def arrow_filesystem(self) -> Any:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(self._fs))


def _open_private(path: str, flags: int) -> int:
    # Events hold what people wrote: nobody else on this machine may read them.
    return os.open(path, flags, 0o600)


def _process_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    return error.strerror or str(error)


def _sync_directory(path: Path) -> None:
    """Make a rename durable; systems without directory handles do so on their own."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
