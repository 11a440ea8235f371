"""The platform itself: a Starlette application that implements the specification.

It runs on SQLite or PostgreSQL. Nothing here imports from the client side (``api``,
``events``, ``frames``, ``chat``) or the reverse: the two meet on a socket, and in
`agentbook.embedded`.
"""
