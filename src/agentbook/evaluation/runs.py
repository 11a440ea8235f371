"""This user's runs on disk: a Parquet file for each, and a journal while it runs.

A run's answers go to a journal as they arrive, one line each. When the run ends, the
journal becomes a Parquet file. If the kernel is killed, the journal stays, and the next
run of the same questions continues with what it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import uuid
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import IO, TYPE_CHECKING, Any

from .._files import FileLock, atomic_write
from ..frames.tabular import to_strings
from .answers import Answer
from .experiment import Experiment
from .run import Plan

if TYPE_CHECKING:
    import pandas as pd


PATH_VARIABLE = "AGENTBOOK_RUNS"
FORMAT = "agentbook-prompt-lab-run"
FORMAT_VERSION = 1
# The oldest runs beyond these are removed.
MAX_RUNS = 200
MAX_BYTES = 256 << 20
_KEY = b"agentbook"
# Column of a run's file -> Arrow type. The first columns are for readers of the file;
# the last holds the whole answer as JSON.
_COLUMNS = {
    **dict.fromkeys(("variant", "input"), "string"),
    "repeat": "int64",
    **dict.fromkeys(("status", "reply", "reason", "version", "asked_at"), "string"),
    **dict.fromkeys(("latency_s", "cost"), "double"),
    "answer": "string",
}
_FIRST_COLUMNS = ("run", "started_at", "agent", "variants", "inputs", "answered", "failed", "passed", "path")


def directory() -> Path:
    """Where runs are stored.

    ``AGENTBOOK_RUNS`` if it is set, else ``runs`` in ``AGENTBOOK_DATA``, or in this
    user's directory for application data.
    """
    if value := os.environ.get(PATH_VARIABLE):
        return Path(value).expanduser()
    if value := os.environ.get("AGENTBOOK_DATA"):
        return Path(value).expanduser() / "runs"
    from platformdirs import user_data_path

    return user_data_path("agentbook") / "runs"


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it is stored.

    Attributes
    ----------
    id : str
        Begins with the time of the start, so that ids sort by it.
    facts : mapping
        The lab at the start: agent, workspace, platform, variants, inputs and checks.
    answers : list of Answer
    ended : bool
        Whether the run ended normally, rather than with its kernel.
    """

    id: str
    facts: Mapping[str, Any]
    answers: Sequence[Answer] = ()
    ended: bool = True
    path: Path = field(default_factory=Path)

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(self.facts["started_at"])

    @property
    def experiment(self) -> Experiment:
        """The experiment with the answers of the run."""
        data = {**self.facts, "answers": [answer.as_data() for answer in self.answers]}
        return Experiment.from_data(data)


class Recorder:
    """Keeps one run: a journal while it runs, a Parquet file when it has ended.

    Parameters
    ----------
    facts : mapping
        Facts about the lab, as plain data.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        started_at = datetime.now(UTC)
        self.id = f"{started_at:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
        self.facts = {**facts, "format": FORMAT, "version": FORMAT_VERSION, "started_at": started_at.isoformat()}
        folder = directory()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"{self.id}.jsonl"
        self._lock = FileLock(self._path.with_suffix(".lock"))
        self._lock.acquire(timeout_s=0)
        self._file: IO[str] = os.fdopen(
            os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        )
        self._write(self.facts)

    def _write(self, data: Mapping[str, Any]) -> None:
        # Escapes preserve half a surrogate pair, and keep each entry on one line.
        self._file.write(json.dumps(data) + "\n")
        self._file.flush()

    def record(self, answer: Answer | None) -> None:
        """Write an answer to the journal, once there is something to continue with."""
        if answer is not None and (answer.session_id is not None or answer.status != "asking"):
            self._write(answer.as_data())

    def end(self, answers: Sequence[Answer]) -> None:
        """Write the run's file, and remove the journal and runs that are too old."""
        try:
            write(self._path.with_suffix(".parquet"), self.facts, answers)
            self._file.close()
            self._path.unlink(missing_ok=True)
        finally:
            self._close()
        prune()

    def abandon(self) -> None:
        """Keep the journal, so that the run can be continued."""
        self._close()

    def _close(self) -> None:
        self._file.close()
        self._lock.release()
        with contextlib.suppress(OSError):
            self._path.with_suffix(".lock").unlink()


