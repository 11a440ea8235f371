"""Repairs pages that would be JSON but for the liberties of lenient encoders."""

from __future__ import annotations

import re

# A string, or a number that JSON does not have. Strings come first, so that the inside
# of one is not taken for a number; one that is not closed goes to the end of the page.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def mend(page: bytes) -> bytes:
    r"""A page in which lone surrogates and stray bytes are replaced, and NaN is null.

    Everything else keeps its spelling.

    Examples
    --------
    >>> mend(rb'{"items": [{"a": NaN, "b": "NaN \ud800", "c": 1e2}]}').decode()
    '{"items": [{"a": null, "b": "NaN ?", "c": 1e2}]}'
    """
    return _TOKEN.sub(_mend_token, page.decode("utf-8-sig", "replace")).encode()


def _mend_token(token: re.Match[str]) -> str:
    text = token[0]
    if not text.startswith('"'):
        return "null"
    return _ESCAPES.sub(_mend_escapes, text) if "\\u" in text else text


def _mend_escapes(escapes: re.Match[str]) -> str:
    return _SURROGATE.sub(lambda code: code[0] if code[1] else "?", escapes[0])
