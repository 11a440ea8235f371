"""Small pages wait for each other, and are parsed together."""

from __future__ import annotations

from agentbook.api.endpoints.sessions import events
from agentbook.api.page import Page
from agentbook.frames.load.arrivals import Arrival, Fetched, PageRequest, SmallPages
from agentbook.frames.load.id_ranges import ListLoad
from agentbook.frames.parse.frame import FrameBuilder


def arrival(session: str) -> Arrival:
    load = ListLoad(session, events(session))
    page = Page.parse(b'{"items":[],"pagination":{"total_count":0,"has_more":false}}')
    return Arrival(load.open(), Fetched(PageRequest(load.list_call.call, load), page, 0.0, 0.0), page)


def test_pages_that_arrive_one_by_one_are_parsed_in_ever_larger_groups() -> None:
    """The cost of the first decides how many requests to make: it is parsed alone."""
    small, groups = SmallPages(), []
    for number in range(15):
        assert small.add(arrival(f"s{number}"))
        assert not small.are_enough(2), "with more in flight, they wait for more bytes"
        if small.are_enough(1):
            groups.append(len(small.parse(FrameBuilder("events"))))
    assert groups == [1, 2, 4, 8]
