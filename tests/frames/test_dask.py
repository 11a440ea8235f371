"""Dask: results as with pandas, whole sessions per partition, and no secret sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames import dask as frames_dask
from agentbook.frames.dask import without_categories
from agentbook.frames.store.store import Store
from benchmarks.wire import Platform
from frames.analyses import AS_OF, OPTIONS
from support.fake_platform.core import START_MS, event_id
from support.fake_platform.over_http import HttpPlatform
from support.s3 import bucket as bucket

pytestmark = pytest.mark.skipif(
    not (find_spec("dask") and find_spec("distributed")), reason="Dask is not installed: pip install 'agentbook[dask]'"
)

SECRET = "s3cret-that-must-not-travel"
MIDDLE = datetime.fromtimestamp(START_MS / 1000 + 400, UTC)

BY_SESSION: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: OPTIONS[name] for name in ("turns", "session_summary", "timing: gaps", "timing: idle")},
    "activity": (ab.activity, {"freq": "1min", "by": "session_id", "fill": False}),
    "latency": (ab.latency, {"by": "session_id"}),
    "compare_periods": (ab.compare_periods, {"as_of": MIDDLE, "period": "5min", "by": "session_id"}),
}


SESSIONS = {f"s{n}": [event_id(40_000 * k + n, 10 * n + k) for k in range(2 * n)] for n in range(9)}


@pytest.fixture
def platform() -> HttpPlatform:
    return HttpPlatform(SESSIONS)


@pytest.fixture(scope="module")
def events() -> Any:
    """Events in three partitions, loaded once."""
    return ab.dask.load_events(HttpPlatform(SESSIONS).client(), list(SESSIONS), partitions=3).persist()


def same(actual: pd.DataFrame, expected: pd.DataFrame, **options: bool) -> None:
    actual.attrs, expected.attrs = {}, {}
    expected = expected if options else without_categories(expected)
    pd.testing.assert_frame_equal(actual.reset_index(drop=True), expected.reset_index(drop=True), **options)


@pytest.mark.parametrize("partitions", [None, 1, 4, 50])
def test_a_dask_frame_is_the_pandas_frame(platform: HttpPlatform, partitions: int | None) -> None:
    client, sessions = platform.client(), list(platform.sessions)
    events = ab.dask.load_events(client, sessions, partitions=partitions)
    parts = [events.get_partition(n).compute() for n in range(events.npartitions)]
    names = [set(part["session_id"]) for part in parts]
    assert sum(map(len, names)) == len(set().union(*names)), "a session is in one partition"
    same(events.compute(), ab.load_events(client, sessions))


@pytest.mark.parametrize("name", OPTIONS)
def test_every_analysis_runs_by_partition_with_its_meta(events: Any, name: str) -> None:
    analysis, options = OPTIONS[name]
    expected = pd.concat([analysis(events.get_partition(n).compute(), **options) for n in range(3)])
    kinds = expected.dtypes.map(str).to_dict()
    unchanged = events.map_partitions(analysis, meta=ab.dask.meta_of(analysis, **options), **options)
    assert unchanged.dtypes.map(str).to_dict() == kinds
    computed = unchanged.compute()
    assert computed.dtypes.map(str).to_dict() == kinds
    same(computed, expected, check_categorical=False)
    applied = ab.dask.apply(events, analysis, **options)
    assert applied.dtypes.map(str).to_dict() == without_categories(expected).dtypes.map(str).to_dict()
    same(applied.compute(), without_categories(expected))


@pytest.mark.parametrize("name", BY_SESSION)
def test_what_is_counted_by_session_is_the_same_as_in_pandas(events: Any, name: str) -> None:
    analysis, options = BY_SESSION[name]
    applied = ab.dask.apply(events, analysis, **options).compute()
    expected = without_categories(analysis(events.compute(), **options))
    assert len(expected)
    # The correction for many comparisons counts those of a frame: of a partition here.
    applied, expected = (frame.drop(columns="p_holm", errors="ignore") for frame in (applied, expected))
    order = [column for column in ("session_id", "turn", "period", "metric") if column in expected]
    same(applied.sort_values(order), expected.sort_values(order, ignore_index=True))


def test_a_store_is_a_dask_frame_of_whole_sessions(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert len(store.to_dask().compute()) == 0
    store.sync(platform.client(), list(platform.sessions))
    events = store.to_dask()
    parts = [set(events.get_partition(n).compute()["session_id"]) for n in range(events.npartitions)]
    assert len(parts) > 3
    assert sum(map(len, parts)) == len(set().union(*parts)), "a session is in one partition"
    computed = ab.dask.apply(events, ab.turns, as_of=AS_OF).compute()
    expected = store.turns(as_of=AS_OF)
    keys = ["session_id", "turn"]
    same(computed.sort_values(keys), expected.sort_values(keys, ignore_index=True))


def test_a_key_is_no_reference_and_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="reference") as raised:
        ab.dask.load_events(HttpPlatform({}).client(), ["s"], credentials=f"id:{SECRET}")
    assert SECRET not in str(raised.value)


def test_a_worker_without_the_key_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AGENTBOOK_API_KEY", raising=False)
    for reference, message in (("env:AGENTBOOK_API_KEY", "AGENTBOOK_API_KEY"), (f"file:{tmp_path}/none", "none")):
        with pytest.raises(RuntimeError, match=message):
            frames_dask.connection_of("http://w/v1", "key:id", reference, (1.0, 1.0))
    (tmp_path / "key").write_text(f"other:{SECRET}\n")
    with pytest.raises(ValueError, match="another identity") as raised:
        frames_dask.connection_of("http://w/v1", "key:id", f"file:{tmp_path}/key", (1.0, 1.0))
    assert SECRET not in str(raised.value)
    (tmp_path / "key").write_text(f"id:{SECRET}\n")
    made = frames_dask.connection_of("http://w/v1", "key:id", f"file:{tmp_path}/key", (1.0, 1.0))
    assert made is frames_dask.connection_of("http://w/v1", "key:id", f"file:{tmp_path}/key", (1.0, 1.0))


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(ImportError, match=r"pip install 'dask\["):
        ab.dask.load_events(HttpPlatform({}).client(), ["s"])


# A cluster in an interpreter of its own: its threads, sockets and warnings are Dask's,
# not those under test here.
CLUSTER = """
import os, sys
import cloudpickle, pandas as pd
import agentbook as ab
from agentbook.frames.dask import without_categories

