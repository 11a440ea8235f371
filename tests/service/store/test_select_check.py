from __future__ import annotations

import pytest

from agentbook.service.store.activity import READABLE
from agentbook.service.store.select_check import check
from agentbook.service.store.tables import metadata

SCHEMAS = frozenset({"public", "information_schema", "pg_catalog", "other"})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM events WHERE session_id = :id AND type = 'it''s; DROP TABLE x -- api_keys'",
        "WITH a AS (SELECT type, COUNT(DISTINCT id) AS n FROM sessions GROUP BY 1) SELECT * FROM a WHERE n IN (1, 2)",
        "SELECT substr(e.created_at,1,10) AS day FROM events e WHERE e.wire LIKE :reply ESCAPE '\\' ORDER BY 1 LIMIT :api_keys",
    ],
)
def test_one_select_over_what_may_be_read(sql: str) -> None:
    check(sql, metadata.tables.keys(), READABLE, SCHEMAS)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM events",
        "SELECT 1; SELECT 2",
        "SELECT * FROM api_keys",
        "SELECT * FROM Api_Keys",
        'SELECT * FROM "api_keys"',
        'SELECT * FROM U&"api\\005fkeys"',
        "SELECT E'\\'', secret_sha256 FROM api_keys WHERE id <> ''",
        "SELECT U&'\\' , 1",
        "SELECT 'a",
        "SELECT $$a$$",
        "SELECT 1 /* */",
        "SELECT 1 -- x",
        "SELECT * FROM other.things",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM pg_shadow",
        "SELECT pg_sleep(10)",
        "SELECT query_to_xml ('select 1', true, true, '')",
        "SELECT * INTO copied FROM events",
        "SELECT * FROM events FOR UPDATE",
        "WITH gone AS (DELETE FROM events RETURNING id) SELECT * FROM gone",
    ],
)
def test_everything_else_is_refused(sql: str) -> None:
    with pytest.raises(PermissionError, match="Agents may"):
        check(sql, metadata.tables.keys(), READABLE, SCHEMAS)
