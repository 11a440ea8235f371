"""The operations of the API, one module per noun. Importing this package registers every handler."""

from . import agents, credentials, events, me, organizations, sessions, skills, trigger_keys, workspaces
from .registry import HANDLERS, Call, Registered

__all__ = [
    "HANDLERS",
    "Call",
    "Registered",
    "agents",
    "credentials",
    "events",
    "me",
    "organizations",
    "sessions",
    "skills",
    "trigger_keys",
    "workspaces",
]
