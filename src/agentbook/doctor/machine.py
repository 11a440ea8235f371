"""The embedded service's place on this machine: its directory, its secrets, its process and its port."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ..embedded import KEY_FILE, data_directory, find, port_is_free
from ..service.discovery_file import SERVICE_FILE, is_alive, read
from .finding import Finding

SERVE_PORT = 8765
MOUNTS = Path("/proc/mounts")
LEAST_FREE_BYTES = 50_000_000
LITTLE_FREE_BYTES = 500_000_000
# SQLite's write-ahead log needs memory that processes share, and locks that hold; these have neither, or not always.
REMOTE = (
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
    """The data directory can be written, and is this user's."""
    place = data_directory()
    nearest = _nearest(place)  # of another user's private folder: that folder
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found = f"{place} cannot be written, so connect() cannot start the embedded service"
        yield Finding(
            "wrong", "data directory", found, "Set AGENTBOOK_DATA to a directory of your own that can be written."
        )
    elif place.is_dir() and hasattr(os, "geteuid") and place.stat().st_uid != os.geteuid():
        found = f"{place} belongs to another user: two people cannot share one, and its key is the other's"
        yield Finding("wrong", "data directory", found, "Set AGENTBOOK_DATA to a directory of your own.")
    elif not place.is_absolute():
        found = f"AGENTBOOK_DATA is {place}, without its beginning: every folder has a service and data of its own"
        yield Finding("note", "data directory", found, f"export AGENTBOOK_DATA={place.absolute()}")
    else:
        yield Finding("ok", "data directory", str(place))


def file_system() -> Iterator[Finding]:
    """The data directory is on a disk of this machine."""
    place = data_directory().absolute()
    kind = _file_system_of(place)
    if kind is not None and kind.startswith(REMOTE):
        found = f"{place} is on a network file system ({kind}), where SQLite may lose or damage the store"
        yield Finding(
            "wrong",
            "file system",
            found,
            "Set AGENTBOOK_DATA to a directory on a local disk, such as below /tmp or /var/tmp.",
        )


def disk() -> Iterator[Finding]:
    """Room for the store, the log and the tutorials."""
    place = _nearest(data_directory())
    free = shutil.disk_usage(place).free
    if free < LITTLE_FREE_BYTES:
        found = f"{free / 1e6:.0f} MB free at {place}; a fresh store takes some 20 MB, and writes fail when it is full"
        yield Finding(
            "wrong" if free < LEAST_FREE_BYTES else "note",
            "disk",
            found,
            "Free some space, or set AGENTBOOK_DATA to another disk.",
        )


def secrets() -> Iterator[Finding]:
    """Files with secrets in them are their owner's alone."""
    if sys.platform == "win32":
        return
    import platformdirs

    tokens = platformdirs.user_config_path("agentbook") / "tokens"
    kept = sorted(tokens.glob("*.json")) if os.access(tokens, os.R_OK | os.X_OK) else []
    for file in (data_directory() / KEY_FILE, data_directory() / "admin-token", *kept):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            found = f"{file} holds a secret, and others on this machine can read it (mode {mode:03o})"
            yield Finding(
                "wrong", "secrets", found, f"chmod 600 '{file}'; if others may have read it, revoke what is in it"
            )


def service() -> Iterator[Finding]:
    """The embedded service that is said to run, runs and answers."""
    file = data_directory() / SERVICE_FILE
    try:
        described = read(data_directory())
    except FileNotFoundError:
        yield Finding("ok", "embedded service", "not running; connect() starts it when it is needed")
        return
    except PermissionError:
        return  # said already, by `directory`
    except (OSError, ValueError):
        yield Finding(
            "wrong",
            "embedded service",
            f"{file} cannot be read",
            f"Delete it: rm '{file}'; connect() starts a new service.",
        )
        return
    pid, base_url = described.pid, described.base_url
    if find() is not None:
        yield Finding("ok", "embedded service", f"answers at {base_url} (pid {pid})")
        yield from _outdated(described.started_at, pid)
    elif is_alive(pid):
        found = (
            f"its process {pid} is there and does not answer at {base_url}, so connect() can neither use nor replace it"
        )
        yield Finding(
            "wrong", "embedded service", found, f"End it with `kill {pid}`, then run the cell with connect() again."
        )
    else:
        found = f"it ended without saying so (it was killed, or the machine was restarted): {file} is stale"
        yield Finding(
            "note",
            "embedded service",
            found,
            "Run the cell with connect() again: it starts a new one on the same data.",
        )


def _outdated(started_at: str, pid: int) -> Iterator[Finding]:
    """A service that is older than the code: an upgrade does not reach it before it is started again."""
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return
    installed = datetime.fromtimestamp((Path(__file__).parents[1] / "__init__.py").stat().st_mtime, UTC)
    if started.replace(tzinfo=started.tzinfo or UTC) < installed:
        found = f"process {pid} was started before agentbook was last installed, and still runs the older code"
        yield Finding(
            "note",
            "embedded service",
            found,
            f"End it with `kill {pid}`; connect() starts the new one on the same data.",
        )


def port() -> Iterator[Finding]:
    """The port that `agentbook serve` takes."""
    if port_is_free(SERVE_PORT):
        return
    running = find()
    if running is None or not running.base_url.endswith(f":{SERVE_PORT}/v1"):
        found = f"{SERVE_PORT} is in use by another program, so `agentbook serve` ends at once"
        advice = (
            "agentbook serve --port 8766 takes another; `agentbook lab` and connect() find a free one by themselves."
        )
        yield Finding("note", "port", found, advice)


def _nearest(place: Path) -> Path:
    # os.path, since Path.exists raises below a folder that may not be entered.
    return next((path for path in (place, *place.absolute().parents) if os.path.exists(path)), Path.cwd())


def _file_system_of(place: Path) -> str | None:
    """The type of the file system that a path is on; None where this system does not tell."""
    try:
        lines = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return None
    place = place.resolve()
    on = [
        (mount.replace(r"\040", " "), kind)
        for _, mount, kind, *_ in lines
        if place.is_relative_to(mount.replace(r"\040", " "))
    ]
    return max(on, key=lambda found: len(found[0]))[1] if on else None
