"""A title is what a person wrote, without what is attached, and without markup."""

from __future__ import annotations

import pandas as pd
import pytest

from agentbook._titles import MAX_READ, title
from agentbook.chat.model.attachments import attachment, with_attachments

pytestmark = pytest.mark.python_versions

ORDERS = pd.DataFrame({"id": [7, 8], "note": ["`a`", "**b**"]})


@pytest.mark.parametrize(
    "attached",
    [
        attachment(ORDERS, "orders"),
        attachment(ORDERS, "orders", format="markdown"),
        attachment("```\nfenced\n```", "notes.md"),
        attachment({"a": [1]}, "a *starred* (odd) name"),
        attachment("x" * 30_000, "long.txt"),
    ],
)
def test_what_is_attached_is_no_part_of_the_title(attached: str) -> None:
    assert title(f"{attached}\n\nWhich is\nlate?") == "Which is late?"
    assert title(f"{attached}\n\n{attached}\n\nWhich is late?") == "Which is late?"
    assert title(with_attachments("Which is late?", [ORDERS])) == "Which is late?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (attachment(ORDERS, "orders"), "orders"),
        (attachment("SELECT 1", "q.sql"), "q.sql"),
        ("```sql\nSELECT 1\n```", "SELECT 1"),
        ("```\nnever closed", "never closed"),
        ("**Note** this,\nand `that`.", "Note this, and that."),
        ("**A bold line**\nand more", "A bold line and more"),
        ("| a |\n\n**A bold line**", "A bold line"),
        ("---\nWords\n\n- - -", "Words"),
        ("```\na block\n```sql\nthat goes on\n```\nWords", "Words"),
        ("# Task\n\n> quoted\n- one\n* two", "Task quoted one two"),
        ("2**3**4 is a * b in __init__", "2**3**4 is a * b in __init__"),
        ("|||", "|||"),
        ("", ""),
    ],
)
def test_markup_is_no_part_of_the_title(text: str, words: str) -> None:
    assert title(text) == words


def test_a_title_is_short_and_of_the_beginning() -> None:
    assert title("word " * 100, 20) == "word word word word…"
    assert title("**x**\n\n```\n" + "line\n" * MAX_READ + "```\nWords", 20) == "x"
    assert title("- word word word\n" * 100) == title("word " * 100) == f"{'word ' * 11}word…"
    assert title("`a` " * 20) == ("a " * 20).rstrip(), "its marks are not counted"
