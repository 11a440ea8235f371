"""A lab file is run without a notebook: resumed, graded, compared, reported."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agentbook as ab
from agentbook.chat.model.session_list import note_repeat
from agentbook.evaluation import runs
from agentbook.evaluation.evaluate import Results, default_folder, evaluate, html_report
from agentbook.evaluation.platform import find_workspace
from agentbook.evaluation.runs import Recorder
from agentbook.evaluation.source import ConfigError
from chat.prompt_lab.lab_platform import LabPlatform, make_lab

LAB = """
variants:
  kind: {system_prompt: "Be kind."}
  plain: {system_prompt: "Be plain."}
inputs:
  - Hello
  - {message: "{{word}}", values: {word: Bye, n: 1}, checks: ["contains {{word}}"]}
  - Ciao
checks: [kind]
"""


def lab_file(folder: Path, text: str = LAB) -> Path:
    path = folder / "greetings <b>.yaml"
    path.write_text(text, "utf-8")
    return path


def run_all(path: Path, platform: LabPlatform, **options: Any) -> tuple[Results, list[str]]:
    options = {"agent": "acme~writer", "workspace": "acme~lab", "follow": platform.follow, **options}
    return evaluate(path, lambda: platform, **options)  # type: ignore[arg-type, return-value]


def run(path: Path, platform: LabPlatform, **options: Any) -> Results:
    return run_all(path, platform, **options)[0]


def statuses(results: Results) -> list[str]:
    return [row.status for row in results.rows]


def test_a_file_is_run_on_the_labs_engine(tmp_path: Path) -> None:
    platform = LabPlatform()
    results = run(lab_file(tmp_path), platform)
    assert statuses(results) == ["passed", "passed", "passed", "failed", "failed", "failed"]
    assert len(platform.questions()) == 6
    assert platform.prompts()[-1] == "original", "the agent has its own prompt back"
    assert results.pass_rate == 0.5
    assert [sorted(row.grades) for row in results.rows[:2]] == [["contains kind"], ["contains kind", "own check"]]
    [sentence] = results.verdict()
    assert 0 < html_report(results).index(sentence) < html_report(results).index("3 of 6 passed")
    data = results.as_data()
    assert (data["passed"], data["failed"], data["results"][1]["values"]) == (3, 3, {"word": "Bye", "n": 1})


def test_a_variant_is_worse_only_beyond_noise(tmp_path: Path) -> None:
    inputs = ", ".join(f"q{n}" for n in range(12))
    few = lab_file(tmp_path)
    many = lab_file(
        tmp_path / "..",
        LAB.replace(LAB[LAB.index("  - Hello") : LAB.index("checks: [kind]")], "").replace(
            "inputs:", f"inputs: [{inputs}]"
        ),
    )
    assert not run(few, LabPlatform(), against="kind").is_worse
    assert run(many, LabPlatform(), against="kind").is_worse
    assert not run(many, LabPlatform(), against="plain").is_worse
    with pytest.raises(ConfigError, match="kind, plain"):
        run(few, LabPlatform(), against="knid")
    with pytest.raises(ConfigError, match="no `checks`"):
        run(lab_file(tmp_path, "variants: {a: {}, b: {}}\ninputs: [Hello]\n"), LabPlatform(), against="a")


def test_the_replies_in_the_file_of_a_notebook_are_not_those_of_a_run(tmp_path: Path) -> None:
    platform = LabPlatform()
    lab = make_lab(platform)
    lab.add_variant("now")
    lab.run(["Hello"], progress=False)
    path = lab.save(tmp_path / "lab.json")
    platform.calls.clear()
    assert len(run(path, platform).rows) == len(platform.questions()) == 1


def test_a_file_without_variants_asks_the_agent_as_it_is(tmp_path: Path) -> None:
    results = run(lab_file(tmp_path, "inputs: [Hello]\nchecks: [original]\n"), LabPlatform())
    assert statuses(results) == ["passed"]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Runs leave what a killed process does: no end, and half a line."""

    def leave(self: Recorder, **facts: Any) -> None:
        with open(self.path, "a") as file:
            file.write('{"answer": {"variant": "kin')

    with monkeypatch.context() as context:
        context.setattr(Recorder, "end", leave)
        yield context


