"""The credential report: each check with a case it must report and one it must not."""

from __future__ import annotations

import functools
import json
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


def credential(id_: str, *, age: float = 10, touched: float | None = None, **fields: Any) -> dict[str, Any]:
    created = NOW - timedelta(days=age)
    updated = created if touched is None else NOW - timedelta(days=touched)
    return {
        "id": id_, "integration": f"i-{id_}", "owner_id": "acme", "creator_id": "ada", "auth_config_id": "x",
        "params": {"token": f"t-{id_}"}, "webhook_enabled": False,
        "created_at": created.isoformat(), "updated_at": updated.isoformat(), **fields,
    }  # fmt: skip


def workspace(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"w-{name}", "full_name": f"acme~{name}", "name": name, "owner_id": "acme", "creator_id": "ada",
        **fields
    }  # fmt: skip


def frame(resource: str, *items: Any) -> pd.DataFrame:
    return to_frame(resource, [json.dumps({"items": items}).encode()])


def checks(report: pd.DataFrame) -> dict[str, set[str]]:
    return {row["id"]: {finding["check"] for finding in row["findings"]} for row in report.to_dict("records")}


@pytest.mark.parametrize(
    ("fields", "check", "severity"),
    [
        ({"webhook_enabled": True, "signature_type": {"type": "none"}}, "unsigned_webhook", "high"),
        ({"webhook_enabled": True, "signature_type": {"algorithm": "sha256", "key": "k"}}, "unread_signature", "low"),
        ({"webhook_enabled": True, "signature_type": 7}, "unread_signature", "low"),
    ],
)
def test_a_finding_and_its_severity(fields: dict[str, Any], check: str, severity: str) -> None:
    rows = frame("credentials", credential("a", **fields), credential("b", target_id="w-lab"))
    report = credential_report(rows, frame("workspaces", workspace("lab")), NOW)
    findings = [finding for finding in report["findings"][0] if finding["check"] == check]
    assert [finding["severity"] for finding in findings] == [severity]
    assert SEVERITIES.index(report["severity"][0]) >= SEVERITIES.index(severity)
    assert checks(report)["b"] == set()
    assert report["severity"][1] == "none"


def test_ids_of_a_kind_that_was_not_seen_are_not_called_unknown() -> None:
    rows = [credential("a", target_id="agent-1"), credential("b", target_id="agent-2")]
    workspaces = frame("workspaces", workspace("lab"))
    report = credential_report(frame("credentials", *rows), workspaces, NOW)
    assert report["target"].to_list() == ["not checked", "not checked"]
    report = credential_report(frame("credentials", *rows), workspaces, NOW, known_ids=["agent-1"])
    assert report["target"].to_list() == ["known", "unknown"]


def test_a_credential_that_comes_twice_is_no_duplicate_of_itself() -> None:
    same: dict[str, Any] = {"integration": "github", "params": {"token": "x"}}
    rows = frame(
        "credentials",
        credential("a", age=9, **same),
        credential("b", **same),
        {"integration": "x"},
        {"integration": "y"},
    )
    expected = credential_report(rows, as_of=NOW)
    assert expected.attrs["agentbook"]["dropped"] == 0
    report = credential_report(pd.concat([rows, rows[rows["integration"] == "github"]]), as_of=NOW)
    assert report["id"].fillna("?").to_list() == ["a", "b", "?", "?"], "what has no id is nobody's repeat"
    assert report.attrs["agentbook"]["dropped"] == 2
    report.attrs, expected.attrs = {}, {}
    pd.testing.assert_frame_equal(report, expected)
    assert credential_summary(pd.concat([rows, rows[:2]]), as_of=NOW)["credentials"].sum() == 4


def test_a_member_with_workspaces_of_their_own_needs_grants_in_those_of_the_organization() -> None:
    """A list of all workspaces that a person sees has both."""
    home: dict[str, Any] = {"owner_id": "ada", "owner": {"id": "ada", "name": "ada", "type": "user"}}
    workspaces = frame(
        "workspaces",
        workspace("home", **home, required_credentials_mode="MEMBER"),
        workspace("free"),
        workspace("shared", required_credentials_mode="SHARED"),
    )
    rows = frame("credentials", credential("own", owner_id="ada"), credential("acme's", owner_id="acme"))
    granted = pd.DataFrame({"id": ["own"], "workspace_id": [workspaces["id"][1]]})
    for grants, columns in (
        (None, (["acme~home"], ["acme~free"], ["acme~shared"])),
        (granted, (["acme~free", "acme~home"], [], ["acme~shared"])),
    ):
        report = credential_report(rows, workspaces, NOW, granted=grants)[["open_in", "open_if_granted", "closed_in"]]
        assert report.iloc[0].to_list() == list(columns)
        assert report.iloc[1].to_list() == [["acme~free", "acme~shared"], [], []]


