"""Conversations of evaluation files: cases whose prompts see the replies before.

As in promptfoo, a prompt that uses ``_conversation`` gets the cases before it with the
same ``metadata.conversationId`` (or all, if none has one), with their messages and
replies. Here, a repeat is a conversation of its own.

If the prompt is a chat whose history is just what was said so far, its last message is
sent in the same session. Text that contains the history is sent in a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import template
from ..conversations import CannotContinue, Say, Script
from ..grade import Exchange
from ..javascript import parse_json
from ..model import Case
from . import cells
from .cells import Cell, UnsendablePrompt, read_message
from .source import HISTORY


def conversations(expanded: Iterable[Cell], env: Iterable[str] = ()) -> list[Conversation]:
    """The conversations of a file; cells of prompts without a history are in none."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in expanded:
        if template.uses(cell.prompt.text, HISTORY):
            key = cell.prompt_number, cell.repeat, json.dumps(cell.case.metadata.get("conversationId"), default=str)
            groups.setdefault(key, []).append(cell)
    return [Conversation(tuple(group), tuple(env)) for group in groups.values()]


@dataclass(frozen=True)
class Conversation:
    """The cells of one conversation, in order.

    Attributes
    ----------
    cells : tuple of Cell
    env : tuple of str
        Variables of the environment that the prompt may use.
    """

    cells: tuple[Cell, ...]
    env: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name that changes with anything that is said."""
        first = self.cells[0]
        said = [[cell.case.vars, cell.case.reply, cell.case.options] for cell in self.cells]
        text = json.dumps([first.prompt_number, first.repeat, first.prompt.text, said], default=str)
        identifier = first.case.metadata.get("conversationId", "all cases")
        return f"conversation {identifier} ({hashlib.sha256(text.encode()).hexdigest()[:16]})"

    def system_prompt(self) -> str | None:
        """The system message of the first turn.

        Raises
        ------
        TemplateError, UnsendablePrompt
        """
        _, message, _ = next(self.turns(()))
        return read_message(message, has_history=True).system_prompt

    def turns(self, asked: Iterable[Exchange]) -> Iterator[tuple[Cell, str, Exchange | None]]:
        """Each cell with its rendered prompt and its turn; the last one may have none.

        Raises
        ------
        TemplateError, UnsendablePrompt
        """
        history: list[dict[str, Any]] = []
        turns = iter(asked)
        for cell in self.cells:
            seen = {} if cell.case.options.get("disableConversationVar") else {HISTORY: list(history)}
            message = cells.render(cell.prompt, cell.case, self.env, seen)
            turn = None if cell.case.reply is not None else next(turns, None)
            yield cell, message, turn
            if turn is None and cell.case.reply is None:
                return
            sent = _parsed(message) or message
            last = sent[-1] if isinstance(sent, list) and sent else None
            said = (last.get("content") or last) if isinstance(last, dict) else last or sent
            output = reply_text(cell.case) if turn is None else turn.reply
            history.append({"prompt": sent, "input": said, "output": output})

    def script(self, key: Any = None) -> Script:
        """What is sent: the messages of the cells without a stored reply."""

        async def next_message(asked: Sequence[Exchange]) -> Say | None:
            try:
                open_cells = [
                    message for cell, message, turn in self.turns(asked) if turn is None and cell.case.reply is None
                ]
                return self._say(open_cells[0], asked) if open_cells else None
            except (template.TemplateError, UnsendablePrompt) as error:
                raise CannotContinue(str(error)) from error

        return next_message

    def _say(self, message: str, asked: Sequence[Exchange]) -> Say:
        chat = read_message(message, has_history=True)
        session_id = asked[-1].session_id if asked else None
        said = [text.strip() for turn in asked if turn.session_id == session_id for text in (turn.message, turn.reply)]
        if chat.system_prompt != self.system_prompt():
            raise UnsendablePrompt("The system message changes within the conversation; an agent keeps its own.")
        if not chat.earlier:
            return Say(chat.text, begins=True)
        if [text.strip() for text in chat.earlier] != said:
            raise UnsendablePrompt(
                "The chat does not repeat the messages of its session, so it cannot be sent there: repeat all of "
                f"{HISTORY}, `input` and `output`, one after the other."
            )
        return Say(chat.text)


def _parsed(message: str) -> Any:
    try:
        return parse_json(message)
    except ValueError:
        return None


def reply_text(case: Case) -> str:
    """The stored reply of a case, as text."""
    return case.reply if isinstance(case.reply, str) else json.dumps(case.reply, ensure_ascii=False)
