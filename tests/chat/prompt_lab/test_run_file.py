"""Evaluation files run on the lab's engine: resumed, graded, reported."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agentbook as ab
from agentbook.evaluation import runs
from agentbook.evaluation.evaluate import FileRun, evaluate
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.files.source import ConfigError
from agentbook.evaluation.platform import find_workspace
from agentbook.evaluation.results import Results, html_report
from agentbook.evaluation.runs import Recorder

from .lab_platform import LabPlatform, make_lab

CASES = """
description: "greetings <b>"
prompts:
  - {label: kind, raw: '[{"role": "system", "content": "Be {{tone}}"}, {"role": "user", "content": "{{q}}"}]'}
  - {label: plain, raw: "{{q}}!"}
defaultTest: {vars: {tone: kind}}
tests:
  - {vars: {q: Hello}, assert: [{type: contains, value: kind}]}
  - {vars: {q: [Bye, Ciao]}, threshold: 0.5, assert: [{type: contains, value: kind}, {type: contains, value: "{{q}}"}]}
  - {vars: {q: Hello}, providerOutput: stored, assert: [{type: equals, value: stored}]}
"""


def case_file(folder: Path, text: str = CASES) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text, "utf-8")
    return path


def run(path: Path, platform: LabPlatform, **options: Any) -> Results:
    options = {"agent": "acme~writer", "workspace": "acme~lab", "follow": platform.follow, **options}
    return evaluate(path, lambda: platform, **options)[0]  # type: ignore[arg-type, return-value]


def statuses(results: Results) -> list[tuple[str, float]]:
    return [(row.status, row.grade.score) for row in results.rows]


def test_a_file_is_run_on_the_labs_engine(tmp_path: Path) -> None:
    platform = LabPlatform()
    results = run(case_file(tmp_path), platform)
    assert statuses(results) == [
        ("passed", 1.0), ("failed", 0.0), ("passed", 1.0), ("passed", 0.5), ("passed", 1.0), ("passed", 0.5),
        ("passed", 1.0), ("passed", 1.0),
    ]  # fmt: skip
    assert len(platform.questions()) == 6, "cells that send the same share a question"
    assert platform.prompts()[-1] == "original", "the agent has its own prompt back"
    assert results.pass_rate == 7 / 8
    [sentence] = results.verdict()
    assert "would show whether plain differs in all checks" in sentence
    assert 0 < html_report(results).index(sentence) < html_report(results).index("7 of 8 passed")


def test_a_message_without_its_value_is_not_sent(tmp_path: Path) -> None:
    platform = LabPlatform()
    path = case_file(tmp_path, "prompts: ['{{question}}']\ntests: [{vars: {qestion: Hello}}]\n")
    assert statuses(run(path, platform)) == [("error", 0.0)]
    assert platform.questions() == []


def test_the_reason_names_every_assert_that_failed(tmp_path: Path) -> None:
    asserts = "[{type: contains, value: rake}, {type: 'agentbook:pattern', value: {pattern: ask .*@, flags: i}}]"
    path = case_file(tmp_path, f"prompts: ['{{{{q}}}}']\ntests: [{{vars: {{q: Hello}}, assert: {asserts}}}]\n")
    [row] = run(path, LabPlatform()).rows
    assert "rake" in row.grade.reason
    assert "/ask .*@/i" in row.grade.reason


def test_prompts_that_ran_on_the_same_version_are_named(tmp_path: Path) -> None:
    platform, options = LabPlatform(), {"agent": "acme~writer", "workspace": "acme~lab"}
    platform.offered = ("type", "agent_version_id")
    lab = make_lab(platform)
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    lab.input_set.texts = ["Hello"]
    path = lab.save(tmp_path / "lab.yaml")
    for applied, named in ((False, False), (True, True)):
        if applied:
            lab.apply("kind")
        _, notes = evaluate(path, lambda: platform, follow=platform.follow, **options)  # type: ignore[arg-type, return-value]
        assert any("now" in note and "kind" in note for note in notes) is named


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
    path, folder = case_file(tmp_path), tmp_path / "out"
    platform = LabPlatform(lambda settings, text: RuntimeError("down") if "Ciao" in text else "kind")
    first = run(path, platform, folder=folder)
    assert len(platform.questions()) == 6
    killed.undo()
    platform.reply = lambda settings, text: "kind"
    platform.calls.clear()
    elsewhere = LabPlatform()
    elsewhere.base_url = "https://staging.example/v1"
    run(path, elsewhere, folder=folder)
    assert len(elsewhere.questions()) == 6
    options = {"agent": "acme~writer", "workspace": "acme~lab", "follow": platform.follow, "folder": folder}
    results, notes = evaluate(path, lambda: platform, **options)  # type: ignore[arg-type, return-value]
    assert any("4 of its questions are not asked again" in note for note in notes)
    assert sorted(platform.questions()) == ["Ciao", "Ciao!"]
    assert len(results.rows) == len(first.rows) == 8
    _, saved = runs.saved()
    assert saved.passed.count(True) == results.count("passed"), "the record is the run's, from its first start"
    platform.calls.clear()
    run(path, platform, folder=folder)
    assert len(platform.questions()) == 6, "a complete run leaves nothing to resume"


def test_an_answer_to_another_prompt_is_not_resumed(tmp_path: Path, killed: pytest.MonkeyPatch) -> None:
    folder, platform = tmp_path / "out", LabPlatform()
    run(case_file(tmp_path), platform, folder=folder)
    platform.calls.clear()
    run(case_file(tmp_path, CASES.replace("tone: kind", "tone: brief")), platform, folder=folder)
    assert sorted(platform.questions()) == ["Bye", "Ciao", "Hello"]


def test_a_run_is_graded_again_without_asking(tmp_path: Path) -> None:
    path, platform = case_file(tmp_path), LabPlatform(lambda settings, text: "kind")
    first = run(path, platform, folder=tmp_path / "out")
    platform.calls.clear()
    [saved] = runs.saved()
    assert first.facts["run"] == saved.id
    stricter = case_file(tmp_path, CASES.replace("value: kind", "value: ind").replace("value: stored", "value: x"))
    again = run(stricter, platform, grade=saved.id, agent=None, workspace=None)
    assert [row.status for row in again.rows].count("failed") == 2
    assert platform.calls == []
    other = case_file(tmp_path, CASES.replace("q: Hello", "q: Good day"))
    unknown = run(other, platform, grade=saved.path, agent=None, workspace=None)
    lacking = [row.grade.reason for row in unknown.rows if row.status == "error"]
    assert len(lacking) == 2
    assert all("without --grade" in str(reason) for reason in lacking)
    assert platform.calls == []
    with pytest.raises(ConfigError, match="There is no run 'nothing'"):
        run(path, platform, grade="nothing")
    case_file(tmp_path, CASES.replace("value: kind", "value: ind").replace("value: stored", "value: x"))
    by_its_reports = run(stricter, platform, grade=tmp_path / "out", agent=None, workspace=None)
    assert (statuses(by_its_reports), by_its_reports.facts["run"]) == (statuses(again), saved.id)
    (tmp_path / "out/results.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"results\.json does not name its run"):
        run(path, platform, grade=tmp_path / "out")


def test_failures_of_an_agent_fail_their_cells_alone(tmp_path: Path) -> None:
    platform = LabPlatform(lambda settings, text: RuntimeError("down") if text == "Bye!" else "kind")
    results = run(case_file(tmp_path), platform)
    assert [row.status for row in results.rows].count("error") == 1
    assert "down" in next(row.grade.error or "" for row in results.rows if row.status == "error")


def test_a_reply_that_was_cut_off_is_judged_as_it_was_written(tmp_path: Path) -> None:
    platform = LabPlatform(lambda settings, text: "Only this")
    platform.usage = {"finish_reason": "length"}
    asserts = [{"type": "equals", "value": "Only this"}, {"type": "word-count", "value": 2}]
    cases = [{"vars": {"q": "one"}, "assert": asserts}, {"vars": {"q": "two"}, "providerOutput": "x"}]
    file, out = case_file(tmp_path, json.dumps({"prompts": ["{{q}}"], "tests": cases})), tmp_path / "out"
    assert statuses(run(file, platform, folder=out)) == [("passed", 1.0)] * 2
    rows = json.loads((out / "results.json").read_text())["results"]["results"]
    assert [row["response"] for row in rows] == [{"output": "Only this", "finishReason": "length"}, {"output": "x"}]
    assert (out / "report.html").read_text().count("cut off") == 1


def test_braces_that_are_left_in_a_message_are_text(tmp_path: Path) -> None:
    text = "prompts: ['{% raw %}What is {{this}}?{% endraw %}']\ntests: [{assert: [{type: contains, value: What}]}]"
    platform = LabPlatform()
    assert statuses(run(case_file(tmp_path, text), platform)) == [("passed", 1.0)]
    assert platform.questions() == ["What is {{this}}?"]


CHAT = "- role: system\n  content: Be kind\n- role: user\n  content: {}"


@pytest.mark.parametrize("place", ["inline", "raw", "txt", "md"])
def test_a_chat_may_be_yaml_wherever_it_is_written(tmp_path: Path, place: str) -> None:
    prompt: Any = CHAT.format("'Tell {{q}}'")
    if place == "raw":
        prompt = {"label": "chat", "raw": f"\n{prompt}".replace("\n", "\n  ")}
    elif place != "inline":
        (tmp_path / f"chat.{place}").write_text(f"\n{prompt}\n")
        prompt = f"file://chat.{place}"
    platform = LabPlatform()
    results = run(case_file(tmp_path, json.dumps({"prompts": [prompt], "tests": [{"vars": {"q": "me"}}]})), platform)
    assert [row.reply for row in results.rows] == ["Be kind: Tell me"]
    assert platform.questions() == ["Tell me"]


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        (CHAT.format("'{{q}}'"), "it's"),
        (CHAT.format("{{q}}"), "a: b"),
        (CHAT.format("'{{q}}'"), "one\n\ntwo\n- three' x"),
        (CHAT.format('"{{q}}"'), 'say "Hi"'),
        (CHAT.format("[{{q}}]"), "an image"),
        ("- role: user", "no content"),
        ("- role: user\n  content: Hi\n- {{q}}", "no role"),
        ('[{"role": "user", "content": "Hi"}, {% if q %}{% endif %}]', "a comma too many"),
        ('{"messages": {{q}}}', "no JSON"),
        ("{{q}}", "- role: a value may be a chat, too\n -"),
    ],
)
def test_a_chat_that_promptfoo_cannot_read_is_an_error_of_its_cell(tmp_path: Path, prompt: str, value: str) -> None:
    platform = LabPlatform()
    tests = [{"vars": {"q": value}}, {"vars": {"q": "fine"}, "providerOutput": "fine"}]
    results = run(case_file(tmp_path, json.dumps({"prompts": [prompt], "tests": tests})), platform)
    assert [row.status for row in results.rows] == ["error", "passed"]
    assert platform.questions() == []


def test_a_template_may_make_json(tmp_path: Path) -> None:
    words = '{% for word in words %}{"role": "system", "content": "{{ word }}"},{% endfor %}'
    (tmp_path / "chat.json").write_text(f'[{words}{{"role": "user", "content": "{{{{q}}}}"}}]')
    case = {"vars": {"words": [1, 2], "q": "Hi"}}
    platform = LabPlatform()
    results = run(case_file(tmp_path, json.dumps({"prompts": ["file://chat.json"], "tests": [case]})), platform)
    assert [row.reply for row in results.rows] == ["1\n\n2: Hi"]


def test_a_lab_reads_a_chat_in_yaml(tmp_path: Path) -> None:
    platform = LabPlatform()
    file = case_file(tmp_path, json.dumps({"prompts": [CHAT.format("'{{q}}'")], "tests": [{"vars": {"q": "me"}}]}))
    lab = ab.PromptLab.load(file, platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    assert [variant.system_prompt for variant in lab.variants.values()] == ["Be kind"]
    assert lab.run(progress=False)["input"].tolist() == ["me"]


JUDGED = """
prompts: ["{{q}}"]
tests:
  - {vars: {q: one}, assert: [{type: llm-rubric, value: It is polite.}]}
  - {vars: {q: two}, assert: [{type: llm-rubric, value: It is polite.}]}
  - {vars: {q: three}, assert: [{type: llm-rubric, value: It is polite.}]}
