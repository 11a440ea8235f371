"""What the notebooks say about the demo's month, as functions that hold on it.

There are seven months, one for each weekday that today can be. A notebook shows one of
them, so what its prose claims is a fact here, and `test_facts` calls each fact with all
seven, at four hours of the day. Each is named by its notebook and what it says. What
*scribe* replies depends on the manual alone; those claims are tests in `test_facts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import pandas as pd

import agentbook as ab
from agentbook.service import demo
from agentbook.service.demo.agents.scribe import Scribe
from service.engines.engine_runs import reply


@dataclass(frozen=True)
class Month:
    """A history of *acme*, when the newest versions were published, and today.

    `granted` has a row for each workspace in which a credential is granted.
    """

    history: ab.History
    published: dict[str, pd.Timestamp]
    today: pd.Timestamp
    granted: pd.DataFrame

    @property
    def as_of(self) -> pd.Timestamp:
        return self.history.turns["asked_at"].max()

    @property
    def answered(self) -> pd.DataFrame:
        turns = self.history.turns
        return turns[turns["status"] == "answered"]

    @property
    def incident(self) -> pd.Timestamp:
        """The day of the incident."""
        return self.today - pd.Timedelta("27D")

    def in_incident(self, at: pd.Series) -> pd.Series:
        """Whether each time is in the hours of the incident."""
        return at.between(self.incident + pd.Timedelta("9h"), self.incident + pd.Timedelta("15h"))

    def last_days(self, days: int) -> pd.DataFrame:
        """The answered turns since the beginning of the day this many days ago."""
        return self.answered[self.answered["asked_at"] >= self.today - pd.Timedelta(days=days)]

    def since(self, agent: str) -> pd.Series:
        """Whether each answered turn was asked after the release of the version."""
        return self.answered["asked_at"] >= self.published[agent]

    def daily(self, turns: pd.DataFrame, quantile: float) -> pd.Series:
        return turns.groupby(turns["asked_at"].dt.floor("D"))["latency_s"].quantile(quantile)


FACTS: list[Callable[[Month], None]] = []


def fact(check: Callable[[Month], None]) -> Callable[[Month], None]:
    FACTS.append(check)
    return check


@fact
def first_look_office_hours_stand_out_and_weekends_are_quieter(month: Month) -> None:
    created = month.history.events["created_at"].dt
    assert created.hour.between(7, 17).mean() > 0.8
    of_weekday = created.day_of_week.value_counts()
    assert of_weekday[[5, 6]].max() < 0.9 * of_weekday[[0, 1, 2, 3, 4]].min()


@fact
def first_look_a_dark_square_on_a_weekend_is_mostly_the_work_of_a_single_day(month: Month) -> None:
    created = month.history.events["created_at"]
    squares = created.groupby([created.dt.day_of_week, created.dt.hour])
    usual = squares.size().loc[0:4, 8:16].median()
    for (day, _), square in squares:
        if day >= 5 and len(square) > 0.6 * usual:
            assert square.dt.date.value_counts().max() > 0.6 * len(square)


@fact
def first_look_the_highest_daily_median_is_that_of_the_incident_27_days_ago(month: Month) -> None:
    daily = month.daily(month.answered, 0.5)
    assert daily.idxmax() == month.incident
    whole = daily.drop(month.today, errors="ignore")  # today may have had one reply
    assert daily.max() > 1.5 * whole.drop(month.incident).max()


@fact
def first_look_most_daily_medians_are_between_four_and_eight_seconds(month: Month) -> None:
    assert month.daily(month.answered, 0.5).between(4, 8).mean() > 0.8


@fact
def first_look_the_band_reaches_twenty_seconds_on_most_of_the_last_eight_days(month: Month) -> None:
    edge = month.daily(month.answered, 0.95)
    assert (edge.tail(8) > 20).mean() > 0.7
    assert (edge.iloc[:-9] > 20).mean() < 0.2


@fact
def activity_working_days_stand_out_from_eight_to_seven_in_berlin(month: Month) -> None:
    at = month.history.events["created_at"].dt.tz_convert("Europe/Berlin").dt
    assert at.hour[at.day_of_week < 5].between(8, 18).mean() > 0.85


@fact
def activity_from_eight_days_ago_on_the_edge_is_higher_and_the_line_has_hardly_moved(month: Month) -> None:
    start = month.today - pd.Timedelta("8D")
    assert month.published["data-desk"].floor("D") == start
    for quantile, least, most in ((0.5, 1.0, 1.3), (0.95, 1.8, 4.0)):
        daily = month.daily(month.answered, quantile)
        ratio = daily[daily.index >= start].median() / daily[daily.index < start].median()
        assert least < ratio < most, quantile


@fact
def activity_on_the_day_of_the_incident_most_replies_were_slow(month: Month) -> None:
    is_day = month.answered["asked_at"].dt.floor("D") == month.incident
    usual = month.answered.loc[~is_day, "latency_s"].quantile(0.9)
    assert (month.answered.loc[is_day, "latency_s"] > usual).mean() > 0.6


@fact
def activity_errors_are_most_frequent_then_timeouts(month: Month) -> None:
    assert ab.failures(month.history)["kind"].head(2).to_list() == ["error", "turn_timeout"]


@fact
def activity_data_has_one_turn_in_five_and_nearly_all_slow_replies(month: Month) -> None:
    recent = month.last_days(8)
    assert 0.15 < (recent["workspace"] == "acme~data").mean() < 0.25
    assert (recent.loc[recent["latency_s"] > 20, "workspace"] == "acme~data").mean() > 0.97


@fact
def activity_without_data_the_edge_has_hardly_changed(month: Month) -> None:
    edge = month.daily(month.answered[month.answered["workspace"] != "acme~data"], 0.95)
    recent = edge.index >= month.today - pd.Timedelta("8D")
    assert 0.8 < edge[recent].median() / edge[~recent].median() < 1.25
    assert edge[recent].max() < 20


@fact
def activity_the_line_of_data_rises_and_stays_high(month: Month) -> None:
    line = month.daily(month.answered[month.answered["workspace"] == "acme~data"], 0.5)
    is_recent = line.index >= month.today - pd.Timedelta("8D")
    assert line[is_recent].min() > line[~is_recent].max()


@fact
def activity_there_was_more_work_and_no_worse_results(month: Month) -> None:
    changes = ab.compare_periods(month.history.events, period="7D", as_of=month.history.events["created_at"].max())
    assert changes["metric"].iloc[0] in ("sessions", "events", "turns", "answered")
    of = changes.set_index("metric")
    assert of.loc["sessions", "significant"]
    for grew in ("sessions", "events", "turns"):
        assert of.loc[grew, "ratio"] > 1.3
    assert not of.loc[["failed_share", "latency_p50_s"], "significant"].any()


@fact
def activity_on_call_has_the_largest_share_of_failed_turns(month: Month) -> None:
    turns = month.history.turns
    share = (turns["status"] == "failed").groupby(turns["workspace"], observed=True).mean()
    assert share.idxmax() == "acme~on-call"


@fact
def credentials_the_red_parts_are_of_github_and_stripe(month: Month) -> None:
    report = ab.credential_report(month.history.credentials, month.history.workspaces, granted=month.granted)
    assert sorted(report.loc[report["severity"] == "high", "integration"]) == ["github", "stripe"]
    assert report["last_used_at"].isna().all()


@fact
def credentials_never_updated_is_found_after_180_days(month: Month) -> None:
    report = ab.credential_report(month.history.credentials, month.history.workspaces, granted=month.granted)
    by_age = report.groupby("age_bucket", observed=False)["never_updated"].sum()
    found = ab.credential_findings(report)["check"]
    assert 0 < found.eq("never_updated").sum() == by_age.iloc[-2:].sum() < by_age.sum()


@fact
def credentials_what_the_restricted_workspaces_can_use(month: Month) -> None:
    report = ab.credential_report(month.history.credentials, month.history.workspaces, granted=month.granted)

    def share(pool: str, column: str, workspace: str) -> float:
        lists = report.loc[report["pool"] == pool, column]
        return lists.map(lambda names: f"acme~{workspace}" in names).mean()

    assert share("account", "open_if_granted", "on-call") > 0.5
    assert share("account", "closed_in", "sales") == share("member", "closed_in", "support") == 1
    assert share("account", "closed_in", "support") == share("member", "closed_in", "sales") == 0
    assert share("account", "closed_in", "onboarding") == share("member", "closed_in", "onboarding") == 1


@fact
def slower_only_data_desk_got_slower_at_its_release(month: Month) -> None:
    release = month.published["data-desk"]
    spans = {"a": (release - pd.Timedelta("7D"), release), "b": (release, month.as_of)}
    changes = ab.compare_periods(month.history, by="agent", metric="latency", **spans)
    assert changes.loc[changes["significant"], "agent"].to_list() == ["data-desk"]
    assert changes["agent"].iloc[0] == "data-desk"
    assert changes["ratio"].iloc[0] > 2


@fact
def slower_nine_in_ten_replies_take_longer_than_half_of_them_used_to(month: Month) -> None:
    latency = month.answered["latency_s"]
    is_data_desk = month.answered["agent"] == "data-desk"
    before = latency[is_data_desk & ~month.since("data-desk")].median()
    assert (latency[is_data_desk & month.since("data-desk")] > before).mean() > 0.9


@fact
def slower_the_earlier_peak_is_an_incident_that_made_other_agents_slow_too(month: Month) -> None:
    answered, day = month.answered, month.incident
    earlier = month.daily(answered[~month.since("data-desk")], 0.95)
    assert earlier.idxmax() == day
    in_incident = month.in_incident(answered["asked_at"])
    before = answered["asked_at"] < month.published["helpdesk"]
    for agent in ("data-desk", "helpdesk", "incident-helper"):
        latency = answered.loc[(answered["agent"] == agent) & before, "latency_s"]
        assert latency[in_incident].median() > 2 * latency[~in_incident].median(), agent


@fact
def slower_helpdesk_got_slower_at_its_own_release_ten_days_before(month: Month) -> None:
    release = month.published["helpdesk"]
    assert month.published["data-desk"] - release == pd.Timedelta("10D")
    spans = {"a": (release - pd.Timedelta("7D"), release), "b": (release, release + pd.Timedelta("7D"))}
    of_helpdesk = month.history.turns[month.history.turns["agent"] == "helpdesk"]
    change = ab.compare_periods(of_helpdesk, by="agent", metric="latency", **spans).iloc[0]
    assert change["significant"]
    assert 1.3 < change["ratio"] < 2


@fact
def readme_the_last_two_weeks_show_that_data_desk_got_slower(month: Month) -> None:
    change = ab.compare_periods(month.history, by="agent", metric="latency").iloc[0]
    assert change["agent"] == "data-desk"
    assert change["significant"]


@fact
def every_analysis_data_takes_longest_but_for_the_week_of_the_incident(month: Month) -> None:
    medians = month.answered.groupby("workspace", observed=True)["latency_s"].median().sort_values()
    assert medians.index[-1] == "acme~data"
    assert medians.iloc[-1] > 10
    assert medians.iloc[-2] < 9
    week = month.answered["asked_at"].dt.tz_localize(None).dt.to_period("W")
    in_week = month.answered[week == month.incident.tz_localize(None).to_period("W")]
    by_workspace = in_week.groupby("workspace", observed=True)["latency_s"].median()
    assert by_workspace.drop("acme~data").max() > 10


@fact
def every_analysis_all_but_guide_and_echo_have_usage(month: Month) -> None:
    used = ab.usage(month.history, by="agent").set_index("agent")["with_usage"]
    assert set(used.index[used == 0]) == {"guide", "echo"}
    turns = month.history.turns
    without = turns[turns["model"].isna()]
    assert (without["agent"].isin(["guide", "echo"]) | (without["status"] != "answered")).all()
    assert pd.isna(ab.usage(month.history, by="model")["model"].iloc[-1])


@fact
def every_analysis_run_sql_fails_most_often_and_each_failed_run_was_run_again(month: Month) -> None:
    steps = ab.steps(month.history.events)
    failed = steps.loc[steps["status"] == "failed", "name"].value_counts()
    assert failed.index[0] == "run_sql"
    assert len(failed) >= 4
    last = steps.sort_values("started_at").drop_duplicates(["session_id", "turn", "name"], keep="last")
    assert (last["status"] != "failed").all()


@fact
def manual_one_agent_loops_on_some_days_and_paths_are_those_counted_by_hand(month: Month) -> None:
    history, ran = month.history, ab.steps(month.history)
    keys = ["session_id", "turn"]
    found, done = ab.loops(history.turns, steps=ran), ran[ran["status"] == "done"]
    by_hand = done.groupby([*keys, "name", "arguments", "result"]).size()
    assert sorted(found["calls"]) == sorted(by_hand[by_hand >= 3])
    assert found["loop"].all()
    assert (set(found["agent"]), set(found["name"])) == ({"contract-reader"}, {"read_clauses"})
    assert 3 <= found["started_at"].dt.floor("D").nunique() < 20
    spelled = {
        key: " > ".join(f"{name} ×{n}" if (n := len(list(run))) > 1 else name for name, run in groupby(names))
        for key, names in ran.groupby(keys)["name"].agg(list).items()
    }
    asked = history.turns[keys].itertuples(index=False, name=None)
    counts = pd.Series([spelled.get(key, "(no steps)") for key in asked])
    paths = ab.paths(history.turns, steps=ran)
    assert paths.set_index("path")["turns"].to_dict() == counts.value_counts().to_dict()


@fact
def own_analysis_most_questions_come_within_two_minutes(month: Month) -> None:
    turns = month.history.turns
    turns = turns[turns["workspace"] == "acme~data"].sort_values(["session_id", "turn"])
    pause_s = (turns["asked_at"] - turns.groupby("session_id")["replied_at"].shift()).dt.total_seconds()
    assert (pause_s[pause_s >= 0] < 120).mean() > 0.6


SOURCES = 'Name your sources. If you do not know, say "I found nothing; look into the glossary."'
JUDGED = re.compile(r"(?i)\b(sources?|glossary)\b")  # what its judge passes, as rules read words


@cache
def said(message: str, more: str) -> str:
    return reply(Scribe(), message, system_prompt=f"{demo.versions()['scribe'][0].system_prompt} {more}")


@fact
def proof_only_with_the_new_prompt_every_reply_to_a_question_of_guide_can_be_checked(month: Month) -> None:
    of_guide = month.history.turns[month.history.turns["agent"] == "guide"]
    for question in of_guide["prompt"].unique():
        assert not JUDGED.search(said(question, ""))
        assert JUDGED.search(said(question, SOURCES))
        assert max(len(said(question, more).split()) for more in ("", SOURCES)) <= 150


@fact
def manual_what_happened_in_the_month(month: Month) -> None:
    turns, answered = month.history.turns, month.answered
    is_failed, in_hours = turns["status"] == "failed", month.in_incident(turns["asked_at"])
    assert is_failed[in_hours].mean() > 0.2 > 0.03 > is_failed[~in_hours].mean()
    usual = answered[~month.in_incident(answered["asked_at"])].groupby("agent", observed=True)["latency_s"].median()
    slow = answered["latency_s"] > answered["agent"].map(usual).astype(float)
    assert slow[month.in_incident(answered["asked_at"])].all()
    age = month.today - month.history.sessions["created_at"]
    per_day = (age < pd.Timedelta("7D")).sum() / 7
    assert per_day > 1.3 * (age >= pd.Timedelta("7D")).sum() / 27
    assert 550 < len(age) < 650
