"""Agents that the form creates: that of a lab without one, and a judge."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ...api.discovery import offers_fields
from ...api.endpoints.agents import CONFIGURE_LLM
from ...api.errors import AgentbookError
from ...evaluation.platform import AgentConfigurator
from ...evaluation.variant import Variant
from ..model.user_errors import explain
from ..widgets.parts import show
from .form import Fold, Form, combobox, text_area, text_field, title
from .variants import FORM

if TYPE_CHECKING:
    from ...client import AsyncClient

AGENT, JUDGE = "agent", "judge"  # the status lines
DEFAULT_WORKSPACE = "prompt-lab"  # for an account without workspaces
MAX_WORKSPACES = 50  # offered to choose from
HINT = (
    '<div class="ab-foot"><span>This lab has no agent yet. Name one in the cell, as in '
    "<code>ab.PromptLab(client, agent=…, workspace=…)</code>, or create one here. "
    "The platform cannot delete an agent.</span></div>"
)
JUDGE_MAX_TOKENS = 2000  # for one JSON object, and what a model thinks before it
JUDGE_PROMPT = "You judge replies of an assistant by the criterion in the message, and answer in the form it asks for."


class AgentPart:
    """The fields of a new agent, for a lab without one.

    Parameters
    ----------
    form : Form
    on_create : callable
        Awaited after an agent was created; reads it.

    Attributes
    ----------
    widget : Widget
    fields : dict of str to Widget
    create : Button
    """

    def __init__(self, form: Form, on_create: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._form, self._lab, self._on_create = form, form.lab, on_create
        self.fields = {
            "name": text_field("Name of the agent", "e.g. helper", "ab-grow"),
            "workspace": combobox("Workspace", "e.g. trial", "ab-grow"),
            "model": combobox("Model of the agent", "the platform's default", "ab-grow"),
            "prompt": text_area("First prompt", 3, "You are … (optional: you can try out variants first)"),
        }
        self.create = form.button("Create the agent", "Create it, and use it here", self._create, AGENT, "ab-main")
        parts, (*first, prompt) = form.parts, self.fields.values()
        side = [parts.html(title("New agent") + HINT), parts.row(first, "ab-lab-row"), prompt]
        side += [parts.row([self.create], "ab-lab-row"), form.status_line(AGENT)]
        self.widget = parts.row([parts.box(side, "ab-lab-side")], "ab-lab-part", "ab-lab-top")
        self.draw()

    @property
    def is_missing(self) -> bool:
        """Whether the lab has no agent, and no variant names one."""
        return self._lab.agent is None and not any(variant.agent for variant in self._lab.variants.values())

    async def open(self, models: list[str]) -> None:
        """Offer these models, and the account's workspaces."""
        names = [self._lab.workspace] if self._lab.workspace else await _workspaces(self._lab.client)
        workspace = self.fields["workspace"]
        self.fields["model"].options, workspace.options = tuple(models), tuple(names)
        workspace.value = workspace.value or next(iter(names), DEFAULT_WORKSPACE)

    def draw(self) -> None:
        """Show the fields to a lab that needs them; on the toolkit's thread."""
        show(self.widget, self.is_missing)
        show(self.fields["workspace"], self._lab.workspace is None)
        self.create.disabled = self._form.busy

    async def _create(self) -> None:
        form, lab, texts = self._form, self._lab, {name: box.value.strip() for name, box in self.fields.items()}
        first = parse_agent(texts)
        form.say(f"Creating {texts['name']}…", AGENT)
        if lab.workspace is None:
            lab.workspace = await _find_or_create(lab.client, texts["workspace"])
        lab.agent = await create_agent(lab.client, texts["name"])
        form.say("", AGENT)
        text = f'Created {lab.agent}. To come back to it: ab.PromptLab(client, agent="{lab.agent}", workspace="{lab.workspace}").'
        try:
            if first is not None:
                await lab.aapply(first, notify=lambda note: form.say(note, FORM))
        except AgentbookError as error:  # the agent exists now, and these fields are gone
            form.say(f"{text} Its first version failed: {explain(error).text}", FORM, error=True)
        else:
            form.say(text, FORM)
        await self._on_create()


