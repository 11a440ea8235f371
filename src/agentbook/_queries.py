"""An analysis, or SQL on a local store, by its name: what `agentbook query` and
`agentbook mcp` share.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from .frames.history.history import History
    from .frames.store.store import Store

SQL_S = 60.0  # of a query by SQL, which may have no end
SPAN = ("since", "until", "tz")  # of what is loaded, and so of each analysis
# What a history brings along.
_NO_OPTIONS = (*SPAN, "steps", "workspaces", "granted", "candidates", "known_ids")


def options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of an analysis, but for the history and what chooses it."""
    return [each for each in list(inspect.signature(function).parameters.values())[1:] if each.name not in _NO_OPTIONS]


def kind_of(parameter: inspect.Parameter) -> tuple[type, int | None]:
    """The type of the annotation's simplest form, and how many; None if several."""
    kind = str(parameter.annotation)
    several = "list[str]" in kind or kind.startswith("Iterable")
    simplest = int if kind.startswith("int") else float if "float" in kind else bool if kind == "bool" else str
    return simplest, None if several else 2 if kind.startswith("tuple") else 1


def described(function: Callable[..., Any], name: str) -> str:
    """The first sentence that the docstring says about a parameter."""
    entry = re.search(rf"^(?:\w+, )*{name}\b.*\n((?: {{4}}.*\n|\n)+)", f"{inspect.getdoc(function)}\n", re.MULTILINE)
    return first_sentence(entry and entry[1])


def first_sentence(documentation: str | None) -> str:
    """The first sentence."""
    return re.split(r"(?<=\.)\s", " ".join((documentation or "").replace("`", "").split()), maxsplit=1)[0]


def loaded_history(store: str | None, account: str | None, *, contexts: bool = False, **span: Any) -> History:
    """The history of a local store, or of an account.

    The default is the credential's own, or what the credential sees.
    """
    from ._connect import connect
    from .frames.history.load import load_history

    if store is not None:
        if account is not None:
            raise ValueError("--account chooses what the platform returns: leave it out with --store.")
        return opened_store(store).history(**span)
    with connect() as client:
        # The specification does not show what /me answers.
        return load_history(client, account or client.me.get().get("id"), contexts=contexts, **span)


def opened_store(path: str) -> Store:
    """A store that holds something."""
    from .frames.store.store import Store

    store = Store(path)
    if not store.sessions:
        raise OSError(f"there is no store in {path}, or it is empty: ab.Store(DIR).sync(ab.connect()) fills one.")
    return store


def written(frame: pd.DataFrame, form: str) -> str:
    """A frame as ``json`` or ``csv``, or else as a table.

    A terminal would do what control characters say, and readers would see another
    order: JSON escapes them, and the others spell them out.
    """
    from ._text import escaped, visible
    from .frames.export import WRITERS

    if not form:
        frame = frame.reset_index() if any(frame.index.names) else frame
        return visible(frame.to_string(index=False, max_colwidth=60)) if len(frame) else "no rows"
    file = io.BytesIO()
    WRITERS[".jsonl" if form == "json" else ".csv"](frame, file)
    text = file.getvalue().decode("utf-8-sig").rstrip("\n")
    return f"[{','.join(escaped(text).split(chr(10)))}]" if form == "json" else visible(text)
