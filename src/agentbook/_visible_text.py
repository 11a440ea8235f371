"""Makes other people's text safe to show, in a page, a report or a terminal."""

from __future__ import annotations

import re

# Characters that reorder or hide text: bidirectional embeddings, overrides and
# isolates, invisible operators, tag characters, control characters. Joiners and
# directional marks stay because scripts need them, and so do the tags inside a flag
# emoji.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""`text` with hidden and reordering characters spelled out, such as ``⟨U+202E⟩``.

    Examples
    --------
    >>> visible("invoice\u202efdp.exe")
    'invoice⟨U+202E⟩fdp.exe'
    """
    text = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda match: match[0] if len(match[0]) > 1 else f"⟨U+{ord(match[0]):04X}⟩", text)


def one_line(text: str, length: int) -> str:
    r"""The beginning of `text` on one line, for a terminal.

    Examples
    --------
    >>> one_line("two\nlines \x1b[2J", 30)
    'two lines ⟨U+001B⟩[2J'
    """
    return visible(" ".join(text[: 20 * length].split()))[:length]
