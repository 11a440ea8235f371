"""Runs an evaluation file, from reading to reports, for the command and pytest."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import atomic_write, local_path
from .._masking import Redactor, redacted
from ..api.calls import ref
from ..events import loop
from ..frames.analysis.embeddings import endpoint
from ..frames.analysis.prices import PriceTable
from . import asserts, runs
from .asking import TIMEOUT_S, Follow
from .check import Check
from .experiment import Answer, Experiment, Key
from .files import cells
from .files.cells import Conversation, UnsendablePrompt, conversations, read_message, reply_text
from .files.read import read_config
from .files.source import ConfigError, Permissions
from .inputs import Input, numbered
from .judging import Grader, Judges, require_agents, require_embeddings
from .model import Config, Grade, Reply, Services
from .platform import Notify, find_workspace, require_workspace
from .results import Results, Row, html_report, junit_xml
from .run import CONCURRENCY, Budget, Options, Plan, Run, progress_bar
from .runs import Recorder, SavedRun, open_run, recorded, secrets_in_environment
from .template import TemplateError, protected
from .variant import Variant, variant_of

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


@dataclass(frozen=True, slots=True)
class CellQuestion:
    """A cell with its question, or the reason why there is none.

    A cell of a conversation has no message: it depends on the replies before.
    """

    cell: cells.Cell
    message: str = ""
    key: Key | None = None
    error: str | None = None
    conversation: Conversation | None = None


class FileRun:
    """The evaluation of one file.

    Parameters
    ----------
    config : Config
    agent : str or None
        Replaces the file's.
    judge : str or None
        Replaces the file's.
    path : Path or None
        Of the file. A record of the run is then kept in `runs.directory`, so that a run
        that was stopped on the same platform, in the same workspace and with the same
        agent, continues within a day.
    earlier : SavedRun or None
        A run whose replies are graded again; nothing is asked.

    Raises
    ------
    ConfigError
        If an agent is needed, and neither the file nor `agent` names one.
    """

    def __init__(
        self,
        config: Config,
        *,
        agent: str | None = None,
        judge: str | None = None,
        path: Path | None = None,
        earlier: SavedRun | None = None,
    ) -> None:
        self.config = config
        self.agent, self.judge = agent or config.agent, judge or config.judge
        self._only_judge = judge
        self.experiment = Experiment()
        self.notes: list[str] = []
        self._path, self._grades_again = path, earlier is not None
        self._variants: dict[tuple[int, str | None], Variant] = {}
        expanded = cells.expand(config)
        self._conversations = {each.name: each for each in conversations(expanded, config.allowed.env)}
        of_cell = {id(cell): each for each in self._conversations.values() for cell in each.cells}
        self.entries = [self._prepare(cell, of_cell.get(id(cell))) for cell in expanded]
        if self.questions and self.agent is None and not self._grades_again:
            raise ConfigError("The file names no agent, so nothing can be sent: name one with --agent.")
        self._earlier = earlier
        for answer in earlier.useful(self.plan()) if earlier is not None else ():
            self.experiment.record(answer)

    @property
    def questions(self) -> list[Key]:
        """The questions to the agent; cells that send the same text share one."""
        return list(dict.fromkeys(entry.key for entry in self.entries if entry.key is not None))

    @property
    def agents(self) -> set[str | None]:
        """The agents that are needed, to answer or to judge."""
        asked = {key[0] for key in self.questions} if not self._grades_again else set()
        variants = (self.experiment.variants[name] for name in asked)
        return self.judges | {variant.agent or self.agent for variant in variants}

    @property
    def judges(self) -> set[str | None]:
        """The agents that judge; None stands for one that nobody names."""
        rubrics = [check for check in self.checks if check.base == "llm-rubric"]
        return {self._only_judge or check.agent or self.judge for check in rubrics}

    @functools.cached_property
    def checks(self) -> list[Check]:
        """The checks of all cells, and those within them."""
        return [check for entry in self.entries for each in entry.cell.case.asserts for check in each.flat()]

    def plan(self, options: Options | None = None) -> Plan:
        """The plan of the run; failed questions of an earlier one are asked again."""
        rounds: dict[int, list[Key]] = {}
        for entry in self.entries:
            if entry.key is not None:
                rounds.setdefault(entry.cell.number, []).append(entry.key)
        # Already filled in: remaining braces are text.
        self.experiment.input_set.use(Input(text, text) for _, text, _ in self.questions)
        options = dataclasses.replace(options or Options(), retry_failed=True)
        scripts = {name: each.script for name, each in self._conversations.items()}
        judged = Counter(
            entry.key
            for entry in self.entries
            for check in entry.cell.case.asserts
            for each in check.flat()
            if each.base == "llm-rubric"
        )
        most = max((count for key, count in judged.items() if key is not None), default=0)
        return Plan(list(self.experiment.variants.values()), list(rounds.values()), options, scripts, most)

    async def execute(
        self,
        client: AsyncClient | None,
        workspace: str | None,
        *,
        options: Options | None = None,
        follow: Follow | None = None,
        advance: Callable[[], object] = lambda: None,
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
            Called after each grade.
        notify : callable
            Gets a sentence when the run has to pause, and an empty one when it
            continues.
        """
        plan = self.plan(options)
        facts = {
            "file": str(self._path),
            "agent": self.agent,
            "workspace": workspace,
            "base_url": getattr(client, "base_url", None),
        }
        record: contextlib.AbstractContextManager[Recorder | None] = contextlib.nullcontext()
        if self._path is not None and not self._grades_again:
            self._earlier = await asyncio.to_thread(runs.unfinished, facts)
            if self._earlier is not None:
                runs.resume(self.experiment, plan, self._earlier, self.notes)
            record = recorded(self.experiment, facts, self._earlier, self.experiment.answers, self.notes)

        with record as recorder:
            budget = Budget(plan.options.max_cost, plan.options.prices)
            if client is not None and not self._grades_again and plan.missing(self.experiment.answers_by_key):
                run = Run(client, workspace, self.agent, follow, self.experiment, plan, notify)
                await run.execute()
                self.notes += run.notes
                budget = run.budget
            judges = None
            if client is not None and self.judges:
                judges = Judges(
                    client,
                    workspace,
                    follow=follow,
                    concurrency=plan.options.concurrency,
                    timeout_s=plan.options.timeout_s,
                    notify=notify,
                    budget=budget,
                )
            rows = await self._grade(judges, plan.options, advance, recorder)
            if recorder is not None and all(map(self._is_answered, self.entries)):
                recorder.end()
        source = self._earlier if self._grades_again else recorder
        judged = await judges.describe(self.judge) if judges is not None and self.judge is not None else self.judge
        known = {
            "agent": self.agent,
            "workspace": workspace,
            "judge": judged,
            "run": None if source is None else source.path.stem,
        }
        return Results(rows, self.config.description, {name: each for name, each in known.items() if each is not None})

    # Questions

    def _prepare(self, cell: cells.Cell, conversation: Conversation | None) -> CellQuestion:
        try:
            if conversation is not None:
                variant = self._variant(conversation.cells[0], conversation.system_prompt())
                return CellQuestion(cell, key=(variant.name, conversation.name, cell.repeat), conversation=conversation)
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
            # The file's own templates are filled: braces that are left are text.
            texts: dict[str, Any] = {
                name: protected(text)
                for name in ("system_prompt", "description")
                if (text := getattr(variant, name)) is not None
            }
            name = next(each for each in numbered(variant.name, "{} [{}]") if each not in self.experiment.variants)
            self._variants[variant_key] = self.experiment.add_variant(dataclasses.replace(variant, name=name, **texts))
        return self._variants[variant_key]

    def _is_answered(self, entry: CellQuestion) -> bool:
        answer = self._answer(entry)
        return entry.key is None or (answer is not None and answer.status in ("answered", "failed"))

    def _answer(self, entry: CellQuestion) -> Answer | None:
        return None if entry.key is None else self.experiment.answers_by_key.get(entry.key)

    # Grades

    async def _grade(
        self, judges: Judges | None, options: Options, advance: Callable[[], object], recorder: Recorder | None
    ) -> list[Row]:
        def keep(key: str, text: str) -> None:
            if recorder is not None:
                recorder.write(judgement=key, text=text)

        def ask_judge(message: str, agent: str | None) -> str:
            return grader.ask(message, self._only_judge or agent or self.judge)

        ask = ask_judge if judges is not None else None
        embed = endpoint() if any(check.base == "similar" for check in self.checks) else None
        services = Services(ask, embed, self.config.folder, self.config.allowed)

        async def row(entry: CellQuestion) -> Row:
            made = await grader.run(self._row, entry, services, options.prices)
            if recorder is not None:
                recorder.write(
                    grade={name: value for name, value in made.as_data().items() if name not in ("prompt", "response")}
                )
            advance()
            return made

        known = self._earlier.judgements if self._earlier is not None else {}
        async with Grader(judges, options.concurrency, known, keep) as grader:
            return list(await asyncio.gather(*map(row, self.entries)))

    def _row(self, entry: CellQuestion, services: Services, prices: PriceTable | None) -> Row:
        case, answer = entry.cell.case, self._answer(entry)
        if entry.error is not None:
            return Row(entry.cell, entry.message, None, Grade.undecided(entry.error))
        if entry.conversation is not None:
            return self._turn_row(entry, entry.conversation, answer, services)
        if case.reply is not None:
            return stored_row(entry.cell, entry.message, services)
        if answer is None or answer.reply is None:
            reason = answer.reason if answer is not None else None
            unasked = "The question was not sent."
            if self._grades_again:
                unasked = "The run does not have this question: run the file without --grade to ask it."
            return Row(entry.cell, entry.message, None, Grade.undecided(reason or unasked))
        # Also for an answer that an earlier run got without prices.
        cost = None if prices is None else answer.cost_by(prices)
        reply = dataclasses.replace(answer.as_reply(), prompt=entry.message, cost=cost)
        return graded_row(entry.cell, entry.message, reply, services, answer.version)

    def _turn_row(
        self, entry: CellQuestion, conversation: Conversation, answer: Answer | None, services: Services
    ) -> Row:
        """The row of one turn of a conversation."""
        cell, message = entry.cell, ""
        reason = answer.reason if answer is not None and answer.reason else "The question was not sent."
        try:
            for each, message, turn in conversation.turns(answer.turns if answer is not None else ()):
                if each is not cell:
                    continue
                if each.case.reply is not None:
                    return stored_row(cell, message, services)
                if turn is None or answer is None:
                    break
                return graded_row(cell, message, dataclasses.replace(turn, prompt=message), services, answer.version)
        except (TemplateError, UnsendablePrompt) as error:
            reason = str(error)
        return Row(cell, message, None, Grade.undecided(reason))