"""


def test_an_agent_of_the_platform_judges(tmp_path: Path) -> None:
    platform = LabPlatform()
    platform.add_agent("acme~judge", system_prompt="judge")

    def reply(settings: Any, text: str) -> str | BaseException:
        if settings["system_prompt"] != "judge":
            return f"reply to {text}"
        if "reply to three" in text:
            return RuntimeError("the judge is ill")
        return json.dumps({"pass": "reply to one" in text, "score": 0.7, "reason": "because"})

    platform.reply = reply
    results = run(case_file(tmp_path, JUDGED), platform, judge="acme~judge")
    assert statuses(results) == [("passed", 0.7), ("failed", 0.7), ("error", 0.0)]
    assert results.rows[1].grade.reason == "because"
    assert "the judge is ill" in results.rows[2].grade.reason
    assert results.facts["judge"].startswith("acme~judge 1.0.0, prompt ")


def test_what_failed_is_the_reason_and_not_what_is_undecided(tmp_path: Path) -> None:
    platform = LabPlatform(lambda settings, text: "no JSON")
    asserts = "[{type: equals, value: Hi}, {type: llm-rubric, value: It is polite., metric: polite}]"
    text = f"prompts: ['{{{{q}}}}']\ntests: [{{vars: {{q: one}}, assert: {asserts}}}]"
    results = run(case_file(tmp_path, text), platform, judge="acme~writer", folder=tmp_path / "out")
    assert statuses(results) == [("failed", 0.0)]
    failed, undecided = results.rows[0].grade.parts
    assert results.rows[0].grade.reason == failed.reason != undecided.reason
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert re.findall("<span class='\\w+'>(\\w+)</span>", page) == ["failed", "undecided"]


@pytest.mark.parametrize(
    ("score", "outcome"),
    [
        ("0.9", ("passed", 0.9)), ('" 9e-1 "', ("passed", 0.9)), ("true", ("passed", 1.0)), ("false", ("failed", 0.0)),
        *((score, ("error", 0.0)) for score in ('"85%"', '"high"', '""', "null", "{}", "[]", "85", "-1", '"85"', "NaN")),
    ],
)  # fmt: skip
def test_a_judges_score_is_a_number_from_0_to_1(tmp_path: Path, score: str, outcome: tuple[str, float]) -> None:
    platform = LabPlatform(lambda settings, text: f'{{"pass": true, "score": {score}, "reason": "why"}}')
    stored = {"providerOutput": "Hello.", "assert": [{"type": "llm-rubric", "value": "It greets.", "threshold": 0.5}]}
    file = case_file(tmp_path, json.dumps({"prompts": ["hi"], "tests": [stored]}))
    results = run(file, platform, judge="acme~writer", folder=tmp_path / "out")
    assert statuses(results) == [outcome]
    (row,) = json.loads((tmp_path / "out/results.json").read_text("utf-8"))["results"]["results"]
    assert row["gradingResult"]["pass"] is {"passed": True, "failed": False, "error": None}[outcome[0]]


def test_a_cost_limit_of_a_file_counts_its_judges(tmp_path: Path) -> None:
    platform = LabPlatform(lambda settings, text: '{"pass": true}')
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}  # costs 1
    rubrics = [{"type": "llm-rubric", "value": f"It is {word}."} for word in ("kind", "short")]
    tests = [{"vars": {"q": f"{n}"}, "assert": rubrics} for n in range(5)]
    options = {"judge": "acme~writer", "prices": {"small": (10_000.0, 10_000.0)}, "max_cost": 7}
    results = run(case_file(tmp_path, json.dumps({"prompts": ["{{q}}"], "tests": tests})), platform, **options)
    assert [row.status for row in results.rows] == ["passed"] * 2 + ["error"] * 3
    assert len(platform.questions()) == 6


def test_what_the_code_of_checks_prints_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('seen', len(output))\nreturn True"
    tests = [{"providerOutput": "x" * n, "assert": [{"type": "python", "value": code}]} for n in range(9)]
    before = sys.stdout
    run(case_file(tmp_path, json.dumps({"prompts": ["hi"], "tests": tests})), LabPlatform())
    assert sys.stdout is before
    assert sorted(capsys.readouterr().out.splitlines()) == [f"seen {n}" for n in range(9)]


COSTS = """
prompts: ["{{q}}"]
tests:
  - {vars: {q: one}, assert: [{type: cost, threshold: 1}]}
  - {vars: {q: two}, assert: [{type: cost, threshold: 0.5}]}
  - {vars: {q: three}, assert: [{type: not-cost, threshold: 0.5}]}
