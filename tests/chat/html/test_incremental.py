"""A growing text renders in pieces to the same HTML as the whole text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.chat.html.incremental import IncrementalMarkdown
from agentbook.chat.html.markdown import render

MESSAGE = "\n\n".join(
    f"## Part {n}\n\nSome *words* about part {n}, see [the guide][g].\n\n- one\n  - two\n- three\n\n"
    f"| a | b |\n|---|---|\n| {n} | 2 |\n\n```python\nfor x in range({n}):\n\n    print(x)\n```"
    for n in range(60)
)


def test_pieces_equal_the_whole_and_frozen_chunks_never_change() -> None:
    text = "[g]: https://e.test/guide\n\n" + MESSAGE
    message, frozen = IncrementalMarkdown(), list[str]()
    for end in [*range(0, len(text), 67), len(text)]:
        message.update(text[:end])
        assert message.frozen[: len(frozen)] == frozen
        frozen = list(message.frozen)
    assert "".join(frozen) + message.tail == render(text)
    assert len(frozen) >= 2
    assert all(len(chunk) > 800 for chunk in frozen)
    assert message.open_characters < 2_000


PIECES = [
    *("\u202e", "\r", "\r\n", "\U0001f3f4\U000e0067\U000e007f"),
    *("word ", "a", "1", "=", "-", "- ", "$$", "~~~", "  f", "\n", "\n\n"),
    *("- b\n", "1. c\n", "```\n", "| c |\n|--|\n", "> d\n", "    e\n", "# g\n"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_pieces_equal_the_whole_at_every_step(pieces: list[str]) -> None:
    message, text = IncrementalMarkdown(size=20), ""
    for piece in pieces:
        text += piece
        message.update(text)
        together = "".join(message.frozen) + message.tail
        assert re.sub(r"\s+", "", together) == re.sub(r"\s+", "", render(text))


@pytest.mark.parametrize(
    "text",
    [
        "So:\n\n$$\na\n- b\n= c\n$$\n\nAnd on.",  # a formula that looks like a list until it ends
        "\\[\n# a\nb\n\\]",
        "1. c\n\n2. d\n\nEnd.",
        "- c\n\n- d\n\n  e\n\nEnd.",
        "```\na\n\nb\n```\n\nc\n\n    d\n\ne",
        "| a |\n|--|\n| b |\n\nc\n=\n\nd\n-\n\n> e\nf\n\ng",
    ],
)
def test_pieces_equal_the_whole_letter_by_letter(text: str) -> None:
    message = IncrementalMarkdown()
    for end in range(len(text) + 1):
        message.update(text[:end])
        assert re.sub(r"\s+", "", message.tail) == re.sub(r"\s+", "", render(text[:end]))


def test_a_file_of_markdown_is_one_block_from_its_beginning() -> None:
    text = "```markdown\n# a\n\n```bash\nb\n```\n\n" + "c\n\n" * 20 + "```\n\nd\n"
    message = IncrementalMarkdown(size=20)
    for end in range(12, len(text) + 1):
        message.update(text[:end])
        assert ("".join(message.frozen) + message.tail).count('class="ab-code"') == 1
    message.update(text, complete=True)
    assert "".join(message.frozen) + message.tail == render(text)
    endless = text.replace("```bash\n", "```bash\n```sh\n")
    message.update(endless)
    message.update(endless, complete=True)
    assert "".join(message.frozen) + message.tail == render(endless)


def test_link_definitions_at_the_end_apply_once_the_text_is_complete() -> None:
    text = MESSAGE + "\n\n[g]: https://e.test/guide\n\n[g]: https://e.test/other\n\nThat is [all][g]."
    message = IncrementalMarkdown()
    for end in range(0, len(text), 501):
        message.update(text[:end])
    assert len(message.frozen) >= 2
    assert "<a " not in "".join(message.frozen)
    message.update(text)
    open_ended = list(message.frozen)
    message.update(text, complete=True)
    assert "".join(message.frozen) + message.tail == render(text)
    assert render(text).count('href="https://e.test/guide"') == 61
    assert len(message.frozen) == len(open_ended)
    plain = IncrementalMarkdown()
    plain.update(MESSAGE)
    before = list(plain.frozen)
    plain.update(MESSAGE, complete=True)
    assert [id(chunk) for chunk in plain.frozen] == [id(chunk) for chunk in before], (
        "without definitions nothing is rendered again"
    )


def test_a_different_text_starts_over() -> None:
    message = IncrementalMarkdown()
    message.update(MESSAGE)
    message.update("Something else.")
    assert (message.frozen, message.tail) == ([], "<p>Something else.</p>\n")
