"""What the parts of the form share: the lab, the work in progress, and its widgets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ...events import loop
from ..widgets.parts import Parts
from .controller import LabController
from .form_model import FormModel
from .form_task import FormTask


@dataclass(frozen=True, slots=True)
class FormContext:
    """Given to each part of a form.

    Attributes
    ----------
    lab : LabController
    model : FormModel
    task : FormTask
        The work in progress.
    parts : Parts
        Makes widgets.
    """

    lab: LabController
    model: FormModel
    task: FormTask
    parts: Parts

    def status_line(self) -> Any:
        """The widget of a new status line."""
        return self.parts.html("", "ab-lab-status")

    def later(self, work: Callable[..., Any]) -> Callable[..., None]:
        """A handler for clicks. They arrive on any thread; the toolkit's does the work.

        Names are passed on; what a widget reports about its change is not needed.
        """

        def hand_over(*arguments: Any) -> None:
            names = [each for each in arguments if isinstance(each, str)]
            loop.get_loop().call_soon_threadsafe(work, *names)

        return hand_over

    def starter(self, work: Callable[[], Coroutine[Any, Any, None]], line: str) -> Callable[..., None]:
        """A handler for clicks that starts work reported in a status line."""
        return self.later(lambda: self.task.start(work, line))
