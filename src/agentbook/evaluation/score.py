"""`ab.score` and `ab.with_scores`: checks on existing replies."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._files import append
from ..api.calls import ref
from ..events import loop
from ..frames.analysis.arguments import groups_of, require, warn_if_empty
from ..frames.analysis.embeddings import endpoint
from ..frames.analysis.prices import price_table
from ..frames.analysis.steps import steps as steps_of
from ..frames.analysis.turns import is_steps, is_turns, turns
from ..frames.analysis.usage import with_cost
from ..frames.labels import targets_of
from ..frames.tabular import frame_of, part_of, typed, with_provenance
from .asking import Budget, step_of
from .asserts import grade_check, require_embeddings
from .check import number, whole_number
from .checks import FORGOT, GAVE_UP, GOAL_REACHED, read_checks
from .judging import Judges, grade_all, require_agents
from .model import Grade, Reply, Services, Step, readable
from .platform import find_workspace
from .runs import entries

if TYPE_CHECKING:
    from ..client import Client

COLUMNS = {"session_id": "str", "message_id": "str", "check": "str", "passed": "boolean", "score": "Float64"}
COLUMNS |= {"reason": "str", "judge": "str"}
SESSION_COLUMNS = {
    **{name: kind for name, kind in COLUMNS.items() if name != "message_id"}, "turns": "int64", "turns_read": "int64",
}  # fmt: skip
PASSED = "passed"
UNITS = ("turn", "session")
BEFORE = 10  # turns before the judged one that its judge reads
WHOLE = (GOAL_REACHED, FORGOT, GAVE_UP)  # criteria of whole conversations
_TEXTS = "score needs the texts of the turns (prompt, reply): pass a History, events, or ab.turns(events, texts=True)."


def score(
    data: Any,
    checks: Any,
    *,
    unit: str = "turn",
    steps: Any = None,
    prices: Any = None,
    sample: int | None = None,
    by: str | list[str] | None = None,
    seed: int = 0,
    client: Client | None = None,
    workspace: Any = None,
    max_cost: float | None = None,
    record: str | PathLike[str] | None = None,
) -> pd.DataFrame:
    """Judge turns or sessions that already happened, by the checks of a prompt lab.

    Nothing is sent, unless a check is an `ab.checks.rubric`: its judge gets the turn,
    and up to ten turns before it, or the whole conversation, in a session of its own.
    `with_scores` joins the result to the turns.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        A history, events, or turns with their texts, such as the `selection` of an
        `Explorer`.
    checks : dict of name to check, or list of checks
        As for `PromptLab.check`: texts, patterns, JSON schemas, functions and
        `agentbook.checks`. Templates take the columns of the turns: ``"{{agent}}"``.
    unit : str
        What is judged: each ``"turn"`` (default), or each ``"session"``. Of a session,
        a judge reads all turns, and other checks the last reply, as in a lab's
        conversations. `ab.checks.GOAL_REACHED`, `FORGOT` and `GAVE_UP` are about
        sessions.
    steps : DataFrame, optional
        From `steps`, for checks of steps. A history or events bring their own.
    prices : dict, DataFrame, str or path, optional
        As for `with_cost`, for checks of cost, and for `max_cost`. Default: the column
        ``cost`` of the turns, if there is one.
    sample : int, optional
        Number of answered turns, or of sessions with one, to judge, drawn at random.
        Default: all.
    by : str or list of str, optional
        With `sample`: columns whose values keep their shares in it; each value has at
        least one turn.
    seed : int
        A number; the same seed draws the same sample.
    client : Client, optional
        Where judges are asked.
    workspace : str or Record, optional
        Where judges are asked. Default: the only one, or the only one with the judge.
    max_cost : float, optional
        What the judges may cost at most, in the currency of `prices`.
    record : str or path, optional
        A file that keeps what judges said, one line each: what is there is not asked
        again, in this or in a later call.

    Returns
    -------
    DataFrame
        A row per turn and check, in the order of the turns:

        ========== ======= =============================================================
        column     dtype   meaning
        ========== ======= =============================================================
        session_id str     the session
        message_id str     the question; the reply of a turn without one
        check      str     name of the check
        passed     boolean null if it could not be decided: there is no reply, or what
                           the check needs is not known
        score      Float64 from 0 to 1; null if the check only passes or fails
        reason     str     what was found, what the judge said, or why nothing was
                           decided
        judge      str     the agent that judged, its version and its prompt's
        ========== ======= =============================================================

        With ``unit="session"``, a row per session and check, without ``message_id``,
        and with ``turns`` and ``turns_read`` (int64): how many turns the session has,
        and how many of them a judge was shown. Of a conversation of more than 60,000
        characters, these are its beginning, its end and the turns that failed.

    Raises
    ------
    TypeError, ValueError
        If the turns have no texts, a check is not one, or a judge cannot be asked.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> scores = ab.score(history, {"short": ab.checks.length(max=80)})
    >>> scores["check"].unique().tolist()
    ['short']
    """
    by_name = read_checks(checks)
    if not by_name:
        raise ValueError('score needs a check, as in ab.score(history, ["refund", ab.checks.length(max=80)]).')
    if unit not in UNITS:
        raise ValueError(f"score judges by unit='turn' or unit='session', not {unit!r}.")
    for name, check in by_name.items():
        if unit == "turn" and any(each.value in WHOLE for each in check.rubrics):
            raise ValueError(f"The check {name!r} is about whole conversations: pass unit='session'.")
    if by is not None and sample is None:
        raise ValueError("by= says which values keep their shares in a sample: pass sample= too.")
    table = everything = _turns(data)
    if sample is not None:
        size, ends = whole_number(sample, "sample of score", low=1), _last(table) if unit == "session" else table
        drawn = _sample(ends, size, by, seed)  # of a session, its last reply stands for it
        table = table[table["session_id"].isin(drawn["session_id"])] if unit == "session" else drawn
        table.attrs = everything.attrs
    known = price_table(prices)
    if known is not None:
        table = with_cost(table, known)
    judged = {name: each for name, each in by_name.items() if each.judges}
    before = _before(everything) if judged and unit == "turn" else {}
    known_steps = _steps(data, steps)
    replies = list(_replies(table, known_steps, before))
    places = [{"session_id": each, "message_id": of} for each, of in zip(table["session_id"], _ids(table), strict=True)]
    missing = [f"There is no reply: the turn is {status}." for status in table["status"]]
    if unit == "session":
        talks = list(_talks(table, replies, known_steps))
        replies, places = [reply for _, reply in talks], [place for place, _ in talks]
        missing = ["There is no reply in the session."] * len(talks)
    services = Services(embed=endpoint())
    local = [(name, each) for name, each in by_name.items() if not each.judges]
    grades = [{name: grade_check(each, reply, services) for name, each in local if reply} for reply in replies]
    if judged and any(replies):
        if client is None:
            raise ValueError("A rubric asks an agent: pass client=, as in ab.score(history, checks, client=client).")
        limit = None if max_cost is None else number(max_cost, "max_cost", low=0)
        if limit is not None and known is None:
            raise ValueError("max_cost= needs prices=, as in prices={'*': (0.15, 0.60)}.")
        names = [agent for each in judged.values() for agent in each.judges]
        where = ref(workspace) if workspace is not None else find_workspace(client, names[0])
        memory, judges = _Record(record), Judges(client.asynchronous(), where, budget=Budget(limit, known))
        loop.run(require_agents(client.asynchronous(), names), operation="score")
        loop.run(require_embeddings(by_name.values()), operation="score")
        cells = [
            (each, reply, functools.partial(into.__setitem__, name))
            for reply, into in zip(replies, grades, strict=True)
            if reply is not None
            for name, each in judged.items()
        ]
        loop.run(grade_all(judges, cells, memory.judgements, memory.keep), operation="score")
    columns = SESSION_COLUMNS if unit == "session" else COLUMNS
    frame = typed(pd.DataFrame(list(_rows(places, missing, by_name, grades)), columns=list(columns)), columns)
    return with_provenance(
        frame, table, "score", unit=unit, checks={name: str(each) for name, each in by_name.items()},
        **({} if sample is None else {"sample": len(table), "seed": seed}),
    )  # fmt: skip


def with_scores(data: Any, scores: pd.DataFrame) -> pd.DataFrame:
    """Turns or sessions with a column per check, and whether they passed every check.

    The columns can be grouped by, as in ``ab.latency(scored, by="passed")``, and
    compared: ``ab.compare_periods(scored, metric="passed")``.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        What was scored: turns, or, for scores of sessions, also a table of sessions,
        such as a `session_summary`.
    scores : DataFrame
        The result of `score`; several of one unit can be concatenated. If a turn was
        judged twice by the checks of a name, the last one counts. A session's score
        stands in all its turns, where ``unit="sessions"`` of `compare_periods` and
        `compare_groups` counts each session once; in a table of sessions it always
        does.

    Returns
    -------
    DataFrame
        The rows, with a column (boolean) per check, named like it, and ``passed``
        (boolean): whether they passed every check. Null for what was not decided: a
        turn that failed one check did not pass, whatever the others are.

    Raises
    ------
    ValueError
        If the rows have a column of a check's name already, a column is missing, or
        scores of turns are to stand in sessions.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> scores = ab.score(history, {"short": ab.checks.length(max=80)})
    >>> scored = ab.with_scores(history, scores)
    >>> bool((scored["passed"] == scored["short"]).all())
    True
    """
    table, session, message = targets_of(data, "with_scores")
    if message is None and "message_id" in scores:
        raise ValueError("These scores are of turns, and the table is of sessions: pass the turns, or a history.")
    require(scores, "session_id", "check", PASSED, caller="with_scores")
    names = list(dict.fromkeys(scores["check"]))
    clash = next((name for name in [*names, PASSED] if name in table or names.count(PASSED)), None)
    if clash is not None:
        raise ValueError(
            f"with_scores would replace the column {clash!r}: name the check differently, as in "
            f"ab.score(turns, {{'{clash} check': ...}}), or drop the column."
        )
    keys = ["session_id", "message_id"] if "message_id" in scores else ["session_id"]
    last = scores.drop_duplicates([*keys, "check"], keep="last")
    wide = last.set_index([*keys, "check"])[PASSED].unstack("check").reindex(columns=names).astype("boolean")
    found = pd.DataFrame({"session_id": session, "message_id": message}).join(wide, on=keys)[names]
    found[PASSED] = found[names].all(axis=1, skipna=False) if names else pd.NA
    scored = table.assign(**{name: found[name].astype("boolean") for name in [*names, PASSED]})
    scored.attrs = table.attrs
    return scored


def _turns(data: Any) -> pd.DataFrame:
    frame = part_of(data, "turns")
    if frame is None:
        frame = frame_of(data, caller="score", resource="turns")
        warn_if_empty(frame, caller="score")
        if not is_turns(frame) and not is_steps(frame):
            frame = turns(frame, texts=True)
    if not is_turns(frame) or not {"prompt", "reply"} <= set(frame.columns):
        raise ValueError(_TEXTS)
    require(frame, "session_id", "message_id", "reply_id", "turn", "status", "latency_s", caller="score")
    return frame


def _steps(data: Any, steps: Any) -> Mapping[tuple[str, int], list[Step]] | None:
    """The steps by session and turn; None if they are not known."""
    if steps is None:
        frame = part_of(data, "turn_events")
        frame = frame if frame is not None else frame_of(data, caller="score", resource="turns")
        if is_turns(frame):
            return None
        steps = steps_of(frame)
    else:
        steps = frame_of(steps, caller="score", resource="steps")
        require(steps, "session_id", "turn", "name", "status", caller="score")
    found: dict[tuple[str, int], list[Step]] = {}
    columns = steps.reindex(columns=["session_id", "turn", "name", "status", "arguments", "result"])
    for session, turn, name, status, *said in columns.astype(object).where(columns.notna(), None).to_numpy():
        found.setdefault((session, turn), []).append(step_of(name or "", status == "failed", *said))
    return found


def _ids(table: pd.DataFrame) -> pd.Series:
    """What names a turn: its question, else its reply."""
    return table["message_id"].fillna(table["reply_id"])


def _sample(table: pd.DataFrame, size: int, by: Any, seed: int) -> pd.DataFrame:
    """So many of the answered turns, in their order."""
    groups = groups_of(by, caller="score", frame=table)
    answered = np.flatnonzero(((table["status"] == "answered") & table["reply"].notna()).to_numpy(bool))
    random = np.random.default_rng(seed)
    shuffled = random.permutation(answered)
    if groups and len(answered):
        # By place within the group, in shares; the first of each group comes first.
        part = table.iloc[shuffled]
        grouped = part.groupby(groups, observed=True, dropna=False, sort=False)
        place, count = grouped.cumcount().to_numpy(), grouped[groups[0]].transform("size").to_numpy()
        shuffled = shuffled[np.argsort(np.where(place == 0, 0.0, (place + 0.5) / count), kind="stable")]
    chosen = table.iloc[np.sort(shuffled[:size])]
    chosen.attrs = table.attrs
    return chosen


def _last(table: pd.DataFrame) -> pd.DataFrame:
    """The last answered turn of each session, in the order of the sessions."""
    answered = table[(table["status"] == "answered") & table["reply"].notna()].sort_values("turn", kind="stable")
    return answered.drop_duplicates("session_id", keep="last").sort_index()


def _talks(
    table: pd.DataFrame, replies: Sequence[Reply | None], steps: Mapping[tuple[str, int], list[Step]] | None
) -> Iterator[tuple[dict[str, Any], Reply | None]]:
    """Each session with its last reply and all turns, in the order of the first."""
    texts = table.reindex(columns=["prompt", "status", "failure_message"]).astype(object)
    texts = texts.where(texts.notna(), None)
    sessions: dict[str, list[tuple[int, Reply | None, Reply]]] = {}
    keys = zip(table["session_id"], table["turn"], texts.itertuples(index=False), replies, strict=True)
    for session, turn, (prompt, status, failure), reply in keys:
        said = reply or Reply(f"(no reply: {failure or status})", prompt=prompt or "", failed=status == "failed")
        sessions.setdefault(str(session), []).append((int(turn), reply, said))
    for session, turns_ in sessions.items():
        turns_.sort(key=lambda turn: turn[0])
        answered = [reply for _, reply, _ in turns_ if reply is not None]
        if not answered:
            yield {"session_id": session, "turns": len(turns_), "turns_read": 0}, None
            continue
        costs = [each.cost for each in answered]
        all_said = [said for *_, said in turns_]
        ran = None if steps is None else [step for turn, *_ in turns_ for step in steps.get((session, turn), [])]
        cost = None if None in costs else sum(filter(None, costs))
        whole = replace(answered[-1], turns=all_said, before=(), latency_s=None, cost=cost, steps=ran)
        yield {"session_id": session, "turns": len(turns_), "turns_read": len(readable(all_said))}, whole


def _before(table: pd.DataFrame) -> dict[tuple[str, int], list[Reply]]:
    """The turns before each turn, by session and turn."""
    texts = table[["session_id", "turn", "prompt", "reply"]].astype(object).where(table.notna(), None)
    sessions: dict[str, list[Reply]] = {}
    before: dict[tuple[str, int], list[Reply]] = {}
    for session, turn, prompt, reply in texts.sort_values("turn", kind="stable").itertuples(index=False):
        earlier = sessions.setdefault(session, [])
        before[session, turn] = earlier[-BEFORE:]
        earlier.append(Reply(reply or "", prompt=prompt or ""))
    return before


def _replies(
    table: pd.DataFrame,
    steps: Mapping[tuple[str, int], list[Step]] | None,
    before: Mapping[tuple[str, int], list[Reply]] = MappingProxyType({}),
) -> Iterator[Reply | None]:
    """What each turn replied; None without a reply."""
    for row in table.astype(object).where(table.notna(), None).to_dict("records"):
        if row["status"] != "answered" or row["reply"] is None:
            yield None
            continue
        values = {str(name): value for name, value in row.items() if value is not None and name != "reply"}
        key = row["session_id"], row["turn"]
        yield Reply(
            row["reply"], row["latency_s"], row.get("cost"), row["prompt"] or "", {"input": row["prompt"] or "", **values},
            row["prompt"] or "", None if steps is None else steps.get(key, []), session_id=row["session_id"],
            before=before.get(key, ()),
        )  # fmt: skip


class _Record:
    """What judges said, in a file that grows by a line each; in memory without one."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path).resolve()  # it may be a link: a person named it
        self._lock = threading.Lock()
        self.judgements: dict[str, str] = {}
        if self._path is None or not self._path.exists():
            return
        for entry in entries(self._path):
            with contextlib.suppress(TypeError, LookupError):
                self.judgements[entry["judgement"]] = entry["text"]
        if self._path.stat().st_size and not self.judgements:
            raise ValueError(f"{self._path} is no record of score, and was left as it is: name another file.")

    def keep(self, key: str, text: str) -> None:
        """Remember a judgement, and write it down."""
        with self._lock:
            self.judgements[key] = text
            if self._path is None:
                return
            append(self._path, json.dumps({"judgement": key, "text": text}).encode() + b"\n")


def _rows(
    places: Iterable[dict[str, Any]],
    missing: Iterable[str],
    checks: Iterable[str],
    grades: Iterable[Mapping[str, Grade]],
) -> Iterator[dict[str, Any]]:
    """A row per place and check; without a grade, with the reason why there is none."""
    for place, reason_of_none, found in zip(places, missing, grades, strict=True):
        for name in checks:
            grade = found.get(name, Grade(None, reason=reason_of_none))
            reason = grade.reason if grade.error is None else grade.error
            values = {"passed": grade.passed, "score": grade.score, "reason": reason, "judge": grade.judge}
            yield {**place, "check": name, **values}
