"""What the notebooks say about the demo holds on its seven months, at four hours."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import nbformat
import pandas as pd
import pytest
from sqlalchemy import Connection, create_engine, select

import agentbook as ab
from agentbook.evaluation.experiment import Answer
from agentbook.evaluation.experiment import to_frame as results_of
from agentbook.evaluation.model import Grade
from agentbook.evaluation.statistics import compare_variants, decision
from agentbook.frames.parse import to_frame
from agentbook.frames.parse.frame import FrameBuilder
from agentbook.service import demo
from agentbook.service.demo.agents.scribe import Scribe
from agentbook.service.store import tables
from notebooks.execute import FOLDER
from notebooks.facts import FACTS, Month
from service.engines.engine_runs import reply

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
# A month ends now: soon after midnight it lacks a day that it has late in the evening.
HOURS = (0.5, 8, 13, 20)


def frame(resource: str, items: list[dict[str, Any]]) -> pd.DataFrame:
    return to_frame(resource, [msgspec.json.encode({"items": items})])


def record(row: dict[str, Any]) -> dict[str, Any]:
    """A credential as the API sends it."""
    fields = {
        key.removesuffix("_json"): msgspec.json.decode(value) if key.endswith("_json") else value
        for key, value in row.items()
    }
    return {**fields, "integration": {"name": row["integration"]}}


def month_of(connection: Connection, now: datetime) -> Month:
    """What *acme*'s key loads: all but a workspace restricted to its members."""
    owner = connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == "acme")).scalar_one()
    workspaces, agents, sessions = tables.workspaces, tables.agents, tables.sessions
    is_visible = (workspaces.c.owner_id == owner) & ~workspaces.c.should_restrict_members
    own_workspaces = connection.execute(select(workspaces).where(is_visible)).mappings().all()
    own_agents = connection.execute(select(agents).where(agents.c.owner_id == owner)).mappings().all()
    in_own = sessions.c.workspace_id.in_([row["id"] for row in own_workspaces])
    own_sessions = connection.execute(select(sessions).where(in_own)).mappings().all()
    events = FrameBuilder("events", {"session_id": ""})
    for row in own_sessions:
        in_session = tables.events.c.session_id == row["id"]
        texts = connection.execute(
            select(tables.events.c.wire).where(in_session).order_by(tables.events.c.id)
        ).scalars()
        events.add(f'{{"items": [{",".join(texts)}]}}'.encode(), {"session_id": row["id"]})
    own_credentials = connection.execute(select(tables.credentials).where(tables.credentials.c.account_id == owner))
    credentials = frame("credentials", [record(dict(row)) for row in own_credentials.mappings()])
    installed, grants = tables.workspace_agents, tables.credential_grants
    granted_in = select(grants.c.credential_id.label("id"), installed.c.workspace_id).join_from(grants, installed)
    granted = pd.DataFrame(connection.execute(granted_in).mappings().all())
    history = ab.History(
        events.finish(),
        frame("sessions", [dict(row) for row in own_sessions]),
        workspaces=frame("workspaces", [{**row, "full_name": f"acme~{row['name']}"} for row in own_workspaces]),
        agents=frame("agents", [{**row, "full_name": f"acme~{row['name']}"} for row in own_agents]),
        credentials=credentials,
        account="acme",
    )
    names = {row["id"]: row["name"] for row in own_agents}
    versions = connection.execute(select(tables.agent_versions).where(tables.agent_versions.c.type == "COMMITTED"))
    newest = {
        names[row.agent_id]: pd.Timestamp(row.published_at)
        for row in sorted(versions, key=lambda row: str(row.published_at))
        if row.agent_id in names
    }
    return Month(history, newest, pd.Timestamp(now).floor("D"), credentials.merge(granted, on="id"))


def loaded(now: datetime) -> Month:
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        demo.write(connection, now=now)
        made = month_of(connection, now)
    engine.dispose()
    return made


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@pytest.fixture(
    scope="module", params=[(day, hour) for day in range(7) for hour in HOURS], ids=lambda at: f"{DAYS[at[0]]}-{at[1]}"
)
def month(request: pytest.FixtureRequest) -> Month:
    day, hour = request.param
    return loaded(MONDAY + timedelta(days=day, hours=hour))


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_what_a_notebook_says(month: Month, fact: Any) -> None:
    fact(month)


NEEDED = {"01": [], "03": ["03-05", "03-13", "03-15"], "04": ["04-06", "04-11"]}  # cells, by notebook


