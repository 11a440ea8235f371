"""The texts of the demo, read from the YAML files next to this module.

``topics/*.yaml`` hold what people and agents talk about: one file per workspace,
written as threads. A thread is a conversation that makes sense from beginning to end.
Its texts have variable parts: ``{order}`` is a slot, filled once per thread so that the
whole conversation is about one order, and ``[a|b]`` is a choice of wording.
``steps.yaml`` says what each tool runs with and returns, and ``prompts.yaml`` holds the
versions of the agents that have a system prompt.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from .rows import read_yaml

CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
MONTHS = ("July", "August", "September", "October")
_SAME_TOPICS = {"shop": "support"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer; `tools` are the subtasks that run in between."""

    ask: str
    reply: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation.

    Attributes
    ----------
    name : str
        The name of its session.
    gist : str
        Its result, in one sentence.
    exchanges : tuple of Exchange
        The questions and answers, in order.
    """

    name: str
    gist: str
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent's configuration, made `days` ago."""

    number: str
    type: str
    days: int
    summary: str | None = None
    system_prompt: str | None = None
    mode: str = "multi-turn"
    tools: Sequence[Mapping[str, Any]] = ()
    published: bool = True
    validation: str = "PASSED"


@cache
def threads(workspace: str, kind: str = "chats") -> tuple[Thread, ...]:
    """The threads of a workspace.

    `kind` is ``chats`` or, in the one workspace that has them, ``alerts``, ``builds``,
    ``digests`` or ``trials``.
    """
    entries = read_yaml(f"topics/{_SAME_TOPICS.get(workspace, workspace)}.yaml")[kind]
    return msgspec.convert(entries, tuple[Thread, ...])


@cache
def follow_ups() -> tuple[Exchange, ...]:
    """Exchanges that fit any thread; the slot ``{gist}`` is the thread's result."""
    return msgspec.convert(read_yaml("topics/follow-ups.yaml")["exchanges"], tuple[Exchange, ...])


@cache
def versions() -> Mapping[str, tuple[Version, ...]]:
    """The versions of each agent that has a system prompt."""
    return msgspec.convert(read_yaml("prompts.yaml"), dict[str, tuple[Version, ...]])


def draw_slots(rng: random.Random) -> dict[str, str]:
    """A value for every slot."""
    values = {name: rng.choice(pool) for name, pool in read_yaml("topics/slots.yaml").items()}
    percent = rng.randint(3, 41)
    return values | {
        "order": f"A-{rng.randint(10000, 99999)}",
        "ticket": f"T-{rng.randint(2000, 9999)}",
        "serial": f"{rng.choice('MSQFL')}{rng.randint(100000, 999999)}",
        "amount": f"€{rng.randint(40, 4800):,}.{rng.choice(('00', '50', '90'))}",
        "count": str(rng.randint(12, 960)),
        "small": str(rng.randint(2, 9)),
        "minutes": str(rng.choice((5, 8, 12, 15, 20, 25, 40))),
        "percent": str(percent),
        "other_percent": str(max(1, percent - rng.randint(1, 12))),
        "version": f"{rng.randint(2, 5)}.{rng.randint(0, 14)}.{rng.randint(0, 6)}",
        "ms": str(rng.randint(180, 4200)),
        "month": rng.choice(MONTHS),
        "quarter": rng.choice(("Q2", "Q3", "Q4")),
    }


def thread_values(thread: Thread, rng: random.Random) -> dict[str, str]:
    """A value for every slot of a thread, including ``{gist}``."""
    values = draw_slots(rng)
    values["gist"] = fill(thread.gist, values, rng)
    return values


def fill(text: str, values: Mapping[str, str], rng: random.Random) -> str:
    """`text` with its choices made and its slots filled.

    Examples
    --------
    >>> fill("[Where|Where] is {order}?", {"order": "A-1"}, random.Random(0))
    'Where is A-1?'
    """
    return CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text).format_map(values)


def run_of(tool: str, values: Mapping[str, str], number: int) -> Iterator[dict[str, Any] | None]:
    """The arguments and the result of a tool's run; None where they are not known.

    `number` counts the tool's runs in the turn, from 0: each makes another choice.

    Examples
    --------
    >>> list(run_of("verify", {}, 2))
    [{'against': 'the log'}, {'agrees': True}]
    """

    def filled(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = CHOICE.sub(lambda match: (parts := match[1].split("|"))[number % len(parts)], value).format_map(values)
        return int(text) if text.isdecimal() else text

    for part in read_yaml("steps.yaml").get(tool, (None, None)):
        yield None if part is None else {name: filled(value) for name, value in part.items()}
