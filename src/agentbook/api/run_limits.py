"""Run limits: failures of a run for which a retry does not help.

The specification lists them ("Errors", runtime limit failures). They share the statuses
429 and 413 with the rate limit and with a body that is too large, so only the message
distinguishes them, in an HTTP reply and in an event alike.
"""

from __future__ import annotations

import re

# kind -> pattern of the specification's message. The order is the table's.
RUN_LIMITS: dict[str, re.Pattern[str]] = {
    "state_size": re.compile(r"413 Request Entity Too Large|saved agent state exceeds"),
    "llm_request_size": re.compile(r"exceeded LLM request size limit for this task"),
    "llm_calls": re.compile(r"exceeded LLM call limit for this execution tree"),
    "llm_tokens": re.compile(r"exceeded LLM token limit for this execution tree"),
    "agent_tasks": re.compile(r"exceeded agent task limit for this execution tree"),
    "tool_fan_out": re.compile(r"exceeded tool fan-out limit for this task"),
    # \b first: without it, the search takes quadratic time in the length of a word.
    "budget": re.compile(r"\b\w+ budget exceeded for '.*'"),
    "synchronous_steps": re.compile(r"Agent ran too many synchronous steps without yielding"),
    # At the start: otherwise any sentence that names it would count.
    "turn_timeout": re.compile(r"\ATURN_TIMEOUT:.*", re.DOTALL),
}


def run_limit(message: str, *, whole: bool = False) -> str | None:
    """The kind of run limit that `message` reports, or None.

    Parameters
    ----------
    message
        Any text a platform sent.
    whole
        True requires the text to be the limit's message and nothing else. For the reply
        of an agent, which may quote one.

    Returns
    -------
    str or None
        A key of `RUN_LIMITS`.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> run_limit("exceeded LLM call limit for this execution tree")
    'llm_calls'
    >>> run_limit("This user has exceeded an allotted request count.") is None
    True
    """
    text = message.strip()
    for kind, pattern in RUN_LIMITS.items():
        if pattern.fullmatch(text) if whole else pattern.search(text):
            return kind
    return None
