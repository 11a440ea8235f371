"""Runs a lab from code, with a progress bar, warnings and a frame."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...evaluation.configurator import READY_TIMEOUT_S, Notify
from ...evaluation.plan import CONCURRENCY, TIMEOUT_S, Options, Plan, progress_bar
from ...evaluation.variant import Variant
from ...events import loop
from .controller import LabController

if TYPE_CHECKING:
    import pandas as pd


class LabRunner:
    """The part of `PromptLab` that asks.

    Parameters
    ----------
    controller : LabController
    on_end : callable
        Called when a run has ended, before its frame is returned.
    """

    def __init__(self, controller: LabController, on_end: Callable[[], None]) -> None:
        self._controller = controller
        self._on_end = on_end

    def run(
        self,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        checks: Any = None,
        concurrency: int = CONCURRENCY,
        repeats: int | None = None,
        retry_failed: bool = False,
        restore: bool = True,
        timeout_s: float = TIMEOUT_S,
        ready_timeout_s: float = READY_TIMEOUT_S,
        progress: bool = True,
        rows: Any = None,
        drafts: bool | None = None,
        max_cost: float | None = None,
        prices: Any = None,
        mask: bool = True,
    ) -> pd.DataFrame:
        """Ask every variant every input that it has not answered yet.

        Each question has a session of its own.

        Parameters
        ----------
        inputs : list of str, str, Series, table or path of a CSV file, optional
            A string holds one input per line. A table has a column ``input``, or is one
            of turns with their texts. ``{{topic}}`` is filled from the column of that
            name. None uses the inputs of the last run.
        variants : iterable of str or Variant, optional
            Names; or variants, which are added if they are new. None for all.
        checks : mapping or iterable, optional
            See `check`. None leaves the checks as they are.
        concurrency : int
            Number of questions that may be open at the same time.
        repeats : int, optional
            Number of times to ask each input: a single answer may be luck. Default: as
            often as in the last run, or as the file says that was loaded; else once.
        retry_failed : bool
            Ask failed questions again, after looking for a late reply.
        restore : bool
            Restore the configuration of each agent at the end. If it cannot be read,
            nothing is run.
        timeout_s : float
            Seconds to wait for one reply.
        ready_timeout_s : float
            Seconds to wait for an agent to become READY.
        progress : bool
            Show a progress bar.
        rows : table, path of a CSV file, or list of dict, optional
            Each input is asked once per row, with the row's values in place of the
            names in braces, as are the prompts of the variants.
        drafts : bool, optional
            Run variants as drafts, which change nothing for anyone else. Default: if
            the platform offers them; otherwise variants take turns on the agent.
        max_cost : float, optional
            The answers may cost at most this much, in the currency of `prices`. The run
            stops before they cost more, judging by the most expensive one so far.
        prices : dict or DataFrame, optional
            As for `agentbook.with_cost`: the answers then have a cost.
        mask : bool
            Whether keys, passwords, e-mail addresses and card numbers are masked if the
            inputs or rows are past turns.

        Returns
        -------
        DataFrame
            One row per variant, input and repeat of this run, with the columns of
            `agentbook.evaluation.answers.to_frame`. A failure is a row with a
            status and a reason.

        Raises
        ------
        ValueError
            If there are no inputs or variants, a name is unknown, or a check is
            invalid; or if, with `restore`, the configuration of an agent cannot be
            read, in which case nothing was changed. Failures of an agent or the
            platform are not raised: they are rows.
        NotOffered
            If a variant sets a parameter, or `drafts` is True, and the platform's
            openapi.yaml does not offer it. Nothing was sent.

        Notes
        -----
        An interrupt keeps the answers that have arrived; run again to continue. The
        next run looks for late replies in the sessions of open questions before it asks
        them again.
        """
        if repeats is None:
            repeats = self._controller.experiment.repeats
        options = Options(
            concurrency, repeats, retry_failed, restore, timeout_s, ready_timeout_s, drafts, max_cost, prices
        )
        plan = self._controller.plan(inputs, variants, checks, options, rows, mask=mask)
        with self._progress(plan, progress) as notify:
            loop.run(self._controller.run(plan, notify))
        return self._outcome(plan, 4)

    async def arun(
        self, /, inputs: Any = None, variants: Iterable[str | Variant] | str | Variant | None = None, **options: Any
    ) -> pd.DataFrame:
        """As `PromptLab.run`, awaited, on any event loop.

        For example ``frame = await lab.arun([...])``.
        """
        progress, checks, rows = options.pop("progress", True), options.pop("checks", None), options.pop("rows", None)
        mask = options.pop("mask", True)
        if options.get("repeats") is None:
            options["repeats"] = self._controller.experiment.repeats
        plan = self._controller.plan(inputs, variants, checks, Options(**options), rows, mask=mask)
        with self._progress(plan, progress) as notify:
            await loop.run_async(self._controller.run(plan, notify))
        return self._outcome(plan, 3)

    def _progress(self, plan: Plan, shown: bool) -> contextlib.AbstractContextManager[Notify]:
        return progress_bar(plan, self._controller.experiment) if shown else contextlib.nullcontext(lambda text: None)

    def _outcome(self, plan: Plan, stacklevel: int) -> pd.DataFrame:
        self._on_end()
        for note in self._controller.notes:
            warnings.warn(note, stacklevel=stacklevel)
        answers = self._controller.experiment.answers_by_key
        return self._controller.experiment.frame(answers[key] for key in plan.keys if key in answers)
