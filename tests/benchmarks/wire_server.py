"""The process of the benchmarks' platform; `tests/benchmarks/wire.py` starts it.

Supports only the part of HTTP/1.1 that the list of events needs: ``from_id``,
``sort_by``, ``limit``, ``offset`` and keep-alive. The events are serialised
beforehand, and each reply is sent after a delay.
"""

from __future__ import annotations

import asyncio
import bisect
import functools
import json
import random
import socket
import sys
from urllib.parse import parse_qs, urlsplit

from event_mixes import tool_call
from wire import session_id

START_MS, STEP_MS = 1_790_000_000_000, 700
# Text that compresses like prose: the first words of a vocabulary occur far more often
# than the last ones.
_draw = random.Random(1)
WORDS = ["".join(_draw.choices("etaoinshrdlucm", k=_draw.randint(2, 9))) for _ in range(2000)]
WEIGHTS = [1 / (n + 3) for n in range(len(WORDS))]
PROSE = _draw.choices(WORDS, WEIGHTS, k=200_000)
TOOL_CALLS = [json.dumps(tool_call(_draw), separators=(",", ":")) for _ in range(5000)]
TURN = 20  # events: a question, 14 tool events, 4 empty ones and the reply
EMPTY = (4, 9, 13, 17)
QUESTION, REPLY = 0, TURN - 1


def make_events(session: int, count: int) -> tuple[list[str], list[bytes]]:
    """The ids and JSON of a session's events: 70 % tools, 20 % empty, 10 % texts."""
    draw = random.Random(session)
    ids, items = [], []
    owner = session_id(session)
    for n in range(count):
        hexa = f"{START_MS + STEP_MS * n + session:012x}"
        event = f"{hexa[:8]}-{hexa[8:]}-7{draw.getrandbits(12):03x}-8{draw.getrandbits(60):015x}"
        event = f"{event[:23]}-{event[23:]}"
        step, kind, author = n % TURN, "runtime_done", ""
        if step in (QUESTION, REPLY):
            begin = draw.randrange(len(PROSE) - 40)
            content = '{"text":"' + " ".join(PROSE[begin : begin + draw.randint(5, 30)]) + '"}'
            name = "api_key" if step == QUESTION else "agent"
            kind = "message" if step == QUESTION else kind
            author = f'"author":{{"type":"{name}","id":"{owner}"}},'
        elif step in EMPTY:
            content = "{}"
        else:
            kind, content = "tool_call", draw.choice(TOOL_CALLS)
        at = f"2026-10-{1 + (n // 5000) % 28:02d}T08:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}000Z"
        ids.append(event)
        items.append(
            f'{{"id":"{event}","type":"{kind}","content":{content},"task_id":"{hexa[:8]}-{hexa[8:]}-7000-9000-'
            f'{draw.getrandbits(48):012x}",{author}"created_at":"{at}","updated_at":"{at}"}}'.encode()
        )
    return ids, items


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
        limit, offset = int(query.get("limit", 20)), int(query.get("offset", 0))
        return page(session, query.get("from_id", ""), limit, query.get("sort_by", "-id"), offset)


TABLE: dict[str, tuple[list[str], list[bytes]]] = {}


@functools.lru_cache(None)
def page(session: str, from_id: str, limit: int, sort_by: str, offset: int = 0) -> bytes:
    ids, items = TABLE[session]
    first = bisect.bisect_right(ids, from_id)
    chosen = items[first:] if sort_by == "id" else items[first:][::-1]
    chosen = chosen[offset : offset + limit]
    more = "true" if len(items) - first > offset + limit else "false"
    total = len(items) - first
    tail = f'],"pagination":{{"total_count":{total},"limit":{limit},"offset":{offset},"has_more":{more}}}}}'
    body = b'{"items":[' + b",".join(chosen) + tail.encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def main() -> None:
    sessions, events, delay_ms = map(int, sys.argv[1:])
    for n in range(sessions):
        TABLE[session_id(n)] = make_events(n, events)
    for session, (ids, _) in TABLE.items():  # serialise the pages that plain pagination requests
        for at in range(0, len(ids) + 1, 1000):
            page(session, ids[at - 1] if at else "", 1000, "id")
            page(session, "", 1000, "id", at // 1000 * 999)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Http(TABLE, delay_ms / 1000), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
