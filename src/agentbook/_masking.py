"""Keeps secrets out of messages, tracebacks, pickles, notebooks, frames and test sets.

A secret that our code holds in a variable is `Hidden`: anything that shows the variable
shows ``…``. A secret that a platform repeats (debug pages and proxies send back headers
and status lines) is masked by a `Redactor` before anything else reads the reply. Of
values that only may be secret, the name of the field decides (`mask_secrets`); in what
people write, the form does (`mask_text`).
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus, urlsplit

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
_COUNT_NAME = re.compile(r"(?i).*(tokens|token_?(count|limit|budget|usage|details)).*")
# Fields of an opaque object that identify it and are never secret.
_IDENTIFYING = frozenset({"id", "name", "full_name", "type", "kind", "slug", "title", "label", "status"})
_MASKED = re.compile(r"<string, \d+ characters>|<number>|<masked>")
NO_HOST = "<no host>"  # shown in place of an address without a host
# Shorter texts are not secrets, and masking them would make messages unreadable.
_MIN_LENGTH = 4
# What stands where a key is asked for and none is needed: test, none, ollama, 1234.
_WORD = re.compile(r"[^\W\d_]{1,16}|\d{1,7}")


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


@lru_cache(4096)
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
    """Whether a value is a number, or an object of numbers and nulls."""
    return all(map(_is_count, value.values())) if isinstance(value, dict) else isinstance(value, int | float | None)


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

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)

    @cached_property
    def forms(self) -> list[Hidden]:
        """The texts that are replaced, the longest first; rarely needed."""
        parts = [part for secret in self._secrets for part in _parts_of(secret) if len(part) >= _MIN_LENGTH]
        forms = {form for part in parts for form in _forms_of(part)}
        return [Hidden(form) for form in sorted(forms, key=len, reverse=True)]

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
    secret = pair.partition(":")[2]
    yield from (token, pair, "" if is_placeholder(secret) else secret)


def is_placeholder(key: str) -> bool:
    """Whether a key is a word that no platform makes, and that texts may contain.

    Examples
    --------
    >>> is_placeholder("ollama"), is_placeholder("sk-4f9Zc1")
    (True, False)
    """
    return _WORD.fullmatch(key) is not None


def _forms_of(secret: str) -> Iterator[str]:
    """A secret as it is, and as URLs, HTML and JSON write it."""
    yield from (str.__str__(secret), quote(secret, safe=""), quote_plus(secret), html.escape(secret))
    yield json.dumps(secret)[1:-1]


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value whose texts, those that are names too, are changed.

    Examples
    --------
    >>> with_texts({"n": ["a", 1]}, str.upper)
    {'N': ['A', 1]}
    """
    if isinstance(value, dict):
        return {with_texts(name, change): with_texts(member, change) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


# -- what may be secret in a platform's values -----------------------------------------
# Keys stay; values are replaced by their type and length. No part of a value is shown,
# not even its first or last characters: they identify a key and make it easier to
# guess.


def mask(value: Any) -> Any:
    """A JSON value with every leaf replaced by its type and length.

    Keys, booleans and null stay, and so does what is masked.

    Examples
    --------
    >>> mask({"token": "sk-12345", "ports": [80], "tls": True})
    {'token': '<string, 8 characters>', 'ports': ['<number>'], 'tls': True}
    """
    if isinstance(value, dict):
        return {key: mask(member) for key, member in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    if value is None or isinstance(value, bool) or (isinstance(value, str) and _MASKED.fullmatch(value)):
        return value
    if isinstance(value, str):
        return f"<string, {len(value)} characters>"
    return "<number>"


def mask_except_names(value: Any) -> Any:
    """Like `mask`, but ids, names, kinds and times inside objects stay.

    They are enough to identify the object.

    Examples
    --------
    >>> mask_except_names({"name": "crm", "owner_id": "7", "token": "sk-12345"})
    {'name': 'crm', 'owner_id': '7', 'token': '<string, 8 characters>'}
    """
    if isinstance(value, list):
        return [mask_except_names(item) for item in value]
    if not isinstance(value, dict):
        return mask(value)
    return {
        key: member
        if isinstance(member, str) and (key in _IDENTIFYING or key.endswith(("_id", "_at")))
        else mask_except_names(member)
        for key, member in value.items()
    }


def mask_secrets(value: Any) -> Any:
    """A JSON value with the fields masked whose names suggest a secret.

    Examples
    --------
    >>> mask_secrets({"region": "eu", "auth": {"api_key": "sk-12345"}, "tokens": 12})
    {'region': 'eu', 'auth': {'api_key': '<string, 8 characters>'}, 'tokens': 12}
    """
    if isinstance(value, list):
        return [mask_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: mask(member) if is_secret(key, member) else mask_secrets(member) for key, member in value.items()}


def masked(mask_: Callable[[Any], Any], value: Any) -> Any:
    """A value masked by one of these functions; as a whole, if it is nested deeply."""
    try:
        return mask_(value)
    except RecursionError:
        return "<masked>"


def host_of(url: str) -> str | None:
    """The host of a URL, without user, port, path and query; None if it has no host.

    Examples
    --------
    >>> host_of("https://me:secret@hooks.example.com:8443/in/abc?sig=1")
    'hooks.example.com'
    """
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


# -- what people write -----------------------------------------------------------------

HIDDEN_PART = "[…]"
_ESCAPE = r"\\{1,3}u[0-9a-fA-F]{4}"  # of a letter in JSON
_NAMED = (
    r"pass(?:word|wd|phrase|code)|passwort|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|authorization|auth[_-]?key"
)
# How keys begin: of OpenAI, Stripe, GitHub, GitLab, Slack, Hugging Face, npm, PyPI,
# DigitalOcean, Shopify, Docker and SendGrid; JSON Web Tokens; then those that need a
# digit, because words begin so too.
_KEYS = [
    "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
    "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "hf_", "npm_", "pypi-", "dop_v1_",
    "shpat_", "shpca_", "shppa_", "shpss_", "dckr_pat_", "hooks.slack.com/services/", "sg.", "eyj", "ya29.",
    "aiza",
]  # fmt: skip
_KEYS_WITH_DIGITS = ["key-", "key_", "token-", "token_", "akia", "asia"]
# What is masked; the lower-case texts of which one must be there, to save time; and
# how. Of a pattern with a group, only the group is masked. Each takes time in
# proportion to the text: what repeats is possessive, bounded, or ends the match. (No
# group is possessive: Python before 3.11.5 reads one that can backtrack wrongly.)
_PATTERNS = tuple(
    (name, needs, re.compile(pattern))
    for name, needs, pattern in (
        (
            "an e-mail address",
            ["@", "%40"],
            rf"(?<![\w.+-])(?:[\w.+-]|{_ESCAPE}){{1,320}}(?:@|%40)(?=[\w.\\-]{{0,250}}\.[^\W\d])"
            rf"(?:[\w-]|{_ESCAPE})+(?:\.(?:[\w-]|{_ESCAPE})+)+",
        ),
        ("a key", ["private key"], r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,30}-----|\Z)"),
        (
            "a key",
            ["bearer", "basic"],
            r"\b(?i:bearer|basic)\s++(?=[\w.~+/-]{0,200}(?:[\d=]|[a-z][A-Z]))[\w.~+/=-]{12,}",
        ),
        ("a key", _KEYS, rf"\b(?i:{'|'.join(map(re.escape, _KEYS))})[\w.~/-]{{9,}}[\w~/-]"),
        (
            "a key",
            _KEYS_WITH_DIGITS,
            rf"\b(?i:{'|'.join(_KEYS_WITH_DIGITS)})(?=[\w-]{{0,99}}\d)[\w-]{{12,}}",
        ),
        ("a key", [":"], r"\b(?i:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}):\S+"),
        (
            "a key",
            ["="],
            r"(?<=[?&])(?i:(?:x-amz-)?(?:sig|key|auth|code|signature|credential))=([^\s&#\"'<>]{6,})",
        ),
        ("a password", ["://"], r"(?<=://)[^\s/@:]{0,99}:[^\s/@]{1,200}(?=@)"),
        (
            "a password",
            ["=", ":"],
            rf"(?i:{_NAMED})[\\\"']{{0,4}}\s{{0,9}}(?:=>?|:)\s{{0,9}}(?:\\?\"([^\"\\\n]{{1,500}})|[\\\"']{{0,4}}"
            r"(?!(?i:bearer|basic)\b)([^\s\"'\\&,;<>{}\[\]]{3,}))",
        ),
        ("a password", ["pass"], r"(?i:\bpass(?:word|phrase|code)|\bpasswort)\s++(?i:is|was|ist|lautet)\s++(\S+)"),
        ("a password", ["pin"], r"\b(?i:pin)(?:\s?(?i:code))?\s{0,9}(?:(?i:is)|=|:)?\s{0,9}(\d{4,8})\b"),
        ("an account number", [""], r"[A-Z](?<!\w.)[A-Z]\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b"),
        ("a card number", [""], r"[2-6](?<![\w.-].)\d{3}(?:(?:[ -]|\s?\n|\\{1,3}n)?\d){9,15}\b"),
        (
            "a phone number",
            ["+", "00", "("],
            r"(?<![\w+])(?:\+|00)[1-9](?:[ ()./-]{0,2}\d){7,13}(?!\d)|\(\d{3}\) ?\d{3}-\d{4}\b",
        ),
    )
)
_HIDDEN_CHARACTERS = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


class _Plain(dict[int, int]):
    """For `str.translate`: full width and styled characters as plain ones."""

    def __missing__(self, code: int) -> int:
        plain = unicodedata.normalize("NFKC", chr(code))
        self[code] = ord(plain) if len(plain) == 1 else code
        return self[code]


_plain = _Plain()


def mask_text(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with whatever looks like a secret masked, and what was masked.

    Masked are e-mail addresses, keys, passwords, numbers of cards and bank accounts
    (those whose check digits are right) and international phone numbers, also in full
    width and with invisible characters inside. Names, addresses and local phone numbers
    have no form that tells them from other words and numbers.

    Examples
    --------
    >>> mask_text("I am ada@acme.test, my password is tide42. Why?")
    ('I am […], my password is […] Why?', ('an e-mail address', 'a password'))
    >>> mask_text("Order 4111-2222, version 1.2.3, lodash@4.17.21")
    ('Order 4111-2222, version 1.2.3, lodash@4.17.21', ())
    """
    searched, places = text, None
    if not text.isascii():
        if _HIDDEN_CHARACTERS.search(text):
            places = [at for at, character in enumerate(text) if not _HIDDEN_CHARACTERS.match(character)]
            searched = "".join([text[at] for at in places])
        searched = searched.translate(_plain)
    lower = searched.lower()
    found = [
        (*span, name)
        for name, needs, pattern in _PATTERNS
        if any(need in lower for need in needs)
        for match in pattern.finditer(searched)
        if (span := _span_of(name, match)) is not None
    ]
    if not found:
        return text, ()
    pieces, copied = [], 0
    for begin, end, _ in sorted(found):
        if places is not None:
            begin, end = places[begin], places[end - 1] + 1
        if begin >= copied:
            pieces += [text[copied:begin], HIDDEN_PART]
        copied = max(copied, end)
    names = dict.fromkeys(name for name, _, _ in _PATTERNS)
    return "".join([*pieces, text[copied:]]), tuple(name for name in names if any(name == each[2] for each in found))


def _span_of(name: str, match: re.Match[str]) -> tuple[int, int] | None:
    """What of a match is masked: of numbers, what has the right check digits."""
    begin, end = match.span(match.lastindex or 0)
    if name == "an account number":
        digits = re.sub("[ -]", "", match[0])
        number = "".join(str(int(character, 36)) for character in digits[4:] + digits[:4])
        return (begin, end) if int(number) % 97 == 1 else None
    if name == "a card number":
        # A code or a date may follow the number.
        ends = [end, *(begin + gap.start() for gap in re.finditer(r"\D+", match[0]))]
        return next(((begin, at) for at in ends if _is_card(match[0][: at - begin])), None)
    return begin, end


def _is_card(text: str) -> bool:
    """Whether a number has the length and the check digit of a card's (Luhn)."""
    digits = [int(character) for character in text if character.isdecimal()]
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[-2::-2])
    return 13 <= len(digits) <= 19 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
