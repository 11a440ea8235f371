"""One HTTP connection: uvicorn's protocol with bounds, and our own error responses.

uvicorn takes a request head of any size for any length of time, waits without end for a
client that reads nothing, and answers what is not HTTP without a request id. Here all
get the service's own errors (specification: "Errors"), or are cut off. Against crowds
from the open internet a proxy stands in front: see the manual on deployment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from .. import errors
from ..faults.switch import ABORT
from ..proxies import counted_address
from ..state import Platform
from ..web.endpoints import COOKIE, KNOWN
from ..web.error_responses import render_error
from .guard import OPERATOR_PATHS, READER, Reader

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_HEAD_S = 30.0
MAX_CONNECTIONS = 4_096
# Of one address, as long as they have shown no valid credential. A further one is
# answered if its first request brings a credential, within this time.
MAX_UNKNOWN_PER_ADDRESS = 100
CROWDED_HEAD_S = 2.0
MAX_STALL_S = 60.0  # how long a reader may take nothing of what is sent
# What all connections of a credential, or of an address without one, may leave unread:
# a client loads up to 32 pages of 8 MiB at the same time, and opens a socket again.
MAX_UNREAD_RESPONSES_BYTES, MAX_UNREAD_SOCKETS_BYTES = 256 << 20, 64 << 20
_MAX_UNREAD_BYTES = 1 << 20  # of a socket, beyond which its pings are not answered
_OTHER_FILES = 200  # that are open besides connections: the store, agents, models
_MAX_SURPLUS = 100  # connections beyond the limit, which get an answer; for each further one the oldest is cut off
_PIECE_BYTES = 16 * 1024  # that the parser gets at a time
_CROWDED = "The service has too many connections."
_LINGER_S = 2.0  # for the rest of a response to arrive; closing at once would discard it

_unread: set[_AwaitsReader] = set()  # connections whose clients have not taken all

_UNKNOWN_METHOD = re.compile(rb"[!#-'*+.0-9A-Z^-z|~-]{1,40} [!-~]+ HTTP/1\.[01]\r\n")


def connection_class(
    platform: Platform, *, timeout_s: float = MAX_HEAD_S, max_connections: int | None = None
) -> type[Connection]:
    """Return the connection class of a platform, for uvicorn.

    `timeout_s` is how long the head of a request may take to arrive, and
    `max_connections` how many may be open; None for `MAX_CONNECTIONS`.
    """
    limit = MAX_CONNECTIONS if max_connections is None else max_connections
    fields = {"platform": platform, "timeout_s": timeout_s, "max_connections": limit}
    return type("PlatformConnection", (Connection,), {**fields, "surplus": deque(), "unknown": Counter()})


def room_for_connections() -> int:
    """Raise the limit of open files if it can be; return how many may be connections.

    With no file left, nothing at all could be accepted. Most shells allow 1,024.
    """
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A crowd that comes at once is accepted before any of it can be refused.
    useful = 2 * MAX_CONNECTIONS + _OTHER_FILES
    wanted = useful if hard == resource.RLIM_INFINITY else min(useful, hard)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the system may have a further limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return min(MAX_CONNECTIONS, max(soft // 2, soft - _OTHER_FILES - _MAX_SURPLUS))


class _AwaitsReader(asyncio.Protocol):
    """Cuts a connection off whose client takes nothing for `MAX_STALL_S`.

    Closing it would wait for the client to read the rest. One is cut off at once if all
    of its caller leave more unread than `max_unread_bytes`.
    """

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    app_state: dict[str, Any]
    max_unread_bytes: ClassVar[int]
    _stall_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()
        _unread.add(self)
        caller = self.app_state[READER].counted_as
        same = (each for each in _unread if type(each) is type(self) and each.app_state[READER].counted_as == caller)
        if sum(each.transport.get_write_buffer_size() for each in same) > self.max_unread_bytes:
            self.transport.abort()

    def _await_reader(self) -> None:
        self._stall_timer = self.loop.call_later(MAX_STALL_S, self._end_stall, self.transport.get_write_buffer_size())

    def _end_stall(self, unsent: int) -> None:
        if self.transport.get_write_buffer_size() >= unsent:
            self.transport.abort()
        else:
            self._await_reader()

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        _unread.discard(self)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        super().connection_lost(exc)


class Socket(_AwaitsReader, WebSocketsSansIOProtocol):
    """The connection of a socket, after its handshake; created by uvicorn.

    uvicorn closes one that does not answer a ping, and then waits for its client.
    """

    max_unread_bytes = MAX_UNREAD_SOCKETS_BYTES

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() < _MAX_UNREAD_BYTES:
            super().handle_ping()
        else:
            self.conn.data_to_send()  # is dropped: a pong more that nobody reads

    async def send(self, message: ASGISendEvent) -> None:
        if self.close_sent:  # uvicorn would raise what looks like an error of the application
            raise ClientDisconnected
        await super().send(message)


class Connection(_AwaitsReader, HttpToolsProtocol):
    """A connection; created by uvicorn."""

    max_unread_bytes = MAX_UNREAD_RESPONSES_BYTES
    platform: ClassVar[Platform]
    timeout_s: ClassVar[float]
    max_connections: ClassVar[int]
    surplus: ClassVar[deque[Connection]]  # those beyond the limit
    unknown: ClassVar[Counter[str]]  # connections of each address that have shown no valid credential

    _address: str | None = None  # as which it is counted in `unknown`
    _is_crowded = False  # there is no room for it without a credential
    _is_full = False  # there is no room for it at all; operators are answered all the same
    _in_head = True  # from the start of a request (or of the connection) to the end of its head
    _idle_bytes = 0  # of the pieces that came since a head or a part of a body was complete
    _refused: errors.HTTPError | None = None
    _timer: asyncio.TimerHandle | None = None  # of a head, or of what follows a response
    _last = b""
    _upgrades: bool | None = None  # whether this request opens a socket; None: not known yet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that `pause_writing` is told of every byte that waits
        # ASGI hides the connection; a fault may ask to cut it, and the guard says who
        # reads from it.
        self.app_state = {**self.app_state, ABORT: transport.abort, READER: Reader()}
        peer = self.client[0] if self.client else ""
        if peer not in self.platform.proxies:  # a proxy has bounds of its own
            self._address = counted_address(peer)
            self.unknown[self._address] += 1
            self._is_crowded = self.unknown[self._address] > MAX_UNKNOWN_PER_ADDRESS
        self._is_full = len(self.connections) > self.max_connections
        if self._is_full:
            self.surplus.append(self)
            if len(self.surplus) > _MAX_SURPLUS:
                self.surplus.popleft().transport.abort()
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._end_timer()
        if self in self.surplus:
            self.surplus.remove(self)
        super().connection_lost(exc)

    def _forget(self) -> None:
        """No longer count it: it is closed, or has shown a valid credential."""
        if self._address is not None:
            self.unknown[self._address] -= 1
            if not self.unknown[self._address]:
                del self.unknown[self._address]
            self._address, self._is_crowded = None, False

    def data_received(self, data: bytes) -> None:
        if self._refused is not None:  # none of the rest is read
            return
        while data and self._refused is None and not self._upgrades:
            room = MAX_HEAD_BYTES - self._idle_bytes
            if room <= 0:
                return self._refuse(errors.head_too_large(MAX_HEAD_BYTES))
            # In pieces, because one in which a part of the body ends counts as a whole.
            size = min(room, _PIECE_BYTES)
            piece, self._last, data = data[:size], data, data[size:]
            super().data_received(piece)
            self._idle_bytes += len(piece)
        self._last = b""
        if self.parser is None or self._upgrades or self._refused is not None:
            return
        if self._in_head or self.cycle is None or self.cycle.response_complete:
            self._start_timer()

    def on_message_begin(self) -> None:
        self._in_head, self._idle_bytes, self._upgrades = True, 0, None
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer means nothing
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._idle_bytes = False, 0
        self._end_timer()
        if len(self.headers) > MAX_HEADERS:
            self._refused = errors.head_too_large(MAX_HEAD_BYTES)
        elif self.parser.get_http_version() not in ("1.0", "1.1"):
            self._refused = errors.bad_request("This service speaks HTTP/1.1.")
        elif not self._has_room():
            self._refused = errors.unavailable(_CROWDED)
        if self._refused is not None:
            raise ValueError("the request is refused")  # ends parsing: see `send_400_response`
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        if self.cycle.scope.get(KNOWN):
            self._forget()
        super().on_response_complete()
        if self._is_crowded or self._is_full:
            self.transport.close()

    def _has_room(self) -> bool:
        """Whether this request is answered."""
        if not self._is_full and (not self._is_crowded or any(_is_credential(*field) for field in self.headers)):
            return True
        return self.url.decode("ascii", "replace") in OPERATOR_PATHS

    def handle_websocket_upgrade(self) -> None:
        # The websockets package takes no line of more than 8 KiB, and a browser may
        # send many cookies, which the socket does not read.
        self.scope["headers"] = [field for field in self.scope["headers"] if field[0] != b"cookie"]
        self._forget()
        self._end_timer()
        super().handle_websocket_upgrade()
        if self.flow.write_paused:  # the responses before it have not been read
            self.resume_writing()
            self.transport.get_protocol().pause_writing()

    def _should_upgrade(self) -> bool:
        """Whether the websockets package accepts the handshake; others are requests."""
        if self._upgrades is None:
            lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"cookie"]
            head = b"%b %b HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), self.url, b"".join(lines))
            self._upgrades = super()._should_upgrade() and _is_answered(head)
        return self._upgrades

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, and methods that the parser does not know."""
        if self._refused is not None:
            self._refuse(self._refused)
        elif not self.url and _UNKNOWN_METHOD.match(self._last):
            lines = self._last[:MAX_HEAD_BYTES].split(b"\r\n", MAX_HEADERS)[1:]
            fields = (line.partition(b":") for line in lines)
            self.headers = [(name.lower(), value.strip()) for name, colon, value in fields if colon]
            self._refuse(errors.method_not_allowed(["GET", "HEAD", "POST", "PATCH", "DELETE"]))
        else:
            self._refuse(errors.bad_request("This HTTP request cannot be read."))

    def _start_timer(self) -> None:
        if self._timer is None:
            delay_s = min(self.timeout_s, CROWDED_HEAD_S) if self._is_crowded or self._is_full else self.timeout_s
            self._timer = self.loop.call_later(delay_s, self._too_slow)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._is_crowded or self._is_full:
            self._refuse(errors.unavailable(_CROWDED))
        elif self.headers is None:  # nothing was asked
            self.transport.close()
        else:
            self._refuse(errors.too_slow(self.timeout_s, "head"))

    def _refuse(self, error: errors.HTTPError) -> None:
        """Answer with an error, unless a response is on its way, and close."""
        self._refused = error
        self._end_timer()
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started:
                self.transport.close()
                return
            self.cycle.disconnected = True  # its handler learns it, and sends nothing more
            self.cycle.message_event.set()
        status, fields, body = render_error(error, self.headers or (), self.platform.root_url)
        fields += [(b"x-request-id", self.platform.store.clock.request_id().encode()), (b"connection", b"close")]
        lines = (b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *fields))
        self.transport.write(STATUS_LINE[status] + b"".join(lines) + b"\r\n" + body)
        with contextlib.suppress(OSError):  # the other side has reset the connection
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)


def _is_credential(name: bytes, value: bytes) -> bool:
    """Whether a header is a key, a token, or the cookie of a person."""
    return name == b"authorization" or (name == b"cookie" and COOKIE.encode() in value)


def _is_answered(head: bytes) -> bool:
    """Whether the websockets package accepts this handshake; tried separately."""
    protocol = ServerProtocol(logger=logging.getLogger("uvicorn.error"))
    protocol.receive_data(head)
    requests = protocol.events_received()
    return bool(requests) and isinstance(requests[0], Request) and protocol.accept(requests[0]).status_code == 101
