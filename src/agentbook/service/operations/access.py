"""What a caller can see, and how a request names it: by id, by name, or as ``<owner>~<name>``.

There is one rule for everything here: what the caller may not see is answered exactly as what is not there. Specification:
"What the service does", Ids and names; "Authentication", rules 5 and 9; "Errors", 404.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Select, and_, case, false, func, or_, select, true

from .. import errors, ids
from ..auth import Principal
from ..store.tables import accounts, agents, memberships, sessions, workspaces
from .registry import Call

Row = Mapping[Any, Any]

_GROUP = 100


def named(table: Any, reference: str, caller: Principal | None) -> ColumnElement[bool]:
    """The condition that picks the rows of `table` (owned, named entities) that `reference` can mean."""
    if ids.is_id(reference.lower()):
        return table.c.id == reference.lower()  # type: ignore[no-any-return]
    owner, tilde, name = reference.partition("~")
    if tilde:
        owners = select(accounts.c.id).where(accounts.c.name == owner)
        return and_(table.c.name == name, table.c.owner_id.in_(owners))
    return table.c.name == reference  # type: ignore[no-any-return]


def own_first(table: Any, caller: Principal | None) -> ColumnElement[int]:
    """An order in which, of several of one name, the caller's own comes first."""
    return case((table.c.owner_id == (caller.account_id if caller else ""), 0), else_=1)


def storable(reference: str) -> bool:
    """Whether a text from a path can stand in the store at all (PostgreSQL takes no null characters)."""
    return "\x00" not in reference


def account(db: Connection, reference: str) -> Row | None:
    """The account of this id or name, None where there is none."""
    if not storable(reference):
        return None
    column = accounts.c.id if ids.is_id(reference.lower()) else accounts.c.name
    wanted = reference.lower() if column is accounts.c.id else reference
    return db.execute(select(accounts).where(column == wanted)).mappings().first()


def account_or_404(call: Call, reference: str, entity: str = "Account") -> Row:
    """The account of this id or name, or the 404."""
    row = account(call.db, reference)
    if row is None:
        raise errors.not_found(entity)
    return row


def own_account(call: Call, reference: str | None, action: str) -> str:
    """The id of the account a new thing is to belong to: the caller's own, which is also the default.

    Raises the 403 for any other account, there or not.
    """
    if reference is None:
        return call.caller.account_id
    row = account(call.db, reference)
    if row is None or row["id"] != call.caller.account_id:
        raise errors.forbidden(f"This credential cannot {action} for another account")
    return call.caller.account_id


def member_of(caller: Principal) -> Select[Any]:
    """The ids of the organizations the caller's account is a member of."""
    return select(memberships.c.organization_id).where(memberships.c.user_id == caller.account_id)


def administered(caller: Principal) -> Select[Any]:
    """The ids of the organizations that the caller's account is an admin of."""
    return member_of(caller).where(memberships.c.role == "ADMIN")


def admin_or_403(call: Call, owner_id: str, action: str) -> None:
    """Raise the 403 unless the caller is an admin of the account `owner_id`; a key never acts as a person, so it never is."""
    caller = call.caller
    if caller.kind == "oauth2" and (
        owner_id == caller.account_id or owner_id in call.db.execute(administered(caller)).scalars().all()
    ):
        return
    raise errors.forbidden(f"Only an admin can {action}")


def visible_workspace(caller: Principal) -> ColumnElement[bool]:
    """The condition that a workspace can be seen: the account's own and its organizations', a restricted one by no key."""
    mine = or_(workspaces.c.owner_id == caller.account_id, workspaces.c.owner_id.in_(member_of(caller)))
    if caller.kind == "triggerApiKey":
        mine = and_(mine, workspaces.c.id == caller.workspace_id)
    if caller.kind == "oauth2":
        # A person is let into a restricted workspace as its owner or as an admin of the owning organization.
        open_ = or_(
            ~workspaces.c.should_restrict_members,
            workspaces.c.owner_id == caller.account_id,
            workspaces.c.owner_id.in_(administered(caller)),
        )
        return and_(mine, open_)
    return and_(mine, ~workspaces.c.should_restrict_members)


def workspace(call: Call, reference: str) -> Row:
    """The visible workspace of this id or name, or the 404."""
    if storable(reference):
        query = (
            select(workspaces)
            .where(named(workspaces, reference, call.caller), visible_workspace(call.caller))
            .order_by(own_first(workspaces, call.caller), workspaces.c.id)
        )
        row = call.db.execute(query).mappings().first()
        if row is not None:
            return row
    raise errors.not_found("Workspace")


def own_workspace(call: Call, reference: str) -> Row:
    """The visible workspace that the caller's account owns; another account's gives the 404 too."""
    row = workspace(call, reference)
    if row["owner_id"] != call.caller.account_id and call.caller.kind != "oauth2":
        raise errors.not_found("Workspace")
    return row


