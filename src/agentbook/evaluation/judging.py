"""Asks agents to judge, each time in a new session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ..api.embeddings import endpoint
from ..api.errors import AgentbookError, NotFound, RateLimited
from ..lookup import get_agent
from . import asking
from .answers import Answer
from .asserts import grade_check
from .check import Check
from .experiment import Experiment
from .grade import Grade, Reply, Services
from .judge import PROMPT, fingerprint
from .platform import Notify, committed, read_versions
from .run import CONCURRENCY, Budget, Pauses

if TYPE_CHECKING:
    from ..client import AsyncClient


T = TypeVar("T")


class JudgeFailed(ValueError):
    """The judge did not answer."""


class Judges:
    """Asks agents to judge, pauses with the rate limit, and knows their versions.

    Parameters
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
        Gets a sentence when the judges have to pause, and an empty one when they
        continue.
    budget : Budget, optional
        The cost of the judges' replies also counts towards it.
    """

    def __init__(
        self,
        client: AsyncClient,
        workspace: str | None,
        *,
        follow: asking.Follow | None = None,
        concurrency: int = CONCURRENCY,
        timeout_s: float = asking.TIMEOUT_S,
        notify: Notify = lambda text: None,
        budget: Budget | None = None,
    ) -> None:
        self._client, self._workspace, self._follow, self._timeout_s = client, workspace, follow, timeout_s
        self._slots = asyncio.Semaphore(concurrency)
        self._pauses = Pauses(notify)
        self._budget = budget or Budget(None, None)
        self._versions: dict[str, asyncio.Task[str | None]] = {}

    async def ask(self, agent: Any, message: str) -> str:
        """The agent's reply to a message, in a new session.

        Raises
        ------
        JudgeFailed
            If there is none; the message says why.
        AgentbookError
            If the message was refused.
        """
        async with self._slots:
            while True:
                await self._pauses.wait()
                if not await self._budget.reserve():
                    raise JudgeFailed(f"not judged: {self._budget.reason}")
                try:
                    return await self._ask(agent, message)
                except RateLimited as refusal:
                    if not self._pauses.pause(refusal):
                        raise

    async def _ask(self, agent: Any, message: str) -> str:
        outcome = asking.Outcome()
        try:
            outcome = await asking.ask(
                self._client,
                message,
                workspace=self._workspace,
                agent=await get_agent(self._client, agent),
                timeout_s=self._timeout_s,
                follow=self._follow,
            )
        except NotFound as error:
            raise JudgeFailed(f"The judge {agent} did not answer: {error}") from error
        finally:
            cost, answered = self._budget.cost(outcome.usage), outcome.status == "answered"
            self._budget.settle(cost, outcome.usage, answered=answered)
        if outcome.text is None:
            raise JudgeFailed(f"The judge {agent} did not answer: {outcome.reason}")
        return outcome.text

    async def describe(self, agent: str, prompt: str = PROMPT) -> str:
        """Who judges: the agent, the version it runs on, and the prompt's version."""
        if agent not in self._versions:
            self._versions[agent] = asyncio.create_task(self._read_version(agent))
        version = await self._versions[agent]
        return f"{agent}{f' {version}' if version else ''}, prompt {fingerprint(prompt)}"

    async def describe_all(self, check: Check) -> str:
        """Who judges by a check, as `describe` says it."""
        rubrics = [(each.agent, str(each.rubric_prompt or PROMPT)) for each in check.flat() if each.agent is not None]
        described = [await self.describe(agent, prompt) for agent, prompt in rubrics]
        return "; ".join(dict.fromkeys(described))

    async def _read_version(self, agent: str) -> str | None:
        try:
            versions = committed(await read_versions(self._client, agent))
        except AgentbookError:  # asking it will say what is wrong
            return None
        return versions[0].label if versions else None

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Also report until when the client itself waits."""
        return self._pauses.watching(self._client)


async def require_agents(client: AsyncClient, names: Iterable[str | None], hint: str) -> None:
    """Check that agents exist, before any of them is asked.

    Parameters
    ----------
    client : AsyncClient
    names : iterable of str or None
        None stands for a judge that nobody names.
    hint : str
        How to name one, for the error.

    Raises
    ------
    ValueError
        If a judge is not named.
    NotFound
        If this key can see no agent with one of the names.
    """
    names = set(names)
    if None in names:
        raise ValueError(f"A rubric names no judge, so nothing was sent: {hint}.")
    await asyncio.gather(*(get_agent(client, name) for name in names))


async def judge_missing(experiment: Experiment, judges: Judges) -> None:
    """Ask the judges of an experiment for the grades that its answers lack.

    A judge that does not answer leaves its cell undecided; the others continue.

    Parameters
    ----------
    experiment : Experiment
    judges : Judges
    """
    cells = list(unjudged(experiment))
    if not cells:
        return

    async def grade(answer: Answer, check: Check) -> None:
        answer.verdicts[str(check.name)] = await grader.grade(check, answer.as_reply())
        experiment.notify(answer)

    for answer, check in cells:  # what could not be judged before is open again
        answer.verdicts.pop(str(check.name), None)
    async with Grader(judges) as grader, asyncio.TaskGroup() as group:
        for answer, check in cells:
            group.create_task(grade(answer, check))


class Grader:
    """Grades on threads, which wait for what their checks ask the judges.

    Parameters
    ----------
    judges : Judges or None
    concurrency : int
        Maximum number of grades at the same time.
    known : mapping of str to str
        What judges said before, by `judgement_key`; it is not asked again.
    keep : callable
        Gets the key and the text of everything else that a judge says.
    """

    def __init__(
        self,
        judges: Judges | None,
        concurrency: int = CONCURRENCY,
        known: Mapping[str, str] = MappingProxyType({}),
        keep: Callable[[str, str], None] = lambda key, text: None,
    ) -> None:
        self._judges, self._loop = judges, asyncio.get_running_loop()
        self._known, self._keep = known, keep
        # Of its own, because its threads wait for judges.
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="agentbook-grade")
        self._asked: set[Future[str]] = set()
        self._services = Services(self.ask, endpoint())
        self._watching = nullcontext() if judges is None else judges.watching()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function, on a thread."""
        return await self._loop.run_in_executor(self._pool, function, *arguments)

    async def grade(self, check: Check, reply: Reply) -> Grade:
        """The grade of a reply by a check that asks a judge."""
        result = await self.run(grade_check, check, reply, self._services)
        if result.error is None and self._judges is not None:
            result = replace(result, judge=await self._judges.describe_all(check))
        return result

    def ask(self, message: str, agent: str | None) -> str:
        """A judge's reply; for a thread of the grader."""
        key = judgement_key(agent, message)
        if (known := self._known.get(key)) is not None:
            return known
        if self._judges is None or agent is None:
            raise JudgeFailed("There is no judge: name an agent with --judge, or in the check.")
        asked = asyncio.run_coroutine_threadsafe(self._judges.ask(agent, message), self._loop)
        self._asked.add(asked)
        try:
            text = asked.result()
        finally:
            self._asked.discard(asked)
        self._keep(key, text)
        return text

    async def __aenter__(self) -> Grader:
        await self._watching.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        # Not waited for: a thread may wait for a judge that this loop has to ask.
        self._pool.shutdown(wait=False, cancel_futures=True)
        for asked in list(self._asked):
            asked.cancel()
        await self._watching.__aexit__(*error)


def judgement_key(agent: str | None, message: str) -> str:
    """What a record calls the answer of a judge to a message."""
    return hashlib.sha256(f"{agent}\n{message}".encode()).hexdigest()[:24]


def unjudged(experiment: Experiment) -> Iterator[tuple[Answer, Check]]:
    """The replies that a judge has not judged yet, or could not judge."""
    for answer in experiment.answers:
        for name, check in experiment.checks.items():
            verdict = answer.verdicts.get(name)
            if not check.is_local and answer.reply is not None and (verdict is None or verdict.error):
                yield answer, check
