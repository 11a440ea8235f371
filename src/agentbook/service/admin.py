"""Manages the accounts and keys of a store, whether or not the service is running.

These are plain functions on a `Store`, used by the `agentbook` command and by
`agentbook.embedded`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, select

from .._files import atomic_write
from . import auth, contract, demo, members
from .discovery_file import KEY_FILE
from .errors import OperatorError
from .operations import access
from .pages.visitor import create_link
from .store import Store, Transaction
from .store.tables import accounts, agent_versions, agents, api_keys, workspaces
from .text import is_visible

# Everything a key can do within its own account.
LOCAL_KEY_SCOPES = tuple(scope for scope in auth.SCOPES if scope.endswith(":write"))


def create_account(store: Store, name: str, type: str) -> str:
    """Create an account and return its id.

    Parameters
    ----------
    store
        The store to write to.
    name
        Unique in the store. It is part of paths and full names, so it contains no
        ``~``, ``/`` or control characters.
    type
        ``user`` or ``organization``.

    Raises
    ------
    OperatorError
        The name is taken or invalid.

    Notes
    -----
    Specification: "What the service does", Account.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> len(create_account(store, "ada", "user"))
    36
    """
    if not contract.is_name(name):
        raise OperatorError(
            f"{name!r} cannot be a name: use 1 to 120 characters without '~', '/', control characters or "
            "spaces at either end, and nothing that looks like an id."
        )

    def create(tx: Transaction) -> str:
        if access.find_account(tx.db, name) is not None:
            raise OperatorError(f"An account named {name!r} already exists; choose another name.")
        return str(tx.insert(accounts, type=type, name=name, full_name=name)["id"])

    return store.write_now(create)


def add_agent(store: Store, full_name: str, engine: str) -> None:
    """Add an agent, ``<account>~<name>``, that runs on an engine of this service.

    It is visible to its account, and ready. Does nothing if it is there already.

    Raises
    ------
    OperatorError
        The account does not exist, the name is invalid, or the agent has another
        engine.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> _ = create_account(store, "ada", "user")
    >>> add_agent(store, "ada~parrot", "echo")
    """
    account, _, name = full_name.partition("~")
    if not contract.is_name(name):
        raise OperatorError(f"{name!r} cannot be the name of an agent; write it as OWNER~NAME.")

    def add(tx: Transaction) -> None:
        owner_id = _account(tx.db, account)["id"]
        query = select(agents.c.engine).where(agents.c.owner_id == owner_id, agents.c.name == name)
        present = tx.db.execute(query).scalar_one_or_none()
        if present not in (None, engine):
            raise OperatorError(f"The agent {full_name} already exists and runs on {present}; choose another name.")
        if present is None:
            owner = {"owner_id": owner_id, "creator_id": owner_id}
            agent = tx.insert(agents, **owner, name=name, template="LLM", engine=engine)
            version = {"agent_id": agent["id"], "type": "COMMITTED", "version_number": "1.0.0"}
            tx.insert(agent_versions, **version, creator_id=owner_id)

    store.write_now(add)


def list_accounts(store: Store) -> Sequence[access.Row]:
    """Return ``id``, ``name``, ``type`` and ``created_at`` of accounts, oldest first.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> id_ = create_account(store, "ada", "user")
    >>> [(account["name"], account["type"]) for account in list_accounts(store)]
    [('ada', 'user')]
    """
    columns = (accounts.c.id, accounts.c.name, accounts.c.type, accounts.c.created_at)
    query = select(*columns).order_by(accounts.c.created_at, accounts.c.id)
    return store.read_now(lambda db: db.execute(query).mappings().all())


def create_key(store: Store, account: str, name: str, scopes: Collection[str], trigger: str | None = None) -> str:
    """Create an API key and return it as ``<api_key_id>:<api_key_secret>``.

    The secret cannot be read back later.

    Parameters
    ----------
    store
        The store to write to.
    account
        Id or name of the account the key acts as.
    name
        What the key is for, as shown in lists and as the author of its messages.
    scopes
        Scopes such as ``sessions:write``; write implies read. Without scopes, the key
        can only be used to ask who it is.
    trigger
        Makes a trigger key, which has no scopes, for this workspace of the account: an
        id, a name or ``<owner>~<name>``.

    Raises
    ------
    OperatorError
        The account does not exist, the name is empty or not one line of text, a scope
        is unknown, or no key may reach the workspace.

    Notes
    -----
    Specification: "Authentication", rules 1 to 3; "What the service does", Trigger API
    key. The latter shows no interface that runs a trigger's agent, so this service has
    none: such a key only reads.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> _ = create_account(store, "ada", "user")
    >>> key = create_key(store, "ada", "notebook", ["sessions:write"])
    >>> [len(part) for part in key.split(":")]
    [36, 43]
    """
    if unknown := [scope for scope in scopes if scope not in auth.SCOPES]:
        raise OperatorError(f"{unknown[0]!r} is not a scope; the scopes are {', '.join(auth.SCOPES)}.")
    if not name.strip() or not is_visible(name.strip()):
        raise OperatorError("A key needs a name that says what it is for, in one line without control characters.")

    def create(tx: Transaction) -> str:
        owner = _account(tx.db, account)
        columns = {"account_id": owner["id"], "name": name.strip(), "scopes": auth.known_scopes(scopes)}
        if trigger is not None:
            workspace = _workspace(tx.db, trigger)
            if workspace["owner_id"] != owner["id"]:
                raise OperatorError(f"The workspace {trigger!r} does not belong to {account}; name one that does.")
            if workspace["should_restrict_members"]:
                raise OperatorError(f"The workspace {trigger!r} is restricted to its members, so no key reaches it.")
            columns |= {"scopes": (), "kind": "trigger", "workspace_id": workspace["id"]}
        row, secret = auth.insert_key(tx, **columns)
        return f"{row['id']}:{secret}"

    return store.write_now(create)


def create_local_key(store: Store, data: Path) -> None:
    """Create the key of this machine's notebooks, in the file ``local-key.json``.

    A service creates it when it starts, so that a notebook, which only reads the file,
    need not load the store.

    It acts for the demo's account or, in a store without demo data, for its own
    account.

    Raises
    ------
    OperatorError
        If the store cannot be written.
    OSError
        If the file cannot be written.
    """
    names = [account["name"] for account in list_accounts(store)]
    account = demo.ACCOUNT if demo.ACCOUNT in names else "local"
    if account not in names:
        create_account(store, account, "user")
    with atomic_write(data / KEY_FILE, private=True) as file:
        file.write(json.dumps({"api_key": create_key(store, account, "notebook", LOCAL_KEY_SCOPES)}).encode())


def create_signin(store: Store, account: str) -> str:
    """Create a sign-in link for the service's pages and return its code.

    The code works once, for 15 minutes. Raises `OperatorError` if the account does not
    exist.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> _ = create_account(store, "ada", "user")
    >>> len(create_signin(store, "ada"))
    43
    """
    return store.write_now(lambda tx: create_link(tx, _account(tx.db, account)["id"]))


def list_keys(store: Store, account: str | None = None) -> Sequence[access.Row]:
    """List an account's keys (all keys if None), oldest first, including revoked ones.

    A row has ``id``, ``account``, ``name``, ``kind``, ``scopes_json``, ``created_at``
    and ``revoked_at``. Raises `OperatorError` if the account does not exist.
    """
    keys, owner = api_keys.c, accounts.c.name.label("account")
    columns = (keys.id, owner, keys.name, keys.kind, keys.scopes_json, keys.created_at, keys.revoked_at)
    query = select(*columns).join(accounts, accounts.c.id == keys.account_id).order_by(keys.id)

    def read(db: Connection) -> Sequence[access.Row]:
        chosen = query if account is None else query.where(keys.account_id == _account(db, account)["id"])
        return db.execute(chosen).mappings().all()

    return store.read_now(read)


def revoke_key(store: Store, key_id: str) -> None:
    """Revoke a key at once. A revoked key stays revoked.

    `key_id` may also be the whole ``id:secret``. Raises `OperatorError` if there is no
    such key.
    """
    id_ = key_id.partition(":")[0].strip().lower()

    def revoke(tx: Transaction) -> None:
        if tx.db.execute(select(api_keys.c.id).where(api_keys.c.id == id_)).first() is None:
            raise OperatorError("There is no key with this id; list the keys with `agentbook keys list`.")
        auth.revoke(tx, api_keys, api_keys.c.id == id_)

    store.write_now(revoke)


def list_members(
    store: Store, *, organization: str | None = None, workspace: str | None = None
) -> Sequence[access.Row]:
    """Return ``id``, ``name``, ``role`` and ``created_at`` of members, by name.

    They are an organization's or a workspace's: pass exactly one of the two. `role` is
    their role in the organization, ``ADMIN`` or ``MEMBER``. Raises
    `OperatorError` if it does not exist.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> _ = create_account(store, "acme", "organization")
    >>> _ = create_account(store, "ada", "user")
    >>> add_member(store, "ada", organization="acme", role="ADMIN")
    >>> [(row["name"], row["role"]) for row in list_members(store, organization="acme")]
    [('ada', 'ADMIN')]
    """

    def read(db: Connection) -> Sequence[access.Row]:
        if workspace is not None:
            return members.workspace_members_of(db, [_workspace(db, workspace)["id"]])
        return members.organization_members(db, _account(db, organization or "")["id"])

    return store.read_now(read)


def add_member(
    store: Store, user: str, *, organization: str | None = None, workspace: str | None = None, role: str = "MEMBER"
) -> None:
    """Add a user to an organization, or to a workspace of one they belong to.

    Adding a member again changes their role in the organization, and nothing else.

    Parameters
    ----------
    store
        The store to write to.
    user
        Id or name.
    organization, workspace
        Exactly one of the two, by id or name; a workspace also as ``<owner>~<name>``.
    role
        The role in the organization, ``ADMIN`` or ``MEMBER``.

    Raises
    ------
    OperatorError
        One of them does not exist, the user does not belong to the organization that
        owns the workspace, or the organization would be left without an admin.
    """

    def add(tx: Transaction) -> None:
        person = _account(tx.db, user)
        if workspace is not None:
            members.add_to_workspace(tx, _workspace(tx.db, workspace), person, None)
        else:
            members.set_role(tx, _account(tx.db, organization or ""), person, role)

    store.write_now(add)


def remove_member(store: Store, user: str, *, organization: str | None = None, workspace: str | None = None) -> None:
    """Remove a user from an organization and its workspaces, or from one workspace.

    Raises `OperatorError` if one of them does not exist, or if the user is not a member
    or the last admin.
    """

    def remove(tx: Transaction) -> None:
        person = _account(tx.db, user)
        if workspace is not None:
            members.remove_from_workspace(tx, _workspace(tx.db, workspace), person)
        else:
            members.remove_from_organization(tx, _account(tx.db, organization or ""), person)

    store.write_now(remove)


def configure_workspace(store: Store, workspace: str, **changes: Any) -> dict[str, Any]:
    """Change whom and what a workspace admits; return its settings.

    `changes` are among the settings in `members.SETTINGS`. Raises `OperatorError` if
    the workspace does not exist.
    """

    def configure(tx: Transaction) -> dict[str, Any]:
        row = _workspace(tx.db, workspace)
        members.configure_workspace(tx, row, changes)
        return {name: row[name] for name in sorted(members.SETTINGS)} | changes

    return store.write_now(configure)


def _workspace(db: Connection, reference: str) -> access.Row:
    rows = db.execute(select(workspaces).where(access.matches(workspaces, reference)).limit(2)).mappings().all()
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise OperatorError(f"Several accounts have a workspace {reference!r}; write it as OWNER~{reference}.")
    names = select(accounts.c.name + "~" + workspaces.c.name).join(accounts, accounts.c.id == workspaces.c.owner_id)
    known = _listed(db, names.order_by(accounts.c.name, workspaces.c.name))
    raise OperatorError(f"There is no workspace {reference!r} ({known}); write it as OWNER~NAME.")


def _account(db: Connection, reference: str) -> access.Row:
    row = access.find_account(db, reference)
    if row is None:
        known = _listed(db, select(accounts.c.name).order_by(accounts.c.name))
        raise OperatorError(f"There is no account {reference!r} ({known}); create it with `agentbook accounts create`.")
    return row


def _listed(db: Connection, names: Select[Any]) -> str:
    """The first of the names that there are, for a message."""
    first = db.execute(names.limit(6)).scalars().all()
    return f"there are: {', '.join(first)}" if first else "there are none yet"
