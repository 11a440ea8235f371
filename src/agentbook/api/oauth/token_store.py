"""Stores OAuth tokens between kernels: in the system's keyring, or in a private file.

A refresh token works once, and using it again revokes every token of the authorization
("Authentication", rule 8). Tokens are therefore read, refreshed and written under one
lock for all processes of this user, so two kernels never spend the same token.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..._files import FileLock, atomic_write, make_private
from ..._masking import Hidden, hidden, revealed
from ..auth import Unpicklable
from ..transport import in_thread

KEYRING_SERVICE = "agentbook"
KEYRING_TIMEOUT_S = 8.0
_waiting: list[Future[Any]] = []  # for a keyring that does not answer


def ask_keyring(action: str, *entry: Hidden | str) -> Any:
    """What the keyring answers; False if none with a working backend does in time.

    A locked one may ask for its password where nobody sees it.

    Warns
    -----
    UserWarning
        If it does not answer in time. It is not asked again while it is silent.
    """

    def ask() -> Any:
        import keyring

        return getattr(keyring, f"{action}_password")(KEYRING_SERVICE, *map(revealed, entry))

    if any(not answer.done() for answer in _waiting):
        return False
    answer = in_thread(ask, "agentbook keyring")
    try:
        return answer.result(KEYRING_TIMEOUT_S)
    except Exception:  # each backend raises errors of its own
        if answer.done():
            return False
        _waiting[:] = [answer]
        warnings.warn(
            f"The system's keyring did not answer within {KEYRING_TIMEOUT_S:g} s, perhaps because it is locked, and was "
            "left: unlock it, or set AGENTBOOK_API_KEY to id:secret.",
            stacklevel=2,
        )
        return False


class Tokens(Unpicklable):
    """The tokens of one authorization. Its repr does not show them.

    No dataclass, since serializers write all fields of one.
    """

    __slots__ = ("access_token", "base_url", "client_id", "refresh_token", "scope", "token_endpoint")

    def __init__(
        self,
        base_url: str,
        client_id: str,
        token_endpoint: str,
        access_token: str,
        refresh_token: str | None = None,
        scope: str | None = None,
    ) -> None:
        self.base_url, self.client_id, self.token_endpoint = base_url, client_id, token_endpoint
        self.access_token, self.refresh_token, self.scope = access_token, refresh_token, scope

    def refreshed(self, reply: dict[str, Any]) -> Tokens:
        """The tokens after a reply, which may leave the refresh token as it is."""
        return Tokens(
            self.base_url,
            self.client_id,
            self.token_endpoint,
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
        Folder for the lock and, if there is no keyring, the tokens. None for the user's
        configuration folder.

    Attributes
    ----------
    path : Path
        The tokens' file, if there is no keyring.
    """

    def __init__(self, base_url: str, directory: Path | None = None) -> None:
        if directory is None:
            import platformdirs

            directory = platformdirs.user_config_path("agentbook") / "tokens"
        self.base_url = base_url.rstrip("/")
        self._entry = f"oauth {self.base_url}"
        self.path = directory / f"{hashlib.sha256(self.base_url.encode()).hexdigest()[:24]}.json"

    def load(self) -> Tokens | None:
        """The tokens, or None if none are stored."""
        text = hidden(ask_keyring("get", self._entry))
        try:
            tokens = Tokens(**json.loads(text or hidden(self.path.read_text())))
        except (OSError, ValueError, TypeError):
            return None
        return tokens if tokens.base_url == self.base_url else None

    def save(self, tokens: Tokens) -> None:
        """Store the tokens atomically."""
        text = Hidden(json.dumps({name: getattr(tokens, name) for name in Tokens.__slots__}))
        if ask_keyring("set", self._entry, text) is False:
            make_private(self.path.parent)
            with atomic_write(self.path, private=True) as file:
                file.write(text.encode())
        else:
            self.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Delete the tokens."""
        self.path.unlink(missing_ok=True)
        ask_keyring("delete", self._entry)

    def locked(self) -> FileLock:
        """A lock that admits one process and one thread at a time, for ``with``."""
        make_private(self.path.parent)
        return FileLock(self.path.with_suffix(".lock"), optional=True)
