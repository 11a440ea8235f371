"""What goes along with a message, as text that people can read before it is sent."""

from __future__ import annotations

import html
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from agentbook.chat.html.attached import file_html, parts_of, said
from agentbook.chat.model.attachments import MAX_CHARACTERS, READ_BYTES, attachment, with_attachments
from chat.fakes import FakePlatform, echo
from chat.panels import PagePerson, eventually, make

FRAME = pd.DataFrame({"name": ["a|b", "two\nlines", None], "n": [1, 2, 3]})
SECRETS = ["tide42-hunter", "sk-abcdefghijkl1234567890", "ada@acme.test"]
HOSTILE = [
    "```",
    "````\n```csv\n~~~",
    "<script>alert(1)</script>",
    "**x** \n\n# y",
    "\ud800",
    "`" * 50,
    "a\0b",
    "$\\def\\x{}$",
]


def code_of(text: str) -> list[str]:
    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]


def test_tables_as_csv_and_as_markdown() -> None:
    assert attachment(FRAME, "data", rows=2).startswith(
        "**data** (the first 2 of 3 rows × 2 columns)\n\n```csv\nname,n\n"
    )
    assert attachment(FRAME, "data", format="markdown") == (
        "**data** (3 rows × 2 columns)\n\n| name | n |\n| --- | --- |\n| a\\|b | 1 |\n| two lines | 2 |\n|  | 3 |"
    )
    assert "day,n\nMonday,1" in attachment(pd.Series([1], index=pd.Index(["Monday"], name="day"), name="n"))
    assert "**table** (3 rows × 1 column)" in attachment(FRAME.set_index("n"))


