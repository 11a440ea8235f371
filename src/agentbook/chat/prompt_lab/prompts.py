"""The prompts there are, in the lab's form: the agent's versions and the lab's variants, to start from and to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from ..html.render import visible
from ..widgets.view import Parts, button
from . import html as looks
from .configurator import AgentConfigurator
from .diff import PromptDiff
from .form import field
from .variant import Variant
from .versions import Version

THE_FORM = "the form"


class Prompts:
    """The version history, what the form can be filled from, and the difference of any two prompts.

    Attributes
    ----------
    widget : Widget
    bench : AgentConfigurator or None
        The agent with its versions, once they have been read.
    """

    def __init__(self, parts: Parts, use: Callable[[], None], compared: Callable[[Any], None]) -> None:
        self.bench: AgentConfigurator | None = None
        self._known: dict[str, Variant | Version] = {}
        self._preset: dict[Any, str] = {}  # what each dropdown was set to here, and not by a person
        self.history = parts.html()
        self.start = field(widgets.Dropdown(description="Start from", options=[("…", "")]), "ab-grow")
        self.use = button("Put into the form", "ab-other", "Fill the form with this prompt and its settings", use)
        self.old = field(widgets.Dropdown(description="Compare", options=[("…", "")]), "ab-grow")
        self.new = field(widgets.Dropdown(description="with", options=[(THE_FORM, THE_FORM)]), "ab-grow")
        self.diff = parts.html()
        for watched in (self.old, self.new):
            watched.observe(compared, "value")
        self.widget = parts.box(
            [
                parts.html(looks.title("Versions")), self.history,
                parts.row([self.start, self.use], "ab-lab-row"),
                parts.row([self.old, self.new], "ab-lab-row"), self.diff,
            ],
            "ab-lab-side",
        )  # fmt: skip

    @property
    def current(self) -> Version | None:
        """The version turns run on, where it is known."""
        return self.bench.current if self.bench is not None else None

    def named(self, label: str) -> Variant | Version | None:
        """What one of the dropdowns calls so."""
        return self._known.get(label)

    def draw_choices(self, agent: str | None, variants: Mapping[str, Variant]) -> None:
        """The history, and what can be started from and compared."""
        if self.bench is not None:
            self.history.value = looks.history(self.bench.versions, self.bench.current)
        elif agent is not None:
            self.history.value = '<div class="ab-foot">Reading the versions…</div>'
        versions = (self.bench.versions if self.bench else None) or []
        readable = [version for version in versions if version.system_prompt is not None]
        # Of two versions with one label the newer counts; newest first.
        known: dict[str, Variant | Version] = {f"version {visible(each.label)}": each for each in reversed(readable)}
        self._known = dict(reversed(known.items()))
        self._known |= {f"variant {visible(name)}": each for name, each in variants.items() if each.system_prompt}
        labels = list(self._known)
        now = next((label for label in labels if self._known[label] == self.current), labels[0] if labels else "")
        self._choose(self.start, labels, now)
        self._choose(self.old, labels, now)
        self._choose(self.new, [THE_FORM, *labels], THE_FORM)

    def _choose(self, box: Any, labels: list[str], otherwise: str) -> None:
        """Give a dropdown its options, and keep what a person has chosen, if it is still there."""
        options = tuple((label, label) for label in labels) or (("none yet", ""),)
        chosen = box.value if box.value in labels and box.value != self._preset.get(box) else otherwise
        if tuple(box.options) != options:
            box.options = options
        if chosen == otherwise:
            chosen = self._preset[box] = otherwise if otherwise in labels else options[0][1]
        box.value = chosen

    def draw_diff(self, typed: str) -> None:
        """The difference of the two that are chosen; `typed` is the prompt in the form."""
        old, new = self._known.get(self.old.value), self._known.get(self.new.value)
        first = old.system_prompt if old is not None else None
        second = typed if self.new.value == THE_FORM else new.system_prompt if new is not None else None
        if first is None or second is None:
            self.diff.value = '<div class="ab-foot">Two prompts are needed to compare them.</div>'
            return
        html = PromptDiff(first, second, self.old.value, self.new.value).to_html()
        self.diff.value = f'<div class="ab-difference" tabindex="0" role="region" aria-label="Difference">{html}</div>'
