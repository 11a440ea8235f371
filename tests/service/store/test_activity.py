from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from agentbook.service import admin
from agentbook.service.store import Store
from agentbook.service.store.activity import READABLE, check_select
from agentbook.service.store.tables import metadata
from service.world import World


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
def test_anything_but_reading_is_rejected(store: Store, sql: str) -> None:
    with pytest.raises(PermissionError):
        store.activity("me").rows(sql, {})
    assert store.read_now(lambda db: db.exec_driver_sql("SELECT count(*) FROM accounts").scalar()) == 2


def test_an_invalid_query_raises_its_error(store: Store) -> None:
    with pytest.raises(Exception, match="no such column") as caught:
        store.activity("me").rows("SELECT nonsense FROM accounts", {})
    assert not isinstance(caught.value, DBAPIError | PermissionError)


def test_the_views_cannot_be_bypassed(store: Store) -> None:
    for sql in ("SELECT * FROM main.accounts", "WITH accounts AS (SELECT * FROM main.accounts) SELECT * FROM accounts"):
        with pytest.raises(Exception, match=r"no such table: main\.accounts"):
            store.activity("me").rows(sql, {})
    assert store.activity("me").rows("WITH a AS (SELECT * FROM temp.accounts) SELECT id FROM a", {}) == []
    assert store.activity("x' OR '1' = '1").rows("SELECT id FROM accounts", {}) == []


async def filled(world: World, owner: str) -> dict[str, set[str]]:
    """A row of each readable table that belongs to `owner`: their ids."""
    lab = world.workspace(owner=owner)
    agent = world.agent_row(owner=owner, name=f"{owner}s")
    version = world.add("agent_versions", agent_id=agent, creator_id="x", type="COMMITTED", version_number="1.0.0")
    installed = world.add("workspace_agents", workspace_id=lab, agent_id=agent, creator_id="x")
    key = world.full if owner == "acme" else world.key(owner, "sessions:write")
    session = await world.start("hello", key, workspace=lab, agent=agent)
    await world.idle()
    events = {row["id"] for row in world.rows("events") if row["session_id"] == session}
    assert events
    ids = {"workspaces": lab, "agents": agent, "agent_versions": version, "workspace_agents": installed}
    return {"accounts": {world.accounts[owner]}, "sessions": {session}, "events": events} | {
        table: {id_} for table, id_ in ids.items()
    }


@pytest.mark.anyio
async def test_an_agent_reads_the_rows_of_its_own_account_alone(world: World) -> None:
    own, others = await filled(world, "acme"), await filled(world, "bob")
    assert set(own) == READABLE
    acme, bob = (world.store.activity(world.accounts[name]) for name in ("acme", "bob"))
    for table in sorted(READABLE):
        seen = {row["id"] for row in acme.rows(f"SELECT * FROM {table}", {})}
        people = {world.accounts["ada"]} if table == "accounts" else set()  # a member of the organization
        assert seen == own[table] | people, table
        assert {row["id"] for row in bob.rows(f"SELECT * FROM {table}", {})} == others[table], table
        assert acme.rows(f"SELECT count(*) AS n FROM {table}", {}) == [{"n": len(seen)}]


@pytest.mark.anyio
async def test_a_copied_prompt_stays_out(world: World) -> None:
    fork = world.agent_row("bob", "fork")
    row = {"agent_id": fork, "creator_id": "x", "type": "COMMITTED", "version_number": "1.0.0"}
    world.add("agent_versions", **row, system_prompt="acme's", prompt_owner_id=world.accounts["acme"])
    world.add("agent_versions", **row, system_prompt="bob's own")
    reader = world.store.activity(world.accounts["bob"])
    assert reader.rows("SELECT system_prompt FROM agent_versions ORDER BY id", {}) == [
        {"system_prompt": None}, {"system_prompt": "bob's own"},
    ]  # fmt: skip
    assert reader.rows("SELECT count(*) AS n FROM agent_versions WHERE system_prompt LIKE 'acme%'", {}) == [{"n": 0}]


@pytest.mark.anyio
async def test_restricted_workspaces_and_other_peoples_prompts_stay_out(world: World) -> None:
    own, others = await filled(world, "acme"), await filled(world, "bob")
    world.change("workspaces", *own["workspaces"], should_restrict_members=True)
    world.change("agents", *others["agents"], is_public=True)
    acme = world.store.activity(world.accounts["acme"])
    for table in ("workspaces", "workspace_agents", "sessions", "events"):
        assert acme.rows(f"SELECT * FROM {table}", {}) == []
    assert {row["id"] for row in acme.rows("SELECT id FROM agents", {})} == own["agents"] | others["agents"]
    assert {row["id"] for row in acme.rows("SELECT id FROM agent_versions", {})} == own["agent_versions"]


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
    check_select(sql, metadata.tables.keys(), READABLE, SCHEMAS)


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
        check_select(sql, metadata.tables.keys(), READABLE, SCHEMAS)
