# ruff: noqa: E501 - patterns
"""Proposals of better prompts for `scribe`, without a language model.

It knows the rules that `scribe` follows, not the checks of a lab: from what a request
says of a check and of the replies that did not pass it, it guesses which rule is asked
for, and adds its sentence to the prompt. The rules are in ``proposals.yaml``.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..manual import keywords
from ..rows import read_yaml

REFUSAL, UNKNOWN = "I cannot help with that here.", "I found nothing about that."
OF_A_PROPOSAL = "You improve the system prompts of AI agents."
_PROMPT = re.compile(r"^# The prompt\n\n(`{3,})\n(?P<prompt>.*?)\n\1$", re.MULTILINE | re.DOTALL)
_TITLE = r"^# (?:What replies have|Prompts that were|Questions whose replies|Reply \d)"
_SECTION = re.compile(rf"(?={_TITLE})# (?P<title>[^\n]*)\n\n(?P<body>.*?)(?={_TITLE}|\Z)", re.MULTILINE | re.DOTALL)
_REPLY = re.compile(r"Question: (?P<question>.*?)\n\nReply: (?P<reply>.*)\n\nNot passed:\n(?P<reasons>.*)", re.DOTALL)
_QUOTED = re.compile(
    r"\"((?:[^\"\n\\]|\\.){1,200})\"|'((?:[^'\n\\]|\\.){1,200})'(?!\w)|[“‘]([^“”‘’\n]{1,200})[”’]|(?<![\w/])/([^/\n]{1,200})/[a-z]*(?=$|\n|:)|^(?:equals|starts-with):? (.+)"
)
_ASIDE = re.compile(r"  # [^\n]*|\"{3}.*?\"{3}", re.DOTALL)  # comments and docstrings in code
_ABOUT = re.compile(r"\b(?:about|on|of|mentions?|says?|names?|uses?|regarding|keys?) ((?:[\w-]+,? (?:and |or )?){0,5}[\w-]+)\s*(?:[.:;,\n\"'”]|$)", re.MULTILINE | re.IGNORECASE)  # fmt: skip
_BOUND = re.compile(
    r"(<=?|at most|up to|no more than|under|below|fewer than|max\w*)\s*(\d{1,4})\b(?! ?%)", re.IGNORECASE
)
_BELOW = ("<", "under", "below", "fewer than")
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = {name: str(number) for number, name in enumerate(_WORDS, 1)}
_KEYS = ("answer", "points", "question", "source", "sources", "example", "found")
_MOST = 12  # words to avoid, topics, or keys
_READ = 4_000  # characters of what is said of a check


def _listed(items: Sequence[str], word: str) -> str:
    return f"{', '.join(items[:-1])} {word} {items[-1]}" if items[1:] else "".join(items)


def _ended(text: str) -> str:
    """A quote, and a full stop if it has none."""
    return f'"{text}"' if text[-1] in ".!?" else f'"{text}".'


def _stem(word: str) -> str:
    return word.lower().removesuffix("s") if len(word) > 3 else word.lower()


def _plain(pattern: str) -> list[str]:
    """The texts that a pattern looks for: Ada and Bob of ``^(Ada|Bob)[.!]$``."""
    text = re.sub(r"\\[bBsSdDwWAZn]|\(\?(?:[a-z]*:|<?[!=])?(?:\.\*)?", "", pattern)
    text = re.sub(r"\[\^?\\?(.)[^\]]*\]", r"\1", text)
    return [re.sub(r"\.[*+]|[\^$\\()?*+]", "", part).strip() for part in text.split("|")]


@dataclass(frozen=True)
class Asked:
    """What one check asks for, and the replies that did not pass it.

    What its rules have in braces are attributes: each value makes a sentence.
    """

    name: str
    wanted: str
    failed: Sequence[tuple[str, str, str]]  # question, reply, reason
    passed: Sequence[str]  # questions
    names: Sequence[str]  # of all checks

    @cached_property
    def text(self) -> str:
        """All that is said of it, with numbers as digits."""
        said = "\n".join([self.name, self.wanted, *dict.fromkeys(reason for _, _, reason in self.failed)])
        said += "\nunknown" if self.has(UNKNOWN) else ""
        return re.sub(r"\b[a-z]+\b", lambda word: DIGITS.get(word[0], word[0]), said[:_READ])

    @cached_property
    def texts(self) -> list[str]:
        """What stands in quotation marks, and the texts that patterns look for."""
        found = _QUOTED.findall(_ASIDE.sub("", self.wanted)) or _QUOTED.findall(self.text)
        quotes = [next(filter(None, groups)) for groups in found]
        texts = [_plain(quote) if re.search(r"[\\^$|*(\[]", quote) else [quote] for quote in quotes]
        return [text for text in dict.fromkeys(itertools.chain(*texts)) if re.search(r"\w\w", text)]

    @cached_property
    def named(self) -> list[str]:
        """What it is about, in the words of the checks' names."""
        found = _ABOUT.findall("\n".join([self.text, *self.names]))
        words = dict.fromkeys(word for each in found for word in re.split(r",? and |,? or |, ", each))
        return [word for word in words if word and _stem(word) not in ("topic", "question", "thi", "it", "the")]

    def has(self, pattern: str, least: float = 2 / 3) -> bool:
        """Whether so many of the replies have the pattern."""
        found = [bool(re.search(pattern, reply, re.IGNORECASE | re.MULTILINE)) for _, reply, _ in self.failed]
        return sum(found) >= least * len(found)

    @property
    def most(self) -> list[int]:
        return [max(int(number) - (sign.lower() in _BELOW), 1) for sign, number in _BOUND.findall(self.text)][:1]

    @property
    def words(self) -> list[int]:
        limits = self.most if re.search(r"\bwords?\b|split\(\)", self.text) else [limit // 8 for limit in self.most]
        return [max(part, 1) for limit in limits for part in (limit, limit * 2 // 3, limit // 3)]

    @property
    def keys(self) -> list[str]:
        required = re.search(r'"required": *\[([^\]]*)\]', self.wanted)
        found = re.findall(r"[A-Za-z_]\w*", required[1]) if required else []
        found = found or re.findall(r"[\"'](?!json\b)([A-Za-z_]\w*)[\"'](?!:)", self.wanted)
        found = found or [key for key in _KEYS if re.search(rf"\b{key}\b", self.text)] or ["answer", "source"]
        keys = [f'"{key}"' for key in dict.fromkeys(found)][:_MOST]
        return [f"key{'s' * bool(keys[1:])} {_listed(keys, 'and')}"]

    @property
    def missing(self) -> list[str]:
        texts = [text for text in self.texts if not self.has(re.escape(text), 1 / 3)]
        return [_ended(text) for text in sorted(texts, key=len, reverse=True)[:2]]

    @property
    def avoid(self) -> list[str]:
        """Its texts, in all forms that they have in replies, if a third has them."""
        texts = self.texts or self.named
        form = re.compile("|".join(rf"[\w-]*{re.escape(_stem(text))}[\w-]*" for text in texts) or "(?!)")
        found = [form.findall(reply.lower()) for _, reply, _ in self.failed]
        if sum(map(bool, found)) < len(found) / 3:
            return []
        forms = dict.fromkeys([*map(str.lower, texts), *itertools.chain(*found)])
        return [_listed([f'"{form}"' for form in forms][:_MOST], "or")]

    @cached_property
    def _other(self) -> str:
        """The text that questions get which are not answered."""
        questions = " ".join([*(question for question, _, _ in self.failed), *self.passed]).lower()
        said = [text for text in self.texts if text.lower() not in questions and not self.has(re.escape(text))]
        return max(said, key=lambda text: len(text.split()), default="")

    @property
    def unknown(self) -> list[str]:
        known = "I do not know"
        return [_ended(known if self._other.lower() in known.lower() else self._other)]

    @property
    def scope(self) -> Iterator[str]:
        """Sentences about which questions are answered, the likeliest first."""
        parts = [question for question, _, _ in self.failed], self.passed
        failed, passed = (Counter(_stem(word) for each in part for word in keywords(each)) for part in parts)
        topics = [text for text in self.texts if text != self._other and " " not in text]
        about_failed, about_passed = (
            sum(_stem(word) in each.lower() for each in part for word in topics) for part in parts
        )
        refused, kept = (
            [word for word, count in part.most_common() if count > 1 and word not in other]
            for part, other in ((failed, passed), (passed, failed))
        )
        say = f" Otherwise say {_ended(self._other)}" if self._other else ""
        for verb, words in (
            ("Refuse", topics * (about_failed > about_passed)),
            ("Only answer", topics * (about_passed > about_failed)),
            ("Only answer", self.named),
            ("Refuse", refused),
            ("Only answer", kept),
        ):
            if words:
                yield f"{verb} questions about {_listed(words[:_MOST], 'and')}.{say}"


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
    ... # What replies have to pass
    ...
    ... - “signed”: contains "Ada"
    ...
    ... # Reply 1
    ...
    ... Question: Who?
    ...
    ... Reply: Nobody.
    ...
    ... Not passed:
    ... - “signed”'''))
    Add a rule for “signed”.
    ```
    Be kind. End with "Ada".
    ```
    """
    found = _PROMPT.search(request)
    prompt = found["prompt"].strip() if found else ""
    rest = request[found.end() :] if found else request
    sections = [(match["title"], match["body"].strip()) for match in _SECTION.finditer(rest)]
    tried = "\n".join(body for title, body in sections if title.startswith("Prompts"))
    asked = _asked(sections)
    by_rank = itertools.zip_longest(*([(each.name, sentence) for sentence in _sentences(each)] for each in asked))
    options = [option for rank in by_rank for option in rank if option]
    options += [
        (asked[0].name if asked else "the replies", sentence) for sentence in read_yaml("proposals.yaml")["guesses"]
    ]
    for name, sentence in options:
        new = f"{prompt} {sentence}".strip()
        if sentence not in prompt and not re.search(rf"^- {re.escape(new)}$", tried, re.MULTILINE):
            return f"Add a rule for “{name}”.\n```\n{new}\n```"
    return "I know no other rule that would help."


def _lines(text: str) -> list[tuple[str, str]]:
    """The names and the texts of a list."""
    items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    found = [re.match(r"“(.*?)”(?:: |$)(.*)|(.*)", item.strip(), re.DOTALL) for item in items]
    return [(each[1] or "A person", each[2] or each[3] or "") for each in found if each]


def _asked(sections: Sequence[tuple[str, str]]) -> list[Asked]:
    """The checks that were not passed, the most frequent first."""
    wanted = dict(each for title, body in sections if title.startswith("What") for each in _lines(body))
    passed = [line[2:] for title, body in sections if title.startswith("Questions") for line in body.splitlines()]
    replies = [match for _, body in sections if (match := _REPLY.search(body))]
    failed: dict[str, list[tuple[str, str, str]]] = {}
    for match in replies:
        for name, reason in _lines(match["reasons"]):
            failed.setdefault(name, []).append((match["question"], match["reply"], reason))
    asked = []
    for name, rows in sorted(failed.items(), key=lambda item: -len(item[1])):
        others = [match["question"] for match in replies if match["question"] not in {row[0] for row in rows}]
        asked.append(Asked(name, wanted.get(name, ""), rows, [*passed, *others], list(wanted)))
    return asked


def _sentences(asked: Asked) -> list[str]:
    """What may mend it: the likeliest sentence of each rule, all these, and others."""
    made = []
    for rule in read_yaml("proposals.yaml")["rules"]:
        if re.search(rule["cue"], asked.text, re.IGNORECASE):
            is_there = "there" in rule and asked.has(rule["there"])
            made.append(
                [each for text in rule["against" if is_there else "sentences"] for each in _filled(text, asked)]
            )
    ranks = [[sentence for sentence in rank if sentence] for rank in itertools.zip_longest(*made)]
    first = ranks[0] if ranks else []
    return [*first, *([" ".join(first)] if first[1:] else []), *itertools.chain(*ranks[1:])]


def _filled(template: str, asked: Asked) -> list[str]:
    """The sentences of a rule, one for each value of what it has in braces."""
    slot = re.search(r"\{(\w+)\}", template)
    return [template.replace(slot[0], str(value)) for value in getattr(asked, slot[1])] if slot else [template]