def test_a_run_that_was_killed_asks_only_what_is_missing(tmp_path: Path, killed: pytest.MonkeyPatch) -> None:
    path = lab_file(tmp_path)
    platform = LabPlatform(lambda settings, text: RuntimeError("down") if "Ciao" in text else "kind")
    run(path, platform)
    assert len(platform.questions()) == 6
    killed.undo()
    platform.reply = lambda settings, text: "kind"
    platform.calls.clear()
    elsewhere = LabPlatform()
    elsewhere.base_url = "https://staging.example/v1"
    run(path, elsewhere)
    assert len(elsewhere.questions()) == 6
    results, notes = run_all(path, platform)
    assert any("4 of its questions are not asked again" in note for note in notes)
    assert sorted(platform.questions()) == ["Ciao", "Ciao"]
    assert len(results.rows) == 6
    _, saved = runs.saved()
    passed = sum(bool(each.passed(saved.experiment.all_checks)) for each in saved.answers)
    assert passed == results.count("passed"), "the record is the run's, from its first start"
    platform.calls.clear()
    run(path, platform)
    assert len(platform.questions()) == 6, "a complete run leaves nothing to resume"


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [("Be plain.", "Be terse.", ["Bye", "Ciao", "Hello"]), ("n: 1", "n: 2", ["Bye", "Bye"]), ("[kind]", "[Hello]", [])],
)
def test_only_what_is_still_the_same_is_resumed(
    tmp_path: Path, killed: pytest.MonkeyPatch, before: str, after: str, asked: list[str]
) -> None:
    platform = LabPlatform()
    run(lab_file(tmp_path), platform)
    platform.calls.clear()
    results = run(lab_file(tmp_path, LAB.replace(before, after)), platform)
    assert sorted(platform.questions()) == asked
    if not asked:
        assert "contains Hello" in results.rows[0].grades, "other checks are applied to the same replies"


def test_what_did_not_pass_is_asked_again(tmp_path: Path) -> None:
    platform, path = LabPlatform(), lab_file(tmp_path)
    with pytest.raises(ConfigError, match="no earlier run"):
        run(path, platform, failed=True)
    run(path, platform)
    platform.calls.clear()
    platform.reply = lambda settings, text: f"kind {text}"
    assert statuses(run(path, platform, failed=True)) == ["passed"] * 3
    assert sorted(platform.questions()) == ["Bye", "Ciao", "Hello"]
    with pytest.raises(ConfigError, match="Everything passed"):
        run(path, platform, failed=True)


def test_failures_of_an_agent_fail_their_rows_alone(tmp_path: Path) -> None:
    platform = LabPlatform(lambda settings, text: RuntimeError("broken") if text == "Bye" else "kind")
    results = run(lab_file(tmp_path), platform)
    assert statuses(results) == ["passed", "error", "passed"] * 2
    assert "broken" in results.rows[1].reason


JUDGED = """
judge: acme~judge
inputs: [Hello, Bye]
checks:
  - judge: It is kind.
  - {not: {judge: It is long., threshold: 0.5}, name: brief}
"""


