"""The stand-in: answers for an LLM agent if no endpoint is configured.

Every reply says that it is a stand-in. It writes no prose of its own, and does not
quote the system prompt. The prompt's owner sees how much of the prompt applies to the
message: how many rules share words with it, and the form that the prompt asks for. So a
prompt can be tried out, compared and tested without a key, and no one mistakes the
result for a model's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...engines.base import Step, TurnRequest
from ...engines.streaming import run_subtask, stream_reply
from .bounds import compute, readable
from .tokenize import keyword_stems

NOTICE = (
    "*I am a rule-based stand-in: no language model is configured for this agent. "
    "Set `OPENAI_BASE_URL`, and `OPENAI_API_KEY` if the endpoint needs a key, and restart the service, "
    "to have a model answer.*"
)

_MAX_QUESTION = 240
_MAX_LISTED = 20
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_RULE = re.compile(
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
class PromptMatch:
    """How a system prompt applies to a message.

    Attributes
    ----------
    has_role : bool
        Whether a sentence says who the agent is.
    rules : int
        How many sentences are rules.
    matching : tuple of int
        Which of the rules share words with the message, counted from 1.
    forms : tuple of str
        The forms of answer that the prompt asks for.
    """

    has_role: bool
    rules: int
    matching: tuple[int, ...]
    forms: tuple[str, ...]


def match_prompt(system_prompt: str, message: str) -> PromptMatch:
    """Match a message against a system prompt.

    Examples
    --------
    >>> prompt = "You are a shop clerk. Be polite. Never promise refunds."
    >>> match_prompt(prompt, "Can I get refunds?")
    PromptMatch(has_role=True, rules=2, matching=(2,), forms=('in a friendly tone',))
    """
    sentences = [sentence.strip(" -*#\t") for sentence in _SENTENCE.findall(system_prompt)]
    sentences = [sentence for sentence in sentences if len(sentence) > 3]
    role = next((line for line in sentences if line.lower().startswith(("you are", "you're", "act as"))), None)
    rules = [line for line in sentences if line != role and _RULE.search(line)]
    message_stems = keyword_stems(message)
    return PromptMatch(
        has_role=role is not None,
        rules=len(rules),
        matching=tuple(n for n, line in enumerate(rules, 1) if keyword_stems(line) & message_stems),
        forms=tuple(form for pattern, form in _FORMS if pattern.search(system_prompt)),
    )


def compose(turn: TurnRequest) -> str:
    """The reply: the notice, the question, and how the prompt applies to it."""
    paragraphs = [NOTICE]
    question = " ".join(turn.message[: 10 * _MAX_QUESTION].split())
    if len(question) > _MAX_QUESTION:
        question = question[: _MAX_QUESTION - 1] + "…"
    paragraphs.append(
        f"You asked **{turn.agent_name}**: “{question}”"
        if question
        else f"You sent **{turn.agent_name}** an empty message."
    )
    if turn.system_prompt is None:
        paragraphs.append("This agent has no system prompt yet; configure one and I will hold messages against it.")
        return "\n\n".join(paragraphs)
    if not turn.prompt_is_visible:
        paragraphs.append("Its system prompt belongs to another account, so I say nothing about it.")
    else:
        paragraphs += _describe(match_prompt(turn.system_prompt, turn.message))
    earlier = sum(message.role == "user" for message in turn.history)
    if turn.mode == "multi-turn" and earlier:
        plural = "s" if earlier > 1 else ""
        paragraphs.append(
            f"Mode multi-turn: the model would also see {earlier} earlier message{plural} of this session."
        )
    names = [str(tool.get("integration")) for tool in turn.tools if tool.get("integration")] + list(turn.platform_tools)
    if names:
        paragraphs.append(f"Tools it could call: {', '.join(f'`{name}`' for name in names)}.")
    return "\n\n".join(paragraphs)


def _describe(match: PromptMatch) -> list[str]:
    """Describe the prompt in numbers only: its words stay with its owner."""
    role = "names a role" if match.has_role else "names no role (“You are …”)"
    if not match.rules:
        texts = [f"The system prompt {role} and gives no rules (sentences with always, never, use, answer …)."]
    else:
        texts = [f"The system prompt {role} and gives {match.rules} rule{'s' if match.rules > 1 else ''}."]
        numbers = ", ".join(str(number) for number in match.matching[:_MAX_LISTED])
        if len(match.matching) > _MAX_LISTED:
            numbers += " …"
        texts[0] += (
            f" {len(match.matching)} of them share words with the message: {numbers}."
            if match.matching
            else " None of them shares a word with the message."
        )
    if match.forms:
        texts.append(f"It asks for answers {', '.join(match.forms)}.")
    return texts


@dataclass(frozen=True, slots=True)
class StandIn:
    """Runs the turns of LLM agents without an LLM."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Read the prompt as a subtask, then reply with what applies to the message."""
        turn = readable(turn)
        async for step in run_subtask(turn, "read_prompt", turn.rng.uniform(0.05, 0.2)):
            yield step
        async for step in stream_reply(turn, await compute(compose, turn)):
            yield step
