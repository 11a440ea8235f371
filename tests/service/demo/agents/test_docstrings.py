"""The docstrings of the public names become pages that the guide can quote."""

from __future__ import annotations

import inspect
from pathlib import Path

import agentbook as ab
from agentbook.service.demo.agents.docstrings import Entry, read_docstrings

PACKAGE = Path(ab.__file__).parent
MODULE = '''
def count(rows, *, since: str = "", until=None):
    """Count rows.

    More about ``rows``.

    Parameters
    ----------
    rows : DataFrame
        What to
        count.
    since, until : str
        A span.

    Returns
    -------
    DataFrame

        ====== =====
        column dtype
        ====== =====
        n      int64
        ====== =====

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> count([])
    0
    """
'''
BLOCKS = (
    "Count rows.",
    "```python\nab.count(rows, *, since='', until=None)\n```",
    "More about `rows`.",
    "Parameters:\n- `rows` (DataFrame): What to count.\n- `since, until` (str): A span.",
    "Returns:\n- `DataFrame`",
    "```text\n====== =====\ncolumn dtype\n====== =====\nn      int64\n====== =====\n```",
    'Specification: "Events".',
    "```python\n>>> count([])\n0\n```",
)


def test_a_docstring_becomes_markdown_with_its_signature(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('_HOMES = {"count": "counting", "absent": "counting"}\n')
    (tmp_path / "counting.py").write_text(MODULE)
    for name in ("nouns", "listing"):
        (tmp_path / f"{name}.py").write_text("")
    for folder, name in (("events", "stream"), ("frames/plot", "chart")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{name}.py").write_text("")
    assert read_docstrings(tmp_path) == [Entry("ab.count", BLOCKS)]


def test_every_public_name_has_an_entry() -> None:
    names = {entry.name for entry in read_docstrings(PACKAGE)}
    modules = {name for name in ab.__all__ if inspect.ismodule(getattr(ab, name))} | {"errors"}
    assert {f"ab.{name}" for name in ab.__all__ if name not in modules} <= names
    assert {f"ab.plot.{name}" for name in ab.plot.__all__} <= names
    assert {f"ab.errors.{name}" for name in ab.errors.__all__ if name != "AgentbookWarning"} <= names
    client = ab.Client("https://host.example/v1")
    for noun in ("agents", "credentials", "me", "organizations", "sessions", "skills", "workspaces"):
        methods = [name for name in dir(getattr(client, noun)) if not name.startswith("_")]
        assert {f"client.{noun}.{name}" for name in methods} <= names
    assert {"ChatPanel.ask", "Store.sync", "PromptLab.run", "Listing.to_pandas"} <= names
