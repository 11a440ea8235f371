r"""TeX that could affect the page outside its formula stays source.

``mathjax_commands.json`` lists every command and environment of the MathJax that
JupyterLab loads, by the method that implements it.
"""

from __future__ import annotations

import html
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.chat.html.formulas import TYPESET
from agentbook.chat.html.markdown import render
from agentbook.chat.html.sanitize import quote
from agentbook.chat.html.tex_commands import COMMANDS, ENVIRONMENTS, is_unsafe_tex
from support.hostile import TEX_ATTACKS

LISTED = json.loads(Path(__file__).with_name("mathjax_commands.json").read_text())
METHODS = {
    name: {method for method, names in LISTED["commands"].items() if name in names.split()}
    for names in LISTED["commands"].values()
    for name in names.split()
}
# What these methods do was read: they make characters, boxes, fractions, tables and
# accents of their arguments, and change nothing else.
_PURE = """
    Aboxed Accent BeginEnd Boldsymbol Braket BuildRel CFrac Cancel CancelTo CharacterMap
    Color ColorBox Cr CrLaTeX Cramped DelimiterMap Dots Enclose FBox FColorBox Frac
    Genfrac HBox HFill HLine HandleNoTag HandleOperatorName HandleShove HandleTag Hskip
    Insert Lap LeftRight Limits Macro MakeBig MathChoice MathFont MathLap Matrix
    MoveRoot MtLap MultiIntegral NArrow NamedFn NamedOp Not Over Overset Overunderset
    Phantom Prescript RaiseLower Relation Root SetFont SetSize SetStyle SideSet Smash
    Spacer SplitFrac Sqrt Strut TeXAtom TextColor Tilde UnderOver Underset
    mhchem rule xArrow
"""
PURE = set(_PURE.split())


def typeset(text: str) -> list[str]:
    """The TeX that MathJax would typeset in a text."""
    return [html.unescape(tex) for tex in re.findall(rf'{TYPESET}">(.*?)</(?:span|div)>', render(text), re.DOTALL)]


def in_each_delimiter(tex: str) -> list[str]:
    return [f"${tex}$", f"$${tex}$$", rf"\({tex}\)", f"\\[\n{tex}\n\\]"]


def test_the_list_is_of_the_mathjax_that_jupyterlab_loads() -> None:
    lab = find_spec("jupyterlab")
    if lab is None or lab.origin is None:
        pytest.skip("JupyterLab is not installed")
    licenses = json.loads((Path(lab.origin).parent / "static" / "third-party-licenses.json").read_text())
    versions = {each["name"]: each["versionInfo"] for each in licenses["packages"]}
    assert versions["mathjax-full"] == LISTED["mathjax"], "run list_mathjax_commands.cjs, and read what is new"


def test_only_commands_that_were_read_are_typeset() -> None:
    for name in " ".join(LISTED["commands"].values()).split():
        tex = rf"\{name}{{\alpha}}{{x}}"
        if name in COMMANDS:
            assert METHODS[name] <= PURE, name
        else:
            assert [typeset(text) for text in in_each_delimiter(tex)] == [[]] * 4, name
            assert tex in html.unescape(render(f"${tex}$")), "its source is shown"
            assert quote(f"${tex}$").startswith("```text\n"), name


def test_the_allow_list_holds_no_name_that_mathjax_does_not_define() -> None:
    assert {name for name in COMMANDS if name.isalpha()} <= METHODS.keys()
    assert set(LISTED["environments"].split()) >= ENVIRONMENTS


def test_attacks_stay_source() -> None:
    for tex in TEX_ATTACKS:
        assert [typeset(text) for text in in_each_delimiter(tex)] == [[]] * 4, tex
        assert tex in html.unescape(render(f"\\[\n{tex}\n\\]"))


@pytest.mark.parametrize(
    "tex",
    [
        r"x % \)",
        r"{x",
        r"x}{",
        "x\\",
        r"\begin{CD}A\end{CD}",
        r"\begin {align}x\end\alpha",
        r"\\[-9em]x",
        r"\\[-99pt]x",
        r"\kern-9em x",
        r"\mkern-180mu x",
        r"\raise 999pt x",
        r"\\ [ 999em]x",
        r"\hspace{999em}",
        r"\hspace{-9em}",
        r"\cancel[padding=99em]{x}",
        r"\color{red;background:url(x)}x",
        # MathJax reads half of the line break, and then \let.
        r"\cases \\let\alpha x",
        r"\matrix\\let\alpha x",
    ],
)
def test_tex_with_unusual_arguments_stays_source(tex: str) -> None:
    assert is_unsafe_tex(tex)


