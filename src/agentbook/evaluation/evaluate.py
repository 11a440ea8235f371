"""Runs a lab file, from reading to reports, for the command and pytest."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import atomic_write, local_path
from .._masking import Redactor, redacted
from ..api.calls import ref
from ..events import loop
from . import runs
from .asking import TIMEOUT_S
from .experiment import Key
from .file import SavedLab, read_lab
from .lab import Lab
from .platform import find_workspace, require_workspace
from .results import Results, html_report, junit_xml, status_of
from .run import CONCURRENCY, Options, Plan, progress_bar
from .source import ConfigError
from .variant import Variant

if TYPE_CHECKING:
    from ..client import Client

AS_IT_IS = "now"  # the variant of a file without any


def evaluate(
    path: str | Path,
    connect: Callable[[], Client],
    *,
    agent: Any = None,
    workspace: Any = None,
    judge: Any = None,
    folder: Path | None = None,
    repeats: int | None = None,
    against: str | None = None,
    failed: bool = False,
    allow_code: bool = False,
    concurrency: int = CONCURRENCY,
    timeout_s: float = TIMEOUT_S,
    prices: Any = None,
    max_cost: float | None = None,
    progress: bool = False,
    follow: Any = None,
) -> tuple[Results, list[str]]:
    """Run a lab file; returns the results, and notes for the user.

    Parameters
    ----------
    path : str or Path
    connect : callable
        Returns a client. Not called if the file is wrong.
    agent, workspace, judge : str or Record, optional
        Replace those in the file. A judge that a check names stays.
    folder : Path, optional
        Where the reports are written. None writes none.
    repeats : int, optional
        Number of times to ask each input, instead of the file's.
    against : str, optional
        The variant with which the others are compared. Default: the first one.
    failed : bool
        Ask only what did not pass in the last run of the file.
    allow_code : bool
        Whether checks may run functions of Python files.
    concurrency : int
        Number of questions that may be open at the same time.
    timeout_s : float
        Seconds to wait for one reply.
    prices : dict, DataFrame, str or path, optional
        As for `agentbook.with_cost`, for checks of cost and `max_cost`. Default: the
        file that ``AGENTBOOK_PRICES`` names.
    max_cost : float, optional
        The most that the agents' answers and the judges may cost.
    progress : bool
        Show a progress bar on stderr.

    Raises
    ------
    ConfigError
        If the file or the prices are wrong, or no agent or workspace can be determined.
    AgentbookError
        If the platform cannot be reached, or refuses before anything is sent.
    """
    saved = read_lab(path, allow_code=allow_code, judge=judge and ref(judge))
    name = _agent(path, saved, agent)
    if against is not None and against not in saved.experiment.variants:
        there = ", ".join(saved.experiment.variants)
        raise ConfigError(f"{path}: there is no variant {against!r} to compare with; there are {there}.")
    if against is not None and not saved.experiment.all_checks:
        raise ConfigError(f"{path}: there are no `checks`, by which variants could be compared with {against!r}.")
    saved.experiment.answered.clear()  # what a notebook asked earlier
    try:
        number = saved.experiment.repeats if repeats is None else repeats
        options = Options(concurrency, number, True, timeout_s=timeout_s, prices=prices, max_cost=max_cost)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        client = connect()
        where = ref(workspace) if workspace is not None else saved.workspace
        if where is None:
            where = find_workspace(client, name)
        else:
            loop.run(require_workspace(client.asynchronous(), where), operation="eval")
        lab = Lab(client, name, where, follow)
        lab.replace_with(saved.experiment)
        lab.path = Path(path).resolve()
        plan = lab.plan(options=options)
        if failed:
            plan = dataclasses.replace(plan, rounds=_failed(lab, plan))
        with progress_bar(plan, lab) if progress else contextlib.nullcontext(lambda text: None) as notify:
            loop.run(lab.ask(plan, notify), operation="eval")
    except ConfigError:
        raise
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from error
    results = Results.of(lab, plan, against)
    if folder is not None:
        write_reports(folder, results)
    return results, lab.notes


def _agent(path: str | Path, saved: SavedLab, agent: Any) -> str | None:
    """The agent to ask; the file has inputs, and each variant an agent."""
    if not saved.experiment.inputs:
        raise ConfigError(f"{path}: there are no `inputs`, so there is nothing to ask.")
    if not saved.experiment.variants:
        saved.experiment.add_variant(Variant(AS_IT_IS))
    name = ref(agent) if agent is not None else saved.agent
    if name is None and any(each.agent is None for each in saved.experiment.variants.values()):
        raise ConfigError(f"{path}: no `agent` is named, so nobody can be asked: name one there, or with --agent.")
    return name


def _failed(lab: Lab, plan: Plan) -> list[list[Key]]:
    """The questions that did not pass in the last run of a file."""
    facts = {**lab.place, "file": str(lab.path)}
    for run in runs.saved():
        if all(run.facts.get(name) == value for name, value in facts.items()):
            checks = list(run.experiment.all_checks)
            wrong = {answer.key for answer in run.answers if status_of(answer, checks) != "passed"}
            left = [[key for key in keys if key in wrong] for keys in plan.rounds]
            if not any(left):
                raise ConfigError("Everything passed in the last run, so there is nothing to ask with --failed.")
            return left
    raise ConfigError(f"There is no earlier run of {lab.path} with this agent, so nothing is known to have failed.")


@contextlib.contextmanager
def closing_clients(connect: Callable[[], Client]) -> Iterator[Callable[[], Client]]:
    """`connect`, whose client is closed with its connections when the block ends."""
    connect_once = functools.cache(connect)
    try:
        yield connect_once
    finally:
        if connect_once.cache_info().currsize:
            client = connect_once()
            loop.run(client.asynchronous().aclose(), 60)
            client.close()


def default_folder(path: str | Path) -> Path:
    """Where the reports of a file go unless a folder is named: the data directory."""
    target = Path(path).resolve()
    return local_path("evaluations") / f"{target.stem}-{hashlib.sha256(str(target).encode()).hexdigest()[:8]}"


def write_reports(folder: Path, results: Results) -> None:
    """Write results.json, junit.xml and report.html, without any key."""
    redactor = Redactor(runs.secrets_in_environment())
    reports = {
        "results.json": json.dumps(redacted(results.as_data(), redactor), ensure_ascii=False, indent=1),
        "junit.xml": redactor.text(junit_xml(results)),
        "report.html": redactor.text(html_report(results)),
    }
    for name, text in reports.items():
        with atomic_write(folder / name) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
