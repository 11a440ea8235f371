"""The platform itself: a Starlette application that implements the specification.

It runs on SQLite or PostgreSQL. Nothing here imports from the client side (``api``,
``events``, ``frames``, ``chat``), or the reverse. The two sides meet only at a socket
and in `agentbook.embedded`.
"""
