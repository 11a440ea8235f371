"""The credential report, its findings and its summary against plain Python, on credentials and workspaces of any make."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbook.frames.analysis.credentials import credential_report, credential_summary
from agentbook.frames.analysis.findings import SEVERITIES, credential_findings
from agentbook.frames.parse import to_frame

NOW = datetime(2026, 10, 3, tzinfo=UTC)
PEOPLE = st.sampled_from([None, "acme", "ada", "ben"])
TRUTH = st.sampled_from([None, True, False])
CREDENTIALS = st.lists(
    st.fixed_dictionaries(
        {
            "integration": st.sampled_from([None, "github", "slack"]),
            "owner_id": PEOPLE,
            "creator_id": PEOPLE,
            "target_id": st.sampled_from([None, "w0", "elsewhere"]),
            "target": st.sampled_from([None, {"name": "Known by name"}, {"id": "x"}]),
            "auth_config_id": st.sampled_from([None, "x"]),
            "params": st.sampled_from([None, {}, {"token": "one"}, {"token": "two"}]),
            "webhook_enabled": TRUTH,
            "has_active_webhook_triggers": TRUTH,
            "signature_type": st.sampled_from([None, "none", "HMAC"]),
            "webhook_owner_identifier": st.sampled_from([None, "o"]),
            "age": st.integers(0, 800),
            "touched": st.none() | st.integers(0, 800),
        }
    ),
    max_size=8,
)
WORKSPACES = st.lists(
    st.fixed_dictionaries(
        {
            "owner_id": st.sampled_from(["acme", "ben"]),
            "creator_id": st.sampled_from(["ada", None]),
            "archived": st.booleans(),
            "required_credentials_mode": st.sampled_from([None, "SHARED", "MEMBER"]),
            "restrict_account_credentials": st.booleans(),
        }
    ),
    max_size=3,
)


def frame(resource: str, items: list[dict[str, Any]]) -> pd.DataFrame:
    return to_frame(resource, [json.dumps({"items": items}).encode()])


def wire(credentials: list[Any], workspaces: list[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    for n, one in enumerate(credentials):
        one["id"] = f"c{n}"
        one["created"] = NOW - timedelta(days=one["age"])
        one["updated"] = max(
            one["created"], NOW - timedelta(days=one["age"] if one["touched"] is None else one["touched"])
        )
        one["created_at"], one["updated_at"] = one["created"].isoformat(), one["updated"].isoformat()
    for n, one in enumerate(workspaces):
        one |= {"id": f"w{n}", "name": f"lab{n}", "archived_at": NOW.isoformat() if one["archived"] else None}
    own = ("created", "updated", "age", "touched")
    return [{key: value for key, value in one.items() if key not in own} for one in credentials], workspaces


class Oracle:
    """What the report says of each credential, one at a time."""

    def __init__(self, credentials: list[Any], workspaces: list[Any]) -> None:
        self.all = credentials
        self.workspaces = workspaces
        self.accounts = {one["owner_id"] for one in workspaces}
        columns = ("id", "owner_id", "creator_id")
        self.known = {one[name] for one in workspaces for name in columns if one[name] is not None}

    def pool(self, one: Any) -> str:
        if one["owner_id"] is None or not self.accounts:
            return "unknown"
        return "account" if one["owner_id"] in self.accounts else "member"

    def seen(self, one: Any, name: str) -> bool:
        named = name == "target" and bool((one["target"] or {}).get("name"))
        return one[f"{name}_id"] is not None and (one[f"{name}_id"] in self.known or named)

    def who(self, one: Any, name: str) -> str:
        if one[f"{name}_id"] is None:
            return "none"
        if self.seen(one, name):
            return "known"
        return "unknown" if any(self.seen(other, name) for other in self.all) else "not checked"

    def same(self, one: Any) -> list[Any]:
        """All credentials like this one in everything, the oldest first; itself alone where something is not said."""

        def key(other: Any) -> Any:
            return other["integration"], other["owner_id"], other["auth_config_id"], json.dumps(other["params"])

        if one["integration"] is None or one["owner_id"] is None or not one["params"]:
            return [one]
        return sorted((other for other in self.all if key(other) == key(one)), key=lambda other: other["created"])

    def alike(self, one: Any) -> int:
        key = one["integration"], one["owner_id"]
        return 0 if None in key else sum((other["integration"], other["owner_id"]) == key for other in self.all) - 1

    def webhook(self, one: Any) -> str:
        if not one["webhook_enabled"]:
            return "unknown" if one["webhook_enabled"] is None else "off"
        if one["signature_type"] in (None, "none"):
            return "unsigned"
        return "idle" if one["has_active_webhook_triggers"] is False else "signed"

    def places(self, one: Any) -> dict[str, list[str]] | None:
        pool = self.pool(one)
        if pool == "unknown":
            return None
        found: dict[str, list[str]] = {"open_in": [], "open_if_granted": [], "closed_in": []}
        for place in self.workspaces:
            if pool == "account" and place["owner_id"] != one["owner_id"]:
                continue
            wrong = "MEMBER" if pool == "account" else "SHARED"
            if place["archived"] or place["required_credentials_mode"] == wrong:
                found["closed_in"].append(place["name"])
            elif pool == "account" and place["restrict_account_credentials"]:
                found["open_if_granted"].append(place["name"])
            else:
                found["open_in"].append(place["name"])
        return found

    def findings(self, one: Any) -> set[tuple[str, str]]:
        on = bool(one["webhook_enabled"])
        same, places = self.same(one), self.places(one)
        since = (NOW - one["updated"]).days
        never = one["created"] == one["updated"]
        checks = {
            ("unsigned_webhook", "high"): self.webhook(one) == "unsigned",
            ("idle_webhook", "low"): on and one["has_active_webhook_triggers"] is False,
            ("webhook_without_owner", "low"): on and one["webhook_owner_identifier"] is None,
            ("duplicate", "medium"): same[0] is not one,
            ("alike", "low"): len(same) == 1 and self.alike(one) > 0,
            ("no_owner", "medium"): one["owner_id"] is None,
            ("unknown_owner", "low"): self.who(one, "owner") == "unknown",
            ("no_creator", "low"): one["creator_id"] is None,
            ("unknown_creator", "low"): self.who(one, "creator") == "unknown",
            ("unknown_target", "low"): self.who(one, "target") == "unknown",
            ("never_updated", "medium"): never and one["age"] > 180,
            ("not_updated", "medium"): not never and since > 365,
            ("not_updated", "low"): not never and 180 < since <= 365,
            ("closed_everywhere", "low"): places is not None and not places["open_in"] + places["open_if_granted"],
            ("no_parameters", "low"): not one["params"],
        }
        return {check for check, holds in checks.items() if holds}


@settings(max_examples=40)
@given(CREDENTIALS, WORKSPACES)
def test_the_report_is_what_plain_python_says(credentials: list[Any], workspaces: list[Any]) -> None:
    items, places = wire(credentials, workspaces)
    report = credential_report(frame("credentials", items), frame("workspaces", places), NOW)
    oracle = Oracle(credentials, workspaces)
    assert report["id"].to_list() == [one["id"] for one in credentials]
    for one, row in zip(credentials, report.to_dict("records"), strict=True):
        same = oracle.same(one)
        assert row["pool"] == oracle.pool(one)
        assert [row[name] for name in ("owner", "creator", "target")] == [
            oracle.who(one, name) for name in ("owner", "creator", "target")
        ]
        assert (row["age_days"], row["days_since_update"]) == (one["age"], (NOW - one["updated"]).days)
        assert row["never_updated"] == (one["created"] == one["updated"])
        assert row["duplicates"] == len(same) - 1
        assert (row["duplicate_of"] if isinstance(row["duplicate_of"], str) else None) == (
            None if same[0] is one else same[0]["id"]
        )
        assert row["alike"] == oracle.alike(one)
        assert row["webhook"] == oracle.webhook(one)
        found = oracle.places(one)
        for name in ("open_in", "open_if_granted", "closed_in"):
            assert (json.loads(row[name]) if isinstance(row[name], str) else None) == (found and found[name]), name
        wanted = oracle.findings(one)
        assert {(each["check"], each["severity"]) for each in json.loads(row["findings"])} == wanted
        assert row["severity"] == max((severity for _, severity in wanted), key=SEVERITIES.index, default="none")
        assert pd.isna(row["last_used_at"])
    findings = credential_findings(report)
    assert Counter(zip(findings["id"], findings["check"], strict=True)) == Counter(
        (one["id"], check) for one in credentials for check, _ in oracle.findings(one)
    )


@settings(max_examples=20)
@given(CREDENTIALS, WORKSPACES, st.sampled_from(["integration", "owner_id", "pool", "severity"]))
def test_the_summary_is_what_plain_python_counts(credentials: list[Any], workspaces: list[Any], by: str) -> None:
    items, places = wire(credentials, workspaces)
    report = credential_report(frame("credentials", items), frame("workspaces", places), NOW)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in report.to_dict("records"):
        groups[None if pd.isna(row[by]) else row[by]].append(row)
    table = credential_summary(report, by=by)
    assert len(table) == len(groups)
    assert table["credentials"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        mine = groups[None if pd.isna(row[by]) else row[by]]
        assert row["credentials"] == len(mine)
        assert row["owners"] == len({one["owner_id"] for one in mine if not pd.isna(one["owner_id"])})
        assert (row["shared"], row["members"]) == tuple(
            sum(one["pool"] == pool for one in mine) for pool in ("account", "member")
        )
        assert row["never_updated"] == sum(bool(one["never_updated"]) for one in mine)
        assert row["duplicates"] == sum(one["duplicates"] > 0 for one in mine)
        assert row["webhooks"] == sum(one["webhook"] in ("signed", "unsigned", "idle") for one in mine)
        assert row["unsigned"] == sum(one["webhook"] == "unsigned" for one in mine)
        for severity in ("high", "medium", "low"):
            assert row[severity] == sum(one["severity"] == severity for one in mine)
        assert row["age_p50_days"] == pytest.approx(statistics.median(one["age_days"] for one in mine))
        assert row["update_p50_days"] == pytest.approx(statistics.median(one["days_since_update"] for one in mine))
        assert row["oldest_days"] == max(one["age_days"] for one in mine)
