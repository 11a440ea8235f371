"""Groups of a chart: colours that can be told apart, "other", and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agentbook.frames import plot
from agentbook.frames.plot.style import COLOURS, INK

# What people with one kind of cone see of linear RGB (Machado et al., 2009).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def turns_of(sizes: list[int], **columns: Any) -> pd.DataFrame:
    """Answered turns of agents a, b, ... in these numbers."""
    agents = [agent for n, size in enumerate(sizes) for agent in [f"agent {n:02d}"] * size]
    count = len(agents)
    table = {"session_id": [f"s{n}" for n in range(count)], "turn": 1, "status": "answered", "failure": None,
             "latency_s": np.arange(count) + 1.0, "prompt_chars": np.arange(count) + 1, "agent": agents,
             "failure_message": None, "replied_at": pd.NaT, "author_type": "user", "author_id": "u1",
             "asked_at": pd.date_range("2026-10-01", periods=count, freq="h", tz="UTC")}  # fmt: skip
    return pd.DataFrame({**table, **columns})


def legend_of(drawing: Any) -> dict[str, tuple[str, str]]:
    """Group -> its colour and shape."""
    colours: dict[str, str] = {}
    shapes: dict[str, str] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            for channel, names in (("color", colours), ("shape", shapes)):
                scale = node.get(channel, {}).get("scale") if isinstance(node.get(channel), dict) else None
                if scale:
                    names.update(zip(scale["domain"], scale["range"], strict=True))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk({key: value for key, value in drawing.chart.to_dict().items() if key != "datasets"})
    return {name: (colours[name], shapes[name]) for name in colours}


def oklab(colour: str, vision: Any) -> Any:
    """A colour as seen, in a space where distances are differences."""
    parts = np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(vision) @ linear, 0, 1)
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]) @ seen
    axes = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(axes) @ np.cbrt(cones)


@pytest.mark.parametrize(
    ("vision", "distance"), [("normal", 0.09), ("protanopia", 0.045), ("deuteranopia", 0.045), ("tritanopia", 0.04)]
)
def test_no_two_colours_look_the_same_to_anybody(vision: str, distance: float) -> None:
    seen = {colour: oklab(colour, VISION[vision]) for colour in (*COLOURS, INK)}
    closest = min((np.linalg.norm(seen[a] - seen[b]), a, b) for a, b in itertools.combinations(seen, 2))
    assert closest[0] > distance, closest


def test_twelve_groups_have_colours_of_their_own() -> None:
    legend = legend_of(plot.latency(turns_of([3] * 12), by="agent"))
    assert len(legend) == len({colour for colour, _ in legend.values()}) == 12
    assert "other" not in legend


def test_past_the_largest_the_rest_is_other() -> None:
    by_size = [20, 18, 16, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    legend = legend_of(plot.latency(turns_of(by_size), by="agent", freq="1D"))
    assert list(legend) == [*(f"agent {n:02d}" for n in range(11)), "other"]
    assert legend["other"][0] == INK
    assert list(legend_of(plot.latency(turns_of(by_size), by="agent", top=2))) == ["agent 00", "agent 01", "other"]
    assert set(plot.latency(turns_of(by_size), by="agent", top=2).data["agent"]) == {"agent 00", "agent 01", "other"}


@pytest.mark.parametrize("draw", [plot.latency, plot.failure_rate], ids=lambda draw: str(draw.__name__))
def test_more_groups_than_can_be_told_apart_are_refused_with_their_number(draw: Any) -> None:
    table = turns_of([2] * 100)
    with pytest.raises(ValueError, match=r"cannot draw 200 groups of 'session_id': 12 can .* top=10"):
        draw(table, by="session_id")
    with pytest.raises(ValueError, match="cannot draw 100 groups of 'agent'"):
        draw(table, by="agent")
    with pytest.raises(ValueError, match="cannot draw 41 groups of 'agent'"):
        draw(table, by="agent", top=40)
    assert len(legend_of(draw(table, by="session_id", top=10))) == 11


def test_a_group_of_nothing_has_a_name() -> None:
    assert set(legend_of(plot.latency(turns_of([4], agent=None), by="agent"))) == {"(unknown)"}
