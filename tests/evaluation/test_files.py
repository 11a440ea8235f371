"""Reading and writing evaluation files: what runs, what is refused, and where it is."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import agentbook as ab
from agentbook.cli import main
from agentbook.evaluation.asserts import edit_distance, grade, grade_check
from agentbook.evaluation.check import Check
from agentbook.evaluation.files import cells
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.files.source import ConfigError, Permissions
from agentbook.evaluation.files.write import write_config
from agentbook.evaluation.model import Case, Config, Prompt, Reply, Services
from agentbook.evaluation.template import TemplateError, render

PEERS = Path(__file__).parents[1] / "peers" / "promptfoo"


def config_file(folder: Path, text: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("prompts: [hi]\ntests:\n- assert:\n  - type: javascript\n    value: 'true'", 4, "--allow-javascript"),
        ("prompts: [hi]\ntests:\n- assert:\n  - {type: contians, value: a}", 4, "perhaps you mean 'contains'"),
        ("prompts: [hi]\ntests:\n- asert: []", 3, "did you mean `assert`"),
        ("prompts: [hi]\ntest: []", 2, "did you mean `tests`"),
        ("tests: []", 1, "no `prompts`"),
        ("prompts: [hi]\ntests:\n- vars: {a: 1}\n  threshold: high", 4, "a number is needed"),
        ("prompts: [hi]\ntests: file://missing.csv", 2, "no file 'missing.csv'"),
        ("prompts: [file://missing.txt]", 1, "no file 'missing.txt'"),
        ("prompts: [hi]\nprompts: [ho]", 2, "repeated"),
        ("prompts: [hi]\ntests: [", 2, "not valid YAML"),
        ("prompts: ['{{ a | random }}']", 1, "'random' is not used"),
        ("prompts: [hi]\nevaluateOptions: {repeat: 0}", 2, "repeat must be a number"),
        ("prompts: [hi]\nextensions: [file://a.js]", 2, "`extensions` cannot be used"),
        ("prompts: [hi]\ntests:\n- vars: {a: 1}\n  options:\n    transform: output.trim()", 5, "transforms run code"),
        ("prompts: [hi]\ntests:\n- assert: [{type: python, value: file://no.py}]", 3, "no file 'no.py'"),
        (
            "prompts: [hi]\ntests:\n- assert:\n  - {type: agentbook:steps, value: {not_called: run_sql}}",
            4,
            "lists of names",
        ),
        ("prompts: [hi]\ntests:\n- assert: [{type: contains, value: a, metric: [b]}]", 3, "a name is needed"),
        (f"prompts: [hi]\ntests:\n- threshold: {'9' * 400}", 3, "a number is needed"),
        ("prompts: [hi]\ntests:\n- assert: [{type: 'agentbook:steps', value: {called: 5}}]", 3, "steps need called"),
        ("- a list", 1, "names with values are needed"),
    ],
)
def test_what_cannot_run_is_refused_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_config(config_file(tmp_path, text))
    assert f"cases.yaml, line {line}" in str(refused.value)


CHATS = (
    "{% for turn in _conversation %}{{ turn.input }}{% endfor %}{{ q }}",
    "{{ _conversation | length }}: {{ q }}",
    "{% if _conversation and q %}{{ q }}{% endif %}",
    '[{"role": "user", "content": "{{ _conversation[0].output | default(\\"-\\") }}"}]',
    '[{% for turn in _conversation %}{"role": "user", "content": "{{ turn.input }}"},{% endfor %}1]',
    "- role: user\n  content: '{{ _conversation }}'",
)


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize(
    "place",
    [
        *("value", "list", "object", "v.txt", "values.yaml"),
        *("default", "scenario", "csv", "json case", "assert", "rubric", "prefix"),
    ],
)
def test_a_history_of_the_chat_outside_a_prompt_is_refused_and_not_taken_for_an_empty_one(
    tmp_path: Path, chat: str, place: str
) -> None:
    prompts: list[Any] = ["{{q}}"]
    case: dict[str, Any] = {"vars": {"q": "Hi"}}
    data: dict[str, Any] = {"providers": ["agentbook:nobody"], "prompts": prompts, "tests": [case]}
    match place:
        case "value" | "list" | "object":
            case["vars"]["h"] = {"value": chat, "list": ["a", chat], "object": {"a": [chat]}}[place]
        case "v.txt":
            (tmp_path / place).write_text(chat)
            case["vars"]["h"] = f"file://{place}"
        case "values.yaml":
            (tmp_path / place).write_text(json.dumps({"h": ["a", chat]}))
            case["vars"] = f"file://{place}"
        case "default":
            data["defaultTest"] = {"vars": {"h": chat}}
        case "scenario":
            data["scenarios"] = [{"config": [{"vars": {"h": chat}}], "tests": [case]}]
        case "csv":
            with open(tmp_path / "cases.csv", "w", newline="") as file:
                csv.writer(file).writerows([["q", "h"], ["Hi", chat]])
            data["tests"] = "file://cases.csv"
        case "json case":
            (tmp_path / "cases.jsonl").write_text(json.dumps({"vars": {"h": chat}}))
            data["tests"] = "file://cases.jsonl"
        case "assert":
            case["assert"] = [{"type": "assert-set", "assert": [{"type": "contains", "value": chat}]}]
        case "rubric":
            case["assert"] = [{"type": "llm-rubric", "value": "It is kind.", "rubricPrompt": chat}]
        case "prefix":
            case["options"] = {"prefix": chat}
    file = config_file(tmp_path, json.dumps(data, indent=1))
    done = CliRunner().invoke(main, ["eval", str(file), "--out", str(tmp_path / "out"), "--no-progress"])
    assert done.exit_code == 1
    assert done.stderr.count("`_conversation`") == 1
    assert "cases." in done.stderr or "values.yaml" in done.stderr
    with pytest.raises(ConfigError, match="`_conversation`"):
        ab.PromptLab.load(
            file, ab.Client("http://127.0.0.1:9/v1", credentials="11111111-1111-4111-8111-111111111111:s")
        )


def test_a_text_about_the_history_of_a_chat_is_no_use_of_it(tmp_path: Path) -> None:
    text = "What does _conversation mean? {% raw %}{{ _conversation }}{% endraw %}"
    config = read_config(config_file(tmp_path, json.dumps({"prompts": [text], "tests": [{"vars": {"q": text}}]})))
    assert [prompt.text for prompt in config.prompts] == [text]


def test_the_config_of_a_python_assert_reaches_its_code(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(
        "def get_assert(output, context):\n    return any(word in output for word in context['config']['words'])\n"
    )
    words = {"words": ["refund", "{{ order }}"]}
    asserts = [
        {"type": "python", "value": "context['config']['words'][1][:2] == 2 * chr(123)", "config": words},
        {"type": "python", "value": "file://words.py", "config": words},
        {"type": "not-python", "value": "file://words.py", "config": {"words": ["secret"]}},
        {"type": "assert-set", "assert": [{"type": "python", "value": "context['config']", "config": 0.5}]},
        {"type": "python", "value": "context['config'].pop('words') is not None", "config": words},
        {"type": "python", "value": "'config' not in context"},
        {"type": "not-python", "value": "file://words.py"},
        {"type": "python", "value": "file://words.py", "config": {"words": []}},
    ]
    tests = [{"providerOutput": "Your refund.", "assert": [each]} for each in asserts]
    file, out = config_file(tmp_path, json.dumps({"prompts": ["hi"], "tests": tests})), tmp_path / "out"
    done = CliRunner().invoke(main, ["eval", str(file), "--out", str(out), "--no-progress"])
    assert done.exit_code == 100, done.output
    rows = json.loads((out / "results.json").read_text())["results"]["results"]
    # Code that raises fails, even negated.
    assert [row["success"] for row in rows] == [True] * 6 + [False] * 2
    assert rows[0]["gradingResult"]["componentResults"][0]["assertion"]["config"] == words
    copy = write_config(tmp_path / "copy.yaml", read_config(file))
    assert read_config(copy).cases[0].asserts[0].config == words


def test_an_unreadable_file_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: the file cannot be read"):
        read_config(tmp_path / "nothing.yaml")
    (tmp_path / "rows.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(ConfigError, match=r"rows\.csv, line 2: 3 columns"):
        read_config(config_file(tmp_path, "prompts: [hi]\ntests: rows.csv"))
    (tmp_path / "rows.csv").write_text("a,__expected\n1,javascript: true\n")
    with pytest.raises(ConfigError, match=r"rows\.csv, line 2 \(row 1\), .*data file"):
        read_config(config_file(tmp_path, "prompts: [hi]\ntests: rows.csv"))


@pytest.mark.parametrize("name", ["asserts", "matrix", "templates", "rows"])
def test_a_file_is_the_same_after_writing_it(tmp_path: Path, name: str) -> None:
    config = read_config(PEERS / f"{name}.yaml")
    again = read_config(write_config(PEERS / f".{name}.again.yaml", config))
    (PEERS / f".{name}.again.yaml").unlink()
    assert [prompt.text for prompt in again.prompts] == [prompt.text for prompt in config.prompts]
    assert again.cases == config.cases
    assert again.default == config.default


def test_texts_that_yaml_takes_for_something_else_are_quoted(tmp_path: Path) -> None:
    texts = ["1e3", "yes", "0o17", "null", "2026-01-01", "a\nb\n", " x", "# no comment", "{{a}}", "😀", "1:30"]
    config = Config((Prompt("ask", "{{a}}"),), tuple(Case({"a": text}) for text in texts), agent="acme~writer")
    path = write_config(tmp_path / "out.yaml", config)
    assert [case.vars["a"] for case in read_config(path).cases] == texts
    assert read_config(path).agent == "acme~writer"


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    path = config_file(tmp_path, "prompts: [hi]\ntests: [{vars: {a: yes, b: 1e3, c: 012, d: 1:30, e: 0o17, f: ~}}]")
    assert read_config(path).cases[0].vars == {"a": "yes", "b": 1000.0, "c": 12, "d": "1:30", "e": 15, "f": None}


def test_a_question_within_braces_is_text(tmp_path: Path) -> None:
    path = config_file(tmp_path, "prompts: [Why?, '{{q}}']\ntests: [{vars: {q: What is it?, b: a?b, c: [x?, y]}}]")
    assert read_config(path).prompts[0].text == "Why?"
    assert read_config(path).cases[0].vars == {"q": "What is it?", "b": "a?b", "c": ["x?", "y"]}


def test_a_key_in_a_file_is_neither_kept_nor_written(tmp_path: Path) -> None:
    text = (
        "prompts: [hi]\nproviders: [{id: openai:gpt, config: {apiKey: sk-planted}}]\nenv: {OPENAI_API_KEY: sk-planted}"
    )
    config = read_config(config_file(tmp_path, text))
    assert len(config.notes) == 2
    assert "sk-planted" not in repr(config)
    assert "sk-planted" not in write_config(tmp_path / "out.yaml", config).read_text()


def test_a_template_reaches_nothing_but_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", "id:planted")
    monkeypatch.setenv("AGENTBOOK_PLACE", "here")
    assert render("{{ env.AGENTBOOK_PLACE }}", {}, ["AGENTBOOK_PLACE"]) == "here"
    with pytest.raises(TemplateError, match="--env AGENTBOOK_API_KEY"):
        render("{{ env.AGENTBOOK_API_KEY }}", {}, ["AGENTBOOK_PLACE"])
    for attempt in ("{{ ''.__class__ }}", "{{ [].append }}", "{{ q.data }}", "{{ q.__init__.__globals__ }}"):
        assert render(attempt, {"q": {}}) == ""


def test_a_broken_assert_fails_its_cell_alone() -> None:
    def broken(message: str, agent: str | None) -> str:
        raise RuntimeError("the judge is ill")

    case = Case(asserts=(Check("llm-rubric", "polite"),))
    result = grade(case, Reply("x"), Services(ask_judge=broken))
    assert (result.passed, result.score, result.error) == (None, 0.0, "RuntimeError: the judge is ill")


def test_a_matrix_multiplies_lists_and_repeats(tmp_path: Path) -> None:
    text = "prompts: ['{{a}}{{b}}']\ntests: [{vars: {a: [x, y], b: [1, 2]}}]\nevaluateOptions: {repeat: 2}"
    atoms = cells.expand(read_config(config_file(tmp_path, text)))
    assert [cells.render(cell.prompt, cell.case) for cell in atoms] == ["x1,2", "y1,2", "x1,2", "y1,2"]
    assert [(cell.number, cell.repeat) for cell in atoms] == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_edits_of_texts_that_are_too_long_are_not_counted() -> None:
    assert edit_distance("x" + "a" * 2_000, "a" * 2_000 + "x") == 2
    assert (edit_distance("", "abc"), edit_distance("abc", "")) == (3, 3)
    result = grade(Case(asserts=(Check("levenshtein", "b" * 100_000),)), Reply("a" * 200_000))
    assert (result.passed, result.error is not None) == (None, True)


@pytest.mark.parametrize(("kind", "ending"), [("equals", "txt"), ("python", "py"), ("javascript", "js")])
def test_every_kind_names_a_file_that_is_missing_or_outside_the_folder(tmp_path: Path, kind: str, ending: str) -> None:
    services = Services(folder=tmp_path, allowed=Permissions(javascript=True))
    for name, reason in ((f"missing.{ending}", "there is no file 'missing."), (f"../other.{ending}", "--allow-path")):
        result = grade_check(Check(kind, f"file://{name}"), Reply("Hello."), services)
        assert not result.passed
        assert reason in (result.error or result.reason or "")


def test_a_scenario_without_tests_is_not_asked_and_named(tmp_path: Path) -> None:
    empty, full = {"config": [{"vars": {"q": "a"}}]}, {"config": [{"vars": {"q": "b"}}], "tests": [{"threshold": 1}]}
    path = tmp_path / "file.yaml"
    path.write_text(json.dumps({"prompts": ["{{q}}"], "scenarios": [empty, full]}))
    config = read_config(path)
    assert [case.vars for case in config.cases] == [{"q": "b"}]
    assert any("scenarios[0]" in note for note in config.notes)
    path.write_text(json.dumps({"prompts": ["{{q}}"], "scenarios": [empty]}))
    with pytest.raises(ConfigError, match="scenarios"):
        read_config(path)