def write(path: Path, facts: Mapping[str, Any], answers: Sequence[Answer]) -> None:
    """Write a run's file, readable by its owner only."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(answer) for answer in answers]
    schema = pa.schema(
        [pa.field(name, pa.type_for_alias(kind)) for name, kind in _COLUMNS.items()],
        {_KEY: json.dumps(facts).encode()},
    )
    with atomic_write(path, private=True) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")


def _row(answer: Answer) -> dict[str, Any]:
    data = answer.as_data()
    row = {name: data[name] for name in _COLUMNS if name != "answer"}
    # Arrow's texts are UTF-8, without halves of surrogate pairs; JSON escapes them.
    texts = {name: value.encode(errors="replace").decode() for name, value in row.items() if isinstance(value, str)}
    return {**row, **texts, "answer": json.dumps(data)}


def read(path: Path) -> SavedRun:
    """The run in a file or a journal.

    Raises
    ------
    ValueError
        If it is damaged, or not a run.
    OSError
    """
    try:
        facts, rows = _read_journal(path) if path.suffix == ".jsonl" else _read_parquet(path)
        if facts["format"] != FORMAT or facts["version"] != FORMAT_VERSION:
            raise ValueError(f"format {facts.get('format')!r}, version {facts.get('version')!r}")
        answers = {answer.key: answer for answer in map(Answer.from_data, rows)}
        run = SavedRun(path.stem, facts, list(answers.values()), path.suffix != ".jsonl", path)
        run.started_at, run.experiment  # noqa: B018 - whatever is wrong with them shows here
    except OSError:
        raise
    except Exception as error:  # Arrow, JSON and missing fields
        raise ValueError(f"{path} is damaged, or not a run: {type(error).__name__}: {error}") from error
    return run


def _read_parquet(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    facts = json.loads((table.schema.metadata or {})[_KEY])
    return facts, [json.loads(text) for text in table["answer"].to_pylist()]


def _read_journal(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    lines = path.read_text("utf-8").splitlines()
    rows = []
    for line in lines[1:]:
        with contextlib.suppress(ValueError):  # the last line may be half written
            rows.append(json.loads(line))
    for row in rows:
        if row["status"] == "asking":
            row["status"], row["still_open"] = "stopped", row["session_id"] is not None
    return json.loads(lines[0]), rows


def saved() -> Iterator[SavedRun]:
    """The runs, newest first; one that cannot be read is reported and skipped."""
    for path in sorted(_paths(), key=lambda path: path.stem, reverse=True):
        try:
            yield read(path)
        except FileNotFoundError:  # another kernel removed it
            continue
        except (OSError, ValueError) as error:
            warnings.warn(f"A run was skipped: {error}", stacklevel=2)


def find(run: str | Path) -> SavedRun:
    """The run with this id or file.

    Raises
    ------
    ValueError
        If there is none, or it is damaged.
    OSError
    """
    if isinstance(run, Path):
        return read(run)
    for path in _paths():
        if path.stem == run:
            return read(path)
    raise ValueError(f"There is no run {run!r}: lab.runs() lists the stored ones.")


def unfinished(matches: Callable[[SavedRun], bool]) -> SavedRun | None:
    """The newest run that ended with its kernel, if it `matches`."""
    for path in sorted(directory().glob("*.jsonl"), reverse=True):
        with contextlib.suppress(OSError, ValueError), _orphaned(path) as is_orphan:
            if is_orphan and matches(run := read(path)):
                return run
    return None


@contextlib.contextmanager
def _orphaned(path: Path) -> Iterator[bool]:
    """Whether no process is still writing this journal."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        yield lock.acquire(timeout_s=0)
    finally:
        lock.release()


def forget(run: SavedRun) -> None:
    """Remove the journal of a run that was continued."""
    for suffix in (".jsonl", ".lock"):
        with contextlib.suppress(OSError):
            run.path.with_suffix(suffix).unlink()


def prune() -> None:
    """Remove the oldest runs beyond `MAX_RUNS` and `MAX_BYTES`."""
    total = 0
    for number, path in enumerate(sorted(directory().glob("*.parquet"), reverse=True)):
        with contextlib.suppress(OSError):  # another kernel removed it
            total += path.stat().st_size
            if number and (number >= MAX_RUNS or total > MAX_BYTES):
                path.unlink()
    for path in sorted(directory().glob("*.jsonl"), reverse=True)[MAX_RUNS:]:
        with contextlib.suppress(OSError), _orphaned(path) as is_orphan:
            if is_orphan:
                path.unlink()