@pytest.mark.parametrize("tex", [r"\\", r"\hspace{", r"\\["])
def test_spaces_before_an_argument_take_no_longer_than_their_number(tex: str) -> None:
    """In the square of their number, these would take minutes."""
    assert is_unsafe_tex(tex + " " * 300_000 + "x") == (tex != r"\\")


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{-b \pm \sqrt{b^2-4ac}}{2a}",
        r"\begin{pmatrix} a & b \\[2pt] c & d \end{pmatrix}^{\!\top}",
        r"\sum_{i=1}^n \mathbb{E}\left[x_i \,\middle|\, y\right] \xrightarrow{n\to\infty} \hat\mu \tag{1}",
        r"\text{50\% of } \mathcal{N}(0, \sigma^2) \hspace{1em} \color{red}{x} \boxed{42}",
        r"\begin{cases} 1 & x \ge 0 \\ 0 & \text{else} \end{cases}",
        r"\ce{2H2 + O2 -> 2H2O}",
        r"\begin{matrix} a \\[-2pt] b \\*[-0.2em] c \end{matrix}",
        r"a\mkern-3mu b \kern.5em c \mskip{18mu} d \raise2pt{e} \sqrt[3]{x}",
        r"\pmb{\mathbfit{x}} \texttrademark",
        "\\begin{align*} f(x) &= \\operatorname*{arg\\,max}_x \\\\\\hline \\end{align*}",
    ],
)
def test_common_formulas_are_typeset(tex: str) -> None:
    assert typeset(rf"\[{tex}\]") == [rf"\[{tex}\]"]


@pytest.mark.parametrize(
    ("source", "tex"),
    [
        (r"\begin{align}a &= b \label{eq:a}\\ c &= d\end{align}", r"\begin{align}a &= b \\ c &= d\end{align}"),
        (r"x_1 \label {a} + 1", r"x_1  + 1"),
        (r"a \\label{x}", r"a \\label{x}"),  # a line break, and a word
    ],
)
def test_a_label_does_not_reach_mathjax(source: str, tex: str) -> None:
    assert typeset(rf"\[{source}\]") == [rf"\[{tex}\]"]


def test_no_command_is_hidden_in_a_label() -> None:
    tex = r"\l\label{a}et\alpha x"
    assert [typeset(text) for text in in_each_delimiter(tex)] == [[]] * 4
    assert tex in html.unescape(render(f"${tex}$")), "its source is shown, with the label"


PIECES = st.sampled_from(
    [*"{}[]$%^_&# \n\\", r"\\", r"\alpha", r"\text{", r"\cases", r"\begin{align}", "let", "def", r"\(", r"\)", "a", "`"]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_text_reaches_mathjax_with_another_command(text: str) -> None:
    for tex in typeset(text):
        inner = tex[2:-2]
        assert {*re.findall(r"\\([A-Za-z]+|.)", inner, re.DOTALL)} <= COMMANDS
        assert r"\)" not in inner.replace("\\\\", "")


# Markdown


@pytest.mark.parametrize(
    "text",
    [
        r"$\refeq{a}$",
        r"&#36;\\def\alpha x&#36;",
        r"&#92;(&#92;def&#92;alpha x&#92;)",
        r"$a$ \le**t**\alpha x",
        r"\begin{align}\refeq{a}\end{align}",
        "```\n$\n```\n$ x\n```\n\\(\\def\\alpha{x}\\)\n```",
    ],
)
def test_markdown_that_may_define_something_becomes_code(text: str) -> None:
    assert quote(text) in (f"```text\n{text}\n```", f"````text\n{text}\n````")


@pytest.mark.parametrize(
    "text",
    [
        r"It costs $5, see C:\Users\me.",
        "Run:\n\n```bash\necho $A $B | sed 's/\\d//'\n```\n\nin C:\\Users.",
        "The sum $\\sum_i x_i$ is\n\n```python\nprint('\\n', r'\\d+')\n```",
        r"Write `\def\alpha{x}` in TeX.",
    ],
)
def test_markdown_with_paths_and_code_stays_as_it_was_written(text: str) -> None:
    assert quote(text) == "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
