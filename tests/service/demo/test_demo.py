"""The demo data are reproducible and consistent, and have what analyses look for."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, create_engine, event, select, text
from sqlalchemy.exc import IntegrityError

from agentbook.api.run_limits import RUN_LIMITS, run_limit
from agentbook.events.turns import TurnLog
from agentbook.service import demo, ids
from agentbook.service.engines.meter import RUN_FAILURES
from agentbook.service.store import event_json, tables

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)


def fresh() -> Connection:
    engine = create_engine("sqlite://")
    event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA foreign_keys = ON"))
    connection = engine.connect()
    tables.metadata.create_all(connection)
    return connection


@pytest.fixture(scope="module")
def store() -> Iterator[Connection]:
    connection = fresh()
    demo.write(connection, now=NOW)
    yield connection
    connection.close()
    connection.engine.dispose()


def dump(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
        for name, table in tables.metadata.tables.items()
    }


@functools.cache
def rows_of(now: datetime) -> dict[str, list[tuple[object, ...]]]:
    connection = fresh()
    try:
        demo.write(connection, now=now)
        return dump(connection)
    finally:
        connection.close()
        connection.engine.dispose()


def what_happened(now: datetime) -> list[tuple[object, ...]]:
    """Each event: how long ago it was, and what is in it but ids."""
    columns = list(tables.events.c.keys())
    happened = []
    for row in rows_of(now)["events"]:
        fields = json.loads(str(row[columns.index("wire")]))
        ago = now - datetime.fromisoformat(fields["created_at"])
        step = fields.get("step", {})
        happened.append(
            (-ago, fields["type"], fields["author"]["name"], fields["content"], fields.get("usage"), step.get("name"))
        )
    return sorted(happened, key=repr)


def test_the_month_is_the_same_in_any_week() -> None:
    this_week = what_happened(NOW)
    assert this_week == what_happened(NOW + timedelta(days=700))
    assert what_happened(NOW + timedelta(days=1)) != this_week


def test_a_later_hour_of_the_same_day_has_only_more() -> None:
    columns = list(tables.events.c.keys())
    first, last = columns.index("created_at"), columns.index("wire")
    early, late = (rows_of(now)["events"] for now in (NOW, NOW.replace(hour=22)))
    added = set(late) - set(early)
    # A message may have been corrected meanwhile; everything else is as it was.
    edited = {row[:last] for row in set(early) - set(late)}
    assert edited <= {row[:last] for row in late}
    assert len(edited) < 10 < len(added)
    assert all(str(row[first]) > ids.instant(NOW - timedelta(hours=1)) for row in added if row[:last] not in edited)


@pytest.mark.parametrize("now", [NOW, datetime(2027, 1, 3, 0, 5, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)])
def test_no_row_is_in_the_future(now: datetime) -> None:
    rows = rows_of(now)
    for name in ("events", "sessions", "contexts", "workspaces", "agents", "agent_versions", "credentials"):
        table = tables.metadata.tables[name]
        for column in ("created_at", "updated_at"):
            if column in table.c:
                index = list(table.c.keys()).index(column)
                assert max(str(row[index]) for row in rows[name]) <= ids.instant(now), (name, column)


def test_a_second_demo_in_a_store_is_rejected(store: Connection) -> None:
    with pytest.raises(IntegrityError), store.begin_nested():
        demo.write(store, now=NOW)


def test_size_and_foreign_keys(store: Connection) -> None:
    assert store.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    sessions = store.execute(text("SELECT count(*) FROM sessions")).scalar_one()
    events = store.execute(text("SELECT count(*) FROM events")).scalar_one()
    assert 550 <= sessions <= 650
    assert 10_000 <= events <= 15_000


def test_ids_contain_their_time_and_sort_by_it(store: Connection) -> None:
    rows = store.execute(
        text(
            "SELECT e.*, s.created_at AS began FROM events e JOIN sessions s ON s.id = e.session_id ORDER BY session_id, e.id"
        )
    )
    last: dict[str, str] = {}
    for row in rows:
        assert ids.is_id(row.id)
        assert ids.instant_of_ms(ids.milliseconds_of(row.id)) == row.created_at
        assert row.began <= row.created_at
        assert last.get(row.session_id, "") < row.created_at
        last[row.session_id] = row.created_at
    for name in ("sessions", "workspaces", "agents", "credentials", "contexts", "invitations", "accounts", "api_keys"):
        for row in store.execute(select(tables.metadata.tables[name])):
            assert ids.instant_of_ms(ids.milliseconds_of(row.id)) == row.created_at, name
            assert row.updated_at >= row.created_at, name


def test_event_json_is_what_the_service_writes(store: Connection) -> None:
    edited = steps = with_usage = failed_steps = 0
    for row in store.execute(select(tables.events)):
        event_fields = json.loads(row.wire)
        assert (event_fields["id"], event_fields["type"], event_fields["task_id"], event_fields["created_at"]) == (
            row.id,
            row.type,
            row.task_id,
            row.created_at,
        )
        assert event_fields["author"]["type"] == row.author_type
        with_usage += "usage" in event_fields
        failed_steps += "error" in event_fields.get("step", {})
        if event_fields["updated_at"] != event_fields["created_at"]:
            edited += 1
            assert row.type == "message"
            continue
        assert row.wire == event_json.event(
            id=row.id,
            type=row.type,
            content=event_fields["content"],
            task_id=row.task_id,
            author=event_fields["author"],
            created_at=row.created_at,
            step=event_fields.get("step"),
            usage=event_fields.get("usage"),
        )
        if "step" in event_fields:
            step = event_fields["step"]
            steps += 1
            assert ("arguments" in step) == (step["name"] != "think")
            assert ("result" in step) == ("arguments" in step and "error" not in step)
            # Its task begins when it does.
            assert (
                ids.instant_of_ms(ids.milliseconds_of(row.task_id))
                == step["started_at"]
                < step["ended_at"]
                == row.created_at
            )
    assert 3 <= edited <= 60
    assert steps > 1_000
    assert with_usage > 1_500
    assert failed_steps > 30


def test_every_session_splits_into_turns(store: Connection) -> None:
    logs: dict[str, TurnLog] = {}
    for row in store.execute(select(tables.events).order_by(tables.events.c.session_id, tables.events.c.id)):
        logs.setdefault(row.session_id, TurnLog(row.session_id)).feed(json.loads(row.wire))
    turns = [turn for log in logs.values() for turn in log.turns]
    status = Counter(turn.status for turn in turns)
    assert not [event for log in logs.values() for event in log.unknown]
    assert all(turn.prompt and "{" not in turn.prompt.replace('{"', "") for turn in turns)
    assert status["answered"] > 0.9 * len(turns)
    assert status["failed"] > 30
    assert 5 <= status["open"] <= 60
    assert max(len(log.turns) for log in logs.values()) >= 8
    assert {turn.failure.kind for turn in turns if turn.failure} == {*RUN_LIMITS, "error"}
    assert sum(turn.subtasks for turn in turns) > len(turns)


def test_all_slots_and_choices_are_filled(store: Connection) -> None:
    unfilled = re.compile(r"\{[a-z_]+\}|\[[^\]]*\|[^\]]*\]")
    for (content,) in store.execute(text("SELECT json_extract(wire, '$.content.text') FROM events")):
        assert content is None or not unfilled.search(content), content


def test_activity_follows_office_hours_and_has_one_bad_day(store: Connection) -> None:
    began = [
        datetime.fromisoformat(at)
        for (at,) in store.execute(text("SELECT created_at FROM sessions WHERE type = 'chat'"))
    ]
    weekend = sum(at.weekday() >= 5 for at in began)
    night = sum(at.hour < 6 for at in began)
    last_week = sum(at >= NOW - timedelta(days=7) for at in began)
    assert weekend < 0.12 * len(began)
    assert night < 0.05 * len(began)
    assert last_week > 1.15 * len(began) / 5
    failures = Counter(
        at[:10] for (at,) in store.execute(text("SELECT created_at FROM events WHERE type = 'runtime_error'"))
    )
    (worst_day, count), (_, next_count) = failures.most_common(2)
    assert worst_day == "2026-10-24"
    assert count > 2.5 * next_count


def column(store: Connection, sql: str) -> set[object]:
    return set(store.execute(text(sql)).scalars())


def test_every_state_occurs(store: Connection) -> None:
    assert column(store, "SELECT DISTINCT type FROM sessions") == {
        "chat",
        "time",
        "webhook",
        "api_trigger",
        "agent_test",
    }
    assert column(store, "SELECT DISTINCT initiator_type FROM sessions") == {"api_key", "user", "trigger"}
    assert column(store, "SELECT DISTINCT status FROM contexts") == {"DRAFT", "PUBLISHED"}
    assert column(store, "SELECT DISTINCT status FROM invitations") == {"PENDING", "ACCEPTED", "DECLINED", "EXPIRED"}
    assert column(store, "SELECT DISTINCT role FROM invitations") == {"ADMIN", "MEMBER"}
    assert column(store, "SELECT DISTINCT required_credentials_mode FROM workspaces") == {"SHARED", "MEMBER", None}
    assert column(store, "SELECT DISTINCT type FROM agent_versions") == {"EPHEMERAL", "COMMITTED"}
    assert column(store, "SELECT DISTINCT type FROM accounts") == {"user", "organization"}
    assert column(store, "SELECT name FROM agents WHERE is_archived OR setup_state <> 'READY'") == {
        "onboarding-buddy",
        "forecaster",
    }
    for flag in ("restrict_account_credentials", "should_restrict_members", "unlimited_power_mode"):
        assert len(column(store, f"SELECT name FROM workspaces WHERE {flag}")) == 1, flag
    assert column(store, "SELECT name FROM workspaces WHERE archived_at IS NOT NULL") == {"onboarding"}
    assert column(store, "SELECT engine FROM agents") >= {
        "guide",
        "recorded",
        "scribe",
        "echo",
        "limits",
    }
    archived = (
        "SELECT max(s.created_at) < max(w.archived_at) FROM sessions s JOIN workspaces w ON w.id = s.workspace_id "
        "WHERE w.name = 'onboarding'"
    )
    assert column(store, archived) == {1}


def test_credentials_occur_in_every_state_and_are_fake(store: Connection) -> None:
    rows = store.execute(select(tables.credentials)).all()
    accounts = column(store, "SELECT id FROM accounts")
    installed = column(store, "SELECT id FROM workspace_agents")
    year = ids.instant(NOW - timedelta(days=365))
    assert len(rows) >= 40
    assert any(row.updated_at == row.created_at for row in rows)
    assert any(row.updated_at < year for row in rows)
    assert any(row.target_id is None for row in rows)
    assert any(row.target_id not in {None, *installed} for row in rows)
    assert any(row.creator_id is None for row in rows)
    assert any(row.creator_id not in {None, *accounts} for row in rows)
    assert any(row.auth_config_id is None for row in rows)
    assert any(row.owner_id != row.account_id for row in rows)
    assert any(row.webhook_enabled and row.signature_type is None for row in rows)
    assert any(row.webhook_enabled and not row.has_active_webhook_triggers for row in rows)
    assert any(row.webhook_enabled and row.has_active_webhook_triggers and row.signature_type for row in rows)
    same = Counter((row.integration, row.owner_id, row.auth_config_id, row.params_json) for row in rows)
    assert max(same.values()) == 3
    for row in rows:
        for name, value in json.loads(row.params_json).items():
            if any(word in name for word in ("key", "token", "password", "secret")):
                assert "FAKE" in value, (row.name, name)


def test_run_failures_are_the_specifications(store: Connection) -> None:
    assert [run_limit(failure.message, whole=True) for failure in RUN_FAILURES.values()] == list(RUN_LIMITS)


def test_every_key_has_a_digest_of_no_secret(store: Connection) -> None:
    digests = column(store, "SELECT secret_sha256 FROM api_keys")
    assert all(len(str(digest)) == 64 for digest in digests)
