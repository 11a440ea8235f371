"""The variants in the form: typed, listed, compared with versions, and applied."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets

from ...evaluation.platform import READY_TIMEOUT_S, AgentConfigurator, Version, complete_settings, publish_version
from ...evaluation.run import NO_AGENT
from ...evaluation.variant import Variant, format_settings, parse_variant
from ..html.sanitize import escape, visible
from ..widgets.parts import button, close_all, show
from .diff import PromptDiff
from .form import Choice, Fold, Form, checkbox, combobox, field, note, region, table, text_area, text_field, title

APPLIED = "applied in the prompt lab"  # summary of a version whose variant has no name
FORM = "form"  # the status line
UNCHANGED = "as the agent has it"
THE_FORM = "the form"
NO_VARIANT = '<div class="ab-foot">No variant yet: type a prompt and press “Add as variant”.</div>'
MAX_LABEL = 70


class VariantsPart:
    """The fields of one variant, and the list of all.

    Parameters
    ----------
    form : Form
    on_run : callable
        Starts a run.

    Attributes
    ----------
    widget : Widget
    list : Widget
        The variants; shown next to the inputs, where a run is started.
    ticks : dict of str to Checkbox
        One per variant, by name: whether a run asks it.
    fields : dict of str to Widget
        By name: those of `parse_variant`.
    add, run, cancel, apply, publish, results : Button
        `results` leads to the replies, and says how many there are.
    applying, applying_open, publishing, removing : Question
        Asked before the agent is changed (`applying_open` once more, if the comparison
        is open), and before replies are removed.
    versions : VersionsPart
    """

    def __init__(self, form: Form, on_run: Callable[[], object]) -> None:
        self._form, self._lab, self._on_run = form, form.lab, on_run
        parts = form.parts
        self._edited: str | None = None  # the variant whose settings the fields show
        modes = [(UNCHANGED, ""), ("one-shot", "one-shot"), ("multi-turn", "multi-turn")]
        self.fields: dict[str, Any] = {
            "name": text_field("Name of the variant", "e.g. brief"),
            "system_prompt": text_area("System prompt", 7, "You are …"),
            # A combobox: a platform that lists no models may still know the one typed.
            "model": combobox("Model", UNCHANGED, "ab-grow"),
            "temperature": text_field("Temperature", "0 to 2", "ab-narrow"),
            "max_tokens": text_field("Max tokens", "of a reply", "ab-narrow"),
            "top_p": text_field("Top p", "0 to 1", "ab-narrow"),
            "description": text_field("Description", "the purpose of the agent"),
            "tools": text_area("Tools, one integration per line", 2, "e.g. orders: find_order, track_parcel"),
            "platform_tools": text_field("Platform tools", "e.g. calculator, now", "ab-grow"),
            "mode": field(widgets.Dropdown(description="Mode", options=modes), "ab-grow"),
            "version": text_field("Version number", "the next one", "ab-grow"),
        }
        name, prompt, model, temperature, max_tokens, top_p, description, tools, *rest = self.fields.values()
        for box in self.fields.values():
            box.observe(form.later(form.redraw), "value")
        self.add = form.button("", "Nothing is sent yet", self._save, FORM, "ab-main")
        self.run = form.button("", "Also ask what is unanswered (Ctrl+Enter in a field)", self._save_and_run, FORM)
        self.run.add_class("ab-now")
        self.cancel = form.button("Stop editing", "Leave the variant as it is", self._stop_editing, FORM)
        self.apply = form.button("Apply to the agent", "Commit it as a new version", self._ask_apply, FORM, "ab-small")
        self._applying = form.applying(self._apply, FORM)
        self.applying, self.applying_open = self._applying.first, self._applying.again
        self.publish = form.button("Publish", "Publish the current version", self._ask_publish, FORM, "ab-small")
        self.publishing = form.question("Publish it", "Publish this version now", self._publish, FORM)
        self.results = button("", "ab-small", "Go to the replies", lambda: None)  # by the page
        self.results.add_class("ab-to-results")
        more = [description, tools, parts.row(rest, "ab-lab-row")]
        fold = Fold(parts, "More settings", "Description, tools, mode and version number", more)
        numbers = parts.row([model, temperature, max_tokens, top_p], "ab-lab-row")
        buttons = parts.row([self.add, self.run, self.cancel], "ab-lab-row")
        composer = parts.box([prompt, numbers, fold.widget, buttons], "ab-composer")
        asked = [each.widget for each in (self.applying, self.applying_open, self.publishing)]
        links = parts.row([self.apply, self.publish, self.results, *asked], "ab-lab-row", "ab-lab-links")
        body = [parts.html(title("Variant")), name, composer, form.status_line(FORM, self._present), links]
        self.versions = VersionsPart(form, self.fill)
        side = parts.box(body, "ab-lab-side", "ab-lab-edit")
        self.widget = parts.row([side, self.versions.widget], "ab-lab-part", "ab-lab-top")
        self.ticks: dict[str, Any] = {}
        self._rows: dict[str, Any] = {}
        self._list = parts.box([parts.html(NO_VARIANT)], "ab-ticks")
        self.removing = form.question("Remove variant", "Remove it with its replies", self._remove, FORM)
        self._removed = ""  # the variant that `removing` asks about
        self.list = parts.box([self._list, self.removing.widget], "ab-over")
        self._draw_editing()

    def open(self, models: list[str]) -> None:
        """Offer these models, and fill the fields with the agent's version."""
        self.fields["model"].options = tuple(models)
        if self._lab.current is not None and not self.fields["system_prompt"].value:
            self.fill(self._lab.current)

    def fill(self, configuration: Variant | Version) -> None:
        """Put a configuration into the fields; name and version number stay."""
        for name, text in format_settings(configuration.settings).items():
            self.fields[name].value = text

    @property
    def chosen(self) -> list[str]:
        """The names of the variants that a run asks.

        Raises
        ------
        ValueError
            If there is none.
        """
        names = [name for name, box in self.ticks.items() if box.value]
        if not names:
            raise ValueError("No variant is selected: add one, or select one above.")
        return names

    # Drawing: on the toolkit's thread

    def draw(self, progress: str) -> None:
        """Draw what can be pressed, and the comparison with what was typed."""
        busy = self._form.busy
        self.apply.disabled = busy or self._lab.agent is None
        self.publish.disabled = busy or self._lab.current is None
        self.run.disabled = busy
        self.results.description = progress
        show(self.results, bool(progress))
        for row in self._rows.values():
            for each in row.children[1:]:
                each.disabled = busy
        self.versions.draw_difference({name: box.value.strip() for name, box in self.fields.items()})

    def draw_all(self) -> None:
        """Draw the variants and the versions; a cleared checkbox stays so."""
        self.versions.draw(self._configurations())
        variants = self._lab.variants
        for name, variant in variants.items():
            if name not in self.ticks:
                self._add_row(name)
            self.ticks[name].description = visible(_label(variant))
        before = self._list.children
        rows = tuple(self._rows[name] for name in variants)
        if rows != before and (rows or self._rows):
            self._list.children = rows or (self._form.parts.html(NO_VARIANT),)
            self.ticks = {name: self.ticks[name] for name in variants}
            self._rows = {name: self._rows[name] for name in variants}
            for unused in set(before) - set(rows):
                close_all(unused)

    def _add_row(self, name: str) -> None:
        self.ticks[name] = checkbox(name, True)
        actions = {
            "Edit": ("Change the text, the settings or the name of", self._edit),
            "Duplicate": ("Make an editable copy of", self._duplicate),
            "Remove": ("Remove", self._ask_remove),
        }
        made = [
            self._form.button(word, f"{tooltip} {name}", partial(act, name), FORM, "ab-small")
            for word, (tooltip, act) in actions.items()
        ]
        self._rows[name] = self._form.parts.row([self.ticks[name], *made], "ab-lab-variant")

    def _draw_editing(self) -> None:
        editing = self._edited is not None
        self.add.description = "Save changes" if editing else "Add as variant"
        self.run.description = "Save and run" if editing else "Add and run"
        show(self.cancel, editing)

    def _configurations(self) -> dict[str, Variant | Version]:
        """Readable versions, newest first, and variants, by label."""
        configurator = self._lab.configurator
        labelled: dict[str, Variant | Version] = {}
        for version in (configurator.versions if configurator is not None else None) or []:
            label = f"version {visible(version.label)}"
            if label in labelled and version.created_at is not None:  # numbers may repeat
                label += f" of {version.created_at:%Y-%m-%d %H:%M:%S}"
            if version.system_prompt is not None:
                labelled.setdefault(label, version)
        return labelled | {f"variant {visible(each.name)}": each for each in self._lab.variants.values()}

    def _present(self) -> str:
        """The version that the agent runs on, in words."""
        lab = self._lab
        if lab.agent is None and not lab.variants:
            return NO_AGENT
        if lab.agent is None or lab.configurator is None:
            return "Type a prompt, or start from a version."
        if lab.current is not None:
            return f"{lab.agent_name} runs on version {lab.current.label}."
        return f"{lab.agent_name} has no version yet: type a prompt and press “Add as variant”."

    # The buttons: on the toolkit's thread

    def _read(self, default_name: str) -> Variant:
        return parse_variant({name: box.value for name, box in self.fields.items()}, default_name)

    def _save(self) -> str:
        text = self._save_as()[1]
        self._stop_editing()
        return text

    def _save_and_run(self) -> str:
        name, text = self._save_as()
        self._edit(name)  # the next Ctrl+Enter changes it
        self.draw_all()
        self.ticks[name].value = True
        self._on_run()
        return text

    def _save_as(self) -> tuple[str, str]:
        """The name of what was saved, and words about it."""
        if self._edited is not None:
            return self._save_edited()
        names = (name for n in itertools.count(1) if (name := f"variant {n}") not in self._lab.variants)
        variant = self._lab.add_variant(self._read(next(names)))
        return variant.name, f"Added the variant “{variant.name}”. Press Run to ask it."

    def _save_edited(self) -> tuple[str, str]:
        """Change what was typed: not every setting can be."""
        old = self._lab.variant(str(self._edited))
        new = self._read(old.name)
        before = {"name": old.name, "version": old.version or "", **format_settings(old.settings)}
        changed = [name for name, box in self.fields.items() if box.value.strip() != before[name].strip()]
        changes = {name: getattr(new, name) for name in changed}
        if "system_prompt" in changes:
            changes["messages"] = None  # they stand in the text that was edited
        variant = self._lab.edit_variant(old, **changes)
        return variant.name, f"Saved “{variant.name}”. {self._revision_note(variant.name)}"

    def _revision_note(self, name: str) -> str:
        revisions = self._lab.revisions(name)
        if any(answer.variant == name for answer in self._lab.answers):
            return "Its replies are kept."
        if not revisions:
            return "Press Run to ask it."
        count = len(revisions[0].answers)
        return f"Run asks it again; {count} earlier repl{'ies are' if count > 1 else 'y is'} kept as a revision."

    def _edit(self, name: str) -> str:
        variant = self._lab.variant(name)
        self._edited = name
        self.fill(variant)
        self.fields["name"].value, self.fields["version"].value = name, variant.version or ""
        self._draw_editing()
        self.fields["system_prompt"].focus()
        return f"Editing “{name}”. If its text changes, its replies are kept as an earlier revision."

    def _stop_editing(self) -> str:
        self._edited = None
        self.fields["name"].value = self.fields["version"].value = ""
        self._draw_editing()
        return ""

    def _duplicate(self, name: str) -> str:
        return self._edit(self._lab.duplicate_variant(name).name)

    def _ask_remove(self, name: str) -> str:
        self._removed = name
        earlier = sum(len(revision.answers) for revision in self._lab.revisions(name))
        count = earlier + sum(answer.variant == name for answer in self._lab.answers)
        if not count:
            return self._remove()
        self.removing.ask(f"The replies of “{name}” are removed with it: {count}.")
        return ""

    def _remove(self) -> str:
        if self._edited == self._removed:
            self._stop_editing()
        self._lab.remove_variant(self._removed)
        self._form.clear()
        return f"Removed the variant “{self._removed}”."

    def _ask_apply(self) -> str:
        variant, current = self._lab.check_appliable(self._read(APPLIED)), self._lab.current
        instead = f" instead of version {current.label}" if current is not None else ""
        effect = f"{self._lab.agent_name} will run on this configuration{instead}, for everyone who uses it."
        return self._applying.ask(variant, effect)

    async def _apply(self) -> None:
        variant = self._read(APPLIED)
        self._form.say("Applying…", FORM)
        say = partial(self._form.say, line=FORM)
        version = await self._lab.aapply(variant, even_if_open=True, notify=say)
        await self._form.read_versions()
        self.fields["version"].value = ""
        self._form.say(f"Applied: the agent now runs on version {version.label}.", FORM)

    def _ask_publish(self) -> str:
        version = self._lab.current
        if version is None or version.is_published:
            return "" if version is None else f"Version {version.label} is published already."
        self.publishing.ask(f"Version {version.label} becomes the published version of {self._lab.agent_name}.")
        return ""

    async def _publish(self) -> None:
        version = self._lab.current or Version()
        await publish_version(self._lab.client, self._lab.require_agent(), version, READY_TIMEOUT_S)
        await self._form.read_versions()
        self._form.say(f"Version {version.label} is published.", FORM)


