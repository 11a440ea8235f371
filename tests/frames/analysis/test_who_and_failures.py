"""Keys and people by what they used, and failure rates over time."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.analysis.authors import authors
from agentbook.frames.analysis.failures import FAILURE_COLUMNS, failures
from agentbook.frames.analysis.timing import latency
from agentbook.frames.analysis.turns import turns
from agentbook.frames.parse.frame import FrameBuilder

from .test_steps import event, rows

DAYS = pd.date_range("2026-10-01", periods=4, tz="UTC")


def table_of(seed: int = 1, count: int = 300) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    status = draw.choice(["answered", "failed", "open"], count, p=[0.7, 0.2, 0.1])
    at = DAYS[draw.integers(0, 4, count)] + pd.to_timedelta(draw.integers(0, 86_000, count), unit="s")
    return pd.DataFrame(
        {
            "session_id": [f"s{n}" for n in draw.integers(0, 60, count)], "turn": 1, "status": status, "asked_at": at,
            "replied_at": at + pd.Timedelta(seconds=5), "latency_s": draw.exponential(3, count),
            "failure": np.where(status == "failed", draw.choice(["error", "budget"], count), None),
            "failure_message": None, "agent": draw.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]),
            "author_type": "user", "author_id": [f"u{n}" for n in draw.integers(0, 5, count)],
        }
    )  # fmt: skip


def test_failure_rates_over_time() -> None:
    table = table_of()
    daily = failures(table, by="agent", freq="1D")
    assert list(daily) == ["period", "agent", *FAILURE_COLUMNS]
    assert len(daily) == 4 * 3 * 2, "each period has every kind, also those that did not fail in it"
    for row in daily.to_dict("records"):
        day = table[(table["asked_at"].dt.floor("1D") == row["period"]) & (table["agent"] == row["agent"])]
        count = (day["failure"] == row["kind"]).sum()
        assert (row["turns"], row["n"], row["share"]) == (count, len(day), pytest.approx(count / len(day)))
    together = failures(table, freq="1D", kinds=False)
    assert list(together) == ["period", "turns", "sessions", "share", "n", "first_at", "last_at", "example"]
    assert together["turns"].sum() == (table["status"] == "failed").sum()
    assert together["n"].sum() == len(table)
    weekly = failures(table, kinds=False, by="agent", top=1)
    assert rows(weekly, "agent", "n")[0][1] + rows(weekly, "agent", "n")[1][1] == len(table)
    assert set(weekly["agent"]) == {"a", "other"}
    none = failures(table[table["status"] != "failed"], freq="1D", kinds=False)
    assert none["share"].to_list() == [0.0] * 4
    assert failures(table, since="2026-10-02", until="2026-10-03", kinds=False)["n"].to_list() == [
        (table["asked_at"].dt.day == 2).sum()
    ]
    assert len(failures(table[:0], freq="1D")) == 0


def test_one_number_of_latency_puts_the_slowest_first() -> None:
    table = table_of()
    answered = table[table["status"] == "answered"]
    for stat, expected in (("p95", answered.groupby("agent")["latency_s"].quantile(0.95)),
                           ("mean", answered.groupby("agent")["latency_s"].mean()),
                           ("max", answered.groupby("agent")["latency_s"].max())):  # fmt: skip
        result = latency(table, by="agent", stat=stat)
        assert list(result) == ["agent", "n", f"{stat}_s"]
        assert dict(zip(result["agent"], result[f"{stat}_s"], strict=True)) == pytest.approx(expected.to_dict())
        assert result[f"{stat}_s"].is_monotonic_decreasing
    assert latency(table, stat="median").columns.to_list() == ["n", "p50_s"]
    part = latency(table, since="2026-10-02", until="2026-10-04", top=2, by="agent")
    assert part["n"].sum() == answered["asked_at"].dt.day.isin([2, 3]).sum()
    assert "other" in set(part["agent"])
    with pytest.raises(ValueError, match="latency has no stat '95%'"):
        latency(table, stat="95%")


def test_who_used_what() -> None:
    table = table_of()
    result = authors(table)
    assert result["turns"].is_monotonic_decreasing
    for row in result.to_dict("records"):
        own = table[table["author_id"] == row["author_id"]]
        assert row["turns"] == len(own)
        assert (row["sessions"], row["agents"]) == (own["session_id"].nunique(), own["agent"].nunique())
        assert (row["first_at"], row["last_at"]) == (own["asked_at"].min(), own["asked_at"].max())
        assert row["failed"] == (own["status"] == "failed").sum()
    assert authors(table, top=1).equals(result.head(1))
    with pytest.raises(ValueError, match="top="):
        authors(table, top=0)
    by_agent = authors(table, by="agent", top=2)
    assert by_agent["turns"].sum() == len(table)
    assert "agents" not in by_agent


def test_names_and_tokens_of_who_asked_come_from_the_events() -> None:
    frame = asked_by(("u", "Ada"), ("k", "notebooks"), ("u", "Ada L."))
    assert rows(authors(frame), "author", "turns", "tokens") == [("Ada L.", 2, 10), ("notebooks", 1, 5)]
    assert turns(frame)["author"].to_list() == ["Ada", "notebooks", "Ada L."]


def asked_by(*authors: tuple[str, str]) -> pd.DataFrame:
    """Events of one session in which each author, an id and a name, asks once."""
    items = []
    for second, (author_id, name) in enumerate(authors):
        question = event(2 * second, "message", {"text": "?"}, f"t{second}")
        items += [
            {**question, "author": {"type": "api_key" if author_id == "k" else "user", "id": author_id, "name": name}},
            event(2 * second + 1, "runtime_done", {"text": "!"}, f"t{second}", usage={"total_tokens": 5}),
        ]
    builder = FrameBuilder("events")
    builder.add(json.dumps({"items": items}).encode(), {"session_id": "s"})
    return builder.finish()


def test_authors_of_one_name_or_none_are_told_apart() -> None:
    frame = asked_by(("0a1b2c3d4e", "ci"), ("9f8e7d6c5b", "ci"), ("9f8e7d6c5b", "ada"), ("u", "bob"))
    names = ["ci (0a1b2c3d)", "ci (9f8e7d6c)", "ada", "bob"]
    assert turns(frame)["author"].to_list() == names
    by_author = ab.activity(frame, "1D", by="author").dropna(subset="author").set_index("author")
    assert by_author["messages"].to_dict() == dict.fromkeys(names, 1)
    alike = asked_by(("0a1b2c3d4e", "ci"), ("0a1b2c3d4f", "ci"))
    assert turns(alike)["author"].to_list() == ["ci (0a1b2c3d4e)", "ci (0a1b2c3d4f)"]
    unnamed = asked_by(("u", None), ("k", None), ("v", "ada"))
    assert turns(unnamed)["author"].to_list() == ["u", "k", "ada"]
    assert set(ab.latency(unnamed, by="author")["author"]) == {"u", "k", "ada"}
    assert set(ab.activity(unnamed, "1D", by="author").dropna()["author"]) == {"u", "k", "ada"}
