"""The platform itself: a Starlette application over a SQLite (or PostgreSQL) store that implements the specification.

Nothing here imports from the client side (``api``, ``events``, ``frames``, ``chat``), and nothing there imports from
here: the two meet on a socket, and in `agentbook.embedded` alone.
"""
