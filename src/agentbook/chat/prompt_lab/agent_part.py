"""The part of the form that creates an agent, in a lab without one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ...api.errors import AgentbookError
from ..model.user_errors import explain
from ..widgets.parts import show
from .agent_form import AgentForm
from .form_context import FormContext
from .new_agent import configure_agent, create_agent, parse_agent, workspace_names
from .variants_part import FORM

AGENT = "agent"  # the status line
DEFAULT_WORKSPACE = "prompt-lab"  # for an account without workspaces


class AgentPart:
    """The new agent.

    Parameters
    ----------
    context : FormContext
    on_create : callable
        Awaited after an agent was created; reads it.

    Attributes
    ----------
    form : AgentForm
    status : Widget
        The status line.
    """

    def __init__(self, context: FormContext, on_create: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._lab, self._model, self._task, self._on_create = context.lab, context.model, context.task, on_create
        self.status = context.status_line()
        self.form = AgentForm(context.parts, context.starter(self._create, AGENT), self.status)
        self.draw(busy=False)

    @property
    def is_missing(self) -> bool:
        """Whether the lab has no agent, and no variant names one."""
        variants = self._lab.experiment.variants.values()
        return self._lab.agent is None and not any(variant.agent for variant in variants)

    async def open(self) -> None:
        """Offer the platform's models and the account's workspaces."""
        if self.is_missing:
            names = [self._lab.workspace] if self._lab.workspace else await workspace_names(self._lab.client)
            models = await self._model.model_names()
            self.form.offer(models, names, next(iter(names), DEFAULT_WORKSPACE))

    # Drawing: on the toolkit's thread

    def draw(self, *, busy: bool) -> None:
        """Show the fields of a lab that needs them."""
        show(self.form.widget, self.is_missing)
        show(self.form.workspace, self._lab.workspace is None)
        self.form.create.disabled = busy

    # The button: on the toolkit's thread

    async def _create(self) -> None:
        fields = self.form.read()
        first = parse_agent(fields)
        self._task.say(f"Creating {fields['name'].strip()}…", AGENT)
        await create_agent(self._lab, fields["name"], fields["workspace"])
        self._task.say("", AGENT)
        lab = self._lab
        text = (
            f"Created {lab.agent_name}. To come back to it: "
            f'ab.PromptLab(client, agent="{lab.agent}", workspace="{lab.workspace}").'
        )
        try:
            await configure_agent(lab, first, lambda note: self._task.say(note, FORM))
        except AgentbookError as error:  # the agent exists now, and these fields are gone
            self._task.say(f"{text} Its first version failed: {explain(error).text}", FORM, error=True)
        else:
            self._task.say(text, FORM)
        await self._on_create()
