"""When more of a connection is read.

Each handler that asks for its request's body has uvicorn read on: without a limit, a
megabyte of pipelined requests for every few that are answered.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """uvicorn's, which reads on only once all that has arrived is parsed."""

    def __init__(self, transport: asyncio.Transport, unparsed: bytearray) -> None:
        super().__init__(transport)
        self._unparsed = unparsed

    def resume_reading(self) -> None:
        if not self._unparsed:
            super().resume_reading()
