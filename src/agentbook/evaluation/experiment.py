"""An experiment: variants, inputs, checks and answers, without agent and widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..live.listeners import Listeners
from . import paired, summary
from .answers import COLUMNS, LAST_COLUMNS, Answer, Key, to_frame
from .checks import Check, read_checks
from .cost import costs_of, price_table
from .criteria import whole_number
from .inputs import InputSet
from .revisions import Revisions
from .variant import Variant
from .variant_set import VariantSet

if TYPE_CHECKING:
    import pandas as pd

    from ..frames.plot.chart import Chart

Listener = Callable[[Answer | None], None]


class Experiment(VariantSet):
    """What is being tried out, and the results.

    Attributes
    ----------
    input_set : InputSet
    origins : dict of str to dict
        Where inputs that were not typed come from: session and turn, by input.
    repeats : int
        Number of times that a run asks each input, unless it is told otherwise.
    """

    def __init__(self) -> None:
        super().__init__(self.notify)
        self.input_set = InputSet()
        self._checks: dict[str, Check] = {}
        self.origins: dict[str, dict[str, str]] = {}
        self.repeats = 1
        self._listeners = Listeners[Answer | None]()

    # Inputs

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs in tables; for most, the text itself."""
        return self.input_set.texts

    @inputs.setter
    def inputs(self, inputs: Iterable[str]) -> None:
        self.input_set.texts = list(inputs)

    def preview(
        self,
        inputs: Any = None,
        rows: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        mask: bool = True,
    ) -> pd.DataFrame:
        """What a run would send, as a frame. Nothing is sent or changed.

        Parameters
        ----------
        inputs, rows
            As for `run`.
        variants : iterable of str or Variant, optional
            Names; None for all.
        mask : bool
            As for `run`.

        Returns
        -------
        DataFrame
            A row per variant and input: ``variant``, ``input``, ``system_prompt`` (null
            where the agent keeps its own) and ``message``, filled in.

        Raises
        ------
        TypeError, ValueError, OSError
            If an input cannot be read, or a name in braces has no column; the message
            lists the columns.
        """
        import pandas as pd

        names = [variants] if isinstance(variants, str | Variant) else variants
        chosen = [
            each if isinstance(each, Variant) else self.variant(each)
            for each in (tuple(self.variants) if names is None else names)
        ]
        sent = [
            (variant.name, each.text, variant.filled(each.row).system_prompt, each.message)
            for variant in chosen
            for each in self.input_set.fill(inputs, rows, chosen, mask=mask)
        ]
        return pd.DataFrame(sent, columns=["variant", "input", "system_prompt", "message"]).astype("str")

    # Variants and checks

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return MappingProxyType(self._checks)

    def check(self, checks: Any) -> pd.DataFrame:
        """Replace the checks and apply them to all replies. Nothing is sent.

        Parameters
        ----------
        checks : mapping of name to check, or iterable of checks
            A string that the reply must contain, a compiled pattern, a JSON schema (a
            mapping), or a function of the reply, or of reply and input, that returns a
            bool or a score from 0 to 1 (which passes from 0.5).

        Returns
        -------
        DataFrame
            `results`, with a column for each check.

        Raises
        ------
        TypeError, ValueError
            If one is not a check, or has the name of a column of the results. Errors
            that a check itself raises are not raised here: they are in the column
            ``check_error``.
        """
        new = read_checks(checks)
        taken = {*COLUMNS, *LAST_COLUMNS} & {
            *new,
            *(f"{name}_{part}" for name in new for part in ("score", "reason", "judge")),
        }
        if taken:
            raise ValueError(f"A check cannot be called {min(taken)!r}: the results have a column of that name.")
        unchanged = {name for name, check in new.items() if self._checks.get(name, check) == check}
        self._checks = new
        for answer in self.all_answers:
            self._judge_again(answer, unchanged)
        self.notify()
        return self.results

    def price(self, prices: Any) -> None:
        """Compute the cost of the replies so far with these prices. Nothing is sent.

        Checks of the cost are applied again. Replies without tokens, and those of
        models without a price, stay as they are.

        Parameters
        ----------
        prices : dict, DataFrame or path of a file
            As for `agentbook.with_cost`.

        Raises
        ------
        ValueError
            If they are not prices.
        OSError
            If a file cannot be read.
        """
        table = price_table(prices)
        if table is None:
            return
        unchanged = {name for name, check in self._checks.items() if not check.reads_cost}
        answers = self.all_answers
        for answer, cost in zip(answers, costs_of(answers, table), strict=True):
            if cost is not None and cost != answer.cost:
                answer.cost = cost
                self._judge_again(answer, unchanged)
                if self.answered.get(answer.key) is answer:  # not an answer to an earlier text
                    self.notify(answer)

    def _judge_again(self, answer: Answer, unchanged: Set[str]) -> None:
        """Apply the checks, except those whose verdicts are `unchanged`."""
        answer.verdicts = {name: verdict for name, verdict in answer.verdicts.items() if name in unchanged}
        answer.judge(self._checks.values())

    # Answers

    @property
    def answers_by_key(self) -> Mapping[Key, Answer]:
        """The answers by variant, input and repeat."""
        return MappingProxyType(self.answered)

    @property
    def answers(self) -> list[Answer]:
        """The answers, in the order of variants, inputs and repeats."""
        variants = {name: n for n, name in enumerate(self.variants)}
        inputs = {text: n for n, text in enumerate(self.inputs)}
        last = max(len(variants), len(inputs))
        return sorted(
            self.answered.values(),
            key=lambda each: (variants.get(each.variant, last), inputs.get(each.input, last), each.repeat),
        )

    @property
    def all_answers(self) -> list[Answer]:
        """The answers, including those to earlier texts of the variants."""
        return [*self.answered.values(), *self.earlier.answers]

    def record(self, answer: Answer) -> None:
        """Store an answer and notify the listeners."""
        self.answered[answer.key] = answer
        self.notify(answer)

    def rate(self, key: Key, thumb: bool | None = None, note: str | None = None) -> None:
        """Store a person's rating of a reply, in place of an earlier one.

        Parameters
        ----------
        key : tuple of (str, str, int)
            Variant, input and repeat, as in the columns of `results`.
        thumb : bool, optional
            True for good, False for bad, None for neither.
        note : str, optional
            A remark.

        Raises
        ------
        ValueError
            If there is no reply to rate.
        """
        answer = self.answered.get(key)
        if answer is None or answer.reply is None:
            raise ValueError(f"There is no reply of {key[0]!r} to {key[1]!r} (repeat {key[2]}), so it cannot be rated.")
        answer.thumb, answer.note = thumb, (note or "").strip() or None
        self.notify(answer)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change with the answer that changed, or None.

        Parameters
        ----------
        listener : callable
            Takes the answer or None. During a run it is called on the toolkit's thread.
            Errors that it raises are not raised here: the logger ``agentbook.chat``
            logs them.

        Returns
        -------
        callable
            Call it to stop listening: ``end = lab.listen(draw)``.
        """
        return self._listeners.add(listener)

    def notify(self, answer: Answer | None = None) -> None:
        """Tell the listeners that this answer has changed; None for anything else."""
        self._listeners.notify(answer)

    # Results

    @property
    def results(self) -> pd.DataFrame:
        """All answers as a frame."""
        return self.frame(self.answers)

    def frame(self, answers: Iterable[Answer]) -> pd.DataFrame:
        """These answers as a frame, with a column per check."""
        return to_frame(list(answers), list(self._checks))

    def summary(self) -> pd.DataFrame:
        """One row per variant: counts, pass rates and latencies.

        Returns
        -------
        DataFrame
            The columns of `agentbook.evaluation.summary.summarise`: ``n``,
            ``answered``, ``failed``, for each check ``…_n``, ``…_passed`` and
            ``…_rate``, and ``p50_s``, ``p95_s``, ``max_s`` in seconds.
        """
        return summary.summarise(self.results, list(self._checks))

    def compare_variants(self, baseline: str | Variant | None = None) -> pd.DataFrame:
        """The other variants compared with one, on the inputs that both answered.

        The input is the unit: repeats of an input are averaged first.

        Parameters
        ----------
        baseline : str or Variant, optional
            Default: the first variant.

        Returns
        -------
        DataFrame
            A row per variant and check, and one for the latency, with effect, 95 %
            interval, corrected p, verdict, and the number of inputs to add until an
            open difference would show. The columns are those of
            `agentbook.evaluation.paired.compare_variants`.

        Raises
        ------
        ValueError
            If there is no such variant, or none at all.
        """
        if baseline is None and not self.variants:
            raise ValueError("There is no variant yet: lab.add_variant(name, system_prompt=...).")
        first = next(iter(self.variants)) if baseline is None else self.variant(baseline).name
        return paired.compare_variants(self.results, list(self._checks), first)

    def chart(self) -> Chart:
        """Pass rates and latencies per variant, as a chart.

        See `agentbook.evaluation.summary.chart`.
        """
        return summary.chart(self.results, list(self._checks))

    def copy(self) -> Experiment:
        """A copy to read while another thread keeps changing this one."""
        copy = Experiment()
        copy._assign(self)
        return copy

    def become(self, other: Experiment) -> None:
        """Take over the content of another experiment; the listeners stay."""
        self._assign(other)
        self.notify()

    def _assign(self, other: Experiment) -> None:
        self.input_set, self.origins, self._checks = other.input_set.copy(), dict(other.origins), dict(other._checks)
        self.repeats = other.repeats
        self.assign(other)

    # Data

    def as_data(self) -> dict[str, Any]:
        """The experiment as plain data, ready for JSON."""
        return {
            "variants": [variant.as_data() for variant in self.variants.values()],
            "inputs": list(self.inputs),
            "repeats": self.repeats,
            "rows": self.input_set.as_data(),
            "checks": [check.as_data() for check in self._checks.values()],
            "answers": [answer.as_data() for answer in self.answered.values() if answer.status != "asking"],
            "revisions": self.earlier.as_data(),
            "origins": {text: dict(self.origins[text]) for text in self.inputs if text in self.origins},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Experiment:
        """The experiment that `as_data` wrote."""
        experiment = cls()
        for variant in data["variants"]:
            experiment.add_variant(Variant.from_data(variant))
        experiment._checks = {check["name"]: Check.from_data(check) for check in data["checks"]}
        experiment.inputs = [str(text) for text in data["inputs"]]
        experiment.input_set.restore(data.get("rows", []))
        experiment.repeats = whole_number(data.get("repeats", 1), "The number of repeats", low=1)
        experiment.answered = {answer.key: answer for answer in map(Answer.from_data, data["answers"])}
        experiment.origins = {str(text): dict(origin) for text, origin in (data.get("origins") or {}).items()}
        experiment.earlier = Revisions.from_data(data.get("revisions") or {})
        return experiment
