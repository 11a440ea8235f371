"""The demo's agents without a language model: they continue their own conversations.

An agent such as `helpdesk` answers from the conversations that the demo's history has
(``topics/*.yaml``), with their tool runs, some of which fail. It says that the reply is
recorded. If no question of its conversations fits, it says which ones it can answer.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache

from ...engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ..manual import keywords
from ..rows import read_yaml
from ..texts import CHOICE, MONTHS, Exchange, Thread, fill, follow_ups, run_of, thread_values, threads, versions
from .scribe import Scribe
from .streaming import pause, readable, stream_reply

NOTICE = "*(A recorded reply of the demo: no language model is configured.)*"
# agent -> the workspaces whose conversations it has
_TOPICS: Mapping[str, Sequence[str]] = read_yaml("month.yaml")["conversations"]
_FITS = 0.5  # the least likeness of an answered question to the message
_MAX_EXAMPLES = 3
_MAX_CHARACTERS = 1_000  # of a text that may be one of the conversations'
_WORD = re.compile(r"\b[^\W\d_]+\b")
_SLOT = re.compile(r"\{\w+\}")
# Slots whose values are taken from what the session has asked.
_NUMBERS = {
    "order": re.compile(r"\bA-\d{5}\b"),
    "ticket": re.compile(r"\bT-\d{4}\b"),
    "serial": re.compile(r"\b[A-Z]\d{6}\b"),
}


class Recorded:
    """Answers with the exchange whose question is most like the message.

    An agent whose prompt was changed has no conversations by that prompt: it follows
    the prompt by rules.
    """

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """The tool runs of an exchange, then its reply."""
        turn = readable(turn)
        known = _conversations(turn.agent_name)
        if not known or turn.system_prompt not in {version.system_prompt for version in versions()[turn.agent_name]}:
            async for step in Scribe(stands_in=True).run(turn):
                yield step
            return
        found = await asyncio.to_thread(_find, turn, known)
        if found is None:
            async for step in stream_reply(turn, _unknown(turn, known)):
                yield step
            return
        exchange, values = found
        for number, tool in enumerate(exchange.tools):
            arguments, result = run_of(tool, values, exchange.tools[:number].count(tool))
            rate, reason = read_yaml("month.yaml")["failing_tools"].get(tool, (0.0, ""))
            # As in the demo's history, a tool that failed is run again.
            for error in (reason, None) if turn.rng.random() < rate else (None,):
                yield ToolStarted(tool, arguments or {})
                await pause(turn, turn.rng.uniform(0.2, 1.0))
                yield ToolDone(tool, result if error is None else None, error=error)
        async for step in stream_reply(turn, f"{fill(exchange.reply, values, turn.rng)}\n\n{NOTICE}"):
            yield step


@cache
def _conversations(agent: str) -> tuple[Thread, ...]:
    return tuple(thread for workspace in _TOPICS.get(agent, ()) for thread in threads(workspace))


def _find(turn: TurnRequest, known: Sequence[Thread]) -> tuple[Exchange, dict[str, str]] | None:
    """The exchange that fits best, with the values of its slots.

    Of equal ones, it is one of the current thread.
    """
    current = _current_thread(known, turn.history)
    candidates = [(each, current) for each in (*current.exchanges, *follow_ups())] if current else []
    candidates += [(each, thread) for thread in known for each in thread.exchanges]
    exchange, thread = max(candidates, key=lambda candidate: _likeness(turn.message, candidate[0]))
    if thread is None or _likeness(turn.message, exchange) < _FITS:
        return None
    rng = random.Random(turn.session_id + thread.name)  # noqa: S311 - the same values in the whole session
    values = thread_values(thread, rng)
    asked = "\n".join([*(message.text for message in turn.history if message.role == "user"), turn.message])
    values |= {slot: found[-1] for slot, number in _NUMBERS.items() if (found := number.findall(asked))}
    return exchange, values | {"gist": fill(thread.gist, values, rng)}


def _current_thread(known: Sequence[Thread], history: Sequence[Message]) -> Thread | None:
    """The thread of the newest question that is one of the recorded ones."""
    for message in reversed(history):
        for thread in known if message.role == "user" else ():
            if any(_likeness(message.text, exchange) >= _FITS for exchange in thread.exchanges):
                return thread
    return None


def _likeness(message: str, exchange: Exchange) -> float:
    """How like the message is to a question: 2 if made from it, else up to 1."""
    if len(message) > _MAX_CHARACTERS:
        return 0.0
    fixed, possible = _words_of(exchange.ask)
    if (said := _words(message)) and fixed <= said <= possible:
        return 2.0
    asked, recorded = ({word.removesuffix("s") for word in keywords(text)} for text in (message, exchange.ask))
    return len(asked & recorded) / len(asked) if asked else 0.0


@cache
def _words_of(template: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of every text made from a template, and those of any."""
    return _words(CHOICE.sub(" ", template)), _words(template)


def _words(text: str) -> frozenset[str]:
    """The words of a text, without slots and the values of slots."""
    return frozenset(_WORD.findall(_SLOT.sub(" ", text).lower())) - _slot_words()


@cache
def _slot_words() -> frozenset[str]:
    values = itertools.chain(MONTHS, *read_yaml("topics/slots.yaml").values())
    return frozenset(_WORD.findall(" ".join(values).lower()))


def _unknown(turn: TurnRequest, known: Sequence[Thread]) -> str:
    first = [thread.exchanges[0].ask for thread in turn.rng.sample(known, min(_MAX_EXAMPLES, len(known)))]
    examples = "\n".join(f"- {fill(ask, thread_values(known[0], turn.rng), turn.rng)}" for ask in first)
    return (
        "I have no recorded answer to this: no language model is configured, so I only know the demo's own conversations. "
        f"Ask me for example:\n\n{examples}"
    )
