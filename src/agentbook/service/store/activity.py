"""What an agent may ask of the store: one SELECT at a time, over its account's sessions and what surrounds them.

The names it reads are temporary views that show its account's rows alone (`confined`). On SQLite the store is attached
read-only under a name that is drawn anew for every statement, so no statement can name what lies behind the views, and an
authorizer refuses everything but reading; on PostgreSQL the transaction is read-only and the statement's words are checked
(`select_check`).
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

from .tables import metadata

READABLE = frozenset({"accounts", "workspaces", "agents", "agent_versions", "workspace_agents", "sessions", "events"})

# What the views look at besides; shadowed, so that agents cannot.
_BEHIND = frozenset({"memberships"})
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_MOST_ROWS = 10_000
_CEILING_S = 10.0


@dataclass(frozen=True, slots=True)
class StoreActivity:
    """Reads for one account: an `agentbook.service.engines.base.ActivityReader`. May be called from any thread."""

    engine: Engine
    account_id: str

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run one SELECT; at most 10,000 rows come back, as mappings.

        ``:account_id`` is always bound to the account the agent runs for, whatever `parameters` says.

        Raises
        ------
        PermissionError
            The statement is more than one SELECT, or reads a table that agents may not see.
        """
        bound = {**parameters, "account_id": self.account_id}
        if self.engine.dialect.name == "sqlite":
            return self._sqlite(sql, bound)
        with self.engine.connect() as connection:  # its end undoes the transaction, and the views with it
            schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
            for name, view in confined(schema, self.account_id).items():
                connection.exec_driver_sql(f"CREATE TEMP VIEW {name} AS {view}".replace("%", "%%"))
            connection.exec_driver_sql("SET LOCAL search_path = pg_temp")
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(_CEILING_S * 1000)}")
            schemas = connection.exec_driver_sql("SELECT nspname FROM pg_namespace").scalars().all()
            check_select(sql, metadata.tables.keys(), READABLE, frozenset(schemas))
            return [dict(row) for row in connection.execute(text(sql), bound).mappings().fetchmany(_MOST_ROWS)]

    def _sqlite(self, sql: str, bound: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        deadline = time.monotonic() + _CEILING_S
        source = f"{Path(str(self.engine.url.database)).resolve().as_uri()}?mode=ro"
        hidden = f"store_{secrets.token_hex(16)}"
        with contextlib.closing(sqlite3.connect("file::memory:", uri=True, timeout=_CEILING_S)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"ATTACH ? AS {hidden}", (source,))
            for name, view in confined(hidden, self.account_id).items():
                connection.execute(f"CREATE TEMP VIEW {name} AS {view}")
            for name in _BEHIND:
                connection.execute(f"CREATE TEMP VIEW {name} AS SELECT NULL AS hidden")
            connection.set_authorizer(_authorizer(hidden))
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            try:
                return [dict(row) for row in connection.execute(sql, bound).fetchmany(_MOST_ROWS)]
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


def confined(schema: str, account_id: str) -> dict[str, str]:
    """The SELECT behind each readable name: rows of `account_id` in the tables of `schema`.

    Sessions of restricted workspaces stay out, as they do for the keys that agents are asked by. Public agents are seen by
    everybody, and their versions, which hold prompts, by their owner.
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
    return {name: f"SELECT * FROM {schema}.{name} WHERE {condition}" for name, condition in conditions.items()}  # noqa: S608 - our own names, and an id in quotes


def _authorizer(hidden: str) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    def authorize(action: int, table: str | None, _column: str | None, database: str | None, _by: str | None) -> int:
        readable = table in READABLE or (table in _BEHIND and database == hidden)
        if action in _ALLOWED or (action == sqlite3.SQLITE_READ and readable):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return authorize


# PostgreSQL has no authorizer; a role of its own would need rights that the service may not have.

_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"(:?)\b([a-z_][a-z0-9_$]*)\b(\s*\()?", re.IGNORECASE)
_FORBIDDEN = re.compile(r"""[;"$\\]|--|/\*|[\w&]'""")
_FUNCTIONS = re.compile(
    "abs|avg|cast|coalesce|count|dense_rank|greatest|lag|lead|least|length|lower|max|min|nullif|"
    "rank|replace|round|row_number|substr|substring|sum|trim|upper"
)
# Keywords that may stand before a parenthesis.
_BEFORE = re.compile(
    "all|and|any|as|between|by|case|distinct|else|except|exists|filter|from|having|in|intersect|"
    "join|like|limit|not|offset|on|or|over|select|then|union|using|values|when|where"
)
_NEVER = re.compile("alter|call|copy|create|delete|do|drop|execute|grant|insert|into|lock|merge|set|truncate|update")


def check_select(sql: str, tables: Set[str], readable: Set[str], schemas: Set[str]) -> None:
    """Raise `PermissionError` unless `sql` is one SELECT over `readable`.

    `tables` are all tables of the store, `schemas` the names of the database's schemas.
    """
    # A text ends at its next quote: the kinds of text where that is not so have a letter before them (E'', U&'').
    rest = _TEXT.sub("''", sql)
    one = rest.lstrip().lower().startswith(("select", "with")) and not _FORBIDDEN.search(rest)
    if not one or rest.replace("''", "").count("'"):
        raise PermissionError("Agents may run one SELECT at a time.")
    refused = PermissionError(f"Agents may read {', '.join(sorted(readable))}, and write nothing.")
    for colon, name, call in _WORD.findall(rest):
        word = name.lower()
        if colon:
            continue  # a bound parameter
        if (
            _NEVER.fullmatch(word)
            or word in schemas
            or word.startswith("pg_")
            or (word in tables and word not in readable)
        ):
            raise refused
        if call and not (_FUNCTIONS.fullmatch(word) or _BEFORE.fullmatch(word) or word in readable):
            raise refused
