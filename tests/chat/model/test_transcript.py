"""Transcripts as JSON, Markdown and HTML, and JSON read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentbook.chat.model.conversation import Conversation
from agentbook.chat.replay import replay
from chat.fakes import AGENT, KEY, SESSION, event, recorded


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=4))
def test_json_reads_back_to_an_equal_conversation(pairs: list[tuple[str, str]]) -> None:
    conversation = recorded(*pairs)
    again = Conversation.from_json(conversation.to_json())
    assert again == conversation
    assert again != recorded(*pairs, ("a", "b"))
    assert again.turns == conversation.turns
    pd.testing.assert_frame_equal(again.to_pandas(), conversation.to_pandas())
    assert again.to_html() == conversation.to_html()


def test_failed_and_open_turns_survive_the_round_trip() -> None:
    conversation = recorded(("one", "1"))
    conversation.feed(event(40, "message", {"text": "two"}, KEY))
    conversation.feed(event(41, "tool_note", {"n": 1}, AGENT))
    conversation.feed(event(42, "runtime_error", {"status": 500, "message": "It broke."}, AGENT))
    conversation.feed(event(43, "message", {"text": "three"}, KEY))
    conversation.feed({"id": "draft-1", "type": "runtime_draft", "content": {"delta": "I th", "offset": 0}})
    again = Conversation.from_json(conversation.to_json())
    assert again == conversation
    assert [each.status for each in again.exchanges] == ["answered", "failed", "streaming"]
    assert again.exchanges[1].reason == "It broke."
    assert again.exchanges[1].other_types == {"tool_note": 1}


def test_a_restored_conversation_accepts_more_events() -> None:
    again = Conversation.from_json(recorded(("one", "1")).to_json())
    again.feed(event(3, "runtime_done", {"text": "1"}, AGENT))  # once is enough
    again.feed(event(50, "message", {"text": "two"}, KEY))
    again.feed(event(51, "runtime_done", {"text": "2"}, AGENT))
    assert [turn.text for turn in again.turns] == ["1", "2"]


def test_from_json_reads_files(tmp_path: Path) -> None:
    conversation = recorded(("Grüße", "naïve ☃"))
    path = tmp_path / "talk.json"
    path.write_text(conversation.to_json(), encoding="utf-8")
    assert Conversation.from_json(path) == conversation
    assert Conversation.from_json(str(path)) == conversation
    path.write_text(conversation.to_json(), encoding="utf-8-sig")  # as Windows' editors save it
    assert Conversation.from_json(path) == Conversation.from_json("\ufeff" + conversation.to_json()) == conversation


NO_TRANSCRIPTS = {
    b"\x89PNG\r\n": "Not UTF-8 text",
    b"[" * 100_000: "nested too deeply",
    b"cut": "Not JSON",
    b'{"format": "other"}': "Not a transcript",
    b'{"format": "agentbook-transcript", "version": 99}': "version 99",
    b'{"format": "agentbook-transcript", "version": 1, "exchanges": [{}]}': "damaged",
    recorded(("2+2?", "4")).to_json().replace('"2026-03-01T', '"x').encode(): "transcript is damaged: ValueError",
}


@pytest.mark.parametrize("content", NO_TRANSCRIPTS, ids=NO_TRANSCRIPTS.values())
@pytest.mark.parametrize("read", [Conversation.from_json, replay])
def test_the_error_names_the_file(read: Any, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"talk\.json: .*{NO_TRANSCRIPTS[content]}"):
        read(path)


def test_open_fences_and_headings_end_with_their_message() -> None:
    text = recorded(("# Not a heading of ours", "An open fence:\n```python\nx = 1"), ("next", "fine")).to_markdown()
    tokens = MarkdownIt().parse(text)
    headings = [
        tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open" and not token.level
    ]
    assert headings == [
        "Conversation with guide",
        "laptop (2026-03-01 10:00 UTC)",
        "guide",
        "laptop (2026-03-01 10:00 UTC)",
        "guide",
    ]
    assert [token.content for token in tokens if token.type == "fence"] == ["x = 1\n"]


def test_the_json_holds_the_session_its_turns_and_events() -> None:
    record = json.loads(recorded(("2+2?", "4")).to_json())
    assert record["session_id"] == SESSION
    assert record["agent_name"] == "guide"
    assert [(each["prompt"], each["reply"], each["subtasks"]) for each in record["exchanges"]] == [("2+2?", "4", 1)]
    assert [each["type"] for each in record["exchanges"][0]["events"]] == ["message", "runtime_done", "runtime_done"]


@pytest.mark.parametrize("suffix", [".md", ".HTML", ".json", ".ipynb"])
def test_an_exported_file_is_the_text_of_its_kind(tmp_path: Path, suffix: str) -> None:
    conversation = recorded(("Why? \ud800", "Because.\n```python\nimport os\n```"), ("And?", "So."))
    path = conversation.export(tmp_path / f"talk{suffix}")
    text = path.read_text(encoding="utf-8")
    writers = {
        ".md": conversation.to_markdown, ".html": conversation.to_html,
        ".json": conversation.to_json, ".ipynb": conversation.to_notebook,
    }  # fmt: skip
    assert text == writers[suffix.lower()]().replace("\ud800", "?")
    assert "Because." in text


def test_a_notebook_has_one_cell_for_each_message_and_no_code() -> None:
    conversation = recorded(("Why?", "Because.\n```python\nimport os\n```"), ("<b>And?", "So."))
    notebook = nbformat.reads(conversation.to_notebook(), as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown"] * 5
    assert "\n\n".join(cell.source for cell in notebook.cells) + "\n" == conversation.to_markdown()


def test_another_suffix_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none of \.md, \.html, \.json, \.ipynb"):
        recorded(("Why?", "So")).export(tmp_path / "talk.docx")
    assert list(tmp_path.iterdir()) == []
