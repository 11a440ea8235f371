"""One HTTP connection: uvicorn's protocol with our own limits and error responses.

uvicorn accepts a request head of any size (5 MB in one header) for any length of time
(one that never ended was held open forever), trailers of any size (and takes them for
headers), any number of pipelined requests at once, and readers that stop reading. It
answers data that is not HTTP without a request id, and passes every handshake to the
websockets package, which does not answer unreadable ones (a line over 8 KiB, say). Here
all of these get the service's own error responses (specification: "Errors").
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import ClassVar, NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from .. import errors
from ..proxies import counted_address
from ..state import Platform
from ..web.endpoints import COOKIE, KNOWN, VALID_LATELY
from .admission import MAX_LINGERING, Admission
from .flow import Flow, LoopShare
from .stalled import MAX_STALL_S, Backlog, ReaderWatch, Timer

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_HEAD_S = 30.0
# The amount parsed at once, besides the body of a request; the rest waits for the
# response to the first request in it.
PIECE_BYTES = 512
# How long a connection that there is no room for may take to send a credential.
_CROWDED_HEAD_S = 2.0
# Pipelined requests per turn of the loop, for all connections that have shown no valid
# credential. Each takes a third of a millisecond, even if it is refused.
_PIPELINED = 4
# `middleware.BodyLimits` answers sooner, unless the request was already answered.
_MAX_BODY_S = 40.0
# Time for the rest of a response to arrive; closing at once would discard it.
_LINGER_S = 2.0

_UNKNOWN_METHOD = re.compile(rb"[!#-'*+.0-9A-Z^-z|~-]{1,40} [!-~]+ HTTP/1\.[01]\r\n")


def connection_class(
    platform: Platform,
    *,
    timeout_s: float = MAX_HEAD_S,
    stall_s: float = MAX_STALL_S,
    admission: Admission | None = None,
) -> type[Connection]:
    """Return the connection class of a platform, for uvicorn.

    Parameters
    ----------
    platform
        What the connections serve.
    timeout_s
        How long a request's head may take to arrive.
    stall_s
        How long a reader may take none of what was sent to it.
    admission
        The limits on their number; None for the defaults.
    """
    settings = {"platform": platform, "timeout_s": timeout_s, "stall_s": stall_s, "loop_share": LoopShare(_PIPELINED)}
    return type("PlatformConnection", (Connection,), {**settings, "admission": admission or Admission()})


class Connection(HttpToolsProtocol):
    """A connection; created by uvicorn."""

    platform: ClassVar[Platform]
    timeout_s: ClassVar[float]
    stall_s: ClassVar[float]
    admission: ClassVar[Admission]
    loop_share: ClassVar[LoopShare]
    backlog: ClassVar[Backlog] = Backlog()  # also that of the WebSockets

    _in_head = True  # from the start of a request (or of the connection) to the end of its head
    _complete = True  # whether the whole request has arrived
    _head_bytes = 0  # of a head, or of data between the parts of a body and after it
    _body_remaining = 0  # bytes of the body that have not arrived, if its length is known
    _is_idle = False  # it waits for a request
    _crowded = False  # there is no room for it without a credential
    _known = False  # it has shown a valid credential
    _waits_for_share = False  # it waits until others have had their turn
    _refused = False
    _lingers = False  # refused, but open until the response has arrived
    _problem: errors.HTTPError | None = None  # why parsing was given up
    _last = b""
    _upgrades: bool | None = None  # None: not known yet for this request
    _is_upgraded = False  # what arrives belongs to a `Socket`

    @property
    def address(self) -> str:
        """What the other side counts as; behind a trusted proxy, the sender."""
        return self._address

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer, self._body_timer = Timer(), Timer()
        self._reader = ReaderWatch(self.loop, transport, self.stall_s, self.backlog)
        self._unparsed = bytearray()
        self.flow = Flow(transport, self._unparsed)
        peer = self.client[0] if self.client else ""
        self._address = counted_address(peer)
        self._is_proxy = peer in self.platform.proxies
        if not self._is_proxy:  # a proxy's connection counts for the client of its current request, if any
            self._crowded = not self.admission.add(self, self.connections)
            self._set_idle(True)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.remove(self)
        self.admission.lingering -= self._lingers
        self._end_head()
        self._body_timer.cancel()
        self._reader.resumed()
        # Each waiting request refers to this object: a cycle that would wait for the
        # garbage collector.
        self.pipeline.clear()
        self._unparsed.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:  # none of the rest is read; keeping it would cost a body's size
            return
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        """Parse what has arrived, until a request waits for an earlier response."""
        while self._unparsed and not self._refused and self.parser is not None:
            if self.pipeline or self._waits_for_share:
                self.flow.pause_reading()
                self._head_timer.cancel()  # the rest of a head may already be here
                return
            size = max(PIECE_BYTES, self._body_remaining)
            piece = bytes(self._unparsed[:size])
            del self._unparsed[:size]
            self._parse_piece(piece)

    def _parse_piece(self, data: bytes) -> None:
        self._set_idle(False)
        self._last = data
        self._head_bytes += len(data)
        super().data_received(data)
        self._last = b""
        if self._refused or self.parser is None or self._is_upgraded:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(errors.head_too_large(MAX_HEAD_BYTES))
        elif self._in_head:
            self._start_head_timer()
        elif self._complete and self.cycle is not None and self.cycle.response_complete:
            # The parser skips line breaks before a request. They count towards the time
            # that its head may take, since uvicorn has stopped the idle timer.
            self._start_head_timer()
        elif not self._complete:
            self._body_timer.start(self.loop, _MAX_BODY_S, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.stalled()

    def resume_writing(self) -> None:
        self._reader.resumed()
        super().resume_writing()

    def close_idle(self) -> None:
        """Close: no request has arrived, and others need the room."""
        self._refused = True
        self._close()

    def turn_away(self) -> None:
        """Answer 503 and close: there are too many connections without a credential."""
        if not self._refused:
            self._refuse(errors.too_many_connections())
            self._close()

    def on_message_begin(self) -> None:
        self._in_head, self._complete, self._upgrades = True, False, None
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer, which nothing reads
            return
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._give_up(errors.head_too_large(MAX_HEAD_BYTES))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_head()
        if self._is_proxy:
            self._count_for_client()
        if self._crowded and not self._known and not self._shows_credential():
            self._give_up(errors.too_many_connections())
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._body_remaining = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
        # `RateLimit` knows better, unless it is turned off.
        self.scope[VALID_LATELY] = self._known  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_remaining = max(0, self._body_remaining - len(body))
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._complete, self._body_remaining, self._head_bytes = True, 0, 0
        self._body_timer.cancel()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self._known and self.cycle.scope.get(KNOWN):
            self._known = True
            self.admission.remove(self)
            for name, value in self.cycle.scope["headers"]:
                if _is_credential(name, value):
                    self.admission.valid.add(value.strip())
        if (self.pipeline or self._unparsed) and not self._crowded and not self._known:
            self._waits_for_share = True
            self.loop_share.wait(self._continue)
        else:
            self._continue()

    def _continue(self) -> None:
        """Continue after a response: with the next request, if it is here."""
        self._waits_for_share = False
        super().on_response_complete()
        if self._crowded and not self._known:
            self.transport.close()
            return
        self._parse()
        self.flow.resume_reading()
        if self._complete and self.cycle.response_complete and not self._unparsed:
            if self._is_proxy:
                self.admission.remove(self)
            else:
                self._set_idle(True)

    def handle_websocket_upgrade(self) -> None:
        # Behind a proxy a browser may send many cookies, and the socket reads none.
        self.scope["headers"] = [(name, value) for name, value in self.scope["headers"] if name != b"cookie"]
        self.admission.remove(self)
        self._unparsed.clear()
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer requests that cannot be parsed, including unknown methods."""
        if self._problem is not None:
            self._refuse(self._problem)
        elif not self.url and _UNKNOWN_METHOD.match(arrived := self._last + self._unparsed):
            self.headers = _parse_fields(arrived)
            self._refuse(errors.method_not_allowed(["GET", "HEAD", "POST", "PATCH", "DELETE"]))
        else:
            self._refuse(errors.bad_request("This HTTP request cannot be read."))

    def _should_upgrade(self) -> bool:
        """Whether the websockets package answers this handshake.

        Any other request with an Upgrade header is an ordinary one.
        """
        if self._upgrades is None:
            lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"cookie"]
            head = b"%b %b HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), self.url, b"".join(lines))
            self._upgrades = super()._should_upgrade() and _is_answered(head)
        return self._upgrades

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection; one whose reader is slow is not idle."""
        if self.flow.write_paused:  # `ReaderWatch` ends it if its reader stops
            again = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
            self.timeout_keep_alive_task = again
        else:
            self._close()

    def _count_for_client(self) -> None:
        """Count a proxy's connection for the client of the request that begins."""
        self.admission.remove(self)
        peer = self.client[0] if self.client else ""
        self._known = False
        self._address = counted_address(self.platform.proxies.client_address(peer, self.headers))
        self._crowded = not self.admission.add(self, self.connections)

    def _shows_credential(self) -> bool:
        return any(_is_credential(name, value) for name, value in self.headers)

    def _set_idle(self, is_idle: bool) -> None:
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self.admission.mark_idle(self, is_idle=is_idle)

    def _close(self) -> None:
        self.transport.close()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def _start_head_timer(self) -> None:
        timeout_s = min(self.timeout_s, _CROWDED_HEAD_S) if self._crowded and not self._known else self.timeout_s
        self._head_timer.start(self.loop, timeout_s, self._too_slow)

    def _end_head(self) -> None:
        self._head_bytes = 0
        self._head_timer.cancel()

    def _too_slow(self) -> None:
        if self.parser is None or self.transport.is_closing():
            return
        if self._crowded and not self._known:
            self.turn_away()
        elif self.cycle is None and self.headers is None:  # there is no request to answer
            self.transport.close()
        else:
            self._refuse(errors.too_slow(self.timeout_s, "head"))

    def _give_up(self, problem: errors.HTTPError) -> NoReturn:
        """Stop parsing and answer with `problem`; for the parser's callbacks."""
        self._problem = problem
        # Not the problem itself: its traceback would hold `self` and the data that
        # arrived.
        raise ValueError("The request is refused")

    def _refuse(self, error: errors.HTTPError) -> None:
        self._refused = True
        self._end_head()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_render(error, self.platform, self.headers or (), self.server_state.default_headers))
        if (self.cycle is not None and not self.cycle.response_complete) or self.admission.lingering >= MAX_LINGERING:
            self.transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        try:
            self.transport.write_eof()
        except OSError:  # the other side has reset the connection
            self.transport.abort()
        else:
            self.admission.lingering += 1
            self._lingers = True
            self.loop.call_later(_LINGER_S, self._close)


