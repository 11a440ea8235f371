"""What a run has to do: its variants, inputs and options, and its progress."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .answers import Answer, Key
from .configurator import READY_TIMEOUT_S, Notify
from .cost import price_table
from .experiment import Experiment
from .variant import Variant

TIMEOUT_S = 300.0
CONCURRENCY = 4


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; see `PromptLab.run`."""

    concurrency: int = CONCURRENCY
    repeats: int = 1
    retry_failed: bool = False
    restore: bool = True
    timeout_s: float = TIMEOUT_S
    ready_timeout_s: float = READY_TIMEOUT_S
    drafts: bool | None = None
    max_cost: float | None = None
    prices: Any = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.repeats < 1:
            raise ValueError("concurrency and repeats must be 1 or more.")
        if self.max_cost is not None and not self.max_cost > 0:
            raise ValueError(f"max_cost must be a number above 0, or None, not {self.max_cost!r}.")
        # Read here, so that a mistake is reported before anything is sent.
        object.__setattr__(self, "prices", price_table(self.prices))
        if self.max_cost is not None and self.prices is None:
            raise ValueError('max_cost= needs prices=, as in {"llama3.2": (0.15, 0.60)}: see ab.with_cost.')


@dataclass(frozen=True, slots=True)
class Plan:
    """The variants and inputs of a run.

    Names in braces are filled, unless the plan is `verbatim`.
    """

    verbatim: ClassVar[bool] = False

    variants: Sequence[Variant]
    inputs: Sequence[str]
    options: Options = field(default_factory=Options)

    @property
    def keys(self) -> list[Key]:
        """The questions of the run, variant by variant."""
        return [key for variant in self.variants for key in self.keys_of(variant)]

    def keys_of(self, variant: Variant) -> list[Key]:
        """The questions to one variant."""
        return [(variant.name, text, n) for text in self.inputs for n in range(1, self.options.repeats + 1)]

    @property
    def rounds(self) -> Sequence[Sequence[Key]]:
        """The questions of the run, input by input: one to each variant."""
        return list(zip(*map(self.keys_of, self.variants), strict=True))

    def missing(self, variant: Variant, answers: Mapping[Key, Answer]) -> list[Key]:
        """The questions to one variant that are still to be sent."""
        done = ("answered",) if self.options.retry_failed else ("answered", "failed")
        return [key for key in self.keys_of(variant) if key not in answers or answers[key].status not in done]

    def all_missing(self, answers: Mapping[Key, Answer]) -> set[Key]:
        """The questions that are still to be sent."""
        return {key for variant in self.variants for key in self.missing(variant, answers)}


def shuffled(number: int, keys: Sequence[Key]) -> list[Key]:
    """The questions of a round in the order in which they are asked.

    It is random, and in every second round the reverse of the one before, so that
    whatever changes with time (a warm-up, load, a rate limit) falls on all variants
    alike. It is seeded, so that a run that continues keeps it.
    """
    places = random.Random(number // 2).sample(range(len(keys)), len(keys))  # noqa: S311
    return [keys[place] for place in (reversed(places) if number % 2 else places)]


@contextlib.contextmanager
def progress_bar(plan: Plan, experiment: Experiment) -> Iterator[Notify]:
    """A progress bar over the missing questions; none if nothing is missing.

    Yields a function that writes a sentence next to it.
    """
    remaining = plan.all_missing(experiment.answers_by_key)
    if not remaining:
        yield lambda text: None
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=len(remaining), unit=" replies")

    def update(answer: Answer | None) -> None:
        if answer is not None and answer.key in remaining and answer.status in ("answered", "failed"):
            remaining.discard(answer.key)
            bar.update()

    end = experiment.listen(update)
    try:
        yield bar.set_postfix_str
    finally:
        end()
        bar.close()
