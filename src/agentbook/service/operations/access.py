"""Which rows a caller may see, and how a request names them.

A request names an entity by id, by name, or as ``<owner>~<name>``. Entities that the
caller may not see are answered exactly like those that do not exist. Specification:
"What the service does", Ids and names; "Authentication", rules 5 and 9; "Errors", 404.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, false, func, or_, select, true

from .. import errors, ids
from ..auth import Principal
from ..store.tables import accounts, agents, memberships, sessions, workspace_agents, workspace_members, workspaces
from .registry import OperationCall

Row = Mapping[Any, Any]

# Maximum words or tags in one filter: a statement with 5,000 takes seconds to compile,
# and few threads serve the lists.
MAX_TERMS = 100
MAX_PAGE = 8 << 20  # characters of the texts in a page
# The largest offset the specification allows exceeds a database integer by 193.
MAX_OFFSET = (1 << 63) - 1


_IS_PUBLIC: ColumnElement[bool] = agents.c.is_public == true()


def find_account(db: Connection, reference: str) -> Row | None:
    """Return the account with this id or name, or None."""
    if "\x00" in reference:  # PostgreSQL rejects null characters
        return None
    is_this = accounts.c.id == reference.lower() if ids.is_id(reference.lower()) else accounts.c.name == reference
    return db.execute(select(accounts).where(is_this)).mappings().first()


def require_account(call: OperationCall, reference: str, entity: str = "Account") -> Row:
    """Return the account with this id or name, or raise the 404."""
    return _require(find_account(call.db, reference), entity)


def require_own_account(call: OperationCall, reference: str | None, action: str) -> str:
    """Return the id of the owner of a new entity: the caller's account.

    Raises the 403 if `reference` is any other account, whether it exists or not.
    """
    if reference is not None:
        row = find_account(call.db, reference)
        if row is None or row["id"] != call.caller.account_id:
            raise errors.forbidden(f"This credential cannot {action} for another account")
    return call.caller.account_id


def organizations_of(caller: Principal) -> Select[Any]:
    """Select the ids of the organizations that the caller's account is a member of."""
    return select(memberships.c.organization_id).where(memberships.c.user_id == caller.account_id)


def organizations_administered_by(caller: Principal) -> Select[Any]:
    """Select the ids of the organizations that the caller's account is an admin of."""
    return organizations_of(caller).where(memberships.c.role == "ADMIN")


def is_admin(call: OperationCall, account_id: str) -> bool:
    """Whether a person is an admin of an account; a key never acts as a person."""
    caller = call.caller
    return caller.kind == "oauth2" and (
        account_id == caller.account_id
        or account_id in call.db.execute(organizations_administered_by(caller)).scalars().all()
    )


def require_admin(call: OperationCall, account_id: str, action: str) -> None:
    """Raise the 403 if the caller is not an admin of the account."""
    if not is_admin(call, account_id):
        raise errors.forbidden(f"Only an admin can {action}")


def require_key_or_admin(call: OperationCall, account_id: str, action: str) -> None:
    """Raise the 403 unless the caller is a key or an admin of the account."""
    if call.caller.kind == "oauth2":
        require_admin(call, account_id, action)
    elif call.caller.account_id != account_id:
        raise errors.forbidden(f"This credential cannot {action} for another account")


def visible_workspace(caller: Principal) -> ColumnElement[bool]:
    """The condition that the caller can see a workspace.

    An account sees its own workspaces and those of its organizations. A restricted
    workspace can be seen by its owner, by admins of the organization that owns it, and
    by its members, who are people; no key can see it.
    """
    mine = or_(workspaces.c.owner_id == caller.account_id, workspaces.c.owner_id.in_(organizations_of(caller)))
    if caller.kind == "triggerApiKey":
        mine = and_(mine, workspaces.c.id == caller.workspace_id)
    if caller.kind == "oauth2":
        admitted = select(workspace_members.c.workspace_id).where(workspace_members.c.user_id == caller.account_id)
        is_open = or_(
            ~workspaces.c.should_restrict_members,
            workspaces.c.owner_id == caller.account_id,
            workspaces.c.owner_id.in_(organizations_administered_by(caller)),
            workspaces.c.id.in_(admitted),
        )
        return and_(mine, is_open)
    return and_(mine, ~workspaces.c.should_restrict_members)


