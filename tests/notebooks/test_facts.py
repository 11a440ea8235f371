"""What the notebooks say about the demo holds on each of its seven months."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pandas as pd
import pytest
from sqlalchemy import Connection, create_engine, select

import agentbook as ab
from agentbook.frames.parse import to_frame
from agentbook.frames.parse.frame import FrameBuilder
from agentbook.service import demo
from agentbook.service.store import tables
from notebooks.facts import FACTS, Month

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
# A month ends now: soon after midnight it lacks a day that it has late in the evening.
HOURS = (15, 1, 23, 9, 12, 18, 7)


def frame(resource: str, items: list[dict[str, Any]]) -> pd.DataFrame:
    return to_frame(resource, [msgspec.json.encode({"items": items})])


def month_of(connection: Connection, now: datetime) -> Month:
    """What *acme*'s key loads: all but a workspace restricted to its members."""
    owner = connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == "acme")).scalar_one()
    workspaces, agents, sessions = tables.workspaces, tables.agents, tables.sessions
    is_visible = (workspaces.c.owner_id == owner) & ~workspaces.c.should_restrict_members
    own_workspaces = connection.execute(select(workspaces).where(is_visible)).mappings().all()
    own_agents = connection.execute(select(agents).where(agents.c.owner_id == owner)).mappings().all()
    in_own = sessions.c.workspace_id.in_([row["id"] for row in own_workspaces])
    own_sessions = connection.execute(select(sessions).where(in_own)).mappings().all()
    events = FrameBuilder("events", {"session_id": ""})
    for row in own_sessions:
        in_session = tables.events.c.session_id == row["id"]
        texts = connection.execute(
            select(tables.events.c.wire).where(in_session).order_by(tables.events.c.id)
        ).scalars()
        events.add(f'{{"items": [{",".join(texts)}]}}'.encode(), {"session_id": row["id"]})
    history = ab.History(
        events.finish(),
        frame("sessions", [dict(row) for row in own_sessions]),
        workspaces=frame("workspaces", [{**row, "full_name": f"acme~{row['name']}"} for row in own_workspaces]),
        agents=frame("agents", [{**row, "full_name": f"acme~{row['name']}"} for row in own_agents]),
        account="acme",
    )
    names = {row["id"]: row["name"] for row in own_agents}
    versions = connection.execute(select(tables.agent_versions).where(tables.agent_versions.c.type == "COMMITTED"))
    newest = {
        names[row.agent_id]: pd.Timestamp(row.published_at)
        for row in sorted(versions, key=lambda row: str(row.published_at))
        if row.agent_id in names
    }
    return Month(history, newest, pd.Timestamp(now).floor("D"))


@pytest.fixture(scope="module", params=range(7), ids=["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
def month(request: pytest.FixtureRequest) -> Month:
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        now = MONDAY + timedelta(days=request.param, hours=HOURS[request.param])
        demo.write(connection, now=now)
        made = month_of(connection, now)
    engine.dispose()
    return made


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_what_a_notebook_says(month: Month, fact: Any) -> None:
    fact(month)
