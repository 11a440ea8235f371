# ruff: noqa: E501 - the table of synonyms
"""The packaged documentation, section by section, with full-text search.

It consists of the manual's pages and the docstrings of the public names. A question is
compared word by word: BM25 over the text, the likeness of question and title, and the
share of the question's words that a section has, each word weighted by its rarity. The
score is between 0 and 1, so a bound on it says when nothing fits.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

from .docstrings import REFERENCE, read_docstrings
from .tokenize import keywords, stem, words

GLOSSARY = "Glossary"
_PACKAGE = Path(__file__).parents[3]
_MAX_QUERY_WORDS = 24
_SATURATION, _LENGTH = 1.2, 0.75  # BM25's usual parameters
_SYNONYM = 0.8  # what a synonym counts, of what the word itself does
_DOCUMENT = 0.5  # what a word in the title of the page counts, of one in the section's
# The reader's word -> the documentation's words.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "answer": ("reply",), "response": ("reply", "error"), "conversation": ("session", "chat"), "dialogue": ("session",), "install": ("pip",),
    "setup": ("install",), "begin": ("start",), "dataframe": ("pandas", "frame"), "table": ("frame", "pandas"), "password": ("secret", "key"),
    "token": ("oauth", "key"), "tokens": ("usage", "token"), "permission": ("scope",), "permissions": ("scope", "scopes"), "rights": ("scope",), "access": ("scope", "see"),
    "disconnect": ("reconnect", "cut"), "disconnected": ("reconnect", "cut"), "drops": ("reconnect", "cut"), "websocket": ("socket", "stream"), "live": ("stream",),
    "resume": ("from_id", "reconnect"), "paging": ("page", "limit"), "pagination": ("page", "limit", "envelope"), "pages": ("page",),
    "throttled": ("429", "rate"), "throttling": ("429", "rate"), "ratelimit": ("429",), "rate": ("429",), "crash": ("error", "failed"), "bug": ("error",), "broken": ("failed",),
    "exception": ("error", "exceptions"), "exceptions": ("error",), "login": ("sign", "oauth"), "signin": ("sign",), "log": ("sign",), "cli": ("command",), "shell": ("command",),
    "terminal": ("command",), "commands": ("command",), "server": ("service",), "offline": ("embedded", "stand"), "local": ("embedded",), "delete": ("uninstall", "revoke", "remove"), "remove": ("uninstall", "revoke", "delete"), "erase": ("delete",), "newest": ("latest",), "saved": ("stored",),
    "rotate": ("stale", "updated"), "rotation": ("stale", "updated"), "old": ("stale",), "outdated": ("stale",), "leak": ("secrets", "masked"), "missing": ("restricted", "404"),
    "hang": ("reply", "never"), "hangs": ("never",), "stuck": ("never",), "slow": ("latency",), "speed": ("latency",), "latency": ("latency_s",), "wait": ("latency",), "model": ("llm",), "gpt": ("llm",), "openai": ("llm",),
    "prompt": ("system_prompt",), "widget": ("panel",), "jupyter": ("jupyterlab", "notebook"), "notebook": ("jupyterlab",), "organisation": ("organization",), "organisations": ("organization",),
    "mybinder": ("binder",), "cloud": ("binder",), "history": ("events",), "messages": ("events",), "heatmap": ("activity",), "chart": ("plot",), "graph": ("plot",), "quota": ("limit",), "throughput": ("limit",),
    "unused": ("last", "use"), "timeout": ("timeout_s", "timed"), "duplicate": ("duplicates",), "dupes": ("duplicates",), "export": ("parquet",), "proxy": ("proxies",), "send": ("attach",), "upload": ("attach",), "timezone": ("tz", "zone"), "url": ("address", "base_url"),
    "download": ("export", "load"), "clear": ("new",), "invite": ("invitations", "members"), "telemetry": ("privacy",), "interrupt": ("stop",), "cancel": ("stop",), "abort": ("stop",), "pick": ("choose",), "select": ("choose",), "image": ("picture",), "folder": ("directory",), "manual": ("documentation",), "colour": ("theme",), "color": ("theme",), "size": ("large", "height"), "repeat": ("again",), "colleague": ("members",), "reconnecting": ("reconnect",),
}  # fmt: skip


# The reader's words -> the documentation's, where each word alone means something else.
_PHRASES = {
    "log in": "sign in", "log out": "sign out", "log off": "sign out", "sign off": "sign out", "turn off": "stop", "shut down": "stop", "time zone": "timezone",
}  # fmt: skip
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES).replace(' ', ' +')})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a page.

    `blocks` are its paragraphs, lists, tables and code blocks.
    """

    document: str
    title: str
    blocks: tuple[str, ...]

    @property
    def source(self) -> str:
        """The citation: document › section."""
        return self.document if self.title == self.document else f"{self.document} › {self.title}"

    @property
    def text(self) -> str:
        """The section's text as it is in the page."""
        return "\n\n".join(self.blocks)

    @property
    def has_example(self) -> bool:
        """Whether it has a code block."""
        return any(block.startswith("```") for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that fits a question. A greater `score` is better; 1 is the best."""

    section: Section
    score: float


class Library:
    r"""Searchable sections. Safe to use from several threads.

    Parameters
    ----------
    sections
        The sections to search.

    Examples
    --------
    >>> page = "# Chat\n\n## Open a panel\n\nCall `ChatPanel`.\n"
    >>> library = Library(read_page(page))
    >>> library.search("How do I open a panel?")[0].section.source
    'Chat › Open a panel'
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)
        self._pages = [section for section in self.sections if section.document not in (REFERENCE, GLOSSARY)]
        self._titles = [_stems(keywords(section.title)) for section in self._pages]
        self._documents = [_stems(keywords(section.document)) for section in self._pages]
        texts = [Counter(_all_stems(f"{page.document} {page.title} {page.text}")) for page in self._pages]
        mean = sum(text.total() for text in texts) / (len(texts) or 1)
        self._weights: dict[str, dict[int, float]] = defaultdict(dict)  # stem -> page -> BM25 without the rarity
        for number, text in enumerate(texts):
            norm = _SATURATION * (1 - _LENGTH + _LENGTH * text.total() / mean)
            for word, count in text.items():
                self._weights[word][number] = count / (count + norm)

    def search(self, question: str, limit: int = 5) -> list[Hit]:
        """The sections for a question, best first.

        What the glossary defines, and the docstrings of names that the question spells
        out, stand before the sections of the manual.

        Examples
        --------
        >>> Library([]).search("What is a turn?")
        []
        """
        exact = self._definitions(question) or self._named(question)
        return ([Hit(section, 1.0) for section in exact] + self._search_manual(question))[:limit]

    def _search_manual(self, question: str) -> list[Hit]:
        question = _PHRASE.sub(lambda phrase: _PHRASES[" ".join(phrase[0].lower().split())], question)
        asked = keywords(question)
        if not asked:  # "Something does not work, what now?"
            asked = [word for word in words(question) if len(word) > 3]
            if len(asked) < 2:
                return []
        # Each word of the question, with what it and its synonyms count.
        terms = {
            stem(word): {**dict.fromkeys(map(stem, _synonyms(word)), _SYNONYM), stem(word): 1.0}
            for word in asked[:_MAX_QUERY_WORDS]
        }
        total = sum(map(self._rarity, terms))
        text, covered, title = (defaultdict[int, float](float) for _ in range(3))
        for word, forms in terms.items():
            rarity = self._rarity(word) / total
            best: dict[int, tuple[float, float]] = {}
            for form, share in forms.items():
                for number, weight in self._weights.get(form, {}).items():
                    best[number] = max(best.get(number, (0.0, 0.0)), (share * weight, share))
            for number, (weight, share) in best.items():
                text[number] += rarity * weight
                covered[number] += rarity * share
                in_title = _best_of(forms, self._titles[number])
                title[number] += rarity * max(in_title, _DOCUMENT * _best_of(forms, self._documents[number]))
        known = {form for forms in terms.values() for form in forms}
        hits = [
            Hit(
                self._pages[number], covered[number] * (text[number] + self._likeness(title[number], number, known)) / 2
            )
            for number in text
        ]
        return sorted(hits, key=lambda hit: -hit.score)

    def _likeness(self, share: float, number: int, known: set[str]) -> float:
        """How alike question and title are: `share` of the question is in the title."""
        title = self._titles[number]
        whole = sum(map(self._rarity, title))
        back = sum(self._rarity(word) for word in title & known) / whole if whole else 0.0
        return (share + (2 * share * back / (share + back) if share + back else 0.0)) / 2

    def _rarity(self, word: str) -> float:
        pages = len(self._weights.get(word, ()))
        return log(1 + (len(self._pages) - pages + 0.5) / (pages + 0.5))

    def _definitions(self, question: str) -> list[Section]:
        """The glossary's entries for "What is a turn?", or for what is compared."""
        match = _DEFINITION.match(question)
        if match is None:
            return []
        asked = [_stems(words(part)) for part in re.split(r"\b(?:and|or|vs\.?|versus)\b", match[1])]
        entries = [section for section in self.sections if section.document == GLOSSARY]
        found = [next((entry for entry in entries if _stems(words(entry.title)) == part), None) for part in asked]
        return [entry for entry in found if entry is not None] if all(found) else []

    def _named(self, question: str) -> list[Section]:
        """The docstrings of the names in a question that is about nothing else."""
        reference = (section for section in self.sections if section.document == REFERENCE)
        named = [section for section in reference if _is_spelled_out(section.title, question)]
        asked = set(keywords(question)) - _OF_A_NAME
        return named if asked <= {word for section in named for word in words(section.title)} else []

    def documents(self) -> list[str]:
        """The titles of all pages, in order."""
        return list(dict.fromkeys(section.document for section in self.sections))


