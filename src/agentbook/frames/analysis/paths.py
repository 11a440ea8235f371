"""What agents did: the paths of steps through turns, and loops within them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..parse.schemas import STR
from ..tabular import frame_of, part_of, with_provenance
from .arguments import OTHER, require, require_top
from .shares import shares
from .steps import steps as steps_of
from .turn_details import as_compared
from .turns import Integers, is_steps, is_turns, turns_in

NO_STEPS, UNNAMED, ARROW = "(no steps)", "(unnamed)", " > "
LEAST = 3  # calls that make a loop
_TURN, _OF_RUNS = ["session_id", "turn"], ("name", "arguments", "result")
_COLUMNS = ("path", "steps", "turns", "sessions", "share", "failed_share", "low", "high", "p50_s", *_TURN)


def paths(
    data: Any,
    *,
    by: str | list[str] | None = None,
    top: int | None = None,
    steps: Any = None,
    each: bool = False,
    since: Any = None,
    until: Any = None,
) -> pd.DataFrame:
    """The sequences of steps that turns took, the most frequent first.

    A path names the steps of a turn in the order in which they began, those of its
    sub-agents too. A step that is repeated at once is folded: ``find_order > verify
    ×2``. The path of a turn without steps is ``(no steps)``.

    Parameters
    ----------
    data : History, DataFrame, Listing, or any other table
        A history or events; or turns, with `steps`.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent"``.
    top : int, optional
        How many paths of each group to keep apart: those with the most turns. The
        others together are ``"other"``. Default: all.
    steps : DataFrame, optional
        The result of `steps`, if `data` has turns only.
    each : bool
        If True, the turns themselves, with a column ``path``, to group other analyses
        by.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`: instants with a time zone,
        dates, or lengths of time such as ``"30d"`` before the data were loaded.

    Returns
    -------
    DataFrame
        By group, the most frequent path first:

        ============ ======= ==== ======================================================
        column       dtype   unit meaning
        ============ ======= ==== ======================================================
        path         str          the steps
        steps        Int64        number of steps; null of ``"other"``
        turns        int64        turns that took the path
        sessions     int64        sessions of these turns
        share        float64      of the turns of the group, 0 to 1
        failed_share float64      of these turns, how many failed
        low, high    float64      its 95 % interval, with sessions as the units
        p50_s        float64 s    median latency of the answered ones; NaN without one
        session_id   str          session of the turn that took longest, to look at
        turn         int64        number of that turn
        ============ ======= ==== ======================================================

    Raises
    ------
    ValueError
        If a column or the steps are missing, or `top` is not a positive number.

    Notes
    -----
    Names are those of `steps`.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> found = ab.paths(history, by="agent")
    >>> set(found.loc[found["path"] == "read_clauses ×5", "agent"])
    {'contract-reader'}
    """
    table, groups, _, span = turns_in(
        data, *_TURN, "status", "latency_s", caller="paths", by=by, since=since, until=until, reserved=_COLUMNS
    )
    path, count = _path_of(table, steps_in(data, steps, "paths"))
    table = table.drop(columns="(at)").assign(path=path)
    if each:
        return with_provenance(table, table, "turns", **span.details())
    lengths = pd.Series(count, table.index)
    if top is not None:
        require_top(top, caller="paths")
        sizes = table.groupby([*groups, "path"], observed=True, dropna=False).size().reset_index(name="turns")
        sizes = sizes.sort_values("turns", ascending=False, kind="stable")
        place = sizes.groupby(groups, observed=True, dropna=False) if groups else sizes.assign(all=0).groupby("all")
        small = sizes.loc[place.cumcount() >= top, [*groups, "path"]].assign(rest=True)
        rest = table[[*groups, "path"]].merge(small, how="left", on=[*groups, "path"])["rest"].notna().to_numpy()
        table, lengths = table.assign(path=table["path"].mask(rest, OTHER)), lengths.mask(rest)
    return with_provenance(_counted(table, groups, lengths), table, "paths", **span.details())


def loops(data: Any, *, steps: Any = None, since: Any = None, until: Any = None) -> pd.DataFrame:
    """Steps that an agent ran again and again in vain.

    A loop is a tool that ran three times or more in a turn with the same arguments and
    the same result. Runs that failed do not count, because to try again is right. If
    the result changes, the agent waits for something, which is no loop either. Where
    arguments or results are not known, nobody can tell: such a row has a null `loop`.

    Parameters
    ----------
    data : History, DataFrame, Listing, or any other table
        A history or events; or turns, with `steps`.
    steps : DataFrame, optional
        The result of `steps`, if `data` has turns only.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`, as for `paths`.

    Returns
    -------
    DataFrame
        A row per loop, and per tool that may be in one, the most wasteful first:

        ============= =================== ====== =======================================
        column        dtype               unit   meaning
        ============= =================== ====== =======================================
        session_id    str                        the session
        turn          int64                      number of the turn, as in `turns`
        name          str                        the tool's name
        arguments     str                        what it ran with; null if not known
        result        str                        what came back; null if not known
        calls         int64                      how often it ran
        loop          boolean                    True; null if it is not known
        wasted_s      float64             s      time of the calls after the first; NaN
                                                 if not known
        wasted_tokens float64             tokens about what these calls cost: the tokens
                                                 of the turn, shared out evenly over its
                                                 steps and the reply; NaN if not known
        started_at    datetime64[us, UTC]        when the first call began
        message_id    str                        the question of the turn
        ============= =================== ====== =======================================

        Also ``workspace`` and ``agent`` if the turns have them.
        ``attrs["agentbook"]`` counts the `turns` looked at, the `loops`, and the rows
        that are `unknown`.

    Raises
    ------
    ValueError
        If a column or the steps are missing.

    Notes
    -----
    Arguments are compared as JSON, so the order of fields does not matter.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> found = ab.loops(history)
    >>> set(found["agent"]), set(found["name"]), int(found["calls"].min()) >= 5
    ({'contract-reader'}, {'read_clauses'}, True)
    """
    table, _, _, span = turns_in(data, *_TURN, caller="loops", since=since, until=until)
    table = table.drop_duplicates(_TURN, ignore_index=True)
    frame = steps_in(data, steps, "loops", contents=True)
    require(frame, *_OF_RUNS, "status", "duration_s", "started_at", caller="loops (steps)")
    of_turns, of_steps = _numbers(table, frame)
    turn = pd.Index(of_turns).get_indexer(pd.Index(of_steps))
    all_steps: Integers = np.bincount(turn[turn >= 0], minlength=len(table))
    # Only tools that ran often enough in a turn are looked at closely.
    tool, names = pd.factorize(frame["name"].astype(STR), use_na_sentinel=False)
    tried = np.flatnonzero((turn >= 0) & (frame["status"] != "failed").to_numpy(bool))
    _, pair, often = np.unique(turn[tried] * len(names) + tool[tried], return_inverse=True, return_counts=True)
    near = tried[often[pair] >= LEAST]
    near = near[np.lexsort((frame["step"].to_numpy(np.int64)[near], turn[near]))]
    part, turn = frame.iloc[near].reset_index(drop=True), turn[near]
    said = [part[name].astype(object).where(part[name].notna(), None) for name in _OF_RUNS]
    found = list(repeated(list(zip(turn.tolist(), *said, strict=True))))
    first = np.array([numbers[0] for numbers, _ in found], np.int64)
    calls = np.array([len(numbers) for numbers, _ in found], np.int64)
    loop = pd.array([is_loop for _, is_loop in found], "boolean")
    again_s = [part["duration_s"].to_numpy(np.float64)[numbers[1:]].sum() for numbers, _ in found]
    rows, of_turn = part.iloc[first].reset_index(drop=True), table.iloc[turn[first]].reset_index(drop=True)
    tokens = of_turn["tokens"].to_numpy("float64", na_value=np.nan) if "tokens" in of_turn else np.nan
    known = np.where(pd.isna(loop), np.nan, 1.0)
    result = of_turn[_TURN].assign(
        **{name: rows[name].astype(STR) for name in _OF_RUNS}, calls=calls, loop=loop, wasted_s=again_s * known,
        wasted_tokens=tokens * (calls - 1) / (all_steps[turn[first]] + 1) * known, started_at=rows["started_at"],
        **{name: of_turn[name] for name in ("message_id", "workspace", "agent") if name in of_turn},
    )  # fmt: skip
    result = result.sort_values(["wasted_s", "calls"], ascending=False, kind="stable").reset_index(drop=True)
    unknown = int(pd.isna(loop).sum())
    return with_provenance(
        result, table, "loops", turns=len(table), loops=len(found) - unknown, unknown=unknown, **span.details()
    )


def repeated(runs: Sequence[tuple[Any, Any, Any, Any]]) -> Iterator[tuple[list[int], bool | None]]:
    """The numbers of runs that repeat each other in vain; None if that is not known.

    Parameters
    ----------
    runs : sequence of tuple
        The turn, the tool's name, its arguments and its result, which are None if not
        known; without the runs that failed.

    Examples
    --------
    >>> run = (1, "search", '{"words": "logo"}', "[]")
    >>> list(repeated([run, run, (1, "search", '{"words": "name"}', "[]"), run]))
    [([0, 1, 3], True)]
    """
    alike: dict[Any, list[int]] = {}
    for number, (turn, name, arguments, _) in enumerate(runs):
        alike.setdefault((turn, name, as_compared(arguments)), []).append(number)
    for (_, name, arguments), numbers in alike.items():
        results = {as_compared(runs[number][3]) for number in numbers} if len(numbers) >= LEAST else set()
        if len(results - {None}) <= 1 and results:
            yield numbers, None if None in (name, arguments, *results) else True


def _counted(table: pd.DataFrame, groups: list[str], lengths: pd.Series) -> pd.DataFrame:
    answered, failed = table["status"] == "answered", table["status"] == "failed"
    rows = table[[*groups, "path", "latency_s", *_TURN]].assign(
        **{"(answered)": table["latency_s"].where(answered), "(failed)": failed, "(steps)": lengths.astype("Int64")}
    )
    rows = rows.sort_values("latency_s", ascending=False, na_position="last", kind="stable")
    grouped = rows.groupby([*groups, "path"], observed=True, dropna=False, sort=True)
    counted = grouped.agg(
        steps=("(steps)", "first"), turns=("path", "size"), sessions=("session_id", "nunique"),
        p50_s=("(answered)", "median"), session_id=("session_id", "first"), turn=("turn", "first"),
    ).reset_index()  # fmt: skip
    session: Any = pd.factorize(rows["session_id"])[0].astype(np.int64)
    number: Any = grouped.ngroup().to_numpy(np.int64)
    hits = shares(rows["(failed)"].to_numpy(np.float64), number, session)
    of_group = counted.groupby(groups, observed=True, dropna=False)["turns"].transform("sum") if groups else len(table)
    counted = counted.assign(
        path=counted["path"].astype(STR), share=(counted["turns"] / of_group).astype("float64"),
        **dict(zip(("failed_share", "low", "high"), hits, strict=True)), p50_s=counted["p50_s"].astype("float64"),
        **{"(last)": counted["path"] == OTHER},
    )  # fmt: skip
    order = [*groups, "(last)", "turns", "path"]
    counted = counted.sort_values(order, ascending=[name != "turns" for name in order], ignore_index=True)
    result: pd.DataFrame = counted[[*groups, *_COLUMNS]]
    return result


def steps_in(data: Any, steps: Any, caller: str, *, contents: bool = False) -> pd.DataFrame:
    """The steps of a history or of events, or those that were passed."""
    if steps is None:
        frame = part_of(data, "turn_events")
        frame = frame_of(data, caller=caller, resource="events") if frame is None else frame
        if is_steps(frame) or is_turns(frame):
            raise ValueError(
                f"{caller} needs the turns and their steps: pass a history or events, or turns with "
                "steps=ab.steps(events)."
            )
        return steps_of(frame, contents=contents)
    frame = frame_of(steps, caller=f"{caller} (steps)")
    require(frame, *_TURN, "step", "name", caller=f"{caller} (steps)")
    return frame


def _numbers(turns: pd.DataFrame, steps: pd.DataFrame) -> tuple[Integers, Integers]:
    """A number for each turn of the table, and that of the turn of each step; or -1."""
    known = pd.Index(turns["session_id"].unique())
    sessions = (known.get_indexer(pd.Index(frame["session_id"])) for frame in (turns, steps))
    most = 1 + max((int(frame["turn"].max()) for frame in (turns, steps) if len(frame)), default=0)
    of_turns, of_steps = (
        np.where(session < 0, -1, session * most + frame["turn"].to_numpy(np.int64))
        for session, frame in zip(sessions, (turns, steps), strict=True)
    )
    return of_turns, of_steps


def _path_of(turns: pd.DataFrame, steps: pd.DataFrame) -> tuple[pd.Series, Integers]:
    """The path of each turn, and its number of steps."""
    of_turns, of_steps = _numbers(turns, steps)
    order = np.lexsort((steps["step"].to_numpy(np.int64), of_steps))
    of_steps = of_steps[order]
    codes, names = pd.factorize(steps["name"].astype(STR).fillna(UNNAMED))
    codes = codes[order]
    # Where a step differs from the one before, a run of equal steps begins.
    begins = np.flatnonzero(np.diff(of_steps, prepend=-2) | np.diff(codes, prepend=-1))
    lengths = np.diff(begins, append=len(codes))
    most = lengths.max(initial=0) + 1
    run, runs = pd.factorize(codes[begins] * most + lengths)
    folded = [divmod(each, most) for each in runs.tolist()]
    texts = [f"{names[code]} ×{length}" if length > 1 else str(names[code]) for code, length in folded]
    turn = of_steps[begins]
    first = np.flatnonzero(np.diff(turn, prepend=-2))
    parts = [texts[number] for number in run.tolist()]
    spelled = [ARROW.join(parts[begin:end]) for begin, end in zip(first, np.append(first, len(parts))[1:], strict=True)]
    place = pd.Index(turn[first]).get_indexer(pd.Index(of_turns))
    path = np.append(np.array(spelled, object), NO_STEPS)[place]
    count = np.append(np.add.reduceat(lengths, first) if len(first) else lengths, 0)[place]
    return pd.Series(path, turns.index, dtype=STR), count
