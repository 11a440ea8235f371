"""Asks agents to judge, each time in a new session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..api.errors import AgentbookError, NotFound, RateLimited
from ..lookup import get_agent
from . import asking
from .answers import Answer
from .checks import Check
from .cost import Ceiling
from .criteria import Rubric
from .experiment import Experiment
from .judge import PROMPT, fingerprint
from .platform import Notify, committed, read_versions
from .run import CONCURRENCY, TIMEOUT_S, Pauses
from .verdict import Subject, Verdict

if TYPE_CHECKING:
    from ..client import AsyncClient


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
    ceiling : Ceiling, optional
        The cost of the judges' replies also counts towards it.
    """

    def __init__(
        self,
        client: AsyncClient,
        workspace: str | None,
        *,
        follow: asking.Follow | None = None,
        concurrency: int = CONCURRENCY,
        timeout_s: float = TIMEOUT_S,
        notify: Notify = lambda text: None,
        ceiling: Ceiling | None = None,
    ) -> None:
        self._client, self._workspace, self._follow, self._timeout_s = client, workspace, follow, timeout_s
        self._slots = asyncio.Semaphore(concurrency)
        self._pauses = Pauses(notify)
        self._ceiling = ceiling or Ceiling(None, None)
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
            while await self._pauses.passed():
                if not await self._ceiling.admit():
                    raise JudgeFailed(f"not judged: {self._ceiling.reason}")
                try:
                    return await self._ask(agent, message)
                except RateLimited as refusal:
                    if not self._pauses.pause(refusal):
                        raise
        raise AssertionError("a pause always passes")

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
            cost, answered = self._ceiling.cost(outcome.usage), outcome.status == "answered"
            self._ceiling.charge(cost, outcome.usage, answered=answered)
        if outcome.text is None:
            raise JudgeFailed(f"The judge {agent} did not answer: {outcome.reason}")
        return outcome.text

    async def describe(self, agent: str, prompt: str = PROMPT) -> str:
        """Who judges: the agent, the version it runs on, and the prompt's version."""
        if agent not in self._versions:
            self._versions[agent] = asyncio.create_task(self._read_version(agent))
        version = await self._versions[agent]
        return f"{agent}{f' {version}' if version else ''}, prompt {fingerprint(prompt)}"

    async def _read_version(self, agent: str) -> str | None:
        try:
            versions = committed(await read_versions(self._client, agent))
        except AgentbookError:  # asking it will say what is wrong
            return None
        return versions[0].label if versions else None

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Also report until when the client itself waits."""
        return self._pauses.watching(self._client)


async def judge_missing(experiment: Experiment, judges: Judges) -> None:
    """Ask the judges of an experiment for the verdicts that its answers lack.

    A judge that does not answer leaves its cell without a verdict; the others continue.

    Parameters
    ----------
    experiment : Experiment
    judges : Judges
    """
    cells = list(unjudged(experiment))
    if not cells:
        return

    event_loop = asyncio.get_running_loop()
    # Of its own, because its threads wait for judges.
    pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="agentbook-judge")

    async def verdict_on(answer: Answer, check: Check) -> Verdict:
        rubric, subject = check.criterion, subject_of(answer)
        if isinstance(rubric, Rubric):
            verdict = rubric.read(await judges.ask(rubric.agent, rubric.message(subject)))
            return replace(verdict, judge=await judges.describe(rubric.agent, rubric.prompt))

        def ask(message: str) -> str:  # on a thread of the pool
            return asyncio.run_coroutine_threadsafe(judges.ask(rubric.agent, message), event_loop).result()

        verdict = await event_loop.run_in_executor(pool, rubric.judge, subject, ask)
        return replace(verdict, judge=await judges.describe(rubric.agent))

    async def judge(answer: Answer, check: Check) -> None:
        try:
            verdict = await verdict_on(answer, check)
        except Exception as error:  # whatever a template or a judge does affects only its own cell
            verdict = Verdict(None, error=str(error) or type(error).__name__)
        answer.verdicts[check.name] = verdict
        experiment.notify(answer)

    try:
        async with judges.watching(), asyncio.TaskGroup() as group:
            for answer, check in cells:
                group.create_task(judge(answer, check))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def unjudged(experiment: Experiment) -> Iterator[tuple[Answer, Check]]:
    """The replies that a judge has not judged yet, or could not judge."""
    for answer in experiment.answers:
        for name, check in experiment.checks.items():
            verdict = answer.verdicts.get(name)
            if not check.is_local and answer.reply is not None and (verdict is None or verdict.error):
                yield answer, check


def subject_of(answer: Answer) -> Subject:
    """What a judge may know about an answer."""
    question = answer.question
    return Subject(
        answer.reply or "", question, answer.latency_s, {"input": question, **answer.row}, answer.cost, answer.input
    )
