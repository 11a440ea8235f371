"""Keeps secrets out of messages, tracebacks, pickles and notebooks.

A secret that our code holds in a variable is `Hidden`: anything that shows the variable
shows ``…``. A secret that a platform repeats (debug pages and proxies send back headers
and status lines) is masked by a `Redactor` before anything else reads the reply.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast
from urllib.parse import quote, quote_plus

T = TypeVar("T")

MASK = "…"
# Fields whose values are never shown: the specification's opaque credential objects,
# and names that suggest a secret.
_WHOLE_NAMES = "params|extra_data|config_params|webhook_owner_identifier"
_WORDS = "secret|password|token|api_?key|authorization|private_?key|verifier"
_SECRET_NAME = re.compile(f"(?i)({_WHOLE_NAMES}|.*({_WORDS}).*)")
_ALL_WORDS = tuple(
    word.replace("_?", separator).encode()
    for word in f"{_WHOLE_NAMES}|{_WORDS}".split("|")
    for separator in (("", "_") if "_?" in word else ("",))
)
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
# A language model's tokens; a number in such a field is a count.
_COUNT_NAME = re.compile(r"(?i).*(tokens|token_?(count|limit|budget|usage)).*")
# Shorter texts are not secrets, and masking them would make messages unreadable.
_MIN_LENGTH = 4


class Hidden(str):
    """A string that shows as ``…``, since tracebacks may show the values of variables.

    Methods of str work on the text itself; `reveal` returns it.

    Examples
    --------
    >>> secret = Hidden("s3cret")
    >>> secret, f"{secret}", secret.reveal()
    ('…', '…', 's3cret')
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Hidden:
        return super().__new__(cls, text.reveal() if isinstance(text, Hidden) else text)

    def reveal(self) -> str:
        """The text. Do not store it in a variable."""
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"'{MASK}'"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)


def is_secret_name(name: str) -> bool:
    """Whether the values of a field with this name are masked in records and frames.

    Examples
    --------
    >>> is_secret_name("client_secret"), is_secret_name("name")
    (True, False)
    """
    return _SECRET_NAME.fullmatch(name) is not None


def may_name_secrets(data: bytes) -> bool:
    """Whether JSON may have a field with such a name; its letters may be escaped.

    Examples
    --------
    >>> may_name_secrets(b'{"Api_Key":1}'), may_name_secrets(b'{"name":1}')
    (True, False)
    """
    lower = data.lower()
    # Many times faster than one regular expression with all the words.
    return any(word in lower for word in _ALL_WORDS) or _ESCAPED_ASCII.search(data) is not None


def is_secret(name: str, value: object) -> bool:
    """Whether a field of this name may hold a secret, given its value.

    An empty value is not a secret, and neither is a count of a model's tokens.

    Examples
    --------
    >>> is_secret("prompt_tokens", 12), is_secret("tokens", ["sk-12"])
    (False, True)
    """
    if value is None or not is_secret_name(name):
        return False
    return not (_is_count(value) and _COUNT_NAME.fullmatch(name))


def _is_count(value: object) -> bool:
    """Whether a value is a number, or an object of numbers."""
    return all(map(_is_count, value.values())) if isinstance(value, dict) else isinstance(value, int | float)


def hidden(value: T) -> T:
    """`value`; hidden if it is a string."""
    return cast(T, Hidden(value)) if isinstance(value, str) else value


def revealed(value: T) -> T:
    """`value`; the text of a hidden string."""
    return cast(T, value.reveal()) if isinstance(value, Hidden) else value


class Redactor:
    """Masks secrets in whatever a platform sends, even if it encodes them.

    Parameters
    ----------
    secrets
        The texts to mask. In an ``Authorization`` header, the token is masked; in a
        key's token, also the secret on its own.

    Examples
    --------
    >>> Redactor(["p@ssword"]).text("denied: p@ssword (p%40ssword)")
    'denied: … (…)'
    """

    __slots__ = ("_forms", "_secrets")

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)
        self._forms: tuple[Hidden, ...] | None = None  # made only when needed, which is rare

    @property
    def forms(self) -> tuple[Hidden, ...]:
        """The texts that are replaced, the longest first."""
        if self._forms is None:
            parts = [part for secret in self._secrets for part in _parts_of(secret) if len(part) >= _MIN_LENGTH]
            forms = {form for part in parts for form in _forms_of(part)}
            self._forms = tuple(Hidden(form) for form in sorted(forms, key=len, reverse=True))
        return self._forms

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        for form in self.forms:
            text = text.replace(form, MASK)
        return text

    def data(self, data: bytes) -> bytes:
        """`data` without the secrets."""
        for form in self.forms:
            data = data.replace(form.encode(), MASK.encode())
        return data


def _parts_of(secret: str) -> Iterator[str]:
    """A secret itself; for a header, its token, ``id:secret`` and the secret alone."""
    scheme, _, token = secret.partition(" ")
    if scheme not in ("Basic", "Bearer"):
        yield secret
        return
    try:
        pair = token if ":" in token else base64.b64decode(token, validate=True).decode()
    except ValueError:
        pair = ""  # an OAuth token
    yield from (token, pair, pair.partition(":")[2])


def _forms_of(secret: str) -> Iterator[str]:
    """A secret as it is, and as URLs, HTML and JSON write it."""
    yield from (str.__str__(secret), quote(secret, safe=""), quote_plus(secret), html.escape(secret))
    yield json.dumps(secret)[1:-1]
