"""The variants of a lab in its form: adds, edits, applies and removes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import html
from .form_context import FormContext
from .variant_form import PromptChooser, VariantForm
from .variant_list import VariantList

APPLIED = "applied in the prompt lab"  # summary of a version whose variant has no name
FORM = "form"  # the status line


class VariantsPart:
    """The variants.

    Parameters
    ----------
    context : FormContext
    redraw : callable
        Called after a field was changed.
    read_versions : callable
        Reads the agent's versions again, after it was changed.

    Attributes
    ----------
    widget : Widget
    form : VariantForm
    prompts : PromptChooser
    list : VariantList
        Shown next to the inputs, where a run is started.
    status : Widget
        The status line.
    unread : bool
        Whether reading the agent's versions has failed.
    """

    def __init__(
        self,
        context: FormContext,
        redraw: Callable[[], None],
        read_versions: Callable[..., Any],
    ) -> None:
        self._lab, self._model, self._task = context.lab, context.model, context.task
        self._read_versions = read_versions
        parts, later = context.parts, context.later
        self._edited: str | None = None  # the variant whose settings the form shows
        self.status = context.status_line()
        self.unread = False
        apply = context.starter(self._apply, FORM)
        self.form = VariantForm(
            parts, later(self._add), later(self._ask_apply), apply, later(self._stop_editing), self.status
        )
        self.form.prompt.observe(later(redraw), "value")
        self.prompts = PromptChooser(parts, later(self._use), later(redraw))
        self.list = VariantList(
            parts, later(self._edit), later(self._duplicate), later(self._ask_remove), later(self._remove)
        )
        self.widget = parts.row([self.form.widget, self.prompts.widget], "ab-lab-part", "ab-lab-top")

    async def open(self) -> None:
        """Offer the platform's models, and fill the form with the agent's version."""
        self.form.draw_models(await self._model.model_names())
        current = self._lab.current
        if current is not None and not self.form.prompt.value:
            self.form.fill(self._model.settings_as_text(current))

    # Drawing: on the toolkit's thread

    def draw(self, *, busy: bool) -> None:
        """Draw what can be pressed, and the comparison with what was typed."""
        self.form.apply.disabled = busy or self._lab.agent is None
        self.list.enable(not busy)
        self.prompts.draw_diff(self.form.prompt.value)

    def draw_choices(self) -> None:
        """Draw the variants and the versions."""
        configurations = self._model.configurations_by_label()
        prompts = {label: each.system_prompt or "" for label, each in configurations.items()}
        current = next((label for label, each in configurations.items() if each == self._lab.current), "")
        self.prompts.draw_choices(
            html.history(self._lab.configurator, self._lab.agent, unread=self.unread), prompts, current
        )
        self.list.draw(self._model.variant_labels())

    @property
    def present(self) -> str:
        """The version that the agent runs on, in words."""
        lab = self._lab
        if lab.agent is None and not lab.experiment.variants:
            return "This lab has no agent yet: create one above, or name one in its cell."
        if lab.agent is None or lab.configurator is None:
            return "Type a prompt, or start from a version."
        if lab.current is not None:
            return f"{lab.agent_name} runs on version {lab.current.label}."
        return f"{lab.agent_name} has no version yet: type a prompt and press “Add as variant”."

    # The buttons: on the toolkit's thread

    def _add(self) -> None:
        self._task.attempt(self._add_new if self._edited is None else self._save_edited, FORM)

    def _add_new(self) -> str:
        variant = self._lab.experiment.add_variant(self._model.parse_variant(self.form.read()))
        self.form.name.value = ""
        return f"Added the variant “{variant.name}”. Run it below."

    def _save_edited(self) -> str:
        variant = self._model.edit_variant(self._edited or "", self.form.read())
        self._stop_editing()
        return f"Saved “{variant.name}”. {self._model.revision_note(variant.name)}"

    def _edit(self, name: str) -> None:
        self._task.attempt(partial(self._show_variant, name), FORM)

    def _duplicate(self, name: str) -> None:
        self._task.attempt(lambda: self._show_variant(self._lab.experiment.duplicate_variant(name).name), FORM)

    def _show_variant(self, name: str) -> str:
        variant = self._lab.experiment.variant(name)
        self._edited = name
        self.form.fill(self._model.settings_as_text(variant))
        self.form.name.value, self.form.version.value = name, variant.version or ""
        self.form.draw_editing(True)
        self.form.prompt.focus()
        return f"Editing “{name}”. If its text changes, its replies stay as an earlier revision."

    def _stop_editing(self) -> None:
        self._edited = None
        self.form.name.value = self.form.version.value = ""
        self.form.draw_editing(False)
        self._task.say("", FORM)

    def _ask_remove(self, name: str) -> None:
        count = self._model.count_answers(name)
        if count:
            self.list.ask_to_remove(name, f"The replies of “{name}” are removed with it: {count}.")
        else:
            self._remove(name)

    def _remove(self, name: str) -> None:
        if self._edited == name:
            self._stop_editing()
        self._task.attempt(partial(self._remove_variant, name), FORM)

    def _remove_variant(self, name: str) -> str:
        self._lab.experiment.remove_variant(name)
        return f"Removed the variant “{name}”."

    def _use(self) -> None:
        label = self.prompts.start.value
        configuration = self._model.configurations_by_label().get(label)
        if configuration is not None:
            self.form.fill(self._model.settings_as_text(configuration))
            self._task.say(f"The form shows {label}.", FORM)

    def _ask_apply(self) -> None:
        self._task.attempt(self._show_apply_question, FORM)

    def _show_apply_question(self) -> str:
        self._model.parse_variant(self.form.read(), APPLIED)
        current = self._lab.current
        instead = f" instead of version {current.label}" if current is not None else ""
        self.form.confirmation.ask(
            f"{self._lab.agent_name} will run on this configuration{instead}, for everyone who uses it."
        )
        return ""

    async def _apply(self) -> None:
        variant = self._model.parse_variant(self.form.read(), APPLIED)
        self._task.say("Applying…", FORM)
        version = await self._lab.apply(variant, notify=lambda text: self._task.say(text, FORM))
        await self._read_versions()
        self.form.version.value = ""
        self._task.say(f"Applied: the agent now runs on version {version.label}.", FORM)
