"""Faults on demand: errors, delays, lost connections, cut sockets and failing turns.

They are for tests and for teaching, and are off unless the service was started with
``--faults``.
`catalogue` names every row of the specification's error tables, `switch` holds the
faults that are on and applies them, and `administration` is the local HTTP interface,
outside ``/v1``.
"""
