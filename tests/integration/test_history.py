"""The history of the demo's account, against what the lists and `load_events` say."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pandas as pd
import pytest

import agentbook as ab
from service.process import Service, command


@pytest.fixture(scope="module")
def history(client: ab.Client) -> ab.History:
    return ab.load_history(client, "acme")


def test_it_has_all_that_the_lists_have(client: ab.Client, history: ab.History) -> None:
    workspaces = client.workspaces.list("acme").to_pandas()
    sessions = pd.concat([client.sessions.list(name).to_pandas() for name in workspaces["full_name"]])
    assert history.complete
    assert history.workspaces["id"].tolist() == workspaces["id"].tolist()
    assert history.sessions["id"].tolist() == sessions["id"].tolist()
    assert history.credentials["id"].tolist() == client.credentials.list("acme").to_pandas()["id"].tolist()
    some = sessions.groupby("workspace_id").head(9)
    loaded = ab.load_events(client, some)
    questions = ab.turns(loaded, texts=True)
    for expected, found in ((loaded, history.events), (questions, history.turns)):
        part = found[found["session_id"].isin(some["id"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(part[expected.columns], expected, check_categorical=False)


def test_names_agree_with_the_database(service: Service, history: ab.History) -> None:
    query = """
        SELECT events.id, owners.name || '~' || workspaces.name, agents.name, sessions.name FROM events
        JOIN sessions ON sessions.id = session_id JOIN workspaces ON workspaces.id = workspace_id
        JOIN accounts AS owners ON owners.id = workspaces.owner_id JOIN agents ON agents.id = agent_id
    """
    with closing(sqlite3.connect(f"file:{service.data / 'store.db'}?mode=ro", uri=True)) as db:
        stored = {event: names for event, *names in db.execute(query)}
    names = history.events[["workspace", "agent", "session"]].astype(object).where(lambda frame: frame.notna(), None)
    found = names.to_numpy().tolist()
    known = [stored[event] for event in history.events["id"]]
    assert [each[:2] for each in found] == [each[:2] for each in known]
    # A session is called by its title, with a part of its id where others have it too.
    assert all(session.startswith(title or "") for (*_, session), (*_, title) in zip(found, known, strict=True))
    assert history.events.groupby("session_id")["session"].nunique().eq(1).all()
    assert history.events.groupby("session")["session_id"].nunique().eq(1).all()
    used = history.agents.set_index("id").loc[history.sessions["agent_id"].unique()]
    assert used["is_archived"].any(), "an agent that the list leaves out has its name too"


def test_turns_say_which_version_answered(client: ab.Client, history: ab.History) -> None:
    turns = history.turns[history.turns["agent"] == "helpdesk"]
    medians = turns.groupby("agent_version")["latency_s"].median()
    assert set(medians.index) <= {version["version_number"] for version in client.agents.versions("acme~helpdesk")}
    assert set(ab.anonymize(history).turns["agent_version"]) == set(history.turns["agent_version"])
    assert medians["1.1.0"] < medians["1.2.0"], "as the manual says of the demo"


def test_a_span_has_the_events_between_its_ends(client: ab.Client, history: ab.History) -> None:
    times = history.events["at"].sort_values()
    since, until = times.iloc[len(times) // 3], times.iloc[len(times) // 2]
    part = ab.load_history(client, "acme", since=since, until=until)
    inside = history.events[(history.events["at"] >= since) & (history.events["at"] < until)]
    assert part.events["id"].tolist() == inside["id"].tolist()


def test_what_a_credential_may_not_read_is_named(service: Service) -> None:
    with ab.Client(service.base_url, credentials=service.key("workspaces:read", "sessions:read")) as client:
        history = ab.load_history(client, "acme", since="1d", errors="keep")
    assert "integrations:read" in history.missing["credentials"]
    assert not history.complete
    assert "credentials" in repr(history)
    assert "integrations:read" in history._repr_html_()


def test_an_account_without_workspaces_has_an_empty_history(service: Service) -> None:
    command("accounts", "create", "newcomer", "--type", "user", data=service.data)
    with ab.Client(service.base_url, credentials=service.key("workspaces:read", account="newcomer")) as client:
        history = ab.load_history(client)
    assert len(history.events) == len(history.turns) == 0
    assert {"workspace", "agent", "session"} <= set(history.turns.columns)
