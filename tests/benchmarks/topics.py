"""Measures `ab.topics` on 50,000 invented sessions, and what it found in them.

    python tests/benchmarks/topics.py [--quick]

The sessions are about twelve subjects, a fifth of their words is of these. Goals: 60 s
of CPU and 2 GB of memory, the frame of turns included, and as many topics as subjects.
The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import sys
import time

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
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
