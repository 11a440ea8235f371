"""Measures analyses of sessions: `ab.topics`, `ab.score` and `ab.compare_groups`.

    python tests/benchmarks/topics.py [--quick]

The 50,000 sessions are about twelve subjects, a fifth of their words is of these. Goals
for topics: 60 s of CPU and 2 GB of memory, the frame of turns included, and as many
topics as subjects. Two checks of each session without a judge: 10 s of CPU. Two groups
of a million turns: 3 s of CPU. The exit code is 1 if a goal is missed.
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