def test_files_and_outputs_of_cells(tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text("SELECT 'é'", encoding="utf-8-sig")
    assert attachment(path) == "**query.sql**\n\n```sql\nSELECT 'é'\n```"
    captured = SimpleNamespace(stdout="printed\n", outputs=[SimpleNamespace(data={"text/plain": "42"})])
    assert code_of(attachment(captured)) == ["printed\n42\n"]
    assert code_of(attachment({"a": [1, 2]}, "facts")) == ["{'a': [1, 2]}\n"]
    with pytest.raises(FileNotFoundError):
        attachment(tmp_path / "missing.txt")


@pytest.mark.parametrize("line", ["x" * 99, "é" * 99])
def test_long_ones_are_cut_at_a_line_and_say_so(tmp_path: Path, line: str) -> None:
    text = f"{line}\n" * 2_000
    path = tmp_path / "long.txt"
    path.write_text(text)
    for made in (attachment(text, "long"), attachment(path)):
        assert len(made) < MAX_CHARACTERS + 200
        assert "cut after 19," in made
        assert code_of(made)[0].endswith(f"{line}\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_content_leaves_its_block(text: str) -> None:
    made = attachment(text, "*a*\n# name")
    [code] = code_of(made)
    assert code == text.replace("\ud800", "?") + "\n" or "\0" in text
    assert not any(token.type == "heading_open" for token in MarkdownIt().parse(made))
    made.encode()


def test_secrets_are_masked_whatever_is_attached(tmp_path: Path) -> None:
    password, key, address = SECRETS
    frame = pd.DataFrame({"name": [f"mail {address}", "b"], "api_key": [password, None], "n_tokens": [5, 6]})
    frame.index = pd.Index([key, "row"], name="id")
    config = tmp_path / "config.yaml"
    config.write_text(f"password: {password}\nowner: {address}\n")
    made = {
        "csv": attachment(frame, "customers"),
        "markdown": attachment(frame, "customers", format="markdown"),
        "arrow": attachment(pa.Table.from_pandas(frame), "customers"),
        "file": attachment(config),
        "dict": attachment({"password": password, "key": key}, "settings"),
        "named": attachment(password, "db_password"),
        "object": attachment([password], "tokens"),
    }
    for text in made.values():
        assert not any(secret in text for secret in SECRETS), text
        assert "masked" in text.splitlines()[0] or "<masked>" in text
    assert "2 rows × 3 columns, masked: the column api_key, masked: an e-mail address, a key" in made["csv"]
    assert "\nrow,b,,6\n" in made["csv"], "a gap stays a gap"
    assert password in attachment(frame, "customers", mask=False)
    assert attachment(frame[["n_tokens"]].reset_index(drop=True), "n") == (
        "**n** (2 rows × 1 column)\n\n```csv\nn_tokens\n5\n6\n```"
    )


@pytest.mark.parametrize("options", [{"rows": 0}, {"format": "xlsx"}])
def test_limits_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1 row"):
        attachment(FRAME, **options)


def test_a_panel_shows_what_is_attached_before_it_is_sent() -> None:
    panel = make(FakePlatform(echo))
    page = PagePerson(panel)
    first, second = panel.attach(FRAME, "data", rows=1), panel.attach("and this")
    names = re.findall(r"<strong>(.*?)</strong></bdi> <bdi>(.*?)</bdi></summary>", page.files)
    assert names == [("data", "the first 1 of 3 rows × 2 columns, 12 characters"), ("text", "8 characters")]
    page.say(do="attach", name="far.csv", text="x" * (READ_BYTES + 1), size=10**9)
    page.say(do="attach", name="wrong.csv", text="", size=0)
    page.say(do="detach", file=re.findall(r'data-file="(\d+)" aria-label="Remove wrong.csv"', page.files)[0])
    assert "1,000,000,000 bytes" in page.files
    page.say(do="detach", file=re.findall(r'data-file="(\d+)"', page.files)[-1])
    page.say(do="detach", file="7")
    files = page.files
    page.say(do="attach", source=second)  # as Edit does
    assert page.files == files, "it is attached already"
    page.say(do="detach", file=re.findall(r'data-file="(\d+)"', files)[-1])
    page.say(do="attach", source=second)
    page.write("What is this?")
    eventually(panel, lambda: bool(panel.conversation.turns))
    assert panel.conversation.turns[0].prompt == f"What is this?\n\n{first}\n\n{second}"
    assert page.files == ""
    eventually(panel, lambda: not panel.conversation.pending)
    turn = panel.ask("And this?", attach={"data": FRAME})
    assert turn.prompt == with_attachments("And this?", {"data": FRAME})
    assert "**data** (3 rows × 2 columns)" in turn.prompt


@pytest.mark.parametrize(
    "words", [*HOSTILE[:4], "", "\n\n", "**not.csv**\n\nno block", "**a.csv**\n\n```\nnever closed"]
)
def test_a_message_is_taken_apart_and_is_the_same_put_together(words: str) -> None:
    files = {"data": FRAME, "a.md": "```\n````\n**b**\n\n```\nx\n```"}
    message = f"{with_attachments(words or 'x', files)}\n\n{words}\n\n{attachment(FRAME, format='markdown')}"
    parts = parts_of(message)
    assert "\n".join(part.source for part in parts) == message
    if words not in HOSTILE and "never" not in words:
        assert [part.name for part in parts if part.name] == ["data", "a.md", "table"]
    shown = re.sub(
        r'<details class="ab-file" data-source="([^"]*)">.*?</details>', r"\1", said(message), flags=re.DOTALL
    )
    assert html.unescape(re.sub(r"<[^>]*>", "", shown)) == message


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (attachment(pd.DataFrame({"a|": ['x, "y"\nz', None]}), "t"), [["a|"], ['x, "y"\nz'], [""]]),
        (attachment(pd.DataFrame({"a|": ["x\\", None]}), "t", format="markdown"), [["a|"], ["x\\"], [""]]),
        (attachment("a,b\r\n1\r=SUM(A1),2,3\n<i>", "t.csv"), [["a", "b"], ["1"], ["=SUM(A1)", "2", "3"], ["<i>"]]),
        (attachment("n\n" + "7\n" * 9_000, "t.csv"), [["n"], *[["7"]] * 100]),
    ],
)
def test_an_attached_table_is_shown_as_a_table(text: str, cells: list[list[str]]) -> None:
    [part] = parts_of(text)
    page = file_html(part)
    rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    ]
    assert [[html.unescape(cell) for cell in row] for row in rows] == cells
    assert ("<p>8,900 more rows</p>" in page) == (len(cells) > 100)


@pytest.mark.parametrize("format", ["csv", "markdown"])
def test_columns_of_numbers_stand_on_the_right(format: str) -> None:
    numbers = {"n": [7, -1204], "x": [0.00003, None], "a": ["1,204.5", "12 %"]}
    words = {"day": ["2026-11-16", "7"], "nothing": [None, None], "ip": ["10.0.0.1", "8"]}
    page = said(attachment(pd.DataFrame(numbers | words), format=format))
    titles = re.findall(r"<th([^>]*)>(.*?)</th>", page)
    assert [title for style, title in titles if style] == list(numbers)
    assert page.count("<td>") == 2 * len(words)


def test_what_is_no_table_is_shown_as_it_is() -> None:
    for text in ("x,y", f'**a** (1 row)\n\n```csv\n"{"x" * 200_000}\n```'):
        assert "<table" not in said(attachment(text, "a.txt") if len(text) < 9 else text)


def test_many_blocks_that_never_end_are_read_once() -> None:
    assert len(parts_of("**a.csv**\n\n```\n" * 20_000)) < 20_001
