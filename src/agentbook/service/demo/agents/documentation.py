# ruff: noqa: E501 - the table of synonyms is read in columns, not in lines
"""The documentation that ships in the package, section by section, and a full-text search over it.

The index is SQLite's FTS5 in memory, ranked by bm25, built once in a process. A query is made of quoted words only, so nothing a
person writes is ever read as FTS syntax.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .tokenize import stem, subjects, words

# How much a hit counts: in the document's title, the section's title, the section's text.
_WEIGHTS = (2.5, 6.0, 1.0)
# One line that is nothing but the word would beat every page that explains it.
_OF_A_DEFINITION = 0.5
# A section that is called exactly what is asked for is what is asked for.
_OF_ITS_NAMESAKE = 1.7
# What people say -> what the documentation says.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "answer": ("reply",), "response": ("reply", "error"), "conversation": ("session", "chat"), "dialogue": ("session",), "install": ("pip",),
    "setup": ("install",), "begin": ("start",), "dataframe": ("pandas", "frame"), "table": ("frame", "pandas"), "password": ("secret", "key"),
    "token": ("oauth", "key"), "permission": ("scope",), "permissions": ("scope", "scopes"), "rights": ("scope",), "access": ("scope", "see"),
    "disconnect": ("reconnect", "cut"), "disconnected": ("reconnect", "cut"), "drops": ("reconnect", "cut"), "websocket": ("socket", "stream"), "live": ("stream",),
    "resume": ("from_id", "reconnect"), "paging": ("page", "limit"), "pagination": ("page", "limit", "envelope"), "pages": ("page",),
    "throttled": ("429", "rate"), "throttling": ("429", "rate"), "ratelimit": ("429",), "rate": ("429",), "crash": ("error", "failed"), "bug": ("error",), "broken": ("failed",),
    "exception": ("error", "exceptions"), "exceptions": ("error",), "login": ("sign", "oauth"), "signin": ("sign",), "log": ("sign",), "cli": ("command",), "shell": ("command",),
    "terminal": ("command",), "commands": ("command",), "server": ("service",), "offline": ("embedded", "stand"), "local": ("embedded",), "delete": ("uninstall", "revoke"), "remove": ("uninstall", "revoke"),
    "rotate": ("stale", "updated"), "rotation": ("stale", "updated"), "old": ("stale",), "outdated": ("stale",), "leak": ("secrets", "masked"), "missing": ("restricted", "404"),
    "hang": ("reply", "never"), "hangs": ("never",), "stuck": ("never",), "slow": ("latency",), "speed": ("latency",), "latency": ("latency_s",), "wait": ("latency",), "model": ("llm",), "gpt": ("llm",), "openai": ("llm",),
    "prompt": ("system_prompt",), "widget": ("panel",), "jupyter": ("jupyterlab", "notebook"), "notebook": ("jupyterlab",), "organisation": ("organization",), "organisations": ("organization",),
    "mybinder": ("binder",), "cloud": ("binder",), "history": ("events",), "messages": ("events",), "heatmap": ("activity",), "chart": ("plot",), "graph": ("plot",), "quota": ("limit",), "throughput": ("limit",),
    "unused": ("last", "use"), "timeout": ("timeout_s", "timed"), "duplicate": ("duplicates",), "dupes": ("duplicates",), "export": ("parquet",), "proxy": ("proxies",), "reconnecting": ("reconnect",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a page. `blocks` are its paragraphs, lists, tables and code blocks, each whole."""

    document: str
    title: str
    blocks: tuple[str, ...]

    @property
    def source(self) -> str:
        """How the section is cited: document › section."""
        return self.document if self.title == self.document else f"{self.document} › {self.title}"

    @property
    def text(self) -> str:
        """The section as it stands in the page."""
        return "\n\n".join(self.blocks)

    @property
    def has_example(self) -> bool:
        """Whether it shows code."""
        return any(block.startswith("```") for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that was found. `covered` is the share of the query's words in it, `score` is better the greater."""

    section: Section
    covered: float
    score: float


class Library:
    """Sections that can be searched. Safe to use from several threads.

    Parameters
    ----------
    sections
        What it holds.

    Examples
    --------
    >>> library = Library(read_page("# Chat\\n\\n## Open a panel\\n\\nCall `ChatPanel`.\\n"))
    >>> library.search("How do I open a panel?")[0].section.source
    'Chat › Open a panel'
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)
        self._vocabulary = [{stem(word) for word in _indexed_words(section)} for section in self.sections]
        self._lock = threading.Lock()
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(document, title, body, tokenize = \"porter unicode61 tokenchars '_'\", prefix = '3 4')"
        )
        self._index.executemany(
            "INSERT INTO pages (rowid, document, title, body) VALUES (?, ?, ?, ?)",
            [(number, section.document, section.title, section.text) for number, section in enumerate(self.sections)],
        )

    def search(self, query: str, most: int = 5) -> list[Hit]:
        """The best sections for a question, best first; empty where nothing fits.

        Words are tried whole with their synonyms first, then as beginnings of words.
        """
        asked = subjects(query) or [word for word in words(query) if len(word) > 3]
        asked = asked[:24]
        if not asked:
            return []
        hits = self._ranked(asked, [_any_of((word, *_synonyms(word))) for word in asked])
        if not hits:
            stems = [stem(word) for word in asked if len(stem(word)) >= 3]
            hits = self._ranked(asked, [f"{_quoted(word)}*" for word in stems], prefix=True)
        return hits[:most]

    def documents(self) -> list[str]:
        """The titles of all pages, in order."""
        return list(dict.fromkeys(section.document for section in self.sections))

    def _ranked(self, asked: Sequence[str], terms: Sequence[str], *, prefix: bool = False) -> list[Hit]:
        if not terms:
            return []
        sql = "SELECT rowid, bm25(pages, ?, ?, ?) FROM pages WHERE pages MATCH ? ORDER BY 2 LIMIT 40"
        with self._lock:
            rows = self._index.execute(sql, (*_WEIGHTS, " OR ".join(terms))).fetchall()
        hits = []
        for number, rank in rows:
            covered = self._covered(asked, number, prefix)
            # bm25 alone lets one rare word beat three that fit; the share of words that are there weighs against it.
            section = self.sections[number]
            weight = _OF_A_DEFINITION if section.document == "Glossary" else 1.0
            if {stem(word) for word in subjects(section.title)} == {stem(word) for word in asked}:
                weight *= _OF_ITS_NAMESAKE
            hits.append(Hit(section, covered, -rank * weight * (0.3 + covered) ** 2))
        # At least half of what was asked must be there: one shared word is no answer.
        return sorted((hit for hit in hits if hit.covered >= 0.5), key=lambda hit: -hit.score)

    def _covered(self, asked: Sequence[str], number: int, prefix: bool) -> float:
        vocabulary = self._vocabulary[number]
        found = 0.0
        for word in asked:
            if stem(word) in vocabulary or (prefix and any(own.startswith(stem(word)) for own in vocabulary)):
                found += 1
            elif any(stem(other) in vocabulary for other in _synonyms(word)):
                found += 0.8
        return found / len(asked)


def _indexed_words(section: Section) -> list[str]:
    text = f"{section.document} {section.title} {section.text}"
    # Names of code count as a whole and in their parts: `load_events` answers "load events" too.
    return [part for word in words(text) for part in {word, *re.split(r"[_'’-]", word)}]


def _synonyms(word: str) -> tuple[str, ...]:
    return SYNONYMS.get(word) or SYNONYMS.get(word.removesuffix("s")) or ()


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _any_of(alternatives: Sequence[str]) -> str:
    return f"({' OR '.join(_quoted(word) for word in alternatives)})"


_FENCE = re.compile(r"^(```|~~~)")
# A line that goes on with the paragraph or list item of the line before.
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


@cache
def library() -> Library:
    """The packaged documentation. Built at the first call, shared from then on."""
    pages = sorted(manual().glob("*.md"))
    return Library(section for page in pages for section in read_page(page.read_text(encoding="utf-8")))


def manual() -> Path:
    """The folder with the manual's pages."""
    package = Path(__file__).parents[3]
    folders = (package / "docs", package.parents[1] / "docs")  # in a wheel, in a checkout
    return next(folder for folder in folders if (folder / "01-getting-started.md").is_file())
