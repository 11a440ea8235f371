"""Stores OAuth tokens between kernels: in the system's keyring, or in a private file.

A refresh token works once, and using a spent one revokes every token of the
authorization ("Authentication", rule 8). Tokens are therefore read, refreshed and
written under one lock for all processes of this user, so two kernels never spend the
same token.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..._file_lock import FileLock
from ..redaction import Hidden

KEYRING_SERVICE = "agentbook"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one authorization. Its repr does not show them."""

    base_url: str
    client_id: str
    token_endpoint: str
    access_token: str
    refresh_token: str | None = None
    scope: str | None = None

    def refreshed(self, reply: dict[str, Any]) -> Tokens:
        """The tokens after a reply, which may leave the refresh token as it is."""
        return replace(
            self,
            access_token=str(reply["access_token"]),
            refresh_token=str(reply.get("refresh_token") or self.refresh_token or "") or None,
            scope=str(reply.get("scope") or self.scope or "") or None,
        )

    def __repr__(self) -> str:
        return f"Tokens({self.base_url!r}, client_id={self.client_id!r}, scope={self.scope!r}, …)"


class TokenStore:
    """The tokens of one platform.

    Parameters
    ----------
    base_url
        The platform's versioned address.
    directory
        Folder of the lock and, without a keyring, of the tokens; None for the user's
        configuration folder.
    """

    def __init__(self, base_url: str, directory: Path | None = None) -> None:
        if directory is None:
            import platformdirs

            directory = platformdirs.user_config_path("agentbook") / "tokens"
        self.base_url = base_url.rstrip("/")
        name = hashlib.sha256(self.base_url.encode()).hexdigest()[:24]
        self._path = directory / f"{name}.json"
        self._lock_path = directory / f"{name}.lock"

    def load(self) -> Tokens | None:
        """The tokens, or None if none are stored."""
        text = self._from_keyring() or self._from_file()
        try:
            tokens = Tokens(**json.loads(text)) if text else None
        except (ValueError, TypeError):
            return None
        return tokens if tokens is not None and tokens.base_url == self.base_url else None

    def save(self, tokens: Tokens) -> None:
        """Store the tokens atomically."""
        text = Hidden(json.dumps(asdict(tokens)))
        if not self._to_keyring(text):
            self._prepare()
            fresh = self._path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text.reveal())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)

    def forget(self) -> None:
        """Delete the tokens."""
        self._path.unlink(missing_ok=True)
        keyring = _keyring()
        if keyring is not None:
            with contextlib.suppress(Exception):
                keyring.delete_password(KEYRING_SERVICE, self._account)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process and one thread at a time."""
        self._prepare()
        with FileLock(self._lock_path):
            yield

    def _prepare(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def _account(self) -> str:
        return f"oauth {self.base_url}"

    def _from_file(self) -> str | None:
        try:
            return self._path.read_text()
        except OSError:
            return None

    def _from_keyring(self) -> str | None:
        keyring = _keyring()
        # A keyring without a working backend raises errors of its own: treat it as
        # missing.
        with contextlib.suppress(Exception):
            text: str | None = keyring.get_password(KEYRING_SERVICE, self._account) if keyring else None
            return text
        return None

    def _to_keyring(self, text: Hidden) -> bool:
        keyring = _keyring()
        if keyring is None:
            return False
        try:
            keyring.set_password(KEYRING_SERVICE, self._account, text.reveal())
        except Exception:
            return False
        self._path.unlink(missing_ok=True)
        return True


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        return None
    return keyring
