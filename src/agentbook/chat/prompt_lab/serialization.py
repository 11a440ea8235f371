"""A lab as one JSON file: variants, inputs, checks and every answer, to be read back to an equal lab.

What a credential is made of is never part of a lab, so it cannot be in its file. Of a check that is a function only the name
is written, and its verdicts with the answers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = "agentbook-prompt-lab"
FORMAT_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def write(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write a lab's data into a file, whole or not at all; the path."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **data}, ensure_ascii=False, indent=1)
    # Half of a surrogate pair, from somebody's broken JSON, cannot be UTF-8; its escape can.
    text = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def read(path: str | Path) -> dict[str, Any]:
    """The data that `write` wrote.

    Raises
    ------
    ValueError
        If the file is something else, damaged, or of a later version of the format.
    OSError
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error}); a lab's file is what lab.save(path) writes.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f'{path} is no prompt lab: what lab.save(path) writes begins with "format": "{FORMAT}".')
    if data.get("version") != FORMAT_VERSION:
        raise ValueError(f"{path} has format version {data.get('version')!r}; version {FORMAT_VERSION} can be read.")
    return data
