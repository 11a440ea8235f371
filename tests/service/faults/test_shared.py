"""Faults of several processes: each is met as often as it says, by any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from agentbook.service.faults import Switch
from agentbook.service.faults.catalogue import CATALOGUE
from agentbook.service.faults.switch import FaultRequest, Match
from service.databases import open_store

pytestmark = pytest.mark.anyio

REQUEST = {"type": "http", "method": "GET", "path": "/v1/me"}


@pytest.fixture
def switches(tmp_path: Path) -> Iterator[list[Switch]]:
    with ExitStack() as stack:
        yield [Switch("token", stack.enter_context(closing(open_store(tmp_path)))) for _ in range(3)]


async def test_a_fault_is_met_by_whichever_process_gets_the_request(switches: list[Switch]) -> None:
    await switches[0].add(FaultRequest(row="not_found"))
    assert await switches[1].for_request(REQUEST) == [CATALOGUE["not_found"].action]
    for switch in switches:
        assert await switch.for_request(REQUEST) == []
        assert await switch.all() == []


async def test_requests_at_the_same_time_meet_it_as_often_as_it_says(switches: list[Switch]) -> None:
    await switches[0].add(FaultRequest(row="not_found", times=7))
    answers = await asyncio.gather(*(switches[number % 3].for_request(REQUEST) for number in range(20)))
    assert sum(bool(answer) for answer in answers) == 7


async def test_one_turn_of_all_fails(switches: list[Switch]) -> None:
    await switches[0].add(FaultRequest(row="llm_calls", match=Match(agent="help*")))
    ends = await asyncio.gather(*(switch.for_turn("helper") for switch in switches for _ in range(3)))
    assert sum(end is not None for end in ends) == 1


async def test_one_process_removes_them_for_all(switches: list[Switch]) -> None:
    first = await switches[0].add(FaultRequest(row="not_found", times=None))
    second = await switches[1].add(FaultRequest(row="server_error", times=None))
    assert [fault.id for fault in await switches[2].all()] == [first.id, second.id]
    assert await switches[2].remove(first.id)
    assert not await switches[1].remove(first.id)
    await switches[0].clear()
    third = await switches[1].add(FaultRequest(row="not_found"))
    assert [fault.id for fault in await switches[2].all()] == [third.id]
    assert third.id not in (first.id, second.id)
