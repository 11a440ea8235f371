"""Runs on disk: one file for each, to which every reply and grade is added as it comes.

A run's file is JSON Lines. The first line holds the facts and the lab as in its file,
then one line each for replies (again when a judge has graded it); the last says that
the run has ended. Nothing is ever rewritten, so what was written stays, whatever
happens to the process or the disk. A run that was killed has no such end: the next run
of the same questions continues it in place.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .._files import FileLock, append, local_path, make_private
from .._masking import Redactor, is_placeholder, with_texts
from ..frames.tabular import typed
from .experiment import Answer, Experiment
from .file import from_data

if TYPE_CHECKING:
    import pandas as pd


PATH_VARIABLE = "AGENTBOOK_RUNS"
FORMAT = "agentbook-prompt-lab-run"
VERSION = 3
# The oldest runs beyond these are removed; a file with another name is no run of ours.
NAME = re.compile(r"[0-9]{8}T[0-9]{12}-[0-9a-f]{8}\.jsonl")
MAX_RUNS = 200
MAX_BYTES = 256 << 20
# How many earlier runs are searched for one with the same cells.
MAX_SEARCHED = 20
CONTINUED_WITHIN = timedelta(days=1)
_SAME_LAB = ("agent", "workspace", "base_url")
_COLUMNS = {
    **{"run": "str", "started_at": "datetime64[us, UTC]", "agent": "str", "variants": "str", "inputs": "int64"},
    **{"answered": "int64", "failed": "int64", "passed": "Int64", "path": "str"},
}
_END = b'{"ended"'


def directory() -> Path:
    """Where runs are stored.

    ``AGENTBOOK_RUNS`` if it is set, else ``runs`` in ``AGENTBOOK_DATA``, or in this
    user's directory for application data.
    """
    if value := os.environ.get(PATH_VARIABLE):
        return Path(value).expanduser()
    return local_path("runs")


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it is stored.

    Attributes
    ----------
    id : str
        Begins with the time of the start, so that ids sort by it.
    facts : mapping
        The lab at the start: agent, workspace and platform, its path as ``file`` if it
        is one, and `lab`, its data as in a file.
    answers : list of Answer
    path : Path
    """

    id: str
    facts: Mapping[str, Any]
    answers: Sequence[Answer] = ()
    path: Path = field(default_factory=Path)

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(self.facts["started_at"])

    @property
    def experiment(self) -> Experiment:
        """The experiment with the answers of the run."""
        experiment = from_data(self.facts["lab"])
        experiment.answered = {answer.key: answer for answer in self.answers}
        return experiment


class Recorder:
    """Adds lines to the file of one run.

    Parameters
    ----------
    facts : mapping
        Facts about the lab, as plain data.
    earlier : SavedRun, optional
        A run that was killed, to continue in its file.

    Attributes
    ----------
    path : Path
    error : OSError or None
        Why a line is not in the file.

    Raises
    ------
    OSError
        If the file cannot be made.
    """

    def __init__(self, facts: Mapping[str, Any], earlier: SavedRun | None = None) -> None:
        folder = directory()
        make_private(folder)
        started_at = datetime.now(UTC)
        new = folder / f"{started_at:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}.jsonl"
        self.path = new if earlier is None else earlier.path
        self._redactor = Redactor(secrets_in_environment())
        self._lock = FileLock(self.path.with_suffix(".lock"), optional=True)
        self._lock.acquire(timeout_s=0)
        self.error: OSError | None = None
        self._writing = threading.Lock()
        if earlier is not None:
            self._write(facts=dict(facts))
        else:
            self._write(format=FORMAT, version=VERSION, started_at=started_at.isoformat(), **facts)

    def write(self, **entry: Any) -> None:
        """Add a line; it is in the file when this returns, or `error` says why not."""
        try:
            self._write(**entry)
        except OSError as error:  # a full disk must not stop the run
            self.error = error

    def _write(self, **entry: Any) -> None:
        # Escapes preserve half a surrogate pair, and keep each entry on one line.
        line = json.dumps(with_texts(entry, self._redactor.text)).encode()
        with self._writing:
            append(self.path, line + b"\n", private=True, durable=False)

    def record(self, answer: Answer | None) -> None:
        """Write an answer, once there is something to continue with."""
        if answer is not None and (answer.session_id is not None or answer.status != "asking"):
            self.write(answer=answer.as_data())

    def end(self, **facts: Any) -> None:
        """Write that the run has ended, and what changed; remove old runs."""
        self.write(facts=facts)
        self.write(ended=datetime.now(UTC).isoformat())
        prune()

    def close(self) -> None:
        """Let go of the file; without an end, the run can be continued."""
        self._lock.release()
        with contextlib.suppress(OSError):
            self.path.with_suffix(".lock").unlink()


def secrets_in_environment() -> list[str]:
    """The keys in the environment; none of our files may show them."""
    names = ("AGENTBOOK_API_KEY", "OPENAI_API_KEY")
    keys = [os.environ[name] for name in names if os.environ.get(name)]
    parts = [*keys, *(key.partition(":")[2] for key in keys if ":" in key)]
    return [part for part in parts if not is_placeholder(part)]


