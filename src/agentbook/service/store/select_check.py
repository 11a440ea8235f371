"""Whether a statement is one SELECT over tables that agents may see: what PostgreSQL cannot be told as SQLite's authorizer can.

PostgreSQL has rights by role, and a service may not make roles in a database it was lent. So the words of the statement are
looked at: no further statement, comment or quoted name; no table, schema or function but known ones. A read-only transaction
stands behind this.
"""

from __future__ import annotations

import re
from collections.abc import Set

_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"(:?)\b([a-z_][a-z0-9_$]*)\b(\s*\()?", re.IGNORECASE)
_FORBIDDEN = re.compile(r"""[;"$\\]|--|/\*|[\w&]'""")
_FUNCTIONS = frozenset(
    [
        "abs",
        "avg",
        "cast",
        "coalesce",
        "count",
        "dense_rank",
        "greatest",
        "lag",
        "lead",
        "least",
        "length",
        "lower",
        "max",
        "min",
        "nullif",
        "rank",
        "replace",
        "round",
        "row_number",
        "substr",
        "substring",
        "sum",
        "trim",
        "upper",
    ]
)
# Words of the language that may stand before a parenthesis.
_BEFORE = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "between",
        "by",
        "case",
        "distinct",
        "else",
        "except",
        "exists",
        "filter",
        "from",
        "having",
        "in",
        "intersect",
        "join",
        "like",
        "limit",
        "not",
        "offset",
        "on",
        "or",
        "over",
        "select",
        "then",
        "union",
        "using",
        "values",
        "when",
        "where",
    ]
)
_NEVER = frozenset(
    [
        "alter",
        "call",
        "copy",
        "create",
        "delete",
        "do",
        "drop",
        "execute",
        "grant",
        "insert",
        "into",
        "lock",
        "merge",
        "set",
        "truncate",
        "update",
    ]
)


def check(sql: str, tables: Set[str], readable: Set[str], schemas: Set[str]) -> None:
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
        if word in _NEVER or word in schemas or word.startswith("pg_") or (word in tables and word not in readable):
            raise refused
        if call and word not in _FUNCTIONS | _BEFORE | readable:
            raise refused