def main():
    from dask.distributed import Client as Cluster, LocalCluster
    base_url, sessions, store = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
    client = ab.Client(base_url, credentials=os.environ["AGENTBOOK_API_KEY"])
    secret = os.environ["AGENTBOOK_API_KEY"].split(":")[1].encode()
    events = ab.dask.load_events(client, sessions, partitions=2)
    applied = ab.dask.apply(events, ab.turns, as_of="2030-01-01")
    for one in (events, applied):
        for graph in (one.dask, one.expr, one.optimize().dask):
            assert secret not in cloudpickle.dumps(graph), "the secret is in the task graph"
    ab.Store(store).sync(client, sessions)
    local = ab.load_events(client, sessions)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1",
                      worker_dashboard_address=None) as cluster, Cluster(cluster) as connected:
        [pid] = connected.run(os.getpid).values()
        assert pid != os.getpid()
        pd.testing.assert_frame_equal(events.compute().reset_index(drop=True), without_categories(local))
        keys, whole = ["session_id", "turn"], without_categories(ab.turns(local, as_of="2030-01-01"))
        parted = applied.compute().sort_values(keys, ignore_index=True)
        pd.testing.assert_frame_equal(parted, whole.sort_values(keys, ignore_index=True))
        stored = ab.Store(store).to_dask().compute()
        assert sorted(stored["id"]) == sorted(local["id"])
    print("equal", len(local))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def served() -> Iterator[Platform]:
    with Platform(4, 300, 0) as platform:
        yield platform


def test_another_process_gives_the_same_and_the_key_does_not_travel(
    bucket: str, served: Platform, tmp_path: Path
) -> None:
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, str(script), served.base_url, ",".join(served.sessions), f"{bucket}/store"],
        env={**os.environ, "AGENTBOOK_API_KEY": f"id:{SECRET}"}, capture_output=True, text=True, timeout=280, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal 1200")
    assert SECRET not in done.stdout + done.stderr
