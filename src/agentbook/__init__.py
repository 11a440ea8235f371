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
    from .api.oauth.sign_in import sign_in
    from .chat.compare.widget import Compare
    from .chat.model.conversation import Conversation
    from .chat.panel import ChatPanel
    from .chat.prompt_lab.prompt_lab import PromptLab
    from .chat.prompt_lab.variant import Variant
    from .chat.replay import replay
    from .client import AsyncClient, Client
    from .embedded import connect
    from .events.nested import allow_nested_loops
    from .events.turns import Turn
    from .frames import dask, plot, session_log
    from .frames.analysis.activity import activity, failures, hour_of_week, session_summary
    from .frames.analysis.comparison import compare_periods
    from .frames.analysis.contexts import context_status
    from .frames.analysis.credentials import credential_report, credential_summary
    from .frames.analysis.findings import credential_findings
    from .frames.analysis.labels import with_sessions
    from .frames.analysis.timing import concurrency, gaps, idle_sessions, latency
    from .frames.analysis.turns import turns
    from .frames.load.events import load_events
    from .frames.parse.problems import problems
    from .frames.store.store import Store

__version__ = "0.1.0"

# name -> module it lives in. The errors are all of agentbook.api.errors.
_HOMES = {
    "ApiKey": "api.auth",
    "AsyncClient": "client",
    "ChatPanel": "chat.panel",
    "Client": "client",
    "Compare": "chat.compare.widget",
    "Conversation": "chat.model.conversation",
    "OAuthToken": "api.auth",
    "PromptLab": "chat.prompt_lab.prompt_lab",
    "Store": "frames.store.store",
    "Turn": "events.turns",
    "Variant": "chat.prompt_lab.variant",
    "activity": "frames.analysis.activity",
    "allow_nested_loops": "events.nested",
    "compare_periods": "frames.analysis.comparison",
    "concurrency": "frames.analysis.timing",
    "connect": "embedded",
    "context_status": "frames.analysis.contexts",
    "credential_findings": "frames.analysis.findings",
    "credential_report": "frames.analysis.credentials",
    "credential_summary": "frames.analysis.credentials",
    "dask": "frames.dask",
    "errors": "api.errors",
    "failures": "frames.analysis.activity",
    "gaps": "frames.analysis.timing",
    "hour_of_week": "frames.analysis.activity",
    "idle_sessions": "frames.analysis.timing",
    "latency": "frames.analysis.timing",
    "session_log": "frames.session_log",
    "load_events": "frames.load.events",
    "plot": "frames.plot",
    "problems": "frames.parse.problems",
    "replay": "chat.replay",
    "session_summary": "frames.analysis.activity",
    "sign_in": "api.oauth.sign_in",
    "turns": "frames.analysis.turns",
    "with_sessions": "frames.analysis.labels",
}
_MODULES = {"dask", "errors", "session_log", "plot"}
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
    "load_events",
    "plot",
    "problems",
    "replay",
    "session_log",
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
