"""The `analyst` agent: counting questions about the account's own sessions, answered by real queries.

A question is read by a small grammar (what is counted, by what, when, where), turned into portable SQL, run as tool calls, and
answered with a table that says what was counted. What the grammar cannot read is not guessed: the agent says what it can count.
"""

from .agent import Analyst

__all__ = ["Analyst"]
