"""What is tried out and what came of it: variants, inputs, checks and answers, without anybody who could be asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from . import answers as table
from .answers import Answer, Key
from .checks import Check, read_checks
from .variant import Variant

if TYPE_CHECKING:
    import pandas as pd

    from ...frames.plot.chart import Chart

Listener = Callable[[Answer | None], None]


class Experiment:
    """The record of a lab; `PromptLab` adds to it whom to ask.

    Attributes
    ----------
    agent, workspace : str or None
    inputs : list of str
    """

    def __init__(self, agent: Any = None, workspace: Any = None) -> None:
        self.agent = None if agent is None else ref(agent)
        self.workspace = None if workspace is None else ref(workspace)
        self.inputs: list[str] = []
        self._variants: dict[str, Variant] = {}
        self._checks: dict[str, Check] = {}
        self._answers: dict[Key, Answer] = {}
        self._listeners: list[Listener] = []

    # What is tried out

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return MappingProxyType(self._variants)

    def add_variant(
        self,
        name: str | Variant,
        system_prompt: str | None = None,
        *,
        description: str | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        platform_tools: Iterable[str] | None = None,
        mode: str | None = None,
        version: str | None = None,
        agent: Any = None,
    ) -> Variant:
        """Add a configuration to try out. Nothing is sent; a run, or `apply`, does that.

        Parameters
        ----------
        name : str or Variant
            What to call it; or a whole `Variant`.
        system_prompt, description : str, optional
            What is left out stays as the agent has it. With nothing but a name it is the agent as it is.
        tools : iterable of dict, optional
            Each ``{"integration": str, "tools": [str, ...]}``.
        platform_tools : iterable of str, optional
        mode : {"one-shot", "multi-turn"}, optional
        version : str, optional
            The version number to commit it under; default: the one after the agent's newest.
        agent : str or Record, optional
            An agent of its own, so that it runs beside the others.

        Returns
        -------
        Variant

        Raises
        ------
        ValueError
            If another variant has this name. The same one may be added again, so that a cell can be run again.
        """
        made = name if isinstance(name, Variant) else Variant(
            name,
            system_prompt,
            description,
            None if tools is None else tuple(tools),
            platform_tools if platform_tools is None or isinstance(platform_tools, str) else tuple(platform_tools),
            mode,
            version,
            None if agent is None else ref(agent),
        )  # fmt: skip
        have = self._variants.get(made.name)
        if have is not None and have != made:
            raise ValueError(
                f"There is a variant {made.name!r} already, and it says something else. Choose another name, "
                f"or lab.remove_variant({made.name!r}), which drops its results, too."
            )
        if have is None:
            self._variants[made.name] = made
            self._tell(None)
        return made

    def remove_variant(self, name: str) -> None:
        """Take a variant away, with its results.

        Parameters
        ----------
        name : str
            Its name.

        Raises
        ------
        ValueError
            If there is none of this name; the message says which there are.
        """
        self._variant(name)
        del self._variants[name]
        for key in [key for key in self._answers if key[0] == name]:  # in place: a run may hold on to them
            del self._answers[key]
        self._tell(None)

    def _taken_in(self, variant: str | Variant) -> Variant:
        """The variant of this name; one that is given whole is added if it is new."""
        return self.add_variant(variant) if isinstance(variant, Variant) else self._variant(variant)

    def _variant(self, name: str | Variant) -> Variant:
        wanted = name.name if isinstance(name, Variant) else name
        if wanted not in self._variants:
            raise ValueError(f"There is no variant {wanted!r}; there are: {', '.join(self._variants) or 'none yet'}.")
        return self._variants[wanted]

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return MappingProxyType(self._checks)

    def check(self, checks: Any) -> pd.DataFrame:
        """Hold all replies against these checks instead of those before; nobody is asked anything.

        Parameters
        ----------
        checks : mapping of name to check, or iterable of checks
            A text that must be contained, a compiled pattern, a JSON schema (a mapping), or a function of the reply, or of reply
            and input, that returns a bool or a score from 0 to 1 (which passes from 0.5 on).

        Returns
        -------
        DataFrame
            `results`, with a column for each of these checks.

        Raises
        ------
        TypeError, ValueError
            If one is no check. What a check itself raises is not: it stands in the column ``check_error``.
        """
        self._set_checks(checks)
        for answer in list(self._answers.values()):
            answer.judge(self._checks.values())
        self._tell(None)
        return self.results

    def _set_checks(self, given: Any) -> None:
        checks = read_checks(given)
        taken = {*table.COLUMNS, *table.LAST} & {*checks, *(f"{name}_score" for name in checks)}
        if taken:
            raise ValueError(f"A check cannot be called {min(taken)!r}: the results have a column of that name.")
        changed = {name for name, check in self._checks.items() if checks.get(name) != check}
        for answer in list(self._answers.values()):
            answer.verdicts = {
                name: verdict for name, verdict in answer.verdicts.items() if name in checks and name not in changed
            }
        self._checks = checks

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called after each change, with the answer that changed or None; on the toolkit's thread during a run.

        Parameters
        ----------
        listener : callable
            Takes the answer, or None. It raises nothing.

        Returns
        -------
        callable
            Ends it: ``end = lab.listen(draw)``.
        """
        self._listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def _tell(self, answer: Answer | None) -> None:
        for listener in tuple(self._listeners):
            listener(answer)

    # Results

    @property
    def answers(self) -> list[Answer]:
        """What was asked so far and what became of it, in the order of variants and inputs."""
        place = {name: n for n, name in enumerate(self._variants)}
        asked = {text: n for n, text in enumerate(self.inputs)}
        return sorted(
            self._answers.values(),
            key=lambda each: (place.get(each.variant, len(place)), asked.get(each.input, len(asked)), each.repeat),
        )

    @property
    def results(self) -> pd.DataFrame:
        """Everything asked so far, variant by variant; the columns are those of `agentbook.chat.prompt_lab.answers.to_frame`."""
        return self._frame(self.answers)

    def _frame(self, answers: list[Answer]) -> pd.DataFrame:
        return table.to_frame(answers, list(self._checks))

    def summary(self) -> pd.DataFrame:
        """One line for each variant: counts, pass rates, waiting times.

        Returns
        -------
        DataFrame
            Columns as `agentbook.chat.prompt_lab.summary.summarise` gives them: ``n``, ``answered``, ``failed``, for each check
            ``…_n``, ``…_passed`` and ``…_rate``, and ``p50_s``, ``p95_s``, ``max_s`` in seconds.
        """
        from .summary import summarise

        return summarise(self.results, list(self._checks))

    def chart(self) -> Chart:
        """Pass rates and waiting times, variant by variant; see `agentbook.chat.prompt_lab.summary.chart`."""
        from .summary import chart

        return chart(self.results, list(self._checks))

    def _data(self) -> dict[str, Any]:
        asked = [answer for answer in self._answers.values() if answer.status != "asking"]
        return {
            "agent": self.agent,
            "workspace": self.workspace,
            "variants": [variant.as_data() for variant in self._variants.values()],
            "inputs": list(self.inputs),
            "checks": [check.as_data() for check in self._checks.values()],
            "answers": [answer.as_data() for answer in asked],
        }

    def __eq__(self, other: object) -> bool:
        return self._data() == other._data() if isinstance(other, Experiment) else NotImplemented

    # By what they hold, two may be equal now and not later, which no hash can follow.
    __hash__ = None  # type: ignore[assignment]
