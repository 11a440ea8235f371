"""A panel in a box of ipywidgets starts and is saved as one by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets
import pytest
from IPython.core.interactiveshell import InteractiveShell

from agentbook.chat.html import static_transcript
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets import chat_widget
from chat.fakes import FakePlatform
from chat.panels import PagePerson, make


class Cells:
    """A shell that runs cells and collects what they display."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.outputs: list[dict[str, Any]] = []

    def run(self, code: str) -> list[dict[str, Any]]:
        """The outputs of a cell."""
        self.outputs.clear()
        self.shell.run_cell(code).raise_error()
        return list(self.outputs)

    def publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        self.outputs.append(data)


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another environment, IPython warns and borrows its packages
    for module in (static_transcript, chat_widget):
        monkeypatch.setattr(module, "in_kernel", lambda: True)
    shell = InteractiveShell.instance()
    made = Cells(shell)
    monkeypatch.setattr(shell.display_pub, "publish", made.publish)
    shell.user_ns |= {"widgets": widgets, "display": __import__("IPython").display.display}
    yield made
    if shell.history_manager:
        shell.history_manager.end_session()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    "box",
    ["VBox([panel])", "HBox([widgets.Label('left'), panel])", "Tab([widgets.VBox([panel])])", "Accordion([panel])"],
)
def test_a_displayed_box_starts_and_saves_its_panel(cells: Cells, platform: FakePlatform, box: str) -> None:
    cells.shell.user_ns["panel"] = panel = make(platform)
    displayed, saved = cells.run(f"display(widgets.{box})")
    assert "application/vnd.jupyter.widget-view+json" in displayed
    assert displayed["text/plain"] == ""  # which an untrusted notebook would show above the copy
    assert "-static" in saved["text/html"]
    panel.ask("Hello")
    assert "You said: Hello" in cells.outputs[-1]["text/html"], "it is kept up to date"
    assert cells.run("1") == [], "once"
    panel.close()


def test_other_boxes_are_displayed_as_always(cells: Cells, panel: ChatPanel) -> None:
    [displayed] = cells.run("display(widgets.VBox([widgets.Label('x')]))")
    assert displayed["text/plain"].startswith("VBox(")
    cells.shell.user_ns["panel"] = panel
    assert len(cells.run("display(panel)")) == 2


def test_a_page_finds_the_draft_of_the_cell_again(cells: Cells, platform: FakePlatform) -> None:
    """Each panel of a cell has a place, which is the same when the cell runs again."""

    def places(cell: str, agents: list[str]) -> list[str | None]:
        cells.shell.parent_header = {"metadata": {"cellId": cell}} if cell else {}  # type: ignore[attr-defined]
        cells.shell.execution_count += 1
        panels = [make(platform, workspace="acme~lab", agent=agent) for agent in agents]
        found = [PagePerson(panel).place for panel in panels]
        for panel in panels:
            panel.close()
        return found

    first = places("one", ["echo", "echo", "guide"])
    assert places("one", ["echo", "echo", "guide"]) == first
    assert len({*first, *places("two", ["echo"])}) == 4
    assert places("", ["echo"]) == [None]
