"""Upgrades the store of an earlier version to this one.

A newer schema only adds to the old one: tables, which ``create_all`` creates, and
columns that may be null or have a default, which are added here. Data for the new
columns is derived from existing data. Only the events are rewritten, once, to store
their sizes. So processes of an earlier version that share a PostgreSQL database keep
running, and can be replaced one after the other.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateColumn

from .. import ids
from .session_locks import lock_all
from .tables import agent_versions, agents, events, metadata, skill_versions, skills

# Shorter than PostgreSQL takes to detect a deadlock (1 s) and fail someone's read.
_LOCK_WITHIN = "300ms"
_LOCK_ATTEMPTS = 200
_LOCK_NOT_AVAILABLE = "55P03"


def lock_schema(connection: Connection) -> None:
    """On PostgreSQL, let one process at a time create, upgrade or seed the store.

    Two processes creating the tables at once would collide.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7233171)")  # stands for this one purpose


def lock_tables(connection: Connection) -> None:
    """On PostgreSQL, make other processes wait until the upgrade is complete.

    A reader of several tables may hold one and want another that is already locked. All
    locks are then released, and taken again once that read is over.
    """
    if connection.dialect.name != "postgresql":
        return
    lock_all(connection)
    names = ", ".join(sorted(metadata.tables.keys() & set(inspect(connection).get_table_names())))
    usual = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_WITHIN}'")
                connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
            break
        except OperationalError as error:
            if attempt == _LOCK_ATTEMPTS or getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{usual}'")


def upgrade(connection: Connection) -> None:
    """Add the columns and the data that the store lacks."""
    _measure_events(connection)
    _add_columns(connection)
    _hide_copied_prompts(connection)
    _number_skills(connection)
    # The prompt agent became configurable by its template, not by its engine.
    connection.execute(update(agents).where(agents.c.engine == "scribe").values(template="LLM"))
    connection.exec_driver_sql("DROP TABLE IF EXISTS oauth_requests")  # pending requests are now kept in their handles


def _measure_events(connection: Connection) -> None:
    """Store how long the text of each event is."""
    present = [column["name"] for column in inspect(connection).get_columns("events")]
    if "size_bytes" in present:
        return
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ALTER TABLE events ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0")
        connection.exec_driver_sql("UPDATE events SET size_bytes = octet_length(wire)")
        connection.exec_driver_sql("ALTER TABLE events ALTER COLUMN size_bytes DROP DEFAULT")
        return
    # An added column comes after the text, where reading it takes SQLite as long as
    # reading the text.
    connection.exec_driver_sql("ALTER TABLE events RENAME TO events_before")
    events.create(connection)
    columns = ", ".join(present)
    connection.exec_driver_sql(
        f"INSERT INTO events ({columns}, size_bytes) SELECT {columns}, length(CAST(wire AS BLOB)) "  # noqa: S608 - our own names
        "FROM events_before ORDER BY session_id, id"
    )
    connection.exec_driver_sql("DROP TABLE events_before")


def _add_columns(connection: Connection) -> None:
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        present = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _hide_copied_prompts(connection: Connection) -> None:
    """Record whose prompts the forks of earlier versions carry.

    Forks are visited in the order of their creation, so that a fork of a fork inherits
    the owner of the first.
    """
    source = agent_versions.alias("source")
    source_agent = agents.alias("source_agent")
    forks = (
        select(
            agents.c.id,
            agents.c.owner_id,
            source.c.id.label("version_id"),
            source.c.system_prompt,
            source_agent.c.owner_id.label("source_owner_id"),
        )
        .join(source, source.c.id == agents.c.forked_from_version)
        .join(source_agent, source_agent.c.id == source.c.agent_id)
        .order_by(agents.c.created_at, agents.c.id)
    )
    for fork in connection.execute(forks).all():
        inherited = select(agent_versions.c.prompt_owner_id).where(agent_versions.c.id == fork.version_id)
        owner_id = connection.execute(inherited).scalar() or fork.source_owner_id
        if owner_id != fork.owner_id:
            is_copy = (agent_versions.c.agent_id == fork.id) & (agent_versions.c.system_prompt == fork.system_prompt)
            connection.execute(update(agent_versions).where(is_copy).values(prompt_owner_id=owner_id))


def _number_skills(connection: Connection) -> None:
    """Give each skill without versions its first version."""
    numbered = select(skill_versions.c.skill_id)
    columns = (skills.c.id, skills.c.creator_id, skills.c.overview, skills.c.created_at)
    for row in connection.execute(select(*columns).where(skills.c.id.not_in(numbered))).all():
        at_ms = ids.milliseconds_of(row.id)
        version = {
            "id": ids.id_at(at_ms, 0),
            "skill_id": row.id,
            "creator_id": row.creator_id,
            "version_number": "1.0.0",
            "overview": row.overview,
            "created_at": row.created_at,
            "updated_at": row.created_at,
        }
        connection.execute(insert(skill_versions), version)
