"""The packaged manual, section by section, with full-text search.

SQLite's FTS5 finds whole words, by Porter's stems. A section's score is the share of
the question's words that it has, each weighted by its rarity; BM25 decides between
equal ones. A word that the manual does not know is rarest, so a question about
something else has no sure hit; a longer one may be a misspelt word of the manual.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

GLOSSARY = "Glossary"
# Words that do not name a subject.
STOP_WORDS = frozenset(
    """
    a able about actually after again all already also although always am an and any anybody anymore
    anyone anything anyway are aren arent as at be because been before being between but by can cannot
    cant come comes could couldnt count counts did didn didnt do does doesn doesnt doing don done dont
    down each easily else ever everybody everyone exactly few for from get gets getting give given go
    goes going gone got had happen happens has hasnt have havent having hello help here hey hi how hows
    i if im in instead into is isn isnt it its ive just know let lets like ll look looks make many may
    maybe me mean means might more most much must my need no nobody nor not nothing now of off ok okay
    on once one only or other our out over own per perhaps please pls possible possibly properly put
    puts quite re really say says see seem seems shall should shouldnt show simply so some somebody
    somehow someone something still such suddenly tell than thank thanks that thats the their them then
    there theres these they thing things this those thx times to too tried tries try trying up us use
    used uses using ve very want wants was wasn wasnt way we well were what whats when where whether
    which while who whom whose why will with without won wonder wondering wont work works would wouldnt
    yet you your youre
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
_PACKAGE = Path(__file__).parents[2]
# The least score of an answer, the score that needs no lead, and that of one section
# alone; the leads of an answer and of one section alone; and how many equal scores are
# none. A wrong answer costs a reader more than none.
_SURE, _CLEAR, _WHOLE = 0.5, 0.75, 0.9
_AHEAD, _ALONE, _CROWD = 1.3, 2, 4
_MAX_WORDS = 24  # of a question
_LONG, _MAX_LETTERS = 6, 24  # of a word that may be misspelt
_WORD = re.compile(r"[^\W_]+")
_STATUS = re.compile(r"[45]\d\d")
_FENCE = re.compile(r"^(```|~~~)")
# A line that continues the paragraph or list item of the line before.
_CONTINUATION = re.compile(r"\s*(?![-*+] |\d+[.)] |[|>])\S")
# Words that readers use and a section does not, in a comment below its heading.
_KEYWORDS = re.compile(r"<!-- keywords:\s+(.*?)\s*-->", re.DOTALL)
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
    """One section of a page.

    `blocks` are its paragraphs, lists, tables and code blocks; `keywords` are further
    words to find it by, which no reader sees, and `page_keywords` those of its page.
    """

    page: str
    title: str
    blocks: tuple[str, ...]
    keywords: str = ""
    page_keywords: str = ""

    @property
    def source(self) -> str:
        """The citation: page › section."""
        return self.page if self.title == self.page else f"{self.page} › {self.title}"

    @property
    def has_example(self) -> bool:
        """Whether it has a code block."""
        return any(block.startswith("```") for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that fits a question.

    `score` is the share of the question's words that the section has, from 0 to 1; a
    word of its text counts half of one in its title or keywords. `in_title` is whether
    title or keywords have any. `title_share` is the share of the title's words that the
    question has.
    """

    section: Section
    score: float
    in_title: bool
    title_share: float


def sure(hits: Sequence[Hit]) -> list[Hit]:
    """The hits worth quoting as the answer: the best one, the best two, or none.

    The best one has a word of the question in its title or keywords, its score is not
    low, and few others have it, unless the question has all words of its title. Two are
    quoted, since either may be meant, unless the best has nearly all words or is far
    above the second. If the third is near too, a low score is not enough.
    """
    best, second, third, *others = [hit.score for hit in hits] + [0.0] * 3
    crowded = [best, second, third, *others].count(best) >= _CROWD
    if best < _SURE or not hits[0].in_title or (crowded and hits[0].title_share < 1):
        return []
    if best < min(_CLEAR, _AHEAD * third):
        return []
    return list(hits[: 1 if best >= min(_WHOLE, _ALONE * second) else 2])


class Manual:
    r"""Searchable sections. Safe to use from several threads.

    Examples
    --------
    >>> manual = Manual(read_page("# Chat\n\n## Open a panel\n\nCall `ChatPanel`.\n"))
    >>> [hit] = manual.search("How do I open a panel?")
    >>> hit.section.source, hit.score, sure([hit]) == [hit]
    ('Chat › Open a panel', 1.0, True)
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            "CREATE VIRTUAL TABLE sections USING fts5(page, title, keywords, text, tokenize='porter unicode61')"
        )
        rows = [
            (f"{each.page} {each.page_keywords}", each.title, each.keywords, "\n".join(each.blocks))
            for each in self.sections
        ]
        self._database.executemany("INSERT INTO sections VALUES (?, ?, ?, ?)", rows)
        words = (word for row in rows for word in _WORD.findall(" ".join(row).lower()))
        self._words = Counter(word for word in words if len(word) >= _LONG)

    @property
    def pages(self) -> list[str]:
        """The titles of all pages, in order."""
        return list(dict.fromkeys(section.page for section in self.sections))

    def search(self, question: str, limit: int = 5) -> list[Hit]:
        """The sections for a question, best first; the glossary is not searched."""
        with self._lock:
            words = list(dict.fromkeys(self._spelt(word) for word in keywords(question)[:_MAX_WORDS]))
            found = [self._shares(word) for word in words]
            in_titles = [self._rows(f'title : "{word}"') for word in words]
            ranks = self._ranks(words)
        rarities = [log(1 + len(self.sections) / (len(shares) + 2)) for shares in found]
        hits = []
        for row in ranks:
            section = self.sections[row - 1]
            shares = [of.get(row, 0.0) for of in found]
            score = sum(rarity * share for rarity, share in zip(rarities, shares, strict=True)) / sum(rarities)
            title_share = sum(row in titles for titles in in_titles) / (len(keywords(section.title)) or 1)
            if section.page != GLOSSARY:
                hits.append((ranks[row], Hit(section, score, 1.0 in shares, title_share)))
        hits.sort(key=lambda each: (-each[1].score, -each[1].title_share, each[0]))
        return [hit for _, hit in hits[:limit]]

    def _shares(self, word: str) -> dict[int, float]:
        """The sections that have a word: 1 in the title or keywords, else a half."""
        everywhere, on_top = self._rows(f'"{word}"'), self._rows(f'{{title keywords}} : "{word}"')
        return dict.fromkeys(everywhere, 0.5) | dict.fromkeys(on_top, 1.0)

    def _spelt(self, word: str) -> str:
        """A word, or for a long unknown one the word of the manual one slip away.

        A slip adds or leaves out a letter, or swaps two, after the first.
        """
        if not _LONG <= len(word) <= _MAX_LETTERS or word in STOP_WORDS or self._rows(f'"{word}"'):
            return word
        cuts = ((word[:at], word[at : at + 1], word[at + 1 :]) for at in range(1, len(word) + 1))
        slips = (f"{start}(?:{end}|.{letter}{end}|{end[:1]}{letter}{end[1:]})" for start, letter, end in cuts)
        similar = re.compile("|".join(slips))
        return max(filter(similar.fullmatch, self._words), key=self._words.__getitem__, default=word)

    def _rows(self, query: str) -> set[int]:
        found = self._database.execute("SELECT rowid FROM sections WHERE sections MATCH ?", (query,))
        return {row for (row,) in found}

    def _ranks(self, words: Sequence[str]) -> dict[int, float]:
        """SQLite's rank of each section with any of the words; less is better."""
        query = " OR ".join(f'"{word}"' for word in words)
        found = self._database.execute("SELECT rowid, rank FROM sections WHERE sections MATCH ?", (query or '""',))
        return dict(found)

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
    words = _WORD.findall(text.lower())
    return list(dict.fromkeys(word for word in words if _names_a_subject(word)))


