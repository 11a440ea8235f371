"""Whom and what the workspaces of an organization admit, for its admins.

Members can also leave a workspace here. Specification: "Resources and their fields",
Workspace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import members
from ..errors import OperatorError
from ..store import Transaction
from ..store.tables import accounts, workspace_members, workspaces
from ..web.endpoints import Fields
from . import visitor as visitors
from .html import page, render
from .visitor import UntrustedForm, Visitor

if TYPE_CHECKING:
    from ..state import Platform

_DONE = {
    "added": "The member has access now.",
    "removed": "The member's access has ended.",
    "left": "You are no longer a member of this workspace.",
    "saved": "The workspace's settings are saved.",
}


async def show(platform: Platform, request: Request) -> Response:
    """GET /members."""
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303)
    note = _DONE.get(request.query_params.get("done", ""))
    return await _page(platform, request, visitor, note, request.query_params.get("workspace"))


async def submit(platform: Platform, request: Request) -> Response:
    """POST /members: add or remove a member, leave, or change settings."""
    visitor, form = await visitors.read_form(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303)
    action, target = (form.get(name, [""])[0] for name in ("action", "id"))
    visitors.require_token(visitor, form, f"{action} {target}")
    try:
        done = await platform.store.write(lambda tx: _change(tx, visitor, action, target, form))
    except OperatorError as error:
        return await _page(platform, request, visitor, str(error), target.partition(" ")[0], failed=True)
    query = urlencode({"done": done, "workspace": target.partition(" ")[0]})
    return RedirectResponse(f"members?{query}", 303)


def _change(tx: Transaction, visitor: Visitor, action: str, target: str, form: Fields) -> str:
    """Do what a form asks, and return the key in `_DONE` of what was done."""
    workspace_id, _, user_id = target.partition(" ")
    workspace = tx.db.execute(select(workspaces).where(workspaces.c.id == workspace_id)).mappings().first()
    person = visitor.accounts[0]
    if action == "leave":
        joined = select(workspace_members.c.id).where(
            workspace_members.c.workspace_id == workspace_id, workspace_members.c.user_id == person["id"]
        )
        # Checked here, because the message must not name someone else's workspace.
        if workspace is None or tx.db.execute(joined).first() is None:
            raise OperatorError("You are not a member of this workspace, so nothing was changed.")
        members.remove_from_workspace(tx, workspace, person)
        return "left"
    if workspace is None or visitor.find_account(workspace["owner_id"]) is None:
        raise UntrustedForm("Only an admin of its organization can change this workspace. Ask one of them.")
    if action == "configure":
        mode = form.get("credentials", [""])[0]
        changes = {
            "should_restrict_members": "restrict_members" in form,
            "restrict_account_credentials": "restrict_account_credentials" in form,
            "required_credentials_mode": mode if mode in members.CREDENTIALS_MODES else None,
        }
        members.configure_workspace(tx, workspace, changes)
        return "saved"
    if action not in ("add", "remove"):
        raise UntrustedForm("This page has no such action. Go back, reload the page, and try again.")
    user_id = user_id or form.get("user", [""])[0]
    user = tx.db.execute(select(accounts).where(accounts.c.id == user_id)).mappings().first()
    if user is None:
        raise OperatorError("Choose a member of the organization to add; nothing was changed.")
    if action == "add":
        members.add_to_workspace(tx, workspace, user, person["id"])
        return "added"
    members.remove_from_workspace(tx, workspace, user)
    return "removed"


async def _page(
    platform: Platform,
    request: Request,
    visitor: Visitor,
    note: str | None,
    open_workspace: str | None,
    *,
    failed: bool = False,
) -> Response:
    content = await platform.store.read(lambda db: _read(db, visitor))
    text = render("members.html", visitor=visitor, note=note, failed=failed, open_workspace=open_workspace, **content)
    return page(request, text, 409 if failed else 200)


def _read(db: Connection, visitor: Visitor) -> dict[str, Any]:
    """Return the organizations that the visitor administers, each with its people and
    its workspaces with their members, and the workspaces elsewhere that admit them.
    """
    owners = [account for account in visitor.accounts if account["type"] == "organization"]
    owned = select(workspaces).where(workspaces.c.owner_id.in_([owner["id"] for owner in owners]))
    in_order = owned.order_by(workspaces.c.archived_at.is_not(None), workspaces.c.name)
    owned_workspaces = db.execute(in_order).mappings().all()
    everyone = members.workspace_members_of(db, [workspace["id"] for workspace in owned_workspaces])
    joined = (
        select(workspaces, accounts.c.name.label("owner"), workspace_members.c.created_at.label("since"))
        .join(workspace_members, workspace_members.c.workspace_id == workspaces.c.id)
        .join(accounts, accounts.c.id == workspaces.c.owner_id)
        .where(
            workspace_members.c.user_id == visitor.accounts[0]["id"],
            workspaces.c.owner_id.not_in([owner["id"] for owner in owners]),
        )
        .order_by(accounts.c.name, workspaces.c.name)
    )
    organizations = [
        {
            "account": owner,
            "people": members.organization_members(db, owner["id"]),
            "workspaces": [
                (workspace, [member for member in everyone if member["workspace_id"] == workspace["id"]])
                for workspace in owned_workspaces
                if workspace["owner_id"] == owner["id"]
            ],
        }
        for owner in owners
    ]
    return {"organizations": organizations, "joined": db.execute(joined).mappings().all()}
