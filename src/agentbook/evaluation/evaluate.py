"""Runs an evaluation file, from reading to reports, for the command and pytest."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import atomic_write
from ..api.calls import ref
from ..api.redaction import Redactor
from ..events import loop
from .configurator import Notify
from .files.read import read_config
from .files.source import ConfigError
from .junit import junit_xml
from .model import Permissions
from .plan import CONCURRENCY, TIMEOUT_S, Options
from .report import html_report
from .results import Results
from .run_file import Advance, FileRun, secrets_in_environment

if TYPE_CHECKING:
    from ..client import Client

REPORTS: dict[str, Callable[[Results], str]] = {
    "results.json": Results.as_json,
    "junit.xml": junit_xml,
    "report.html": html_report,
}


def evaluate(
    path: str | Path,
    connect: Callable[[], Client],
    *,
    agent: Any = None,
    judge: Any = None,
    workspace: Any = None,
    folder: Path | None = None,
    repeat: int | None = None,
    concurrency: int = CONCURRENCY,
    timeout_s: float = TIMEOUT_S,
    prices: Any = None,
    max_cost: float | None = None,
    env: str | Iterable[str] = (),
    allow_paths: str | Path | Iterable[str | Path] = (),
    progress: bool = False,
    follow: Any = None,
) -> tuple[Results, list[str]]:
    """Run an evaluation file; returns the results, and notes for the user.

    Parameters
    ----------
    path : str or Path
    connect : callable
        Returns a client. Not called if the file needs neither an agent nor a judge.
    agent, judge, workspace : str or Record, optional
        Replace those in the file.
    folder : Path, optional
        Where progress and reports are written; None writes nothing.
    repeat : int, optional
        Number of times to ask each case, instead of the file's.
    concurrency : int
        Number of questions that may be open at the same time.
    timeout_s : float
        Seconds to wait for one reply.
    prices : dict, DataFrame, str or path, optional
        As for `agentbook.with_cost`, for ``cost`` asserts and `max_cost`. Default: the
        file that ``AGENTBOOK_PRICES`` names.
    max_cost : float, optional
        The most that the agent's answers may cost; questions not asked have an error.
    env : str or iterable of str
        Variables of the environment that the file's templates may use.
    allow_paths : str, path, or iterable of these
        Folders besides the file's own whose files it may read.
    progress : bool
        Show a progress bar on stderr.

    Raises
    ------
    ConfigError
        If the file or the prices are wrong, or no agent or workspace can be determined.
    AgentbookError
        If the platform cannot be reached, or refuses before anything is sent.
    """
    config = read_config(path, Permissions.of(allow_paths, env))
    try:
        options = Options(concurrency=concurrency, timeout_s=timeout_s, prices=prices, max_cost=max_cost)
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from error
    if repeat is not None:
        config = dataclasses.replace(config, repeat=repeat)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    names = {"agent": agent and ref(agent), "judge": judge and ref(judge)}
    run = FileRun(config, folder=folder, **names)
    client, workspace_ref = None, workspace and ref(workspace)
    if run.needs_platform:
        client = connect()
        workspace_ref = workspace_ref or config.workspace or find_workspace(client)
    try:
        with progress_bars(run) if progress else contextlib.nullcontext(Progress()) as shown:
            work = run.execute(
                client.asynchronous() if client is not None else None,
                workspace_ref,
                options=options,
                follow=follow,
                advance=shown.advance,
                notify=shown.notify,
            )
            results = loop.run(work, operation="eval")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if folder is not None:
        write_reports(folder, results)
    return results, [*config.notes, *run.notes]


@contextlib.contextmanager
def closing_clients(connect: Callable[[], Client]) -> Iterator[Callable[[], Client]]:
    """`connect`, whose client is closed with its connections when the block ends."""
    clients: list[Client] = []

    def connect_once() -> Client:
        if not clients:
            clients.append(connect())
        return clients[0]

    try:
        yield connect_once
    finally:
        for client in clients:
            loop.run(client.asynchronous().aclose(), 60)
            client.close()


def find_workspace(client: Client) -> str:
    """The only workspace of this account.

    Raises
    ------
    ConfigError
        If there is none, or more than one.
    """
    records = list(client.me.workspaces(limit=20))
    names = [str(record.get("full_name") or record.get("name") or record["id"]) for record in records]
    if len(names) != 1:
        there = f"there are {', '.join(names)}" if names else "this account has none"
        raise ConfigError(f"No workspace was named, and {there}: name one with --workspace.")
    return names[0]


def default_folder(path: str | Path) -> Path:
    """Where the reports of a file go unless a folder is named: the data directory."""
    import platformdirs

    named = os.environ.get("AGENTBOOK_DATA")
    data = Path(named).expanduser() if named else Path(platformdirs.user_data_dir("agentbook"))
    target = Path(path).resolve()
    return data / "evaluations" / f"{target.stem}-{hashlib.sha256(str(target).encode()).hexdigest()[:8]}"


def write_reports(folder: Path, results: Results) -> None:
    """Write results.json, junit.xml and report.html, without any key."""
    redactor = Redactor(secrets_in_environment())
    for name, render in REPORTS.items():
        with atomic_write(folder / name) as file:
            file.write(redactor.data(render(results).encode("utf-8", "backslashreplace")))


@dataclass(frozen=True, slots=True)
class Progress:
    """Receives the progress of a run.

    Attributes
    ----------
    advance : callable
        Called with "answer" and "grade" as they arrive.
    notify : callable
        Gets a sentence when the run has to pause, and an empty one when it continues.
    """

    advance: Advance = lambda step: None
    notify: Notify = lambda text: None


@contextlib.contextmanager
def progress_bars(run: FileRun) -> Iterator[Progress]:
    """Bars on stderr over the questions that are missing, and the grades."""
    from tqdm.auto import tqdm

    missing = run.missing
    bars = {"grade": tqdm(total=run.cell_count, unit=" cells", desc="graded", position=1 if missing else 0)}
    if missing:
        bars["answer"] = tqdm(total=missing, unit=" replies", desc="answered", position=0)

    def advance(step: str) -> None:
        if step in bars:
            bars[step].update()

    def notify(text: str) -> None:
        if text:
            tqdm.write(text, file=sys.stderr)

    try:
        yield Progress(advance, notify)
    finally:
        for bar in bars.values():
            bar.close()
