"""Read the style sheets and scripts in ``chat/widgets/assets``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def read_asset(name: str) -> str:
    """A file of ``chat/widgets/assets`` on one line; a script without its comments."""
    text = files("agentbook").joinpath("chat", "widgets", "assets", name).read_text("utf-8")
    if name.endswith(".js"):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return " ".join(text.split())
