"""agentbook: a notebook toolkit for the Agent Platform Public API.

    >>> import agentbook as ab
    >>> client = ab.connect()
    >>> client.agents.list().to_pandas()["name"].is_unique
    True
    >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")

Every name below is imported when it is first used, so that ``import agentbook`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.auth import ApiKey, OAuthToken
    from .api.client import AsyncClient, Client
    from .api.oauth import sign_in
    from .chat.compare.widget import Compare
    from .chat.conversation import Conversation
    from .chat.lab.lab import PromptLab
    from .chat.lab.variant import Variant
    from .chat.panel import ChatPanel
    from .chat.replay import replay
    from .events.nested import allow_nested_loops
    from .events.turns import Turn
    from .frames import dask, ledger
    from .frames import plots as plot
    from .frames.activity import activity, failures, hour_of_week, session_summary
    from .frames.compare import compare_periods
    from .frames.contexts import context_status
    from .frames.credentials import credential_report, credential_summary
    from .frames.findings import credential_findings
    from .frames.labels import with_sessions
    from .frames.many import load_events
    from .frames.problems import problems
    from .frames.store.store import Store
    from .frames.timing import concurrency, gaps, idle_sessions, latency
    from .frames.turns import turns
    from .local import connect

__version__ = "0.1.0"

# name -> module it lives in. The errors are all of agentbook.api.errors.
_HOMES = {
    "ApiKey": "api.auth",
    "AsyncClient": "api.client",
    "ChatPanel": "chat.panel",
    "Client": "api.client",
    "Compare": "chat.compare.widget",
    "Conversation": "chat.conversation",
    "OAuthToken": "api.auth",
    "PromptLab": "chat.lab.lab",
    "Store": "frames.store.store",
    "Turn": "events.turns",
    "Variant": "chat.lab.variant",
    "activity": "frames.activity",
    "allow_nested_loops": "events.nested",
    "compare_periods": "frames.compare",
    "concurrency": "frames.timing",
    "connect": "local",
    "context_status": "frames.contexts",
    "credential_findings": "frames.findings",
    "credential_report": "frames.credentials",
    "credential_summary": "frames.credentials",
    "dask": "frames.dask",
    "errors": "api.errors",
    "failures": "frames.activity",
    "gaps": "frames.timing",
    "hour_of_week": "frames.activity",
    "idle_sessions": "frames.timing",
    "latency": "frames.timing",
    "ledger": "frames.ledger",
    "load_events": "frames.many",
    "plot": "frames.plots",
    "problems": "frames.problems",
    "replay": "chat.replay",
    "session_summary": "frames.activity",
    "sign_in": "api.oauth",
    "turns": "frames.turns",
    "with_sessions": "frames.labels",
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
    "Compare",
    "Conversation",
    "OAuthToken",
    "PromptLab",
    "Store",
    "Turn",
    "Variant",
    "activity",
    "allow_nested_loops",
    "compare_periods",
    "concurrency",
    "connect",
    "context_status",
    "credential_findings",
    "credential_report",
    "credential_summary",
    "dask",
    "errors",
    "failures",
    "gaps",
    "hour_of_week",
    "idle_sessions",
    "latency",
    "ledger",
    "load_events",
    "plot",
    "problems",
    "replay",
    "session_summary",
    "sign_in",
    "turns",
    "with_sessions",
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
