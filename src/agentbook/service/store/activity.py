"""What an agent may read from the store: one SELECT at a time, for its account.

The names in a statement are temporary views of the account's rows (`views`). On SQLite
the store is attached read-only under a random name for every statement, so no statement
can name the tables behind the views, and an authorizer refuses everything but reading.
On PostgreSQL the transaction is read-only and `check_select` checks the words of the
statement.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from .tables import agent_versions, metadata

READABLE = frozenset({"accounts", "workspaces", "agents", "agent_versions", "workspace_agents", "sessions", "events"})

# Read by the views; hidden from agents by views with the same names.
_BEHIND = frozenset({"memberships"})
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_MAX_ROWS = 10_000
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class StoreActivity:
    """Reads for one account, from any thread.

    Implements `agentbook.service.engines.base.ActivityReader`.
    """

    engine: Engine
    account_id: str

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run one SELECT and return at most 10,000 rows.

        ``:account_id`` is always bound to the account that the agent runs for.

        Raises
        ------
        PermissionError
            The statement is more than one SELECT, or reads a table that agents may not
            see.
        """
        bound = {**parameters, "account_id": self.account_id}
        if self.engine.dialect.name == "sqlite":
            return self._sqlite(sql, bound)
        with self.engine.connect() as connection:  # closing it rolls back the views
            schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
            for name, view in views(schema, self.account_id).items():
                connection.exec_driver_sql(f"CREATE TEMP VIEW {name} AS {view}".replace("%", "%%"))
            connection.exec_driver_sql("SET LOCAL search_path = pg_temp")
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(_TIMEOUT_S * 1000)}")
            schemas = connection.exec_driver_sql("SELECT nspname FROM pg_namespace").scalars().all()
            check_select(sql, metadata.tables.keys(), READABLE, frozenset(schemas))
            return [dict(row) for row in connection.execute(text(sql), bound).mappings().fetchmany(_MAX_ROWS)]

    def _sqlite(self, sql: str, bound: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        deadline = time.monotonic() + _TIMEOUT_S
        source = f"{Path(str(self.engine.url.database)).resolve().as_uri()}?mode=ro"
        hidden = f"store_{secrets.token_hex(16)}"
        with contextlib.closing(sqlite3.connect("file::memory:", uri=True, timeout=_TIMEOUT_S)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"ATTACH ? AS {hidden}", (source,))
            for name, view in views(hidden, self.account_id).items():
                connection.execute(f"CREATE TEMP VIEW {name} AS {view}")
            for name in _BEHIND:
                connection.execute(f"CREATE TEMP VIEW {name} AS SELECT NULL AS hidden")
            connection.set_authorizer(_authorizer(hidden))
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            try:
                return [dict(row) for row in connection.execute(sql, bound).fetchmany(_MAX_ROWS)]
            except (sqlite3.Warning, sqlite3.ProgrammingError) as error:
                if "one statement" in str(error):
                    raise PermissionError("Agents may run one SELECT at a time.") from None
                raise
            except sqlite3.DatabaseError as error:
                if any(words in str(error) for words in ("prohibited", "not authorized", "cannot modify")):
                    raise PermissionError(
                        f"Agents may read {', '.join(sorted(READABLE))}, and write nothing."
                    ) from None
                raise


def views(schema: str, account_id: str) -> dict[str, str]:
    """Return the SELECT of each view: the account's rows in the tables of `schema`.

    Sessions of restricted workspaces are left out, as they are for API keys. Everyone
    can see public agents; only their owner can see their versions, which contain
    prompts. A prompt that was copied from another account's agent is null.
    """
    me = "'" + account_id.replace("'", "''") + "'"
    workspaces = f"owner_id = {me} AND NOT should_restrict_members"
    within = f"workspace_id IN (SELECT id FROM {schema}.workspaces WHERE {workspaces})"  # noqa: S608 - our own names, and an id in quotes
    joined = f"SELECT user_id FROM {schema}.memberships WHERE organization_id = {me}"  # noqa: S608 - our own names, and an id in quotes
    joins = f"SELECT organization_id FROM {schema}.memberships WHERE user_id = {me}"  # noqa: S608 - our own names, and an id in quotes
    conditions = {
        "accounts": f"id = {me} OR id IN ({joined}) OR id IN ({joins})",
        "workspaces": workspaces,
        "agents": f"owner_id = {me} OR is_public",
        "agent_versions": f"agent_id IN (SELECT id FROM {schema}.agents WHERE owner_id = {me})",  # noqa: S608 - our own names, and an id in quotes
        "workspace_agents": within,
        "sessions": within,
        "events": f"session_id IN (SELECT id FROM {schema}.sessions WHERE {within})",  # noqa: S608 - our own names, and an id in quotes
    }
    prompt = f"CASE WHEN prompt_owner_id IS NULL OR prompt_owner_id = {me} THEN system_prompt END AS system_prompt"
    columns = {
        "agent_versions": ", ".join(prompt if c == "system_prompt" else c for c in agent_versions.columns.keys())  # noqa: SIM118 - a column collection
    }
    return {
        name: f"SELECT {columns.get(name, '*')} FROM {schema}.{name} WHERE {condition}"  # noqa: S608 - our own names, and an id in quotes
        for name, condition in conditions.items()
    }


def _authorizer(hidden: str) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    def authorize(action: int, table: str | None, _column: str | None, database: str | None, _by: str | None) -> int:
        readable = table in READABLE or (table in _BEHIND and database == hidden)
        if action in _ALLOWED or (action == sqlite3.SQLITE_READ and readable):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return authorize


# PostgreSQL has roles instead of an authorizer, and a service may not create roles in a
# database of another owner. So the words of the statement are checked: no further
# statement, comment or quoted name, and no unknown table, schema or function. In
# addition, the transaction is read-only.

_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"(:?)\b([a-z_][a-z0-9_$]*)\b(\s*\()?", re.IGNORECASE)
_FORBIDDEN = re.compile(r"""[;"$\\]|--|/\*|[\w&]'""")
_FUNCTIONS = re.compile(
    "abs|avg|cast|coalesce|count|dense_rank|greatest|lag|lead|least|length|lower|max|min|nullif|"
    "rank|replace|round|row_number|substr|substring|sum|trim|upper"
)
# Keywords that may precede a parenthesis.
_BEFORE_PARENTHESIS = re.compile(
    "all|and|any|as|between|by|case|distinct|else|except|exists|filter|from|having|in|intersect|"
    "join|like|limit|not|offset|on|or|over|select|then|union|using|values|when|where"
)
_STATEMENTS = re.compile(
    "alter|call|copy|create|delete|do|drop|execute|grant|insert|into|lock|merge|set|truncate|update"
)


def check_select(sql: str, tables: Set[str], readable: Set[str], schemas: Set[str]) -> None:
    """Raise `PermissionError` unless `sql` is one SELECT over `readable`.

    `tables` are all tables of the store, `schemas` all schemas of the database.
    """
    # A string ends at its next quote; strings for which this is not true have a prefix
    # (E'', U&'').
    rest = _TEXT.sub("''", sql)
    is_select = rest.lstrip().lower().startswith(("select", "with")) and not _FORBIDDEN.search(rest)
    if not is_select or rest.replace("''", "").count("'"):
        raise PermissionError("Agents may run one SELECT at a time.")
    error = PermissionError(f"Agents may read {', '.join(sorted(readable))}, and write nothing.")
    for colon, name, parenthesis in _WORD.findall(rest):
        word = name.lower()
        if colon:
            continue  # a bound parameter
        is_hidden = word in schemas or word.startswith("pg_") or (word in tables and word not in readable)
        if is_hidden or _STATEMENTS.fullmatch(word):
            raise error
        if parenthesis and not (_FUNCTIONS.fullmatch(word) or _BEFORE_PARENTHESIS.fullmatch(word) or word in readable):
            raise error
