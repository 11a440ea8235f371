"""Asks agents to judge, each time in a new session."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ..api.discovery import offers_fields
from ..api.endpoints.agents import CONFIGURE_LLM
from ..api.errors import AgentbookError, NotFound
from ..client import get_agent
from ..frames.analysis.embeddings import endpoint
from . import asking
from .asking import CONCURRENCY, Budget, reported_pauses
from .asserts import grade_check
from .check import OWN, Check
from .experiment import Answer, Experiment, pending
from .judge import PROMPT, fingerprint
from .model import Grade, Reply, Services
from .platform import AgentConfigurator, Notify, offers_drafts
from .variant import Variant

if TYPE_CHECKING:
    from ..client import AsyncClient

T = TypeVar("T")
MAX_TOKENS = 2000  # of a judge: for one JSON object, and what a model thinks before it


@dataclass
class Judges:
    """Asks agents to judge, and knows their versions.

    Attributes
    ----------
    client : AsyncClient
    workspace : str or None
        Where the sessions are started.
    follow : callable, optional
        As for `asking.ask`.
    concurrency : int
        Maximum number of questions to judges at the same time.
    timeout_s : float
        Seconds to wait for one reply.
    notify : callable, optional
        Gets a sentence when the client waits for its rate limit, and an empty one when
        it continues.
    budget : Budget, optional
        The cost of the judges' replies also counts towards it.
    """

    client: AsyncClient
    workspace: str | None
    follow: asking.Follow | None = None
    concurrency: int = CONCURRENCY
    timeout_s: float = asking.TIMEOUT_S
    notify: Notify = lambda text: None
    budget: Budget = field(default_factory=lambda: Budget(None, None))

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)
        self._tasks: dict[tuple[str, Any], asyncio.Task[Any]] = {}

    async def _once(self, read: Callable[[Any], Coroutine[Any, Any, T]], agent: Any) -> T:
        key = read.__name__, agent
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(read(agent))
        known: T = await self._tasks[key]
        return known

    async def ask(self, agent: Any, message: str) -> str:
        """The agent's reply to a message, in a new session.

        Raises
        ------
        ValueError
            If there is none; the message says why.
        AgentbookError
            If the message was refused.
        """
        async with self._slots:
            if not await self.budget.reserve(judges=True):
                raise ValueError(f"not judged: {self.budget.reason}")
            outcome = asking.Outcome()
            try:
                outcome = await asking.ask(
                    self.client,
                    message,
                    workspace=self.workspace,
                    agent=await get_agent(self.client, agent),
                    version_id=await self._once(self._limit, agent),
                    timeout_s=self.timeout_s,
                    follow=self.follow,
                )
            except NotFound as error:
                raise ValueError(f"The judge {agent} did not answer: {error}") from error
            finally:
                cost, answered = self.budget.cost(outcome.usage), outcome.status == "answered"
                self.budget.settle(cost, outcome.usage, answered=answered, judges=True)
        if outcome.text is None:
            raise ValueError(f"The judge {agent} did not answer: {outcome.reason}")
        return outcome.text

    async def _open(self, agent: Any) -> AgentConfigurator | None:
        try:
            return await AgentConfigurator.open(self.client, agent)
        except AgentbookError:  # asking it will say what is wrong
            return None

    async def _limit(self, agent: Any) -> str | None:
        """The draft on which a judge without a limit of tokens answers; None for none.

        Such a judge may write until it times out.
        """
        try:
            offered = offers_fields(await self.client.openapi(), "POST", CONFIGURE_LLM, ["max_tokens"])
            configurator = await self._once(self._open, agent) if offered else None
            current = None if configurator is None else configurator.current
            if configurator is None or current is None or not await offers_drafts(self.client):
                return None
            if not current.system_prompt or current.settings.get("max_tokens"):
                return None
            return (await configurator.draft(Variant("judge", max_tokens=MAX_TOKENS))).id
        except (AgentbookError, ValueError):  # this key may ask it, and not configure it
            return None

    async def describe(self, check: Check) -> str:
        """Who judges: each agent, the version it runs on, and the prompt's version."""
        described = []
        for each in check.rubrics:
            configurator = await self._once(self._open, each.agent)
            version = f" {configurator.current.label}" if configurator and configurator.current else ""
            described.append(f"{each.agent}{version}, prompt {fingerprint(each.rubric_prompt or PROMPT)}")
        return "; ".join(dict.fromkeys(described))


async def require_agents(client: AsyncClient, names: Iterable[str | None]) -> None:
    """Check that agents exist, before any of them is asked.

    Parameters
    ----------
    client : AsyncClient
    names : iterable of str or None
        None stands for a judge that nobody names.

    Raises
    ------
    ValueError
        If a judge is not named.
    NotFound
        If this key can see no agent with one of the names.
    """
    names = set(names)
    if None in names:
        raise ValueError("A rubric names no judge, so nothing was sent: pass agent= or set lab.judge.agent.")
    await asyncio.gather(*(get_agent(client, name) for name in names))


async def judge_missing(experiment: Experiment, judges: Judges) -> None:
    """Ask the judges of an experiment for the grades that its answers lack.

    A judge that does not answer leaves its cell undecided; the others continue.

    Parameters
    ----------
    experiment : Experiment
    judges : Judges
    """

    def keep(answer: Answer, name: str, grade: Grade) -> None:
        answer.verdicts[name] = grade
        experiment.notify(answer)

    cells = []
    for answer, (name, check) in itertools.product(experiment.answers, experiment.all_checks.items()):
        if answer.reply is not None and check.judges and pending(answer.verdicts.get(name)):
            answer.verdicts.pop(name, None)  # what could not be judged before is open again
            cells.append((check, answer.as_reply(), functools.partial(keep, answer, name)))
    if cells:
        await grade_all(judges, cells)


async def grade_all(
    judges: Judges,
    cells: Iterable[tuple[Check, Reply, Callable[[Grade], object]]],
    known: Mapping[str, str] = MappingProxyType({}),
    keep: Callable[[str, str], object] = lambda key, text: None,
) -> None:
    """Grade replies on threads, which wait for what their checks ask the judges.

    Parameters
    ----------
    judges : Judges
    cells : iterable of (Check, Reply, callable)
        Each callable gets its grade.
    known : mapping of str to str
        What judges said before, by a key; it is not asked again.
    keep : callable
        Gets the key and the text of everything else that a judge says.
    """
    loop, asked = asyncio.get_running_loop(), list[Future[str]]()

    def ask(message: str, agent: str | None) -> str:
        key = hashlib.sha256(f"{agent}\n{message}".encode()).hexdigest()[:24]
        if key in known:
            return known[key]
        asked.append(asyncio.run_coroutine_threadsafe(judges.ask(agent, message), loop))
        text = asked[-1].result()
        keep(key, text)
        return text

    async def grade(check: Check, reply: Reply, store: Callable[[Grade], object]) -> None:
        made = await loop.run_in_executor(pool, grade_check, check, reply, services)
        rubrics = check.value.get(reply.input) if check.base == OWN else check
        if rubrics is not None and rubrics.judges and made.error is None:
            made = replace(made, judge=await judges.describe(rubrics))
        store(made)

    services = Services(ask, endpoint())
    # Of its own, because its threads wait for judges.
    pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="agentbook-grade")
    try:
        async with reported_pauses(judges.client, judges.notify), asyncio.TaskGroup() as group:
            for cell in cells:
                group.create_task(grade(*cell))
    finally:
        # Not waited for: a thread may wait for a judge that this loop has to ask.
        pool.shutdown(wait=False, cancel_futures=True)
        for each in asked:
            each.cancel()
