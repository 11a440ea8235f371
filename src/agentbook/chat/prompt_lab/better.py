"""Better prompts in the form: suggestions, and a search with a proof."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import ipywidgets as widgets

from ...evaluation.optimize import Search
from ...evaluation.run import Options
from ...evaluation.suggest import Suggestion, suggest
from ...evaluation.variant import Variant
from ..html.sanitize import escape
from ..widgets.parts import button, close_all, show
from .diff import PromptDiff
from .form import Choice, Fold, Form, combobox, field, in_thread

BETTER = "better"  # the status line
SUGGESTIONS = 3


class BetterPart:
    """Has better prompts proposed, and shows them; nothing is added by itself.

    Parameters
    ----------
    form : Form

    Attributes
    ----------
    widget : Widget
    variant : Choice
    proposer, rounds : Widget
    suggest, find, stop : Button
    found : Widget
        The proposals, each with a button that adds it as a variant.
    """

    def __init__(self, form: Form) -> None:
        self._form, self._lab, parts = form, form.lab, form.parts
        self.variant = Choice("Variant to improve")
        self.proposer = combobox("Proposer", "an agent or a model", "ab-grow")
        self.rounds = field(widgets.BoundedIntText(6, min=1, max=100, description="Rounds"), "ab-number")
        self.suggest = form.button("Suggest", "Propose prompts from the replies that failed", self._suggest, BETTER)
        self.find = form.button(
            "Find a better prompt", "Propose and try in rounds; half of the inputs prove the result", self._find, BETTER
        )
        self.stop = button("Stop", "ab-stop", "Stop the search; it can continue", form.later(form.stop))
        self.found = parts.box([], "ab-lab-suggestions")
        fields = parts.row([self.variant.widget, self.proposer, self.rounds], "ab-lab-row")
        buttons = parts.row([self.suggest, self.find, self.stop], "ab-lab-row")
        body = [fields, buttons, form.status_line(BETTER), self.found]
        fold = Fold(parts, "Better prompts", "Have prompts proposed from failed replies, and proven", body)
        self.widget = parts.box([fold.widget], "ab-lab-part")

    def offer(self, agents: list[str], models: list[str]) -> None:
        """Offer agents and models as proposers; the lab's own agent is the default."""
        self.proposer.options = (*agents, *models)
        if not self.proposer.value and self._lab.agent is not None:
            self.proposer.value = self._lab.agent_name

    def draw(self) -> None:
        """Draw what can be chosen and pressed: on the toolkit's thread."""
        self.variant.offer(list(self._lab.variants))
        for each in (self.suggest, self.find):
            each.disabled = self._form.busy
        show(self.stop, self._form.busy and self._form.line == BETTER)

    def _read(self) -> tuple[Variant, str]:
        if not self.proposer.value.strip():
            raise ValueError("Name who proposes: an agent, such as acme~scribe, or a model.")
        return self._lab.variant(self.variant.value), self.proposer.value.strip()

    async def _suggest(self) -> None:
        variant, proposer = self._read()
        self._form.say(f"Asking {proposer} for better prompts…", BETTER)
        self._show(await suggest(self._lab, variant, proposer, SUGGESTIONS, Options()))
        self._form.say("Read them, and add what you want to try.", BETTER)

    async def _find(self) -> None:
        variant, proposer = self._read()
        say = partial(self._form.say, line=BETTER)
        notify = lambda text: self._form.later(partial(say, text))()  # noqa: E731
        search = Search(self._lab, variant, proposer, self.rounds.value, notify=notify)
        working = asyncio.create_task(in_thread(search.run))
        try:
            result = await asyncio.shield(working)
        except asyncio.CancelledError:
            search.is_stopped = True
            say("Stopping, once the open questions are answered…")
            result = await working
        self._show([result] if result.diff else [])
        say(" ".join([result.verdict, f"{result.questions} questions.", *result.notes]))

    def _show(self, suggestions: Sequence[Suggestion]) -> None:
        rows, parts = [], self._form.parts
        for each in suggestions:
            diff = PromptDiff(each.before, each.variant.system_prompt or "", "before", each.variant.name)
            add = self._form.button("Add as variant", "Nothing is sent yet", partial(self._add, each.variant), BETTER)
            text = parts.html(f"<div>{escape(each.why)}</div>{diff.to_html()}")
            rows.append(parts.box([text, parts.row([add], "ab-lab-row")], "ab-lab-suggestion"))
        before, self.found.children = self.found.children, tuple(rows)
        for old in before:
            close_all(old)

    def _add(self, variant: Variant) -> str:
        self._lab.add_variant(variant)
        self._form.redraw_all()
        return f"Added “{variant.name}”. Run asks it."
