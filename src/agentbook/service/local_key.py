"""The API key that all notebooks on this machine use with the embedded service.

The service creates it when it starts for the first time, so that a notebook, which only
reads the file, need not load the store.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from .._files import atomic_write
from . import admin, demo
from .data_directory import KEY_FILE
from .errors import OperatorError
from .store import Store

# Everything a key can do within its own account.
SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")
FALLBACK_ACCOUNT = "local"  # the key's account in a store without demo data


def create_missing(store: Store, data: Path) -> None:
    """Create the key, unless its file exists. A file that cannot be written is ignored.

    Raises
    ------
    OperatorError
        If the store cannot be written.
    """
    if not (data / KEY_FILE).exists():
        with contextlib.suppress(OSError):  # notebooks then try themselves, and say what is wrong
            create(store, data)


def create(store: Store, data: Path) -> None:
    """Create a key and write it to the file ``local-key.json``.

    It acts for the demo's account or, in a store without demo data, for its own
    account.

    Raises
    ------
    OperatorError
        If the store cannot be written.
    OSError
        If the file cannot be written.
    """
    with atomic_write(data / KEY_FILE, private=True) as file:
        file.write(json.dumps({"api_key": _new_key(store)}).encode())


def _new_key(store: Store) -> str:
    for account in (demo.ACCOUNT, FALLBACK_ACCOUNT):
        with contextlib.suppress(OperatorError):
            return admin.create_key(store, account, "notebook", SCOPES)
    admin.create_account(store, FALLBACK_ACCOUNT, "user")
    return admin.create_key(store, FALLBACK_ACCOUNT, "notebook", SCOPES)
