"""The events of the benchmarks, in the mixes that sessions hold.

- texts: three events in five are a text of 50 to 300 characters, the others are empty;
- tools: 10 % texts, 20 % empty, 70 % tool events with nested arguments;
- unknown: as tools, with two fields in each event that no schema names;
- blocks: half are replies of several blocks, three in ten a text beside other fields,
  the rest tool events; the letters outside of ASCII are escaped.

One event in ten has an author.
"""

from __future__ import annotations

import json
import random
from typing import Any

PAGE = 1000
SESSION = "019a0b1c-0000-7000-8000-000000000000"
MIXES = ("texts", "tools", "unknown", "blocks")
_WORDS = ("report", "order", "refund", "north", "customer", "total", "pending", "ticket", "invoice", "review")
_TOOLS = ("search_orders", "send_mail", "read_table", "http_get")


def make_pages(count: int, mix: str = "tools", seed: int = 1) -> list[bytes]:
    """Pages of 1,000 events of a mix, reproducible by the seed."""
    draw = random.Random(seed)
    pages = []
    for page in range(count):
        items = [_event(draw, mix, page * PAGE + row) for row in range(PAGE)]
        body = {"items": items, "pagination": {"total_count": count * PAGE, "has_more": page + 1 < count}}
        pages.append(json.dumps(body, separators=(",", ":")).encode())
    return pages


def _event(draw: random.Random, mix: str, number: int) -> dict[str, Any]:
    hexa = f"{1_790_000_000_000 + 700 * number:012x}"
    share = draw.random()
    texts, empty = (0.6, 1.0) if mix == "texts" else (0.1, 0.3)
    if mix == "blocks" and share < 0.8:
        content: dict[str, Any] = _reply(draw, in_blocks=share < 0.5)
    elif share < texts:
        content = {"text": "word " * draw.randint(10, 60)}
    else:
        content = {} if share < empty else tool_call(draw)
    created_at = f"2026-10-{1 + number // 86_400 % 28:02d}T08:15:{number % 60:02d}.{number % 1000:03d}000Z"
    event: dict[str, Any] = {
        "id": f"{hexa[:8]}-{hexa[8:]}-7000-8000-{draw.getrandbits(48):012x}",
        "type": "tool_call" if "tool" in content else "runtime_done",
        "content": content,
        "task_id": f"{hexa[:8]}-{hexa[8:]}-7000-9000-{draw.getrandbits(48):012x}",
        "created_at": created_at,
        "updated_at": created_at,
    }
    if draw.random() < 0.1:
        event |= {"type": "message", "author": {"type": "api_key", "id": SESSION, "name": "notebook"}}
    if mix == "unknown":
        event |= {"trace_id": f"{draw.getrandbits(64):016x}", "region": draw.choice(("eu", "us"))}
    return event


def _reply(draw: random.Random, *, in_blocks: bool) -> dict[str, Any]:
    """The content of a reply, as the API of a language model returns it."""
    text = "Bestellungen über 100 € geprüft. " * draw.randint(1, 8)
    usage = {"usage": {"input_tokens": draw.randint(50, 9000), "output_tokens": draw.randint(5, 900)}}
    if in_blocks:
        return {"role": "assistant", "content": [{"type": "text", "text": text}], **usage}
    return {"text": text, **usage}


def tool_call(draw: random.Random) -> dict[str, Any]:
    """The content of a tool event, with nested arguments."""
    conditions = [
        {"field": "status", "op": "eq", "value": draw.choice(_WORDS)},
        {"field": "amount", "op": "gt", "value": round(draw.random() * 1000, 2)},
    ]
    return {
        "tool": draw.choice(_TOOLS),
        "arguments": {
            "query": " ".join(draw.choices(_WORDS, k=6)),
            "conditions": conditions,
            "limit": draw.randint(1, 500),
            "options": {"dry_run": False, "retries": draw.randint(0, 3)},
        },
        "call_id": f"call_{draw.getrandbits(40):010x}",
        "duration_ms": draw.randint(1, 9000),
    }
