"""Where a store lies: a directory of this machine, or any fsspec URL. Whole files appear at once, or not at all.

Names are relative, with ``/``. A local file is written beside its place, synced to disk and renamed; object stores replace
an object as a whole by themselves.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ..._file_lock import FileLock
from ...api.errors import AgentbookError

TEMPORARY = ".writing-"  # begins the name of a file that is not there yet
LOCK = "lock"
STALE_S = 900.0  # a remote lock that was not renewed for so long belongs to nobody


class StoreError(AgentbookError):
    """A store could not be read or written; the message names the file."""


class StoreBusy(StoreError):
    """Another process is changing the store."""


class Storage(Protocol):
    """What a store needs of the ground it stands on."""

    def show(self, name: str) -> str:
        """The whole path of a file, for messages and for readers."""
        ...

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where there is none."""
        ...

    def write(self, name: str, data: Any) -> None:
        """Put a file in place as a whole, safe on disk when this returns."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens where there is none."""
        ...

    def files(self, name: str) -> dict[str, int]:
        """All files below a directory, with their sizes in bytes."""
        ...

    def locked(self, wait_s: float) -> contextlib.AbstractContextManager[None]:
        """Be the only one who changes the store; `StoreBusy` if somebody else still is after so many seconds."""
        ...

    def arrow(self) -> Any:
        """The `pyarrow.fs.FileSystem` to read by, with paths as `show` gives them."""
        ...


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """The place a path or URL names."""
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return Remote(text) if "://" in text else Local(Path(text).expanduser().absolute())


class Local:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def show(self, name: str) -> str:
        return str(self.root / name) if name else str(self.root)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"The store's {self.show(name)} cannot be read: {_reason(error)}.") from error

    def write(self, name: str, data: Any) -> None:
        path = self.root / name
        temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_directory(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreError(
                f"The store's {path} cannot be written: {_reason(error)}. What was in the store before is unharmed."
            ) from error

    def remove(self, name: str) -> None:
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"The store's {self.show(name)} cannot be removed: {_reason(error)}.") from error

    def files(self, name: str) -> dict[str, int]:
        found = {}
        for directory, _, names in os.walk(self.root / name):
            for one in names:
                path = Path(directory) / one
                with contextlib.suppress(FileNotFoundError):
                    found[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return found

    @contextlib.contextmanager
    def locked(self, wait_s: float) -> Iterator[None]:
        path = self.root / LOCK
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path, holder=_holder(), mode=0o666)
        except OSError as error:
            raise StoreError(f"The store's {path} cannot be opened: {_reason(error)}.") from error
        try:
            if not lock.acquire(timeout_s=wait_s):
                raise StoreBusy(
                    f"Another process ({lock.holder()}) is changing the store {self.root}; waited {wait_s:g} s. "
                    "Try again when it is done, or give more with wait_s=."
                )
            yield
        finally:
            lock.release()

    def arrow(self) -> Any:
        import pyarrow.fs

        return pyarrow.fs.LocalFileSystem()


class Remote:
    """A place that fsspec opens: ``s3://``, ``gs://``, ``abfs://``, ``memory://``, ..."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise StoreError(
                f"A store at {url} needs fsspec: pip install fsspec, and what its protocol needs."
            ) from None
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url.rstrip("/"))
        except (ImportError, ValueError) as error:
            raise StoreError(f"A store at {url} cannot be opened: {error}") from error
        self._url = url.rstrip("/")
        self._taken_by: str | None = None  # who took the lock while it was held here

    def show(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def read(self, name: str) -> bytes | None:
        try:
            found: bytes = self._fs.cat_file(self.show(name))
            return found
        except FileNotFoundError:
            return None
        except Exception as error:  # each protocol raises errors of its own
            raise StoreError(f"The store's {self._url}/{name} cannot be read: {error}") from error

    def write(self, name: str, data: Any) -> None:
        if self._taken_by is not None:
            raise StoreBusy(
                f"The store's {self._url}/{name} is not written: another process ({self._taken_by}) took the store over, since "
                f"this one had not been heard of for {STALE_S / 60:.0f} minutes. Sync again when it is done."
            )
        try:
            parent = self.show(name).rpartition("/")[0]
            self._fs.makedirs(parent, exist_ok=True)
            self._fs.pipe_file(self.show(name), bytes(data))
        except Exception as error:
            raise StoreError(
                f"The store's {self._url}/{name} cannot be written: {error}. What was in the store before is unharmed."
            ) from error

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self.show(name))

    def files(self, name: str) -> dict[str, int]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self.show(name), detail=True)
        except FileNotFoundError:
            return {}
        return {path.removeprefix(f"{self._root}/"): int(facts["size"] or 0) for path, facts in found.items()}

    @contextlib.contextmanager
    def locked(self, wait_s: float) -> Iterator[None]:
        # Not every protocol can create exclusively; among those that cannot, two syncs begun in one instant could both pass.
        until = time.monotonic() + wait_s
        mine = f"{_holder()} {uuid.uuid4().hex}"
        while True:
            held = self._lock()
            if held is None or time.time() - held[1] > STALE_S:
                self._hold(mine)
                if (self._lock() or ("", 0))[0] == mine:
                    break
            if time.monotonic() >= until:
                holder = held[0] if held is not None else "unknown"
                raise StoreBusy(
                    f"Another process ({holder}) is changing the store {self._url}; waited {wait_s:g} s. Try again when it "
                    f"is done. If it was killed, its lock ends {STALE_S / 60:.0f} minutes after it was."
                )
            time.sleep(0.2)
        done = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(mine, done), name="agentbook-lock", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            done.set()
            renewal.join()
            self._taken_by = None
            if (self._lock() or ("", 0))[0] == mine:
                self.remove(LOCK)

    def _renew(self, mine: str, done: threading.Event) -> None:
        """Say now and then that the lock is still held, and notice if somebody took it for left behind (after a long sleep)."""
        while not done.wait(STALE_S / 10):
            with contextlib.suppress(StoreError):  # the network may be back next time
                held = self._lock()
                if held is not None and held[0] != mine:
                    self._taken_by = held[0]
                    return
                self._hold(mine)

    def _lock(self) -> tuple[str, float] | None:
        """Who holds the lock, and since when; None where nobody does."""
        data = self.read(LOCK)
        if data is None:
            return None
        try:
            held = json.loads(data)
            return str(held["holder"]), float(held["at"])
        except (ValueError, KeyError, TypeError):
            return "unknown", 0.0

    def _hold(self, mine: str) -> None:
        self.write(LOCK, json.dumps({"holder": mine, "at": time.time()}).encode())

    def arrow(self) -> Any:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(self._fs))


def _holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    return error.strerror or str(error)


def _sync_directory(path: Path) -> None:
    """Make a rename last; systems without directory handles do so by themselves."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
