"""From the complaint to the proof: both tutorials run on any day, and say what is so.

``NOTEBOOKS_HOURS=all`` runs them at four hours of all seven weekdays.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import nbformat
import pytest

import agentbook as ab
from notebooks.execute import FOLDER
from notebooks.test_facts import DAYS, HOURS, MONDAY

MOMENTS = [(day, hour) for day in range(7) for hour in HOURS]
MOMENTS = MOMENTS if os.environ.get("NOTEBOOKS_HOURS") == "all" else [(1, 20), (6, 0.5)]

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(params=MOMENTS, ids=lambda at: f"{DAYS[at[0]]}-{at[1]}")
def platform(request: pytest.FixtureRequest) -> Any:
    day, hour = request.param
    with ab.platform(now=(MONDAY + timedelta(days=day, hours=hour)).isoformat()) as platform:
        yield platform


@pytest.fixture
def said(request: pytest.FixtureRequest, platform: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> dict[str, Any]:
    """A notebook's names after its cells; exercises say yes after the solutions."""
    connected = ModuleType("agentbook")
    connected.__dict__.update(connect=lambda: platform.client, __getattr__=lambda name: getattr(ab, name))
    monkeypatch.setitem(sys.modules, "agentbook", connected)
    cells = [cell for cell in nbformat.read(FOLDER / request.param, 4).cells if cell.cell_type == "code"]
    checks = [cell for cell in cells if "check" in cell.metadata.get("tags", ())]
    names: dict[str, Any] = {}
    for cell in [*cells, *checks]:
        exec(compile(cell.source, cell.id, "exec"), names)
    told = re.findall(r"Exercise \d: (\w+)", capsys.readouterr().out)
    assert told == ["not"] * len(checks) + ["yes"] * len(checks)
    return names


@pytest.mark.parametrize("said", ["07-from-a-complaint-to-failure-modes.ipynb"], indirect=True, ids=["07"])
def test_a_complaint_becomes_failure_modes(said: dict[str, Any]) -> None:
    turns, rates = said["history"].turns, said["rates"].set_index("mode")
    assert (turns["status"] == "answered").mean() > 0.95
    assert said["todo"]["weight"].sum() == pytest.approx(len(turns), rel=0.2)
    assert set(rates.index) == {"cannot be checked", "reads it again", "no reply"}
    assert rates["share"].idxmax() == "cannot be checked"
    assert rates.loc["cannot be checked", "low"] > 0.06
    assert rates.loc["no reply", "notes"] / len(said["todo"]) > 2 * rates.loc["no reply", "share"]
    assert (said["loops"]["calls"] == 5).all()
    assert said["paths"]["path"].str.contains("read_clauses ×5").any()
    others, in_loop = said["waits"]["median"]
    wasted = said["loops"]["wasted_s"].sum() / said["waits"].loc[True, "size"]
    assert 1.7 < in_loop / others < 2.4
    assert 0.5 < wasted / (in_loop - others) < 1
    assert "read_clauses is followed by read_clauses" in said["chart"].text


@pytest.mark.parametrize("said", ["08-from-a-failure-mode-to-a-proof.ipynb"], indirect=True, ids=["08"])
def test_a_failure_mode_becomes_a_proof(said: dict[str, Any]) -> None:
    assert 0.4 < said["agreed"]["alpha"].iloc[0] < 0.95
    assert said["disputed"]["prompt"].str.contains("one sentence|Write that down").all()
    assert list(said["modes"]) == ["cannot be checked"]
    assert said["scores"]["passed"].notna().all()
    assert said["dev"].specificity == said["test"].specificity == 1
    assert not said["dev"].warning + said["test"].warning
    thanks = said["history"].turns.set_index("message_id").loc[said["failed"], "prompt"]
    assert thanks.str.contains("thank", case=False).to_list() == [True] * max(len(thanks), 1)
    compared = said["compared"].set_index("metric")
    assert compared["verdict"].to_dict() == {"own check": "better", "short": "open"}
    assert compared.loc["own check", ["before", "after"]].to_list() == [0, 1]
    assert said["live"]["a"].iloc[0] < said["live"]["b"].iloc[0] == 1