def stored_row(cell: cells.Cell, message: str, services: Services) -> Row:
    """The row of a cell with a stored reply."""
    if cell.case.turn is not None:
        return graded_row(cell, message, cell.case.turn, services)
    text = reply_text(cell.case)
    return Row(cell, message, text, asserts.grade(cell.case, Reply(text, 0.0, 0.0, message), services))


def graded_row(cell: cells.Cell, message: str, reply: Reply, services: Services, version: str | None = None) -> Row:
    """The row of a cell with this reply, which `version` of the agent gave."""
    grade = asserts.grade(cell.case, reply, services)
    known = reply.latency_s, reply.session_id, version, reply.cost, reply.finish_reason
    return Row(cell, message, reply.text, grade, *known)


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
    grade: Any = None,
    env: str | Iterable[str] = (),
    allow_paths: str | Path | Iterable[str | Path] = (),
    allow_javascript: bool = False,
    skip_unsupported: bool = False,
    filter_first: int | None = None,
    filter_failing: str | Path | None = None,
    filter_pattern: str | None = None,
    turns: Any = None,
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
        Where the reports are written. None writes nothing, a record of the run neither.
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
        The most that the agents' answers and the judges may cost; questions not asked
        have an error.
    grade : str or Path, optional
        A run, by its id, its file or the folder of its reports: its replies are graded
        again, and no agent is asked.
    env : str or iterable of str
        Variables of the environment that the file's templates may use.
    allow_paths : str, path, or iterable of these
        Folders besides the file's own whose files it may read.
    allow_javascript : bool
        Run ``javascript`` asserts by Node.
    skip_unsupported : bool
        Leave out what promptfoo runs and agentbook does not; a note says what.
    filter_first, filter_failing, filter_pattern : optional
        Ask some of the cases only: the first ones, those that did not pass in an
        earlier run (its id, its record, or its reports), or those whose description
        matches a pattern of JavaScript.
    turns : str, path, or table, optional
        Past turns with their texts, events or a history, or the path of their file:
        they are judged, and no agent is asked. The asserts of all cases apply to each
        turn, and those of a case to the turns with its question.
    progress : bool
        Show a progress bar on stderr.

    Raises
    ------
    ConfigError
        If the file or the prices are wrong, or no agent or workspace can be determined.
    AgentbookError
        If the platform cannot be reached, or refuses before anything is sent.
    """
    config = read_config(path, Permissions.of(allow_paths, env, allow_javascript), skip_unsupported=skip_unsupported)
    if (filter_first, filter_failing, filter_pattern) != (None, None, None):
        failing = None if filter_failing is None else rows_of(filter_failing)
        config = cells.select(config, first=filter_first, failing=failing, pattern=filter_pattern)
    turn_notes: list[str] = []
    if turns is not None:
        from .score import with_turns

        config, turn_notes = with_turns(config, turns)
    try:
        options = Options(concurrency=concurrency, timeout_s=timeout_s, prices=prices, max_cost=max_cost)
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from error
    if repeat is not None:
        config = dataclasses.replace(config, repeat=repeat)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    names = {"agent": agent and ref(agent), "judge": judge and ref(judge)}
    record = Path(path).resolve() if folder is not None else None
    try:
        run = FileRun(config, path=record, earlier=None if grade is None else open_run(grade), **names)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    client, workspace_ref = None, workspace and ref(workspace)
    if run.agents:
        client = connect()
        try:
            asked = require_agents(client.asynchronous(), run.agents, "name one with --judge")
            loop.run(asked, operation="eval")
            loop.run(require_embeddings(run.checks), operation="eval")
        except ValueError as error:
            raise ConfigError(str(error)) from error
        workspace_ref = workspace_ref or config.workspace
        if workspace_ref is None:
            workspace_ref = find_workspace(client, run.agent)
        else:
            loop.run(require_workspace(client.asynchronous(), workspace_ref), operation="eval")
    bars = progress_bars(run) if progress else contextlib.nullcontext(dict[str, Any]())
    try:
        with bars as shown:
            work = run.execute(
                client.asynchronous() if client is not None else None,
                workspace_ref,
                options=options,
                follow=follow,
                **shown,
            )
            results = loop.run(work, operation="eval")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if folder is not None:
        write_reports(folder, results)
    return results, [*(f"left out: {each}" for each in config.skipped), *config.notes, *turn_notes, *run.notes]


def rows_of(run: str | Path) -> Sequence[Mapping[str, Any]]:
    """The rows of results of an earlier run: its id, its record, or its reports.

    Raises
    ------
    ConfigError
        If it cannot be read.
    """
    path = Path(run)
    path = path / "results.json" if path.is_dir() else path
    try:
        rows: Sequence[Mapping[str, Any]] = (
            open_run(run).grades
            if path.suffix != ".json"
            else json.loads(path.read_text(encoding="utf-8"))["results"]["results"]
        )
        return [row for row in rows if {"vars", "success"} <= row.keys()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: the results of an earlier run cannot be read ({type(error).__name__}: {error}). Name its id, its record, "
            "the folder of its reports, or its results.json."
        ) from None


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
    redactor = Redactor(secrets_in_environment())
    reports = {
        "results.json": json.dumps(redacted(results.as_data(), redactor), ensure_ascii=False, indent=1),
        "junit.xml": redactor.text(junit_xml(results)),
        "report.html": redactor.text(html_report(results)),
    }
    for name, text in reports.items():
        with atomic_write(folder / name) as file:
            file.write(text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def progress_bars(run: FileRun) -> Iterator[dict[str, Any]]:
    """Bars on stderr over missing questions and grades: arguments of `execute`."""
    from tqdm.auto import tqdm

    def notify(text: str) -> None:
        if text:
            tqdm.write(text, file=sys.stderr)

    with (
        progress_bar(run.plan(), run.experiment, "answered"),
        tqdm(total=len(run.entries), unit=" cells", desc="graded") as graded,
    ):
        yield {"advance": graded.update, "notify": notify}
