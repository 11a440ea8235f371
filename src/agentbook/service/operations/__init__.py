"""The operations of the API, one module per noun. Importing this package registers every handler."""

from . import accounts, agents, credentials, sessions, skills, trigger_keys, workspaces
from .registry import HANDLERS, Call, Registered

__all__ = [
    "HANDLERS",
    "Call",
    "Registered",
    "accounts",
    "agents",
    "credentials",
    "sessions",
    "skills",
    "trigger_keys",
    "workspaces",
]