def visible_agent(caller: Principal | None, *, reading: bool) -> ColumnElement[bool]:
    """The condition that an agent can be seen: public ones, and the account's own.

    `reading` asks for agents:read as the agent operations do; writes that name an agent ask for their own scope instead.
    """
    own: ColumnElement[bool] = false()
    if caller is not None and (not reading or caller.may("agents:read")):
        own = agents.c.owner_id == caller.account_id
        if caller.kind == "oauth2":
            own = or_(own, agents.c.owner_id.in_(member_of(caller)))
    return or_(agents.c.is_public == true(), own)


def agent(call: Call, reference: str, *, reading: bool) -> Row:
    """The visible agent of this id or name, or the 404."""
    if storable(reference):
        query = (
            select(agents)
            .where(named(agents, reference, call.principal), visible_agent(call.principal, reading=reading))
            .order_by(own_first(agents, call.principal), agents.c.is_archived, agents.c.id)
        )
        row = call.db.execute(query).mappings().first()
        if row is not None:
            return row
    raise errors.not_found("Agent")


def own_agent(call: Call, reference: str) -> Row:
    """The agent of this name that the caller's account owns: 404 where it is not seen, 403 where it is another's.

    A person has to do with the agents of its organizations too.
    """
    row = agent(call, reference, reading=False)
    if row["owner_id"] == call.caller.account_id:
        return row
    if call.caller.kind == "oauth2" and row["owner_id"] in call.db.execute(member_of(call.caller)).scalars().all():
        return row
    raise errors.forbidden("This agent belongs to another account")


def session(db: Connection, caller: Principal, session_id: str) -> Row:
    """The session of this id in a workspace that the caller can see, or the 404.

    A key sees the sessions of its own account's unrestricted workspaces alone (specification: "Authentication", rule 9).
    """
    if ids.is_id(session_id.lower()):
        query = (
            select(sessions, workspaces.c.owner_id, workspaces.c.name.label("workspace_name"))
            .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
            .where(sessions.c.id == session_id.lower(), visible_workspace(caller))
        )
        if caller.kind != "oauth2":
            query = query.where(workspaces.c.owner_id == caller.account_id)
        row = db.execute(query).mappings().first()
        if row is not None:
            return row
    raise errors.not_found("Session")


def words_in(text: str, *columns: Any) -> list[ColumnElement[bool]]:
    """The conditions that every word of `text` stands in at least one of the columns, whatever its case."""
    words = dict.fromkeys(text.split())
    each = [or_(*(column.icontains(word, autoescape=True) for column in columns)) for word in words]
    return [combined(and_, each)] if each else []


def combined(join: Callable[..., ColumnElement[bool]], conditions: list[ColumnElement[bool]]) -> ColumnElement[bool]:
    """Any number of conditions, at least one, in groups of groups: SQLite takes expressions a thousand levels deep at most."""
    while len(conditions) > _GROUP:
        groups = [join(*conditions[n : n + _GROUP]) for n in range(0, len(conditions), _GROUP)]
        # A function of each: parentheses alone would be taken away again, as they change nothing.
        conditions = [func.coalesce(group, false(), type_=Boolean) for group in groups]
    return join(*conditions)


def sorted_by(query: Select[Any], table: Any, sort_by: str | None, default: str) -> Select[Any]:
    """`query` in the order that `sort_by` asks for; openapi.yaml has let only the columns on its list through.

    Rows without a value come last (first with ``-``), on every database.
    """
    wanted = sort_by or default
    column = _column(table, wanted.removeprefix("-"))
    if wanted.startswith("-"):
        return query.order_by(column.desc().nulls_first(), table.c.id.desc())
    return query.order_by(column.asc().nulls_last(), table.c.id)


def _column(table: Any, name: str) -> ColumnElement[Any]:
    if name == "full_name":
        owner = select(accounts.c.name).where(accounts.c.id == table.c.owner_id).scalar_subquery()
        return owner + "~" + table.c.name  # type: ignore[no-any-return]
    return table.c[name]  # type: ignore[no-any-return]


def counted_page(db: Connection, query: Select[Any], given: Mapping[str, Any]) -> tuple[list[Row], int]:
    """The rows of one page of `query`, and how many rows it has in all."""
    total = db.execute(select(func.count()).select_from(query.order_by(None).subquery())).scalar_one()
    # The largest offset the specification allows is 193 more than an integer of the database.
    offset = min(given["offset"], (1 << 63) - 1)
    if given["limit"] == 0 or offset >= total:
        return [], total
    return list(db.execute(query.limit(given["limit"]).offset(offset)).mappings().all()), total
