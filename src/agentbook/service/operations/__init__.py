"""The operations of the API, one module per noun.

Importing this package registers every handler.
"""

from . import (  # noqa: F401 - each registers its handlers
    accounts,
    agents,
    credentials,
    sessions,
    skills,
    tasks,
    workspace_agents,
    workspaces,
)
from .registry import HANDLERS, OperationCall, RegisteredHandler, Result

__all__ = ["HANDLERS", "OperationCall", "RegisteredHandler", "Result"]
