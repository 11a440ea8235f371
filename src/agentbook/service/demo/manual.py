"""The packaged manual, section by section, with full-text search.

SQLite's FTS5 ranks the sections by BM25, word by word, of Porter's stems: by their
texts, and by their heads, which are title and first sentence. A question has no hits if
the best section has too few of its words, for it is about something else.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import log

from markdown_it import MarkdownIt

from ..._files import packaged

GLOSSARY = "Glossary"
ORDER = "manual.rst"  # the site's table of contents
# Words that do not name a subject.
STOP_WORDS = frozenset(
    """
    a able about actually after again all already also although always am an and another any anybody anyone
    anything anyway are aren arent as ask asked asks at be because been before behind being between bit but by
    can cannot cant come comes could couldnt count counts did didn didnt do does doesn doesnt doing don done
    dont down during each easily eight else ever everybody everyone everything exactly few first five for four
    from get gets getting give given go goes going gone got had happen happens has hasnt have havent having
    hello help here hey hi how hows i if im in instead into is isn isnt it its ive just keep keeps kept kind
    kinds know let lets like ll look looks make many may maybe me mean means might more most much must my need
    needed nine no nobody nor not nothing now of off ok okay on once one ones only or other our out over own
    per perhaps please pls possible possibly properly put puts quite re really said say says second see seem
    seems seven shall should shouldnt show simply since sit sits six so some somebody somehow someone
    something sort still stuff such suddenly tell tells ten than thank thanks that thats the their them then
    there theres these they thing things this those three thx times to today told tomorrow too tried tries try
    trying two up us use used uses using ve very want wanted wants was wasn wasnt way we well went were what
    whats when where whether which while who whom whose why will with without won wonder wondering wont work
    works would wouldnt yesterday yet you your youre
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
# What readers say for a word of the glossary or of a title.
SYNONYMS = {
    "agent": "bot chatbot assistant",
    "cost": "price pay paid spend spending spent money expensive cheap cheaper cheapest",
    "latency": "slow slower slowest fast faster long wait waiting delay",
    "reply": "answer response",
    "colleague": "coworker employee teammate",
    "chart": "plot graph diagram",
    "failures": "error wrong broken crash",
    "compare": "difference versus vs better worse",
    "delete": "remove revoke",
    "frame": "table dataframe",
    "lab": "experiment evaluation eval",
}
_MEANS = {word: canonical for canonical, words in SYNONYMS.items() for word in words.split()}
# Of a best hit, its share times the number of the question's words in it: below the
# first, nothing is found; below the second, it may well be about something else.
_LEAST, _NEAR = 0.5, 1.2
_ALONE_SHARE, _AHEAD = 0.6, 1.7  # of a hit that is quoted alone; its lead
_HEAD, _COVERED = 0.5, 0.3  # the weight of a head; the power of a hit's share
_MAX_WORDS = 24  # of a question
_LONG, _SIMILAR = 5, 0.88  # letters of a word that may be misspelt; how like it is
_TEXTS = "SELECT rowid, -rank FROM texts WHERE texts MATCH ?"
_HEADS = "SELECT rowid, -rank FROM heads WHERE heads MATCH ?"
_WORD = re.compile(r"[^\W_]+")
_STATUS = re.compile(r"[45]\d\d")
_MARKDOWN = MarkdownIt("commonmark").enable("table").disable("inline")
# Before a line that continues the paragraph or list item of the line before.
_CONTINUATION = re.compile(r"\n *(?![-*+] |\d+[.)] |\s)")
# A link to another page, which leads nowhere from a chat.
_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
_DEFINITION = re.compile(
    r"\W*(?:what(?:['’]?s| is| are| does| do)\b|(?:what(?:['’]?s| is) )?(?:the )?differences? between|define|explain)?"
    r"\s*(?:(?:the )?(?:meaning of|difference between)\s+)?(?P<of>.+?)(?:\s+means?)?(?:\s+here)?\W*$",
    re.IGNORECASE,
)
_OF = re.compile(r"\b(?:of|in)\b", re.IGNORECASE)
_COMPARED = re.compile(r"(?:,|\b(?:and|or|vs\.?|versus|from)\b)+(?: and\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a page: its paragraphs, lists, tables and code are `blocks`."""

    page: str
    title: str
    blocks: tuple[str, ...]

    @property
    def source(self) -> str:
        """The citation: page › section."""
        return self.page if self.title == self.page else f"{self.page} › {self.title}"

    @property
    def first_sentence(self) -> str:
        """What it is about; empty if it begins with no sentence."""
        block = next((block for block in self.blocks if not block.startswith(("|", "```", "-"))), "")
        return re.split(r"(?<=[.:?])\s", block, maxsplit=1)[0].rstrip(":")

    @property
    def has_example(self) -> bool:
        """Whether it has a code block."""
        return any(block.startswith("```") for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that fits a question.

    `share` is that of the question's words which the section has, weighted by rarity,
    and `words` their number; `in_title` is whether one is in the title; `is_title`, how
    exactly the question is the title, from 0 to 2.
    """

    section: Section
    score: float
    share: float
    words: int
    in_title: bool
    is_title: int


def near(hits: Sequence[Hit]) -> bool:
    """Whether the best hit has enough of the question to be about the same."""
    return any(hit.is_title or hit.share * hit.words >= _NEAR for hit in hits[:1])


def sure(hits: Sequence[Hit]) -> list[Hit]:
    """The hit to quote alone: it has most of the question's words and a clear lead."""
    second = hits[1].score if len(hits) > 1 else 0.0
    best = [hit for hit in hits[:1] if hit.in_title and hit.share >= _ALONE_SHARE and hit.score >= _AHEAD * second]
    return best or [hit for hit in hits[:1] if hit.is_title > max((other.is_title for other in hits[1:]), default=0)]


class Manual:
    r"""Searchable sections. Safe to use from several threads.

    Examples
    --------
    >>> manual = Manual(read_page("# Chat\n\n## Open a panel\n\nCall `ChatPanel`.\n"))
    >>> [hit] = manual.search("How do I open a panel?")
    >>> hit.section.source, hit.share, sure([hit]) == [hit]
    ('Chat › Open a panel', 1.0, True)
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        texts = ["\n".join((each.page, each.title, *each.blocks)) for each in self.sections]
        heads = [(each.title, f"{each.page} {each.first_sentence}") for each in self.sections]
        self._database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter unicode61')")
        self._database.execute("CREATE VIRTUAL TABLE heads USING fts5(title, sentence, tokenize='porter unicode61')")
        self._database.executemany("INSERT INTO texts VALUES (?)", zip(texts))
        self._database.executemany("INSERT INTO heads VALUES (?, ?)", heads)
        self._words = sorted({word for text in texts for word in _WORD.findall(text.lower()) if len(word) >= _LONG})

    @property
    def pages(self) -> list[str]:
        """The titles of all pages, in order."""
        return list(dict.fromkeys(section.page for section in self.sections))

    def search(self, question: str, limit: int = 5) -> list[Hit]:
        """The sections for a question, best first, without entries of the glossary."""
        with self._lock:
            asked = list(dict.fromkeys(self._spelt(word) for word in keywords(question)[:_MAX_WORDS]))
            found = [self._found(word) for word in asked]
        named, about = _term(question), _term(" ".join(asked))
        rarities = [log(1 + len(self.sections) / (len(scores) + 1)) for scores, _ in found]
        hits = []
        for row in {row for scores, _ in found for row in scores}:
            section = self.sections[row - 1]
            having = [row in scores for scores, _ in found]
            share = sum(itertools.compress(rarities, having)) / sum(rarities)
            score = share**_COVERED * sum(scores.get(row, 0.0) for scores, _ in found)
            in_title = any(row in titles for _, titles in found)
            is_title = (named == _term(section.source)) + (about == _term(" ".join(keywords(section.title))))
            if section.page != GLOSSARY or section.title == GLOSSARY:
                hits.append(Hit(section, score, share, sum(having), in_title, is_title))
        hits.sort(key=lambda hit: (-hit.is_title, -hit.score))
        fits = any(hit.is_title or hit.share * hit.words >= _LEAST for hit in hits[:1])
        return hits[:limit] if fits else []

    def _found(self, word: str) -> tuple[dict[int, float], set[int]]:
        """The sections with a word or what it means, by BM25, and those titled so."""
        meant = {word, _MEANS.get(word) or _MEANS.get(word.removesuffix("s"), word)}
        either = " OR ".join(f'"{each}"' for each in sorted(meant))
        heads, titles = self._scores(_HEADS, either), self._scores(_HEADS, f"title : ({either})")
        texts = self._scores(_TEXTS, either)
        return {row: score + _HEAD * heads.get(row, 0.0) for row, score in texts.items()}, set(titles)

    def _spelt(self, word: str) -> str:
        """A word, or for a long unknown one the word of the manual most like it."""
        if len(word) < _LONG or word in STOP_WORDS or self._scores(_TEXTS, f'"{word}"'):
            return word
        others = (each for each in self._words if each[0] == word[0] and not each.startswith(word))
        return next(iter(get_close_matches(word, others, 1, _SIMILAR)), word)

    def _scores(self, select: str, query: str) -> dict[int, float]:
        """The rows that a query matches, with their BM25; more is better."""
        return dict(self._database.execute(select, (query,)))

    def definitions(self, question: str) -> list[Section]:
        """The glossary's entries for "What is a turn?", or for what is compared.

        Empty unless the glossary has all of them.
        """
        with self._lock:
            spelt = _WORD.sub(lambda word: self._spelt(word[0].lower()), question[:200])
        match = _DEFINITION.match(spelt)
        entries = {_term(section.title): section for section in self.sections if section.page == GLOSSARY}
        parts = _COMPARED.split(match["of"] if match else "")
        # "a version of an agent" is what the glossary calls a version.
        found = [entries.get(_term(part)) or entries.get(_term(_OF.split(part)[0])) for part in parts]
        return [entry for entry in found if entry is not None] if all(found) else []


def keywords(text: str) -> list[str]:
    """The words that name a subject, in lower case and without repetitions.

    Examples
    --------
    >>> keywords("What is the default page limit? The limit of a page!")
    ['default', 'page', 'limit']
    """
    words = [word for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in STOP_WORDS]
    # Of numbers, only the statuses of errors name one; others count things.
    return list(dict.fromkeys(word for word in words if _STATUS.fullmatch(word) or not word.isdigit()))


def _term(text: str) -> tuple[str, ...]:
    """A defined term without articles and the ``s`` of a plural."""
    words = (word for word in _WORD.findall(text.lower()) if word not in {"a", "an", "the", "between"})
    return tuple(word.removesuffix("s") for word in words)


def read_page(markdown: str) -> list[Section]:
    """The sections of one page, whose title is its heading of level 1.

    Code blocks stay whole, even with lines that look like headings. The lines of a
    paragraph or list item are joined, and of links to other pages the text is left.
    """
    lines = markdown.splitlines()
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    for token in _MARKDOWN.parse(markdown):
        if token.level or token.map is None:
            continue
        text = "\n".join(lines[slice(*token.map)]).rstrip()
        if token.tag in ("h1", "h2"):
            title = text.lstrip("#").strip()
            found.append((title if token.tag == "h1" else found[-1][0], title, []))
        elif not text.startswith("!["):  # a picture, which a chat cannot show
            if token.type in ("paragraph_open", "bullet_list_open", "ordered_list_open"):
                text = _CONTINUATION.sub(" ", text)
            found[-1][2].append(text if token.type == "fence" else _RELATIVE_LINK.sub(r"\1", text))
    return [Section(page, title, tuple(blocks)) for page, title, blocks in found if blocks]


@cache
def manual() -> Manual:
    """The packaged manual, read on the first call and shared from then on."""
    folder = packaged("docs")
    pages = [folder / f"{name}.md" for name in order((folder / ORDER).read_text("utf-8"))]
    return Manual(section for page in pages if page.is_file() for section in read_page(page.read_text("utf-8")))


def order(contents: str) -> list[str]:
    """The names of the pages that a table of contents lists, in its order.

    Examples
    --------
    >>> order(":doc:`glossary`")
    ['glossary']
    """
    return re.findall(r"^:doc:`([a-z-]+)`$", contents, re.MULTILINE)
