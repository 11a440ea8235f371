"""Runs an evaluation file, from reading to reports, for the command and pytest."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .._files import atomic_write
from ..api.calls import ref
from ..api.redaction import Redactor
from ..events import loop
from ..frames.analysis.prices import PriceTable
from ..frames.analysis.turns import COUNTS
from . import asserts, similarity
from .answers import Answer, Key
from .asking import Follow
from .cost import cost_of
from .experiment import Experiment
from .files import cells
from .files.eval_file import variant_of
from .files.messages import UnsendablePrompt, read_message
from .files.read import read_config
from .files.source import ConfigError
from .grade import Grade, Reply, Services
from .inputs import Input
from .judging import Grader, Judges
from .junit import junit_xml
from .model import Config, Permissions
from .platform import Notify
from .report import html_report
from .results import Results, Row
from .run import CONCURRENCY, TIMEOUT_S, Options, Plan, Run
from .template import TemplateError
from .variant import Variant

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


PROGRESS = "progress.jsonl"
Advance = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FilePlan(Plan):
    """A plan in which each variant has its own questions."""

    verbatim: ClassVar[bool] = True  # the file's own templates are filled

    cells: Sequence[Sequence[Key]] = ()
    questions: Mapping[str, Sequence[Key]] = field(default_factory=dict)

    def keys_of(self, variant: Variant) -> list[Key]:
        """The questions to one variant."""
        return list(self.questions.get(variant.name, ()))

    @property
    def rounds(self) -> Sequence[Sequence[Key]]:
        """The questions of each case, one for each prompt."""
        return self.cells


@dataclass(frozen=True, slots=True)
class CellQuestion:
    """A cell with its question, or the reason why there is none."""

    cell: cells.Cell
    message: str = ""
    key: Key | None = None
    error: str | None = None


class FileRun:
    """The evaluation of one file.

    Parameters
    ----------
    config : Config
    agent : str or None
        Replaces the file's.
    judge : str or None
        Replaces the file's.
    folder : Path or None
        Where the progress is written, so that a run that was killed continues.

    Raises
    ------
    ConfigError
        If an agent is needed, and neither the file nor `agent` names one.
    """

    def __init__(
        self, config: Config, *, agent: str | None = None, judge: str | None = None, folder: Path | None = None
    ) -> None:
        self.config = config
        self.agent, self.judge = agent or config.agent, judge or config.judge
        self._only_judge = judge
        self.experiment = Experiment()
        self.notes: list[str] = []
        self._log = ProgressLog(folder) if folder is not None else None
        self._variants: dict[tuple[int, str | None], Variant] = {}
        self._entries = [self._prepare(cell) for cell in cells.expand(config)]
        if self.questions and self.agent is None:
            raise ConfigError("The file names no agent, so nothing can be sent: name one with --agent.")
        if self._log is not None:
            self._log.restore(self.experiment, self.digests)

    @property
    def questions(self) -> list[Key]:
        """The questions to the agent; cells that send the same text share one."""
        return list(dict.fromkeys(entry.key for entry in self._entries if entry.key is not None))

    @property
    def needs_platform(self) -> bool:
        """Whether an agent or a judge is needed."""
        return bool(self.questions) or self._has_judge

    @property
    def _has_judge(self) -> bool:
        checks = [check for entry in self._entries for each in entry.cell.case.asserts for check in each.flat()]
        return any(check.base == "llm-rubric" and (check.agent or self.judge) for check in checks)

    @property
    def missing(self) -> int:
        """The number of questions without an answer."""
        return len(self.plan().all_missing(self.experiment.answers_by_key))

    @property
    def cell_count(self) -> int:
        """The number of cells."""
        return len(self._entries)

    def plan(self, options: Options | None = None) -> FilePlan:
        """The plan of the run; failed questions of an earlier one are asked again."""
        questions: dict[str, list[Key]] = {}
        for key in self.questions:
            questions.setdefault(key[0], []).append(key)
        cases: dict[int, list[Key]] = {}
        for entry in self._entries:
            if entry.key is not None:
                cases.setdefault(entry.cell.number, []).append(entry.key)
        texts = list(dict.fromkeys(text for _, text, _ in self.questions))
        # Already filled in: remaining braces are text.
        self.experiment.input_set.use(Input(text, text) for text in texts)
        options = dataclasses.replace(options or Options(), retry_failed=True)
        return FilePlan(list(self.experiment.variants.values()), texts, options, list(cases.values()), questions)

    async def execute(
        self,
        client: AsyncClient | None,
        workspace: str | None,
        *,
        options: Options | None = None,
        follow: Follow | None = None,
        advance: Advance = lambda step: None,
        notify: Notify = lambda text: None,
    ) -> Results:
        """Ask what is missing, and grade all cells.

        Parameters
        ----------
        client : AsyncClient or None
            None if neither an agent nor a judge is needed.
        workspace : str or None
        options : Options, optional
            Of the run.
        follow : callable, optional
        advance : callable
            Called with "answer" and "grade" as they arrive.
        notify : callable
            Gets a sentence when the run has to pause, and an empty one when it
            continues.
        """
        plan = self.plan(options)
        if client is not None and plan.all_missing(self.experiment.answers_by_key):
            run = Run(client, workspace, self.agent, follow, self.experiment, plan, notify)
            with self._recording(advance):
                await run.execute()
            self.notes += run.notes
        judges = self._judges(client, workspace, plan.options, follow, notify)
        rows = await self._grade(judges, plan.options, advance)
        if self._log is not None and all(self._is_answered(entry) for entry in self._entries):
            self._log.close()
        return Results(rows, self.config.description, await self._facts(workspace, judges))

    def _judges(
        self, client: AsyncClient | None, workspace: str | None, options: Options, follow: Follow | None, notify: Notify
    ) -> Judges | None:
        if client is None or not self._has_judge:
            return None
        timeout_s = options.timeout_s
        return Judges(
            client, workspace, follow=follow, concurrency=options.concurrency, timeout_s=timeout_s, notify=notify
        )

    # Questions

    def _prepare(self, cell: cells.Cell) -> CellQuestion:
        try:
            message = cells.render(cell.prompt, cell.case, self.config.allowed.env)
            if cell.case.reply is not None:
                return CellQuestion(cell, message)
            sent = read_message(message)
        except (TemplateError, UnsendablePrompt) as error:
            return CellQuestion(cell, error=str(error))
        variant = self._variant(cell, sent.system_prompt)
        return CellQuestion(cell, message, (variant.name, sent.text, cell.repeat))

    def _variant(self, cell: cells.Cell, system_prompt: str | None) -> Variant:
        """The variant of a prompt; one for each text of its system message."""
        variant_key = (cell.prompt_number, system_prompt)
        if variant_key not in self._variants:
            variant = variant_of(cell.prompt, system_prompt)
            name, count = variant.name, 2
            while name in self.experiment.variants:
                name, count = f"{variant.name} [{count}]", count + 1
            self._variants[variant_key] = self.experiment.add_variant(dataclasses.replace(variant, name=name))
        return self._variants[variant_key]

    @property
    def digests(self) -> dict[str, str]:
        """What identifies each variant, by name: other answers are not restored."""
        return {
            name: hashlib.sha256(json.dumps([variant.as_data(), self.agent], sort_keys=True).encode()).hexdigest()[:16]
            for name, variant in self.experiment.variants.items()
        }

    @contextlib.contextmanager
    def _recording(self, advance: Advance) -> Iterator[None]:
        digests = self.digests

        def record(answer: Answer | None) -> None:
            if answer is None or answer.status not in ("answered", "failed"):
                return
            if self._log is not None:
                self._log.write({"digest": digests[answer.variant], "answer": answer.as_data()})
            advance("answer")

        end = self.experiment.listen(record)
        try:
            yield
        finally:
            end()

    def _is_answered(self, entry: CellQuestion) -> bool:
        answer = self._answer(entry)
        return entry.key is None or (answer is not None and answer.status in ("answered", "failed"))

    def _answer(self, entry: CellQuestion) -> Answer | None:
        return None if entry.key is None else self.experiment.answers_by_key.get(entry.key)

    # Grades

    async def _grade(self, judges: Judges | None, options: Options, advance: Advance) -> list[Row]:
        def ask_judge(message: str, agent: str | None) -> str:
            agent = self._only_judge or agent or self.judge
            key = hashlib.sha256(f"{agent}\n{message}".encode()).hexdigest()[:24]
            stored = self._log.judgements.get(key) if self._log is not None else None
            if stored is not None:
                return stored
            text = grader.ask(message, agent)
            if self._log is not None:
                self._log.write({"judgement": key, "text": text})
            return text

        ask = ask_judge if judges is not None else None
        services = Services(ask, similarity.endpoint(), self.config.folder, self.config.allowed)

        async def row(entry: CellQuestion) -> Row:
            made = await grader.run(self._row, entry, services, options.prices)
            advance("grade")
            return made

        with Grader(judges, options.concurrency) as grader:
            async with judges.watching() if judges is not None else contextlib.nullcontext():
                return list(await asyncio.gather(*map(row, self._entries)))

    def _row(self, entry: CellQuestion, services: Services, prices: PriceTable | None) -> Row:
        case, answer = entry.cell.case, self._answer(entry)
        if entry.error is not None:
            return Row(entry.cell, entry.message, None, Grade.undecided(entry.error))
        if case.reply is not None:
            text = case.reply if isinstance(case.reply, str) else json.dumps(case.reply, ensure_ascii=False)
            stored = Reply(text, 0.0, 0.0, entry.message)
            return Row(entry.cell, entry.message, text, asserts.grade(case, stored, services))
        if answer is None or answer.reply is None:
            reason = answer.reason if answer is not None else None
            return Row(entry.cell, entry.message, None, Grade.undecided(reason or "The question was not sent."))
        # Also for an answer that an earlier run got without prices.
        cost = None if prices is None else cost_of({name: getattr(answer, name) for name in ("model", *COUNTS)}, prices)
        grade = asserts.grade(case, Reply(answer.reply, answer.latency_s, cost, entry.message), services)
        known = answer.latency_s, answer.session_id, answer.version, cost, answer.finish_reason
        return Row(entry.cell, entry.message, answer.reply, grade, *known)

    async def _facts(self, workspace: str | None, judges: Judges | None) -> dict[str, str]:
        judged = await judges.describe(self.judge) if judges is not None and self.judge is not None else self.judge
        facts = {"agent": self.agent, "workspace": workspace, "judge": judged}
        return {name: value for name, value in facts.items() if value is not None}


class ProgressLog:
    """The answers and judgements of a run, a line each, until the run is complete."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / PROGRESS
        self._redactor = Redactor(secrets_in_environment())
        self.judgements: dict[str, str] = {}

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add a line; it is written to the file when this returns."""
        line = self._redactor.text(json.dumps(entry))
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def restore(self, experiment: Experiment, digests: Mapping[str, str]) -> None:
        """Read what an earlier run left; a truncated line is ignored."""
        with contextlib.suppress(FileNotFoundError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    if "judgement" in entry:
                        self.judgements[entry["judgement"]] = entry["text"]
                    elif digests.get(entry["answer"]["variant"]) == entry["digest"]:
                        experiment.record(Answer.from_data(entry["answer"]))

    def close(self) -> None:
        """Remove the file: the next run asks everything again."""
        self._path.unlink(missing_ok=True)


def secrets_in_environment() -> list[str]:
    """The keys in the environment; none of our files may show them."""
    import os

    names = ("AGENTBOOK_API_KEY", "OPENAI_API_KEY")
    keys = [os.environ[name] for name in names if os.environ.get(name)]
    return [*keys, *(key.partition(":")[2] for key in keys if ":" in key)]


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
    skip_unsupported: bool = False,
    filter_first: int | None = None,
    filter_failing: str | Path | None = None,
    filter_pattern: str | None = None,
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
    skip_unsupported : bool
        Leave out what promptfoo runs and agentbook does not; a note says what.
    filter_first, filter_failing, filter_pattern : optional
        Ask some of the cases only; see `agentbook.evaluation.files.cells.select`.
    progress : bool
        Show a progress bar on stderr.

    Raises
    ------
    ConfigError
        If the file or the prices are wrong, or no agent or workspace can be determined.
    AgentbookError
        If the platform cannot be reached, or refuses before anything is sent.
    """
    config = read_config(path, Permissions.of(allow_paths, env), skip_unsupported=skip_unsupported)
    if (filter_first, filter_failing, filter_pattern) != (None, None, None):
        config = cells.select(config, first=filter_first, failing=filter_failing, pattern=filter_pattern)
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
    return results, [*(f"left out: {each}" for each in config.skipped), *config.notes, *run.notes]


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
