"""agentbook: a notebook toolkit for the Agent Platform Public API.

    >>> import agentbook as ab
    >>> client = ab.connect()                                     # doctest: +SKIP
    >>> client.agents.list().to_pandas()                          # doctest: +SKIP
    >>> ab.ChatPanel(client, workspace="acme~lab", agent="guide") # doctest: +SKIP

Every name below is imported when it is first used, so that ``import agentbook`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.auth import ApiKey, OAuthToken
    from .api.client import AsyncClient, Client
    from .api.oauth import sign_in
    from .chat.conversation import Conversation
    from .chat.panel import ChatPanel
    from .chat.replay import replay
    from .events.nested import allow_nested_loops
    from .events.turns import Turn
    from .frames import dask, ledger
    from .frames import plots as plot
    from .frames.activity import activity, failures, session_summary
    from .frames.credentials import credential_report
    from .frames.many import load_events
    from .frames.store.store import Store
    from .frames.turns import turns
    from .local import connect

__version__ = "0.1.0"

# name -> module it lives in. The errors are all of agentbook.api.errors.
_HOMES = {
    "ApiKey": "api.auth",
    "AsyncClient": "api.client",
    "ChatPanel": "chat.panel",
    "Client": "api.client",
    "Conversation": "chat.conversation",
    "OAuthToken": "api.auth",
    "Store": "frames.store.store",
    "Turn": "events.turns",
    "activity": "frames.activity",
    "allow_nested_loops": "events.nested",
    "connect": "local",
    "credential_report": "frames.credentials",
    "dask": "frames.dask",
    "errors": "api.errors",
    "failures": "frames.activity",
    "ledger": "frames.ledger",
    "load_events": "frames.many",
    "plot": "frames.plots",
    "replay": "chat.replay",
    "session_summary": "frames.activity",
    "sign_in": "api.oauth",
    "turns": "frames.turns",
}
_MODULES = {"dask", "errors", "ledger", "plot"}
_ERRORS = (
    "AgentbookError",
    "ApiError",
    "Conflict",
    "ConnectionFailed",
    "DeadlineExceeded",
    "ExecutionLimit",
    "Forbidden",
    "InsufficientScope",
    "InvalidInput",
    "MethodNotAllowed",
    "NotFound",
    "NotOffered",
    "OAuthError",
    "OutcomeUnknown",
    "PartialLoad",
    "RateLimited",
    "ServerError",
    "StreamClosed",
    "TooLarge",
    "Unauthorized",
)

__all__ = [
    "ApiKey",
    "AsyncClient",
    "ChatPanel",
    "Client",
    "Conversation",
    "OAuthToken",
    "Store",
    "Turn",
    "activity",
    "allow_nested_loops",
    "connect",
    "credential_report",
    "dask",
    "errors",
    "failures",
    "ledger",
    "load_events",
    "plot",
    "replay",
    "session_summary",
    "sign_in",
    "turns",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or ("api.errors" if name in _ERRORS else None)
    if home is None:
        raise AttributeError(f"agentbook has no {name!r}; it has: {', '.join(__all__)}.")
    module = import_module(f".{home}", __name__)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_ERRORS, "__version__"])


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext agentbook``: the magics ``%chat`` and ``%%chat``."""
    import_module(".chat.magics", __name__).load(shell)