def read(path: Path) -> SavedRun:
    """The run in a file.

    Raises
    ------
    ValueError
        If it is damaged, or not a run.
    OSError
    """
    try:
        facts: dict[str, Any] = {}
        answers: dict[Any, Answer] = {}
        for entry in entries(path):
            facts |= entry.get("facts") or (entry if "format" in entry else {})
            if "answer" in entry:
                answer = Answer.from_data(entry["answer"])
                if answer.status == "asking":
                    answer.status, answer.still_open = "stopped", answer.session_id is not None
                answers[answer.key] = answer
        if facts["format"] != FORMAT or facts["version"] != VERSION:
            raise ValueError(f"format {facts.get('format')!r}, version {facts.get('version')!r}")
        run = SavedRun(path.stem, facts, list(answers.values()), path)
        run.started_at, run.experiment  # noqa: B018 - whatever is wrong with them shows here
    except OSError:
        raise
    except Exception as error:  # a line or a field is missing or another one
        raise ValueError(f"{path} is damaged, or not a run: {type(error).__name__}: {error}") from error
    return run


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """What the lines of a file say; half a line, or another thing, says nothing."""
    with open(path, "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                if isinstance(entry := json.loads(line), dict):
                    yield entry


def saved(
    facts: Mapping[str, Any] = MappingProxyType({}), chosen: Callable[[Path], bool] = lambda path: True
) -> Iterator[SavedRun]:
    """The runs with these facts, newest first, of the files that are chosen.

    One that cannot be read is reported and skipped.
    """
    for path in paths():
        try:
            if chosen(path) and _begins_with(path, facts):
                yield read(path)
        except FileNotFoundError:  # another kernel removed it
            continue
        except (OSError, ValueError) as error:
            warnings.warn(f"A run was skipped: {error}", stacklevel=2)


def _begins_with(path: Path, facts: Mapping[str, Any]) -> bool:
    """Whether the first line has these facts: thousands of others are not read."""
    first = next(entries(path), {}) if facts else {}
    return all(first.get(name) == value for name, value in facts.items())


def paths() -> list[Path]:
    """The files of the runs, newest first."""
    return sorted(directory().glob("*.jsonl"), key=lambda path: path.stem, reverse=True)


def open_run(run: Any) -> SavedRun:
    """The run with an id or a path.

    Raises
    ------
    ValueError
        If there is none, or it is damaged.
    TypeError, OSError
    """
    if not isinstance(run, str | Path):
        raise TypeError(f"A run is named by its id, as lab.runs() has it, or its path, not {type(run).__name__}.")
    if Path(run).suffix == ".jsonl":
        return read(Path(run))
    for path in paths():
        if path.stem == run:
            return read(path)
    raise ValueError(f"There is no run {run!r}: lab.runs() lists the stored ones.")


def unfinished(facts: Mapping[str, Any], matches: Callable[[SavedRun], object] = lambda run: True) -> SavedRun | None:
    """The newest run that was stopped, if it has these facts and can be continued.

    It cannot if it `matches` not, somebody continues it, or it began more than a day
    ago: the agent may be another one by now.
    """
    runs = saved(facts, lambda path: not _has_ended(path) and _is_orphan(path))
    return next((run for run in runs if datetime.now(UTC) - run.started_at < CONTINUED_WITHIN and matches(run)), None)


def _has_ended(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 100))
        return file.read().rpartition(b"\n{")[2].startswith(_END[1:])


def _is_orphan(path: Path) -> bool:
    """Whether no process is writing this file."""
    if not path.with_suffix(".lock").exists():
        return True
    lock = FileLock(path.with_suffix(".lock"), optional=True)
    try:
        return lock.acquire(timeout_s=0)
    finally:
        lock.release()


def prune() -> None:
    """Remove the oldest runs beyond `MAX_RUNS` and `MAX_BYTES`."""
    total = 0
    for number, path in enumerate(path for path in paths() if NAME.fullmatch(path.name)):
        with contextlib.suppress(OSError):  # another kernel removed it
            total += path.stat().st_size
            if number and (number >= MAX_RUNS or total > MAX_BYTES) and _is_orphan(path):
                path.unlink()


def table(runs: Iterable[SavedRun]) -> pd.DataFrame:
    """A row per run: when, with what, and how it went."""
    import pandas as pd

    return typed(pd.DataFrame([_summary(run) for run in runs], columns=list(_COLUMNS)), _COLUMNS)


def _summary(run: SavedRun) -> dict[str, Any]:
    experiment = run.experiment
    passed = [answer.passed(experiment.all_checks) for answer in run.answers]
    return {
        "run": run.id,
        "started_at": run.started_at,
        "agent": run.facts.get("agent_name") or run.facts["agent"],
        "variants": ", ".join(experiment.variants),
        "inputs": len({answer.input for answer in run.answers}),
        "answered": sum(answer.status == "answered" for answer in run.answers),
        "failed": sum(answer.status == "failed" for answer in run.answers),
        "passed": passed.count(True) if passed and experiment.all_checks else None,
        "path": str(run.path),
    }


