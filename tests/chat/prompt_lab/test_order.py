"""The order of asking: interleaved, so that what changes with time is no difference
between variants.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import agentbook as ab
from agentbook.cli import main
from agentbook.evaluation import asking
from service.process import Service

from .lab_platform import LabPlatform

INPUTS = [f"question {n}" for n in range(40)]


@pytest.fixture
def slowing(monkeypatch: pytest.MonkeyPatch) -> LabPlatform:
    """A platform with drafts that takes longer with every question, by a fake clock."""
    now, asked = 0.0, 20

    def reply(settings: Any, text: str) -> str:
        nonlocal now, asked
        asked += 1
        now += asked / 100
        return "Hello."

    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: now))
    platform = LabPlatform(reply)
    platform.offered = ("type", "agent_version_id")
    platform.add_agent("acme~other", system_prompt="Be old.")
    return platform


def make_lab(platform: LabPlatform, *agents: str) -> ab.PromptLab:
    lab = ab.PromptLab(platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("other", agent="acme~other")
    return lab


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_platform_that_gets_slower_makes_no_variant_slower(slowing: LabPlatform, concurrency: int) -> None:
    lab = make_lab(slowing)
    frame = lab.run(INPUTS, concurrency=concurrency, progress=False)
    in_time = frame.sort_values("latency_s")["latency_s"]
    assert in_time.iloc[0] > 0.2, "the clock of the test counts"
    assert in_time.iloc[-1] > 4 * in_time.iloc[0], "the platform did get slower"
    verdicts = lab.compare_variants("now").query("metric == 'latency_s'")
    assert verdicts["verdict"].tolist() == ["open", "open"]


def asked(platform: LabPlatform) -> list[tuple[str, str]]:
    return [(platform.find(call[1]), call[2]) for call in platform.calls if call[0] == "start"]


def test_each_input_is_asked_of_all_variants_before_the_next(slowing: LabPlatform) -> None:
    lab = make_lab(slowing)
    lab.run(INPUTS, repeats=2, concurrency=1, progress=False)
    frame = lab.results.sort_values("asked_at")
    rounds = [frame.iloc[start : start + 3] for start in range(0, len(frame), 3)]
    assert all(each["variant"].nunique() == 3 and each["input"].nunique() == 1 for each in rounds)
    assert len({tuple(each["variant"]) for each in rounds}) > 2, "the order within a round is random"


def test_a_run_that_continues_keeps_the_order(slowing: LabPlatform) -> None:
    make_lab(slowing).run(INPUTS, concurrency=1, progress=False)
    whole = asked(slowing)
    slowing.calls.clear()
    slowing.usage = {"usage": {"input_tokens": 0, "output_tokens": 100, "total_tokens": 100, "model": "small"}}
    lab = make_lab(slowing)
    with pytest.warns(UserWarning, match="max_cost"):
        lab.run(INPUTS, concurrency=1, max_cost=31.5, prices={"small": (0, 10_000)}, progress=False)
    assert len(asked(slowing)) == 31
    lab.run(concurrency=1, progress=False)
    assert asked(slowing) == whole


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Service(tmp_path_factory.mktemp("order"), "--speed", "0") as running:
        yield running


def test_a_lab_file_is_asked_input_by_input(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key("agents:write", "sessions:write", "workspaces:read"))
    variants = {"one": {"system_prompt": "One."}, "two": {"system_prompt": "Two."}, "now": {}}
    file = tmp_path / "lab.json"
    file.write_text(json.dumps({"variants": variants, "inputs": [f"What is {n}?" for n in range(8)]}))
    where = ["--agent", "acme~scribe", "--workspace", "acme~playground", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(
        main, ["eval", str(file), *where, "--repeats", "2", "--concurrency", "1", "--no-progress"]
    )
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    rows.sort(key=lambda row: row["session_id"])  # ids grow with time
    rounds = [rows[start : start + 3] for start in range(0, len(rows), 3)]
    asked = [{(row["input"], row["repeat"]) for row in each} for each in rounds]
    assert asked == [{(f"What is {n}?", repeat)} for n in range(8) for repeat in (1, 2)]
    assert len({tuple(row["variant"] for row in each) for each in rounds}) > 2
