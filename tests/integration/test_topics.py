"""The demo's month: topics, against its agents and workspaces, and labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import agentbook as ab


def entropy(counts: pd.Series) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def shared_information(one: pd.Series, other: pd.Series) -> float:
    """Normalised mutual information: 0 for independent groups, 1 for the same ones."""
    of_one, of_other, of_both = (
        entropy(pd.DataFrame({"a": one, "b": other}).value_counts(names)) for names in (["a"], ["b"], ["a", "b"])
    )
    return (of_one + of_other - of_both) / (of_one * of_other) ** 0.5


@pytest.fixture(scope="module")
def history(client: ab.Client) -> ab.History:
    return ab.load_history(client, "acme")


@pytest.fixture(scope="module")
def by_topic(history: ab.History) -> pd.DataFrame:
    return ab.with_topics(history, ab.topics(history))


def test_topics_agree_with_agents_and_workspaces(by_topic: pd.DataFrame) -> None:
    sessions = by_topic.groupby("session_id").first()
    sessions = sessions.dropna(subset=["agent", "workspace"])
    assert 5 <= sessions["topic"].nunique() <= 21
    assert (sessions["topic"] == "other").mean() < 0.1
    # By chance, groups as large share less than 0.15.
    assert shared_information(sessions["topic"], sessions["agent"]) > 0.6
    assert shared_information(sessions["topic"], sessions["workspace"]) > 0.6
    shuffled = pd.Series(np.random.default_rng(0).permutation(sessions["topic"]), sessions.index)
    assert shared_information(shuffled, sessions["agent"]) < 0.15


def test_earlier_weeks_tell_the_topics_of_the_last(history: ab.History) -> None:
    turns = history.turns
    started_at = turns["asked_at"].fillna(turns["replied_at"]).groupby(turns["session_id"]).transform("min")
    is_late = started_at >= started_at.max() - pd.Timedelta("7D")
    later = ab.with_topics(turns[is_late], ab.topics(turns[~is_late])).dropna(subset="agent")
    assert (later["topic"] == "other").mean() < 0.2
    assert shared_information(later["topic"], later["agent"]) > 0.6


def test_whether_a_topic_grew_beyond_noise_takes_one_call(by_topic: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="stability"):  # of topics that another seed would not find
        changes = ab.compare_periods(by_topic, by="topic", metric="sessions")
    assert {"topic", "before", "after", "significant"} <= set(changes)
    assert len(changes) > 4
