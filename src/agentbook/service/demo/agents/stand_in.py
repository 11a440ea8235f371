"""The stand-in: answers for an LLM agent where no endpoint is configured, and says in every reply that it is one.

It writes no prose of its own. It reads the system prompt and the message, and shows what of the prompt would bear on the
message: the role, the rules that share words with it, the form it asks for. So a prompt can be tried out, compared and tested
without a key, and nobody takes the result for a model's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...engines.base import Step, TurnRequest
from ...engines.streaming import say, work
from .tokenize import stem, subjects

NOTICE = (
    "*I am a rule-based stand-in: no language model is configured for this agent. "
    "Set `OPENAI_BASE_URL` and `OPENAI_API_KEY`, and restart the service, to have a model answer.*"
)

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_ORDER = re.compile(
    r"\b(always|never|must|only|do not|don't|avoid|keep|use|answer|reply|write|ask|refuse|start|end|list|include|cite|say|give|"
    r"name|show|quote|be)\b",
    re.IGNORECASE,
)
_FORMS = [
    (re.compile(r"\bjson\b", re.IGNORECASE), "as JSON"),
    (re.compile(r"\btable\b", re.IGNORECASE), "as a table"),
    (re.compile(r"\bbullet|\blists?\b", re.IGNORECASE), "as a list"),
    (re.compile(r"\bone sentence\b|\bsingle sentence\b", re.IGNORECASE), "in one sentence"),
    (re.compile(r"\bshort|\bbrief|\bconcise", re.IGNORECASE), "briefly"),
    (re.compile(r"\bpolite|\bfriendly|\bkind", re.IGNORECASE), "in a friendly tone"),
]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the stand-in made of a prompt and a message."""

    role: str | None
    rules: tuple[str, ...]  # that bear on the message; else the first ones
    matched: tuple[str, ...]  # words that rules and message share
    form: tuple[str, ...]


def read(system_prompt: str | None, message: str) -> Reading:
    """Hold a message against a system prompt.

    Examples
    --------
    >>> read("You are a shop clerk. Never promise refunds. Be brief.", "Can I get refunds?").rules
    ('Never promise refunds.',)
    """
    sentences = [found.strip(" -*#\t") for found in _SENTENCE.findall(system_prompt or "")]
    sentences = [sentence for sentence in sentences if len(sentence) > 3]
    role = next((line for line in sentences if line.lower().startswith(("you are", "you're", "act as"))), None)
    orders = [line for line in sentences if line != role and _ORDER.search(line)]
    named = subjects(message)
    near = sorted(orders, key=lambda line: -len(_stems(line) & _stems(message)))
    near = [line for line in near if _stems(line) & _stems(message)][:3]
    shared = set().union(*(_stems(line) for line in near)) if near else set()
    return Reading(
        role=role,
        rules=tuple(near or orders[:2]),
        matched=tuple(word for word in named if stem(word) in shared),
        form=tuple(name for pattern, name in _FORMS if pattern.search(system_prompt or "")),
    )


def _stems(text: str) -> set[str]:
    return {stem(word) for word in subjects(text)}


def compose(turn: TurnRequest, reading: Reading) -> str:
    """The reply: the notice, what was asked, what the prompt says about it."""
    lines = [NOTICE, ""]
    asked = " ".join(turn.message.split())
    shown = asked if len(asked) <= 240 else asked[:239] + "…"
    lines.append(
        f"You asked **{turn.agent_name}**: “{shown}”" if asked else f"You sent **{turn.agent_name}** an empty message."
    )
    if turn.system_prompt is None:
        lines += ["", "This agent has no system prompt yet; configure one and I will hold messages against it."]
        return "\n".join(lines)
    lines.append("")
    lines.append(
        f"A model would answer as told: {reading.role}"
        if reading.role
        else "The system prompt names no role (“You are …”)."
    )
    if reading.rules:
        if reading.matched:
            lines += ["", f"Rules of the prompt that bear on this (shared words: {', '.join(reading.matched)}):", ""]
        else:
            lines += ["", "No rule of the prompt shares a word with the message. Its first ones are:", ""]
        lines += [f"- {rule}" for rule in reading.rules]
    else:
        lines += ["", "The prompt gives no rules (sentences with always, never, use, answer …)."]
    if reading.form:
        lines += ["", f"It asks for answers {', '.join(reading.form)}."]
    remembered = sum(message.role == "user" for message in turn.history)
    if turn.mode == "multi-turn" and remembered:
        plural = "s" if remembered > 1 else ""
        lines += [
            "",
            f"Mode multi-turn: the model would also see {remembered} earlier message{plural} of this session.",
        ]
    names = [str(tool.get("integration")) for tool in turn.tools if tool.get("integration")] + list(turn.platform_tools)
    if names:
        lines += ["", f"Tools it could call: {', '.join(f'`{name}`' for name in names)}."]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class StandIn:
    """Runs LLM agents without an LLM."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Read the prompt (a subtask), then say what of it bears on the message."""
        async for step in work(
            turn, "read_prompt", turn.rng.uniform(0.05, 0.2), characters=len(turn.system_prompt or "")
        ):
            yield step
        async for step in say(turn, compose(turn, read(turn.system_prompt, turn.message))):
            yield step
