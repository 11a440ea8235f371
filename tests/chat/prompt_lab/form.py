"""What a person does with the lab's form, and sees in it."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import altair  # noqa: F401 - which takes long on a busy machine, and the first run would wait for it

from agentbook.chat.prompt_lab.view import LabView
from agentbook.events import loop


def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition holds, polled on the thread that draws."""
    done = threading.Event()

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.005)
        done.set()

    polling = loop.submit(poll())
    if not done.wait(60):
        polling.cancel()
        raise AssertionError("the condition did not hold within 60 s")


def words(widget: Any) -> str:
    """The text of a widget."""
    values = [words(child) for child in getattr(widget, "children", ())] or [str(getattr(widget, "value", ""))]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))).strip()


def replies(view: LabView) -> str:
    """The status, the reason and the text of each reply in the table."""
    rows = view.results.table._view.snapshot()["rows"]
    parts = [
        (row["input"], reply["status"], reply["reason"], reply["text"])
        for row in rows
        for cell in row["cells"]
        for reply in cell
    ]
    return " ".join(word for part in parts for word in part if word)


def hidden(widget: Any) -> bool:
    return "ab-hidden" in widget._dom_classes


def fill(view: LabView, **texts: str) -> None:
    """Type into the fields of a variant."""
    for name, text in texts.items():
        view.variants.fields[name].value = text


def typed(view: LabView, name: str = "system_prompt") -> str:
    """What a field of a variant holds."""
    return str(view.variants.fields[name].value)


def add(view: LabView, name: str, prompt: str) -> None:
    fill(view, name=name, system_prompt=prompt)
    view.variants.add.click()
    until(lambda: name in view.variants.ticks)


def run(view: LabView, inputs: str, message: str) -> None:
    view.run.inputs.value = inputs
    view.run.run.click()
    until(lambda: message in words(view.form.status["run"]))


def walk(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
