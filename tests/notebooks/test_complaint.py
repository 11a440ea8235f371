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

NAMES = ("07-from-a-complaint-to-failure-modes", "08-from-a-failure-mode-to-a-proof")
EVERY = [(day, hour) for day in range(7) for hour in HOURS]
MOMENTS = EVERY if os.environ.get("NOTEBOOKS_HOURS") == "all" else [(1, 20), (6, 0.5)]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=MOMENTS, ids=lambda at: f"{DAYS[at[0]]}-{at[1]}")
def platform(request: pytest.FixtureRequest) -> Any:
    day, hour = request.param
    with ab.platform(now=(MONDAY + timedelta(days=day, hours=hour)).isoformat()) as platform:
        yield platform


def executed(name: str, client: ab.Client, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a notebook after its cells, solutions and all, have run."""
    connected = ModuleType("agentbook")
    connected.__dict__.update(connect=lambda: client, __getattr__=lambda name: getattr(ab, name))
    monkeypatch.setitem(sys.modules, "agentbook", connected)
    cells = [cell for cell in nbformat.read(FOLDER / f"{name}.ipynb", 4).cells if cell.cell_type == "code"]
    checks = [cell for cell in cells if "check" in cell.metadata.get("tags", ())]
    names: dict[str, Any] = {}
    for cell in [*cells, *checks]:
        exec(compile(cell.source, cell.id, "exec"), names)
    return names


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the exercises said: first without an answer, then with the solution's."""
    return re.findall(r"Exercise \d: (\w+)", capsys.readouterr().out)


@pytest.mark.filterwarnings("ignore")
def test_a_complaint_becomes_failure_modes(
    platform: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = executed(NAMES[0], platform.client, monkeypatch)
    assert told(capsys) == ["not"] * 3 + ["yes"] * 3
    assert (said["history"].turns["status"] == "answered").mean() > 0.95
    assert said["todo"]["weight"].sum() == pytest.approx(len(said["history"].turns), rel=0.2)
    rates = said["rates"].set_index("mode")
    assert set(rates.index) == {"cannot be checked", "reads it again", "no reply"}
    assert rates["share"].idxmax() == "cannot be checked"
    assert rates.loc["cannot be checked", "low"] > 0.06
    assert rates.loc["no reply", "notes"] / len(said["todo"]) > 2 * rates.loc["no reply", "share"]
    loops = said["loops"]
    assert (set(loops["agent"]), set(loops["name"])) == ({"contract-reader"}, {"read_clauses"})
    assert (loops["calls"] == 5).all()
    assert said["paths"]["path"].str.contains("read_clauses ×5").any()
    assert "read_clauses is followed by read_clauses" in said["chart"].text


@pytest.mark.filterwarnings("ignore")
def test_a_failure_mode_becomes_a_proof(
    platform: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = executed(NAMES[1], platform.client, monkeypatch)
    assert told(capsys) == ["not"] * 2 + ["yes"] * 2
    assert 0.4 < said["agreed"]["alpha"].iloc[0] < 0.95
    assert said["disputed"]["prompt"].str.contains("one sentence|Write that down").all()
    assert list(said["modes"]) == ["cannot be checked"]
    assert said["scores"]["passed"].notna().all()
    assert said["dev"].specificity == said["test"].specificity == 1
    assert not said["dev"].warning + said["test"].warning
    thanks = said["history"].turns.set_index("message_id").loc[said["failed"], "prompt"]
    assert len(thanks) > 0
    assert thanks.str.contains("thank", case=False).all()
    compared = said["compared"].set_index("metric")
    assert compared["verdict"].to_dict() == {"own check": "better", "short": "open"}
    assert compared.loc["own check", ["before", "after"]].to_list() == [0, 1]
    live = said["live"].iloc[0]
    assert live["a"] < live["b"] == 1
