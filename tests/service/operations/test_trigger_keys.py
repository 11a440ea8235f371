from __future__ import annotations

import pytest

from agentbook.service import admin
from agentbook.service.errors import OperatorError
from service.world import World, error

pytestmark = pytest.mark.anyio


async def test_a_trigger_key_reads_the_sessions_of_its_workspace_until_it_is_revoked(world: World) -> None:
    world.agent_row()
    lab = world.workspace()
    session = await world.start("hello")
    await world.idle()
    keys = [world.key("acme", trigger=name) for name in ("lab", lab, "acme~lab")]
    for key in keys:
        assert await world.events(session, key) == await world.events(session)
    admin.revoke_key(world.store, keys[0])
    refused = (401, "Unauthorized", "Invalid API key")
    assert error(await world.get(f"/sessions/{session}/events", keys[0])) == refused
    # Of an earlier version, made with a token, whose end is no longer noticed.
    world.change("api_keys", keys[1].partition(":")[0], authorization_id="0199c2f0-0000-7000-8000-000000000000")
    assert error(await world.get(f"/sessions/{session}/events", keys[1])) == refused
    assert await world.events(session, keys[2])


async def test_a_trigger_key_is_made_only_for_an_open_workspace_of_its_account(world: World) -> None:
    world.workspace(name="closed", should_restrict_members=True)
    world.workspace("bob", "elsewhere")
    for name, wrong in {"closed": "restricted", "bob~elsewhere": "belong", "nowhere": "no workspace"}.items():
        with pytest.raises(OperatorError, match=wrong):
            world.key("acme", trigger=name)
