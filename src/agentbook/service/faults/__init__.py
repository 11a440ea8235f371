"""Faults on demand: errors, delays, lost connections, cut sockets and failing turns, for tests and for teaching.

A local administration outside ``/v1``, off unless the service was started with ``--faults``. `catalogue` names every row of
the specification's error tables, `switch` holds what was asked for, `middleware` does it to requests, `administration` is
the HTTP side, and `connection` reaches the connection under a request, to cut it.
"""

from __future__ import annotations

from .administration import Administration, admin_token
from .middleware import Faults, Reachable
from .switch import Switch

__all__ = ["Administration", "Faults", "Reachable", "Switch", "admin_token"]
