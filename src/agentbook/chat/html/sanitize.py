"""The allow-list that all text from people and agents must pass to enter a page.

JupyterLab's HTML widgets, and its HTML and Markdown outputs, run any HTML they contain.
So everything a person or an agent writes goes through `escape` or through
`markdown.render`, which ends in `clean`: no scripts, no `style` attribute, no links
except http, https and mailto, and no picture that the page would fetch unless the
reader has allowed it.

Notebooks, nbconvert and many viewers also obey the HTML they find in Markdown, follow
any address, and load every picture. A transcript in Markdown must not ask for anything
that a panel would not do: `quote` and `heading` see to that.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ..._text import visible as visible  # exported: the counterpart of `escape`
from .formulas import TYPESET
from .tex_commands import is_allowed

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
NOT_LISTED = "jp-toc-ignore"  # of a heading that JupyterLab leaves out of the table of contents
_OWN_CLASS = re.compile(rf"\A(?:(?:ab|hl)-[a-z0-9-]+|{TYPESET.replace(' ', '|')}|{NOT_LISTED})\Z")


def escape(text: str) -> str:
    """`text` as HTML that shows it literally: for names, prompts and errors.

    Examples
    --------
    >>> escape("<b>hi</b>")
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
    return _cleaner(images).clean(fragment)


@lru_cache(maxsize=2)
def _cleaner(images: bool) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS | {"img"} if images else _TAGS,
        attributes={**_ATTRIBUTES, "img": _PICTURE_ATTRIBUTES} if images else _ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",  # a relative address would lead to the notebook server itself
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


# Text that some viewer might take for the beginning of a tag, a comment or an autolink.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_IMAGE = re.compile(r"!(?=\[)")
_MARKUP = re.compile(r"[\\`*_\[\]<>()#&|~!$:@]")
MAX_PARSED = 64_000
# Languages whose code some viewers run to draw a picture.
_DRAWN = re.compile(r"(?i)\A(?:mermaid|geojson|topojson|stl)\b")
_DRAWN_FENCE = re.compile(r"(?im)^(?P<fence>[ \t>*+\-\d.)]*(?:`{3,}|~{3,})[ \t]*)(?:mermaid|geojson|topojson|stl)\b")
# Where some viewer might see the end of a formula: dollars, brackets, environments.
_FORMULA = re.compile(r"\$.*?\$|\\[()\[\]]|\\(?:begin|end)", re.DOTALL)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# TeX that is refused even in code.
_DEFINITION = re.compile(
    r"""\\(?:[a-z]?def|\w*let|(?:re|provide)?new\w+|New\w+|Declare\w+|define\w+|global|require|csname|catcode|label|\w*ref
        |href|url|class|cssId|style|data|html\w*|mmlToken|unicode|\w*tip|toggle|verb|\w*bbox|\w*set|\w*tagform)(?![A-Za-z])""",
    re.VERBOSE,
)


def quote(text: str) -> str:
    r"""A message as Markdown that runs and fetches nothing, in any viewer.

    A harmless message becomes a quotation of itself. Otherwise its tags are escaped and
    its pictures turned into links, as in the panel. Code that a viewer would draw as a
    diagram, such as Mermaid's, becomes plain code. If even that is not harmless,
    because of an address with another scheme or a trick, the whole message becomes a
    code block.

    Examples
    --------
    >>> print(quote("**bold** <b>tag</b> ![cat](https://e.test/cat.png)"))
    > **bold** &lt;b>tag&lt;/b> &#33;[cat](https://e.test/cat.png)
    >>> print(quote("[press](javascript:alert(1))"))
    ```text
    [press](javascript:alert(1))
    ```
    """
    text = _DRAWN_FENCE.sub(r"\g<fence>text", visible(text))
    # Entities, because a viewer that turns bare addresses into links takes a backslash
    # as part of the address before it.
    for candidate in (text, _IMAGE.sub("&#33;", _TAG.sub("&lt;", text))):
        if _is_harmless(candidate):
            # Quoted, so that an unclosed fence or a heading ends with its message.
            return "\n".join(f"> {line}".rstrip() for line in candidate.split("\n"))
    # Not in a quotation: JupyterLab looks for formulas in code unless its fence begins
    # the line.
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def heading(text: str) -> str:
    """`text` on one line, with its markup escaped.

    Examples
    --------
    >>> heading("*guide*")
    '&#42;guide&#42;'
    """
    line = " ".join(visible(text).split())
    if "$" in line or "\\" in line:
        # However they are escaped, dollars end up in the page, and MathJax reads the
        # page. It ignores code.
        return "`" + line.replace("`", "'") + "`"
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", line)


@lru_cache(maxsize=1)
def _permissive_parser() -> MarkdownIt:
    """A parser that accepts everything: if it finds nothing, no stricter one will."""
    parser = MarkdownIt("commonmark", {"html": True, "linkify": False, "maxNesting": 100})
    parser.enable(["table", "strikethrough"])
    parser.disable("text_join")  # escaped characters stay tokens of their own
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _is_harmless(text: str) -> bool:
    if len(text) > MAX_PARSED and re.search(r"[<\[&$\\`:]", text):
        return False
    env: dict[str, dict[str, dict[str, str]]] = {}
    tokens = list(_flatten(_permissive_parser().parse(text, env)))
    addresses = [reference["href"] for reference in env.get("references", {}).values()]
    return (
        all(map(SAFE_ADDRESS.match, addresses))
        and all(map(_is_harmless_token, tokens))
        and not _may_typeset_anything(tokens)
    )


def _may_typeset_anything(tokens: Iterable[Token]) -> bool:
    """Whether a viewer might typeset TeX that `tex_commands` does not admit.

    Viewers disagree on where a formula begins and ends, and on which backslashes and
    entities count. So every command is checked as soon as there may be a formula
    anywhere. Code is not typeset, unless a viewer misses where it ends.
    """
    source, rendered, code = "", "", ""
    for token in tokens:
        if token.type in ("fence", "code_block", "code_inline"):
            code += f"{token.content}\n"
        elif not token.children:
            # Emphasis does not end a word.
            content = token.content or ("\n" if token.block or not token.nesting else "")
            source += token.markup if token.type == "text_special" else content
            rendered += content
    across = "$" in code and "$" in rendered
    if not (across or _FORMULA.search(source) or _FORMULA.search(rendered)):
        return False
    return not all(map(is_allowed, _COMMAND.finditer(f"{source}\n{rendered}"))) or bool(_DEFINITION.search(code))


def _flatten(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flatten(token.children or ())


def _is_harmless_token(token: Token) -> bool:
    match token.type:
        case "html_block" | "html_inline" | "image":
            return False
        case "link_open":
            return bool(SAFE_ADDRESS.match(str(token.attrs.get("href", ""))))
        case "fence":
            return not (re.search(r"[<>\"'&]", token.info) or _DRAWN.match(token.info.strip()))
        case _:
            return True