class VersionsPart:
    """The version history, the prompts to start from, and a comparison of two.

    Parameters
    ----------
    form : Form
    on_use : callable
        Receives the configuration to fill the fields with.

    Attributes
    ----------
    widget, history, difference : Widget
    start, old, new : Choice
    use : Button
    unread : bool
        Whether reading the agent's versions has failed.
    """

    def __init__(self, form: Form, on_use: Callable[[Variant | Version], None]) -> None:
        self._form, self._on_use, self.unread = form, on_use, False
        self._labelled: Mapping[str, Variant | Version] = {}
        parts = form.parts
        self.history, self.difference = parts.html(), parts.html()
        self.start, self.old, self.new = Choice("Start from"), Choice("Compare"), Choice("with")
        self.use = form.button("Copy to the form", "Fill it with this prompt and its settings", self._use, FORM)
        for box in (self.old, self.new):
            box.widget.observe(form.later(form.redraw), "value")
        shown = [self.start.widget, self.use], [self.old.widget, self.new.widget]
        rows = [parts.row(each, "ab-lab-row") for each in shown]
        self._choices = parts.box([*rows, self.difference], "ab-lab-folded", "ab-hidden")
        self.widget = parts.box([parts.html(title("Versions")), self.history, self._choices], "ab-lab-side")

    def draw(self, labelled: Mapping[str, Variant | Version]) -> None:
        """Draw the history and the choices: configurations by label."""
        lab, self._labelled = self._form.lab, labelled
        self.history.value = _history(lab.configurator, lab.agent, unread=self.unread)
        show(self._choices, bool(labelled))
        current = next((label for label, each in labelled.items() if each == lab.current), "")
        self.start.offer(list(labelled), current)
        self.old.offer(list(labelled), current)
        self.new.offer([THE_FORM, *labelled], THE_FORM)

    def draw_difference(self, typed: Mapping[str, str]) -> None:
        """Draw the comparison of the chosen configurations; `typed` is the form's."""
        own = complete_settings(Variant(THE_FORM), self._form.lab.current)
        form = {name: typed[name] or text for name, text in own.items()}
        old, new = (form if label == THE_FORM else self._settings(label) for label in (self.old.value, self.new.value))
        if not (old.get("system_prompt") and new.get("system_prompt")):
            self.difference.value = note("Choose two configurations whose prompts are known, to compare them.")
            return
        diff = PromptDiff.between(old, new, self.old.value, self.new.value).to_html()
        self.difference.value = region("ab-difference", "Difference", diff)

    def _settings(self, label: str) -> dict[str, str]:
        """A configuration as text; empty if none is chosen."""
        lab, chosen = self._form.lab, self._labelled.get(label)
        is_others = isinstance(chosen, Variant) and chosen.agent not in (None, lab.agent)
        return {} if chosen is None else complete_settings(chosen, None if is_others else lab.current)

    def _use(self) -> str:
        configuration = self._labelled.get(self.start.value)
        if configuration is None:
            return ""
        self._on_use(configuration)
        return f"The form shows {self.start.value}."