def test_grants_and_candidates_are_null_unless_asked_for() -> None:
    rows = frame("credentials", credential("a"), credential("b"))
    report = credential_report(rows, as_of=NOW)
    assert report[["granted_in", "grant_candidate", "last_used_at"]].isna().all().all()
    granted = rows[["id"]].assign(workspace_id="w")[:1]
    report = credential_report(rows, as_of=NOW, granted=granted, candidates=rows[1:])
    assert report["granted_in"].to_list() == [["w"], []]
    assert report["grant_candidate"].to_list() == [False, True]
    assert "unused" in report.attrs["agentbook"]["unknowable"]


JUNK = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "acme", "none", "2026-01-01T00:00:00Z", "x"])


FIELDS = st.sampled_from(sorted(credential("a", target={}, target_id="")))
VALUES = JUNK | st.dictionaries(st.text(max_size=3), JUNK, max_size=2)


@functools.cache
def empty_report() -> pd.DataFrame:
    return credential_report(frame("credentials"), frame("workspaces"))


@given(st.lists(st.dictionaries(FIELDS, VALUES), max_size=5))
def test_any_credentials_have_a_report_of_the_same_shape(items: list[Any]) -> None:
    report = credential_report(frame("credentials", *items), frame("workspaces", workspace("lab"), 3))
    empty = empty_report()
    count = len(items) - report.attrs["agentbook"]["dropped"]
    assert len(report) == count
    assert report["id"].dropna().is_unique
    assert report.dtypes.map(str).to_dict() == empty.dtypes.map(str).to_dict()
    assert credential_summary(report)["credentials"].sum() == count
    assert credential_findings(empty).dtypes.map(str).to_dict() == credential_findings(report).dtypes.map(str).to_dict()


def test_the_account_may_be_named_by_id_name_or_record() -> None:
    rows = [credential("a"), credential("b", owner_id="ada")]
    owners = {"acme": "Acme", "works": "Works"}
    workspaces = frame(
        "workspaces", *(workspace(id_, owner_id=id_, owner={"id": id_, "name": name}) for id_, name in owners.items())
    )
    for account in ("acme", "Acme", {"id": "acme"}):
        report = credential_report(frame("credentials", *rows), workspaces, NOW, account_id=account)
        assert report["pool"].to_list() == ["account", "member"], account
    report = credential_report(frame("credentials", *rows), workspaces, NOW, account_id="Works")
    assert report["pool"].to_list() == ["member", "member"]
    with pytest.raises(ValueError, match=r"account_id='acne' is none of the owners here \(acme, ada\)"):
        credential_report(frame("credentials", *rows), as_of=NOW, account_id="acne")
    report = credential_report(frame("credentials", *rows), as_of=NOW, account_id="new", known_ids=["new"])
    assert report["pool"].to_list() == ["member", "member"]
    assert len(credential_report(frame("credentials"), account_id="acme")) == 0, "of nothing anybody may be the owner"
    with pytest.raises(ValueError, match=r"known_ids must be a list of ids, not a string: write \['abc'\]"):
        credential_report(frame("credentials", *rows), known_ids="abc")


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_nulls_are_no_texts_where_pandas_infers_objects() -> None:
    same: dict[str, Any] = {"integration": "github", "params": {"token": "x"}}
    rows = frame("credentials", credential("a", age=9, **same), credential("b", **same), {"id": "c"})
    spaces = frame("workspaces", workspace("lab"), workspace("any", required_credentials_mode=None))
    expected = credential_report(rows, spaces, NOW, granted=rows.assign(workspace_id="w"))
    with pd.option_context("future.infer_string", False):
        report = credential_report(rows, spaces, NOW, granted=rows.assign(workspace_id="w"))
        results = [report, credential_findings(report), credential_summary(report)]
    for result, right in zip(
        results, [expected, credential_findings(expected), credential_summary(expected)], strict=True
    ):
        assert result.to_csv() == right.to_csv()
        assert result.isna().to_numpy().tolist() == right.isna().to_numpy().tolist()
