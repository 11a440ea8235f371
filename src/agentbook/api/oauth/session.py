"""The credential of a person who signed in: tokens, refreshed when they expire."""

from __future__ import annotations

from typing import Any, NoReturn

from ..._text import safe_repr
from ..auth import refuse_pickle
from ..redaction import Hidden
from .server import request_tokens
from .token_store import Tokens, TokenStore


class OAuthSession:
    """A person's access, stored between kernels and refreshed when it expires.

    Only one thread of one process refreshes at a time; the others use its result.
    Made by `sign_in`, or by `stored` from an earlier sign-in.

    Attributes
    ----------
    tokens : Tokens
        The current tokens. Their repr does not show them.
    store : TokenStore
        Where they are stored.

    Notes
    -----
    Specification: "Authentication", rules 7 and 8.
    """

    __slots__ = ("identity", "store", "tokens")

    def __init__(self, tokens: Tokens, store: TokenStore) -> None:
        self.tokens = tokens
        self.store = store
        self.identity = f"oauth:{tokens.client_id}"

    @property
    def scope(self) -> str | None:
        """The scopes that were granted, separated by spaces."""
        return self.tokens.scope

    def authorization(self) -> str:
        return f"Bearer {self.tokens.access_token}"

    def socket_authorization(self) -> str | None:
        return None

    def refresh(self, refused: str) -> bool:
        """Replace the access token that `refused`, an Authorization header, carried.

        Returns
        -------
        bool
            Whether there is another token now, so that the request may be sent again.

        Raises
        ------
        OAuthError
            If the authorization has ended: sign in again.
        """
        refused = Hidden(refused)
        with self.store.locked():
            if self.authorization() != refused:
                return True  # another thread was faster
            stored_tokens = self.store.load()
            if stored_tokens is not None and stored_tokens.access_token != self.tokens.access_token:
                self.tokens = stored_tokens  # another process was faster
                return True
            if self.tokens.refresh_token is None:
                return False
            form = {
                "grant_type": "refresh_token",
                "refresh_token": Hidden(self.tokens.refresh_token),
                "client_id": self.tokens.client_id,
            }
            self.tokens = self.tokens.refreshed(request_tokens(self.tokens.token_endpoint, form))
            self.store.save(self.tokens)
            return True

    def sign_out(self) -> None:
        """Delete the tokens on this machine."""
        self.store.forget()

    @safe_repr
    def __repr__(self) -> str:
        return f"OAuthSession({self.tokens.base_url!r}, scope={self.scope!r})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        refuse_pickle(self)


def stored(base_url: str, *, store: TokenStore | None = None) -> OAuthSession | None:
    """The session of an earlier sign-in on this machine, or None."""
    store = store or TokenStore(base_url)
    tokens = store.load()
    return None if tokens is None else OAuthSession(tokens, store)
