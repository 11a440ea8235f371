"""Files that several processes share: a lock, and writing a file as a whole.

Only the standard library is needed, so that both the service and the client side can
use it. The library `filelock` was considered and rejected: on Windows it locks the byte
with which the holder's name would start, and importing it takes longer than the rest of
this package's start.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

_POLL_S = 0.05
_BUSY_S = 2.0
_BUSY_ON_WINDOWS = (5, 32, 33)  # access denied, sharing violation, lock violation
# What locking raises where the file system has no locks, as some of NFS and Lustre.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)

if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> bool:
        # Lock a byte far beyond the holder's name: Windows locks are mandatory, and
        # other processes must be able to read the name.
        os.lseek(fd, 4096, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


class FileLock:
    """A lock that one thread of one process holds at a time.

    The operating system releases it when its holder dies, however it dies, so a crash
    leaves nothing to clean up. The file itself stays: removing it would let two
    processes lock two files with the same name.

    Parameters
    ----------
    path : Path
        The file to lock. It is created, for this user alone, if it does not exist.
    holder : str
        A name, written to the file once the lock is held. A process that finds the file
        locked can show it.
    optional : bool
        Whether a file system without locks counts as one that nobody else uses.

    Raises
    ------
    OSError
        If the file cannot be opened, or is a symbolic link. When it is to be locked, if
        its file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> with FileLock(path, holder="process 1"):
    ...     other = FileLock(path)
    ...     other.acquire(timeout_s=0), other.holder()
    (False, 'process 1')
    """

    def __init__(self, path: Path, *, holder: str = "", optional: bool = False) -> None:
        self._path, self._name, self._optional = path, holder, optional
        # With a link, the holder's name would be written to the file that it points to.
        self._fd = open_own(path, os.O_RDWR | os.O_CREAT)

    def acquire(self, *, timeout_s: float = math.inf) -> bool:
        """Take the lock within `timeout_s` seconds; False if another holder kept it."""
        deadline = time.monotonic() + timeout_s
        try:
            while not _try_lock(self._fd):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_S)  # flock cannot wait with a timeout
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            if not self._optional:
                reason = "its file system has no locks: use a folder on a local disk"
                raise OSError(error.errno, reason, str(self._path)) from None
        if self._name:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, self._name.encode())
        return True

    def holder(self) -> str:
        """The name that the last holder wrote; ``unknown`` if it wrote none."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        return os.read(self._fd, 200).decode("utf-8", "replace").strip() or "unknown"

    def release(self) -> None:
        """Release the lock if it is held, and close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileLock:
        try:
            self.acquire()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def local_path(name: str = "") -> Path:
    """A path for what is kept on this computer, beyond the end of a process.

    In ``AGENTBOOK_DATA``, or in this user's directory for application data; without a
    name, that directory.
    """
    if value := os.environ.get("AGENTBOOK_DATA"):
        return Path(value).expanduser() / name
    from platformdirs import user_data_path

    return user_data_path("agentbook") / name


def packaged(folder: str) -> Path:
    """A folder that comes with the package: within it, or beside ``src``."""
    package = Path(__file__).parent
    return next(filter(Path.is_dir, (package / folder, package.parents[1] / folder)))


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    if not folder.exists():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def own_path(folder: Path, name: str) -> Path:
    """The path of a file that this package names, in a folder.

    A link there is refused, because whoever made the folder, such as a cloned
    repository or a colleague, could have it lead to any file of this user. A path that
    a person named may be a link: `atomic_write` replaces its target.

    Raises
    ------
    FileExistsError
        If the file or a folder of `name` is a link.

    Examples
    --------
    >>> own_path(Path("reports"), "results.json").as_posix()
    'reports/results.json'
    """
    here = Path(os.path.realpath(folder), name)
    if (target := Path(os.path.realpath(here))) != here:
        raise FileExistsError(f"{folder / name} leads to {target}: remove this link, or name another place")
    return folder / name


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that replaces `path` when the block ends.

    If the block raises, `path` is as it was before, and nothing else is left behind.

    Parameters
    ----------
    path : str or path
        The file. Its permissions are kept; a new file gets the usual permissions of
        this process. ``~`` is the home directory. If it is a link, its target is
        replaced: whoever calls this with a name of our own asks `own_path` first.
    private : bool
        True makes the file readable only by its owner, from the first byte on. It is
        one of our own, so a link is refused.

    Raises
    ------
    OSError
        If the file cannot be written; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_write(path) as file:
    ...     size = file.write(b"all or nothing")
    >>> path.read_text()
    'all or nothing'
    """
    target = Path(path).expanduser()
    if private:
        own_path(target.parent, target.name)
    target = target.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be written: there is no folder {target.parent}. Create it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} cannot be written: it is a folder. Add the name of a file.")
    temporary = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb", opener=open_own if private else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists() and not private:
            shutil.copymode(target, temporary)
        replace_file(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: str | os.PathLike[str], text: str, *, private: bool = False) -> None:
    """Replace a file by this text, as a whole or not at all; see `atomic_write`.

    Half a surrogate pair, which broken JSON may hold, is written as its escape.
    """
    with atomic_write(path, private=private) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def append(path: Path, lines: bytes, *, private: bool = False, durable: bool = True) -> None:
    """Add whole lines to a file; they are on the disk when this returns.

    What a process that was killed left of its last line is ended first. The file is
    made if it does not exist, for this user alone if it is `private`. If it need not be
    `durable`, the system writes it to the disk in its own time. A link is refused; see
    `own_path`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lines"
    >>> size = path.write_bytes(b"half a li")
    >>> append(path, b"one\\n")
    >>> path.read_bytes()
    b'half a li\\none\\n'
    """
    own_path(path.parent, path.name)
    with open(path, "a+b", buffering=0, opener=open_own if private else partial(open_own, mode=0o666)) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            lines = b"\n" * (file.read(1) != b"\n") + lines
        while lines:
            lines = lines[os.write(file.fileno(), lines) :]
        if durable:
            os.fsync(file.fileno())


def replace_file(source: Path, target: Path) -> None:
    """Move a file or folder to another name, in place of what has it.

    On Windows, that fails while another process, such as a virus scanner, has one of
    the two open; so it is tried again for `_BUSY_S` seconds.
    """
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _BUSY_ON_WINDOWS or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_S)


def file_path(path: str | os.PathLike[str], caller: str) -> Path:
    """A path as the user wrote it; ``~`` is the home directory.

    Raises
    ------
    TypeError
        If it is not a path; the message names `caller`.

    Examples
    --------
    >>> file_path(None, "ab.export")
    Traceback (most recent call last):
    ...
    TypeError: ab.export needs the path of the file to write, such as ...
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{caller} needs the path of the file to write, such as 'turns.html', not {path!r:.80}.")
    return Path(path).expanduser()


def open_own(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """For `open`: opens a file that this package names, and no link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)
