"""The stand-in: answers for an LLM agent if no endpoint is configured.

Every reply says that it is a stand-in. It writes no prose of its own: it shows which
parts of the system prompt apply to the message, that is the role, the rules that share
words with it, and the form it asks for. So a prompt can be tried out, compared and
tested without a key, and nobody takes the result for a model's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...engines.base import Step, TurnRequest
from ...engines.streaming import run_subtask, stream_reply
from .tokenize import keyword_stems, keywords, stem

NOTICE = (
    "*I am a rule-based stand-in: no language model is configured for this agent. "
    "Set `OPENAI_BASE_URL` and `OPENAI_API_KEY`, and restart the service, to have a model answer.*"
)

_MAX_QUESTION = 240
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
    """Which parts of a system prompt apply to a message.

    Attributes
    ----------
    role : str or None
    rules : tuple of str
        The rules that share words with the message; if there are none, the first two.
    shared_words : tuple of str
        The words that rules and message share.
    forms : tuple of str
        The forms of answer that the prompt asks for.
    """

    role: str | None
    rules: tuple[str, ...]
    shared_words: tuple[str, ...]
    forms: tuple[str, ...]


def match_prompt(system_prompt: str | None, message: str) -> PromptMatch:
    """Match a message against a system prompt.

    Examples
    --------
    >>> prompt = "You are a shop clerk. Never promise refunds. Be brief."
    >>> match_prompt(prompt, "Can I get refunds?").rules
    ('Never promise refunds.',)
    """
    sentences = [sentence.strip(" -*#\t") for sentence in _SENTENCE.findall(system_prompt or "")]
    sentences = [sentence for sentence in sentences if len(sentence) > 3]
    role = next((line for line in sentences if line.lower().startswith(("you are", "you're", "act as"))), None)
    rules = [line for line in sentences if line != role and _RULE.search(line)]
    message_stems = keyword_stems(message)
    matching = sorted(rules, key=lambda line: -len(keyword_stems(line) & message_stems))
    matching = [line for line in matching if keyword_stems(line) & message_stems][:3]
    rule_stems = set().union(*map(keyword_stems, matching))
    return PromptMatch(
        role=role,
        rules=tuple(matching or rules[:2]),
        shared_words=tuple(word for word in keywords(message) if stem(word) in rule_stems),
        forms=tuple(form for pattern, form in _FORMS if pattern.search(system_prompt or "")),
    )


def compose(turn: TurnRequest, match: PromptMatch) -> str:
    """The reply: the notice, the question, and what the prompt says about it."""
    lines = [NOTICE, ""]
    question = " ".join(turn.message.split())
    if len(question) > _MAX_QUESTION:
        question = question[: _MAX_QUESTION - 1] + "…"
    lines.append(
        f"You asked **{turn.agent_name}**: “{question}”"
        if question
        else f"You sent **{turn.agent_name}** an empty message."
    )
    if turn.system_prompt is None:
        lines += ["", "This agent has no system prompt yet; configure one and I will hold messages against it."]
        return "\n".join(lines)
    lines.append("")
    lines.append(
        f"A model would answer as told: {match.role}"
        if match.role
        else "The system prompt names no role (“You are …”)."
    )
    if match.rules:
        if match.shared_words:
            lines += ["", f"Rules of the prompt that bear on this (shared words: {', '.join(match.shared_words)}):", ""]
        else:
            lines += ["", "No rule of the prompt shares a word with the message. Its first ones are:", ""]
        lines += [f"- {rule}" for rule in match.rules]
    else:
        lines += ["", "The prompt gives no rules (sentences with always, never, use, answer …)."]
    if match.forms:
        lines += ["", f"It asks for answers {', '.join(match.forms)}."]
    earlier = sum(message.role == "user" for message in turn.history)
    if turn.mode == "multi-turn" and earlier:
        plural = "s" if earlier > 1 else ""
        lines += [
            "",
            f"Mode multi-turn: the model would also see {earlier} earlier message{plural} of this session.",
        ]
    names = [str(tool.get("integration")) for tool in turn.tools if tool.get("integration")] + list(turn.platform_tools)
    if names:
        lines += ["", f"Tools it could call: {', '.join(f'`{name}`' for name in names)}."]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class StandIn:
    """Runs the turns of LLM agents without an LLM."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Read the prompt as a subtask, then reply with what applies to the message."""
        async for step in run_subtask(
            turn, "read_prompt", turn.rng.uniform(0.05, 0.2), characters=len(turn.system_prompt or "")
        ):
            yield step
        async for step in stream_reply(turn, compose(turn, match_prompt(turn.system_prompt, turn.message))):
            yield step
