"""No frame shows a secret, unless it is told to."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import httpx
import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.record import Record
from agentbook.frames.parse.frame import FrameBuilder, to_frame
from frames.parse.pages import page

SECRET = "sk-proj-5up3rs3cret"

CREDENTIAL = {
    "id": "c1", "integration": {"name": "github", "client_secret": SECRET}, "signature_type": {"key": SECRET},
    "params": {"token": SECRET, "nested": {"list": [SECRET, 123456]}}, "extra_data": {"refresh": SECRET},
    "config_params": SECRET, "webhook_owner_identifier": SECRET,
    "webhook_url": f"https://u:{SECRET}@hooks.example.com/{SECRET}?k={SECRET}", "access_token": SECRET,
    "target": {"id": "t1", "password": SECRET}, "auth_config_id": {"oops": SECRET}, "created_at": SECRET
}  # fmt: skip


def test_a_credential_shows_no_secret_anywhere(tmp_path: Any) -> None:
    frame = to_frame("credentials", [page(CREDENTIAL, [SECRET])])
    with pd.option_context("display.max_columns", None, "display.max_colwidth", None):
        shown = (
            frame.to_csv() + repr(frame) + frame.to_html() + json.dumps(frame.attrs) + frame.to_json(date_format="iso")
        )
    frame.to_parquet(tmp_path / "credentials.parquet")
    shown += (tmp_path / "credentials.parquet").read_bytes().decode("latin-1") + pickle.dumps(frame).decode("latin-1")
    for part in (SECRET, SECRET[:8], SECRET[-6:], "123456"):
        assert part not in shown
    row = frame.iloc[0]
    assert row["webhook_url"] == "hooks.example.com"
    assert row["integration"] == "github"
    assert json.loads(row["params"])["token"] == f"<string, {len(SECRET)} characters>"
    assert row["webhook_owner_identifier"] == f"<string, {len(SECRET)} characters>", "as a record masks it"
    assert "webhook_owner_identifier=…" in repr(Record(CREDENTIAL))
    assert json.loads(row["extra"])["target"]["id"] == "t1"
    assert len(frame.attrs["agentbook"]["problems"]) == 3


def test_reveal_is_explicit() -> None:
    row = to_frame("credentials", [page(CREDENTIAL)], reveal=True).iloc[0]
    assert json.loads(row["params"]) == CREDENTIAL["params"]
    assert row["webhook_url"] == CREDENTIAL["webhook_url"]
    assert row["webhook_owner_identifier"] == SECRET


def test_equal_parameters_have_equal_fingerprints() -> None:
    items = [
        {"id": "1", "params": {"a": 1, "b": 2}},
        {"id": "2", "params": {"b": 2, "a": 1}},
        {"id": "3", "params": {}},
    ]
    prints = to_frame("credentials", [page(*items)])["params_fingerprint"]
    assert prints[0] == prints[1]
    assert pd.isna(prints[2])


def test_an_item_of_a_credentials_list_is_a_name_or_masked() -> None:
    items = [{"id": "1", "policy_resources": ["repo", {"name": "crm", "key": SECRET}]}]
    masked, revealed = (
        to_frame("credentials", [page(*items)], reveal=reveal)["policy_resources"][0] for reveal in (False, True)
    )
    assert masked == ["repo", f'{{"name":"crm","key":"<string, {len(SECRET)} characters>"}}']
    assert json.loads(revealed[1]) == items[0]["policy_resources"][1]


def test_unknown_fields_with_names_of_secrets_are_masked_in_every_frame() -> None:
    secret = "s3cret-of-a-test"
    agents = [
        {"id": "a1", "api_key": secret, "auth": {"x": [{"refresh_Token": secret}]}, "usage": {"prompt_tokens": 12}},
        {"id": "a2", "auth": {"refresh\\u005ftoken": 1e400, "n": [secret]}, "region": "eu"},
        "not an object " + secret.replace("s3cret", "plain"),
    ]
    page = json.dumps({"items": agents}).replace("\\\\u", "\\u").replace("Infinity", "1e400").encode()
    for pages in ([page], [json.dumps({"items": agents[:1]}).encode()]):
        frame = to_frame("agents", pages)
        extra = json.loads(frame["extra"][0])
        assert extra["api_key"] == "<string, 16 characters>"
        assert extra["auth"] == {"x": [{"refresh_Token": "<string, 16 characters>"}]}
        assert extra["usage"] == {"prompt_tokens": 12}
    assert json.loads(to_frame("agents", [page])["extra"][1])["region"] == "eu"
    assert json.loads(to_frame("agents", [page], reveal=True)["extra"][0])["api_key"] == secret


def test_a_repeated_key_hides_no_secret_behind_its_last_value() -> None:
    page = b'{"items":[{"id":"e1","trace":{"token":"s3cret","token":null}},{"id":"e2","trace":{"a":null,"a":1e400}}]}'
    first, second = to_frame("events", [page])["extra"]
    assert "s3cret" not in first
    assert second == '{"trace":{"a":null,"a":1e400}}'


def test_no_secret_in_errors_of_a_load_that_stops_half_way() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.params.get("offset"):
            return httpx.Response(400, json={"status": 400, "error": "InvalidInput", "message": "no"})
        items = [{**CREDENTIAL, "id": f"c{n}"} for n in range(500)]
        return httpx.Response(200, json={"items": items, "pagination": {"total_count": 900, "has_more": True}})

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(ab.PartialLoad) as raised:
        client.credentials.list("acme").to_pandas()
    error = raised.value
    with pd.option_context("display.max_columns", None, "display.max_colwidth", None):
        shown = repr(error) + str(error) + repr(vars(error)) + error.partial_frame.to_csv()
    assert len(error.partial_frame) == 500
    assert SECRET not in shown
    with pytest.raises(ValueError) as missing:
        ab.credential_report(error.partial_frame.drop(columns="params"))
    assert SECRET not in str(missing.value)


def test_a_report_of_a_revealed_frame_reveals_nothing() -> None:
    revealed = to_frame("credentials", [json.dumps({"items": [CREDENTIAL]}).encode()], reveal=True)
    assert SECRET in revealed.to_csv()
    report = ab.credential_report(revealed)
    shown = report.to_csv() + ab.credential_findings(report).to_csv() + ab.credential_summary(report).to_csv()
    assert SECRET not in shown + json.dumps(report.attrs)
    assert report["webhook_host"].to_list() == ["hooks.example.com"]


def test_revealing_warns_in_a_notebook_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    FrameBuilder("credentials", reveal=True)  # warnings are errors here: none came

    class Shell:
        kernel = object()

    class IPython:
        @staticmethod
        def get_ipython() -> Shell:
            return Shell()

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    with pytest.warns(UserWarning, match="clear its outputs before you share"):
        FrameBuilder("credentials", reveal=True)
    FrameBuilder("credentials")
    FrameBuilder("events", reveal=True)
