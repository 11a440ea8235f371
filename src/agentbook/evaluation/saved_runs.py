"""This user's runs on disk: a Parquet file for each, and a journal while it runs.

A run's answers go to a journal as they arrive, one line each. When the run ends, the
journal becomes a Parquet file. If the kernel is killed, the journal stays, and the next
run of the same questions continues with what it holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .._files import FileLock, atomic_write
from .answers import Answer
from .experiment import Experiment

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
    checks = [check["name"] for check in run.facts["checks"]]
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
