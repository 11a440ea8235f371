"""Who is calling: API keys and access tokens, and how they are put on a request.

A credential never shows its secret: not in a repr, and it refuses to be pickled (pass `agentbook.connect` by name to another
process instead, which finds the credential there). Specification: "Authentication".
"""

from __future__ import annotations

import base64
import re
from typing import Any, Literal, NoReturn, Protocol

_KEY = re.compile(r"[^\s:\x00-\x1f\x7f]+:[^\s\x00-\x1f\x7f]+\Z", re.ASCII)


class Credentials(Protocol):
    """Anything that can sign a request."""

    @property
    def identity(self) -> str:
        """Names the credential without its secret: calls of one identity share a rate window."""
        ...

    def authorization(self) -> str:
        """The `Authorization` header of a request."""
        ...

    def socket_authorization(self) -> str | None:
        """The header of a socket handshake, which takes HTTP Basic alone; None where this credential has none."""
        ...


class ApiKey:
    """An account API key.

    Parameters
    ----------
    key : str
        ``<api_key_id>:<api_key_secret>``, as the settings page shows it.
    scheme : {"basic", "bearer"}
        How it is sent on requests; a socket handshake always takes Basic.

    Raises
    ------
    ValueError
        If `key` has not the form ``id:secret``. The message does not repeat it.

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
        text = key.strip() if isinstance(key, str) else ""
        if not _KEY.match(text):
            raise ValueError("An API key has the form `<api_key_id>:<api_key_secret>`, as the settings page shows it.")
        if scheme not in ("basic", "bearer"):
            raise ValueError(f"scheme must be 'basic' or 'bearer', not {scheme!r}.")
        self.key_id, self._secret = text.split(":", 1)
        self.scheme = scheme

    @property
    def identity(self) -> str:
        """Names the key without its secret: calls of one key share a rate window."""
        return f"key:{self.key_id}"

    def authorization(self) -> str:
        """The `Authorization` header of a request. It holds the secret: do not print it."""
        return self._basic() if self.scheme == "basic" else f"Bearer {self.key_id}:{self._secret}"

    def socket_authorization(self) -> str | None:
        """The header of a socket handshake, HTTP Basic. It holds the secret: do not print it."""
        return self._basic()

    def _basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.key_id}:{self._secret}".encode()).decode()

    def __repr__(self) -> str:
        return f"ApiKey('{self.key_id}:…')"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        refuse_pickle(self)


class OAuthToken:
    """An OAuth 2.0 access token.

    Parameters
    ----------
    access_token : str
        Sent as ``Authorization: Bearer``. A socket does not take it: streams then poll.

    Raises
    ------
    ValueError
        If it cannot stand in a header. The message does not repeat it.

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
        if not isinstance(access_token, str) or not re.fullmatch(r"[\x21-\x7e]+", access_token):
            raise ValueError("An access token is a text of visible ASCII characters without spaces.")
        self._token = access_token
        self.identity = f"oauth:{id(self):x}"

    def authorization(self) -> str:
        """The `Authorization` header of a request. It holds the token: do not print it."""
        return f"Bearer {self._token}"

    def socket_authorization(self) -> str | None:
        """None: a socket takes no token."""
        return None

    def __repr__(self) -> str:
        return "OAuthToken('…')"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        refuse_pickle(self)


class Hidden(str):
    """A text that is not shown: for secrets in variables, since some tracebacks show those."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


def without_credential(body: bytes, credentials: Credentials | None) -> bytes:
    """A reply's body without the credential that was sent: some platforms, and many debug pages, repeat a request's headers."""
    for header in () if credentials is None else (credentials.authorization(), credentials.socket_authorization()):
        sent = (header or "").partition(" ")[2]
        for secret in filter(None, (sent, _pair(sent).partition(":")[2])):
            body = body.replace(secret.encode(), "…".encode())
    return body


def _pair(sent: str) -> str:
    """``id:secret``, of what was sent by either scheme."""
    try:
        return sent if ":" in sent else base64.b64decode(sent, validate=True).decode()
    except ValueError:
        return ""


def refuse_pickle(credential: object) -> NoReturn:
    """Raise: a credential does not travel, and the message says what to do instead."""
    raise TypeError(
        f"{type(credential).__name__} holds a secret and is not pickled. Call agentbook.connect() in the other process, "
        "with AGENTBOOK_BASE_URL and AGENTBOOK_API_KEY set there."
    )
