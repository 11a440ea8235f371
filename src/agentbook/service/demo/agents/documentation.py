# ruff: noqa: E501 - the table of synonyms
"""The packaged documentation, section by section, with full-text search.

It consists of the manual's pages and the docstrings of the public names. The index is
SQLite's FTS5 in memory, ranked by bm25, built once per process. A query consists of
quoted words only, so a question is never read as FTS syntax.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .docstrings import REFERENCE, read_docstrings
from .tokenize import counts_only, keywords, stem, words

# Weight of a hit in the document's title, the section's title, the section's text.
_WEIGHTS = (2.5, 6.0, 1.0)
# Without these, a one-line definition of a word would beat every page that explains it.
# So would a docstring, which repeats its name in few words, and the page for people who
# run a service for others, which mentions much of what other pages explain.
_FACTORS = {"Glossary": 0.5, REFERENCE: 0.3, "Deployment on PostgreSQL": 0.6}
# For the docstring of a name that occurs in the question, such as `load_events`.
_NAMED_FACTOR = 4.5
# For a section such as "What an agent is", if the question is "What is an agent?".
_DEFINITION, _DEFINITION_TITLE = re.compile(r"\W*what\b", re.IGNORECASE), re.compile(r"What .+ (?:is|are)")
_DEFINITION_FACTORS = {True: 1.5, False: 0.6}
# Text that is typed literally, such as %%chat; its words alone occur on many pages.
_LITERAL = re.compile(r"%{1,2}\w+|--[a-z][\w-]+")
# For a section whose title contains such a literal from the query.
_LITERAL_FACTOR = 1.7
# The bonus for a section whose title has the same words as the question.
_TITLE_WEIGHT = 0.5
_TITLE_STOP_WORDS = frozenset(
    "a an the i my me you your it its is are be can could do does did how what which where when why who of to in on for with and or from at by".split()  # noqa: SIM905
)
_SYNONYM_COVERAGE = 0.8
_MIN_COVERAGE = 0.5  # one shared word does not make an answer
_MAX_QUERY_WORDS = 24
_PACKAGE = Path(__file__).parents[3]
_MAX_WORD = 60  # characters; the index splits a word at apostrophes
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
    """A section that matches a query.

    `coverage` is the share of the query's words in it. A greater `score` is better.
    """

    section: Section
    coverage: float
    score: float


class Library:
    """Searchable sections. Safe to use from several threads.

    Parameters
    ----------
    sections
        The sections to search.

    Examples
    --------
    >>> page = "# Chat\\n\\n## Open a panel\\n\\nCall `ChatPanel`.\\n"
    >>> library = Library(read_page(page))
    >>> library.search("How do I open a panel?")[0].section.source
    'Chat › Open a panel'
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)
        self._vocabulary = [{stem(word) for word in _indexed_words(section)} for section in self.sections]
        self._titles = [set(map(stem, _title_words(section.title))) for section in self.sections]
        self._lock = threading.Lock()
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(document, title, body, tokenize = \"porter unicode61 tokenchars '_'\", prefix = '3 4')"
        )
        self._index.executemany(
            "INSERT INTO pages (rowid, document, title, body) VALUES (?, ?, ?, ?)",
            [(number, section.document, section.title, section.text) for number, section in enumerate(self.sections)],
        )

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The best sections for a question, best first; empty if nothing fits.

        Whole words and their synonyms are searched first, then prefixes.
        """
        query = _PHRASE.sub(lambda phrase: _PHRASES[" ".join(phrase[0].lower().split())], query)
        terms = keywords(query) or [word for word in words(query) if len(word) > 3]
        terms = [word[:_MAX_WORD] for word in terms[:_MAX_QUERY_WORDS]]
        if not terms:
            return []
        hits = self._rank(query, terms, [_any_of((word, *_synonyms(word))) for word in terms])
        if not hits:
            stems = [stem(word) for word in terms if len(stem(word)) >= 3]
            hits = self._rank(query, terms, [f"{_quote(word)}*" for word in stems], prefix=True)
        return hits[:limit]

    def documents(self) -> list[str]:
        """The titles of all pages, in order."""
        return list(dict.fromkeys(section.document for section in self.sections))

    def _rank(self, query: str, terms: Sequence[str], expressions: Sequence[str], *, prefix: bool = False) -> list[Hit]:
        if not expressions:
            return []
        sql = "SELECT rowid, bm25(pages, ?, ?, ?) FROM pages WHERE pages MATCH ? ORDER BY 2 LIMIT 40"
        with self._lock:
            rows = self._index.execute(sql, (*_WEIGHTS, " OR ".join(expressions))).fetchall()
            having = [self._having(word) for word in terms]
        hits = []
        question = _title_words(query)
        for number, rank in rows:
            coverage = self._coverage(terms, having, number, prefix)
            section = self.sections[number]
            factor = _FACTORS.get(section.document, 1.0)
            if section.document == REFERENCE and _is_spelled_out(section.title, query):
                factor *= _NAMED_FACTOR
            if _DEFINITION_TITLE.fullmatch(section.title):
                factor *= _DEFINITION_FACTORS[bool(_DEFINITION.match(query))]
            if any(literal in section.title for literal in _LITERAL.findall(query)):
                factor *= _LITERAL_FACTOR
            factor *= 1 + _TITLE_WEIGHT * _likeness(self._titles[number], question)
            # With bm25 alone, one rare word would beat three words that match.
            hits.append(Hit(section, coverage, -rank * factor * (0.3 + coverage) ** 2))
        return sorted((hit for hit in hits if hit.coverage >= _MIN_COVERAGE), key=lambda hit: -hit.score)

    def _having(self, word: str) -> set[int]:
        """The sections that have any form of a word, as the index stems it."""
        return {
            number for (number,) in self._index.execute("SELECT rowid FROM pages WHERE pages MATCH ?", (_quote(word),))
        }

    def _coverage(self, terms: Sequence[str], having: Sequence[set[int]], number: int, prefix: bool) -> float:
        vocabulary = self._vocabulary[number]
        matched = 0.0
        for word, sections in zip(terms, having, strict=True):
            if (
                number in sections
                or stem(word) in vocabulary
                or (prefix and any(entry.startswith(stem(word)) for entry in vocabulary))
            ):
                matched += 1
            elif not vocabulary.isdisjoint(_stems(word)):
                matched += _SYNONYM_COVERAGE
        return matched / len(terms)


def _indexed_words(section: Section) -> list[str]:
    text = f"{section.document} {section.title} {section.text}"
    # Identifiers count as a whole and in parts: `load_events` matches "load events"
    # too.
    return [part for word in words(text) for part in {word, *re.split(r"[_'’-]", word)}]


def _title_words(text: str) -> list[str]:
    """The words of a title or a question, without the most common ones.

    Unlike in `keywords`, verbs such as "get" count: in a title they say what to do.
    """
    return [word for word in words(text) if word not in _TITLE_STOP_WORDS and not counts_only(word)]


def _likeness(title: set[str], question: Sequence[str]) -> float:
    """How much a title and a question have in common, from 0 to 1."""
    shared = sum(
        1.0 if stem(word) in title else 0.0 if title.isdisjoint(_stems(word)) else _SYNONYM_COVERAGE
        for word in question
    )
    return min(1.0, 2 * shared / (len(title) + len(question) or 1))


def _stems(word: str) -> set[str]:
    """The stems of a word and of its synonyms."""
    return {stem(each) for each in (word, *_synonyms(word))}


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


def _quote(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _any_of(alternatives: Sequence[str]) -> str:
    return f"({' OR '.join(_quote(word) for word in alternatives)})"


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
