"""Pages as a platform sends them."""

from __future__ import annotations

import json
from typing import Any


def page(*items: Any) -> bytes:
    body = {"items": items, "pagination": {"total_count": len(items), "limit": 20, "offset": 0, "has_more": False}}
    return json.dumps(body).encode()
