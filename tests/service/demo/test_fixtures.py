"""Bulk synthetic history: exactly the requested size, appended, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select

from agentbook.service import demo, ids
from agentbook.service.store import tables
from service.demo.test_demo import NOW, fresh


def count(connection: Connection, name: str) -> int:
    return int(connection.execute(select(func.count()).select_from(tables.metadata.tables[name])).scalar_one())


@given(st.integers(1, 40), st.integers(0, 900), st.integers())
def test_the_history_has_exactly_the_requested_size(sessions: int, events: int, seed: int) -> None:
    connection = fresh()
    try:
        demo.fixtures(connection, sessions=sessions, events=events, seed=seed, now=NOW)
        assert (count(connection, "sessions"), count(connection, "events")) == (sessions, events)
        for row in connection.execute(select(tables.events)):
            assert ids.instant_of_ms(ids.milliseconds_of(row.id)) == row.created_at <= ids.instant(NOW)
    finally:
        connection.close()
        connection.engine.dispose()


def test_fixtures_are_appended() -> None:
    connection = fresh()
    demo.write(connection, now=NOW)
    more = {"accounts": 0, "workspaces": 4, "sessions": 100, "events": 2_000}
    before = {name: count(connection, name) for name in more}
    for _ in range(2):
        demo.fixtures(connection, sessions=50, events=1_000, seed=1, now=NOW)
    assert {name: count(connection, name) - before[name] for name in more} == more
    assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    connection.close()
    connection.engine.dispose()


def test_equal_seeds_give_equal_rows() -> None:
    rows = []
    for seed in (5, 5, 6):
        connection = fresh()
        demo.fixtures(connection, sessions=20, events=500, seed=seed, now=NOW)
        rows.append([tuple(row) for row in connection.execute(select(tables.events))])
        connection.close()
        connection.engine.dispose()
    assert rows[0] == rows[1] != rows[2]
