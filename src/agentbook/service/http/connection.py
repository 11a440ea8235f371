"""One HTTP connection: uvicorn's protocol with limits and error responses of ours.

uvicorn accepts a request head of any size (5 MB in one header) for any time (one that
never ended was held open for ever), answers what is not HTTP without a request id, and
passes every handshake to the websockets package, which leaves unreadable ones (a line
over 8 KiB, say) without an answer. Here all of these get the service's own error
responses (specification: "Errors").
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from .. import errors
from ..state import Platform

MAX_HEAD_BYTES = 64 * 1024
MAX_HEAD_S = 30.0
# Time for the rest of a response to arrive; closing at once would discard it.
_LINGER_S = 2.0

_UNKNOWN_METHOD = re.compile(rb"[!#-'*+.0-9A-Z^-z|~-]{1,40} [!-~]+ HTTP/1\.[01]\r\n")
_HEADER = re.compile(rb"([!-9;-~]+):[ \t]*([^\r\n]*)\r\n")


def connection_class(platform: Platform, *, timeout_s: float = MAX_HEAD_S) -> type[Connection]:
    """Return the connection class of a platform, for uvicorn.

    `timeout_s` is how long a request's head may take to arrive.
    """
    return type("PlatformConnection", (Connection,), {"platform": platform, "timeout_s": timeout_s})


class Connection(HttpToolsProtocol):
    """A connection; created by uvicorn."""

    platform: ClassVar[Platform]
    timeout_s: ClassVar[float]

    _in_head = True  # from the start of a request (or of the connection) to the end of its head
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _refused = False
    _last = b""
    _upgrades: bool | None = None  # None: not known yet for this request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.timeout_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._last = data
        super().data_received(data)
        if self._in_head and not self._refused:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(errors.head_too_large(MAX_HEAD_BYTES))
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(self.timeout_s, self._too_slow)

    def on_message_begin(self) -> None:
        self._in_head, self._upgrades = True, None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_timer is not None or self._head_bytes:
            self._end_head()
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        # Behind a proxy a browser may send many cookies, and the socket reads none.
        self.scope["headers"] = [(name, value) for name, value in self.scope["headers"] if name != b"cookie"]
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, unknown methods included."""
        if not self.url and _UNKNOWN_METHOD.match(self._last):
            self.headers = [(name.lower(), value) for name, value in _HEADER.findall(self._last)]
            self._refuse(errors.method_not_allowed(["GET", "HEAD", "POST", "PATCH", "DELETE"]))
        else:
            self._refuse(errors.bad_request("This is no HTTP request that can be read."))

    def _should_upgrade(self) -> bool:
        """Whether the websockets package answers this handshake.

        Any other request with an Upgrade header is an ordinary one.
        """
        if self._upgrades is None:
            lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"cookie"]
            head = b"%b %b HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), self.url, b"".join(lines))
            self._upgrades = super()._should_upgrade() and _is_answered(head)
        return self._upgrades

    def _end_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self.parser is None or self.transport.is_closing():
            return
        if self.cycle is None and self.headers is None:  # there is no request to answer
            self.transport.close()
        else:
            self._refuse(errors.too_slow(self.timeout_s, "head"))

    def _refuse(self, error: errors.HTTPError) -> None:
        self._refused = True
        self._end_head()
        status, fields, body = errors.render(error, self.headers or (), self.platform.root_url)
        fields += [(b"x-request-id", self.platform.store.clock.request_id().encode()), (b"connection", b"close")]
        head = b"".join(b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *fields))
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()
        else:
            self.transport.write_eof()
            self.loop.call_later(_LINGER_S, self.transport.close)


def _is_answered(head: bytes) -> bool:
    """Whether the websockets package accepts this handshake; tried on the side."""
    protocol = ServerProtocol(logger=logging.getLogger("uvicorn.error"))
    protocol.receive_data(head)
    requests = protocol.events_received()
    return bool(requests) and isinstance(requests[0], Request) and protocol.accept(requests[0]).status_code == 101
