"""The fields for a new agent, for a lab without an agent.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..widgets.parts import Parts, button
from . import html
from .fields import combobox, text_area, text_field

HINT = (
    '<div class="ab-foot"><span>This lab has no agent yet. Create one here; an agent cannot be deleted. '
    "Or name one in the cell: <code>ab.PromptLab(client, agent=…, workspace=…)</code>.</span></div>"
)


class AgentForm:
    """Name, workspace, model and prompt of a new agent.

    Parameters
    ----------
    parts : Parts
    on_create : callable
    status : Widget
        The status line.

    Attributes
    ----------
    widget : Widget
    """

    def __init__(self, parts: Parts, on_create: Callable[[], None], status: Any) -> None:
        self.name = text_field("Name of the agent", "such as: helper", "ab-grow")
        self.workspace = combobox("Workspace", "such as: trial", "ab-grow")
        self.model = combobox("Model of the agent", "the platform's default", "ab-grow")
        self.prompt = text_area("First prompt", 3, "You are … (optional: try out variants first)")
        self.create = button("Create the agent", "ab-main", "Create it on the platform, and use it here", on_create)
        side = parts.box(
            [
                parts.html(html.title("New agent")),
                parts.html(HINT),
                parts.row([self.name, self.workspace, self.model], "ab-lab-row"),
                self.prompt,
                parts.row([self.create], "ab-lab-row"),
                status,
            ],
            "ab-lab-side",
        )
        self.widget = parts.row([side], "ab-lab-part", "ab-lab-top")

    def read(self) -> dict[str, str]:
        """The text of each field."""
        boxes = {"name": self.name, "workspace": self.workspace, "model": self.model, "prompt": self.prompt}
        return {name: box.value for name, box in boxes.items()}

    def offer(self, models: Sequence[str], workspaces: Sequence[str], workspace: str) -> None:
        """Offer models and workspaces, and fill in a workspace if none was typed."""
        self.model.options, self.workspace.options = tuple(models), tuple(workspaces)
        self.workspace.value = self.workspace.value or workspace
