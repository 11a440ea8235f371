"""The service on PostgreSQL: tests that work with any database, and a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine

from agentbook.service import discovery_file
from agentbook.service.auth import SCOPES
from service.databases import HOW_TO_GET_IT, PLATFORMS, VARIABLE, Cluster, database_url, give_back, server_binaries
from service.process import Service, command

HERE = Path(__file__).parent
# What the service asks of a database that differs from one to the next: pages, searches
# and orders, values that are JSON, locks, and what two write at once.
CHOSEN = (
    "oauth/test_token.py::test_the_whole_flow",
    "oauth/test_token.py::test_one_of_eight_parallel_uses_of_a_code_succeeds",
    "oauth/test_token.py::test_one_of_eight_parallel_refreshes_succeeds_and_the_others_revoke_it",
    "operations/test_agents.py::test_who_sees_which_agents",
    "operations/test_agents.py::test_filters",
    "operations/test_agents.py::test_long_filters_are_answered",
    "operations/test_agents.py::test_letters_are_found_in_either_case_whatever_the_language",
    "operations/test_agents.py::test_names_are_unique_within_an_account",
    "operations/test_agents.py::test_configure_commits_a_version",
    "operations/test_agents.py::test_versions_are_filtered_and_their_prompt_is_the_owners",
    "operations/test_agents.py::test_a_version_that_another_request_is_publishing",
    "operations/test_agents.py::test_publishing",
    "operations/test_event_pages.py::test_a_page_ends_before_it_is_too_long_and_says_so",
    "operations/test_event_pages.py::test_replay_is_read_in_parts",
    "operations/test_sessions.py::test_a_session_is_started_and_answered",
    "operations/test_sessions.py::test_who_reads_a_session",
    "operations/test_sessions.py::test_pages_of_events",
    "operations/test_sessions.py::test_the_list_of_sessions",
    "operations/test_visibility.py::test_what_a_list_holds",
    "store/test_engine.py::test_a_store_of_another_version_is_left_alone",
    "store/test_events.py",
    "store/test_writer.py::test_many_parallel_writes_all_succeed",
    "store/test_writer.py::test_a_failing_write_is_rolled_back_alone",
    "store/test_writer.py::test_no_id_becomes_visible_after_a_greater_one",
    "turns/test_run_limits.py::test_a_budget_covers_the_turns_of_a_month",
    "turns/test_runner.py",
)


@pytest.fixture(autouse=True)
def own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves which database they are on."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(PLATFORMS, raising=False)


@pytest.mark.timeout(420)
def test_the_suite_runs_on_two_platforms_that_share_it(cluster: Cluster) -> None:
    chosen = [str(HERE / test) for test in CHOSEN]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--maxfail=10", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            [*pytest_, "--timeout=100", *chosen],  # names a test that hangs
            cwd=HERE.parents[1],
            env={**os.environ, VARIABLE: cluster.url, PLATFORMS: "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=400,  # of about 60, on a machine with nothing else to do
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"not at its end after {error.timeout} s:\n{_end_of(error.output)}")
    assert ran.returncode == 0, _end_of(ran.stdout)


def _end_of(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")[-20_000:]


def test_the_service_from_the_shell(cluster: Cluster, tmp_path: Path) -> None:
    url = database_url(cluster.url, tmp_path)
    with Service(tmp_path, "--database", url, "--speed", "0") as service, ExitStack() as stack:
        made = command(
            *("keys", "create", "--account", "acme", "--name", "test", "--database", url),
            *(part for scope in SCOPES for part in ("--scope", scope)),
            data=tmp_path,
        )
        http = stack.enter_context(service.http(made.stdout.strip()))
        assert http.get("/agents").json()["pagination"]["total_count"] > 0
        guide = http.get("/agents", params={"search": "guide"}).json()["items"][0]["id"]
        lab = http.post("/workspaces", json={"name": "fresh"}).json()["id"]
        body = {"session_type": "chat", "agent_id": guide, "initial_prompt": "What is a turn?"}
        session = http.post(f"/workspaces/{lab}/sessions", json=body).json()["id"]
        events: list[dict[str, object]] = []
        while not any(event["type"] != "message" and event["content"] for event in events):
            events = http.get(f"/sessions/{session}/events", params={"sort_by": "id"}).json()["items"]
        assert events[-1]["type"] == "runtime_done", events[-1]
        with Service(tmp_path / "other", "--database", url, "--speed", "0") as second:
            root = second.base_url.removesuffix("/v1")
            assert httpx.get(f"{second.base_url}/sessions/{session}/events", auth=http.auth).json()["items"] != []
            assert httpx.get(f"{root}/readyz").status_code == 200
            assert second.stop() == 0
        service.stop(9)
    assert not (tmp_path / "store.db").exists()
    with Service(tmp_path, "--database", url) as service, service.http(made.stdout.strip()) as http:
        assert http.get(f"/sessions/{session}/events", params={"sort_by": "id"}).json()["items"] == events


def test_one_that_cannot_announce_itself_gives_up_its_lease(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(discovery_file, "announce", refuse)
    url = database_url(cluster.url, tmp_path)
    refused = command("serve", "--port", "0", "--bare", "--database", url, data=tmp_path / "data", check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"agentbook: Cannot write to the data directory {tmp_path / 'data'} (")
    assert refused.stderr.count("\n") == 1
    with create_engine(url).connect() as database:
        assert database.exec_driver_sql("SELECT id FROM processes").all() == []
    give_back(tmp_path)


def test_an_unreachable_server_is_reported_in_one_line(tmp_path: Path) -> None:
    url = f"postgresql://postgres@/postgres?host={tmp_path}"
    refused = command("serve", "--port", "0", "--database", url, data=tmp_path, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("agentbook: Cannot open the store ")
    assert refused.stderr.count("\n") == 1


def test_a_server_that_restarts_is_waited_for(tmp_path: Path) -> None:
    binaries = server_binaries()
    if binaries is None:
        pytest.skip(HOW_TO_GET_IT)
    with Cluster(binaries) as cluster, Service(tmp_path, "--bare", "--database", cluster.url) as service:
        root = service.base_url.removesuffix("/v1")
        command("accounts", "create", "acme", "--type", "organization", "--database", cluster.url, data=tmp_path)
        made = command(
            *("keys", "create", "--account", "acme", "--name", "test", "--database", cluster.url),
            *("--scope", "workspaces:write"),
            data=tmp_path,
        )
        with service.http(made.stdout.strip()) as http:
            assert http.post("/workspaces", json={"name": "before"}).status_code == 201
            cluster.stop()
            for response in (http.get("/me"), http.post("/workspaces", json={"name": "during"})):
                assert (response.status_code, response.json()["error"]) == (503, "ServiceUnavailable")
            assert httpx.get(f"{root}/readyz").status_code == 503
            assert httpx.get(f"{root}/healthz").status_code == 200
            cluster.start()
            assert httpx.get(f"{root}/readyz").status_code == 200
            assert http.post("/workspaces", json={"name": "after"}).status_code == 201
            assert http.post("/workspaces", json={"name": "before"}).status_code == 409
            assert http.post("/workspaces", json={"name": "during"}).status_code == 201
        service.stop()
        assert "Traceback" not in service.log
