"""Groups the items of turns into tasks and tool runs, and nests these."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .step_items import StepItems
from .turns import Flags, Integers

NONE = -1


@dataclass(slots=True)
class StepGroups:
    """The steps of all turns.

    Attributes
    ----------
    member : ndarray of int64
        The step of each item; -1 for none.
    first, end : ndarray of int64
        The first item of each step, and the one that ends it; -1 for none.
    is_tool : ndarray of bool
        Whether each step is a tool run.
    parent, depth : ndarray of int64
        The step that contains each step (-1 for none), and the number of steps that do.
    """

    member: Integers
    first: Integers
    end: Integers
    is_tool: Flags
    parent: Integers
    depth: Integers


def group_items(items: StepItems, event_ids: Any) -> StepGroups:
    """Group the items into steps; `event_ids` are those of the items' events."""
    leader = _leaders(items)
    # Each subtask is a step. If it holds a single tool run, it is that tool run.
    inside = np.flatnonzero(items.of_subtask)
    _, first, inverse = np.unique(_key(items.turn, items.task)[inside], return_index=True, return_inverse=True)
    task_first = inside[first]
    task_of = np.full(len(items.row), NONE, np.int64)
    task_of[inside] = inverse
    leaders = np.unique(leader[leader >= 0])
    runs = np.bincount(task_of[leaders][task_of[leaders] >= 0], minlength=len(task_first))
    says_task = np.zeros(len(task_first), np.bool_)
    says_task[task_of[items.is_task & items.of_subtask]] = True
    is_single = (runs == 1) & ~says_task
    merged = leaders[(task_of[leaders] >= 0) & np.append(is_single, False)[task_of[leaders]]]
    leaders = np.setdiff1d(leaders, merged, assume_unique=True)
    in_merged = np.isin(leader, merged)
    member = np.where(items.of_subtask, len(leaders) + task_of, NONE)
    of_run = (leader >= 0) & ~in_merged
    member[of_run] = np.searchsorted(leaders, leader[of_run])
    member[in_merged] = len(leaders) + task_of[leader[in_merged]]
    first = np.concatenate((leaders, task_first))
    end = np.full(len(first), NONE, np.int64)
    ending = np.flatnonzero((member >= 0) & items.ends)
    end[member[ending]] = ending  # items ascend, so the last one wins
    is_tool = np.concatenate((items.of_tool[leaders], is_single))
    holder = np.concatenate(
        (np.where(task_of[leaders] >= 0, len(leaders) + task_of[leaders], NONE), np.full(len(task_first), NONE))
    )
    parent = _explicit_parents(items, member, len(first), event_ids)
    parent, depth = _nest(np.where(parent >= 0, parent, holder))
    return StepGroups(member, first, end, is_tool, parent, depth)


def _leaders(items: StepItems) -> Integers:
    """The first item of the tool run of each item; -1 outside tool runs."""
    leader = np.full(len(items.row), NONE, np.int64)
    with_id = np.flatnonzero(items.of_tool & (items.call >= 0))
    _, first, inverse = np.unique(_key(items.turn, items.call)[with_id], return_index=True, return_inverse=True)
    leader[with_id] = with_id[first][inverse]
    others = np.flatnonzero(items.of_tool & (items.call < 0))
    leader[others] = others
    # Items of the turn's own task and items without a task share one bucket.
    bucket = _key(items.turn, np.where(items.of_subtask, items.task, NONE))
    calls, results = others[~items.ends[others]], others[items.ends[others]]
    calls, _ = _pair(leader, calls, results, _key(_numbers(bucket), items.name))
    nameless = results[(items.name[results] < 0) & (leader[results] == results)]
    calls, _ = _pair(leader, calls, nameless, bucket)
    ended = np.zeros(len(leader), np.bool_)
    ended[leader[(leader >= 0) & items.ends]] = True
    calls = np.unique(np.concatenate((calls, leader[with_id])))
    dones = np.flatnonzero(items.done & ~items.of_subtask & (leader < 0))
    leader[dones] = dones
    _pair(leader, calls[~ended[calls] & ~items.of_subtask[calls]], dones, bucket)
    return leader


def _pair(leader: Integers, calls: Integers, ends: Integers, key: Integers) -> tuple[Integers, Integers]:
    """Pair calls with what ends them, first come, first served; returns the rest.

    `calls` and `ends` ascend.
    """
    waiting: defaultdict[int, deque[int]] = defaultdict(deque)
    asking = iter([*zip(calls.tolist(), key[calls].tolist(), strict=True), (len(key), 0)])
    call, group = next(asking)
    rest = []
    for end, wanted in zip(ends.tolist(), key[ends].tolist(), strict=True):
        while call < end:
            waiting[group].append(call)
            call, group = next(asking)
        if waiting[wanted]:
            leader[end] = waiting[wanted].popleft()
        else:
            rest.append(end)
    left = [*chain.from_iterable(waiting.values()), *calls[calls >= call].tolist()]
    return np.sort(np.array(left, np.int64)), np.array(rest, np.int64)


def _key(group: Integers, code: Integers) -> Integers:
    """One number for a group and a code from -1 on."""
    return group * (int(code.max(initial=-1)) + 2) + code + 1


def _numbers(key: Integers) -> Integers:
    """Small numbers for the distinct keys."""
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _explicit_parents(items: StepItems, member: Integers, count: int, event_ids: Any) -> Integers:
    """The step that each step names as its parent; -1 for none.

    A parent is named by its task, the id of its call, or the id of an event.
    """
    parent = np.full(count, NONE, np.int64)
    naming = np.flatnonzero((member >= 0) & pc.is_valid(items.texts["parent"]).to_numpy(zero_copy_only=False))
    if not len(naming):
        return parent
    known = np.flatnonzero(member >= 0)
    by_name: dict[tuple[int, str], int] = {}
    by_task = known[items.of_subtask[known]]
    for column, rows in ((items.texts["task"], by_task), (items.texts["call"], known), (event_ids, known)):
        for item, name in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
            by_name.setdefault((items.turn[item], name), member[item])
    for item, name in zip(naming.tolist(), items.texts["parent"].take(pa.array(naming)).to_pylist(), strict=True):
        holder, own = by_name.get((items.turn[item], name), NONE), member[item]
        if holder != own and parent[own] == NONE:
            parent[own] = holder
    return parent


def _nest(parent: Integers) -> tuple[Integers, Integers]:
    """Parents without cycles, and depths."""
    ancestor, depth = parent.copy(), (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length() + 1):
        below = np.flatnonzero(ancestor >= 0)
        if not len(below):
            return parent, depth
        depth[below] += depth[ancestor[below]]
        ancestor[below] = ancestor[ancestor[below]]
    # Any step that still has an ancestor is in a cycle, or below one.
    parent = np.where(ancestor >= 0, NONE, parent)
    return _nest(parent)
