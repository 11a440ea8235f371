"""Replies, and their grades."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

READ = 60_000  # characters of a conversation that its judge reads


class Undecided(ValueError):
    """A check without an outcome, such as a judge whose answer says nothing."""


class Step(NamedTuple):
    """What an agent ran, such as a tool, and whether it failed.

    `arguments` are JSON text, and so is `result`, or its digest if it is long; None
    where they are not known.
    """

    name: str
    failed: bool = False
    arguments: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered, and what a check may know about it.

    Attributes
    ----------
    text : str
    latency_s : float or None
        Seconds from sending to the reply; None if not known.
    cost : float or None
        In the currency of the prices; None if not known.
    prompt : str
        The message it answers.
    values : mapping of str to object
        What templates and code may name: the columns of the input.
    input : str
        What the lab calls the input.
    steps : sequence of Step or None
        What the agent ran before it replied; None if not known.
    turns : sequence of Reply
        All of a conversation; a judge reads it, and other checks the last reply.
    session_id : str or None
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``; None if it is not known.
    before : sequence of Reply
        What came before in the session, which a judge reads too.
    failed : bool
        Whether the turn failed, so that the text says why there is no reply.
    """

    text: str
    latency_s: float | None = None
    cost: float | None = None
    prompt: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    input: str = ""
    steps: Sequence[Step] | None = None
    turns: Sequence[Reply] = ()
    session_id: str | None = None
    finish_reason: str | None = None
    before: Sequence[Reply] = ()
    failed: bool = False


def readable(turns: Sequence[Reply]) -> list[Reply]:
    """The turns that a judge reads: of a long conversation its ends and failures.

    Examples
    --------
    >>> turns = [Reply(f"{n} " * 20_000, prompt=f"{n}?") for n in range(3)]
    >>> [turn.prompt for turn in readable(turns)], readable(turns[:1]) == turns[:1]
    (['2?'], True)
    """
    sizes = [len(turn.prompt) + len(turn.text) for turn in turns]
    if sum(sizes) <= READ:
        return list(turns)
    from_ends = sorted(range(len(turns)), key=lambda n: min(2 * n + 1, 2 * (len(turns) - 1 - n)))
    chosen: set[int] = set()
    left = READ
    for n in sorted(from_ends, key=lambda n: not (turns[n].failed or n in from_ends[:2])):
        if sizes[n] <= left or not chosen:
            chosen.add(n)
            left -= sizes[n]
    return [replace(turns[n], prompt=turns[n].prompt[:READ], text=turns[n].text[-READ:]) for n in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class Services:
    """Services that some checks need in addition to the reply.

    Attributes
    ----------
    ask_judge : callable or None
        Takes a message and the agent that the check names, or None, and returns the
        judge's reply. Called on a worker thread.
    embed : callable or None
        Takes texts and returns their vectors; None for the endpoint in the environment.
    """

    ask_judge: Callable[[str, str | None], str] | None = None
    embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """The outcome of a check.

    Attributes
    ----------
    passed : bool or None
        None if it could not be decided; `error` says why. Without an error, the check
        is one of other inputs.
    score : float or None
        None if the check only passes or fails.
    reason : str or None
        Why it failed, or what was found; for a judge, the judge's reason.
    error : str or None
    judge : str or None
        Who judged: the agent, its version, and the version of the judge's prompt.
    """

    passed: bool | None
    score: float | None = None
    reason: str | None = None
    error: str | None = None
    judge: str | None = field(default=None, repr=False)