@pytest.mark.parametrize("number", NEEDED)
def test_exercises_are_checked_in_every_month(number: str, month: Month, capsys: pytest.CaptureFixture[str]) -> None:
    [path] = FOLDER.glob(f"{number}-*.ipynb")
    history, cells = month.history, nbformat.read(path, 4).cells
    frames = {name: getattr(history, name) for name in ("events", "sessions", "workspaces", "credentials")}
    notebook = {"ab": ab, "pd": pd, "history": history, "granted": month.granted, **frames}

    def run(chosen: Callable[[Any], bool]) -> list[str]:
        for cell in filter(chosen, cells):
            exec(cell.source, notebook)
        return re.findall(r"Exercise \d: (\w+)", capsys.readouterr().out)

    def tagged(tag: str) -> Callable[[Any], bool]:
        return lambda cell: tag in cell.metadata.get("tags", ())

    run(lambda cell: cell.id in NEEDED[number])
    told = run(tagged("check"))  # nothing stands there, not even dots
    run(lambda cell: "-answer-" in cell.id)
    assert told == run(tagged("check")) == ["not"] * len(told)
    run(tagged("solution"))
    assert run(tagged("check")) == ["yes"] * len(told)


ROLE = "You are the scribe of Acme Instruments. Answer questions about the platform."
CARE = 'Name your sources. If you do not know, say "I do not know".'
INPUTS = (
    "What is a session?",
    "How do I keep a local store?",
    "What is a draft?",
    "How do I stream events?",
    "What is the weather tomorrow?",
)
MORE = (
    "Which scopes does a key need?",
    "How do I export a chat?",
    "How do I create an agent?",
    "How do I replay a session?",
    "What does error 429 mean?",
    "How do I plot the latency?",
    "What was the weather yesterday?",
)
PROMPTS = {"plain": ROLE, "careful": f"{ROLE} {CARE}", "brief": f"{ROLE} {CARE} Answer in at most two sentences."}


def test_what_the_notebook_on_the_prompt_lab_says_of_its_variants() -> None:
    replies = {
        name: [reply(Scribe(), each, system_prompt=prompt) for each in INPUTS] for name, prompt in PROMPTS.items()
    }
    plain, careful, brief = replies["plain"][0], replies["careful"][0], replies["brief"][0]
    assert careful.startswith(plain)
    assert "Source: " in careful.removeprefix(plain)
    assert brief.partition("\n\nSource")[0].count(". ") < 2 <= plain.count(". ")
    for name in ("careful", "brief"):
        *known, unknown = replies[name]
        assert all("Source" in text and "I do not know" not in text for text in known)
        assert "I do not know" in unknown
    assert sum(len(text) > 320 for text in replies["careful"]) == 3
    assert max(map(len, replies["careful"])) <= 600
    assert max(map(len, replies["brief"])) <= 320


def test_what_the_notebook_on_the_prompt_lab_says_of_its_verdicts() -> None:
    answers = []
    for name, prompt in PROMPTS.items():
        for number, question in enumerate(INPUTS + MORE):
            text = reply(Scribe(), question, system_prompt=prompt)
            is_unknown = "I do not know" in text
            made = Answer(
                name, question, status="answered", reply=text, run_at=MONDAY + timedelta(number >= len(INPUTS))
            )
            made.verdicts = {
                "short": Grade(len(text) <= 320),
                "sourced": Grade("Source" in text or is_unknown),
                "honest": Grade(is_unknown == ("weather" in question)),
            }
            answers.append(made)
    checks = ["short", "sourced", "honest"]
    results = results_of(answers, checks)
    few = compare_variants(results[results["input"].isin(INPUTS)], checks, "plain", "passed")
    assert few["verdict"].tolist() == ["open", "open"]
    assert few["more_inputs"].min() < len(MORE)
    careful, brief = compare_variants(results, checks, "plain", "passed").to_dict("records")
    assert (careful["verdict"], brief["verdict"], brief["before"], brief["after"]) == ("open", "better", 0, 1)
    each = compare_variants(results, checks, "plain")
    is_better = each["variant"].eq("careful") & each["verdict"].eq("better")
    assert each.loc[is_better, "metric"].tolist() == ["sourced"]
    _, is_open = decision(each, "brief", "plain")
    assert not is_open


def test_what_the_notebook_on_agents_and_prompts_says_of_its_versions() -> None:
    role = "You are the writer of Acme Instruments."
    one = reply(Scribe(), "What is a session?", system_prompt=f"{role} Answer in one sentence.")
    bullets = f"{role} Answer in at most three bullet points. Name your sources."
    listed = reply(Scribe(), "What is a session?", system_prompt=bullets)
    assert ". " not in one
    assert 1 <= listed.count("\n- ") + listed.startswith("- ") <= 3
    assert "Source" in listed
