"""The WebSocket of session events: one connection, its messages, its refusals.

`agentbook.events.reader` reconnects; `open_socket` opens one socket or raises a typed
error. Specification: "Endpoints", Session events WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Response

from .._masking import Redactor
from ..api.auth import Credentials, redactor_of
from ..api.calls import Call, Reply, decoded, path
from ..api.connection import AsyncConnection
from ..api.error_replies import from_reply, is_error_response
from ..api.errors import AgentbookError, ConnectionFailed, unreachable
from ..api.record import UNREADABLE, Record, read_value
from ..api.transport import bare

OPERATION = "sessions.stream"
_HANDSHAKE = Call(OPERATION, "GET", "", decoded)
MAX_SIZE_BYTES = 64 * 2**20  # a reply may have megabytes; with websockets' limit of 1 MiB it would reconnect forever
MAX_QUEUE = 2  # messages that wait to be read, beyond which the socket is not; each may be that large
OPEN_TIMEOUT_S = 10.0
POLICY = 1008  # a close code

# websockets logs the Authorization header of a handshake at DEBUG. This logger stands
# outside the logging tree, so no configuration can turn DEBUG on for it.
_logger = logging.Logger("agentbook.events.websocket", level=logging.WARNING)
_logger.addHandler(logging.NullHandler())

# Close codes of a platform that accepts a handshake and then closes with a refusal,
# instead of answering the handshake with a status.
_REFUSED_BY_CODE = {4400: 400, 4401: 401, 4403: 403, 4404: 404, 4429: 429}


class _Connect(connect):
    """websockets' connect without redirects, which would receive the credential too."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Disconnected(Exception):
    """The socket closed without a refusal. `code` is the close code, if any."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"closed ({code if code is not None else 'no code'}{', ' + reason if reason else ''})")
        self.code = code


class Socket:
    """One open connection."""

    def __init__(self, connection: ClientConnection, redactor: Redactor) -> None:
        self._connection = connection
        self._redactor = redactor
        self._said = ""  # the text of an error that was sent as a message

    async def receive(self) -> Record:
        """The next event.

        Raises
        ------
        ApiError
            If the platform closed with a refusal.
        Disconnected
            If the connection ended otherwise, whatever the code.
        """
        while True:
            try:
                frame = await self._connection.recv(decode=False)
            except ConnectionClosed as closed:
                code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (None, "")
                reason = self._said or self._redactor.text(reason)
                if (status := _REFUSED_BY_CODE.get(code or 0)) is not None:
                    body = msgspec.json.encode({"message": reason or f"closed with {code}"})
                    raise from_reply(Reply(status, {}, body), _HANDSHAKE) from None
                raise Disconnected(code, reason) from None
            try:
                event = read_value(frame)
            except UNREADABLE:
                continue  # not an event; the next list read shows what it was
            if not isinstance(event, dict):
                continue
            if "id" in event or "type" in event:
                self._said = ""
                return Record(event)
            if isinstance(event.get("message"), str):
                self._said = self._redactor.text(event["message"])


@asynccontextmanager
async def open_socket(
    connection: AsyncConnection, session_id: str, *, from_id: str | None, types: Sequence[str] | None
) -> AsyncIterator[Socket]:
    """A connected socket.

    Raises
    ------
    ApiError
        If the platform refuses the handshake, typed as for a REST call.
    ConnectionFailed
        If no socket opens for another reason: the platform cannot be reached, or
        something in between refuses the upgrade or never answers it.
    """
    uri = _uri(connection.base_url, session_id, from_id, types)
    redactor = redactor_of(connection.auth)
    refusal: AgentbookError | None = None
    try:
        websocket = await _Connect(
            uri,
            additional_headers=await asyncio.to_thread(_headers, connection.auth),  # it may ask who will get it
            max_size=MAX_SIZE_BYTES,
            max_queue=MAX_QUEUE,
            compression=None,
            **connection._network.websocket_options(),
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=2.0,
            logger=_logger,
        )
    except InvalidStatus as refused:
        refusal = _refusal_by_status(refused.response, redactor)
    except (OSError, TimeoutError, InvalidHandshake) as error:
        reason = redactor.text(f"{type(error).__name__}: {error}")
        refusal = unreachable(OPERATION, connection.base_url, reason)
    except BaseException as error:
        raise bare(error)  # noqa: B904 - websockets' frames hold the header
    if refusal is not None:  # outside the handlers: websockets' errors hold the reply
        raise refusal
    try:
        yield Socket(websocket, redactor)
    finally:
        await websocket.close()


def _refusal_by_status(response: Response, redactor: Redactor) -> AgentbookError:
    """The error for a handshake that was answered with a status other than 101."""
    headers = {name.lower(): redactor.text(value) for name, value in response.headers.raw_items()}
    reply = Reply(response.status_code, headers, redactor.data(bytes(response.body or b"")))
    error = from_reply(reply, _HANDSHAKE)
    if is_error_response(reply):
        return error
    # Redirects are not followed: they would get the credential.
    said = str(response.status_code) + (f" ({error.message})" if error.message else "")
    return ConnectionFailed(
        f"{OPERATION}: the WebSocket was answered with {said}, but not by the platform. Check base_url, and whether a "
        "proxy blocks WebSockets; `agentbook doctor` names the proxy.",
        operation=OPERATION,
    )


def _headers(credentials: Credentials | None) -> dict[str, str]:
    if credentials is not None and hasattr(credentials, "prove"):
        credentials.prove()
    authorization = None if credentials is None else credentials.socket_authorization()
    return {"Accept": "application/json", **({"Authorization": authorization} if authorization else {})}


def _uri(base_url: str, session_id: str, from_id: str | None, types: Sequence[str] | None) -> str:
    query = {"from_id": from_id} if from_id else {}
    query |= {"types": ",".join(types)} if types else {}
    address = f"ws{base_url.removeprefix('http')}/{path('sessions', session_id, 'events', 'ws')}"
    return f"{address}?{urlencode(query)}" if query else address
