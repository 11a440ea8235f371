"""Monthly budgets (specification: "Errors", runtime limit failures).

Spending is counted in tokens, which every LLM endpoint reports, per calendar month in
UTC: for the session's workspace, for its agent, and for the user it acts for, if any.
A turn's tokens are added in the transaction that stores the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, case, or_, select

from ..engines.meter import Budget, RunLimits
from ..ids import Clock
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


class MonthlyBudgets:
    """The budgets of the month, one for each spender, shared by all running turns.

    The remainder is read from the store when a turn begins, and counted here from then
    on: turns that run at the same time see what the others use before it is stored.
    What turns of other processes use is seen once it is stored.

    Parameters
    ----------
    limits
        Names the budgets.
    """

    def __init__(self, limits: RunLimits) -> None:
        self._limits = {
            "WORKSPACE": limits.workspace_budget,
            "AGENT": limits.agent_budget,
            "USER": limits.user_budget,
        }
        self._month = ""
        self._budgets: dict[tuple[str, str], Budget] = {}

    def of_session(self, db: Connection, session_id: str, month: str) -> tuple[Budget, ...]:
        """The budgets that a session's turns count against."""
        if all(limit is None for limit in self._limits.values()):
            return ()
        return self._read(db, _spenders(db, session_id), month)

    def of_agent(self, db: Connection, agent_id: str, name: str, month: str) -> Budget | None:
        """The budget of one agent, such as a sub-agent; None without a limit."""
        return next(iter(self._read(db, [_Spender("AGENT", agent_id, name)], month)), None)

    def _read(self, db: Connection, spenders: Iterable[_Spender], month: str) -> tuple[Budget, ...]:
        """The budgets of spenders that have a limit."""
        limits = {spender: limit for spender in spenders if (limit := self._limits[spender.scope]) is not None}
        if not limits:
            return ()
        is_theirs = or_(*((spending.c.scope == who.scope) & (spending.c.spender_id == who.id) for who in limits))
        rows = db.execute(select(spending).where(spending.c.month == month, is_theirs))
        tokens = {(row.scope, row.spender_id): row.tokens for row in rows}
        return tuple(
            self._lower(spender, month, limit - tokens.get((spender.scope, spender.id), 0))
            for spender, limit in limits.items()
        )

    def _lower(self, spender: _Spender, month: str, remaining: int) -> Budget:
        """The budget of a spender, lowered so that at most `remaining` is left."""
        if month > self._month:
            self._month, self._budgets = month, {}
        budgets, key = self._budgets, (spender.scope, spender.id)
        budget = budgets.setdefault(key, Budget(spender.scope, spender.name, remaining))
        if remaining < budget.remaining_tokens:
            budget.remaining_tokens = remaining
        return budget


def spend(tx: Transaction, session_id: str, tokens_by_agent: Mapping[str | None, int]) -> None:
    """Add the tokens of one turn to what its spenders have used this month.

    `tokens_by_agent` has the tokens of sub-agents under their ids, and those of the
    session's own agent under None. An agent is charged what it used itself; workspace
    and user are charged the total.
    """
    month, total = current_month(tx.clock), sum(tokens_by_agent.values())
    charges = {
        (spender.scope, spender.id): tokens_by_agent.get(None, 0) if spender.scope == "AGENT" else total
        for spender in _spenders(tx.db, session_id)
    }
    for agent_id, tokens in tokens_by_agent.items():
        if agent_id is not None:
            charges["AGENT", agent_id] = charges.get(("AGENT", agent_id), 0) + tokens
    for (scope, id_), tokens in charges.items():
        if tokens:
            tx.execute_last(_ADD, (scope, id_, month, tokens))


def _spenders(db: Connection, session_id: str) -> list[_Spender]:
    user = accounts.alias("acting_user")
    # A key acts as its account, which may be a user's.
    of_key = select(api_keys.c.account_id).where(api_keys.c.id == sessions.c.initiator_id).correlate(sessions)
    acting_id = case((sessions.c.initiator_type == "user", sessions.c.initiator_id), else_=of_key.scalar_subquery())
    query = (
        select(workspaces.c.id, workspaces.c.name, agents.c.id, agents.c.name, user.c.id, user.c.name)
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(agents, agents.c.id == sessions.c.agent_id)
        .outerjoin(user, (user.c.id == acting_id) & (user.c.type == "user"))
        .where(sessions.c.id == session_id)
    )
    row = db.execute(query).first()
    if row is None:
        return []
    workspace_id, workspace, agent_id, agent, user_id, user_name = row
    spenders = [_Spender("WORKSPACE", workspace_id, workspace), _Spender("AGENT", agent_id, agent)]
    if user_id is not None:
        spenders.append(_Spender("USER", user_id, user_name))
    return spenders
