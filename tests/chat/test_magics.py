"""The magics in an IPython shell, with an in-process platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import agentbook
from agentbook.chat import magics
from agentbook.chat.panel import ChatPanel
from chat.fakes import NOT_OURS, FakePlatform, echo


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    platform = FakePlatform(echo)
    monkeypatch.setattr(magics, "ChatPanel", lambda client, **where: ChatPanel(client, follow=platform.follow, **where))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another environment, IPython warns and borrows its packages
    made = InteractiveShell()
    monkeypatch.setattr(made.display_pub, "publish", lambda *args, **kwargs: None)
    agentbook.load_ipython_extension(made)
    made.user_ns["client"] = platform
    yield made
    made.history_manager.end_session() if made.history_manager else None


def run(shell: InteractiveShell, line: str, cell: str | None = None) -> Any:
    if cell is None:
        return shell.run_line_magic("chat", line)
    return shell.run_cell_magic("chat", line, cell)


def test_the_cell_is_sent_and_the_turn_put_into_a_variable(shell: InteractiveShell) -> None:
    run(shell, "guide -w acme~lab -o turn", "2+2?\n")
    assert shell.user_ns["turn"].text == "You said: 2+2?"


def test_without_a_cell_it_is_a_panel(shell: InteractiveShell) -> None:
    run(shell, "guide -w acme~lab -o panel")
    panel = shell.user_ns["panel"]
    assert panel.ask("hi").text == "You said: hi"
    panel.close()


@pytest.mark.parametrize(("line", "cell"), [("", None), ("-o x", "hi\n"), ("guide -w acme~lab", "\n")])
def test_missing_arguments_are_reported(shell: InteractiveShell, line: str, cell: str | None) -> None:
    with pytest.raises(UsageError):
        run(shell, line, cell)


def test_without_an_agent_the_last_session_continues(shell: InteractiveShell) -> None:
    run(shell, "guide -w acme~lab -o turn", "first\n")
    run(shell, "-o next_turn", "second\n")
    first, second = shell.user_ns["turn"], shell.user_ns["next_turn"]
    assert (second.text, second.session_id) == ("You said: second", first.session_id)
    run(shell, "-o panel")
    assert [turn.prompt for turn in shell.user_ns["panel"].conversation.turns] == ["first", "second"]


def test_the_workspace_is_the_variable_the_last_or_the_only_one(shell: InteractiveShell) -> None:
    platform = shell.user_ns["client"]
    platform.own_workspaces = [{"full_name": "acme~lab"}]
    run(shell, "guide -o turn", "the only one\n")
    platform.own_workspaces = [{"full_name": "acme~lab"}, {"full_name": "acme~sales"}]
    run(shell, "guide -o panel")
    assert shell.user_ns["panel"].conversation.workspace == "acme~lab", "the last one"
    shell.user_ns["workspace"] = "acme~sales"
    run(shell, "guide -o panel")
    assert shell.user_ns["panel"].conversation.workspace == "acme~sales"


@pytest.mark.parametrize(
    ("workspaces", "words"),
    [
        ([{"full_name": "acme~lab"}, {"full_name": "acme~sales"}], r"-w WORKSPACE \(one of acme~lab, acme~sales\)"),
        ([], r"no workspace yet. Create one: client.workspaces.create\('lab'\)"),
        (NOT_OURS, "Name a workspace"),  # a key that may not list them
    ],
)
def test_without_a_workspace_it_says_what_to_do(shell: InteractiveShell, workspaces: Any, words: str) -> None:
    shell.user_ns["client"].own_workspaces = workspaces
    with pytest.raises(UsageError, match=words):
        run(shell, "guide", "hi\n")


def test_what_is_attached_is_a_part_of_the_message(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("# Notes")
    shell.user_ns["df"] = pd.DataFrame({"n": range(100)})
    run(shell, "guide -w acme~lab --with df --rows 2 --with notes.md --with df.n.max() -o turn", "Why?\n")
    message = """Why?

**df** (the first 2 of 100 rows × 1 column)

```csv
n
0
1
```

**notes.md**

```markdown
# Notes
```

**df.n.max()**

```
99
```"""
    assert shell.user_ns["turn"].prompt == message
    requests = len(shell.user_ns["client"].requests)
    run(shell, "guide -w acme~lab --with df.n.max() --dry-run", "Why?\n")
    assert capsys.readouterr().out.endswith("Why?\n\n**df.n.max()**\n\n```\n99\n```\n")
    assert len(shell.user_ns["client"].requests) == requests


# What an agent may write, and what the next cell holds then.
BLOCKS = {
    "First:\n```python\nold = 1\n```\nThen:\n```python\nnew = 2\n\n\nnew\n```\nDone.": "new = 2\n\n\nnew",
    "```\n%%bash\nrm -rf ~ # </script><img src=x onerror=alert(1)>\n```": (
        "%%bash\nrm -rf ~ # </script><img src=x onerror=alert(1)>"
    ),
    "````\n```\n!ls\n```\n````": "```\n!ls\n```",
    "```json\n{}\n```\n\n- in a list\n\n  ```\n  x\u202ey\n  ```": "x⟨U+202E⟩y",  # as the panel shows it
}


@pytest.mark.parametrize(("reply", "code"), BLOCKS.items())
def test_the_last_block_of_code_fills_the_next_cell_and_is_not_run(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, reply: str, code: str
) -> None:
    filled: list[Any] = []
    monkeypatch.setattr(shell, "set_next_input", lambda *args, **kwargs: filled.append((args, kwargs)))
    ran: list[str] = []
    monkeypatch.setattr(shell, "run_cell", lambda text, *args, **kwargs: ran.append(text))
    run(shell, "guide -w acme~lab --code", f"Look:\n{reply}")
    assert filled == [((code,), {})]
    run(shell, "--code")
    assert filled == [((code,), {})] * 2
    assert ran == []


def test_a_reply_without_code_fills_no_cell(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="Name an agent"):
        run(shell, "--code")
    with pytest.raises(UsageError, match="no block of code"):
        run(shell, "guide -w acme~lab --code", "Only `words`.\n")


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("guide --with nothing", "Why?\n", "no variable, no file"),
        ("guide --with raw.bin", "Why?\n", "not UTF-8 text"),
        ("guide --with raw.bin", None, "no message"),
        ("guide --with [1] --rows 0", "Why?\n", "at least 1 row"),
    ],
)
def test_what_cannot_be_attached_is_reported_before_anything_is_sent(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, cell: str | None, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.bin").write_bytes(b"\x89PNG\0")
    with pytest.raises(UsageError, match=words):
        run(shell, line, cell)
    assert shell.user_ns["client"].requests == []
