"""Titles, errors for calls that do not fit, and reprs of what was not initialized."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import is_dataclass
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook._text import MAX_READ, title
from agentbook.chat.model.attachments import attachment, with_attachments

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
        ("**注意：**请**备份**。", "注意：请备份。"),
    ],
)
def test_markup_is_no_part_of_the_title(text: str, words: str) -> None:
    assert title(text) == words


def test_a_title_is_short_and_of_the_beginning() -> None:
    assert title("word " * 100, 20) == "word word word word…"
    assert title("**x**\n\n```\n" + "line\n" * MAX_READ + "```\nWords", 20) == "x"
    assert title("- word word word\n" * 100) == title("word " * 100) == f"{'word ' * 11}word…"
    assert title("`a` " * 20) == ("a " * 20).rstrip(), "its marks are not counted"


@pytest.mark.parametrize(
    ("kind", "example"),
    [
        (ab.ChatPanel, 'ab.ChatPanel(client, workspace="acme~lab", agent="guide")'),
        (ab.PromptLab, 'ab.PromptLab(client, agent="writer", workspace="acme~lab")'),
        (ab.Compare, 'ab.Compare(client, workspace="acme~lab", agents=["guide", "echo"])'),
        (ab.Explorer, "ab.Explorer(history)"),
    ],
)
def test_a_widget_without_arguments_shows_the_call_to_make(kind: Any, example: str) -> None:
    with pytest.raises(TypeError) as raised:
        kind()
    name = example.partition("(")[0]
    first = next(iter(inspect.signature(kind).parameters))
    assert str(raised.value) == f"{name}: missing a required argument: {first!r}. Write {example}."
    with pytest.raises(TypeError, match=rf"{name}: too many positional arguments\. Write "):
        kind(*range(99))
    with pytest.raises(TypeError, match=f"{name} has no argument 'heigth'; "):
        kind(None, heigth="1px")


# A dataclass has its attributes before anything is checked.
CLASSES = [
    name
    for name in ab.__all__
    if inspect.isclass(kind := getattr(ab, name))
    and not issubclass(kind, (BaseException, tuple, dict))
    and not is_dataclass(kind)
]


@pytest.mark.parametrize("name", CLASSES)
def test_an_object_has_a_repr_before_it_has_anything_else(name: str) -> None:
    kind = getattr(ab, name)
    assert name in repr(kind.__new__(kind))


def test_a_traceback_with_variables_shows_a_constructor_that_raised() -> None:
    with pytest.raises(ValueError, match="has the form") as raised:
        ab.Client("https://h/v1", credentials="not a key")
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "self = <Client (not initialized)>" in shown
    assert "self = <ApiKey (not initialized)>" in shown
