"""Conversations as inputs: several messages in one session, written out or simulated.

A script says what comes next, after the replies so far: the next message of a list
(`scripted`), or what an agent writes in the role of a user (`simulated`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._text import check_text
from .model import Reply

if TYPE_CHECKING:
    from .asking import Outcome

STOP = "###STOP###"  # promptfoo's word of a simulated user that is done
MAX_TURNS = 10
_PROMPT = """You play a user who writes to an agent. Stay in this role; write one message at a time, and nothing else.

{instructions}

Write {stop} and nothing else once you have got what you came for, or want to give up.

Write your first message."""


Script = Callable[[Sequence[Reply]], Awaitable[str | None]]
Ask = Callable[..., Awaitable["Outcome"]]


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """An agent of the platform that writes what a user would.

    Attributes
    ----------
    agent : str
        Its id or name. It gets each reply as a message, in a session of its own.
    instructions : str
        Who the user is, and what they want.
    max_turns : int
        Number of messages after which the conversation ends.
    stop : str
        What it writes if the user is done; the conversation ends then.
    """

    agent: str
    instructions: str
    max_turns: int = MAX_TURNS
    stop: str = STOP

    def first_message(self) -> str:
        """What the agent is told before it writes."""
        return _PROMPT.format(instructions=self.instructions, stop=self.stop)


class CannotContinue(ValueError):
    """There is no next message, though the conversation has not ended."""


def scripted(messages: Sequence[str]) -> Script:
    """The script of a list of messages, all in one session."""

    async def next_message(turns: Sequence[Reply]) -> str | None:
        return messages[len(turns)] if len(turns) < len(messages) else None

    return next_message


def simulated(user: SimulatedUser, ask: Ask) -> Script:
    """The script of a simulated user; `ask` asks its agent.

    Raises
    ------
    CannotContinue
        From the script, if the agent does not answer.
    """
    session_id: str | None = None

    async def next_message(turns: Sequence[Reply]) -> str | None:
        nonlocal session_id
        if len(turns) >= user.max_turns:
            return None
        message = turns[-1].text if turns else user.first_message()
        outcome = await ask(message, agent=user.agent, session_id=session_id, turn=len(turns))
        session_id = outcome.session_id
        if outcome.text is None:
            raise CannotContinue(f"The simulated user {user.agent} did not answer: {outcome.reason}")
        text = outcome.text.partition(user.stop)[0] if user.stop else outcome.text
        return text.strip() or None

    return next_message


def read_messages(item: Iterable[Any]) -> list[str]:
    """The messages of a conversation that is an input.

    Raises
    ------
    TypeError
        If one is no text.
    ValueError
        If there is none.
    """
    messages = [check_text(each, "A message of a conversation").strip() for each in item]
    if not messages or not all(messages):
        raise ValueError("A conversation has no message, or an empty one: pass a list of texts for each conversation.")
    return messages
