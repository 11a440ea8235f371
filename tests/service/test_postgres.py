"""The service on PostgreSQL: tests that work with any database, and a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from agentbook.service import admin
from agentbook.service.auth import SCOPES
from agentbook.service.store import Store
from agentbook.service.store.activity import READABLE
from service.databases import HOW_TO_GET_IT, VARIABLE, Cluster, schema_url, server_binaries
from service.process import Service, command

HERE = Path(__file__).parent
# Whole modules whose stores come from `databases.open_store`.
MODULES = (
    "oauth/test_access_tokens.py",
    "oauth/test_authorize.py",
    "oauth/test_clients.py",
    "oauth/test_metadata.py",
    "oauth/test_token.py",
    "operations/test_access.py",
    "operations/test_accounts.py",
    "operations/test_agents.py",
    "operations/test_credentials.py",
    "operations/test_members.py",
    "operations/test_sessions.py",
    "operations/test_trigger_keys.py",
    "operations/test_visibility.py",
    "operations/test_workspaces.py",
    "pages/test_pages.py",
    "store/test_activity.py",
    "store/test_events.py",
    "store/test_writer.py",
    "turns/test_run_limits.py",
    "turns/test_runner.py",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    binaries = server_binaries()
    if binaries is None:
        pytest.skip(HOW_TO_GET_IT)
    pytest.importorskip("psycopg", reason=HOW_TO_GET_IT)
    with Cluster(binaries) as running:
        yield running


# Single tests of modules that otherwise test SQLite's files.
TESTS = ("store/test_engine.py::test_a_store_of_an_earlier_version_gets_its_tables_and_keeps_what_it_has",)


def test_the_suite_runs_on_it(cluster: Cluster) -> None:
    chosen = [str(HERE / module) for module in (*MODULES, *TESTS)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--maxfail=10", "-p", "no:cacheprovider", *chosen],
        cwd=HERE.parents[1],
        env={**os.environ, VARIABLE: cluster.url},
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]


def test_the_service_from_the_shell(cluster: Cluster, tmp_path: Path) -> None:
    url = schema_url(cluster.url, tmp_path)
    with Service(tmp_path, "--database", url, "--speed", "0") as service, ExitStack() as stack:
        made = command(
            *("keys", "create", "--account", "acme", "--name", "test", "--database", url),
            *(part for scope in SCOPES for part in ("--scope", scope)),
            data=tmp_path,
        )
        http = stack.enter_context(service.http(made.stdout.strip()))
        assert http.get("/agents").json()["pagination"]["total_count"] > 0
        analyst = http.get("/agents", params={"search": "analyst"}).json()["items"][0]["id"]
        lab = http.post("/workspaces", json={"name": "fresh"}).json()["id"]
        body = {"session_type": "chat", "agent_id": analyst, "initial_prompt": "How many sessions are there?"}
        session = http.post(f"/workspaces/{lab}/sessions", json=body).json()["id"]
        events: list[dict[str, object]] = []
        while not any(event["type"] != "message" and event["content"] for event in events):
            events = http.get(f"/sessions/{session}/events", params={"sort_by": "id"}).json()["items"]
        assert events[-1]["type"] == "runtime_done", events[-1]
        second = command("serve", "--port", "0", "--database", url, data=tmp_path / "other", check=False)
        assert (second.returncode, second.stderr) == (
            1,
            "agentbook: Another service is using this database; stop it, or give this one its own.\n",
        )
        service.stop(9)
    assert not (tmp_path / "store.db").exists()
    with Service(tmp_path, "--database", url) as service, service.http(made.stdout.strip()) as http:
        assert http.get(f"/sessions/{session}/events", params={"sort_by": "id"}).json()["items"] == events


@pytest.fixture
def store(cluster: Cluster, tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path, schema_url(cluster.url, tmp_path))
    yield made
    made.close()


def test_an_agent_reads_what_is_meant_to_be_read_and_nothing_else(store: Store) -> None:
    acme = admin.create_account(store, "acme", "organization")
    admin.create_account(store, "bob", "user")
    admin.create_key(store, "acme", "k", [])
    reader = store.activity(acme)
    for table in sorted(READABLE):
        assert len(reader.rows(f"SELECT * FROM {table}", {})) >= 0
    for sql in (
        "SELECT secret_sha256 FROM api_keys",
        "SELECT count(*) FROM accounts, api_keys",
        "DELETE FROM accounts",
        "WITH gone AS (DELETE FROM accounts RETURNING id) SELECT count(*) FROM gone",
        "DROP TABLE accounts",
        "SELECT 1; SELECT 2",
        "SELECT * FROM accounts FOR UPDATE",
        'SELECT * FROM "api_keys"',
        'SELECT * FROM U&"api\\005fkeys"',
        "SELECT 1 -- it's",
        "SELECT 'a' || $$b$$",
        "SELECT E'\\' || secret_sha256 FROM api_keys --'",
        "SELECT current_setting('data_directory')",
        "SELECT query_to_xml('select * from api_keys', true, true, '')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT usename FROM pg_catalog.pg_user",
        "SELECT table_name FROM information_schema.tables",
    ):
        with pytest.raises(PermissionError):
            reader.rows(sql, {})
    with pytest.raises(Exception, match="nonsense") as caught:
        reader.rows("SELECT nonsense FROM accounts", {})
    assert not isinstance(caught.value, PermissionError)
    assert store.read_now(lambda db: db.exec_driver_sql("SELECT count(*) FROM accounts").scalar()) == 2


def test_an_unreachable_server_is_reported_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason=HOW_TO_GET_IT)
    url = f"postgresql://postgres@/postgres?host={tmp_path}"
    refused = command("serve", "--port", "0", "--database", url, data=tmp_path, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("agentbook: Cannot open the store ")
    assert refused.stderr.count("\n") == 1


def test_every_directory_has_a_schema_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    urls = {schema_url(cluster.url, tmp_path / name) for name in ("a", "b", "a")}
    assert len(urls) == 2
    for url in urls:
        engine = create_engine(url)
        with engine.connect() as connection:
            assert str(connection.exec_driver_sql("SELECT current_schema()").scalar()).startswith("t")
        engine.dispose()
