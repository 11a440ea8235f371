"""Pages to frames: what the columns hold, and that no value is ever lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.parse.frame import FrameBuilder, to_frame
from agentbook.frames.parse.schemas import SCHEMAS
from frames.parse.pages import page
from support.fake_platform.core import event_id

SESSION = "019a0b1c-0000-7000-8000-00000000000a"
EVENT = {
    "id": "019a0b1c-0000-7000-8000-000000000001", "type": "runtime_done", "content": {"text": "Hello", "model": "m1"},
    "task_id": "019a0b1c-0000-7000-8000-000000000002", "author": {"type": "agent", "id": "a1", "name": "guide"},
    "created_at": "2026-10-03T08:15:00.250000Z", "updated_at": "2026-10-03T10:15:00.250000+02:00"
}  # fmt: skip

AGENTS: list[dict[str, Any]] = [
    {},
    {"name": "a", "tags": ["x", None], "is_public": True, "category": "c", "created_at": "2026-10-03T08:15:00Z"},
    {"name": None, "tags": None, "is_public": None, "owner": {"id": "o", "name": "n", "type": "user"}},
    {"name": 5, "tags": "x", "is_public": "yes", "category": {"name": "c", "id": 1}, "owner": {"id": 1, "name": 2}},
    {"tags": ["x", 1, {"y": 2}], "created_at": "yesterday", "latest_version": 3, "region": "eu"},
    {"tags": [["x"]], "category": ["c"], "owner": {"region": "eu", "more": {"deep": [1]}}, "is_pinned": 1},
]


def test_an_event_is_opened_into_typed_columns() -> None:
    row = to_frame("events", [page(EVENT)], context={"session_id": SESSION}).iloc[0]
    assert row[["id", "session_id", "type", "author_type", "author_id", "author_name", "text"]].to_list() == [
        EVENT["id"], SESSION, "runtime_done", "agent", "a1", "guide", "Hello",
    ]  # fmt: skip
    assert json.loads(row["content"]) == {"model": "m1"}
    assert row["created_at"] == row["updated_at"] == pd.Timestamp("2026-10-03T08:15:00.25Z")
    assert row["at"] == pd.Timestamp(int("019a0b1c0000", 16), unit="ms", tz="UTC")
    assert pd.isna(row["extra"])


@pytest.mark.parametrize("resource", SCHEMAS)
def test_every_resource_has_its_columns_and_dtypes_with_and_without_rows(resource: str) -> None:
    expected = {column.name: column.dtype for column in SCHEMAS[resource].columns}
    for pages in ([], [page()], [page({"id": "x"})], [page({"id": "x"}), page({"id": 5, "created_at": "never"})]):
        assert to_frame(resource, pages).dtypes.map(str).to_dict() == expected


def test_the_schemas_name_every_field_of_the_specification() -> None:
    documented = {
        "workspaces": "id created_at updated_at creator_id name full_name owner_id restrict_account_credentials "
        "should_restrict_members unlimited_power_mode unlimited_power_mode_enabled archived_at archived_by_id "
        "required_credentials_mode archived_by creator is_viewer_member owner",
        "credentials": "id auth_config_id creator_id owner_id target_id created_at updated_at extra_data params "
        "webhook_owner_identifier config_params creator has_active_webhook_triggers integration policy_resources "
        "signature_type target webhook_enabled webhook_url",
        "contexts": "id task_id workspace_id published_by_id created_at updated_at generated_context manual_context "
        "summary status task type",
        "invitations": "id creator_id invitee_id organization_id created_at updated_at role status invitee type",
        "sessions": "id workspace_id initiator_id name created_at updated_at",
        "events": "id type content task_id created_at updated_at",
    }
    for resource, fields in documented.items():
        schema = SCHEMAS[resource]
        named = {column.wire.partition(".")[0] for column in schema.columns if column.wire} | set(schema.opaque)
        assert set(fields.split()) <= named, resource


def test_unknown_and_opaque_fields_are_kept_as_json() -> None:
    workspace = {
        "id": "w",
        "owner": {"name": "ada", "type": "user", "bio": "x"},
        "creator": {"id": 1},
        "new.field": [1, 2],
    }
    frame = to_frame("workspaces", [page({"id": "v"}), page(workspace)])
    assert frame["owner_name"].to_list()[1] == "ada"
    assert pd.isna(frame["extra"][0])
    assert json.loads(frame["extra"][1]) == {"owner": {"bio": "x"}, "creator": {"id": 1}, "new.field": [1, 2]}
    assert frame.attrs["agentbook"]["problems"] == []


@pytest.mark.parametrize("resource", sorted(SCHEMAS.keys() - {"events"}))
def test_a_content_of_another_record_is_an_unknown_field(resource: str) -> None:
    for content in ({}, {"text": "x"}, {"a": {"b": [1]}}, "x", [1], 1, True, None):
        items = [page({"id": "a", "content": content}), page({"id": "b", "content": content, "id2": [1]}, {"id": "c"})]
        frame = to_frame(resource, items)
        extra = [None if pd.isna(text) else json.loads(text) for text in frame["extra"]]
        if resource == "credentials":  # whose unknown values are masked
            assert [each and list(each) for each in extra] == [["content"], ["content", "id2"], None]
        else:
            assert extra == [{"content": content}, {"content": content, "id2": [1]}, None]
        assert frame.attrs["agentbook"]["problems"] == []


def test_instants_without_a_zone_are_utc_and_said_and_finer_ones_are_cut() -> None:
    frame = to_frame(
        "events",
        [page({"id": "1", "created_at": "2026-10-03T08:15:00", "updated_at": "2026-10-03T08:15:00.123456789+00:00"})],
    )
    assert frame["created_at"][0] == pd.Timestamp("2026-10-03T08:15:00Z")
    assert frame["updated_at"][0] == pd.Timestamp("2026-10-03T08:15:00.123456Z")
    assert [problem["field"] for problem in frame.attrs["agentbook"]["problems"]] == ["created_at"]


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"pagination": {}}', b'{"items": 3}', b"\xff\xfe", b"[" * 5000]
)
def test_a_page_that_cannot_be_read_makes_the_load_incomplete(body: bytes) -> None:
    frame = to_frame("events", [page(EVENT), body], provenance={"complete": True})
    assert len(frame) == 1
    assert frame.attrs["agentbook"]["complete"] is False
    assert frame.attrs["agentbook"]["problem_count"] == 1


def test_a_number_beyond_all_bounds_is_kept() -> None:
    pages = [b'{"items":[{"id":"1","%b":1e400}]}' % name for name in (b"type", b"name")]
    assert to_frame("sessions", pages)["extra"].tolist() == ['{"type":1e400}', '{"name":1e400}']


def test_what_the_item_says_goes_before_what_the_request_says() -> None:
    builder = FrameBuilder("events", {"session_id": "asked", "workspace_id": "w1"})
    builder.add(page({"id": "1"}, {"id": "2", "session_id": "own"}))
    builder.add(page({"id": "3"}), {"session_id": "other", "agent_id": "a1"})
    frame = builder.finish()
    assert frame["session_id"].to_list() == ["asked", "own", "other"]
    assert frame["workspace_id"].to_list() == ["w1"] * 3
    assert frame["agent_id"].isna().to_list() == [True, True, False]


def test_provenance_survives_slicing_and_is_json() -> None:
    provenance = {"operation": "sessions.events", "loaded_at": datetime(2026, 10, 3, tzinfo=UTC), "requests": 2}
    frame = to_frame("events", [page(EVENT, EVENT)], provenance=provenance)
    for derived in (frame, frame.copy(), frame[frame["type"] == "runtime_done"], frame.iloc[:1], frame[["id"]]):
        assert derived.attrs == frame.attrs
    assert json.loads(json.dumps(frame.attrs))["agentbook"]["loaded_at"] == "2026-10-03T00:00:00Z"
    assert frame.attrs["agentbook"]["complete"] is True


def test_categories_do_not_depend_on_how_the_rows_were_paged() -> None:
    events = [{"id": "1", "type": "b"}, {"id": "2", "type": "a"}, {"id": "3"}]
    whole, paged = to_frame("events", [page(*events)]), to_frame("events", [page(event) for event in reversed(events)])
    assert whole["type"].cat.categories.to_list() == ["a", "b"]
    pd.testing.assert_frame_equal(whole, paged[::-1].reset_index(drop=True))


def test_opaque_values_of_another_shape_are_no_problem() -> None:
    item = {"id": "1", "webhook_enabled": "yes", "integration": ["x"], "signature_type": {"label": "hmac", "bits": 256}}
    frame = to_frame("credentials", [page(item)], reveal=True)
    assert pd.isna(frame["webhook_enabled"][0])
    assert frame["signature_type"][0] == "hmac"
    assert json.loads(frame["extra"][0]) == {key: value for key, value in item.items() if key != "id"}
    assert frame.attrs["agentbook"]["problem_count"] == 0


def test_an_unknown_resource_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="events"):
        to_frame("event", [])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("resource", SCHEMAS)
@given(data=st.data())
def test_whatever_an_item_holds_is_a_row_with_everything_in_it(resource: str, data: st.DataObject) -> None:
    schema = SCHEMAS[resource]
    wires = sorted({column.wire.partition(".")[0] for column in schema.columns if column.wire})
    names = st.sampled_from(wires) | st.text(max_size=6)
    items = data.draw(st.lists(st.dictionaries(names, JSON, max_size=6) | JSON, max_size=4))
    split = data.draw(st.integers(0, len(items)))
    frame = to_frame(resource, [page(*items[:split]), page(*items[split:])], reveal=True)
    assert len(frame) == len(items)
    assert frame.dtypes.map(str).to_dict() == {column.name: column.dtype for column in SCHEMAS[resource].columns}
    columns_of = {column.wire: column for column in schema.columns if column.name != "extra"}
    for (_, row), item in zip(frame.iterrows(), items, strict=True):
        extra = {} if pd.isna(row["extra"]) else json.loads(row["extra"])
        if not isinstance(item, dict):
            assert extra == {"$item": item}
            continue
        for key, value in item.items():
            if (key in extra and not isinstance(extra[key], dict)) or key not in wires:
                assert extra[key] == value
            elif (
                key in columns_of
                and key != "content"
                and not (columns_of[key].kind == "label" and opened(row[key], value))
            ):
                assert holds(row[columns_of[key].name], columns_of[key].kind, value) or extra[key] == value


def holds(cell: Any, kind: str, value: Any) -> bool:
    """Whether a cell of a column of this kind says all that the value says."""
    if value is None:
        return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))
    if kind == "list":
        return (
            isinstance(value, list)
            and [
                item if item is None or isinstance(source, str) else json.loads(item)
                for item, source in zip(cell, value, strict=True)
            ]
            == value
        )
    if pd.isna(cell):
        return False
    if kind in ("json", "masked"):
        return bool(json.loads(cell) == value)
    if kind == "time":
        return isinstance(value, str)
    return bool(cell == value)


def opened(cell: Any, value: Any) -> bool:
    """Whether a label says all there is in an object."""
    return isinstance(value, dict) and list(value.values()) == [cell]


def test_times_may_have_the_small_letters_of_rfc_3339() -> None:
    times = ["2026-11-01t09:00:00z", "2026-11-01T09:00:00Z"]
    frame = to_frame("events", [page(*({"id": str(number), "created_at": at} for number, at in enumerate(times)))])
    assert frame["created_at"].to_list() == [pd.Timestamp("2026-11-01T09:00Z")] * 2
    assert frame.attrs["agentbook"]["problem_count"] == 0


def test_a_list_is_an_arrow_list_and_any_other_shape_is_kept() -> None:
    items = [
        {"id": "1", "tags": ["a", "Ü"]}, {"id": "2", "tags": []}, {"id": "3", "tags": None}, {"id": "4"},
        {"id": "5", "tags": [{"name": "x"}, 7, None]}, {"id": "6", "tags": "a,b"},
    ]  # fmt: skip
    frame = to_frame("agents", [page(*items)])
    assert frame["tags"].dtype == pd.ArrowDtype(pa.list_(pa.large_string()))
    null = pd.NA
    assert frame["tags"].to_list() == [["a", "Ü"], [], null, null, ['{"name":"x"}', "7", None], null]
    assert json.loads(frame["extra"][5]) == {"tags": "a,b"}
    assert frame.attrs["agentbook"]["problem_count"] == 0


@pytest.mark.parametrize(
    ("resource", "item"),
    [
        ("sessions", {"status": "IDLE", "initiator": {"name": "ada"}}),
        ("agents", {"full_name": "acme~helper", "latest_version": "1.0.0"}),
        ("skills", {"full_name": "acme~sql"}),
    ],
)
def test_what_known_platforms_send_has_a_column(resource: str, item: Any) -> None:
    row = to_frame(resource, [page({"id": "1", **item})]).iloc[0]
    assert pd.isna(row["extra"])
    assert [row[name] for name in item if name != "initiator"] == [item[name] for name in item if name != "initiator"]
    assert row.get("initiator_name", "ada") == "ada"
    assert to_frame(resource, [page({"id": "1"})]).iloc[0].drop("id").isna().all(), "null where it is not sent"


@given(st.lists(st.sampled_from(range(len(AGENTS))), min_size=1, max_size=6))
def test_values_of_undocumented_types_are_read_alike_together_in_turn_and_alone(numbers: list[int]) -> None:
    items = [{"id": str(position), **AGENTS[number]} for position, number in enumerate(numbers)]
    alone = pd.concat([to_frame("agents", [page(item)]) for item in items], ignore_index=True)
    for read in (to_frame("agents", [page(*items)]), to_frame("agents", [page(item) for item in items])):
        for name in read:
            assert read[name].astype(object).map(repr).to_list() == alone[name].astype(object).map(repr).to_list()


@pytest.mark.parametrize("odd", ["9999-12-31T23:59:59-01:00", "9999-06-01T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_some_zone_cannot_show_is_a_problem_of_its_row(odd: str, tmp_path: Path) -> None:
    person = {"author": {"type": "user", "id": "k", "name": "ada"}}
    events = [{"id": f"0199a0b2-0000-7000-8000-00000000000{n}", "type": "message", **person} for n in range(2)]
    items = [{**event, "created_at": at} for event, at in zip(events, (odd, "2026-10-03T08:00:00Z"), strict=True)]
    frame = to_frame("events", [page(*items)], context={"session_id": "s"})
    assert frame["created_at"].isna().tolist() == [True, False]
    assert json.loads(frame["extra"].iloc[0]) == {"created_at": odd}
    assert ab.load_problems(frame)[["row", "field", "raw"]].values.tolist() == [[0, "created_at", json.dumps(odd)]]
    for tz in ("Pacific/Kiritimati", "America/Lima"):
        history = ab.History(frame, to_frame("sessions", []), tz=tz)
        assert ab.hour_of_week(history).to_numpy().sum() == 1
        assert len(ab.activity(history)) == 1
        assert len(ab.anonymize(history).turns) == 2
        history.report(tmp_path / "report.html")


def test_a_value_that_is_nested_too_deeply_is_named_and_hides_only_itself() -> None:
    deep = b'{"text":"Hi","result":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
    frame = to_frame("events", [b'{"items":[{"id":"1"},{"id":"2","type":"message","content":%b},{"id":"3"}]}' % deep])
    assert frame["id"].to_list() == ["1", "2", "3"]
    assert frame.loc[1, ["type", "text"]].to_list() == ["message", "Hi"]
    problems = frame.attrs["agentbook"]["problems"]
    assert [(problem["row"], problem["field"]) for problem in problems if problem["row"] is not None] == [
        (1, "content")
    ]


def test_every_bad_item_is_a_row_or_a_problem() -> None:
    good = {"id": event_id(1, 1), "type": "note", "created_at": "2026-10-03T08:15:00Z"}
    items = [
        good, "malformed", {}, {**good, "id": event_id(2, 2), "type": ["wrong"], "created_at": 7},
        {**good, "id": event_id(3, 3), "created_at": "2026-10-03T10:15:00"},
        {**good, "id": event_id(4, 4), "created_at": "2026-10-03T10:15:00+02:00"}, good
    ]  # fmt: skip
    body = json.dumps({"items": items}).replace('"malformed"', "NaN")
    frame = to_frame("events", [body.encode()], context={"session_id": "s"})
    assert len(frame) == len(items)
    problems = ab.load_problems(frame)
    locations = set(zip(problems["row"].fillna(-1), problems["field"], strict=True))
    assert locations >= {(1, "$item"), (2, "id"), (3, "type"), (3, "created_at"), (4, "created_at")}
    assert problems["problem"].ne("").all()
    assert frame["created_at"].dropna().dt.hour.to_list() == [8, 10, 8, 8], "every zone is UTC"
    assert json.loads(frame["extra"][3]) == {"type": ["wrong"], "created_at": 7}
    with pytest.warns(UserWarning, match="2 of 7 rows"):
        table, activity = ab.turns(frame), ab.activity(frame)
    assert table.attrs["agentbook"]["dropped"] == 3, "two without an id, one that came twice"
    assert activity.attrs["agentbook"]["undated"] == 1
