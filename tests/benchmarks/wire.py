"""A platform for the benchmarks that serves session events from its own process.

The events are serialised beforehand, and each reply is sent after a delay. The platform
supports only the part of HTTP/1.1 that the list of events needs: ``from_id``,
``sort_by``, ``limit`` and keep-alive. A reply costs it a table lookup and a join of
bytes, so the benchmarks measure the client.
"""

from __future__ import annotations

import asyncio
import bisect
import functools
import random
import socket
import subprocess
import sys
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

START_MS = 1_790_000_000_000
# Text that compresses like prose: the first words of a vocabulary occur far more often
# than the last ones.
_draw = random.Random(1)
WORDS = ["".join(_draw.choices("etaoinshrdlucm", k=_draw.randint(2, 9))) for _ in range(2000)]
WEIGHTS = [1 / (n + 3) for n in range(len(WORDS))]
PROSE = _draw.choices(WORDS, WEIGHTS, k=200_000)


def session_id(n: int) -> str:
    return f"019a0b1c-0000-7000-8000-{n:012x}"


def make_events(session: int, count: int, step_ms: int) -> tuple[list[str], list[bytes]]:
    """The ids and the JSON of a session's events.

    An event has about 375 bytes; three in four have a text.
    """
    draw = random.Random(session)
    ids, items = [], []
    for n in range(count):
        hexa = f"{START_MS + step_ms * n + session:012x}"
        event = f"{hexa[:8]}-{hexa[8:]}-7{draw.getrandbits(12):03x}-8{draw.getrandbits(60):015x}"
        event = f"{event[:23]}-{event[23:]}"
        begin = draw.randrange(len(PROSE) - 40)
        text = '{"text":"' + " ".join(PROSE[begin : begin + draw.randint(5, 30)]) + '"}' if n % 4 != 2 else "{}"
        kind, author = ("message", "api_key") if n % 4 == 0 else ("runtime_done", "agent")
        at = f"2026-10-{1 + (n // 5000) % 28:02d}T08:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}000Z"
        ids.append(event)
        items.append(
            f'{{"id":"{event}","type":"{kind}","content":{text},"task_id":"{hexa[:8]}-{hexa[8:]}-7000-9000-'
            f'{draw.getrandbits(48):012x}","author":{{"type":"{author}","id":"{session_id(session)}"}},'
            f'"created_at":"{at}","updated_at":"{at}"}}'.encode()
        )
    return ids, items


class Platform:
    """Starts the platform's process; the ``with`` block ends it."""

    def __init__(self, sessions: int, events: int, delay_ms: int, step_ms: int = 700) -> None:
        arguments = [str(value) for value in (sessions, events, delay_ms, step_ms)]
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.base_url = self.process.stdout.readline().strip()
        self.sessions = [session_id(n) for n in range(sessions)]

    def __enter__(self) -> Platform:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


class _Http(asyncio.Protocol):
    def __init__(self, table: dict[str, tuple[list[str], list[bytes]]], delay_s: float) -> None:
        self._table = table
        self._delay_s = delay_s
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # The system's buffer takes a whole page, because asyncio copies the rest of its
        # own buffer for each piece that it sends.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while b"\r\n\r\n" in self._unread:
            head, self._unread = self._unread.split(b"\r\n\r\n", 1)
            reply = self._reply(head.split(b" ", 2)[1].decode())
            if self._delay_s:
                asyncio.get_running_loop().call_later(self._delay_s, self._write, reply)
            else:
                self._write(reply)

    def _write(self, reply: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(reply)

    def _reply(self, target: str) -> bytes:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        session = parts.path.split("/")[3]
        return page(session, query.get("from_id", ""), int(query.get("limit", 20)), query.get("sort_by", "-id"))


TABLE: dict[str, tuple[list[str], list[bytes]]] = {}


@functools.lru_cache(None)
def page(session: str, from_id: str, limit: int, sort_by: str) -> bytes:
    ids, items = TABLE[session]
    first = bisect.bisect_right(ids, from_id)
    chosen = items[first : first + limit] if sort_by == "id" else items[first:][::-1][:limit]
    more = "true" if len(items) - first > limit else "false"
    tail = f'],"pagination":{{"total_count":{len(items) - first},"limit":{limit},"offset":0,"has_more":{more}}}}}'
    body = b'{"items":[' + b",".join(chosen) + tail.encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def main() -> None:
    sessions, events, delay_ms, step_ms = map(int, sys.argv[1:])
    for n in range(sessions):
        TABLE[session_id(n)] = make_events(n, events, step_ms)
    for session, (ids, _) in TABLE.items():  # serialise the pages that plain pagination requests
        for at in range(0, len(ids) + 1, 1000):
            page(session, ids[at - 1] if at else "", 1000, "id")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Http(TABLE, delay_ms / 1000), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