def regressions_of(path: Path) -> pd.DataFrame | None:
    """The cells that a run broke; None without an earlier run of the same cells."""
    try:
        run = read(path)
    except (OSError, ValueError):
        return None
    cells = {(answer.variant, answer.input) for answer in run.answers}
    same = saved({name: run.facts.get(name) for name in _SAME_LAB}, lambda each: each.stem < path.stem)
    for earlier in itertools.islice(same, MAX_SEARCHED):
        if cells & {(answer.variant, answer.input) for answer in earlier.answers}:
            changes = compare_runs(earlier.experiment, run.experiment)
            return changes[changes["change"] == "broken"]
    return None


def compare(run_a: Any = None, run_b: Any = None) -> pd.DataFrame:
    """What changed from one run, or experiment, to another; see `compare_runs`.

    Default: the run before the newest, and the newest.

    Raises
    ------
    ValueError
        If there is no such run, or it is damaged.
    TypeError
    """
    newest = [run.id for run in itertools.islice(saved(), 2)] if None in (run_a, run_b) else []
    if len(newest) < 2 and None in (run_a, run_b):
        raise ValueError("There are not two runs to compare yet: lab.runs() lists the stored ones.")
    later = newest[0] if run_b is None else run_b
    earlier = newest[1] if run_a is None else run_a
    return compare_runs(_experiment(earlier), _experiment(later))


def _experiment(run: Any) -> Experiment:
    return run if isinstance(run, Experiment) else open_run(run).experiment


# In this order: what got worse comes first.
CHANGES = ("broken", "fixed", "unknown", "added", "removed", "unchanged")
_CHANGE_COLUMNS = {"variant": "str", "input": "str", "change": "category", "passed_before": "float64"}
_CHANGE_COLUMNS |= {"passed_after": "float64", "checks": "str", "edited": "bool", "reply_before": "str"}
_CHANGE_COLUMNS |= {"reply_after": "str"}


def compare_runs(before: Experiment, after: Experiment) -> pd.DataFrame:
    """What changed from one run to another.

    A cell, a variant's answers to one input, passes if it is answered and passes all
    checks that both runs have. Repeats of an input are averaged.

    Returns
    -------
    DataFrame
        A row per cell, the broken ones first:

        =============  ========  ====================================================
        column         dtype     meaning
        =============  ========  ====================================================
        variant        str
        input          str
        change         category  broken, fixed, unknown (a check could not decide),
                                 added, removed or unchanged
        passed_before  float64   share of the repeats that passed; where the runs have
                                 no check in common, that were answered
        passed_after   float64
        checks         str       the checks whose share of passes changed
        edited         bool      whether the variant's settings have changed
        reply_before   str       of the first repeat
        reply_after    str
        =============  ========  ====================================================
    """
    import pandas as pd

    checks = [name for name in before.all_checks if name in after.all_checks]
    old, new = _cells(before.answers), _cells(after.answers)
    rows = [
        {
            "variant": variant,
            "input": text,
            "edited": _settings(before, variant) != _settings(after, variant),
            **_change(old.get((variant, text), []), new.get((variant, text), []), checks),
        }
        for variant, text in dict.fromkeys((*new, *old))
    ]
    rows.sort(key=lambda row: CHANGES.index(row["change"]))
    return typed(pd.DataFrame(rows, columns=list(_CHANGE_COLUMNS)), _CHANGE_COLUMNS, {"change": CHANGES})


def _cells(answers: Iterable[Answer]) -> dict[tuple[str, str], list[Answer]]:
    cells: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        if answer.status in ("answered", "failed"):
            cells.setdefault((answer.variant, answer.input), []).append(answer)
    return cells


def _settings(experiment: Experiment, variant: str) -> Any:
    return experiment.variants[variant].settings if variant in experiment.variants else None


def _change(before: Sequence[Answer], after: Sequence[Answer], checks: Sequence[str]) -> dict[str, Any]:
    shares = _share_passed(before, checks), _share_passed(after, checks)
    changed = [name for name in checks if _share_passed(before, [name]) != _share_passed(after, [name])]
    return {
        "change": "added" if not before else "removed" if not after else _word(*shares),
        "passed_before": shares[0],
        "passed_after": shares[1],
        "checks": ", ".join(changed) if before and after else "",
        "reply_before": before[0].reply if before else None,
        "reply_after": after[0].reply if after else None,
    }


def _word(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "unknown"
    return "broken" if after < before else "fixed" if after > before else "unchanged"


def _share_passed(answers: Sequence[Answer], checks: Sequence[str]) -> float | None:
    """The share of repeats that pass; None if one of them is undecided."""
    passes = [each.status == "answered" and (each.passed(checks) if checks else True) for each in answers]
    known = [passed for passed in passes if passed is not None]
    return fmean(known) if known and len(known) == len(passes) else None