"""


def test_costs_are_those_of_the_users_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = LabPlatform()
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    path = case_file(tmp_path, COSTS)
    unknown = run(path, platform)
    assert [row.status for row in unknown.rows] == ["error"] * 3
    assert "the cost is not known" in (unknown.rows[0].grade.error or "")
    prices = tmp_path / "prices.yaml"
    prices.write_text("small: [10000, 10000]")
    known = run(path, platform, prices=prices)
    assert statuses(known) == [("passed", 1.0), ("failed", 0.0), ("passed", 1.0)]
    assert known.as_data()["results"]["results"][0]["cost"] == 1.0
    monkeypatch.setenv("AGENTBOOK_PRICES", str(prices))
    assert statuses(run(path, platform)) == statuses(known)
    few = run(path, platform, max_cost=1.5, concurrency=1)
    assert [row.status for row in few.rows] == ["passed", "error", "error"]
    prices.write_text("small: cheap")
    with pytest.raises(ConfigError, match="prices needs two numbers of 0 or more for the model 'small'"):
        run(path, platform)


def test_reports_hold_the_failures_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", "k1:planted-secret")
    platform = LabPlatform(lambda settings, text: f"<script>\x00 planted-secret {text}")
    folder = tmp_path / "out"
    run(case_file(tmp_path), platform, folder=folder)
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert set(texts) == {"results.json", "junit.xml", "report.html"}
    assert not any("planted-secret" in text for text in texts.values())
    assert "<script>" not in texts["report.html"]
    assert "greetings &lt;b&gt;" in texts["report.html"]
    suites = ET.fromstring(texts["junit.xml"])
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("8", "2", "0")
    assert "contains kind" in (next(suites.iter("failure")).text or "")
    stats = json.loads(texts["results.json"])["results"]["stats"]
    assert stats == {"successes": 6, "failures": 2, "errors": 0}


def test_a_file_without_an_agent_or_workspace_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--agent"):
        FileRun(read_config(case_file(tmp_path)))


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
    names: dict[str, Any] = {"agent": "acme~writer", "judge": None if missing == "nobody" else "acme~writer"}
    if missing != "nobody":
        names[missing] = "acme~nosuch"
    error, text = (ConfigError, "--judge") if missing == "nobody" else (ab.errors.NotFound, "acme~nosuch")
    with pytest.raises(error, match=text):
        run(case_file(tmp_path, JUDGED), platform, **names)
    assert platform.calls == []


def test_a_workspace_that_is_not_there_is_found_before_the_first_question(tmp_path: Path) -> None:
    platform = LabPlatform()
    platform.missing_workspaces, platform.workspace_names = ("acme~lap",), ["acme~lab"]
    with pytest.raises(ConfigError, match=r"acme~lap.*acme~lab"):
        run(case_file(tmp_path), platform, workspace="acme~lap")
    assert platform.calls == []


def test_a_file_with_stored_replies_asks_nobody(tmp_path: Path) -> None:
    text = "prompts: [hi]\ntests: [{providerOutput: Hello, assert: [{type: contains, value: Hell}]}]"

    def connect() -> Any:
        raise AssertionError("nothing is to be asked")

    results, notes = evaluate(case_file(tmp_path, text), connect)
    assert (statuses(results), notes) == ([("passed", 1.0)], [])
