"""A scripted platform for the tests, in memory, with faults on demand.

It shares no code with the embedded service. `core` holds the events and answers lists;
the other modules are the ways to reach it: `over_http` through httpx's mock transport,
`over_socket` on a real socket, `in_process` without a network.
"""