def test_an_agent_of_the_platform_judges(tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(settings: Any, text: str) -> str:
        if settings.get("system_prompt") != "You judge.":
            return text
        asked.append(text)
        return json.dumps({"pass": "Hello" in text, "score": 0.9, "reason": "so"}) if "kind" in text else "Well."

    platform = LabPlatform(reply)
    for name in ("acme~judge", "acme~other"):
        platform.add_agent(name, system_prompt="You judge.")
    results = run(lab_file(tmp_path, JUDGED), platform)
    assert statuses(results) == ["error", "failed"], "what a judge leaves open has not passed"
    assert (len(asked), results.facts["judge"].partition(" ")[0]) == (4, "acme~judge")
    again = run(lab_file(tmp_path, JUDGED), platform, judge="acme~other")
    assert again.facts["judge"].startswith("acme~other")


def test_costs_are_those_of_the_users_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = LabPlatform()
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    checks = ("cost <= 1", "cost <= 0.5", "not: cost <= 0.5")
    text = {"inputs": [{"message": f"q{n}", "checks": [check]} for n, check in enumerate(checks)]}
    path = lab_file(tmp_path, json.dumps(text))
    unknown = run(path, platform)
    assert statuses(unknown) == ["error"] * 3
    assert "the cost is not known" in unknown.rows[0].reason
    prices = tmp_path / "prices.yaml"
    prices.write_text("small: [10000, 10000]")
    known = run(path, platform, prices=prices)
    assert statuses(known) == ["passed", "failed", "passed"]
    monkeypatch.setenv("AGENTBOOK_PRICES", str(prices))
    assert statuses(run(path, platform)) == statuses(known)
    few = run(path, platform, max_cost=1.5, concurrency=1)
    assert statuses(few) == ["passed", "error", "error"]
    prices.write_text("small: cheap")
    with pytest.raises(ConfigError, match="prices needs two numbers of 0 or more for the model 'small'"):
        run(path, platform)


def test_reports_hold_the_failures_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", "k1:planted-secret")
    platform = LabPlatform(lambda settings, text: f"<script>\x00 planted-secret {text}")
    folder = tmp_path / "out"
    run(lab_file(tmp_path), platform, folder=folder)
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert set(texts) == {"results.json", "junit.xml", "report.html"}
    assert not any("planted-secret" in text for text in texts.values())
    assert "<script>" not in texts["report.html"]
    assert "greetings &lt;b&gt;" in texts["report.html"]
    suites = ET.fromstring(texts["junit.xml"])
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("6", "6", "0")
    assert "contains kind" in (next(suites.iter("failure")).text or "")
    assert [json.loads(texts["results.json"])[name] for name in ("passed", "failed", "error")] == [0, 6, 0]


@pytest.mark.skipif(os.name == "nt", reason="has no modes")
@pytest.mark.parametrize("kept", ["notes", "reports", "runs"])
def test_what_is_kept_in_a_new_data_directory_is_its_owners(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "share" / "agentbook"))
    monkeypatch.delenv("AGENTBOOK_RUNS", raising=False)
    path = lab_file(tmp_path)
    if kept == "notes":
        note_repeat("s1", "s0")
    else:
        run(path, LabPlatform(), folder=default_folder(path) if kept == "reports" else None)
    made = sorted((tmp_path / "share").rglob("*"))
    assert [each for each in made if each.stat().st_mode & 0o077] == []
    assert made[1:]


def test_a_file_without_an_agent_or_an_input_says_what_to_write(tmp_path: Path) -> None:
    for text, reason in ((LAB, "--agent"), ("agent: acme~writer", "inputs")):
        with pytest.raises(ConfigError, match=reason):
            evaluate(lab_file(tmp_path, text), lambda: pytest.fail("connected"))


class Account:
    """An account with two workspaces, one of which has the agent."""

    workspaces: Any
    me: Any
    agents: Any

    def __init__(self, installed: Mapping[str, Sequence[str]]) -> None:
        records = [{"id": name, "full_name": name} for name in installed]
        self.me = SimpleNamespace(workspaces=lambda limit: records)
        self.agents = SimpleNamespace(get=lambda name: {"id": f"id of {name}", "full_name": name})
        self.workspaces = SimpleNamespace(
            agents=lambda workspace: [
                {"id": "w1", "agent": {"id": f"id of {each}"}} for each in installed[workspace["id"]]
            ]
        )


def test_the_workspace_is_the_only_one_or_the_one_where_the_agent_is() -> None:
    def found(**installed: Sequence[str]) -> str:
        return find_workspace(Account(installed), "acme~writer")  # type: ignore[arg-type]

    assert found(x=[]) == "x"
    assert found(x=["acme~other"], y=["acme~writer"]) == "y"
    for places in ({"x": [], "y": []}, {"x": ["acme~writer"], "y": ["acme~writer"]}):
        with pytest.raises(ConfigError, match="x, y: name one with workspace= or --workspace"):
            found(**places)


@pytest.mark.parametrize("missing", ["agent", "judge", "nobody"])
def test_who_is_not_there_is_found_before_the_first_question(tmp_path: Path, missing: str) -> None:
    platform = LabPlatform()
    platform.add_agent("acme~judge", system_prompt="You judge.")
    text = JUDGED.replace("judge: acme~judge\n", "") if missing == "nobody" else JUDGED
    names = {} if missing == "nobody" else {missing: "acme~nosuch"}
    error, reason = (ConfigError, "--judge") if missing == "nobody" else (ab.errors.NotFound, "acme~nosuch")
    with pytest.raises(error, match=reason):
        run(lab_file(tmp_path, text), platform, **names)
    assert platform.calls == []


def test_a_workspace_that_is_not_there_is_found_before_the_first_question(tmp_path: Path) -> None:
    platform = LabPlatform()
    platform.missing_workspaces, platform.workspace_names = ("acme~lap",), ["acme~lab"]
    with pytest.raises(ConfigError, match=r"acme~lap.*acme~lab"):
        run(lab_file(tmp_path), platform, workspace="acme~lap")
    assert platform.calls == []
