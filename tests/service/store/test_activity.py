from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from agentbook.service import admin
from agentbook.service.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    admin.create_account(made, "acme", "organization")
    admin.create_account(made, "bob", "user")
    admin.create_key(made, "acme", "k", [])
    yield made
    made.close()


def test_the_account_is_bound_whatever_is_asked_for(store: Store) -> None:
    reader = store.activity("me")
    assert reader.rows("SELECT :account_id AS who, :n AS n", {"account_id": "other", "n": 1}) == [{"who": "me", "n": 1}]


def test_counting_grouping_and_with(store: Store) -> None:
    acme = store.read_now(lambda db: db.exec_driver_sql("SELECT id FROM accounts WHERE name = 'acme'").scalar())
    reader = store.activity(str(acme))
    sql = "WITH a AS (SELECT type, count(*) AS n FROM accounts GROUP BY type) SELECT type, n FROM a ORDER BY type"
    assert reader.rows(sql, {}) == [{"type": "organization", "n": 1}]
    assert reader.rows("SELECT count(*) AS n FROM sessions s JOIN workspaces w ON w.id = s.workspace_id", {}) == [
        {"n": 0}
    ]
    assert reader.rows("SELECT json_extract(:wire, '$.a.b') AS b", {"wire": '{"a": {"b": 3}}'}) == [{"b": 3}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT secret_sha256 FROM api_keys",
        "SELECT * FROM accounts WHERE id IN (SELECT account_id FROM api_keys)",
        "SELECT count(*) FROM api_keys",
        "DELETE FROM accounts",
        "UPDATE accounts SET name = 'x'",
        "INSERT INTO meta VALUES ('a', 'b')",
        "DROP TABLE accounts",
        "PRAGMA query_only = 0",
        "ATTACH 'elsewhere.db' AS other",
        "SELECT 1; SELECT 2",
        "SELECT count(*) FROM memberships",
        "SELECT * FROM memberships",
        "SELECT name FROM pragma_database_list",
        "SELECT sql FROM sqlite_temp_master",
        "DROP VIEW sessions",
    ],
)
def test_anything_but_reading_what_is_meant_to_be_read_is_refused(store: Store, sql: str) -> None:
    with pytest.raises(PermissionError):
        store.activity("me").rows(sql, {})
    assert store.read_now(lambda db: db.exec_driver_sql("SELECT count(*) FROM accounts").scalar()) == 2


def test_a_mistake_in_a_query_says_so(store: Store) -> None:
    with pytest.raises(Exception, match="no such column") as caught:
        store.activity("me").rows("SELECT nonsense FROM accounts", {})
    assert not isinstance(caught.value, DBAPIError | PermissionError)


def test_there_is_no_way_around_the_views(store: Store) -> None:
    for sql in ("SELECT * FROM main.accounts", "WITH accounts AS (SELECT * FROM main.accounts) SELECT * FROM accounts"):
        with pytest.raises(Exception, match=r"no such table: main\.accounts"):
            store.activity("me").rows(sql, {})
    assert store.activity("me").rows("WITH a AS (SELECT * FROM temp.accounts) SELECT id FROM a", {}) == []
    assert store.activity("x' OR '1' = '1").rows("SELECT id FROM accounts", {}) == []
