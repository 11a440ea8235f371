"""Checks of the embedded service: its data directory, secrets, process and port."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ..embedded import data_directory, find, port_is_free
from ..service.data_directory import KEY_FILE
from ..service.discovery_file import SERVICE_FILE, is_alive, read
from .finding import Finding

SERVE_PORT = 8765
MOUNTS = Path("/proc/mounts")
MIN_FREE_BYTES = 50_000_000
LOW_FREE_BYTES = 500_000_000
# SQLite's write-ahead log needs shared memory and reliable locks; these may lack them.
NETWORK_FILE_SYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "drvfs",
    "fuse.sshfs",
    "fuse.rclone",
    "fuse.s3fs",
    "lustre",
    "beegfs",
    "afs",
    "ceph",
    "gpfs",
)


def directory() -> Iterator[Finding]:
    """Whether the data directory can be written and belongs to this user."""
    path = data_directory()
    nearest = _nearest_existing(path)
    if not _can_hold_data(nearest):
        message = f"{path} cannot be written, so connect() cannot start the embedded service"
        yield Finding(
            "wrong", "data directory", message, "Set AGENTBOOK_DATA to a directory of your own that can be written."
        )
    elif path.is_dir() and hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid():
        message = f"{path} belongs to another user: each user needs a data directory and a key of their own"
        yield Finding("wrong", "data directory", message, "Set AGENTBOOK_DATA to a directory of your own.")
    elif not path.is_absolute():
        message = f"AGENTBOOK_DATA is the relative path {path}: each working folder gets a service and data of its own"
        yield Finding("note", "data directory", message, f"export AGENTBOOK_DATA={path.absolute()}")
    else:
        yield Finding("ok", "data directory", str(path))


def file_system() -> Iterator[Finding]:
    """Whether the data directory is on a local disk."""
    path = data_directory().absolute()
    kind = _file_system_of(path)
    if kind is not None and kind.startswith(NETWORK_FILE_SYSTEMS):
        message = f"{path} is on a network file system ({kind}), where SQLite may lose or damage the store"
        yield Finding(
            "wrong",
            "file system",
            message,
            "Set AGENTBOOK_DATA to a directory on a local disk, such as below /tmp or /var/tmp.",
        )


def disk() -> Iterator[Finding]:
    """Whether there is space for the store, the log and the tutorials."""
    path = _nearest_existing(data_directory())
    free = shutil.disk_usage(path).free
    if free < LOW_FREE_BYTES and _can_hold_data(path):  # else `directory` says what to do
        message = f"{free / 1e6:.0f} MB free at {path}; a new store takes about 20 MB, and writes fail on a full disk"
        yield Finding(
            "wrong" if free < MIN_FREE_BYTES else "note",
            "disk",
            message,
            "Free some space, or set AGENTBOOK_DATA to another disk.",
        )


def secrets() -> Iterator[Finding]:
    """Whether only their owner can read the files that contain secrets."""
    if sys.platform == "win32":
        return
    import platformdirs

    tokens = platformdirs.user_config_path("agentbook") / "tokens"
    token_files = sorted(tokens.glob("*.json")) if os.access(tokens, os.R_OK | os.X_OK) else []
    for file in (data_directory() / KEY_FILE, data_directory() / "admin-token", *token_files):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            message = f"{file} holds a secret, and other users of this machine can read it (mode {mode:03o})"
            yield Finding(
                "wrong", "secrets", message, f"chmod 600 '{file}'; if others may have read it, revoke the secret"
            )


def service() -> Iterator[Finding]:
    """Whether the service in the discovery file is running and answers."""
    file = data_directory() / SERVICE_FILE
    try:
        service_record = read(data_directory())
    except FileNotFoundError:
        yield Finding("ok", "embedded service", "not running; connect() starts it when needed")
        return
    except PermissionError:
        return  # reported by `directory`
    except (OSError, ValueError):
        yield Finding(
            "wrong",
            "embedded service",
            f"{file} cannot be read",
            f"Delete it: rm '{file}'; connect() starts a new service.",
        )
        return
    pid, base_url = service_record.pid, service_record.base_url
    if find() is not None:
        yield Finding("ok", "embedded service", f"answers at {base_url} (pid {pid})")
        yield from _outdated(service_record.started_at, pid)
    elif is_alive(pid):
        message = (
            f"its process {pid} exists but does not answer at {base_url}, so connect() can neither use nor replace it"
        )
        yield Finding(
            "wrong", "embedded service", message, f"End it with `kill {pid}`, then run the cell with connect() again."
        )
    else:
        message = f"it was killed, or the machine was restarted: {file} is stale"
        yield Finding(
            "note",
            "embedded service",
            message,
            "Run the cell with connect() again: it starts a new service on the same data.",
        )


def _outdated(started_at: str, pid: int) -> Iterator[Finding]:
    """Whether the service was started before the last upgrade, and runs older code."""
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return
    installed = datetime.fromtimestamp((Path(__file__).parents[1] / "__init__.py").stat().st_mtime, UTC)
    if started.replace(tzinfo=started.tzinfo or UTC) < installed:
        message = f"process {pid} was started before agentbook was last installed, and still runs the older code"
        yield Finding(
            "note",
            "embedded service",
            message,
            f"End it with `kill {pid}`; connect() starts the new one on the same data.",
        )


def port() -> Iterator[Finding]:
    """Whether the default port of `agentbook serve` is free."""
    if port_is_free(SERVE_PORT):
        return
    running = find()
    if running is None or not running.base_url.endswith(f":{SERVE_PORT}/v1"):
        message = f"{SERVE_PORT} is in use by another program, so `agentbook serve` exits at once"
        advice = (
            "agentbook serve --port 8766 uses another; `agentbook lab` and connect() find a free one by themselves."
        )
        yield Finding("note", "port", message, advice)


def _nearest_existing(path: Path) -> Path:
    """`path` or its nearest existing parent (maybe another user's private folder)."""
    # Path.exists raises in a folder that may not be entered; os.path.exists does not.
    return next((folder for folder in (path, *path.absolute().parents) if os.path.exists(folder)), Path.cwd())


def _can_hold_data(folder: Path) -> bool:
    """Whether files can be created there; for root, even /proc looks writable."""
    is_open = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return is_open and shutil.disk_usage(folder).total > 0


def _file_system_of(path: Path) -> str | None:
    """The type of a path's file system; None if this system lists no mounts."""
    try:
        lines = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return None
    path = path.resolve()
    mounts = [
        (mount.replace(r"\040", " "), kind)
        for _, mount, kind, *_ in lines
        if path.is_relative_to(mount.replace(r"\040", " "))
    ]
    return max(mounts, key=lambda mount: len(mount[0]))[1] if mounts else None