_DEFINITION = re.compile(
    r"\W*(?:what(?:['’]s| is| are| does)|(?:what(?:['’]s| is) )?(?:the )?differences? between|define|explain)\s+"
    r"(?:the (?:meaning of|difference between)\s+)?(.+?)(?:\s+means?)?\W*$",
    re.IGNORECASE,
)
# What is asked of a function or a class.
_OF_A_NAME = frozenset(
    (
        "parameter",
        "parameters",
        "argument",
        "arguments",
        "option",
        "options",
        "return",
        "returns",
        "signature",
        "work",
        "works",
    )
)
_ARTICLES = frozenset(("a", "an", "the", "in", "agentbook", "of", "between"))


def _all_stems(text: str) -> list[str]:
    """Identifiers count whole and in parts: `load_events` matches "load events"."""
    return [stem(part) for word in words(text) for part in {word, *re.split(r"[_'’-]", word)} if part]


def _stems(of: Iterable[str]) -> set[str]:
    return set(_all_stems(" ".join(of))) - _ARTICLES


def _best_of(forms: Mapping[str, float], title: set[str]) -> float:
    return max((share for form, share in forms.items() if form in title), default=0.0)


def _is_spelled_out(name: str, query: str) -> bool:
    """Whether a question names a function or class and not just an ordinary word.

    Examples
    --------
    >>> _is_spelled_out("ab.load_events", "What does load_events return?")
    True
    >>> _is_spelled_out("ab.turns", "How do I count turns?")
    False
    >>> _is_spelled_out("ab.turns", "What does ab.turns return?")
    True
    """
    short = name.removeprefix("ab.")
    is_no_word = re.search(r"[_.]|[a-z][A-Z]", short)
    spelling = re.escape(short if is_no_word else name)
    return re.search(rf"(?<!\w)(?:ab\.)?{spelling}(?!\w)", query) is not None


