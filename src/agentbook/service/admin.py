"""What the operator does to a store: accounts and keys. Works on a data directory whether the service runs or not.

Plain functions over a `Store`, used by the `agentbook` command and by `agentbook.embedded`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select, update

from . import auth, contract
from .errors import OperatorError
from .operations import access
from .pages.visitor import new_link
from .store import Store, Transaction
from .store.tables import accounts, api_keys

ACCOUNT_TYPES = ("user", "organization")


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """An API key without its secret, which nobody can read back. Instants are ISO 8601 texts in UTC."""

    id: str
    account: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str | None


def create_account(store: Store, name: str, type: str) -> str:
    """The id of a new account.

    Parameters
    ----------
    store
        The store to write to.
    name
        Unique in the store; it stands in paths and in full names, so it holds no ``~``, ``/`` or control characters.
    type
        ``user`` or ``organization``.

    Raises
    ------
    OperatorError
        The type is none of the two, or the name is taken or cannot be one.

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
    if type not in ACCOUNT_TYPES:
        raise OperatorError(f"An account is of type {' or '.join(ACCOUNT_TYPES)}, not {type!r}.")
    if not contract.is_name(name):
        raise OperatorError(
            f"{name!r} cannot be a name: use 1 to 120 characters without '~', '/', control characters or blanks at the "
            "ends, and nothing of the form of an id."
        )

    def create(tx: Transaction) -> str:
        if access.account(tx.db, name) is not None:
            raise OperatorError(f"There is an account {name!r} already; choose another name.")
        now, id_ = tx.clock.instant(), tx.clock.new_id()
        row = {"id": id_, "type": type, "name": name, "full_name": name, "created_at": now, "updated_at": now}
        tx.db.execute(insert(accounts), row)
        return id_

    return store.write_now(create)


def create_key(store: Store, account: str, name: str, scopes: Iterable[str]) -> str:
    """A new API key of an account, as ``<api_key_id>:<api_key_secret>``: the one time its secret is shown.

    Parameters
    ----------
    store
        The store to write to.
    account
        Id or name of the account the key acts as.
    name
        What the key is for, as shown in lists and as the author of its messages.
    scopes
        Such as ``sessions:write``; write implies read. Without any, the key can only ask who it is.

    Raises
    ------
    OperatorError
        The account is not there, the name is empty, or a scope is none.

    Notes
    -----
    Specification: "Authentication", rules 1 to 3.

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
    try:
        granted = auth.scopes_from(scopes)
    except ValueError as error:
        raise OperatorError(f"{error}.") from None
    if not name.strip() or "\x00" in name:
        raise OperatorError("A key needs a name that says what it is for.")

    def create(tx: Transaction) -> str:
        owner = _account(tx.db, account)
        now, id_, secret = tx.clock.instant(), tx.clock.new_id(), tx.clock.secret()
        row = {
            "id": id_,
            "account_id": owner["id"],
            "name": name.strip(),
            "secret_sha256": auth.hash_secret(secret),
            "scopes_json": msgspec.json.encode(granted).decode(),
            "created_at": now,
            "updated_at": now,
        }
        tx.db.execute(insert(api_keys), row)
        return f"{id_}:{secret}"

    return store.write_now(create)


def create_signin(store: Store, account: str) -> str:
    """The code of a link that signs in to the service's pages as an account: good once, for 15 minutes.

    Raises `OperatorError` where there is no such account.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from agentbook.service.store import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()))
    >>> _ = create_account(store, "ada", "user")
    >>> len(create_signin(store, "ada"))
    43
    """
    return store.write_now(lambda tx: new_link(tx, _account(tx.db, account)["id"]))


def list_keys(store: Store, account: str | None = None) -> list[KeyFacts]:
    """Every key of an account (None: of all accounts), in the order they were made, the revoked ones too.

    Raises `OperatorError` where there is no such account.
    """

    def read(db: Connection) -> list[KeyFacts]:
        query = select(api_keys, accounts.c.name.label("account")).join(
            accounts, accounts.c.id == api_keys.c.account_id
        )
        if account is not None:
            query = query.where(api_keys.c.account_id == _account(db, account)["id"])
        rows = db.execute(query.order_by(api_keys.c.id)).mappings()
        return [_facts(row) for row in rows]

    return store.read_now(read)


def revoke_key(store: Store, key_id: str) -> None:
    """Make a key stop working at once; one that is revoked already stays so.

    Raises `OperatorError` where there is no such key. A whole ``id:secret`` is understood too, so that what is at hand can be
    pasted.
    """
    id_ = key_id.partition(":")[0].strip().lower()

    def revoke(tx: Transaction) -> None:
        if tx.db.execute(select(api_keys.c.id).where(api_keys.c.id == id_)).first() is None:
            raise OperatorError("There is no key of this id; `agentbook keys list` shows those there are.")
        now = tx.clock.instant()
        live = (api_keys.c.id == id_) & api_keys.c.revoked_at.is_(None)
        tx.db.execute(update(api_keys).where(live).values(revoked_at=now, updated_at=now))

    store.write_now(revoke)


def _account(db: Connection, reference: str) -> access.Row:
    row = access.account(db, reference)
    if row is None:
        names = db.execute(select(accounts.c.name).order_by(accounts.c.name).limit(6)).scalars().all()
        known = f"there are: {', '.join(names)}" if names else "there is none yet"
        raise OperatorError(f"There is no account {reference!r} ({known}); make one with `agentbook accounts create`.")
    return row


def _facts(row: Any) -> KeyFacts:
    scopes = tuple(msgspec.json.decode(row["scopes_json"]))
    return KeyFacts(row["id"], row["account"], row["name"], scopes, row["created_at"], row["revoked_at"])
