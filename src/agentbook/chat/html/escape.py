"""Words of agents and people inside a Markdown document of ours: they may be formatted, and neither run nor fetch anything.

Notebooks, nbconvert and many viewers obey the HTML they find in Markdown, follow any address, and load every picture. So what a
panel would not do, a transcript in Markdown must not ask for.
"""

from __future__ import annotations

import html
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
_MARKUP = re.compile(r"[\\`*_\[\]<>()#&|~!$:@]")
MAX_PARSED = 64_000


def quoted(text: str) -> str:
    r"""A message as Markdown that runs and fetches nothing, whoever renders it: a quotation of it as it is, if it asks for none.

    Else tags are written out and pictures become links, as in the panel; and where even that leaves something, because of an
    address of another scheme or a trick, the whole message stands as a block of code, letter by letter.

    Examples
    --------
    >>> print(quoted("**bold** <b>tag</b> ![cat](https://e.test/cat.png)"))
    > **bold** &lt;b>tag&lt;/b> &#33;[cat](https://e.test/cat.png)
    >>> print(quoted("[press](javascript:alert(1))"))
    ```text
    [press](javascript:alert(1))
    ```
    """
    text = visible(text)
    # Entities, because a reader that makes links of bare addresses takes a backslash for a part of the address before it.
    for words in (text, _PICTURE.sub("&#33;", _TAG.sub("&lt;", text))):
        if _asks_for_nothing(words):
            # Quoted, because a fence that was left open, or a heading of its own, then ends with its message.
            return "\n".join(f"> {line}".rstrip() for line in words.split("\n"))
    # Not in a quotation: JupyterLab looks for formulas in code, unless its fence begins the line.
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def heading(text: str) -> str:
    """`text` on one line, without any markup of its own.

    Examples
    --------
    >>> heading("*guide*")
    '&#42;guide&#42;'
    """
    line = " ".join(visible(text).split())
    if may_hold_math(line) or "\\" in line:
        # Whatever is done to them, dollars stand in the page in the end, and MathJax reads the page; it leaves code alone.
        return "`" + line.replace("`", "'") + "`"
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", line)


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    """A reader that obeys everything: what it finds nothing in, no stricter one will."""
    reader = MarkdownIt("commonmark", {"html": True, "linkify": False, "maxNesting": 100})
    reader.enable(["table", "strikethrough"])
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


def _asks_for_nothing(text: str) -> bool:
    if len(text) > MAX_PARSED and re.search(r"[<\[&$\\`:]", text):
        return False
    # Dollars may be written as entities, too: what TeX must not hold is not looked for between them alone.
    if reaches_out(html.unescape(text)):
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