def _names_a_subject(word: str) -> bool:
    # Of numbers, only the statuses of errors name one; others count things.
    return word not in STOP_WORDS and (word.isdigit() <= bool(_STATUS.fullmatch(word))) and len(word) > 1


def _term(text: str) -> tuple[str, ...]:
    """A defined term without articles and the ``s`` of a plural."""
    words = (word for word in _WORD.findall(text.lower()) if word not in {"a", "an", "the", "between"})
    return tuple(word.removesuffix("s") for word in words)


def read_page(markdown: str) -> list[Section]:
    """The sections of one page, whose title is its heading of level 1.

    Code blocks stay whole, even with lines that look like headings. The lines of a
    paragraph or list item are joined, and of links to other pages the text is left.
    """
    page, title, hidden, of_page, fenced = "", "", "", "", False
    sections: list[Section] = []
    blocks: list[str] = []
    lines: list[str] = []

    def close_block() -> None:
        if lines:
            block = "\n".join(lines)
            blocks.append(block if _FENCE.match(block) else _RELATIVE_LINK.sub(r"\1", block))
            lines.clear()

    def close_section() -> None:
        close_block()
        if blocks:
            sections.append(Section(page, title or page, tuple(blocks), hidden, of_page))
            blocks.clear()

    for line in _KEYWORDS.sub(lambda comment: " ".join(comment[0].split()), markdown).splitlines():
        if _FENCE.match(line):
            if not fenced:
                close_block()
            lines.append(line)
            if fenced:
                close_block()
            fenced = not fenced
        elif fenced:
            lines.append(line)
        elif line.startswith(("# ", "## ")):
            close_section()
            title, hidden = line.lstrip("#").strip(), ""
            if line.startswith("# "):
                page, of_page = title, ""
        elif comment := _KEYWORDS.match(line):
            hidden = comment[1]
            if title == page:
                of_page = hidden
        elif lines and _CONTINUATION.match(line) and not lines[-1].startswith("|"):
            lines[-1] += f" {line.strip()}"
        elif line.strip():
            lines.append(line)
        else:
            close_block()
    close_section()
    return sections


_building = threading.Lock()


def manual() -> Manual:
    """The packaged manual, read on the first call and shared from then on."""
    with _building:  # once, however many turns start at the same time
        return _manual()


@cache
def _manual() -> Manual:
    pages = sorted(folder().glob("*.md"))
    return Manual(section for page in pages for section in read_page(page.read_text("utf-8")))


def folder() -> Path:
    """The folder with the manual's pages."""
    folders = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")  # in a wheel, in a checkout
    return next(folder for folder in folders if (folder / "01-getting-started.md").is_file())
