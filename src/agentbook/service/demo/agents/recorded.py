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
from dataclasses import dataclass
from functools import cache

from ...engines.base import Message, Step, ToolDone, ToolStarted, TurnRequest
from ..manual import keywords
from ..rows import read_yaml
from ..texts import Exchange, Thread, fill, follow_ups, thread_values, threads, versions
from .bounds import readable
from .scribe import Scribe
from .streaming import pause, run_subtask, stream_reply

NOTICE = "*(A recorded reply of the demo: no language model is configured.)*"
# agent -> the workspaces whose conversations it has
_TOPICS: Mapping[str, tuple[str, ...]] = {
    "helpdesk": ("support",),
    "data-desk": ("data", "finance"),
    "release-notes": ("release",),
    "incident-helper": ("on-call",),
    "contract-reader": ("sales",),
    "onboarding-buddy": ("onboarding",),
    "shop-assistant": ("shop",),
    "diary": ("notes",),
}
_FITS = 0.5  # the least likeness of an answered question to the message
_MAX_EXAMPLES = 3
_MAX_CHARACTERS = 1_000  # of a text that may be one of the conversations'
_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
# Slots whose values are recognized in any message.
_NUMBERS = {"order": re.compile(r"\bA-\d{5}\b"), "ticket": re.compile(r"\bT-\d{4}\b")}


@dataclass(frozen=True, slots=True)
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
        for tool in exchange.tools:
            rate, reason = read_yaml("month.yaml")["failing_tools"].get(tool, (0.0, ""))
            if turn.rng.random() < rate:  # as in the demo's history; the tool is run again
                yield ToolStarted(tool)
                await pause(turn, turn.rng.uniform(0.5, 2.0))
                yield ToolDone(tool, error=reason)
            async for step in run_subtask(turn, tool, turn.rng.uniform(0.2, 1.0)):
                yield step
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
    for each in thread.exchanges:  # what the session said before
        for message in turn.history:
            values |= _values(each.ask if message.role == "user" else each.reply, message.text)
    values |= {slot: match[0] for slot, number in _NUMBERS.items() if (match := number.search(turn.message))}
    values |= _values(exchange.ask, turn.message)
    return exchange, values | {"gist": fill(thread.gist, values, rng)}


def _current_thread(known: Sequence[Thread], history: Sequence[Message]) -> Thread | None:
    """The thread of the newest question that is one of the recorded ones."""
    for message in reversed(history):
        for thread in known if message.role == "user" else ():
            if any(_likeness(message.text, exchange) >= _FITS for exchange in thread.exchanges):
                return thread
    return None


def _likeness(message: str, exchange: Exchange) -> float:
    """How like the message is to a question: 2 for itself, else up to 1."""
    if len(message) > _MAX_CHARACTERS:
        return 0.0
    if _pattern(exchange.ask).fullmatch(message.strip()):
        return 2.0
    asked, recorded = _words(message), _words(exchange.ask)
    return len(asked & recorded) / len(asked) if asked else 0.0


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in keywords(text)}


def _values(template: str, text: str) -> dict[str, str]:
    """The values of a template's slots in a text that was made from it."""
    text = text.strip().removesuffix(NOTICE).strip()
    match = _pattern(template).fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    found = match.groupdict() if match else {}
    return {name.rpartition("_")[0]: value for name, value in found.items() if value is not None}


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Matches a text made from a template; slots are short, as long ones take long."""
    count = itertools.count()

    def slots(text: str) -> str:
        parts = _SLOT.split(text)  # literal text and the names of slots take turns
        return "".join(
            re.escape(part) if n % 2 == 0 else f"(?P<{part}_{next(count)}>.{{1,60}}?)" for n, part in enumerate(parts)
        )

    parts = _CHOICE.split(template)
    return re.compile(
        "".join(
            slots(part) if n % 2 == 0 else f"(?:{'|'.join(map(slots, part.split('|')))})"
            for n, part in enumerate(parts)
        ),
        re.DOTALL,
    )


def _unknown(turn: TurnRequest, known: Sequence[Thread]) -> str:
    first = [thread.exchanges[0].ask for thread in turn.rng.sample(known, min(_MAX_EXAMPLES, len(known)))]
    examples = "\n".join(f"- {fill(ask, thread_values(known[0], turn.rng), turn.rng)}" for ask in first)
    return (
        "I have no recorded answer to this: no language model is configured, so I only know the demo's own conversations. "
        f"Ask me for example:\n\n{examples}"
    )
