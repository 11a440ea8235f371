"""A fake OpenAI-compatible endpoint on a real socket, with scripted answers.

Each request takes the next answer of the script. A request without an answer gets a 500
and is recorded in `unexpected`; `FakeOpenAI.__exit__` then fails. The fake shares no
code with the service.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CUT = "cut"  # drop the connection without ending the body
HANG = "hang"  # stay silent until the client disconnects
Part = bytes | str | threading.Event  # the answer pauses, alive, until an event is set


@dataclass(frozen=True)
class Scripted:
    """One answer: status, headers, and the parts of the body.

    Each part is sent as a separate chunk.
    """

    parts: Sequence[Part] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    body: Any
    size: int


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _sse({"choices": [choice]})


def _sse(fields: Mapping[str, Any]) -> bytes:
    document = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake", **fields}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _end(finish: str | None, tokens: int | None) -> list[Part]:
    usage = {"prompt_tokens": 1, "completion_tokens": (tokens or 1) - 1, "total_tokens": tokens}
    usage_chunk: list[Part] = [] if tokens is None else [_sse({"choices": [], "usage": usage})]
    return [_chunk({}, finish), *usage_chunk, b"data: [DONE]\n\n"]


def text(*pieces: str | threading.Event, finish: str | None = "stop", tokens: int | None = 12) -> Scripted:
    """An answer with this text, one chunk per piece."""
    chunks: list[Part] = [_chunk({"content": piece}) if isinstance(piece, str) else piece for piece in pieces]
    return Scripted([_chunk({"role": "assistant", "content": ""}), *chunks, *_end(finish, tokens)])


def refusal(message: str) -> Scripted:
    return Scripted([_chunk({"role": "assistant", "refusal": message}), *_end("stop", 5)])


def calls(
    *functions: tuple[str, str], saying: str = "", finish: str = "tool_calls", tokens: int | None = 7, first: int = 1
) -> Scripted:
    """An answer that calls functions, given as (name, arguments as JSON text).

    The arguments are sent in fragments of three characters, interleaved between calls.
    """
    parts: list[Part] = [_chunk({"role": "assistant", "content": saying or None})]
    for index, (name, _) in enumerate(functions):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{first + index}", "type": "function", "function": function}
        parts.append(_chunk({"tool_calls": [call]}))
    for start in range(0, max(len(arguments) for _, arguments in functions), 3):
        for index, (_, arguments) in enumerate(functions):
            piece = arguments[start : start + 3]
            if piece:
                parts.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return Scripted([*parts, *_end(finish, tokens)])


def refuse(status: int, message: str = "no", code: str | None = None, **headers: str) -> Scripted:
    """An error in OpenAI's format."""
    body = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": code}}).encode()
    return Scripted([body], status, {"Content-Type": "application/json", **headers})


def cut(*pieces: str) -> Scripted:
    """Some text; then the connection is dropped."""
    return Scripted([*(_chunk({"content": piece}) for piece in pieces), CUT])


def hang(*pieces: str) -> Scripted:
    """Some text; then the endpoint stays silent."""
    return Scripted([*(_chunk({"content": piece}) for piece in pieces), HANG])


def raw(*parts: bytes, **headers: str) -> Scripted:
    return Scripted(parts, headers={"Content-Type": "text/event-stream", **headers})


class FakeOpenAI:
    """The endpoint, which listens until the end of the ``with`` block.

    `respond` answers requests that have no answer in the script, by their body.
    """

    def __init__(self, *script: Scripted, respond: Callable[[Any], Scripted] | None = None) -> None:
        self.respond = respond
        self.script = deque(script)
        self.requests: list[Request] = []
        self.unexpected: list[Request] = []
        self.disconnected = threading.Event()  # a client disconnected during an answer
        self.hanging = threading.Event()
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def script_answers(self, *script: Scripted) -> None:
        """Forget the requests so far, and replace the script."""
        self.script = deque(script)
        self.requests.clear()
        self.disconnected.clear()
        self.hanging.clear()

    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    def __enter__(self) -> FakeOpenAI:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
        if kind is None:
            assert not self.unexpected, f"requests without a scripted answer: {self.unexpected}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    json.loads(content),
                    len(content),
                )
                fake.requests.append(request)
                if self.path == "/v1/chat/completions" and not fake.script and fake.respond is not None:
                    fake._send(self, fake.respond(request.body))
                elif self.path != "/v1/chat/completions" or not fake.script:
                    fake.unexpected.append(request)
                    fake._send(self, refuse(500, "no answer is scripted for this request"))
                else:
                    fake._send(self, fake.script.popleft())

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, answer: Scripted) -> None:
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for part in answer.parts:
                if isinstance(part, threading.Event):
                    while not part.wait(0.2):  # comments keep the client's read timeout away
                        handler.wfile.write(b"3\r\n:\n\n\r\n")
                elif part in (CUT, HANG):
                    if part == HANG:
                        self._hang(handler.connection)
                    handler.close_connection = True
                    handler.connection.shutdown(socket.SHUT_RDWR)
                    return
                elif part:  # an empty chunk would end the body early
                    assert isinstance(part, bytes)
                    handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.disconnected.set()
            handler.close_connection = True

    def _hang(self, connection: socket.socket) -> None:
        self.hanging.set()
        while not self._ended.is_set():
            readable, _, _ = select.select([connection], [], [], 0.02)
            if readable and not connection.recv(1):
                self.disconnected.set()
                return
