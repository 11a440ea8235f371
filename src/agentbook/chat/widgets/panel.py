"""The view of a chat panel: one widget with its own module, and their messages.

The kernel renders and sanitizes; the module, ``assets/panel/panel.js``, shows HTML by
turn and part, and never interprets what an agent wrote. `page_view` documents what the
messages of all modules have in common.

From the kernel
---------------
``{"kind": "snapshot", "version": 7, "fields": {...}, "turns": [["t1", {...}], ...]}``
    Everything as it is. A turn has ``html`` (parts by name), ``data`` (values by name),
    ``body`` (the HTML of its reply), ``cuts`` (where the pieces of the body end) and
    ``final`` (how many of them no longer change). All positions are in UTF-16 units.
``{"version": 8, "ops": [...]}``
    A patch, the changes since version 7. It is sent 20 times a second and names no
    kind, to be short:

    - ``["field", name, value]`` of what surrounds the turns; ``box`` is what code puts
      into the box: its number, all of it since the last message, and what was added;
    - ``["turns", start, removed, [ids]]`` replaces some of the order of the turns;
    - ``["html", turn, part, start, removed, text]``: `text` takes the place of the
      `removed` units from `start` on;
    - ``["data", turn, name, value]``;
    - ``["body", turn, start, removed, text, first, cuts, final]``: as ``html``, and
      `cuts` follow the first `first` cuts; without the last three, only the end of the
      last piece has changed.
``{"kind": "answer", "number": n, "accepted": true}``
    Whether message `n` of a view was taken; if not, it stays in its box.
``{"kind": "sessions", "number": n, "entries": [[id, title, time, current, who], ...]}``
    The sessions that match; `who` takes part, where that is not as one would expect.
``{"kind": "file", "number": n, "name": "talk.md", "type": ..., "text": ...}``
    The export and its media type; or ``error`` in words.
``{"kind": "collected", "number": n, "collected": {...}}``
    The test input that a turn would be, or has become.

From the page
-------------
``{"do": "send", "text": "...", "number": n}``, ``{"do": "retry", "turn": "t1"}``,
``{"do": "session", "session": id}``, ``{"do": "find", "search": "...", "number": n}``,
``{"do": "export", "suffix": ".md", "number": n}``,
``{"do": "collect", "turn": "t1", "confirm": false, "number": n}``,
``{"do": "seek", "position": 12.5}``, ``{"do": "speed", "speed": "2×"}``,
and ``play``, ``pause``, ``stop``, ``reconnect``, ``new``, ``pictures``
    A person's actions. `n` is a text that the view chooses.

Anything else is ignored, on both sides.

The turns of a long history arrive from its end: first the last hundred, then patches
with older ones. So a snapshot may have fewer turns than the session.
"""

from __future__ import annotations

from ..assets import read_module
from ..html.style import live_css
from .page_view import PageView


class PanelView(PageView):
    """Shows a `PageState` in a page."""

    _esm = read_module("panel/panel.js")
    _css = live_css()