def _paths() -> list[Path]:
    folder = directory()
    return [*folder.glob("*.parquet"), *folder.glob("*.jsonl")]


def table(runs: Iterator[SavedRun]) -> pd.DataFrame:
    """A row per run: when, with what, and how it went."""
    import pandas as pd

    rows = [_summary(run) for run in runs]
    frame = pd.DataFrame(rows, columns=list(_FIRST_COLUMNS))
    frame["started_at"] = pd.to_datetime(frame["started_at"], utc=True).astype("datetime64[us, UTC]")
    texts = dict.fromkeys(("run", "agent", "variants", "path"), "str")
    return frame.astype({**texts, "inputs": "int64", "answered": "int64", "failed": "int64", "passed": "Int64"})


def _summary(run: SavedRun) -> dict[str, Any]:
    checks = [check.get("metric", check.get("name")) for check in run.facts["checks"]]
    passed = [answer.passed(checks) for answer in run.answers]
    return {
        "run": run.id,
        "started_at": run.started_at,
        "agent": run.facts.get("agent_name") or run.facts["agent"],
        "variants": ", ".join(variant["name"] for variant in run.facts["variants"]),
        "inputs": len({answer.input for answer in run.answers}),
        "answered": sum(answer.status == "answered" for answer in run.answers),
        "failed": sum(answer.status == "failed" for answer in run.answers),
        "passed": passed.count(True) if checks else None,
        "path": str(run.path),
    }


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
            notes.append(f"This run is not stored: {error}. Set {PATH_VARIABLE} to a folder that can be written.")
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

        run = await asyncio.to_thread(unfinished, matches)
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
        forget(run)

    def _look_for_regressions(self, run: SavedRun) -> None:
        self.regressions = None
        cells = {(answer.variant, answer.input) for answer in run.answers}
        for earlier in itertools.islice(saved(), MAX_LOOKED_AT):
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
        return table(saved())

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
        newest = [run.id for run in itertools.islice(saved(), 2)] if None in (run_a, run_b) else []
        if len(newest) < 2 and None in (run_a, run_b):
            raise ValueError("There are not two runs to compare yet: lab.runs() lists the stored ones.")
        later = newest[0] if run_b is None else run_b
        earlier = newest[1] if run_a is None else run_a
        return compare_runs(_experiment(earlier), _experiment(later))


_WHERE = ("agent", "workspace", "base_url")


def _experiment(run: Any) -> Experiment:
    return run if isinstance(run, Experiment) else find(_reference(run)).experiment


def open_run(run: Any) -> SavedRun:
    """The run with an id or a path."""
    return find(_reference(run))


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


# In this order: what got worse comes first.
CHANGES = ("broken", "fixed", "unknown", "added", "removed", "unchanged")
_CHANGE_COLUMNS = {
    "variant": "str",
    "input": "str",
    "change": "category",
    "passed_before": "float64",
    "passed_after": "float64",
    "checks": "str",
    "edited": "bool",
    "reply_before": "str",
    "reply_after": "str",
}


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
        passed_before  float64   share of the repeats that passed
        passed_after   float64
        checks         str       the checks whose share of passes changed
        edited         bool      whether the variant's settings have changed
        reply_before   str       of the first repeat
        reply_after    str
        =============  ========  ====================================================
    """
    import pandas as pd

    checks = [name for name in before.checks if name in after.checks]
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
    frame = pd.DataFrame(rows, columns=list(_CHANGE_COLUMNS))
    frame["change"] = pd.Categorical(frame["change"], categories=list(CHANGES))
    dtype: Any
    for name, dtype in _CHANGE_COLUMNS.items():
        if dtype != "category":
            frame[name] = to_strings(frame[name]) if dtype == "str" else frame[name].astype(dtype)
    return frame


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
    passes = [_passes(answer, checks) for answer in answers]
    known = [float(passed) for passed in passes if passed is not None]
    return fmean(known) if known and len(known) == len(passes) else None


def _passes(answer: Answer, checks: Sequence[str]) -> bool | None:
    if answer.status != "answered":
        return False
    return answer.passed(checks) if checks else True