class JudgePart:
    """The fields of a check by a judge, which is created if there is no such agent.

    Parameters
    ----------
    form : Form
    add_line : callable
        Adds a line to the checks.

    Attributes
    ----------
    widget : Widget
    fields : dict of str to Widget
    add : Button
    """

    def __init__(self, form: Form, add_line: Callable[[str], None]) -> None:
        self._form, self._add_line = form, add_line
        self.fields = {
            "criterion": text_field("Criterion", "e.g. It is polite."),
            "name": combobox("Judge", "an agent, or the name of a new one", "ab-grow"),
            "model": combobox("Model of a new judge", "the platform's default", "ab-grow"),
        }
        self.add = form.button("Add the judge", "Create it if there is none, and add the check", self._add, JUDGE)
        criterion, *rest = self.fields.values()
        body = [criterion, form.parts.row([*rest, self.add], "ab-lab-row"), form.status_line(JUDGE)]
        self.widget = Fold(
            form.parts, "Let an agent judge", "Ask an agent whether a reply meets a criterion", body
        ).widget

    def offer(self, agents: list[str], models: list[str]) -> None:
        """Offer agents as judges, and models for a new one."""
        self.fields["name"].options, self.fields["model"].options = tuple(agents), tuple(models)

    async def _add(self) -> None:
        texts = {name: box.value.strip() for name, box in self.fields.items()}
        if not texts["criterion"] or not texts["name"]:
            raise ValueError("A judge needs a criterion, such as “It is polite.”, and a name.")
        known = await self._find(texts["name"])
        judge = known or await self._create(texts["name"], texts["model"])
        self._add_line(f"judge {judge}: {texts['criterion']}")
        self.fields["criterion"].value = ""
        self._form.say(f"Run asks {judge}{'' if known else ', an agent that was just created'}.", JUDGE)

    async def _find(self, name: str) -> str | None:
        """The full name of an agent; None if one of this short name can be created."""
        known = next((each for each in self.fields["name"].options if name in (each, each.rpartition("~")[2])), None)
        if known is None and "~" in name:
            await self._form.lab.client.agents.get(name)  # raises if there is none
            return name
        return known

    async def _create(self, name: str, model: str) -> str:
        self._form.say(f"Creating {name}…", JUDGE)
        client = self._form.lab.client
        agent = await create_agent(client, name)
        configurator = await AgentConfigurator.open(client, agent)
        is_limited = offers_fields(await client.openapi(), "POST", CONFIGURE_LLM, ["max_tokens"])
        limit = JUDGE_MAX_TOKENS if is_limited else None
        await configurator.apply(Variant(name, JUDGE_PROMPT, model=model or None, max_tokens=limit))
        self.fields["name"].options = (*self.fields["name"].options, agent)
        return agent


def parse_agent(texts: Mapping[str, str]) -> Variant | None:
    """What a new agent runs on; None if it gets no version yet.

    Raises
    ------
    ValueError
        If the name, or the prompt of a model, is missing.

    Examples
    --------
    >>> parse_agent({"name": "helper", "prompt": "Be kind.", "model": ""})
    Variant('first prompt', system_prompt='Be kind.')
    """
    if not texts["name"]:
        raise ValueError("A new agent needs a name, such as “helper”.")
    if texts["model"] and not texts["prompt"]:
        raise ValueError("A model needs a system prompt: type one, or leave the model to the variants below.")
    return Variant("first prompt", texts["prompt"], model=texts["model"] or None) if texts["prompt"] else None


async def create_agent(client: AsyncClient, name: str) -> str:
    """Create an agent with a language model; returns its full name."""
    record = await client.agents.create(name, template="LLM")
    return str(record.get("full_name") or record["id"])


async def _workspaces(client: AsyncClient) -> list[str]:
    """The workspaces that a lab may use: some of those that the account can see."""
    return [str(each.get("full_name") or each["id"]) async for each in client.me.workspaces(limit=MAX_WORKSPACES)]


async def _find_or_create(client: AsyncClient, workspace: str) -> str:
    if not workspace:
        raise ValueError("The lab needs a workspace to start its sessions in: type a name, such as “trial”.")
    for name in await _workspaces(client):
        if workspace in (name, name.rpartition("~")[2]):
            return name
    record = await client.workspaces.create(workspace)
    return str(record.get("full_name") or record["id"])
