"""Two runs compared cell by cell: what is fixed, what is broken, what is unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from .answers import Answer
from .experiment import Experiment

if TYPE_CHECKING:
    import pandas as pd

# In this order: what got worse comes first.
CHANGES = ("broken", "fixed", "unknown", "added", "removed", "unchanged")
_COLUMNS = {
    "variant": "str",
    "input": "str",
    "change": "category",
    "passed_before": "float64",
    "passed_after": "float64",
    "checks": "str",
    "edited": "bool",
    "reply_before": "str",
    "reply_after": "str",
}


def compare_runs(before: Experiment, after: Experiment) -> pd.DataFrame:
    """What changed from one run to another.

    A cell, a variant's answers to one input, passes if it is answered and passes all
    checks that both runs have. Repeats of an input are averaged.

    Returns
    -------
    DataFrame
        A row per cell, the broken ones first:

        =============  ========  ====================================================
        column         dtype     meaning
        =============  ========  ====================================================
        variant        str
        input          str
        change         category  broken, fixed, unknown (a check could not decide),
                                 added, removed or unchanged
        passed_before  float64   share of the repeats that passed
        passed_after   float64
        checks         str       the checks whose share of passes changed
        edited         bool      whether the variant's settings have changed
        reply_before   str       of the first repeat
        reply_after    str
        =============  ========  ====================================================
    """
    import pandas as pd

    from ..frames.tabular import to_strings

    checks = [name for name in before.checks if name in after.checks]
    old, new = _cells(before.answers), _cells(after.answers)
    rows = [
        {
            "variant": variant,
            "input": text,
            "edited": _settings(before, variant) != _settings(after, variant),
            **_change(old.get((variant, text), []), new.get((variant, text), []), checks),
        }
        for variant, text in dict.fromkeys((*new, *old))
    ]
    rows.sort(key=lambda row: CHANGES.index(row["change"]))
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    frame["change"] = pd.Categorical(frame["change"], categories=list(CHANGES))
    dtype: Any
    for name, dtype in _COLUMNS.items():
        if dtype != "category":
            frame[name] = to_strings(frame[name]) if dtype == "str" else frame[name].astype(dtype)
    return frame


def _cells(answers: Iterable[Answer]) -> dict[tuple[str, str], list[Answer]]:
    cells: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        if answer.status in ("answered", "failed"):
            cells.setdefault((answer.variant, answer.input), []).append(answer)
    return cells


def _settings(experiment: Experiment, variant: str) -> Any:
    return experiment.variants[variant].settings if variant in experiment.variants else None


def _change(before: Sequence[Answer], after: Sequence[Answer], checks: Sequence[str]) -> dict[str, Any]:
    shares = _share(before, checks), _share(after, checks)
    changed = [name for name in checks if _share(before, [name]) != _share(after, [name])]
    return {
        "change": "added" if not before else "removed" if not after else _word(*shares),
        "passed_before": shares[0],
        "passed_after": shares[1],
        "checks": ", ".join(changed) if before and after else "",
        "reply_before": before[0].reply if before else None,
        "reply_after": after[0].reply if after else None,
    }


def _word(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "unknown"
    return "broken" if after < before else "fixed" if after > before else "unchanged"


def _share(answers: Sequence[Answer], checks: Sequence[str]) -> float | None:
    """The share of repeats that pass; None if one of them is undecided."""
    passes = [_passes(answer, checks) for answer in answers]
    known = [float(passed) for passed in passes if passed is not None]
    return fmean(known) if known and len(known) == len(passes) else None


def _passes(answer: Answer, checks: Sequence[str]) -> bool | None:
    if answer.status != "answered":
        return False
    return answer.passed(checks) if checks else True
