"""An evaluation file reads its own folder and no variable, unless more is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import agentbook as ab
from agentbook.cli import main
from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.model import Reply, Services

SECRET = "what-nobody-may-read"
STORED = {"providerOutput": "Hello"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for evaluation files, with a secret beside it."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.json").write_text(json.dumps([{"vars": {"q": SECRET}, **STORED}]))
    (tmp_path / "secret.py").write_text("def get_assert(output, context): return True")
    inside = tmp_path / "evaluation"
    (inside / "sub").mkdir(parents=True)
    (inside / "text.txt").write_text("inside")
    (inside / "sub" / "cases.yaml").write_text(yaml.safe_dump([{"vars": {"q": "file://../text.txt"}, **STORED}]))
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "outside").symlink_to(tmp_path)
    return inside


def run(folder: Path, config: Any, *options: str) -> Result:
    (folder / "eval.yaml").write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    command = ["eval", str(folder / "eval.yaml"), "--out", str(folder / "out"), "--no-progress", *options]
    return CliRunner().invoke(main, command)


def report(folder: Path) -> str:
    return (folder / "out" / "results.json").read_text()


PLACES: dict[str, Any] = {
    "prompt": lambda name: {"prompts": [name]},
    "the only prompt": lambda name: {"prompts": name},
    "prompt's id": lambda name: {"prompts": [{"id": name, "label": "a"}]},
    "tests": lambda name: {"tests": name},
    "item of tests": lambda name: {"tests": [name]},
    "default": lambda name: {"defaultTest": name},
    "vars": lambda name: {"tests": [{"vars": name}]},
    "value": lambda name: {"tests": [{"vars": {"q": name}}]},
    "default value": lambda name: {"defaultTest": {"vars": {"q": name}}},
    "value in a list": lambda name: {"tests": [{"vars": {"q": ["a", name]}}]},
    "value deep within": lambda name: {"tests": [{"vars": {"q": {"a": [name]}}}]},
    "expected text": lambda name: {"tests": [{"assert": [{"type": "equals", "value": name}]}]},
    "schema": lambda name: {"defaultTest": {"assert": [{"type": "is-json", "value": name}]}},
    "list of texts": lambda name: {"tests": [{"assert": [{"type": "contains-any", "value": [name]}]}]},
    "set of asserts": lambda name: {
        "tests": [{"assert": [{"type": "assert-set", "assert": [{"type": "contains", "value": name}]}]}]
    },
    "rubric": lambda name: {"tests": [{"assert": [{"type": "llm-rubric", "value": name}]}]},
    "judge's prompt": lambda name: {
        "tests": [{"assert": [{"type": "llm-rubric", "value": "x", "rubricPrompt": name}]}]
    },
    "judge's prompt for all": lambda name: {"defaultTest": {"options": {"rubricPrompt": name}}},
    "scenario": lambda name: {"scenarios": [{"config": name, "tests": [{}]}]},
}
OUTSIDE = [
    "file:///etc/hostname",
    "file://../secret.txt",
    "file://sub/../../secret.txt",
    "file://link.txt",
    "file://outside/secret.txt",
    "file://outside/*.txt",
    "file://../*.json",
    "file:///**",
    "file://*/../../secret.txt",
    "file://~/secret.txt",
    "file://%2e%2e/secret.txt",
    "file://..\\secret.txt",
    "file://C:\\secret.txt",
    "file://\\\\server\\share\\secret.txt",
    "file://a\0b",
    "file://" + "x" * 5000,
    "file://[",
]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_outside_the_folder_is_read(folder: Path, place: str) -> None:
    names = OUTSIDE if place in ("prompt", "item of tests", "value") else OUTSIDE[:5]
    for name in [f"file://{folder.parent / 'secret.txt'}", *names]:
        result = run(folder, {"prompts": ["{{q}}"], "tests": [STORED], **PLACES[place](name)})
        assert (result.exit_code, result.exception.__class__) == (1, SystemExit), (name, result.output)
        assert "eval.yaml, line " in result.output, (name, result.output)
        assert SECRET not in result.output
        assert not (folder / "out" / "results.json").exists()


@pytest.mark.parametrize("name", ["../secret.txt", "{}/secret.txt", "outside/secret.txt", "link.txt"])
def test_a_prompt_that_is_the_name_of_a_file_outside_is_refused(folder: Path, name: str) -> None:
    result = run(folder, {"prompts": [name.format(folder.parent)], "tests": [STORED]})
    assert (result.exit_code, SECRET in result.output) == (1, False)
    assert "--allow-path" in result.output


@pytest.mark.parametrize("text", ["Is /etc/* a folder?", "/help", "~ 5 km?", "../x or ./x?", "C:\\ or D:\\?"])
def test_a_prompt_that_names_no_file_is_a_text(folder: Path, text: str) -> None:
    assert run(folder, {"prompts": [text], "tests": [STORED]}).exit_code == 0
    assert json.loads(report(folder))["results"]["results"][0]["prompt"]["raw"] == text


@pytest.mark.parametrize("code", ["file://../secret.py", "../secret.py:get_assert", "file://outside/secret.py"])
def test_no_code_outside_the_folder_is_run(folder: Path, code: str) -> None:
    config = {"prompts": ["x"], "tests": [{**STORED, "assert": [{"type": "python", "value": code}]}]}
    refused = run(folder, config)
    assert (refused.exit_code, "--allow-path" in refused.output) == (1, True)
    assert run(folder, config, "--allow-path", str(folder.parent)).exit_code == 0


def test_a_value_does_not_become_code_or_its_name(folder: Path) -> None:
    """A value that is filled in is text, whatever it names."""
    (folder / "own.py").write_text("def get_assert(output, context): return True")
    asserts = [{"type": "python", "value": "{{q}}"}, {"type": "equals", "value": "{{q}}"}]
    for value in ("own.py", str(folder.parent / "secret.py")):
        config = {"prompts": ["x"], "tests": [{"vars": {"q": value}, **STORED, "assert": asserts[:1]}]}
        assert run(folder, config).exit_code == 100
    config = {
        "prompts": ["{{q}}"],
        "tests": [{"vars": {"q": "{{ 'file://' }}" + f"{folder.parent}/secret.txt"}, **STORED, "assert": asserts[1:]}],
    }
    run(folder, config)
    assert SECRET not in report(folder)


TOUCH = "__import__('pathlib').Path({!r}).touch() or True"


@pytest.mark.parametrize("code", ["'{{q}}' not in output", "[{% for each in [q] %}'{{each}}'{% endfor %}]", "{{q}}\n"])
@pytest.mark.parametrize("kind", ["python", "not-python", "javascript"])
def test_no_value_is_filled_into_code(folder: Path, code: str, kind: str) -> None:
    mark = folder / "ran"
    (folder / "rows.jsonl").write_text(json.dumps({"vars": {"q": f"' + str({TOUCH.format(str(mark))}) + '"}, **STORED}))
    checks = {"defaultTest": {"assert": [{"type": kind, "value": code}]}}
    result = run(folder, {"prompts": ["x"], "tests": "file://rows.jsonl", **checks}, "--allow-javascript")
    assert (result.exit_code, mark.exists()) == (100, False)
    [row] = json.loads(report(folder))["results"]["results"]
    assert "context['vars']['q']" in row["error"]


def test_code_reads_values_and_is_no_template(folder: Path) -> None:
    code = "{% raw %}f'{{{output}}}'{% endraw %} == context['vars']['q']"
    case = {"vars": {"q": "{Hello}"}, **STORED, "assert": [{"type": "python", "value": code}]}
    assert run(folder, {"prompts": ["x"], "tests": [case]}).exit_code == 0


def line(check: Any) -> str:
    return json.dumps({**STORED, "assert": [check]})


PYTHON, SCRIPT = {"type": "python", "value": "True"}, {"type": "not-javascript", "value": "file://own.js"}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("rows.csv", "q,__expected\nx,python: True"),
        ("rows.csv", "q,__expected1,__expected2\nx,a,not-python: True"),
        ("rows.csv", "q,__expected\nx,fn: true"),
        ("rows.csv", "q,__expected\nx,file://own.py"),
        ("rows.jsonl", line({"type": "assert-set", "assert": [PYTHON]})),
        ("rows.jsonl", line(SCRIPT)),
        ("rows.json", f"[{line(PYTHON)}]"),
        ("rows.json", line({"type": "python", "value": "own.py:get_assert"})),
        ("rows.json", '["file://named.yaml"]'),
    ],
)
def test_a_data_file_brings_no_code(folder: Path, name: str, table: str) -> None:
    (folder / "own.py").write_text("def get_assert(output, context): return True")
    (folder / "own.js").write_text("module.exports = () => true")
    (folder / "named.yaml").write_text(f"[{line(PYTHON)}]")
    (folder / name).write_text(table)
    result = run(folder, {"prompts": ["x"], "tests": f"file://{name}"}, "--allow-javascript")
    assert (result.exit_code, "data file" in result.output) == (1, True)


def test_an_error_names_the_folder_of_a_file_that_lies_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = "prompts: [hi]\ntests: [file://nosuch.csv, {vars: {x: 'file://../secret.txt'}}]"
    Path("here.yaml").write_text(text, encoding="utf-8")
    output = CliRunner().invoke(main, ["eval", "here.yaml"]).output
    assert f"there is no file 'nosuch.csv' in {folder}." in output
    assert f"leads outside {folder}, the folder" in output


def test_the_folder_and_what_the_command_allows_are_read(folder: Path) -> None:
    tests = ["file://sub/*.yaml", {"vars": {"q": ["file://text.txt", "file://sub/../text.txt"]}, **STORED}]
    assert run(folder, {"prompts": ["{{q}}"], "tests": tests}).exit_code == 0
    assert report(folder).count('"raw": "inside"') == 3
    for name in ("file://../secret.txt", f"file://{folder.parent}/secret.txt", "file://link.txt", "file://../*.txt"):
        config = {"prompts": ["{{q}}"], "tests": [{"vars": {"q": name}, **STORED}]}
        assert run(folder, config, "--allow-path", str(folder.parent)).exit_code == 0
        assert SECRET in report(folder)
        assert run(folder, config, "--allow-path", str(folder / "sub")).exit_code == 1


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_a_cell_of_a_table_is_no_file(folder: Path, ending: str) -> None:
    rows = [{"vars": {"q": "fine"}, **STORED}, {"vars": {"q": "file://text.txt"}, **STORED}]
    tables = {
        "csv": "q,__providerOutput\nfine,Hello\nfile://text.txt,Hello\n",
        "json": json.dumps(rows),
        "jsonl": "\n".join(map(json.dumps, rows)),
    }
    (folder / f"rows.{ending}").write_text(tables[ending])
    config = {"prompts": ["{{q}}"], "tests": f"file://rows.{ending}"}
    refused = run(folder, config)
    assert (refused.exit_code, f"rows.{ending}, " in refused.output) == (1, True)
    assert ("row 2" if ending == "csv" else "line ") in refused.output
    assert run(folder, config, "--allow-path", str(folder)).exit_code == 0
    assert "inside" in report(folder)


def test_a_lab_refuses_likewise(folder: Path) -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials="11111111-1111-4111-8111-111111111111:s")
    path = folder / "lab.yaml"
    path.write_text(yaml.safe_dump({"prompts": ["{{q}}"], "tests": [{"vars": {"q": "file://../secret.txt"}}]}))
    with pytest.raises(ValueError, match=r"lab.yaml, line \d+") as refused:
        ab.PromptLab.load(path, client)
    assert SECRET not in str(refused.value)
    assert ab.PromptLab.load(path, client, allow_paths=folder.parent).inputs == [SECRET]


# Variables of the environment


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", SECRET)
    monkeypatch.setenv("PLANTED_PLACE", SECRET)
    monkeypatch.setenv("REGION", "north")


ATTEMPTS = [
    "{{ env.PLANTED_KEY }}",
    "{{ env.PLANTED_PLACE }}",
    "{{ env['PLANTED_PLACE'] }}",
    "{{ env[name] }}",
    "{{ env }}",
    "{{ env | dump }}",
    "{{ [env] | dump }}",
    "{{ {'a': env} | dump }}",
    "{{ env | string }}",
    "{{ env.items() }}",
    "{{ (env).PLANTED_KEY }}",
    "{% for name, value in env %}{{ name }}={{ value }}{% endfor %}",
    "{% set e = env %}{{ e.PLANTED_KEY }}",
    "{% macro f(e) %}{{ e.PLANTED_KEY }}{% endmacro %}{{ f(env) }}",
    "{{ env.REGION and env.PLANTED_KEY }}",
]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("place", ["prompt", "chat", "value", "cell", "prefix", "expected", "default"])
def test_no_variable_of_the_environment_is_filled_in(folder: Path, place: str) -> None:
    def case(values: dict[str, str], **others: Any) -> dict[str, Any]:
        return {"vars": {"name": "PLANTED_KEY", **values}, **STORED, **others}

    config: dict[str, Any] = {"prompts": ["{{q}}"], "tests": [case({"q": "x"})]}
    match place:
        case "prompt":
            config["prompts"] = ATTEMPTS
        case "chat":
            config["prompts"] = [json.dumps([{"role": "user", "content": attempt}]) for attempt in ATTEMPTS]
        case "value":
            config["tests"] = [case({"q": attempt}) for attempt in ATTEMPTS]
        case "default":
            config |= {"defaultTest": {"vars": {"q": ATTEMPTS}}, "tests": [case({})]}
        case "expected":
            config["tests"] = [
                case({"q": "x"}, **{"assert": [{"type": "contains", "value": attempt}]}) for attempt in ATTEMPTS
            ]
        case "cell" | "prefix":
            column = "q" if place == "cell" else "__prefix"
            cells = [attempt.replace('"', '""') for attempt in ATTEMPTS]
            rows = [f'"{cell}",PLANTED_KEY,Hello' for cell in cells]
            (folder / "rows.csv").write_text("\n".join([f"{column},name,__providerOutput", *rows]))
            config["tests"] = "file://rows.csv"
    result = run(folder, config, "--env", "REGION")
    text = report(folder)
    assert (result.exit_code, SECRET in result.output, SECRET in text) == (100, False, False)
    rows = json.loads(text)["results"]["results"]
    assert [row["success"] for row in rows] == [False] * len(ATTEMPTS)
    assert all("--env" in str(row) for row in rows)


@pytest.mark.parametrize("attempt", ["{{ env | list }}", "{{ env | attr('REGION') }}"])
def test_a_filter_over_the_whole_environment_is_refused(folder: Path, attempt: str) -> None:
    assert run(folder, {"prompts": [attempt], "tests": [STORED]}, "--env", "REGION").exit_code != 0


@pytest.mark.usefixtures("environment")
def test_variables_that_the_command_allows_are_filled_in(folder: Path) -> None:
    asserts = [{"type": "equals", "value": "{{ env.REGION }}"}]
    config = {
        "prompts": ["{{ env.REGION | upper }} {{ env['PLANTED_PLACE'] }} {{ env.UNSET | default('none') }}"],
        "tests": [{"providerOutput": "north", "assert": asserts}],
    }
    allowed = ["--env", "REGION", "--env", "PLANTED_PLACE", "--env", "UNSET"]
    assert run(folder, config, *allowed).exit_code == 0
    assert f"NORTH {SECRET} none" in report(folder)
    refused = run(folder, config, *allowed[:2])
    assert refused.exit_code == 100
    assert "--env PLANTED_PLACE" in report(folder)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_an_assert_of_a_data_file_has_no_variable_either(folder: Path, ending: str) -> None:
    asserts = [{"type": kind, "value": "{{ env.REGION }}"} for kind in ("contains-any", "regex")]
    rows = [{"vars": {"q": "x"}, "assert": [each], **STORED} for each in asserts]
    cells = [f"x,{each['type']}: {each['value']},Hello" for each in asserts]
    tables = {
        "csv": "\n".join(["q,__expected,__providerOutput", *cells]),
        "json": json.dumps(rows),
        "jsonl": "\n".join(map(json.dumps, rows)),
    }
    (folder / f"rows.{ending}").write_text(tables[ending])
    result = run(folder, {"prompts": ["{{q}}"], "tests": f"file://rows.{ending}"}, "--env", "REGION")
    rows = json.loads(report(folder))["results"]["results"]
    assert (result.exit_code, "north" in result.output + report(folder)) == (100, False)
    assert all("--env" in str(row) for row in rows)


@pytest.mark.usefixtures("environment")
def test_a_value_called_env_is_a_value(folder: Path) -> None:
    config = {"prompts": ["Is {{env}} up?"], "tests": [{"vars": {"env": "staging"}, **STORED}]}
    assert run(folder, config).exit_code == 0
    assert "Is staging up?" in report(folder)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_labs_rubric_sends_no_variable_to_its_judge(attempt: str) -> None:
    rubric = ab.checks.rubric(f"It is polite. {attempt}", agent="acme~judge")
    messages: list[str] = []
    services = Services(lambda message, agent: messages.append(message) or '{"pass": true}')
    grade_check(rubric, Reply("Hi", values={"name": "PLANTED_KEY"}), services)
    assert SECRET not in "".join(messages)


@pytest.mark.parametrize(
    "cell",
    [
        "{% set a = q %}" + "{% set a = a ~ a %}" * 60 + "{{ a }}",
        "{{ q" + " | replace('q', 'qq')" * 60 + " }}",
        "{{ q" + " | dump" * 60 + " }}",
        "{% for a in q %}{% for b in q %}{% for c in q %}{% for d in q %}{% for e in q %}x{% endfor %}{% endfor %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{{ 'q' * 10000000000 }}{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ q }}" * 15_000,
    ],
)
def test_a_cell_is_a_template_for_other_cells_only(folder: Path, cell: str) -> None:
    text = cell.replace('"', '""')
    (folder / "rows.csv").write_text(f'q,__providerOutput\n"{text}",Hello\nfine,Hello\n')
    result = run(folder, {"prompts": ["{{q}}"], "tests": "file://rows.csv"})
    rows = json.loads(report(folder))["results"]["results"]
    assert (result.exit_code, [bool(row["success"]) for row in rows]) == (100, [False, True])
