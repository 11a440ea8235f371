"""Measures everything between the wire and a frame: parsing, loading and files.

    python tests/benchmarks/speed.py [--quick]

Runs `parse.py`, `api.py` and `load.py` one after another and prints one table, with the
load of the machine beside each figure. All goals are ratios within this run, or are
marked as rows per second. Takes some ten minutes on two cores. The exit code is 1 if a
goal is missed.
"""

from __future__ import annotations

import argparse
import sys

import load
import parse
from report import Report

import api


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the events, fewer rounds")
    options = parser.parse_args()
    scale, rounds = (0.1, 2) if options.quick else (1.0, 3)
    report = Report()
    parse.measure(report, 40, 7 * rounds)
    api.measure(report)
    for measure in load.PARTS.values():
        measure(report, scale, rounds)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
