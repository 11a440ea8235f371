from __future__ import annotations

import pytest

from service.world import World


@pytest.fixture
async def ids(world: World) -> dict[str, str]:
    """One row at least of every noun, of acme; the ids that paths need."""
    lab, acme = world.workspace(), world.accounts["acme"]
    helper = world.agent_row()
    world.agent_row(owner="bob", name="open", is_public=True)
    installed = world.add("workspace_agents", workspace_id=lab, agent_id=helper, creator_id=acme)
    version = world.add("agent_versions", agent_id=helper, creator_id="x", type="COMMITTED", version_number="1.0.0")
    session = await world.start("hello")
    await world.idle()
    credential = world.add("credentials", owner_id=acme, account_id=acme, integration="mail", name="mail")
    world.link("credential_grants", credential_id=credential, workspace_agent_id=installed)
    world.add("contexts", workspace_id=lab, status="DRAFT")
    invitation = {"organization_id": acme, "invitee_id": world.accounts["bob"], "creator_id": acme}
    world.add("invitations", **invitation, role="ADMIN", status="PENDING")
    skill = world.add("skills", owner_id=acme, creator_id=acme, name="skill")
    world.add("skill_versions", skill_id=skill, creator_id=acme, version_number="1.0.0")
    return {
        "credential": credential,
        "installed": installed,
        "session": session,
        "skill": skill,
        "version": version,
    }
