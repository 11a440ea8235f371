# ruff: noqa: E501 - a rule is one line: what it mends, and its sentence
"""Proposals of better prompts for `scribe`, without a language model.

It knows the rules that `scribe` follows, not the checks of a lab: from the reasons in a
request it guesses which rule is asked for, and adds its sentence to the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable

OF_A_PROPOSAL = "You improve the system prompts of AI agents."
_PROMPT = re.compile(r"^# The prompt\n\n(`{3,})\n(?P<prompt>.*?)\n\1$", re.MULTILINE | re.DOTALL)
_TRIED = re.compile(r"^# Prompts that were tried .*?\n\n(?P<tried>.*?)(?=^# Reply |\Z)", re.MULTILINE | re.DOTALL)
_REASONS = re.compile(r"^Not passed:\n((?:- .*\n?)+)", re.MULTILINE)
_QUOTED = re.compile(r"[\"“'‘`]([^\"“”'‘’`\n]{1,60})[\"”'’`]")
_NUMBER = re.compile(r"(?:<=|<|at most|up to|no more than|under|below|more than)\s*(\d{1,3})\b(?! ?%)")


def _limit(unit: str, otherwise: str) -> Callable[[str], str]:
    def sentence(reason: str) -> str:
        found = _NUMBER.search(reason)
        return f"Answer in at most {found[1]} {unit}." if found and int(found[1]) else otherwise

    return sentence


def _quoting(form: str, otherwise: str = "") -> Callable[[str], str]:
    def sentence(reason: str) -> str:
        found = _QUOTED.findall(reason)
        return form.format(found[-1]) if found else otherwise

    return sentence


_LIMIT = re.compile(r"Answer in (?:at most )?\w+ (?:sentences?|words)\.(?:\s|$)|Answer in detail\.(?:\s|$)")


def _keys(reason: str) -> str:
    """The keys that a JSON schema in a reason requires."""
    found = re.search(r'"required": *\[([^\]]*)\]', reason)
    keys = re.findall(r'"(\w+)"', found[1]) if found else []
    quoted = [f'"{key}"' for key in keys or ("answer", "source")]
    return (
        f"Answer as JSON with the keys {', '.join(quoted[:-1])} and {quoted[-1]}."
        if quoted[1:]
        else f"Answer as JSON with the key {quoted[0]}."
    )


def _about(reason: str) -> str:
    found = re.search(r"(?:about|mention|say|name)s? ((?:the |an? )?\w+)", reason)
    return f"Never mention {found[1]}." if found else ""


# What a reason speaks of, and the sentences that may mend it, the likeliest first.
_RULES: tuple[tuple[str, tuple[str | Callable[[str], str], ...]], ...] = (
    (r"\bjson|schema|\bkeys?\b", (_keys,)),
    (r"\btable|column", ("Answer as a table.",)),
    (r"\bnumbered|step by step|\bsteps\b", ("Answer in numbered steps.",)),
    (r"bullet|\blist\b|points?\b", ("Answer as a bulleted list.", "Answer in at most three bullet points.")),
    (r"\bwords?\b", (_limit("words", "Answer in at most 40 words."), "Answer in one sentence.")),
    (r"\bsentences?\b", (_limit("sentences", "Answer in at most two sentences."), "Answer in one sentence.")),
    (r"\b(?:un)?known?\b|honest|invent|made up|guess|unsure|admit", ('If you do not know, say "I do not know".',)),
    (r"sourc|\bcit|reference|evidence|where it is from", ("Name your sources.",)),
    (r"example|\bcode\b|snippet", ("Show code.", "Give an example.")),
    (r"off.?topic|refus|declin|\btopics?\b|scope", ('Only answer questions about agentbook and the platform. Otherwise say "I cannot help with that here."',)),
    (r"\bquestion at the end|follow.?up|ends? with a question|closing|asks back|offers?", ("End with a question.",)),
    (r"greet|hello|\bstarts?\b|\bbegins?\b|opening", (_quoting('Begin with "{}".', 'Begin with "Hello!".'),)),
    (r"\bends?\b|closing|sign.?off|farewell", (_quoting('End with "{}".', "End with a question."),)),
    (r"markdown|plain|formatting|asterisk|backtick", ("Write plain text.",)),
    (r"upper|capital|shout", ("Write in upper case.",)),
    (r"lower.?case|small letters", ("Write in lower case.",)),
    (r"friendl|polite|kind|warm|tone|rude|cheer", ("Be friendly.",)),
    (r"not[- :]|never|without|avoid|forbid|mention|contains the word|quiet|silent|hides?\b", (_quoting('Never mention "{}".', ""), _about)),
    (r"contains|\bsays?\b|includes?|missing", (_quoting('End with "{}".'),)),
    (r"short|brief|long\b|length|concise|characters|terse|rambl|verbose|<=", ("Answer in at most two sentences.", "Answer in one sentence.", "Answer in at most 20 words.")),
    (r"detail|thorough|complete|enough|>=|at least", ("Answer in detail.",)),
)  # fmt: skip
# Without a hint: the rules that help most often.
_GUESSES = ("Answer in at most two sentences.", "Name your sources.", 'If you do not know, say "I do not know".', "Answer as a bulleted list.", "Be friendly.", "Write plain text.", "End with a question.", "Answer in detail.")  # fmt: skip


def propose(request: str) -> str:
    """A proposer's reply to a request of `PromptLab.suggest` or `optimize`.

    Examples
    --------
    >>> print(propose('''You improve the system prompts of AI agents.
    ...
    ... # The prompt
    ...
    ... ```
    ... Be kind.
    ... ```
    ...
    ... # Reply 1
    ...
    ... Not passed:
    ... - sourced: it names no source'''))
    Add a rule for “sourced: it names no source”.
    ```
    Be kind. Name your sources.
    ```
    """
    found = _PROMPT.search(request)
    prompt = found["prompt"].strip() if found else ""
    tried = {_squeezed(prompt)}
    if earlier := _TRIED.search(request):
        tried |= {_squeezed(each) for each in re.split(r"\n*^- ", earlier["tried"], flags=re.MULTILINE)}
    reasons = [line[2:].strip() for block in _REASONS.findall(request) for line in block.splitlines()]
    counted = sorted(dict.fromkeys(reasons), key=lambda reason: -reasons.count(reason))
    options = [(reason, sentence) for reason in counted for sentence in _sentences(reason)]
    options += [(counted[0] if counted else "the replies", sentence) for sentence in _GUESSES]
    for reason, sentence in options:
        # A second limit of the same kind takes the place of the first.
        kept = _LIMIT.sub("", prompt).strip() if _LIMIT.fullmatch(f"{sentence} ") else prompt
        new = f"{kept} {sentence}".strip()
        if sentence not in prompt and _squeezed(new) not in tried:
            return f"Add a rule for “{reason}”.\n```\n{new}\n```"
    return "I know no other rule that would help."


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _sentences(reason: str) -> list[str]:
    matching = [sentences for pattern, sentences in _RULES if re.search(pattern, reason, re.IGNORECASE)]
    made = [each if isinstance(each, str) else each(reason) for sentences in matching for each in sentences]
    return [sentence for sentence in made if sentence]
