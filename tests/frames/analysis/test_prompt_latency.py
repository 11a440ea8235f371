"""Latency by length of the question, against plain Python."""

from __future__ import annotations

import statistics

import numpy as np
import pandas as pd
import pytest

from agentbook.frames.analysis.prompt_latency import prompt_latency

AT = pd.Timestamp("2026-10-03T08:00Z")


def table_of(draw: np.random.Generator, sessions: int, slope: float, own: float = 0.8) -> pd.DataFrame:
    """Turns whose lengths and latencies resemble those of their session."""
    lengths = 1 + draw.poisson(3, sessions)
    session = np.repeat(np.arange(sessions), lengths)
    chars = draw.normal(0, own, sessions)[session] + draw.normal(0, 0.5, len(session))
    latency = slope * chars + draw.normal(0, own, sessions)[session] + draw.normal(0, 0.5, len(session))
    return pd.DataFrame(
        {
            "session_id": [f"s{n}" for n in session], "turn": 1, "status": "answered", "asked_at": AT,
            "prompt_chars": np.round(100 * np.exp(chars)) + 1, "latency_s": np.exp(latency),
            "agent": np.where(session % 3, "a", "b"),
        }
    )  # fmt: skip


def test_bins_hold_each_turn_once() -> None:
    table = table_of(np.random.default_rng(1), 80, 0.5)
    result = prompt_latency(table, bins=5)
    assert result["n"].sum() == len(table)
    assert result["n"].max() - result["n"].min() <= 0.2 * len(table)
    assert (result["chars_from"][1:].to_numpy() > result["chars_to"][:-1].to_numpy()).all()
    for row in result.to_dict("records"):
        inside = table[table["prompt_chars"].between(row["chars_from"], row["chars_to"])]["latency_s"]
        assert (row["n"], row["p50_s"]) == (len(inside), pytest.approx(statistics.median(inside)))
    grouped = prompt_latency(table, bins=[0, 100, 1e9], by="agent", stat="p95")
    assert list(grouped) == ["agent", "chars_from", "chars_to", "n", "p95_s"]
    assert grouped["n"].sum() == len(table)
    assert len(grouped) == 4
    assert prompt_latency(table, bins=[0, 50])["n"].sum() == (table["prompt_chars"] <= 50).sum()
    assert len(prompt_latency(table[:0])) == 0
    for bins in (0, [1], [2, 1], "many"):
        with pytest.raises((ValueError, TypeError)):
            prompt_latency(table, bins=bins)  # type: ignore[arg-type]
