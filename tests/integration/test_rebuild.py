"""Turns, steps and percentiles agree with a rebuild from the service's database.

``python tests/benchmarks/rebuild.py 100000`` compares as many generated turns.
"""

from __future__ import annotations

from support.rebuild import generated, raw
from support.rebuild_check import differences


def test_the_analyses_agree_with_a_rebuild_from_the_database() -> None:
    connection = generated(1_500)
    try:
        counts, problems = differences(raw(connection))
    finally:
        connection.close()
        connection.engine.dispose()
    assert problems == []
    assert counts["turns"] > 3_000, "the demo's turns and the generated ones"
    assert counts["steps"] > 3_000
    assert min(counts[status] for status in ("answered", "failed", "unanswered")) > 20
    assert counts["order"] > 100, "some are paired by the order of the questions"
