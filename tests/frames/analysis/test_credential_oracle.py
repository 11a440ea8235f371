"""The credential report, findings and summary against plain Python, on any input."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
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
            "granted": st.booleans(),
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
    for n, credential in enumerate(credentials):
        credential["id"] = f"c{n}"
        credential["created"] = NOW - timedelta(days=credential["age"])
        updated_days = credential["age"] if credential["touched"] is None else credential["touched"]
        credential["updated"] = max(credential["created"], NOW - timedelta(days=updated_days))
        credential["created_at"] = credential["created"].isoformat()
        credential["updated_at"] = credential["updated"].isoformat()
    for n, workspace in enumerate(workspaces):
        workspace |= {
            "id": f"w{n}",
            "name": f"lab{n}",
            "archived_at": NOW.isoformat() if workspace["archived"] else None,
        }
    own = ("created", "updated", "age", "touched", "granted")
    return [
        {key: value for key, value in credential.items() if key not in own} for credential in credentials
    ], workspaces


class Oracle:
    """The expected report, computed for each credential alone."""

    def __init__(self, credentials: list[Any], workspaces: list[Any]) -> None:
        self.all = credentials
        self.workspaces = workspaces
        self.accounts = {workspace["owner_id"] for workspace in workspaces}
        columns = ("id", "owner_id", "creator_id")
        self.known = {workspace[name] for workspace in workspaces for name in columns if workspace[name] is not None}

    def pool(self, credential: Any) -> str:
        if credential["owner_id"] is None or not self.accounts:
            return "unknown"
        return "account" if credential["owner_id"] in self.accounts else "member"

    def seen(self, credential: Any, name: str) -> bool:
        named = name == "target" and bool((credential["target"] or {}).get("name"))
        return credential[f"{name}_id"] is not None and (credential[f"{name}_id"] in self.known or named)

    def who(self, credential: Any, name: str) -> str:
        if credential[f"{name}_id"] is None:
            return "none"
        if self.seen(credential, name):
            return "known"
        return "unknown" if any(self.seen(other, name) for other in self.all) else "not checked"

    def same(self, credential: Any) -> list[Any]:
        """All equal credentials, oldest first; only this one if a field is missing."""

        def key(other: Any) -> Any:
            return other["integration"], other["owner_id"], other["auth_config_id"], json.dumps(other["params"])

        if credential["integration"] is None or credential["owner_id"] is None or not credential["params"]:
            return [credential]
        return sorted(
            (other for other in self.all if key(other) == key(credential)), key=lambda other: other["created"]
        )

    def alike(self, credential: Any) -> int:
        key = credential["integration"], credential["owner_id"]
        return 0 if None in key else sum((other["integration"], other["owner_id"]) == key for other in self.all) - 1

    def webhook(self, credential: Any) -> str:
        if not credential["webhook_enabled"]:
            return "unknown" if credential["webhook_enabled"] is None else "off"
        if credential["signature_type"] in (None, "none"):
            return "unsigned"
        return "idle" if credential["has_active_webhook_triggers"] is False else "signed"

    def access(self, credential: Any) -> dict[str, list[str]] | None:
        pool = self.pool(credential)
        if pool == "unknown":
            return None
        access: dict[str, list[str]] = {"open_in": [], "open_if_granted": [], "closed_in": []}
        for workspace in self.workspaces:
            if pool == "account" and workspace["owner_id"] != credential["owner_id"]:
                continue
            wrong = "MEMBER" if pool == "account" else "SHARED"
            if workspace["archived"] or workspace["required_credentials_mode"] == wrong:
                access["closed_in"].append(workspace["name"])
            elif pool == "account" and not workspace["restrict_account_credentials"]:
                access["open_in"].append(workspace["name"])
            else:
                granted = credential["granted"] and workspace["id"] == "w0"
                access["open_in" if granted else "open_if_granted"].append(workspace["name"])
        return access

    def findings(self, credential: Any) -> set[tuple[str, str]]:
        on = bool(credential["webhook_enabled"])
        same, access = self.same(credential), self.access(credential)
        since = (NOW - credential["updated"]).days
        never = credential["created"] == credential["updated"]
        checks = {
            ("unsigned_webhook", "high"): self.webhook(credential) == "unsigned",
            ("idle_webhook", "low"): on and credential["has_active_webhook_triggers"] is False,
            ("webhook_without_owner", "low"): on and credential["webhook_owner_identifier"] is None,
            ("duplicate", "medium"): same[0] is not credential,
            ("alike", "low"): len(same) == 1 and self.alike(credential) > 0,
            ("no_owner", "medium"): credential["owner_id"] is None,
            ("unknown_owner", "low"): self.who(credential, "owner") == "unknown",
            ("no_creator", "low"): credential["creator_id"] is None,
            ("unknown_creator", "low"): self.who(credential, "creator") == "unknown",
            ("unknown_target", "low"): self.who(credential, "target") == "unknown",
            ("never_updated", "medium"): never and credential["age"] > 180,
            ("not_updated", "medium"): not never and since > 365,
            ("not_updated", "low"): not never and 180 < since <= 365,
            ("closed_everywhere", "low"): access is not None and not access["open_in"] + access["open_if_granted"],
            ("no_parameters", "low"): not credential["params"],
        }
        return {check for check, holds in checks.items() if holds}


@given(CREDENTIALS, WORKSPACES)
def test_the_report_is_what_plain_python_says(credentials: list[Any], workspaces: list[Any]) -> None:
    items, workspace_items = wire(credentials, workspaces)
    granted = pd.DataFrame({"id": [each["id"] for each in credentials if each["granted"]]}, dtype="str")
    report = credential_report(
        frame("credentials", items),
        frame("workspaces", workspace_items),
        NOW,
        granted=granted.assign(workspace_id="w0"),
    )
    oracle = Oracle(credentials, workspaces)
    assert report["id"].to_list() == [credential["id"] for credential in credentials]
    for credential, row in zip(credentials, report.to_dict("records"), strict=True):
        same = oracle.same(credential)
        assert row["pool"] == oracle.pool(credential)
        assert [row[name] for name in ("owner", "creator", "target")] == [
            oracle.who(credential, name) for name in ("owner", "creator", "target")
        ]
        assert (row["age_days"], row["days_since_update"]) == (credential["age"], (NOW - credential["updated"]).days)
        assert row["never_updated"] == (credential["created"] == credential["updated"])
        assert row["duplicates"] == len(same) - 1
        assert (row["duplicate_of"] if isinstance(row["duplicate_of"], str) else None) == (
            None if same[0] is credential else same[0]["id"]
        )
        assert row["alike"] == oracle.alike(credential)
        assert row["webhook"] == oracle.webhook(credential)
        access = oracle.access(credential)
        for name in ("open_in", "open_if_granted", "closed_in"):
            assert (row[name] if isinstance(row[name], list) else None) == (access and access[name]), name
        expected = oracle.findings(credential)
        assert {(each["check"], each["severity"]) for each in row["findings"]} == expected
        assert row["severity"] == max((severity for _, severity in expected), key=SEVERITIES.index, default="none")
        assert pd.isna(row["last_used_at"])
    findings = credential_findings(report)
    assert Counter(zip(findings["id"], findings["check"], strict=True)) == Counter(
        (credential["id"], check) for credential in credentials for check, _ in oracle.findings(credential)
    )


@given(CREDENTIALS, WORKSPACES, st.sampled_from(["integration", "owner_id", "pool", "severity"]))
def test_the_summary_is_what_plain_python_counts(credentials: list[Any], workspaces: list[Any], by: str) -> None:
    items, workspace_items = wire(credentials, workspaces)
    report = credential_report(frame("credentials", items), frame("workspaces", workspace_items), NOW)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in report.to_dict("records"):
        groups[None if pd.isna(row[by]) else row[by]].append(row)
    table = credential_summary(report, by=by)
    assert len(table) == len(groups)
    assert table["credentials"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        mine = groups[None if pd.isna(row[by]) else row[by]]
        assert row["credentials"] == len(mine)
        assert row["owners"] == len(
            {credential["owner_id"] for credential in mine if not pd.isna(credential["owner_id"])}
        )
        assert (row["shared"], row["members"]) == tuple(
            sum(credential["pool"] == pool for credential in mine) for pool in ("account", "member")
        )
        assert row["never_updated"] == sum(bool(credential["never_updated"]) for credential in mine)
        assert row["duplicates"] == sum(credential["duplicates"] > 0 for credential in mine)
        assert row["webhooks"] == sum(credential["webhook"] in ("signed", "unsigned", "idle") for credential in mine)
        assert row["unsigned"] == sum(credential["webhook"] == "unsigned" for credential in mine)
        for severity in ("high", "medium", "low"):
            assert row[severity] == sum(credential["severity"] == severity for credential in mine)
        assert row["age_p50_days"] == pytest.approx(statistics.median(credential["age_days"] for credential in mine))
        assert row["update_p50_days"] == pytest.approx(
            statistics.median(credential["days_since_update"] for credential in mine)
        )
        assert row["oldest_days"] == max(credential["age_days"] for credential in mine)
