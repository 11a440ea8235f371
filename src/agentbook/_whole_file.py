"""Writes a file atomically: as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that replaces `path` when the block ends.

    If the block raises, `path` is as it was before, and nothing else is left behind.

    Parameters
    ----------
    path : str or path
        The file. Its permissions are kept; a new file gets the usual permissions of
        this process. ``~`` is the home directory. If it is a link, its target is
        replaced.
    private : bool
        True makes the file readable only by its owner, from the first byte on.

    Raises
    ------
    OSError
        If the file cannot be written; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with whole_file(path) as file:
    ...     size = file.write(b"all or nothing")
    >>> path.read_text()
    'all or nothing'
    """
    target = Path(path).expanduser().resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be written: there is no folder {target.parent}. Create it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} cannot be written: it is a folder. Add the name of a file.")
    temporary = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb", opener=_open_private if private else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists() and not private:
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


__all__ = ["file_path", "whole_file"]
