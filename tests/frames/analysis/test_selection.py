"""``by=``, ``since=``, ``until=`` and ``top=`` mean the same in tables and charts."""

from __future__ import annotations

import inspect
import warnings

import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.errors import EmptyWarning
from agentbook.frames.analysis.arguments import keep_top, with_advice
from agentbook.frames.parse.frame import to_frame
from frames.analysis.test_bad_input import same
from frames.plot.test_plot import credentials_of, events_of
from frames.test_tabular import loaded, public_functions

NOW = pd.Timestamp("2026-10-08T12:00Z")


def with_parameter(name: str) -> list[str]:
    return [function for function, call in public_functions().items() if name in inspect.signature(call).parameters]


def data_for(function: str) -> pd.DataFrame:
    if "credential" in function:
        return credentials_of(9)
    return loaded("contexts") if function == "context_status" else events_of()


# -- in every function -------------------------------------------------------------


@pytest.mark.parametrize("function", with_parameter("since"))
def test_a_span_that_makes_no_sense_says_what_to_do(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    with pytest.raises(ValueError, match="since must be before until"):
        call(data, since="2026-10-08", until="2026-10-01")


@pytest.mark.parametrize("function", with_parameter("since"))
def test_a_span_without_anything_in_it_says_where_the_data_are(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    with pytest.warns(EmptyWarning, match=r"none of \d+ rows lies in the span .* They are from 2026-10-0") as caught:
        call(data, until="2001-01-01")
    assert caught[0].filename == __file__, "the warning points at the caller's line"


@pytest.mark.parametrize("function", with_parameter("by"))
def test_an_unknown_group_names_the_columns_there_are(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    with pytest.raises(ValueError, match=rf"^{function} cannot group by 'colour', which is not a column") as raised:
        call(data, by="colour")
    assert "workspace_id" in str(raised.value) or "integration" in str(raised.value)


@pytest.mark.parametrize("function", with_parameter("top"))
def test_top_is_a_positive_number_of_groups(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    by = {} if function in ("credential_summary", "plot.credentials", "plot.authors") else {"by": "workspace_id"}
    with pytest.raises(ValueError, match="keeps the top= largest groups: a whole number of 1 or more"):
        call(data, **by, top=0)


@pytest.mark.parametrize(
    "function",
    ["activity", "session_summary", "hour_of_week", "credential_report", "credential_summary", "context_status"],
)
def test_an_empty_frame_is_said_to_be_empty(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    source = {
        "credential_report": "credentials.list",
        "credential_summary": "credentials.list",
        "context_status": "contexts",
    }
    advice = source.get(function, "ab.load_history")
    with pytest.warns(EmptyWarning, match=rf"the frame has no rows.*{advice}\("):
        empty = call(data.iloc[:0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyWarning)
        assert list(empty.columns) == list(call(data).columns)


def test_dask_meets_empty_frames_in_silence() -> None:
    pytest.importorskip("dask")
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyWarning)
        assert len(ab.dask.meta_of(ab.session_summary)) == 0


# -- spans -------------------------------------------------------------------------


def test_other_spans_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="since must be before until"):
        ab.activity(events_of(), since="1h", until="2h")
    with pytest.raises(ValueError, match="since must be a time such as"):
        ab.activity(events_of(), since="soon")


def test_a_span_includes_its_begin_and_not_its_end() -> None:
    events = events_of()
    begin, end = events["created_at"].iloc[5], events["created_at"].iloc[20]
    inside = events[(events["created_at"] >= begin) & (events["created_at"] < end)]
    table = ab.activity(events, since=begin, until=end)
    same(table, ab.activity(inside))
    assert table.attrs["agentbook"]["since"] == begin.isoformat()
    same(ab.hour_of_week(events, since=begin, until=end), ab.hour_of_week(inside))
    assert len(ab.activity(events, since="30d")) == len(ab.activity(events)), "before the frame was loaded"


def test_a_turn_belongs_to_the_span_of_its_question() -> None:
    events = events_of()
    times = ab.turns(events)["asked_at"].dropna().sort_values()
    begin = times.iloc[4] + pd.Timedelta("1s")  # between a question and its reply
    summary = ab.session_summary(events, since=begin)
    assert summary["turns"].sum() == (ab.turns(events)["asked_at"] >= begin).sum()
    assert (summary["first_at"] >= begin).all()


# -- groups ------------------------------------------------------------------------


def test_the_smallest_groups_are_counted_together() -> None:
    events = events_of(10, sessions=4)
    events = events[~((events["session_id"] == "s3") & (events.index % 2 == 0))]
    whole, table = (ab.activity(events, "1D", by="workspace_id", top=top) for top in (None, 2))
    assert set(table["workspace_id"]) == {"w0", "w1", "other"}
    assert table["events"].sum() == whole["events"].sum()
    other = table[table["workspace_id"] == "other"]
    assert other["sessions"].tolist() == [2]
    same(ab.activity(events, "1D", by="workspace_id", top=4), whole)


def test_groups_of_null_and_of_several_columns_are_kept_too() -> None:
    frame = pd.DataFrame({"a": ["x", "x", None, None, "y"], "n": pd.array([1, 1, 2, 2, 3], dtype="Int64")})
    top = keep_top(frame, ["a", "n"], 2, caller="f")
    assert top["a"].fillna("?").to_list() == ["x", "x", "?", "?", "other"]
    assert top["n"].to_list() == ["1", "1", "2", "2", "other"]
    with pytest.raises(ValueError, match="f has no groups to choose the top 3 of: add by="):
        keep_top(frame, [], 3, caller="f")
    for wrong in (-1, 2.5, "3", True):
        with pytest.raises(ValueError, match="a whole number of 1 or more"):
            keep_top(frame, ["a"], wrong, caller="f")  # type: ignore[arg-type]


def test_a_column_of_lists_is_no_group() -> None:
    report = ab.credential_report(credentials_of(3), to_frame("workspaces", [b'{"items": [{"id": "w"}]}']))
    with pytest.raises(ValueError, match=r"cannot group by 'open_in', a column of lists.* frame\.explode\('open_in'\)"):
        ab.credential_summary(report, by="open_in")


def test_contexts_are_counted_by_more_than_their_status() -> None:
    contexts = pd.concat([loaded("contexts").assign(id=str(n), workspace_id=f"w{n % 3}") for n in range(7)])
    table = ab.context_status(contexts, by="workspace_id", top=1)
    assert table[["workspace_id", "contexts"]].to_numpy().tolist() == [["other", 4], ["w0", 3]]


def test_only_an_empty_frame_carries_advice_and_the_frame_itself_is_untouched() -> None:
    events = events_of()
    empty = events.iloc[:0]
    assert with_advice(events, "no sessions yet") is events
    assert with_advice(empty, "") is empty
    advised = with_advice(empty, "no sessions yet")
    assert advised.attrs["agentbook"]["advice"] == "There are no sessions yet."
    assert "advice" not in empty.attrs.get("agentbook", {})