def refusal(platform: Platform) -> bytes:
    """The response to a connection that there is no room for."""
    return _render(errors.too_many_connections(), platform, [(b"accept", b"*/*")])


def _render(
    error: errors.HTTPError, platform: Platform, request_headers: errors.Headers, headers: errors.Headers = ()
) -> bytes:
    status, fields, body = errors.render(error, request_headers, platform.root_url)
    fields += [(b"x-request-id", platform.store.clock.request_id().encode()), (b"connection", b"close")]
    return STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % field for field in (*headers, *fields)) + b"\r\n" + body


def _is_credential(name: bytes, value: bytes) -> bool:
    """Whether a header is a key, a token, or the cookie of a person."""
    return name == b"authorization" or (name == b"cookie" and COOKIE.encode() in value)


def _parse_fields(head: bytes) -> list[tuple[bytes, bytes]]:
    """The header fields of a request whose method the parser does not know."""
    lines = head[:MAX_HEAD_BYTES].partition(b"\r\n\r\n")[0].split(b"\r\n", MAX_HEADERS + 1)[1 : MAX_HEADERS + 1]
    fields = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip()) for name, colon, value in fields if colon]


def _is_answered(head: bytes) -> bool:
    """Whether the websockets package accepts this handshake; tried separately."""
    protocol = ServerProtocol(logger=logging.getLogger("uvicorn.error"))
    protocol.receive_data(head)
    requests = protocol.events_received()
    return bool(requests) and isinstance(requests[0], Request) and protocol.accept(requests[0]).status_code == 101