def _synonyms(word: str) -> tuple[str, ...]:
    return SYNONYMS.get(word) or SYNONYMS.get(word.removesuffix("s")) or ()


_FENCE = re.compile(r"^(```|~~~)")
# A line that continues the paragraph or list item of the line before.
_CONTINUATION = re.compile(r"\s*(?![-*+] |\d+[.)] |[|>])\S")


def read_page(markdown: str) -> list[Section]:
    """The sections of one page, whose title is its heading of level 1.

    Code blocks stay whole, even with lines that look like headings. The lines of a
    paragraph or list item are joined.
    """
    document, title, fenced = "", "", False
    sections: list[Section] = []
    blocks: list[str] = []
    lines: list[str] = []

    def close_block() -> None:
        if lines:
            blocks.append("\n".join(lines))
            lines.clear()

    def close_section() -> None:
        close_block()
        if blocks:
            sections.append(Section(document, title or document, tuple(blocks)))
            blocks.clear()

    for line in markdown.splitlines():
        if _FENCE.match(line):
            if not fenced:
                close_block()
            lines.append(line)
            if fenced:
                close_block()
            fenced = not fenced
        elif fenced:
            lines.append(line)
        elif line.startswith("# "):
            close_section()
            document = title = line[2:].strip()
        elif line.startswith("## "):
            close_section()
            title = line[3:].strip()
        elif lines and _CONTINUATION.match(line) and not lines[-1].startswith("|"):
            lines[-1] += f" {line.strip()}"
        elif line.strip():
            lines.append(line)
        else:
            close_block()
    close_section()
    return sections


_building = threading.Lock()


def library() -> Library:
    """The packaged documentation, built on the first call and shared from then on."""
    with _building:  # once, however many turns start at the same time
        return _library()


@cache
def _library() -> Library:
    reference = [Section(REFERENCE, entry.name, entry.blocks) for entry in read_docstrings(_PACKAGE)]
    return Library([*manual_sections(), *reference])


def manual_sections() -> list[Section]:
    """The sections of the manual's pages, in order."""
    return [section for page in sorted(manual().glob("*.md")) for section in read_page(page.read_text("utf-8"))]


def manual() -> Path:
    """The folder with the manual's pages."""
    folders = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")  # in a wheel, in a checkout
    return next(folder for folder in folders if (folder / "01-getting-started.md").is_file())
