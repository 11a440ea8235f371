"""API keys and access tokens, and how they sign a request.

A credential never shows its secret in a repr, and cannot be pickled: call
`agentbook.connect` in the other process, which finds the credential there.
Specification: "Authentication".
"""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import Any, Literal, NoReturn, Protocol

from .._masking import Hidden, Redactor
from .._text import safe_repr
from .record import secrets_in

_ODD = r"""[^\x21-\x7e]|["'`]"""  # not a visible ASCII character, or a quotation mark
_KEY = re.compile(rf"(?:(?!:|{_ODD}).)+:(?:(?!{_ODD}).)+")


class Credentials(Protocol):
    """Anything that can sign a request."""

    @property
    def identity(self) -> str:
        """A name for the credential, without its secret. Its calls share a limit."""

    def authorization(self) -> str:
        """The `Authorization` header of a request."""

    def socket_authorization(self) -> str | None:
        """The header of a WebSocket handshake (HTTP Basic), or None."""


class Unpicklable:
    """What holds a secret. Its pickling fails with an error that says what to do."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds a secret and cannot be pickled. Call agentbook.connect() in the other process, "
            "with AGENTBOOK_BASE_URL and AGENTBOOK_API_KEY set there."
        )


class ApiKey(Unpicklable):
    """An account API key.

    Parameters
    ----------
    key : str
        ``<api_key_id>:<api_key_secret>``, as the settings page shows it.
    scheme : {"basic", "bearer"}
        How requests send it. A WebSocket handshake always uses Basic.

    Raises
    ------
    ValueError
        If `key` does not have the form ``id:secret``, or holds a quotation mark, a
        space, an invisible character or a letter that is not ASCII; the message says
        where, and does not repeat the key.

    Notes
    -----
    Specification: "Authentication", accepted credentials.

    Examples
    --------
    >>> ApiKey("0190-id:s3cret")
    ApiKey('0190-id:…')
    """

    __slots__ = ("_secret", "key_id", "scheme")

    def __init__(self, key: str, scheme: Literal["basic", "bearer"] = "basic") -> None:
        key = Hidden(key if isinstance(key, str) else "")
        if not _KEY.fullmatch(key.strip()):
            raise ValueError(
                "An API key has the form `<api_key_id>:<api_key_secret>`, as the settings page shows it."
                + _odd_character(key)
            )
        key = Hidden(key.strip())
        if scheme not in ("basic", "bearer"):
            raise ValueError(f"scheme must be 'basic' or 'bearer', not {scheme!r}.")
        self.key_id, self._secret = key.split(":", 1)
        self.scheme = scheme

    @property
    def identity(self) -> str:
        """A name for the key, without its secret. Its calls share a rate limit."""
        return f"key:{self.key_id}"

    def authorization(self) -> str:
        """The `Authorization` header of a request. Do not print it."""
        return self.socket_authorization() if self.scheme == "basic" else f"Bearer {self.key_id}:{self._secret}"

    def socket_authorization(self) -> str:
        """The `Authorization` header of a WebSocket handshake. Do not print it."""
        return "Basic " + base64.b64encode(f"{self.key_id}:{self._secret}".encode()).decode()

    @safe_repr
    def __repr__(self) -> str:
        return f"ApiKey('{self.key_id}:…')"


class OAuthToken(Unpicklable):
    """An OAuth 2.0 access token.

    Parameters
    ----------
    access_token : str
        Sent as ``Authorization: Bearer``. WebSockets do not accept it, so streams poll.

    Raises
    ------
    ValueError
        If the token cannot be sent in a header. The message does not repeat it.

    Notes
    -----
    Specification: "Authentication", rule 7.

    Examples
    --------
    >>> OAuthToken("s3cret")
    OAuthToken('…')
    """

    __slots__ = ("_token", "identity")

    def __init__(self, access_token: str) -> None:
        access_token = Hidden(access_token if isinstance(access_token, str) else "")
        if not access_token or re.search(_ODD, access_token):
            raise ValueError(
                "An access token consists of visible ASCII characters without spaces." + _odd_character(access_token)
            )
        self._token = access_token.reveal()
        self.identity = f"oauth:{id(self):x}"

    def authorization(self) -> str:
        """The `Authorization` header of a request. Do not print it."""
        return f"Bearer {self._token}"

    def socket_authorization(self) -> str | None:
        """None: a WebSocket does not accept a token."""
        return None

    def __repr__(self) -> str:
        return "OAuthToken('…')"


def _odd_character(secret: str) -> str:
    """A sentence about the first character that does not belong; empty if all do."""
    start = len(secret) - len(secret.lstrip())
    odd = re.search(_ODD, secret.strip())
    if odd is None:
        return ""
    name = unicodedata.name(odd[0], "CONTROL CHARACTER")
    return f" Character {start + odd.start() + 1} does not belong there: it is U+{ord(odd[0]):04X}, {name}."


def redactor_of(credentials: Credentials | None, *parts: Any) -> Redactor:
    """Masks what a request carries: a credential, and the secrets in a form or body."""
    headers = () if credentials is None else (credentials.authorization(), credentials.socket_authorization() or "")
    return Redactor([*headers, *(text for part in parts for text in secrets_in(part))])