def require_workspace(call: OperationCall, reference: str) -> Row:
    """Return the visible workspace with this id or name, or raise the 404."""
    query = (
        select(workspaces)
        .where(matches(workspaces, reference), visible_workspace(call.caller))
        .order_by(_own_first(workspaces, call.caller), workspaces.c.id)
    )
    return _require(call.db.execute(query).mappings().first(), "Workspace")


def require_own_workspace(call: OperationCall, reference: str) -> Row:
    """Return a workspace that the caller may use, or raise the 404.

    A key may only use its own account's workspaces.
    """
    row = require_workspace(call, reference)
    if row["owner_id"] != call.caller.account_id and call.caller.kind != "oauth2":
        raise errors.not_found("Workspace")
    return row


def agents_viewer(call: OperationCall) -> Principal | None:
    """Return who reads agents: the caller, or nobody without agents:read.

    So a credential without that scope gets exactly what a request without a credential
    gets.
    """
    return call.principal if call.principal is not None and call.principal.may("agents:read") else None


def require_workspace_agent(call: OperationCall, reference: str) -> Row:
    """Return an installed agent, in a workspace that the caller may use, or the 404."""
    row = None
    if ids.is_id(reference.lower()):
        query = (
            select(workspace_agents, workspaces.c.owner_id)
            .join(workspaces, workspaces.c.id == workspace_agents.c.workspace_id)
            .where(workspace_agents.c.id == reference.lower(), visible_workspace(call.caller))
        )
        if call.caller.kind != "oauth2":
            query = query.where(workspaces.c.owner_id == call.caller.account_id)
        row = call.db.execute(query).mappings().first()
    return _require(row, "Workspace agent")


def visible_agent(caller: Principal | None) -> ColumnElement[bool]:
    """The condition that the caller can see an agent: public, or the account's own."""
    if caller is None:
        return _IS_PUBLIC
    own = agents.c.owner_id == caller.account_id
    if caller.kind == "oauth2":
        return or_(_IS_PUBLIC, own, agents.c.owner_id.in_(organizations_of(caller)))
    return or_(_IS_PUBLIC, own)


@functools.lru_cache(maxsize=100)  # to build it takes longer than to run it
def visible_agents(caller: Principal | None, sort_by: str) -> Select[Any]:
    """Select the agents in use that the caller can see, sorted by a column."""
    in_use = select(agents).where(~agents.c.is_archived, visible_agent(caller))
    return in_use.order_by(*_sorting(agents, sort_by))


def find_agent(call: OperationCall, reference: str, *, check_read_scope: bool) -> Row | None:
    """Return the visible agent with this id or name, or None."""
    viewer = agents_viewer(call) if check_read_scope else call.principal
    query = (
        select(agents)
        .where(matches(agents, reference), visible_agent(viewer))
        .order_by(_own_first(agents, viewer), agents.c.is_archived, agents.c.id)
    )
    return call.db.execute(query).mappings().first()


def require_agent(call: OperationCall, reference: str, *, check_read_scope: bool) -> Row:
    """Return the visible agent with this id or name, or raise the 404.

    With `check_read_scope`, private agents require agents:read, as in the agent
    operations; writes that name an agent require their own scope instead.
    """
    return _require(find_agent(call, reference, check_read_scope=check_read_scope), "Agent")


def require_own_agent(call: OperationCall, reference: str) -> Row:
    """Return an agent that the caller may change.

    Raises the 404 if it is not visible and the 403 if it belongs to another account. A
    person may also change the agents of their organizations.
    """
    row = require_agent(call, reference, check_read_scope=False)
    if not is_own_agent(call, row["owner_id"], call.caller):
        raise errors.forbidden("This agent belongs to another account")
    return row


def is_own_agent(call: OperationCall, owner_id: str, caller: Principal | None) -> bool:
    """Whether an agent of this owner is the caller's, or one of its organizations'."""
    if caller is None or owner_id == caller.account_id:
        return caller is not None
    return caller.kind == "oauth2" and owner_id in call.db.execute(organizations_of(caller)).scalars().all()


def require_session(db: Connection, caller: Principal, session_id: str) -> Row:
    """Return the session if the caller can see its workspace, or raise the 404.

    A key sees the sessions of its own account's unrestricted workspaces only
    (specification: "Authentication", rule 9).
    """
    if not ids.is_id(session_id.lower()):
        raise errors.not_found("Session")
    query = (
        select(sessions, workspaces.c.owner_id, workspaces.c.name.label("workspace_name"))
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .where(sessions.c.id == session_id.lower(), visible_workspace(caller))
    )
    if caller.kind != "oauth2":
        query = query.where(workspaces.c.owner_id == caller.account_id)
    return _require(db.execute(query).mappings().first(), "Session")


