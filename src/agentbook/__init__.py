"""agentbook: a notebook toolkit for the Agent Platform Public API.

    >>> import agentbook as ab
    >>> client = ab.connect()
    >>> client.agents.list().to_pandas()["name"].is_unique
    True
    >>> panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")

Each public name is imported on first use, so ``import agentbook`` itself is fast. Error
classes live in `agentbook.errors`; ``agentbook.NotFound`` and the like work too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # each name once more, for type checkers and editors
    # isort: off
    from ._connect import connect as connect
    from .api import errors as errors
    from .api.auth import ApiKey as ApiKey, OAuthToken as OAuthToken
    from .api.errors import (
        AgentbookError as AgentbookError, ApiError as ApiError, Conflict as Conflict,
        ConnectionFailed as ConnectionFailed, DeadlineExceeded as DeadlineExceeded, EmptyWarning as EmptyWarning,
        ExecutionLimit as ExecutionLimit, Forbidden as Forbidden, IncompleteWarning as IncompleteWarning,
        InsufficientScope as InsufficientScope, InvalidInput as InvalidInput, MethodNotAllowed as MethodNotAllowed,
        NotFound as NotFound, NotOffered as NotOffered, OAuthError as OAuthError, OutcomeUnknown as OutcomeUnknown,
        PartialLoad as PartialLoad, PriceWarning as PriceWarning, RateLimited as RateLimited,
        ServerError as ServerError, StreamClosed as StreamClosed, TooLarge as TooLarge, Unauthorized as Unauthorized,
        UncertainServerError as UncertainServerError,
    )  # fmt: skip
    from .api.oauth.sign_in import sign_in as sign_in
    from .chat.compare.compare import Compare as Compare
    from .chat.explorer.explorer import Explorer as Explorer
    from .chat.explorer.label import label as label
    from .chat.model.conversation import Conversation as Conversation
    from .chat.panel import ChatPanel as ChatPanel
    from .chat.prompt_lab.prompt_lab import PromptLab as PromptLab
    from .chat.replay import replay as replay
    from .client import AsyncClient as AsyncClient, Client as Client
    from .embedded import platform as platform
    from .evaluation import checks as checks
    from .evaluation.calibration import calibration as calibration
    from .evaluation.score import score as score, with_scores as with_scores
    from .evaluation.variant import Variant as Variant
    from .events.loop import allow_nested_loops as allow_nested_loops
    from .events.turns import Turn as Turn
    from .frames import dask as dask, plot as plot, session_log as session_log
    from .frames.analysis.activity import (
        activity as activity,
        hour_of_week as hour_of_week,
        session_summary as session_summary,
    )
    from .frames.analysis.authors import authors as authors
    from .frames.analysis.comparison import compare_groups as compare_groups, compare_periods as compare_periods
    from .frames.analysis.contexts import context_status as context_status
    from .frames.analysis.credentials import (
        credential_report as credential_report,
        credential_summary as credential_summary,
    )
    from .frames.analysis.failures import failures as failures
    from .frames.analysis.findings import credential_findings as credential_findings
    from .frames.analysis.modes import failure_modes as failure_modes, reading_list as reading_list
    from .frames.analysis.paths import loops as loops, paths as paths
    from .frames.analysis.prompt_latency import prompt_latency as prompt_latency
    from .frames.analysis.steps import steps as steps
    from .frames.analysis.timing import latency as latency, timing as timing
    from .frames.analysis.topics import Topics as Topics, topics as topics, with_topics as with_topics
    from .frames.analysis.turns import turns as turns, with_sessions as with_sessions
    from .frames.analysis.usage import usage as usage, with_cost as with_cost
    from .frames.export import export as export
    from .frames.formats.read import read_conversations as read_conversations
    from .frames.history.anonymize import anonymize as anonymize
    from .frames.history.history import History as History
    from .frames.history.load import load_history as load_history
    from .frames.labels import (
        agreement as agreement,
        read_labels as read_labels,
        save_labels as save_labels,
        with_labels as with_labels,
    )
    from .frames.load.events import load_events as load_events
    from .frames.parse.frame import to_frame as to_frame
    from .frames.parse.problems import load_problems as load_problems
    from .frames.store.store import Store as Store
    from .live.watch import Watch as Watch, watch as watch
    # isort: on

__version__ = "0.3.0.dev0"

# The public names that each module defines.
_NAMES = {
    "_connect": ("connect",),
    "api.auth": ("ApiKey", "OAuthToken"),
    "api.errors": ("errors",),
    "api.oauth.sign_in": ("sign_in",),
    "chat.compare.compare": ("Compare",),
    "chat.explorer.explorer": ("Explorer",),
    "chat.explorer.label": ("label",),
    "chat.model.conversation": ("Conversation",),
    "chat.panel": ("ChatPanel",),
    "chat.prompt_lab.prompt_lab": ("PromptLab",),
    "chat.replay": ("replay",),
    "client": ("AsyncClient", "Client"),
    "embedded": ("platform",),
    "evaluation.calibration": ("calibration",),
    "evaluation.checks": ("checks",),
    "evaluation.score": ("score", "with_scores"),
    "evaluation.variant": ("Variant",),
    "events.loop": ("allow_nested_loops",),
    "events.turns": ("Turn",),
    "frames.analysis.activity": ("activity", "hour_of_week", "session_summary"),
    "frames.analysis.authors": ("authors",),
    "frames.analysis.comparison": ("compare_groups", "compare_periods"),
    "frames.analysis.contexts": ("context_status",),
    "frames.analysis.credentials": ("credential_report", "credential_summary"),
    "frames.analysis.failures": ("failures",),
    "frames.analysis.findings": ("credential_findings",),
    "frames.analysis.paths": ("loops", "paths"),
    "frames.analysis.prompt_latency": ("prompt_latency",),
    "frames.analysis.steps": ("steps",),
    "frames.analysis.timing": ("latency", "timing"),
    "frames.analysis.topics": ("Topics", "topics", "with_topics"),
    "frames.analysis.turns": ("turns", "with_sessions"),
    "frames.analysis.usage": ("usage", "with_cost"),
    "frames.dask": ("dask",),
    "frames.export": ("export",),
    "frames.formats.read": ("read_conversations",),
    "frames.history.anonymize": ("anonymize",),
    "frames.history.history": ("History",),
    "frames.history.load": ("load_history",),
    "frames.labels": ("agreement", "read_labels", "save_labels", "with_labels"),
    "frames.load.events": ("load_events",),
    "frames.analysis.modes": ("failure_modes", "reading_list"),
    "frames.parse.frame": ("to_frame",),
    "frames.parse.problems": ("load_problems",),
    "frames.plot": ("plot",),
    "frames.session_log": ("session_log",),
    "frames.store.store": ("Store",),
    "live.watch": ("Watch", "watch"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = {"checks", "dask", "errors", "plot", "session_log"}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - which is a list


if not TYPE_CHECKING:  # type checkers find misspelt names

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            module = import_module(f".{_HOMES[name]}", __name__)
            value = module if name in _MODULES else getattr(module, name)
        else:
            # Error classes are reachable here too, but dir() does not list them.
            errors = import_module(".api.errors", __name__)
            if name not in errors.__all__:
                from ._text import missing_attribute

                raise missing_attribute(__name__, name, __all__, unlisted=errors.__all__)
            value = getattr(errors, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """Register ``%chat`` and ``%%chat``; called by ``%load_ext agentbook``."""
    import_module(".chat.magics", __name__).load(shell, lambda: import_module(__name__).connect())
