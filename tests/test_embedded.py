"""`platform`: a platform for tests.

How `connect` starts the embedded service is in `test_connect`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import agentbook as ab
from agentbook.embedded import Platform, children, platform
from agentbook.service import discovery_file


@pytest.fixture(scope="module")
def shared() -> Iterator[Platform]:
    with platform() as started:
        yield started


def pid(started: Platform) -> int:
    return discovery_file.read(started._data).pid


def test_it_is_a_platform_of_its_own_with_demo_data_and_a_key(shared: Platform) -> None:
    assert shared.client.me.get().name == "acme"
    with ab.connect(shared.base_url, api_key=shared.api_key) as other:
        assert len(other.workspaces.list("acme").to_pandas()) == 7
    secret = shared.api_key.partition(":")[2]
    assert secret not in f"{shared!r} {vars(shared)}"
    # The service ends by itself once no user is alive: this process is one.
    assert discovery_file.is_used(shared._data)
    assert "--until-unused" in children[-1].args  # type: ignore[operator]


def test_a_reset_after_reads_keeps_the_service_and_removes_faults(shared: Platform) -> None:
    running = pid(shared)
    shared.client.me.get()
    shared.fail({"row": "forbidden", "times": 9})
    with pytest.raises(ab.Forbidden):
        shared.client.me.get()
    shared.reset()
    assert shared.client.me.get().name == "acme"
    assert pid(shared) == running


def test_an_unknown_fault_is_refused_by_name(shared: Platform) -> None:
    with pytest.raises(ValueError, match=r"no fault 'nonsense'.*not_ready"):
        shared.fail("nonsense")


def test_a_reset_undoes_what_was_written_and_keeps_address_and_key(shared: Platform) -> None:
    before = (shared.base_url, shared.api_key)
    first = shared.client.workspaces.create("new").id
    shared.reset()
    assert (shared.base_url, shared.api_key) == before
    assert "new" not in set(shared.client.workspaces.list("acme").to_pandas()["name"])
    assert shared.client.workspaces.create("new").id == first  # the seed begins again


def test_nothing_stays_behind_after_an_error() -> None:
    with pytest.raises(ab.Forbidden), platform(bare=True, now="2026-11-01", faults=["forbidden"]) as started:  # noqa: PT012
        ended, directory = pid(started), started._data.parent
        started.client.me.get()
    assert not discovery_file.is_alive(ended)
    assert not directory.exists()
    with pytest.raises(ValueError, match="now must be a time"), platform(now="soon"):
        pass
