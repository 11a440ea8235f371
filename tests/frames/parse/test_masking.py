"""No frame shows a secret, unless it is told to."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pandas as pd

from agentbook.api.record import Record
from agentbook.frames.parse.frame import to_frame
from frames.parse.pages import page

SECRET = "sk-proj-5up3rs3cret"

CREDENTIAL = {
    "id": "c1",
    "integration": {"name": "github", "client_secret": SECRET},
    "signature_type": {"key": SECRET},
    "params": {"token": SECRET, "nested": {"list": [SECRET, 123456]}},
    "extra_data": {"refresh": SECRET},
    "config_params": SECRET,
    "webhook_owner_identifier": SECRET,
    "webhook_url": f"https://u:{SECRET}@hooks.example.com/{SECRET}?k={SECRET}",
    "access_token": SECRET,
    "target": {"id": "t1", "password": SECRET},
    "auth_config_id": {"oops": SECRET},
    "created_at": SECRET,
}


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


def test_a_secret_whose_name_is_spelt_with_escapes_is_masked() -> None:
    body = b'{"items":[{"id":"e1","metadata":{"\\u0074oken":"sk-12345"}}]}'
    frame = to_frame("events", [body])
    assert json.loads(frame["extra"].iloc[0]) == {"metadata": {"token": "<string, 8 characters>"}}


def test_a_repeated_key_hides_no_secret_behind_its_last_value() -> None:
    page = b'{"items":[{"id":"e1","trace":{"token":"s3cret","token":null}},{"id":"e2","trace":{"a":null,"a":1e400}}]}'
    first, second = to_frame("events", [page])["extra"]
    assert "s3cret" not in first
    assert second == '{"trace":{"a":null,"a":1e400}}'
