"""Words of agents and people inside a Markdown document of ours: they may be formatted, and neither run nor fetch anything.

Notebooks, nbconvert and many viewers obey the HTML they find in Markdown, follow any address, and load every picture. So what a
panel would not do, a transcript in Markdown must not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .formulas import may_hold_math, reaches_out
from .render import visible

_SAFE_ADDRESS = re.compile(r"(?i)\A(?:https?://|mailto:)")
# What some reader might take for the beginning of a tag, a comment or an autolink.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
MAX_PARSED = 64_000


def harmless(text: str) -> str:
    r"""`text` as Markdown that runs and fetches nothing, whoever renders it: as it is where it asks for nothing of the kind.

    Else tags are written out and pictures become links, as in the panel; and where even that leaves something, because of an
    address of another scheme or a trick, the whole message stands as a block of code, letter by letter.

    Examples
    --------
    >>> print(harmless("**bold** <b>tag</b> ![cat](https://e.test/cat.png)"))
    **bold** \<b>tag\</b> \![cat](https://e.test/cat.png)
    >>> print(harmless("[press](javascript:alert(1))"))
    ```text
    [press](javascript:alert(1))
    ```
    """
    text = visible(text)
    if len(text) > MAX_PARSED:
        return text if not re.search(r"[<\[&$\\]", text) else _as_code(text)
    if _asks_for_nothing(text):
        return text
    written_out = _PICTURE.sub(r"\!", _TAG.sub(r"\<", text))
    return written_out if _asks_for_nothing(written_out) else _as_code(text)


def heading(text: str) -> str:
    """`text` on one line, without any markup of its own."""
    return re.sub(r"([\\`*_\[\]<>#&|~!$])", r"\\\1", " ".join(visible(text).split()))


def _as_code(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    """A reader that obeys everything: what it finds nothing in, no stricter one will."""
    reader = MarkdownIt("commonmark", {"html": True, "linkify": False, "maxNesting": 100})
    reader.enable(["table", "strikethrough"])
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


def _asks_for_nothing(text: str) -> bool:
    if may_hold_math(text) and reaches_out(text):
        return False
    env: dict[str, dict[str, dict[str, str]]] = {}
    tokens = _reader().parse(text, env)
    addresses = [reference["href"] for reference in env.get("references", {}).values()]
    return all(map(_SAFE_ADDRESS.match, addresses)) and all(map(_is_harmless, _flat(tokens)))


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or ())


def _is_harmless(token: Token) -> bool:
    match token.type:
        case "html_block" | "html_inline" | "image":
            return False
        case "link_open":
            return bool(_SAFE_ADDRESS.match(str(token.attrs.get("href", ""))))
        case "fence":
            return not re.search(r"[<>\"'&]", token.info)
        case _:
            return True
