"""Faults on demand: errors, delays, lost connections, cut sockets and failing turns.

They are for tests and for teaching, and are off unless the service was started with
``--faults``.
`catalogue` names every row of the specification's error tables, `switch` holds the
faults that are on, `middleware` applies them to requests, and `administration` is the
local HTTP interface, outside ``/v1``.
"""

from __future__ import annotations

from .administration import PREFIX, FaultAdministration, admin_token
from .middleware import FaultInjection, with_connection
from .switch import Switch

__all__ = ["PREFIX", "FaultAdministration", "FaultInjection", "Switch", "admin_token", "with_connection"]