def _label(variant: Variant) -> str:
    agent = f" [{variant.agent}]" if variant.agent else ""
    prompt = " ".join(variant.prompt_label.split())
    return f"{variant.name}{agent}: {prompt if len(prompt) <= MAX_LABEL else prompt[: MAX_LABEL - 1] + '…'}"


def _history(configurator: AgentConfigurator | None, agent: str | None, *, unread: bool) -> str:
    """The versions as a table, newest first; the current one is marked."""
    if configurator is None:
        present = "The versions could not be read." if unread else "Reading the versions…"
        return note("There is no agent yet." if agent is None else present)
    if configurator.versions is None:
        return note("The versions of this agent cannot be read with this key.")
    if not configurator.versions:
        return note("This agent has no versions yet.")
    rows = "".join(_version(version, version == configurator.current) for version in configurator.versions)
    return table("Versions of the agent", "<th>version</th><th>created (UTC)</th><th>summary</th>", rows)


def _version(version: Version, current: bool) -> str:
    created = version.created_at.strftime("%Y-%m-%d %H:%M") if version.created_at else ""
    marks = {"current": current, "ephemeral": version.type == "EPHEMERAL", "published": version.is_published}
    mark = "".join(f' <span class="ab-lab-mark">({name})</span>' for name, holds in marks.items() if holds)
    name = f'<span class="{"ab-lab-now" if current else ""}">{escape(version.label)}{mark}</span>'
    return f"<tr><td>{name}</td><td>{escape(created)}</td><td>{escape(version.summary or '')}</td></tr>"
