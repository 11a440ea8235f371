"""Monthly budgets (specification: "Errors", runtime limit failures).

Spending is counted in tokens, which every LLM endpoint reports, per calendar month in
UTC: for the session's workspace, for its agent, and for the user it acts for, if any.
A turn's tokens are added in the transaction that stores the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from ..clock import Clock
from ..engines.meter import Budget, RunLimits
from ..store import Transaction
from ..store.tables import accounts, agents, api_keys, sessions, spending, workspaces

_ADD = (
    "INSERT INTO spending (scope, spender_id, month, tokens) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (scope, spender_id, month) DO UPDATE SET tokens = spending.tokens + excluded.tokens"
)


@dataclass(frozen=True, slots=True)
class _Spender:
    scope: str
    id: str
    name: str


def current_month(clock: Clock) -> str:
    """The current month as budgets record it, such as ``2026-11``."""
    return clock.instant()[:7]


def remaining_budgets(db: Connection, limits: RunLimits, session_id: str, month: str) -> tuple[Budget, ...]:
    """The budgets that a session's turns count against, with the tokens that remain.

    The remainder is negative if a budget is overdrawn.
    """
    limit_by_scope = {
        "WORKSPACE": limits.workspace_budget,
        "AGENT": limits.agent_budget,
        "USER": limits.user_budget,
    }
    if all(limit is None for limit in limit_by_scope.values()):
        return ()
    budgets = []
    for spender in _spenders(db, session_id):
        limit = limit_by_scope[spender.scope]
        if limit is not None:
            query = select(spending.c.tokens).where(
                spending.c.scope == spender.scope, spending.c.spender_id == spender.id, spending.c.month == month
            )
            budgets.append(Budget(spender.scope, spender.name, limit - (db.execute(query).scalar() or 0)))
    return tuple(budgets)


def spend(tx: Transaction, session_id: str, tokens: int) -> None:
    """Add the tokens of one turn to what its spenders have used this month."""
    month = current_month(tx.clock)
    for spender in _spenders(tx.db, session_id):
        tx.execute(_ADD, (spender.scope, spender.id, month, tokens))


def _spenders(db: Connection, session_id: str) -> list[_Spender]:
    query = (
        select(
            sessions.c.initiator_id,
            sessions.c.initiator_type,
            workspaces.c.id.label("workspace_id"),
            workspaces.c.name.label("workspace"),
            agents.c.id.label("agent_id"),
            agents.c.name.label("agent"),
        )
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(agents, agents.c.id == sessions.c.agent_id)
        .where(sessions.c.id == session_id)
    )
    row = db.execute(query).first()
    if row is None:
        return []
    spenders = [_Spender("WORKSPACE", row.workspace_id, row.workspace), _Spender("AGENT", row.agent_id, row.agent)]
    # A key acts as an account. If that account is a user's, the user pays.
    key_account = select(api_keys.c.account_id).where(api_keys.c.id == row.initiator_id).scalar_subquery()
    payer = row.initiator_id if row.initiator_type == "user" else key_account
    user = db.execute(
        select(accounts.c.id, accounts.c.name).where(accounts.c.id == payer, accounts.c.type == "user")
    ).first()
    if user is not None:
        spenders.append(_Spender("USER", user.id, user.name))
    return spenders
