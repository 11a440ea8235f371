"""Rules for a history: an analysis, a filter, and a limit or "not worse than before".

A rule is a mapping, as a file of `agentbook check` has it. Outcomes name numbers,
agents and workspaces, never what somebody wrote, since they are sent elsewhere.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from .._text import nearest, replace_surrogates
from ..frames.analysis import analyses
from ..frames.analysis.arguments import rows_in, silent, span_in
from ..frames.analysis.clusters import ALPHA, holm
from ..frames.analysis.comparison import compare_periods
from ..frames.history.history import History

State = Literal["holds", "fired", "unknown"]

METRICS = {"latency": "latency", "failures": "failed_share"}  # of which more is worse
_OWN = ("name", "analysis", "where", "limit", "change")
_COMPARE = {"<=": "le", "<": "lt", ">=": "ge", ">": "gt", "==": "eq", "!=": "ne"}  # as pandas calls them
_LIMIT = re.compile(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")
# These have a row for each group that they can say something about; others list cases.
_MEASURES = ("latency", "usage", "timing", "prompt_latency")
# The columns of groups that a message may name; others may hold what people wrote.
_NAMES = ("agent", "workspace", "agent_version", "agent_id", "workspace_id", "session_id", "kind", "model", "status")


class RuleError(ValueError):
    """A rule that cannot be checked. `keys` is the part of it that is wrong."""

    def __init__(self, message: str, *keys: str | int) -> None:
        super().__init__(message)
        self.keys = keys


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    name : str
    analysis : str
        A function of `agentbook` that needs a history only.
    where : mapping
        Arguments of `History.where`.
    options : mapping
        Arguments of the analysis; of `compare_periods`, if `limit` is None.
    limit : tuple or None
        A column, a comparison and a value, which each row has to fulfil. None if the
        rule is that nothing got worse.
    """

    name: str
    analysis: str
    where: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: tuple[str, str, Any] | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a rule.

    Attributes
    ----------
    rule : Rule
    state : {"holds", "fired", "unknown"}
        ``unknown`` if the history has nothing that tells, such as no turns.
    reason : str
    rows : DataFrame
        The rows of the analysis that fired.
    unknown : int
        The number of groups of which the history does not tell, if it does of others.
    """

    rule: Rule
    state: State
    reason: str
    rows: pd.DataFrame = field(repr=False)
    unknown: int = 0


def read_rule(data: Any) -> Rule:
    """The rule that a mapping holds.

    Raises
    ------
    RuleError
        If something is missing or unknown.

    Examples
    --------
    >>> read_rule({"analysis": "latency", "limit": "p95_s <= 20", "by": "agent"}).limit
    ('p95_s', '<=', 20.0)
    """
    if not isinstance(data, Mapping):
        raise RuleError("a rule has names with values, such as `analysis: latency`.")
    if "analysis" not in data:
        raise RuleError(f"a rule needs `analysis`: one of {', '.join(analyses())}.")
    _require(data["analysis"], analyses(), "there is no analysis", "analysis")
    if ("limit" in data) == ("change" in data):
        raise RuleError("a rule has either `limit`, such as `p95_s <= 20`, or `change: worse`.")
    limit, analysis = None, str(data["analysis"])
    function = analyses()[analysis]
    if "limit" in data:
        found = _LIMIT.fullmatch(str(data["limit"]))
        if found is None:
            raise RuleError("a limit is a column, a comparison and a value, such as `p95_s <= 20`.", "limit")
        limit = found[1], found[2], _value(found[3])
        if isinstance(limit[2], str) and limit[1] not in ("==", "!="):
            raise RuleError(f"`{limit[1]}` compares with a number, not with {found[3]!r:.60}.", "limit")
    else:
        _require(data["change"], ["worse"], "there is no change", "change")
        if analysis not in METRICS:
            raise RuleError(
                f"`change: worse` is of {' or '.join(METRICS)}; another analysis takes a `limit`.", "analysis"
            )
        function = compare_periods
    where = data.get("where") or {}
    if not isinstance(where, Mapping):
        raise RuleError("`where` has names with values, such as `agent: support`.", "where")
    for name in where:
        _require(name, [*inspect.signature(History.where).parameters][1:], "a history has no part by", "where", name)
    options = {name: value for name, value in data.items() if name not in _OWN}
    known = [
        name for name in [*inspect.signature(function).parameters][1:] if limit or name not in ("metric", "a", "b")
    ]
    for name in options:
        _require(name, [*_OWN, *known], f"{analysis} has no option", name)
    name = replace_surrogates(str(data.get("name") or f"{analysis}: {data.get('limit', 'not worse')}"))
    return Rule(name, analysis, where, options, limit)


def _require(name: Any, names: Iterable[str], problem: str, *keys: str) -> None:
    """Raise a `RuleError` with the nearest name, or all, unless there is this one."""
    if name not in (names := list(names)):
        match = nearest(str(name), names)
        hint = f"did you mean `{match}`?" if match else f"use one of {', '.join(names)}."
        raise RuleError(f"{problem} `{name!s:.60}`: {hint}", *keys)


def _value(text: str) -> Any:
    with contextlib.suppress(ValueError):
        if not math.isnan(number := float(text)):
            return number
    return text.strip("'\"")


def check_rules(rules: Sequence[Rule], history: History) -> list[Outcome]:
    """The outcome of each rule, in order.

    Changes are tested by `compare_periods`. Holm's correction covers all tests of all
    rules together, so that the probability of any false alarm stays below 5 %.

    Raises
    ------
    RuleError
        If a rule names a column or a value that the history does not have; its `keys`
        begin with the number of the rule.
    """
    tables, parts = [], []
    for number, rule in enumerate(rules):
        try:
            parts.append(history.where(**rule.where) if rule.where else history)
            tables.append(_table(rule, parts[-1]))
        except (ValueError, TypeError) as error:  # of an analysis, too
            raise RuleError(str(error), number, *getattr(error, "keys", ())) from None
    changes = [table["p"] for rule, table in zip(rules, tables, strict=True) if rule.limit is None]
    corrected = holm(np.concatenate([*changes, np.empty(0)]).astype(np.float64))
    outcomes = []
    for rule, table, part in zip(rules, tables, parts, strict=True):
        if rule.limit is None:
            p, corrected = np.split(corrected, [len(table)])
            table = table.assign(p_holm=p, significant=p < ALPHA)
        outcomes.append(_outcome(rule, table, part))
    return outcomes


def _table(rule: Rule, part: History) -> pd.DataFrame:
    with silent():
        if rule.limit is not None:
            table = analyses()[rule.analysis](part, **rule.options).reset_index()
            names = [str(name) for name in table if name != "index"]
            column, sign, value = rule.limit
            _require(column, names, f"{rule.analysis} has no column", "limit")
            if not isinstance(value, str) and not pd.api.types.is_numeric_dtype(table[column].dtype):
                raise RuleError(f"{column!r} holds no numbers, so it has no limit {sign} {value:g}.", "limit")
            return table
        return compare_periods(part, metric=METRICS[rule.analysis], **rule.options)


def _outcome(rule: Rule, table: pd.DataFrame, part: History) -> Outcome:
    if rule.limit is None:
        known, fired = table["p_holm"].notna(), table["significant"] & (table["change"] > 0)
        wanted = "fewer than two sessions in a period" if len(table) else "nothing in these periods"
    else:
        column, sign, value = rule.limit
        known = table[column].notna()
        values = table[column].astype(str) if isinstance(value, str) else table[column].astype("float64")
        fired = known & ~getattr(values, _COMPARE[sign])(value)
        wanted = f"{column} is not known"
    rows = table[fired.to_numpy(bool)]
    # A list of cases without rows has nothing that could break the rule.
    lists = rule.limit is not None and (
        rule.analysis not in _MEASURES or rule.options.get("what", "concurrency") != "concurrency"
    )
    is_known = bool(known.any()) or (lists and table.empty)
    told, everyone = _groups(rule, table[known.to_numpy(bool)]), _groups(rule, table)
    if "since" in inspect.signature(analyses()[rule.analysis]).parameters and rule.analysis != "context_status":
        turns, ends = part.turns, [rule.options.get(name) for name in ("since", "until")]
        span = span_in(turns, "asked_at", *ends, tz=rule.options.get("tz"))
        inside = rows_in(span, turns, turns["asked_at"].fillna(turns["replied_at"]))
        everyone |= _groups(rule, turns)
        told |= _groups(rule, inside) if lists else set()
        if inside.empty:
            is_known, wanted = False, "nothing was asked"
    if rows.empty and not is_known:
        return Outcome(rule, "unknown", wanted, rows)
    reasons = [_reason(rule, row) for row in rows.head(3).to_dict("records")]
    reasons += [f"and {len(rows) - 3:,} more"] if len(rows) > 3 else []
    unknown = [" ".join(group) for group in sorted(everyone - told)]
    if unknown:
        can_be_named = {*_by(rule)} <= {*_NAMES} and len(unknown) <= 3
        reasons.append(f"unknown for {', '.join(unknown) if can_be_named else f'{len(unknown):,} groups'}")
    return Outcome(rule, "holds" if rows.empty else "fired", "; ".join(reasons), rows, len(unknown))


def _by(rule: Rule) -> list[str]:
    by = rule.options.get("by") or []
    return [by] if isinstance(by, str) else list(by)


def _groups(rule: Rule, frame: pd.DataFrame) -> set[tuple[str, ...]]:
    """The groups of the rule that a frame has rows of; none if it joins some."""
    by = _by(rule)
    if not by or rule.options.get("top") or not {*by} <= {*frame.columns}:
        return set()
    return {*frame[by].dropna().astype(str).itertuples(index=False, name=None)}


def _reason(rule: Rule, row: Mapping[Any, Any]) -> str:
    groups = ", ".join(f"{name} {row[name]}" for name in _NAMES if name in row and pd.notna(row[name]))
    if rule.limit is None:
        before, after = (f"{row[name]:.3g}" for name in ("before", "after"))
        said = f"{row['metric']} {before} before, {after} now (p = {row['p_holm']:.2g}, {row['sessions']:,} sessions)"
    else:
        column, sign, value = rule.limit
        if isinstance(value, str):  # what the column holds instead may be what somebody wrote
            said = f"{column} is {'not ' if sign == '==' else ''}{value}"
        else:
            said = f"{column} is {row[column]:.4g}, not {sign} {value:g}"
    said += f" ({row['link']})" if pd.notna(row.get("link")) else ""
    return f"{groups}: {said}" if groups else said


# -- the message -------------------------------------------------------------------


def message_of(outcomes: Sequence[Outcome], history: History) -> dict[str, Any]:
    """What is sent and stored: a JSON object of names and numbers.

    The same rules that fire on the same day have the same ``id``, so that a receiver
    can tell a repetition.
    """
    loaded_at = str(history.events.attrs.get("agentbook", {}).get("loaded_at"))
    fired = [outcome.rule.name for outcome in outcomes if outcome.state == "fired"]
    seed = json.dumps([history.account, loaded_at[:10], fired], default=str)
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, seed)),
        "loaded_at": loaded_at,
        "fired": len(fired),
        "unknown": sum(outcome.state == "unknown" or outcome.unknown > 0 for outcome in outcomes),
        "rules": [
            {
                "name": each.rule.name,
                "analysis": each.rule.analysis,
                "state": each.state,
                "reason": each.reason,
                "unknown_groups": each.unknown,
            }
            for each in outcomes
        ],
    }
