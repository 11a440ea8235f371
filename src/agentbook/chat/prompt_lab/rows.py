"""The results as plain values, for the table in the page.

The page gets each row once, and again when it changes. The HTML of replies and of their
differences takes time, so it is made only when a row comes near the view.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from ..._text import clip, seconds
from ...evaluation.experiment import Answer, Experiment, Key
from ...evaluation.inputs import describe_origin
from ...events.turns import how_incomplete
from ..html.markdown import render
from ..html.sanitize import visible
from .diff import PromptDiff
from .lab import AgentLab

PREVIEW = 400  # characters of a reply that the page has before a row is near the view
MAX_COMPARED = 20_000  # characters: longer replies are shown as they are
MAX_VERSIONS = 3  # named in a heading
_UNFINISHED = "The agent may still finish; Run looks for its reply."

# Equal replies are rendered once, for the page and for the saved notebook.
rendered = functools.lru_cache(maxsize=4096)(render)


class ResultRows:
    """The page's copy of the results. Several threads may use it.

    Attributes
    ----------
    version : int
        Counts the messages of `changes`, so that a page sees when it has missed one.
    """

    def __init__(self, lab: AgentLab, seed: str) -> None:
        self.version = 0
        self._lab, self._seed = lab, seed
        self._ids: dict[str, int] = {}
        self._inputs: list[str] = []  # by id
        self._rows: dict[int, dict[str, Any]] = {}
        self._head: dict[str, Any] = {"variants": [], "checks": [], "seed": seed}
        self._order: list[int] = []
        self._lock = threading.RLock()

    def snapshot(self) -> dict[str, Any]:
        """Everything a page needs to draw from scratch."""
        with self._lock:
            return {
                "kind": "snapshot",
                "version": self.version,
                "head": self._head,
                "order": self._order,
                "rows": [self._rows[row] for row in self._order],
            }

    def changes(self, changed: set[str] | None) -> dict[str, Any] | None:
        """The message with what a page does not have yet; None if it has everything.

        Parameters
        ----------
        changed : set of str or None
            The inputs that may have changed; None for all.
        """
        # Not of a copy: a run changes one row of thousands, many times a second.
        experiment = self._lab
        answers = experiment.answers
        groups: dict[str, list[Answer]] = {}
        for answer in answers:
            groups.setdefault(answer.input, []).append(answer)
        with self._lock:
            regressions = self._lab.regressions
            columns = [] if regressions is None else [regressions["variant"], regressions["input"]]
            broken = set(zip(*columns, strict=True))
            # What the last run broke comes first.
            names = list(experiment.variants)
            texts = sorted(groups, key=lambda text: not any((name, text) in broken for name in names))
            versions, order = version_labels(answers), [self._id(text) for text in texts]
            head = {
                "variants": [{"name": visible(name), "version": visible(versions.get(name, ""))} for name in names],
                "checks": [visible(name) for name in experiment.all_checks],
                "seed": self._seed,
            }
            before = _passed_before(experiment, broken)
            # An input may be present before its change is known.
            due = [text for text in groups if changed is None or text in changed or self._ids[text] not in self._rows]
            fresh = [self._row(experiment, text, groups[text], before) for text in due]
            rows = [row for row in fresh if self._rows.get(row["id"]) != row]
            message = {
                "kind": "rows",
                "rows": rows,
                "head": None if head == self._head else head,
                "order": None if order == self._order else order,
            }
            if not rows and message["head"] is message["order"] is None:
                return None
            self._rows.update((row["id"], row) for row in rows)
            self._head, self._order = head, order
            self.version += 1
            return {**message, "version": self.version}

    def bodies(self, ids: Iterable[int], against: int | None) -> dict[str, Any]:
        """The message with the replies of rows as safe HTML, or their differences.

        Parameters
        ----------
        ids : iterable of int
        against : int or None
            The variant whose replies the others are compared with, by position.
        """
        names = list(self._lab.variants)
        baseline = names[against] if against is not None and against < len(names) else None
        texts = {row: self._inputs[row] for row in ids if 0 <= row < len(self._inputs)}
        cells = self._cells(set(texts.values()))
        rows = [
            [row, [_html_of(cells.get((name, text), ()), cells.get((baseline, text), ()), baseline) for name in names]]
            for row, text in texts.items()
        ]
        return {"kind": "bodies", "against": against, "rows": rows}

    def details(self, row: int, variant: int, repeat: int) -> dict[str, Any] | None:
        """The message with the details of a reply, and the replies to earlier texts."""
        key = self.key(row, variant, repeat)
        answer = None if key is None else self._lab.answered.get(key)
        if answer is None:
            return None
        earlier = [
            [
                f"Earlier, with “{visible(clip(revision.variant.prompt_label, 60))}”",
                visible(each.shown or each.reason or ""),
            ]
            for revision in self._lab.revisions(answer.variant)
            for each in revision.answers
            if (each.input, each.repeat) == (answer.input, answer.repeat)
        ]
        items = [[name, visible(text)] for name, text in _items(answer)]
        return {"kind": "details", "key": f"{row}/{variant}/{repeat}", "row": row, "items": items, "earlier": earlier}

    def key(self, row: int, variant: int, repeat: int) -> Key | None:
        """The key of the answer in a cell of the page; None if it has no such cell."""
        names = list(self._lab.variants)
        if not (0 <= row < len(self._inputs) and 0 <= variant < len(names)):
            return None
        return names[variant], self._inputs[row], repeat

    def _id(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = len(self._inputs)
            self._inputs.append(text)
        return self._ids[text]

    def _cells(self, texts: Set[str]) -> dict[tuple[str | None, str], list[Answer]]:
        """The answers to these inputs by variant and input, repeats in order."""
        stored = [each for each in list(self._lab.answered.values()) if each.input in texts]
        cells: dict[tuple[str | None, str], list[Answer]] = {}
        for answer in sorted(stored, key=lambda each: each.repeat):
            cells.setdefault((answer.variant, answer.input), []).append(answer)
        return cells

    def _row(
        self, experiment: Experiment, text: str, answers: Sequence[Answer], before: Mapping[Key, bool | None]
    ) -> dict[str, Any]:
        cells: dict[str, list[dict[str, Any]]] = {name: [] for name in experiment.variants}
        checks, origin = list(experiment.all_checks), describe_origin(experiment.input_set.known(text).origin)
        for answer in answers:
            if answer.variant in cells:
                cells[answer.variant].append(_reply(answer, checks, before.get(answer.key)))
        return {"id": self._id(text), "input": visible(text), "origin": origin, "cells": list(cells.values())}


def version_labels(answers: Iterable[Answer]) -> dict[str, str]:
    """The versions that each variant ran as, in words: a template has one per row.

    Examples
    --------
    >>> version_labels(Answer("brief", str(n), version=f"1.0.{n}") for n in range(60))
    {'brief': '60 versions'}
    """
    versions: dict[str, dict[str, None]] = {}
    for answer in answers:
        if answer.version:
            versions.setdefault(answer.variant, {})[answer.version] = None
    most = MAX_VERSIONS
    return {name: ", ".join(each) if len(each) <= most else f"{len(each)} versions" for name, each in versions.items()}


def _passed_before(experiment: Experiment, broken: Set[tuple[str, str]]) -> dict[Key, bool | None]:
    """Whether the last earlier text of each variant passed, by question.

    The cells that are `broken` passed in an earlier run.
    """
    checks = list(experiment.all_checks)
    passed: dict[Key, bool | None] = {key: True for key in experiment.answered if key[:2] in broken}
    for name in experiment.variants:
        for revision in experiment.revisions(name):
            for answer in revision.answers:
                passed.setdefault((name, answer.input, answer.repeat), answer.passed(checks))
    return passed


def _reply(answer: Answer, checks: Sequence[str], before: bool | None) -> dict[str, Any]:
    verdicts = [answer.verdicts.get(name) for name in checks]
    reason = answer.reason or ("" if answer.status == "answered" else _UNFINISHED)
    return {
        "repeat": answer.repeat,
        "status": answer.status,
        "text": visible(answer.shown[:PREVIEW]),
        "reason": visible(reason),
        "passed": answer.passed(checks),
        "before": before,
        "verdicts": [each and [each.passed, each.score, visible(each.error or each.reason or "")] for each in verdicts],
        "seconds": answer.latency_s,
        "finish": visible(how_incomplete(answer.finish_reason) or ""),
        "thumb": answer.thumb,
        "note": answer.note or "",
    }


def _html_of(answers: Sequence[Answer], baselines: Sequence[Answer], baseline: str | None) -> list[str | None]:
    by_repeat = {answer.repeat: answer.shown for answer in baselines}
    return [None if each.reply is None else _body(each, by_repeat.get(each.repeat), baseline) for each in answers]


def _body(answer: Answer, other: str | None, baseline: str | None) -> str:
    reply = answer.shown
    if other is None or answer.variant == baseline or max(len(reply), len(other)) > MAX_COMPARED:
        return rendered(reply)
    return PromptDiff(other, reply, baseline or "", answer.variant).to_html()


def _items(answer: Answer) -> Iterator[tuple[str, str]]:
    """What is known about a reply, by name."""
    values: Mapping[str, str | None] = {
        "Version": answer.version,
        "Agent": answer.agent,
        "Latency": None if answer.latency_s is None else seconds(answer.latency_s),
        "Steps": str(len(answer.steps)) if answer.steps else None,
        "Model": answer.model,
        "Tokens": _tokens(answer),
        "Cost": None if answer.cost is None else f"{answer.cost:.3g}",
        "Finish reason": answer.finish_reason,
        "Asked": f"{answer.asked_at:%Y-%m-%d %H:%M:%S} UTC" if answer.asked_at else None,
        "Session": answer.session_id,
        "Request": answer.request_id,
    }
    yield from ((name, value) for name, value in values.items() if value)
    for name, verdict in answer.verdicts.items():
        if verdict.error or verdict.reason:
            yield name, " – ".join(filter(None, (verdict.error or verdict.reason, verdict.judge)))


def _tokens(answer: Answer) -> str | None:
    if answer.input_tokens is None and answer.output_tokens is None:
        return None if answer.tokens is None else f"{answer.tokens:,}"
    counts = ((answer.input_tokens, "in"), (answer.output_tokens, "out"))
    return ", ".join(f"{'?' if count is None else f'{count:,}'} {name}" for count, name in counts)
