"""Measures analyses of many sessions, turns and steps.

    python tests/benchmarks/topics.py [--quick]

The 50,000 sessions are about twelve subjects, a fifth of their words is of these. Goals
for topics: 60 s of CPU and 2 GB of memory, the frame of turns included, and as many
topics as subjects. For two checks of each session without a judge: 10 s of CPU; for two
groups of a million turns: 3 s; for paths and loops of a million events, whose turns and
steps are there: 2 s; for a reading list of 100,000 turns: 1 s; for failure modes of
5,000 notes: 5 s. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import sys
import time

import numpy as np
import pandas as pd
from report import Report

import agentbook as ab

SUBJECTS = 12


def invented(sessions: int) -> pd.DataFrame:
    """Turns with questions; words are as frequent as in a language (Zipf)."""
    rng = random.Random(3)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(60_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    own = [["".join(rng.choices(syllables, k=4)) for _ in range(60)] for _ in range(SUBJECTS)]
    rows = []
    for session in range(sessions):
        subject = rng.choice(own)
        for turn in range(1, rng.choice([2, 4, 8]) + 1):
            length = rng.choice([6, 12, 25, 60])
            text = rng.choices(words, cum_weights=weights, k=length) + rng.choices(subject, k=max(length // 5, 1))
            rows.append((f"s{session:08d}", turn, " ".join(text)))
    table = pd.DataFrame(rows, columns=["session_id", "turn", "prompt"]).astype({"session_id": "str", "prompt": "str"})
    return table.assign(asked_at=pd.Timestamp("2026-10-05T08:00Z"), status="answered")


def ran(events: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Turns, and their steps: as many as so many events would hold."""
    rng = np.random.default_rng(5)
    numbers = np.arange(events // 4)
    ids = {"session_id": pd.Series((numbers // 5).astype(str), dtype="str"), "turn": numbers % 5 + 1}
    at = pd.Timestamp("2026-10-05T08:00Z") + pd.to_timedelta(numbers, unit="s")
    table = pd.DataFrame({**ids, "asked_at": at, "replied_at": at, "latency_s": rng.lognormal(1, 1, len(numbers))})
    status = np.where(rng.random(len(numbers)) < 0.03, "failed", "answered")
    table = table.assign(status=status, tokens=900, agent=rng.choice(["a", "b", "c"], len(numbers)))
    row = np.sort(rng.integers(0, len(numbers), events // 2))
    steps = table.iloc[row][["session_id", "turn"]].assign(step=np.arange(len(row)), status="done", duration_s=0.5)
    known = pd.Series([f'{{"page": {n}}}' for n in range(40)], dtype="str")
    steps = steps.assign(
        name=rng.choice(["find", "read", "send", "verify"], len(row)), started_at=table["asked_at"].to_numpy()[row],
        arguments=known.take(rng.integers(0, 40, len(row))).array, result=known.take(rng.integers(0, 3, len(row))).array,
    )  # fmt: skip
    return table, steps.reset_index(drop=True)


def noted(turns: pd.DataFrame) -> pd.DataFrame:
    """Labels with the first words of 5,000 questions as notes."""
    notes = turns["prompt"].head(5_000).str.split().str[:8].str.join(" ")
    ids = [f"m{number}" for number in range(len(notes))]
    return pd.DataFrame({"message_id": ids, "question": "note", "value": notes, "kind": "text", "rater": "ada"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    sessions = 5_000 if parser.parse_args().quick else 50_000
    turns = invented(sessions)
    begin, cpu = time.perf_counter(), time.process_time()
    topics = ab.topics(turns)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    report = Report()
    label = f"{sessions:,} sessions, {len(turns):,} questions"
    report.row(f"topics of {label}: CPU", f"{cpu:.0f} s", f"{seconds:.0f} s in all", cpu / 60, 1)
    report.row("memory of the process", f"{memory:.2f} GB", "2 GB", memory / 2, 1)
    found = int((topics.frame["topic"] != "other").sum())
    report.row("topics found", f"{found}", f"{SUBJECTS} subjects", found / SUBJECTS, 1)
    million = 1_000_000 if sessions == 50_000 else 100_000
    table, steps = ran(million)
    part = million / 1_000_000
    for label, goal, work in (
        (f"paths and loops of {million:,} events", 2 * part, lambda: [f(table, steps=steps) for f in (ab.paths, ab.loops)]),
        (f"a reading list of {len(table):,} turns", max(len(table) / 100_000, 0.2), lambda: ab.reading_list(table)),
        ("failure modes of 5,000 notes", 5, lambda: ab.failure_modes(noted(turns))),
    ):  # fmt: skip
        cpu = time.process_time()
        work()
        cpu = time.process_time() - cpu
        report.row(f"{label}: CPU", f"{cpu:.2f} s", f"{goal:g} s", cpu / goal, 1)
    at = turns["asked_at"] + pd.to_timedelta(np.arange(len(turns)), unit="s")
    number = pd.Series(np.arange(len(turns))).astype("str")
    turns = turns.assign(asked_at=at, replied_at=at, message_id=number, reply_id=number, latency_s=2.0)
    turns = turns.assign(reply=turns["prompt"])
    cpu = time.process_time()
    scores = ab.score(turns, {"short": ab.checks.length(max=80), "polite": "please"}, unit="session")
    cpu = time.process_time() - cpu
    report.row(f"scores of {sessions:,} sessions: CPU", f"{cpu:.1f} s", f"{len(scores):,} grades", cpu / 10, 1)
    draw, count = np.random.default_rng(4), 20 * sessions
    at = pd.Timestamp("2026-10-05T08:00Z") + pd.to_timedelta(np.sort(draw.random(count)) * 28, unit="D")
    many = pd.DataFrame({"session_id": draw.integers(0, count // 5, count).astype(str), "asked_at": at})
    many = many.assign(replied_at=at, latency_s=draw.exponential(5, count), turn=1, status="answered")
    many = many.assign(version=np.where(draw.random(count) < 0.5, "1.0.0", "2.0.0"))
    cpu = time.process_time()
    ab.compare_groups(many, by="version")
    cpu = time.process_time() - cpu
    report.row(f"groups of {count:,} turns: CPU", f"{cpu:.1f} s", "2 metrics", cpu / 3, 1)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