def require_unused_name(call: OperationCall, table: Any, owner_id: str, name: str, entity: str) -> None:
    """Raise the 409 if the owner already has an entity with this name."""
    same_name = select(table.c.id).where(table.c.owner_id == owner_id, table.c.name == name)
    if call.db.execute(same_name).first() is not None:
        raise errors.name_taken(entity, f"{call.caller.account_name}~{name}")


def contains_words(text: str, *columns: Any) -> list[ColumnElement[bool]]:
    """The conditions that each word is in one of the columns; case is ignored.

    Raises the 400 for too many words.
    """
    words = limit_terms("search", "words", text.split())
    return [or_(*(column.icontains(word, autoescape=True) for column in columns)) for word in words]


def limit_terms(filter_name: str, noun: str, terms: Iterable[str]) -> list[str]:
    """Return the distinct terms of a filter, or raise the 400 if there are too many."""
    distinct = list(dict.fromkeys(terms))
    if len(distinct) > MAX_TERMS:
        raise errors.invalid_input([f"query.{filter_name}: Input should have at most {MAX_TERMS} different {noun}"])
    return distinct


def order_by_column(query: Select[Any], table: Any, sort_by: str | None, default: str) -> Select[Any]:
    """Sort `query` by a column that openapi.yaml allows, or by `default`.

    Rows without a value come last (first with ``-``), on every database.
    """
    return query.order_by(*_sorting(table, sort_by or default))


@functools.cache
def _sorting(table: Any, sort_key: str) -> tuple[ColumnElement[Any], ...]:
    column = _column(table, sort_key.removeprefix("-"))
    if sort_key.startswith("-"):
        return column.desc().nulls_first(), table.c.id.desc()
    return column.asc().nulls_last(), table.c.id


@functools.lru_cache(maxsize=100)  # for statements that are kept themselves
def _limited(query: Select[Any]) -> Select[Any]:
    return query.limit(bindparam("limit")).offset(bindparam("offset"))


def fetch_page(call: OperationCall, query: Select[Any]) -> tuple[list[Row], int]:
    """Return the requested page of `query`, and the total number of rows.

    A page whose texts are longer than `MAX_PAGE` ends early, but has at least one row.
    """
    limit, offset = call.query["limit"], min(call.query["offset"], MAX_OFFSET)
    few = {"yield_per": 16}  # rows at a time
    rows: list[Row] = []
    length = 0
    with call.db.execute(_limited(query), {"limit": limit + 1, "offset": offset}, execution_options=few) as result:
        for row in chain.from_iterable(result.partitions()):
            length += sum([len(value) for value in row if value.__class__ is str])
            if len(rows) == limit or (rows and length > MAX_PAGE):
                break
            rows.append(row._mapping)
        else:
            if rows or offset == 0:  # they are the last ones
                return rows, offset + len(rows)
    total = call.db.execute(select(func.count()).select_from(query.order_by(None).subquery())).scalar_one()
    return rows, total


def _require(row: Row | None, entity: str) -> Row:
    if row is None:
        raise errors.not_found(entity)
    return row


def matches(table: Any, reference: str) -> ColumnElement[bool]:
    """The condition that `reference` names a row of `table` (owned, named entities).

    It is an id, a name, or ``<owner>~<name>``.
    """
    if "\x00" in reference:  # PostgreSQL rejects null characters
        return false()
    if ids.is_id(reference.lower()):
        return table.c.id == reference.lower()  # type: ignore[no-any-return]
    owner, tilde, name = reference.partition("~")
    if tilde:
        owners = select(accounts.c.id).where(accounts.c.name == owner)
        return and_(table.c.name == name, table.c.owner_id.in_(owners))
    return table.c.name == reference  # type: ignore[no-any-return]


def _own_first(table: Any, caller: Principal | None) -> ColumnElement[int]:
    """Sort the caller's own row first among rows with the same name."""
    return case((table.c.owner_id == (caller.account_id if caller else ""), 0), else_=1)


def _column(table: Any, name: str) -> ColumnElement[Any]:
    if name == "full_name":
        owner = select(accounts.c.name).where(accounts.c.id == table.c.owner_id).scalar_subquery()
        return owner + "~" + table.c.name  # type: ignore[no-any-return]
    return table.c[name]  # type: ignore[no-any-return]
