"""A judge in the form, which creates it if there is no such agent."""

from __future__ import annotations

from collections.abc import Callable

from ...api.discovery import offers_fields
from ...api.endpoints.agents import CONFIGURE_LLM
from ...evaluation.judging import MAX_TOKENS
from ...evaluation.platform import AgentConfigurator
from ...evaluation.variant import Variant
from .form import Fold, Form, combobox, text_field

JUDGE = "judge"  # the status line
JUDGE_PROMPT = "You judge replies of an assistant by the criterion in the message, and answer in the form it asks for."


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
        record = await client.agents.create(name, template="LLM")
        agent = str(record.get("full_name") or record["id"])
        configurator = await AgentConfigurator.open(client, agent)
        is_limited = offers_fields(await client.openapi(), "POST", CONFIGURE_LLM, ["max_tokens"])
        limit = MAX_TOKENS if is_limited else None
        await configurator.apply(Variant(name, JUDGE_PROMPT, model=model or None, max_tokens=limit))
        self.fields["name"].options = (*self.fields["name"].options, agent)
        return agent
