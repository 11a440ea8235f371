"""Question length against latency, against plain Python and by simulation."""

from __future__ import annotations

import statistics

import numpy as np
import pandas as pd
import pytest

from agentbook.frames.analysis.correlation import prompt_latency, rank_correlation

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


def test_the_correlation_is_spearmans() -> None:
    table = table_of(np.random.default_rng(2), 40, 0.5)
    result = rank_correlation(table)
    x, y = (table[name].rank().to_list() for name in ("prompt_chars", "latency_s"))
    assert result["rho"][0] == pytest.approx(statistics.correlation(x, y))
    assert result["low"][0] < result["rho"][0] < result["high"][0]
    by_agent = rank_correlation(table, by="agent")
    assert by_agent["rho"].abs().is_monotonic_decreasing
    assert by_agent["sessions"].sum() == 40
    assert rank_correlation(table[:2])["rho"].isna().all()
    assert rank_correlation(table[:0])["n"].to_list() == [0]
    with pytest.raises(ValueError, match="needs the column 'agent' as numbers"):
        rank_correlation(table, "agent")


def test_the_interval_holds_the_truth_nineteen_times_in_twenty() -> None:
    """Nothing goes together, but sessions have their own level of both."""
    draw, rounds, misses, naive = np.random.default_rng(3), 60, 0, 0
    for _ in range(rounds):
        row = rank_correlation(table_of(draw, 40, 0.0)).iloc[0]
        misses += not row["low"] <= 0 <= row["high"]
        naive += abs(np.arctanh(row["rho"])) * np.sqrt(row["n"] - 3) > 1.96
    assert misses / rounds <= 0.1
    assert naive > 2 * misses, "turns taken for independent miss it several times as often"
