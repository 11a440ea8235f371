"""Keeps a lab's runs: records them, continues a killed one, and compares them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import saved_runs
from .experiment import Experiment
from .plan import Plan
from .run_comparison import compare_runs
from .saved_runs import Recorder, SavedRun

if TYPE_CHECKING:
    import pandas as pd

# How many earlier runs are searched for one with the same cells.
MAX_LOOKED_AT = 20


class RunKeeper:
    """The runs of one lab, among all runs of this user.

    Attributes
    ----------
    regressions : DataFrame or None
        The cells that the last run broke, as in `compare_runs`; None without an earlier
        run of the same cells.
    """

    def __init__(self) -> None:
        self.regressions: pd.DataFrame | None = None

    @contextlib.asynccontextmanager
    async def keeping(
        self, experiment: Experiment, plan: Plan, facts: Mapping[str, Any], notes: list[str]
    ) -> AsyncGenerator[None]:
        """Record a run's answers; says in `notes` what it continued and what broke.

        `facts` are the lab's agent, workspace and platform.
        """
        await self._resume(experiment, plan, facts, notes)
        if not plan.all_missing(experiment.answers_by_key):
            yield
            return
        try:
            recorder = Recorder({**facts, **experiment.as_data(), "answers": [], "revisions": {}})
        except OSError as error:
            notes.append(
                f"This run is not stored: {error}. Set {saved_runs.PATH_VARIABLE} to a folder that can be written."
            )
            yield
            return
        end = experiment.listen(recorder.record)
        try:
            yield
        finally:
            end()
            # Also if the run was stopped.
            await asyncio.shield(asyncio.to_thread(self._end, recorder, experiment, plan, notes))

    def _end(self, recorder: Recorder, experiment: Experiment, plan: Plan, notes: list[str]) -> None:
        answers = [experiment.answers_by_key[key] for key in plan.keys if key in experiment.answers_by_key]
        run = SavedRun(recorder.id, {**recorder.facts, **_checks_of(experiment)}, answers)
        recorder.facts = dict(run.facts)
        try:
            recorder.end(answers)
        except OSError as error:
            notes.append(f"This run is not stored: {error}.")
        self._look_for_regressions(run)

    async def _resume(self, experiment: Experiment, plan: Plan, facts: Mapping[str, Any], notes: list[str]) -> None:
        """Take over the answers of a run that was killed with its kernel."""

        def matches(run: SavedRun) -> bool:
            return all(run.facts.get(name) == value for name, value in facts.items()) and bool(_useful(run, plan))

        run = await asyncio.to_thread(saved_runs.unfinished, matches)
        if run is None:
            return
        missing = plan.all_missing(experiment.answers_by_key)
        resumed = [answer for answer in _useful(run, plan) if answer.key in missing]
        for answer in resumed:
            answer.verdicts = {}
            answer.judge(list(experiment.checks.values()))
            experiment.record(answer)
        if resumed:
            notes.append(
                f"Continued the run of {run.started_at.astimezone():%Y-%m-%d %H:%M}, which ended with its kernel: "
                f"{len(resumed)} of its questions are not asked again."
            )
        saved_runs.forget(run)

    def _look_for_regressions(self, run: SavedRun) -> None:
        self.regressions = None
        cells = {(answer.variant, answer.input) for answer in run.answers}
        for earlier in itertools.islice(saved_runs.saved(), MAX_LOOKED_AT):
            is_same = earlier.id < run.id and all(earlier.facts.get(name) == run.facts.get(name) for name in _WHERE)
            if is_same and cells & {(answer.variant, answer.input) for answer in earlier.answers}:
                changes = compare_runs(earlier.experiment, run.experiment)
                self.regressions = changes[changes["change"] == "broken"]
                break

    def runs(self) -> pd.DataFrame:
        """The runs of this user on this computer, the newest first.

        Returns
        -------
        DataFrame
            ``run`` (for `open_run` and `compare`), ``started_at`` (UTC), ``agent``,
            ``variants``, the numbers of ``inputs``, ``answered``, ``failed`` and
            ``passed`` answers, and the ``path`` of its Parquet file.

        Notes
        -----
        The newest 200 runs are stored, up to 256 MiB, in the folder ``AGENTBOOK_RUNS``
        or in this user's directory for application data. They hold prompts, questions
        and replies, but no credentials. A file that cannot be read is named in a
        warning.
        """
        return saved_runs.table(saved_runs.saved())

    def compare(self, run_a: Any = None, run_b: Any = None) -> pd.DataFrame:
        """What changed from one run to another, broken cells first.

        Parameters
        ----------
        run_a, run_b : str, path or PromptLab, optional
            The earlier and the later run, by the ids of `runs`. Default: the run before
            the newest, and the newest.

        Returns
        -------
        DataFrame
            A row per variant and input: ``change`` (broken, fixed, unknown, added,
            removed, unchanged), the shares of repeats that ``passed_before`` and
            ``passed_after`` all checks of both runs, the ``checks`` that changed,
            if the variant was ``edited``, and the replies.

        Raises
        ------
        ValueError
            If there is no such run, or it is damaged.
        TypeError
        """
        newest = [run.id for run in itertools.islice(saved_runs.saved(), 2)] if None in (run_a, run_b) else []
        if len(newest) < 2 and None in (run_a, run_b):
            raise ValueError("There are not two runs to compare yet: lab.runs() lists the stored ones.")
        later = newest[0] if run_b is None else run_b
        earlier = newest[1] if run_a is None else run_a
        return compare_runs(_experiment(earlier), _experiment(later))


_WHERE = ("agent", "workspace", "base_url")


def _experiment(run: Any) -> Experiment:
    return run if isinstance(run, Experiment) else saved_runs.find(_reference(run)).experiment


def open_run(run: Any) -> SavedRun:
    """The run with an id or a path."""
    return saved_runs.find(_reference(run))


def _reference(run: Any) -> str | Path:
    if not isinstance(run, str | Path):
        raise TypeError(
            f"A run is named by its id, such as lab.runs()['run'][0], or its path, not {type(run).__name__}."
        )
    path = Path(run)
    return path if path.suffix in (".parquet", ".jsonl") else str(run)


def _checks_of(experiment: Experiment) -> dict[str, Any]:
    return {"checks": experiment.as_data()["checks"]}


def _useful(run: SavedRun, plan: Plan) -> list[Any]:
    """The answers of a run to questions of a plan, with the same settings."""
    variants = {variant["name"]: variant for variant in run.facts["variants"]}
    same = {variant.name for variant in plan.variants if variants.get(variant.name) == variant.as_data()}
    keys = set(plan.keys)
    return [
        answer
        for answer in run.answers
        if answer.variant in same and answer.key in keys and (answer.status != "stopped" or answer.still_open)
    ]
