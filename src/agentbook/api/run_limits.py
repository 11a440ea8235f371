"""Run limits: the failures of a run that no retry can help, told from everything else by their message.

The specification's last error table lists them ("Errors", runtime limit failures). They share the statuses 429 and 413
with the rate limit and with too large a body, so the message alone tells them apart, on an HTTP reply and inside an
event alike.
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
    # From the beginning of a word: begun anywhere in it, the search would take the square of a long word's length.
    "budget": re.compile(r"\b\w+ budget exceeded for '.*'"),
    "synchronous_steps": re.compile(r"Agent ran too many synchronous steps without yielding"),
    "turn_timeout": re.compile(r"TURN_TIMEOUT:.*", re.DOTALL),
}


def run_limit(message: str, *, whole: bool = False) -> str | None:
    """The kind of run limit that `message` reports, or None.

    Parameters
    ----------
    message
        Any text a platform sent.
    whole
        True: the message must be nothing but the limit's, as in a reply that an agent wrote, which may quote one.

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
    >>> run_limit("This user has exceeded an allotted request count. Try again later.") is None
    True
    """
    text = message.strip()
    for kind, pattern in RUN_LIMITS.items():
        # The two that are prefixes by nature must start the text, or any sentence that names them would count.
        found = (
            pattern.fullmatch(text)
            if whole
            else pattern.match(text)
            if kind == "turn_timeout"
            else pattern.search(text)
        )
        if found:
            return kind
    return None
