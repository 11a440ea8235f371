"""What the table of results in a page gets, and what it may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.chat.prompt_lab.view import LabView

from .form import until
from .lab_platform import LabPlatform


@pytest.fixture
def rows(lab: PromptLab) -> ResultRows:
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("brief", "Be brief.")
    lab.run(["one", "two"], checks=["kind"], progress=False)
    return ResultRows(lab._lab, "seed")


def changes(rows: ResultRows, changed: set[str] | None = None) -> dict[str, Any]:
    message = rows.changes(changed)
    assert message is not None
    return message


def test_a_page_gets_each_row_once_and_then_what_changes(lab: PromptLab, rows: ResultRows) -> None:
    first = changes(rows)
    assert [row["input"] for row in first["rows"]] == ["one", "two"]
    assert [each["name"] for each in first["head"]["variants"]] == ["kind", "brief"]
    assert rows.changes(None) is None
    lab._lab.answers[0].thumb = False
    second = changes(rows, {"one"})
    assert (second["version"], second["head"], second["order"]) == (first["version"] + 1, None, None)
    [row] = second["rows"]
    assert [[reply["thumb"] for reply in cell] for cell in row["cells"]] == [[False], [None]]
    assert rows.snapshot()["rows"][0] == row


def test_an_edit_tells_what_it_fixed_and_broke(platform: LabPlatform, lab: PromptLab, rows: ResultRows) -> None:
    lab.edit_variant("kind", system_prompt="Be nice.")
    lab.run(["one", "two"], progress=False)
    first = changes(rows)["rows"][0]["cells"]
    assert [(reply["before"], reply["passed"]) for cell in first for reply in cell] == [(True, False), (None, False)]
    details = rows.details(0, 0, 1)
    assert details is not None
    assert details["earlier"] == [["Earlier, with “Be kind.”", "Be kind.: one"]]
    assert dict(details["items"])["Agent"] == "acme~writer"
    assert rows.details(0, 7, 1) is rows.details(9, 0, 1) is None


def test_replies_are_compared_word_by_word(rows: ResultRows) -> None:
    changes(rows)
    [[_, cells]] = rows.bodies([0], None)["rows"]
    assert "<p>Be brief.: one</p>" in cells[1][0]
    [[_, [baseline, other]]] = rows.bodies([0], 0)["rows"]
    assert "ab-ins" not in baseline[0]
    assert "From kind to brief" in other[0]
    assert "ab-ins" in other[0]
    assert rows.bodies([99], 0)["rows"] == []


def test_a_page_rates_and_its_garbage_is_ignored(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], progress=False)
    until(lambda: len(view.results.table._view.snapshot()["rows"]) == 1)
    send = view.results.table._view._handle_custom_msg
    for garbage in ({}, {"kind": "vote", "row": 99, "variant": 0, "repeat": 1}, {"kind": "bodies", "rows": "x"}, []):
        send(garbage, [])
    send({"kind": "vote", "row": 0, "variant": 0, "repeat": 1, "thumb": True, "note": "clear"}, [])
    until(lambda: [(each.thumb, each.note) for each in lab._lab.answers] == [(True, "clear")])
    until(lambda: view.results.table._view.snapshot()["rows"][0]["cells"][0][0]["note"] == "clear")
    assert lab.results.loc[0, ["thumb", "note"]].tolist() == [True, "clear"]
    lab.run(["one"], progress=False)
    assert lab._lab.answers[0].thumb is True


def test_an_input_that_comes_before_its_change_is_known(lab: PromptLab, rows: ResultRows) -> None:
    changes(rows)
    lab.run(["one", "two", "three"], progress=False)
    message = changes(rows, set())
    assert [row["id"] for row in message["rows"]] == message["order"][2:]
