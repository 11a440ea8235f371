"""The manual's page about own agents, word by word."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from service.process import Service
from service.world import on_sqlite

PAGE = (Path(__file__).parents[3] / "docs" / "your-own-agent.md").read_text("utf-8")


def blocks(title: str, language: str) -> list[str]:
    """The blocks of code in the section whose heading ends with this."""
    section = re.search(rf"^## [^\n]*{title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, title
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


@on_sqlite("a notebook finds the service by its directory")
def test_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, notebook = blocks("Serve a function as an agent", "python")
    [command] = blocks("Serve a function as an agent", "bash")
    (tmp_path / "my_agent.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    with Service(tmp_path / "data", *shlex.split(command)[2:], "--seed", "7", "--speed", "0") as service:
        *lines, last = notebook.strip().splitlines()
        names: dict[str, Any] = {}
        exec("\n".join(lines), names)
        assert eval(last, names) == "Order 7 is sent on Monday. "
        [step] = ab.steps(names["client"].sessions.events(names["session"])).itertuples()
        assert (step.name, step.status) == ("find_order", "done")
        names["client"].close()
        service.stop()
