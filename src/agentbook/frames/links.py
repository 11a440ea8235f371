"""Links from tables to sessions where they live, such as in the platform's own app.

The address comes with the events, from a client that has one, or from the environment
variable ``AGENTBOOK_SESSION_URL``. Without one there are no links.
"""

from __future__ import annotations

import os
from html import escape
from urllib.parse import quote

import pandas as pd

from ..api.address import checked_session_url, origin
from .parse.schemas import STR

VARIABLE = "AGENTBOOK_SESSION_URL"
SESSION_URL = "session_url"  # in a frame's provenance; empty where ids are not the platform's


def session_url(frame: pd.DataFrame) -> str:
    """The address of the sessions in a frame, with placeholders; empty for none.

    Raises
    ------
    ValueError
        If the environment variable holds none.
    """
    known = frame.attrs.get("agentbook", {}).get(SESSION_URL)
    if known is None:
        named = os.environ.get(VARIABLE, "").strip()
        return checked_session_url(named, VARIABLE) if named else ""
    try:  # a file may be somebody else's
        return checked_session_url(str(known)) if known else ""
    except ValueError:
        return ""


def of_client(url: str | None) -> dict[str, str]:
    """What the provenance of a frame that a client loads says of its address."""
    return {} if url is None else {SESSION_URL: url}


def link(url: str, session: object, message: object = None) -> str | None:
    """The link to a session, or to a message in it; None without an address or an id.

    Examples
    --------
    >>> link("https://app.example/s/{session_id}#{message_id}", "s/1", "m1")
    'https://app.example/s/s%2F1#m1'
    >>> link("https://app.example/s/{session_id}#{message_id}", "s1")
    'https://app.example/s/s1'
    """
    if not url or not isinstance(session, str):
        return None
    message = quote(message, safe="") if isinstance(message, str) else ""
    filled = url.replace("{message_id}", message).replace("{session_id}", quote(session, safe=""))
    return filled.removesuffix("#")


def with_links(frame: pd.DataFrame, source: pd.DataFrame, id_: str = "session_id") -> pd.DataFrame:
    """The frame with a column ``link``, if `source` has an address; else as it is.

    A link leads to the question of a turn, or to its reply if it has no question.
    """
    if id_ not in frame or not (url := session_url(source)):
        return frame
    ids = [frame[name] for name in ("message_id", "reply_id") if name in frame]
    messages = ids[0].fillna(ids[-1]) if ids else pd.Series(None, frame.index, dtype=STR)
    links = [link(url, session, message) for session, message in zip(frame[id_], messages, strict=True)]
    linked = frame.assign(link=pd.Series(links, frame.index, dtype=STR))
    linked.attrs = frame.attrs
    return linked


def anchor(url: str, text: str) -> str:
    """The text as HTML that leads to a web address, or alone if `url` is none.

    Examples
    --------
    >>> anchor("https://app.example/s/1?a&b", "<b>").partition(" target")[0]
    '<a href="https://app.example/s/1?a&amp;b"'
    >>> anchor("javascript:alert(1)", "<b>")
    '&lt;b&gt;'
    """
    place, shown = origin(url), escape(text, quote=False)
    if place is None or place[0] not in ("https", "http"):
        return shown
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{shown}</a>'
