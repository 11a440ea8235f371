"""Whose files a store touches, and who may read them: a store may come from somebody
else, and what is in it must not lead out of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbook.frames import session_log
from agentbook.frames.store.storage import StoreError, open_storage
from agentbook.frames.store.store import Store
from frames.stored import everything, three_days
from support.fake_platform.over_http import HttpPlatform

DIGITS = "0" * 32
needs_links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@pytest.fixture
def platform() -> HttpPlatform:
    return three_days()


@pytest.fixture
def store(platform: HttpPlatform, tmp_path: Path) -> Store:
    """Two parts for each day."""
    store = Store(tmp_path / "store", groups=1)
    store.sync(platform.client(), ["s0", "s1"])
    store.sync(platform.client(), list(platform.sessions))
    return store


def change_manifest(store: Store, change: Callable[[dict[str, object]], None]) -> None:
    path = Path(store.path) / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "name",
    [
        "../precious.parquet",
        "events/../../precious.parquet",
        f"events/day=2026-10-03/group=0/../../../../part-{DIGITS}.parquet",
        f"/events/day=2026-10-03/group=0/part-{DIGITS}.parquet",
        f"events/day=..\\..\\..\\precious/group=0/part-{DIGITS}.parquet",
        f"events\\day=2026-10-03\\group=0\\part-{DIGITS}.parquet",
        f"C:events/day=2026-10-03/group=0/part-{DIGITS}.parquet",
        f"events/day=2026-10-03/group=0/part-{DIGITS}.parquet\n",
        f"events/day=٢٠٢٦-10-03/group=0/part-{DIGITS}.parquet",
        "manifest.json",
        "lock",
    ],
)
def test_a_manifest_names_only_parts_that_a_store_writes(store: Store, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious.parquet"
    precious.write_text("mine")

    def add_part(manifest: dict[str, object]) -> None:
        parts = manifest["parts"]
        assert isinstance(parts, list)
        parts += [{**parts[0], "name": name}, {**parts[0], "name": name}]

    change_manifest(store, add_part)
    for use in (
        store.compact,
        store.events,
        store.verify,
        lambda: store.verify(repair=True),
        lambda: Store(store.path),
    ):
        with pytest.raises(StoreError, match=r"damaged.*name"):
            use()
    assert precious.read_text() == "mine"


def test_an_absolute_name_is_refused_too(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious.parquet"
    precious.write_text("mine")
    change_manifest(store, lambda manifest: manifest["parts"][0].update(name=str(precious)))  # type: ignore[index]
    with pytest.raises(StoreError, match="damaged"):
        store.compact()
    assert precious.exists()


@pytest.mark.parametrize("groups", [0, -1, 10**9, "eight"])
def test_a_manifest_has_a_possible_number_of_groups(store: Store, groups: object) -> None:
    change_manifest(store, lambda manifest: manifest.update(groups=groups))
    with pytest.raises(StoreError, match=r"damaged.*groups"):
        store.to_dask()


@needs_links
def test_a_linked_directory_leads_nowhere(store: Store, platform: HttpPlatform, tmp_path: Path) -> None:
    """`compact` would remove the files that it joined from the linked directory."""
    root, outside = Path(store.path), tmp_path / "outside"
    day = min((root / "events").iterdir())
    day.rename(outside)
    day.symlink_to(outside, target_is_directory=True)
    before = sorted(outside.rglob("*"))
    for use in (store.compact, store.events, lambda: store.query("SELECT 1 FROM events")):
        with pytest.raises(StoreError, match="symbolic link"):
            use()
    assert "symbolic link" in store.verify()["problem"].iloc[0]
    assert sorted(outside.rglob("*")) == before
    day.unlink()
    store.verify(repair=True)
    store.sync(platform.client())
    assert sorted(store.events()["id"]) == everything(platform)


@needs_links
@pytest.mark.parametrize("name", ["events", "manifest.json", "lock"])
def test_no_file_of_a_store_is_a_link(store: Store, platform: HttpPlatform, tmp_path: Path, name: str) -> None:
    path, outside = Path(store.path) / name, tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    before = outside.read_bytes() if outside.is_file() else sorted(outside.rglob("*"))
    with pytest.raises(StoreError, match="symbolic link"):
        store.sync(platform.client())
    assert (outside.read_bytes() if outside.is_file() else sorted(outside.rglob("*"))) == before


@needs_links
def test_a_store_may_itself_be_reached_through_a_link(store: Store, platform: HttpPlatform, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store.path, target_is_directory=True)
    linked = Store(link)
    linked.compact()
    assert sorted(linked.events()["id"]) == everything(platform)


@needs_links
def test_an_unfinished_file_that_is_a_link_is_removed_and_not_its_target(
    store: Store, platform: HttpPlatform, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    directory = min((Path(store.path) / "events").glob("*/*"))
    unfinished = directory / f".writing-{DIGITS}"
    unfinished.symlink_to(precious)
    store.sync(platform.client())
    assert not os.path.lexists(unfinished)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../x", "a//x", "a\\x", "C:x", "a\0"])
def test_a_storage_reads_writes_and_removes_nothing_outside(tmp_path: Path, name: str) -> None:
    storage = open_storage(tmp_path / "store")
    (tmp_path / "x").write_text("mine")
    for use in (
        lambda: storage.read(name), lambda: storage.write(name, b""), lambda: storage.remove(name),
        lambda: storage.files(name), lambda: storage.full_path(name),
    ):  # fmt: skip
        with pytest.raises(StoreError, match="leads out of it"):
            use()
    assert (tmp_path / "x").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_only_the_owner_can_read_what_is_stored(
    platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a file is being written, and whatever the umask is."""
    log = tmp_path / "log" / "sessions.jsonl"
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(log))
    modes: dict[str, int] = {}
    fsync = os.fsync

    def observe(handle: int) -> None:
        modes[f"descriptor {len(modes)}"] = os.fstat(handle).st_mode
        fsync(handle)

    old = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", observe)
            store = Store(tmp_path / "store")
            store.sync(platform.client(), list(platform.sessions))
            store.compact()
        session_log.note(platform.client(), "s0")
    finally:
        os.umask(old)
    for path in [log.parent, log, *(tmp_path / "store").rglob("*"), tmp_path / "store"]:
        modes[str(path)] = path.stat().st_mode
    assert len(modes) > 20
    directories = {path for path, mode in modes.items() if mode & 0o040000}
    shared = {path: oct(mode) for path, mode in modes.items() if path not in directories and mode & 0o077}
    assert not shared
    assert not (tmp_path / "store").stat().st_mode & 0o077
    assert not log.parent.stat().st_mode & 0o077
