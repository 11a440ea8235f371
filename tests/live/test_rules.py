"""Rules hold, fire or cannot be told, and seldom fire by chance."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.live.rules import Rule, RuleError, check_rules, message_of, read_rule

END = pd.Timestamp("2026-11-23", tz="UTC")
TEXT = "the reply that nobody may see"


def history(seed: int = 1, *, slower: float = 1.0, sessions: int = 120) -> ab.History:
    """Two weeks of the agents a and b; b may answer more slowly in the second.

    The turns of a session resemble each other, and one in ten fails.
    """
    draw = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(sessions):
        day, own, agent = draw.integers(14), draw.normal(0, 0.6), "ab"[number % 2]
        at = END - pd.Timedelta(days=14 - int(day)) + pd.Timedelta(hours=float(draw.uniform(7, 18)))
        for _ in range(1 + draw.poisson(2)):
            factor = slower if agent == "b" and day >= 7 else 1.0
            reply = at + pd.Timedelta(seconds=factor * float(np.exp(1 + own + draw.normal(0, 0.4))))
            failed = draw.random() < 0.1
            done = (
                ("runtime_error", '{"message":"' + TEXT + '"}') if failed else ("runtime_done", f'{{"text":"{TEXT}"}}')
            )
            for moment, kind, author, content in ((at, "message", "user", "{}"), (reply, done[0], "agent", done[1])):
                id_ = uuid.UUID(int=(moment.value // 1_000_000 << 80) | 7 << 76 | 2 << 62 | len(rows))
                rows.append((str(id_), f"s{number}", kind, author, f"{author}-{agent}", TEXT, content, moment))
            at = reply + pd.Timedelta("2min")
    columns = ["id", "session_id", "type", "author_type", "author_id", "text", "content", "created_at"]
    events = pd.DataFrame(rows, columns=columns)
    events = events.assign(at=events["created_at"], author_name=events["author_type"], task_id=pd.NA)
    events.attrs["agentbook"] = {"resource": "events", "loaded_at": END.isoformat()}
    listed = pd.DataFrame({"id": [f"s{number}" for number in range(sessions)]})
    listed = listed.assign(agent_id=[f"id-{'ab'[n % 2]}" for n in range(sessions)], workspace_id="w", name=TEXT)
    agents = pd.DataFrame({"id": ["id-a", "id-b"], "name": ["a", "b"], "owner_name": "acme"})
    return ab.History(
        events, listed.assign(initiator_id="u"), agents=agents, account="acme", since=END - pd.Timedelta("15D")
    )


WORSE = {"analysis": "latency", "by": "agent", "change": "worse"}


def states(rules: list[Mapping[str, Any]], data: ab.History) -> list[str]:
    return [outcome.state for outcome in check_rules([read_rule(rule) for rule in rules], data)]


def test_what_got_slower_fires_with_the_numbers_of_python() -> None:
    data = history(slower=2.5)
    failing = {"analysis": "failures", "by": "agent", "change": "worse"}
    slow, other = check_rules([read_rule(WORSE), read_rule(failing)], data)
    assert (slow.state, other.state) == ("fired", "holds")
    expected = ab.compare_periods(data, metric="latency", by="agent")
    assert slow.rows["agent"].tolist() == ["b"]
    [p] = expected.loc[expected["agent"] == "b", "p"]
    assert slow.rows["p_holm"].tolist() == [pytest.approx(4 * p)], "one of four tests of both rules"
    assert states([WORSE], history(slower=0.4)) == ["holds"], "faster is not worse"


def test_limits_hold_for_each_row() -> None:
    data = history()
    p95 = ab.latency(data, by="agent").set_index("agent")["p95_s"]
    rules = [{"analysis": "latency", "by": "agent", "limit": f"p95_s <= {limit}"} for limit in (p95.max(), p95.mean())]
    rules += [
        {"analysis": "latency", "where": {"agent": p95.idxmin()}, "limit": f"p95_s < {p95.mean()}"},
        {"analysis": "failures", "by": "agent", "kinds": False, "limit": "share <= 0.5"},
        {"analysis": "failures", "limit": "kind != error"},
        {"analysis": "latency", "where": {"until": "1990-01-01"}, "limit": "p95_s <= 1"},
        {"analysis": "credential_findings", "limit": "severity != high"},
    ]
    assert states(rules, data) == ["holds", "fired", "holds", "holds", "fired", "unknown", "holds"]
    [fired] = check_rules([read_rule(rules[1])], data)
    assert fired.rows["agent"].tolist() == [p95.idxmax()]


LIMITS = [
    {"analysis": "latency", "limit": "p95_s <= 1000"},
    {"analysis": "failures", "limit": "share <= 0.9"},
    {"analysis": "failures", "kinds": False, "limit": "turns <= 1000"},
    {"analysis": "usage", "limit": "turns <= 100000"},
    {"analysis": "timing", "what": "idle", "limit": "idle_s <= 1e9"},
    {"analysis": "activity", "freq": "1D", "limit": "failures <= 1000"},
]


@pytest.mark.parametrize("rule", LIMITS)
def test_a_limit_on_a_group_without_turns_is_unknown(rule: Mapping[str, Any]) -> None:
    whole = history(sessions=40)
    times = whole.events.groupby("session_id")["created_at"].agg(["min", "max"])
    middle = whole.events["created_at"].min() + pd.Timedelta("7D")
    is_b = whole.events["agent"] == "b"
    events = whole.events[~is_b | whole.events["session_id"].map(times["max"] < middle)]  # b is silent then
    data = ab.History(events, whole.sessions, agents=whole.agents)
    since = {"since": str(middle)}
    assert states([{**rule, **since, "where": {"agent": name}} for name in "ab"], data) == ["holds", "unknown"]
    assert states([{**rule, "where": {"agent": "b", **since}}], data) == ["unknown"]
    [outcome] = check_rules([read_rule({**rule, **since, "by": "agent"})], data)
    assert (outcome.state, outcome.unknown, outcome.reason) == ("holds", 1, "unknown for b")
    assert message_of([outcome], data)["unknown"] == 1


def test_a_reason_says_what_is_true_of_the_row() -> None:
    rules = [{"analysis": "turns", "limit": "status == answered"}, {"analysis": "failures", "limit": "kind != error"}]
    equal, unequal = check_rules([read_rule(rule) for rule in rules], history())
    assert set(equal.rows["status"]) == {"failed"}
    assert "status is not answered" in equal.reason
    assert "kind is error" in unequal.reason


@pytest.mark.parametrize(
    ("rule", "named", "keys"),
    [
        ("latency", "analysis", ()),
        ({}, "latency", ()),
        ({"analysis": "latncy", "limit": "p95_s < 1"}, "latency", ("analysis",)),
        ({"analysis": "latency"}, "limit", ()),
        ({"analysis": "latency", "limit": "p95_s < 1", "change": "worse"}, "change", ()),
        ({"analysis": "latency", "limit": "fast"}, "p95_s <= 20", ("limit",)),
        ({"analysis": "latency", "limit": "p95_s < soon"}, "soon", ("limit",)),
        ({"analysis": "latency", "limit": "p95_s < nan"}, "nan", ("limit",)),
        ({"analysis": "latency", "change": "better"}, "worse", ("change",)),
        ({"analysis": "usage", "change": "worse"}, "failures", ("analysis",)),
        ({"analysis": "latency", "limit": "p95_s < 1", "buy": "agent"}, "by", ("buy",)),
        ({"analysis": "latency", "limit": "p95_s < 1", "where": {"agnet": "a"}}, "agent", ("where", "agnet")),
        ({"analysis": "latency", "limit": "p95 < 1"}, "p95_s", (0, "limit")),
        ({"analysis": "latency", "limit": "p95_s < 1", "by": "nonsense"}, "agent", (0,)),
        ({"analysis": "latency", "limit": "p95_s < 1", "where": {"agent": "c"}}, "a", (0,)),
        ({"analysis": "latency", "change": "worse", "period": "30d"}, "loaded only from", (0,)),
        ({"analysis": "failures", "limit": "first_at < 1"}, "first_at", (0, "limit")),
    ],
)
def test_a_wrong_rule_names_its_part(rule: Any, named: str, keys: tuple[str | int, ...]) -> None:
    with pytest.raises(RuleError) as raised:
        check_rules([read_rule(rule)], history(sessions=20))
    assert named in str(raised.value)
    assert raised.value.keys == keys


def test_chance_alone_seldom_fires() -> None:
    """A few of the weeks of a simulation of 200; see also the tests of `clusters`."""
    rules = [read_rule(WORSE), read_rule({**WORSE, "analysis": "failures"})]
    weeks = [check_rules(rules, history(1000 + seed, sessions=40)) for seed in range(6)]
    assert sum(any(outcome.state == "fired" for outcome in week) for week in weeks) <= 1
    assert {outcome.state for week in weeks for outcome in week} <= {"holds", "fired"}


def test_a_message_has_numbers_and_no_texts() -> None:
    data = history(slower=2.5)
    rules = [WORSE, {"analysis": "latency", "by": "session", "limit": "p50_s < 0.001"}]
    outcomes = check_rules([read_rule(rule) for rule in rules], data)
    message = message_of(outcomes, data)
    assert message["fired"] == 2
    assert TEXT not in json.dumps(message)
    assert message["id"] == message_of(outcomes, data)["id"], "a repetition can be told"
    assert message["id"] != message_of(outcomes[:1], data)["id"]


def test_a_name_with_half_a_character_is_sent() -> None:
    data = history()
    message = message_of(check_rules([read_rule({**WORSE, "name": "half \ud83d"})], data), data)
    assert message["rules"][0]["name"] == "half ?"


def test_a_rule_is_data() -> None:
    assert read_rule({"analysis": "latency", "limit": " p95_s<=2e1 ", "where": {"agent": "a"}, "by": "agent"}) == Rule(
        "latency:  p95_s<=2e1 ", "latency", {"agent": "a"}, {"by": "agent"}, ("p95_s", "<=", 20.0)
    )
