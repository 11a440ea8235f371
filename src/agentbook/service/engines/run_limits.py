"""The failures of the run limits, with the specification's wording."""

from __future__ import annotations

from dataclasses import replace

from .base import Failure

_TOO_MANY = "TooManyRequests"

# Kind -> failure, in the order of the specification's table ("Errors", runtime limit
# failures). `{name}` is the workspace, agent or user whose budget is spent.
RUN_FAILURES: dict[str, Failure] = {
    "state_size": Failure(413, "RequestEntityTooLarge", "413 Request Entity Too Large"),
    "llm_request_size": Failure(429, _TOO_MANY, "exceeded LLM request size limit for this task"),
    "llm_calls": Failure(429, _TOO_MANY, "exceeded LLM call limit for this execution tree"),
    "llm_tokens": Failure(429, _TOO_MANY, "exceeded LLM token limit for this execution tree"),
    "agent_tasks": Failure(429, _TOO_MANY, "exceeded agent task limit for this execution tree"),
    "tool_fan_out": Failure(429, _TOO_MANY, "exceeded tool fan-out limit for this task"),
    "budget": Failure(429, _TOO_MANY, "WORKSPACE budget exceeded for '{name}'"),
    "synchronous_steps": Failure(429, _TOO_MANY, "Agent ran too many synchronous steps without yielding"),
    "turn_timeout": Failure(429, _TOO_MANY, "TURN_TIMEOUT: the turn ran past the wall-clock ceiling"),
}


def failure(kind: str, name: str) -> Failure:
    """The failure of one run limit.

    `name` is the workspace, agent or user whose budget is spent; only ``budget`` uses
    it. Raises `KeyError` if `kind` is not in `RUN_FAILURES`.

    Examples
    --------
    >>> failure("budget", "support").message
    "WORKSPACE budget exceeded for 'support'"
    """
    template = RUN_FAILURES[kind]
    return Failure(template.status, template.error, template.message.replace("{name}", name))


def budget_failure(scope: str, name: str) -> Failure:
    """The failure of a spent budget.

    Examples
    --------
    >>> budget_failure("AGENT", "helper").message
    "AGENT budget exceeded for 'helper'"
    """
    spent = failure("budget", name)
    return replace(spent, message=spent.message.replace("WORKSPACE", scope, 1))
