"""Compares turns, steps and percentiles with a rebuild from the service's database.

    python tests/benchmarks/rebuild.py 100000

The number is that of generated turns, besides those of the demo.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.rebuild import generated, raw
from support.rebuild_check import differences


def main() -> int:
    connection = generated(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    counts, problems = differences(raw(connection))
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()))
    print("\n".join(problems) or "all agree")
    return bool(problems)


if __name__ == "__main__":
    raise SystemExit(main())
