from __future__ import annotations

import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook.api.oauth.token_store import Tokens, TokenStore

TOKENS = Tokens("https://h/v1", "client", "https://h/v1/oauth/token", "access-1", "refresh-1", "agents:read")


class Ring:
    """A keyring that keeps what it is given."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def module(self) -> Any:
        return SimpleNamespace(
            get_password=lambda service, account: self.entries.get((service, account)),
            set_password=lambda service, account, text: self.entries.__setitem__((service, account), text),
            delete_password=lambda service, account: self.entries.pop((service, account)),
        )


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


def test_without_a_keyring_they_are_in_a_file_of_the_owners(tmp_path: Path) -> None:
    store = TokenStore("https://h/v1/", tmp_path / "tokens")
    store.save(TOKENS)
    assert TokenStore("https://h/v1", tmp_path / "tokens").load() == TOKENS
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]
    store.forget()
    assert store.load() is None


def test_a_keyring_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, store = Ring(), TokenStore("https://h/v1", tmp_path)
    store.save(TOKENS)  # before there was one
    monkeypatch.setitem(sys.modules, "keyring", ring.module())
    store.save(TOKENS)
    assert not store.path.exists()
    assert list(ring.entries) == [("agentbook", "oauth https://h/v1")]
    assert store.load() == TOKENS
    store.forget()
    assert ring.entries == {}


def test_a_keyring_that_fails_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: str) -> str:
        raise RuntimeError("no backend")

    monkeypatch.setitem(
        sys.modules, "keyring", SimpleNamespace(get_password=broken, set_password=broken, delete_password=broken)
    )
    store = TokenStore("https://h/v1", tmp_path)
    store.save(TOKENS)
    assert store.load() == TOKENS
    store.forget()
    assert store.load() is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"base_url": "https://h/v1"}'])
def test_a_damaged_file_is_no_tokens(tmp_path: Path, content: str) -> None:
    store = TokenStore("https://h/v1", tmp_path)
    store.path.write_text(content)
    assert store.load() is None


def test_tokens_of_another_platform_are_not_used(tmp_path: Path) -> None:
    other = TokenStore("https://elsewhere/v1", tmp_path)
    other.save(TOKENS)
    assert other.load() is None


def test_what_a_renewal_leaves_out_stays() -> None:
    refreshed = TOKENS.refreshed({"access_token": "access-2"})
    assert (refreshed.access_token, refreshed.refresh_token, refreshed.scope) == (
        "access-2",
        "refresh-1",
        "agents:read",
    )
    assert TOKENS.refreshed({"access_token": "a", "refresh_token": "refresh-2"}).refresh_token == "refresh-2"


def test_their_repr_shows_no_token() -> None:
    assert "access-1" not in repr(TOKENS)
    assert "refresh-1" not in repr(TOKENS)
