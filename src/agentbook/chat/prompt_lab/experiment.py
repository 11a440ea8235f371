"""An experiment: variants, inputs, checks and answers, without agent and widgets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..._whole_file import whole_file
from ..model.listeners import Listeners
from . import summary
from .answers import COLUMNS, LAST_COLUMNS, Answer, Key, to_frame
from .checks import Check, read_checks
from .variant import Variant

if TYPE_CHECKING:
    import pandas as pd

    from ...frames.plot.chart import Chart

Listener = Callable[[Answer | None], None]

FORMAT = "agentbook-prompt-lab"
FORMAT_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


class Experiment:
    """What is tried out, and the results.

    Attributes
    ----------
    inputs : list of str
    """

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self._variants: dict[str, Variant] = {}
        self._checks: dict[str, Check] = {}
        self._answers: dict[Key, Answer] = {}
        self._listeners = Listeners[Answer | None]()

    # Variants and checks

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return MappingProxyType(self._variants)

    def variant(self, variant: str | Variant) -> Variant:
        """The variant with this name; a new `Variant` is added.

        Raises
        ------
        ValueError
            If there is no such name, or another variant has the name.
        """
        if isinstance(variant, Variant):
            return self.add_variant(variant)
        if variant not in self._variants:
            names = ", ".join(self._variants) or "none yet"
            raise ValueError(f"There is no variant {variant!r}; there are: {names}.")
        return self._variants[variant]

    def add_variant(self, variant: Variant) -> Variant:
        """Add a variant; adding the same one again changes nothing.

        Raises
        ------
        ValueError
            If another variant has this name.
        """
        existing = self._variants.setdefault(variant.name, variant)
        if existing != variant:
            raise ValueError(
                f"There is already a different variant {variant.name!r}. Choose another name, "
                f"or lab.remove_variant({variant.name!r}), which also removes its results."
            )
        if existing is variant:
            self.notify()
        return existing

    def remove_variant(self, name: str) -> None:
        """Remove a variant and its results.

        Raises
        ------
        ValueError
            If there is no variant of this name.
        """
        del self._variants[self.variant(name).name]
        for key in [key for key in self._answers if key[0] == name]:  # in place: a run may be using them
            del self._answers[key]
        self.notify()

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return MappingProxyType(self._checks)

    def check(self, checks: Any) -> None:
        """Replace the checks and apply the new ones to all replies.

        Raises
        ------
        TypeError, ValueError
            If one is not a check, or has the name of a column of the results.
        """
        new = read_checks(checks)
        taken = {*COLUMNS, *LAST_COLUMNS} & {*new, *(f"{name}_score" for name in new)}
        if taken:
            raise ValueError(f"A check cannot be called {min(taken)!r}: the results have a column of that name.")
        unchanged = {name for name, check in new.items() if self._checks.get(name, check) == check}
        self._checks = new
        for answer in list(self._answers.values()):
            answer.verdicts = {name: verdict for name, verdict in answer.verdicts.items() if name in unchanged}
            answer.judge(new.values())
        self.notify()

    # Answers

    @property
    def answers_by_key(self) -> Mapping[Key, Answer]:
        """The answers by variant, input and repeat."""
        return MappingProxyType(self._answers)

    @property
    def answers(self) -> list[Answer]:
        """The answers, in the order of variants, inputs and repeats."""
        variants = {name: n for n, name in enumerate(self._variants)}
        inputs = {text: n for n, text in enumerate(self.inputs)}
        last = max(len(variants), len(inputs))
        return sorted(
            self._answers.values(),
            key=lambda each: (variants.get(each.variant, last), inputs.get(each.input, last), each.repeat),
        )

    def record(self, answer: Answer) -> None:
        """Store an answer and notify the listeners."""
        self._answers[answer.key] = answer
        self.notify(answer)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change; the result ends that.

        What it raises is logged by the logger ``agentbook.chat``.
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
        """One row per variant."""
        return summary.summarise(self.results, list(self._checks))

    def chart(self) -> Chart:
        """The summary as a chart."""
        return summary.chart(self.results, list(self._checks))

    # Data

    def as_data(self) -> dict[str, Any]:
        """The experiment as plain data, ready for JSON."""
        return {
            "variants": [variant.as_data() for variant in self._variants.values()],
            "inputs": list(self.inputs),
            "checks": [check.as_data() for check in self._checks.values()],
            "answers": [answer.as_data() for answer in self._answers.values() if answer.status != "asking"],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Experiment:
        """The experiment that `as_data` wrote."""
        experiment = cls()
        for variant in data["variants"]:
            experiment.add_variant(Variant.from_data(variant))
        experiment._checks = {check["name"]: Check.from_data(check) for check in data["checks"]}
        experiment.inputs = [str(text) for text in data["inputs"]]
        experiment._answers = {answer.key: answer for answer in map(Answer.from_data, data["answers"])}
        return experiment


# Files


def write_file(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write the data of a lab to a file, which is replaced as a whole or not at all."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **data}, ensure_ascii=False, indent=1)
    # Half a surrogate pair, which broken JSON may hold, is not valid UTF-8; its escape
    # is.
    text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    with whole_file(target) as file:
        file.write(f"{text}\n".encode())
    return target


def read_file(path: str | Path) -> dict[str, Any]:
    """The data that `write_file` wrote.

    Raises
    ------
    ValueError
        If the file is something else, damaged, or of a later version of the format.
    OSError
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); open a file that lab.save(path) wrote.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f'{path} is not a prompt lab: a file of lab.save(path) begins with "format": "{FORMAT}".')
    if data.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {data.get('version')!r}; this agentbook reads version {FORMAT_VERSION}."
        )
    return data
