"""Which variant leads, and what applying it would replace, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .variant import Variant
from .versions import Version

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Replacement:
    """A version that was applied, and the one that it replaced.

    Attributes
    ----------
    agent : str
    before, after : Version
    """

    agent: str
    before: Version
    after: Version


def leader(summary: pd.DataFrame, names: Sequence[str]) -> str:
    """The variant with the highest pass rate; among equals, the fastest.

    Empty if none of them was judged.

    Examples
    --------
    >>> import pandas as pd
    >>> summary = pd.DataFrame(
    ...     {"variant": ["now", "brief"], "pass_rate": [0.5, 0.75], "p50_s": [1, 2]})
    >>> leader(summary, ["now", "brief"])
    'brief'
    """
    judged = summary[summary["variant"].isin(list(names)) & summary["pass_rate"].notna()]
    if judged.empty:
        return ""
    return str(judged.sort_values(["pass_rate", "p50_s"], ascending=[False, True])["variant"].iloc[0])


def replacement_text(variant: Variant, agent_name: str, current: Version | None, summary: pd.DataFrame) -> str:
    """What applying a variant does; shown as a question beforehand."""
    rows = summary[summary["variant"] == variant.name].to_dict("records")
    judged = [row for row in rows if row["pass_rate"] == row["pass_rate"]]
    passed = f" It passed {judged[0]['pass_rate']:.0%} of its replies." if judged else ""
    if current is None:
        before, undo = "", "There is no version before it that could be restored."
    else:
        note = f" ({current.summary})" if current.summary else ""
        before = f" instead of version {current.label}{note}"
        undo = (
            "You can undo it."
            if current.system_prompt is not None
            else "Its prompt cannot be read, so it will be lost."
        )
    return f"{agent_name} then runs on “{variant.name}”{before}, for everyone who uses it.{passed} {undo}"
