"""Converts a lab to the text of its form, and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

from ...evaluation import judging
from ...evaluation.checks import parse_checks
from ...evaluation.experiment import Experiment
from ...evaluation.inputs import format_inputs, parse_inputs, read_table
from ...evaluation.offers import model_names
from ...evaluation.plan import Options, Plan
from ...evaluation.variant import Variant, format_settings, parse_variant
from ...evaluation.versions import Version
from ..html.sanitize import visible
from .controller import LabController

MAX_AGENTS = 50  # offered as judges


class FormModel:
    """What the fields of the form say, and what the form says about the lab.

    Parameters
    ----------
    lab : LabController
    """

    def __init__(self, lab: LabController) -> None:
        self._lab = lab
        self._rows: Any = None  # the rows of the file that was uploaded last

    @property
    def _experiment(self) -> Experiment:
        return self._lab.experiment

    # Variants

    def configurations_by_label(self) -> dict[str, Variant | Version]:
        """Readable versions, newest first, and variants, by label in the form."""
        configurator = self._lab.configurator
        versions = (configurator.versions if configurator is not None else None) or []
        # If two versions have the same label, the newer one counts.
        by_label: dict[str, Variant | Version] = {
            f"version {visible(version.label)}": version
            for version in reversed(versions)
            if version.system_prompt is not None
        }
        by_label = dict(reversed(by_label.items()))
        variants = self._experiment.variants.values()
        return by_label | {f"variant {visible(each.name)}": each for each in variants if each.system_prompt}

    async def model_names(self) -> list[str]:
        """The language models that a variant may name, if the platform lists them."""
        return await model_names(self._lab.client)

    async def agent_names(self) -> list[str]:
        """Agents that may judge: some of those that the account can see."""
        agents = self._lab.client.agents.list(limit=MAX_AGENTS)
        return [str(agent.get("full_name") or agent["id"]) async for agent in agents]

    def settings_as_text(self, configuration: Variant | Version) -> dict[str, str]:
        """A configuration as the fields of the form."""
        return format_settings(configuration.settings)

    def parse_variant(self, fields: Mapping[str, str], default_name: str | None = None) -> Variant:
        """The variant in the fields of the form. Unnamed ones are numbered by default.

        Raises
        ------
        ValueError
            If a field cannot be read.
        """
        numbered = (f"variant {n}" for n in itertools.count(1))
        return parse_variant(
            fields, default_name or next(name for name in numbered if name not in self._experiment.variants)
        )

    def edit_variant(self, name: str, fields: Mapping[str, str]) -> Variant:
        """Change a variant to what the fields of the form say.

        Fields whose text equals the variant's change nothing, because not every setting
        can be typed.

        Raises
        ------
        ValueError
            As `Experiment.edit_variant`, or if a field cannot be read.
        """
        old = self._experiment.variant(name)
        new = parse_variant(fields, name)
        before = {"name": old.name, "version": old.version or "", **format_settings(old.settings)}
        changed = [field for field, text in fields.items() if text.strip() != before.get(field, "").strip()]
        return self._experiment.edit_variant(old, **{field: getattr(new, field) for field in changed})

    def count_answers(self, name: str) -> int:
        """How many replies a variant has, earlier revisions included."""
        earlier = sum(len(revision.answers) for revision in self._experiment.revisions(name))
        return earlier + sum(answer.variant == name for answer in self._experiment.answers)

    def revision_note(self, name: str) -> str:
        """What happened to the replies of an edited variant, in words."""
        revisions = self._experiment.revisions(name)
        if any(answer.variant == name for answer in self._experiment.answers):
            return "Its replies stay."
        if not revisions:
            return "Run it below."
        count = len(revisions[0].answers)
        return f"Run asks it again; {count} earlier repl{'ies stay' if count > 1 else 'y stays'} as a revision."

    def variant_labels(self) -> dict[str, str]:
        """A line about each variant, by name."""
        return {name: _label(variant) for name, variant in self._experiment.variants.items()}

    def keeps_a_variant(self, variants: Iterable[str]) -> bool:
        """Whether a run would leave the lab's agent on a variant, as it has no version.

        The platform does not delete versions, so an agent without a version cannot get
        back to that state.
        """
        configurator = self._lab.configurator
        if self._lab.drafts or configurator is None or configurator.versions != []:
            return False
        chosen = [self._experiment.variants[name] for name in variants]
        return any(variant.configures and variant.agent in (None, self._lab.agent) for variant in chosen)

    # Inputs, checks and runs

    def experiment_as_text(self) -> tuple[str, str]:
        """The inputs, and the checks that can be typed, as the fields of the form."""
        lines = (check.line for check in self._experiment.checks.values())
        return format_inputs(self._experiment.inputs), "\n".join(filter(None, lines))

    def plan_from_text(self, inputs: str, checks: str, variants: Iterable[str], options: Mapping[str, Any]) -> Plan:
        """The plan in the fields of the form. Checks that cannot be typed stay.

        Raises
        ------
        ValueError
            If a field cannot be read.
        """
        experiment = self._experiment
        templates = parse_inputs(inputs, experiment.inputs)
        if self._rows is None:
            experiment.inputs = templates
        others = [check for check in experiment.checks.values() if check.line is None]
        parsed = parse_checks(checks, others)
        checked = None if parsed == experiment.checks else parsed
        filled = (None, None) if self._rows is None else (templates or None, self._rows)
        return self._lab.plan(filled[0], variants, checked, _read_options(options), filled[1])

    def price(self, text: str) -> str:
        """Compute the cost of the existing replies, and say what they cost together.

        Raises
        ------
        ValueError
            If a line cannot be read.
        """
        prices = parse_prices(text)
        if not prices:
            return ""
        self._experiment.price(prices)
        replies = self._experiment.answers
        costs = [answer.cost for answer in replies if answer.cost is not None]
        unknown = [answer for answer in replies if answer.cost is None and answer.status == "answered"]
        if not unknown:
            return f"The existing replies cost {sum(costs):.3g}." if costs else ""
        models = sorted({answer.model for answer in unknown if answer.model})
        reason = f"no price for {', '.join(models)}" if models else "they carry no tokens or no model"
        return f"What {len(unknown):,} of the {len(replies):,} existing replies cost is not known: {reason}."

    def beginning(self, plan: Plan) -> str:
        """What a run is about to do, in words."""
        missing = len(plan.all_missing(self._experiment.answers_by_key))
        if missing:
            return f"Asking {missing} question{'s' if missing != 1 else ''}…"
        return self._judging() or "All questions are answered."

    def under_way(self, plan: Plan) -> str:
        """What a run waits for, in words."""
        answered, failed, total = self.count(plan)
        if answered + failed == total:
            return self._judging() or "Ending the run…"
        failures = f", {failed} failed" if failed else ""
        return f"Waiting for {total - answered - failed} of {total} replies{failures}…"

    def _judging(self) -> str:
        unjudged = sum(1 for _ in judging.unjudged(self._experiment))
        return f"Asking the judge about {unjudged} repl{'ies' if unjudged != 1 else 'y'}…" if unjudged else ""

    def read_rows(self, name: str, content: bytes) -> None:
        """Fill names in braces from the columns of a CSV file from now on.

        Raises
        ------
        ValueError
            If it is not a CSV file in UTF-8 with rows.
        """
        rows = read_table(BytesIO(content), name)
        if rows.empty:
            raise ValueError(f"{name} has no rows below its first line, which names the columns.")
        self._rows = rows

    def forget_rows(self) -> None:
        """Fill no names in braces from now on."""
        self._rows = None

    def rows_note(self, inputs: str) -> str:
        """What the rows are, with the first message as it will go out; empty if none.

        Raises
        ------
        ValueError
            If a name in braces has no column.
        """
        if self._rows is None:
            return ""
        preview = self._experiment.preview(parse_inputs(inputs) or None, self._rows, [Variant("preview")])
        columns = ", ".join(map(str, self._rows.columns))
        return f"{len(self._rows)} rows with {columns}. The first message: “{preview['message'].iloc[0]}”"

    @property
    def progress(self) -> str:
        """How many questions have an answer, in words; empty before the first run."""
        statuses = [answer.status for answer in self._experiment.answers]
        return count_text(statuses.count("answered"), statuses.count("failed"), len(statuses)) if statuses else ""

    @property
    def asking(self) -> bool:
        """Whether a run is in progress, started here or in code."""
        return any(answer.status == "asking" for answer in self._experiment.answers)

    def count(self, plan: Plan) -> tuple[int, int, int]:
        """The numbers of answered, failed and all questions of a plan."""
        answers = self._experiment.answers_by_key
        statuses = [answers[key].status for key in plan.keys if key in answers]
        return statuses.count("answered"), statuses.count("failed"), len(plan.keys)

    def steps(self) -> dict[str, bool]:
        """The first steps in a lab, and whether each is done."""
        experiment = self._experiment
        return {
            "Write a prompt and press “Add as variant”. Add a second one to compare it with.": bool(
                experiment.variants
            ),
            "Type or paste test inputs, one per line, and what a good reply must contain.": bool(experiment.inputs),
            "Press “Run”, read the replies side by side, and apply the winner.": bool(experiment.answers_by_key),
        }


def _read_options(fields: Mapping[str, Any]) -> Options:
    """Options of a run, with its prices and the limit of its cost as typed."""
    limit = str(fields.get("max_cost") or "").strip()
    try:
        max_cost = float(limit) if limit else None
    except ValueError:
        raise ValueError(f"Cost limit of a run: type a number, such as 2, not “{limit}”.") from None
    prices = parse_prices(str(fields.get("prices") or "")) or None
    if max_cost is not None and prices is None:
        raise ValueError("A cost limit needs prices: type a line such as “gpt-4o-mini: 0.15, 0.60” beside it.")
    return Options(**{**fields, "max_cost": max_cost, "prices": prices})


def parse_prices(text: str) -> dict[str, tuple[float, float]]:
    """Prices per million tokens of input and of output, one model per line.

    Raises
    ------
    ValueError
        If a line cannot be read.

    Examples
    --------
    >>> parse_prices("gpt-4o-mini: 0.15, 0.60")
    {'gpt-4o-mini': (0.15, 0.6)}
    """
    prices = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        model, _, figures = line.rpartition(":")
        try:
            input_price, output_price = (float(figure) for figure in figures.replace(",", " ").split())
        except ValueError:
            raise ValueError(f"Prices: “{line}” should look like “gpt-4o-mini: 0.15, 0.60”.") from None
        prices[model.strip()] = (input_price, output_price)
    return prices


def _label(variant: Variant) -> str:
    agent = f" [{variant.agent}]" if variant.agent else ""
    prompt = " ".join(variant.prompt_label.split())
    return f"{variant.name}{agent}: {prompt if len(prompt) <= 70 else prompt[:69] + '…'}"


def count_text(answered: int, failed: int, total: int) -> str:
    """How many questions have an answer, in words.

    Examples
    --------
    >>> count_text(5, 1, 6)
    '5 of 6 answered, 1 failed.'
    """
    return f"{answered} of {total} answered" + (f", {failed} failed." if failed else ".")
