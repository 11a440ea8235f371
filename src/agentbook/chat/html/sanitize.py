"""The allow-list that all text of people and agents passes before it enters a page.

JupyterLab's HTML widgets, and its HTML and Markdown outputs, run whatever HTML they are
given. So everything a person or an agent writes goes through `plain` or through
`markdown.render`, which ends in `clean`: no scripts, no `style` attribute, no link but
http, https and mailto, and no picture that the page would fetch unless the reader has
allowed it.
"""

from __future__ import annotations

import html
import re

import nh3

from ..text import replace_surrogates
from .formulas import TYPESET

# Characters that reorder or hide text: bidirectional embeddings, overrides and
# isolates, invisible operators, tag characters, control characters. Joiners and
# directional marks stay because scripts need them, and so do the tags inside a flag
# emoji.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

_TAGS = set(
    re.findall(
        r"\w+",
        """a abbr b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s span strong
        sub summary sup table tbody td th thead tr ul""",
    )
)
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "details": {"open"}, "*": {"class", "dir"}}
_PICTURE_ATTRIBUTES = {"src", "alt", "title", "loading", "referrerpolicy"}
SAFE_ADDRESS = re.compile(r"(?i)\A(?:https?://|mailto:)")
PICTURE_ADDRESS = re.compile(r"(?i)\Ahttps?://")
_OWN_CLASS = re.compile(rf"\A(?:(?:ab|hl)-[a-z0-9-]+|{TYPESET.replace(' ', '|')})\Z")


def visible(text: str) -> str:
    r"""`text` with hidden and reordering characters spelled out, such as ``⟨U+202E⟩``.

    Examples
    --------
    >>> visible("invoice\u202efdp.exe")
    'invoice⟨U+202E⟩fdp.exe'
    """
    text = replace_surrogates(text).replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda match: match[0] if len(match[0]) > 1 else f"⟨U+{ord(match[0]):04X}⟩", text)


def plain(text: str) -> str:
    """`text` as HTML that shows it literally: for names, prompts and errors.

    Examples
    --------
    >>> plain("<b>hi</b>")
    '&lt;b&gt;hi&lt;/b&gt;'
    """
    return html.escape(visible(text), quote=True)


def clean(fragment: str, *, images: bool = False) -> str:
    """`fragment` without anything that is not on the allow-list.

    Pictures are on it only with `images`.

    Examples
    --------
    >>> clean('<p onclick="run()">hi<script>run()</script></p>')
    '<p>hi</p>'
    """
    return nh3.clean(
        fragment,
        tags=_TAGS | {"img"} if images else _TAGS,
        attributes={**_ATTRIBUTES, "img": _PICTURE_ATTRIBUTES} if images else _ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",  # a relative address would lead into the notebook server itself
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if SAFE_ADDRESS.match(value) else None
    if name == "src":
        return value if PICTURE_ADDRESS.match(value) else None
    if name == "class":
        return " ".join(word for word in value.split() if _OWN_CLASS.match(word)) or None
    return value
