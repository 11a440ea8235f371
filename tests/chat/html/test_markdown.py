"""Markdown becomes HTML that runs and fetches nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.chat.html.markdown import IMAGES, block_starts, render
from agentbook.chat.html.sanitize import clean, visible
from chat.html.test_formulas import typeset
from chat.test_hostile import Reader, assert_harmless


def test_markdown_is_formatted() -> None:
    shown = render(
        "# Title\n\nPart\n---\n\n- [x] done\n- [ ] open\n\n| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n~~no~~ **yes** `code`\n\n"
        "```python\nprint('é')\n```\n\n![a *cat*](https://e.test/cat.png) <https://e.test>"
    )
    for part in (
        '<h5 class="ab-h1 jp-toc-ignore">Title</h5>',
        '<h6 class="ab-h2 jp-toc-ignore">Part</h6>',
        '<li class="ab-task">☑ done</li>',
        '<li class="ab-task">☐ open</li>',
        '<td class="ab-right">1</td>',
        '<td class="ab-center">2</td>',
        "<s>no</s> <strong>yes</strong> <code>code</code>",
        '<div class="ab-lang"><em>python</em></div>',
        '<span class="hl-nb">print</span>',
        '<a class="ab-picture" href="https://e.test/cat.png" title="A picture, not loaded: follow the link to see it" '
        'target="_blank" rel="noopener noreferrer">🖼 a cat</a>',
        '<a href="https://e.test" target="_blank" rel="noopener noreferrer">https://e.test</a>',
    ):
        assert part in shown
    assert "<img" not in shown


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("**注意：**请先备份。", "<strong>注意：</strong>请先备份。"),
        ("这是**「重要」**的事。", "这是<strong>「重要」</strong>的事。"),
        ("**Markdown（マークダウン）**は言語です。", "<strong>Markdown（マークダウン）</strong>は言語です。"),
        ('이것은 **"강조"**입니다.', '이것은 <strong>"강조"</strong>입니다.'),
        ("*（注）*と~~「誤」~~を", "<em>（注）</em>と<s>「誤」</s>を"),
        ("2 ** 3，**不**， a**:**b", "2 ** 3，<strong>不</strong>， a**:**b"),
    ],
)
def test_emphasis_needs_no_spaces_beside_wide_characters(text: str, formatted: str) -> None:
    assert render(text) == f"<p>{formatted}</p>\n"


def test_blocks_written_from_right_to_left_find_their_direction() -> None:
    arabic = "استخدم list في Python."
    text = (
        f"# {arabic}\n\n{arabic}\n\n- {arabic}\n\n> {arabic}\n\n| {arabic} |\n|--|\n| b |\n\n[^1]: {arabic}\n\nEnglish."
    )
    shown = render(text)
    for start in ("<h5", "<p", "<ul", "<blockquote", "<table", '<div class="ab-note"'):
        assert f'{start} dir="auto"' in shown
    assert "<p>English.</p>" in shown
    assert "dir=" not in render("English only.")


NESTED = "A file:\n\n```markdown\n# Install\n\n```bash\npip install x\n```\n\nThen:\n\n```py\nimport x\n```\n```\n\n**After**"


def test_a_file_of_markdown_keeps_its_blocks_of_code() -> None:
    shown = Reader(render(NESTED))
    assert render(NESTED).count('class="ab-code"') == 1
    assert "Then:" in shown.text
    assert "<strong>After</strong>" in render(NESTED)
    plain = "```markdown\na\n```\n\n```bash\nb\n```"
    assert render(plain).count('class="ab-code"') == 2
    endless = "```markdown\n```bash\n```\n\n**After**"  # as CommonMark has it
    assert "<strong>After</strong>" in render(endless)


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        (r"Area $\pi r^2$ of a $x$.", [r"\(\pi r^2\)", r"\(x\)"]),
        (r"Euler: \(e^{i\pi}+1=0\) and \(a-b\)", [r"\(e^{i\pi}+1=0\)", r"\(a-b\)"]),
        ("$$\n\\int_0^1 x\n= y\n- z\n$$", ["\\[\\int_0^1 x\n= y\n- z\\]"]),
        ("before\n\\[\na &= b \\\\\n\\]\nafter", ["\\[a &= b \\\\\\]"]),
        ("- item\n  $$\n  x\n  $$\n- next", [r"\[x\]"]),
        ("| a |\n|---|\n| $x_1$ |", [r"\(x_1\)"]),
        ("**$x*y*z$** and $3$", [r"\(x*y*z\)", r"\(3\)"]),
        ("$a < b$ & <b>", [r"\(a < b\)"]),
        ("It costs $5 and $10.", []),
        ("US$5, $5-$10, $20/month or $30, $1,000; between $5 and 10$", []),
        (r"\$3 and \$4, $ x $, $$ and $", []),
        ("$HOME/bin:$PATH and $PATH$", []),
        ("`$x$` and $a `b$c`", []),
        ("```\n$$\nx\n$$\n```\n\n    $y$", []),
        (r"\[1\], \[a link\](x), \(see below\)", []),
        ("$$unclosed\n\nmore $$", []),
    ],
)
def test_mathematics_is_told_from_money(text: str, tex: list[str]) -> None:
    assert typeset(text) == tex
    assert_harmless(render(text))


def test_pictures_are_fetched_only_if_the_reader_allows_it() -> None:
    text = (
        "![a *cat*](https://e.test/cat.png) ![b](data:image/png;base64,AA) ![c](/api/x.png) ![d](javascript:alert(1))"
    )
    assert "<img" not in render(text)
    links = [attributes["href"] for tag, attributes in Reader(render(text)).tags if tag == "a"]
    assert links == ["https://e.test/cat.png"], "a link that leads nowhere"
    pictures = [attributes for tag, attributes in Reader(render(text, {IMAGES: True})).tags if tag == "img"]
    assert pictures[0] == {
        "class": "ab-img",
        "src": "https://e.test/cat.png",
        "alt": "a cat",
        "loading": "lazy",
        "referrerpolicy": "no-referrer",
    }
    assert len(pictures) == 1
    assert "<img" not in clean('<img src="https://e.test/cat.png">')


def test_hidden_characters_are_spelled_out_except_those_scripts_need() -> None:
    assert visible("a\u202eb\x00\x1b") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+001B⟩"
    family, flag, persian = (
        "👨\u200d👩\u200d👧",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "می\u200cخواهم",
    )
    for text in (family, flag, persian, "tab\tand\nline"):
        assert visible(text) == text
    assert visible(visible("\u2066x")) == visible("\u2066x")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "a b\n" * 30_000,
        "[" * 60_000,
        ("[" * 7_900 + "\n") * 2,
        "*a_ " * 15_000,
        "> " * 20_000,
        "- " * 20_000 + "x",
        "`" * 30_000,
        "<a:" * 20_000,
        ("|" * 7_000 + "\n") * 10,
        "$a " * 20_000,
        "$$a\n" * 15_000,
        "\\[a\n" * 15_000,
        "\\(" * 30_000,
        "![" * 20_000,
        "```\n" + "x = 1\n" * 50_000,
        "```md\n```x\n```\n" * 20_000,
        "\n".join(" " * n + "- a" for n in range(300)),
    ],
    ids=lambda text: text[:6].strip() or "spaces",
)
@pytest.mark.timeout(120)  # seconds each; minutes with a single rule of quadratic cost
def test_pathological_texts_render_quickly(text: str) -> None:
    shown = render(text)
    if len(shown) < 200_000:
        assert_harmless(shown)


def test_a_line_of_a_megabyte_is_shown_completely() -> None:
    assert Reader(render("before\n\n" + "x" * 1_000_000 + "\n\n**after**")).text.count("x") == 1_000_000


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", "- b\n", "```\n", "| c |\n|--|\n", "> d\n", "    e\n", "# f\n"])))
def test_blocks_render_the_same_apart_and_together(parts: list[str]) -> None:
    text = "".join(parts)
    starts = block_starts(text)
    pieces = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    assert "".join(pieces) == text
    assert re.sub(r"\s+", "", "".join(map(render, pieces))) == re.sub(r"\s+", "", render(text))
