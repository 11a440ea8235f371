"""A file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentbook._whole_file import whole_file


def test_a_block_that_raises_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for before in (None, b"before"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(TypeError), whole_file(path) as file:
            file.writelines([b"half", None])  # type: ignore[list-item]
        assert [each.read_bytes() for each in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.skipif(os.name == "nt", reason="modes and links are those of POSIX")
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert link.is_symlink()


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"it is a folder"), whole_file(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match=r"there is no folder"), whole_file(tmp_path / "none" / "x"):
        pass
