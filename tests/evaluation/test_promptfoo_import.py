"""promptfoo's files become lab files; what a lab cannot say is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from agentbook.cli import main
from agentbook.evaluation.file import dump, read_lab
from agentbook.evaluation.promptfoo_import import import_promptfoo
from agentbook.evaluation.source import ConfigError

EXAMPLES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("promptfoo_examples.yaml").read_text("utf-8")
)


def write(folder: Path, config: Any, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    path = folder / "promptfooconfig.yaml"
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False), "utf-8")
    return path


def read(folder: Path, config: Any, **files: str) -> tuple[dict[str, Any], list[str]]:
    """The lab file of a file, which a lab can read, and what is left out."""
    lab, left_out = import_promptfoo(write(folder, config, files))
    if lab:
        (folder / "lab.yaml").write_text(dump(lab), "utf-8")
        read_lab(folder / "lab.yaml", allow_code=True, judge="acme~judge")
    return lab, [text.replace(f"{folder}/", "") for text in left_out]


def checks_of(folder: Path, *checks: str) -> tuple[list[Any], list[str]]:
    lines = "".join(f"  - {{{check}}}\n" for check in checks)
    lab, left_out = read(folder, "prompts: ['{{q}}']\ntests:\n- vars: {q: a}\n  assert:\n" + lines)
    return lab["inputs"][0].get("checks", []), left_out


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_becomes_a_lab_or_a_list_of_what_is_missing(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    lab, left_out = read(tmp_path, example["config"], **example.get("files", {}))
    assert [len(lab.get("inputs", ())), len(left_out)] == example["gives"]
    assert lab or left_out


def test_each_kind_of_assert_is_the_line_that_one_types(tmp_path: Path) -> None:
    lines = {
        "type: icontains, value: Paris": "Paris",
        "type: contains, value: 12": "contains: 12",
        "type: not-equals, value: 'a: b'": "not: equals: a: b",
        "type: equals, value: {a: 1}": {"schema": {"const": {"a": 1}}},
        "type: starts-with, value: Dear": "starts-with: Dear",
        r'type: regex, value: "^\\d{4}$"': r"regex: ^\d{4}$",
        "type: contains-any, value: 'x, \"y, z\"'": 'contains-any: ["x", "y, z"]',
        "type: not-icontains-all, value: [b, '{{ q }}']": 'not: icontains-all: ["b", "{{q}}"]',
        "type: is-json": "is-json:",
        "type: contains-json, value: {type: array}": {"contains-json": {"type": "array"}},
        "type: latency, threshold: 1500": "latency <= 1.5 s",
        "type: cost, threshold: 0.001, metric: cheap": "cheap: cost <= 0.001",
        "type: 'similar:cosine', value: b, threshold: 0.6": "similar(0.6): b",
        "type: word-count, value: 12": "words = 12",
        "type: word-count, value: {min: 2, max: 9}": "2 <= words <= 9",
        "type: llm-rubric, value: 'It names {{q}}.', threshold: 0.7": "judge(0.7): It names {{q}}.",
    }
    assert checks_of(tmp_path, *lines) == (list(lines.values()), [])


@pytest.mark.parametrize(
    ("check", "instead"),
    [
        ("type: javascript, value: output.length < 9", "function: FILE.py:NAME"),
        ("type: python, value: len(output) < 9", "function: FILE.py:NAME"),
        ("type: contians, value: a", "did you mean `contains`?"),
        ("type: is-sql", "python -m agentbook.promptfoo"),
        ("type: latency", "`threshold` is no number"),
        ("type: contains, value: ''", "it needs a text"),
        ("type: contains, value: a, weight: 0", "every check has to pass"),
        ("type: contains, value: a, transform: output.trim()", "a check reads the whole reply"),
        ("type: contains, value: '{{q | upper}}'", "{{q | upper}}"),
        ("type: assert-set, assert: [{type: contains, value: a}]", "every check has to pass"),
        ("type: is-json, value: {type: nonsense}", "no JSON schema"),
    ],
)
def test_an_assert_that_a_lab_lacks_is_listed_with_its_line(check: str, instead: str, tmp_path: Path) -> None:
    checks, [left_out] = checks_of(tmp_path, "type: contains, value: kept", check)
    assert checks == ["contains: kept"]
    assert left_out.startswith("promptfooconfig.yaml, line 6, tests[0].assert[1]")
    assert instead in left_out


def test_a_row_of_a_table_is_an_input_with_its_checks(tmp_path: Path) -> None:
    rows = (
        "q,__expected1,__expected2,__metric,__metadata:topic\n"
        "Who?,similar(0.9): x,Paris,right,people\n"
        '"Say ""a, b""",not-contains: sorry,"is-json: {""type"": ""object""}",,\n'
        "file://secret.txt,contains: a,,,\n"
        "Where?,grade: It is polite.,is-xml,,\n"
    )
    lab, left_out = read(tmp_path, "prompts: '{{q}}'\ntests: rows.csv\n", **{"rows.csv": rows, "secret.txt": "s3cret"})
    assert lab["inputs"] == [
        {"message": "{{q}}", "values": {"q": "Who?"}, "checks": ["right: similar(0.9): x", "right 2: equals: Paris"]},
        {
            "message": "{{q}}",
            "values": {"q": 'Say "a, b"'},
            "checks": ["not: contains: sorry", {"is-json": {"type": "object"}}],
        },
        {"message": "{{q}}", "values": {"q": "Where?"}, "checks": ["judge: It is polite."]},
    ]
    assert [text.split(":")[0] for text in left_out] == ["rows.csv, line 4.vars.q", "rows.csv, line 5.assert[1].type"]


def test_prompts_with_one_message_are_variants(tmp_path: Path) -> None:
    config = """
        prompts:
        - {label: short, raw: '[{"role": "system", "content": "Be short."}, {"role": "user", "content": {{ q | dump }}}]'}
        - file://long.yaml
        - {label: now, raw: "{{q}}", config: {temperature: 0}}
        - "Say {{q}}"
        tests: [{vars: {q: Hi}}]
        evaluateOptions: {repeat: 3}
    """
    long = "- {role: system, content: 'Be {{how}}.'}\n- {role: user, content: A}\n- {role: assistant, content: B}\n"
    lab, left_out = read(tmp_path, config, **{"long.yaml": f"{long}- {{role: user, content: '{{{{q}}}}'}}\n"})
    examples = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    assert lab == {
        "variants": {
            "short": {"system_prompt": "Be short."},
            "long": {"system_prompt": "Be {{how}}.", "messages": examples},
            "now": {"temperature": 0},
        },
        "inputs": [{"message": "{{q}}", "values": {"q": "Hi", "how": ""}}],
        "repeats": 3,
    }
    assert [text.split(": ")[0].removeprefix("promptfooconfig.yaml, ") for text in left_out] == [
        "line 6, prompts[3]",
        "line 7, tests[0]",  # has no value for {{how}}
    ]


def test_values_are_those_that_promptfoo_fills_in(tmp_path: Path) -> None:
    config = """
        prompts: ["{# note #}{{ a }} {{user.name}} {{list}} {% raw %}{{kept}}{% endraw %}"]
        defaultTest: {vars: {a: "{{b}}!", path: /tmp/x}, assert: [{type: icontains, value: "{{expected}}"}]}
        tests:
        - {vars: {b: [one, two], user: {name: Ada}, list: [1, 2], expected: 1_000}}
        - {vars: {b: "{{ c | upper }}", c: x, path: rows.csv}}
    """
    lab, left_out = read(tmp_path, config)
    shared = {"user": {"name": "Ada"}, "list": "1,2", "expected": "1_000"}
    assert [each["values"] for each in lab["inputs"]] == [
        {"a": "one!", "path": "/tmp/x", "b": "one", **shared},
        {"a": "two!", "path": "/tmp/x", "b": "two", **shared},
    ]
    assert lab["inputs"][0]["message"] == "{{a}} {{user.name}} {{list}} {% raw %}{{kept}}{% endraw %}"
    assert lab["checks"] == ["contains {{expected}}"]
    assert [text.split(":")[0] for text in left_out] == ["promptfooconfig.yaml, line 6, tests[1]"]


def test_a_value_of_a_check_may_stand_in_a_file(tmp_path: Path) -> None:
    config = """
        prompts: ["{{q}}"]
        tests:
        - vars: {q: a}
          assert:
          - {type: equals, value: file://data/value.json}
          - {type: is-json, value: file://data/value.json}
          - {type: contains-all, value: file://texts.yaml}
          - {type: contains, value: file://q.txt}
    """
    files = {"q.txt": "a {{b}}\n", "data/value.json": '{"type": "object"}', "texts.yaml": "[a, b]"}
    lab, left_out = read(tmp_path, config, **files)
    assert left_out == []
    assert lab["inputs"][0]["checks"] == [
        {"schema": {"const": {"type": "object"}}},
        {"is-json": {"type": "object"}},
        'contains-all: ["a", "b"]',
        "contains: a {% raw %}{{b}}{% endraw %}",
    ]


def test_only_files_of_the_folder_are_read_and_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    (tmp_path / "secret.txt").write_text("s3cret")
    folder = tmp_path / "evals"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "links").symlink_to(tmp_path)
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\ndef get_assert(output, context): return True\n"
    config = f"""
        prompts: ["{{{{q}}}}", "file://../secret.txt", "file://{tmp_path}/secret.txt", link.txt, "{{{{env.SECRET}}}}", make.py]
        defaultTest: {{vars: {{q: a}}}}
        tests:
        - {{vars: {{q: file://../secret.txt}}}}
        - {{vars: {{q: file://link.txt}}}}
        - {{vars: {{q: file://make.py}}}}
        - file://make.py:tests
        - https://example.org/tests.csv
        - file://links/*.txt
        - {{assert: [{{type: python, value: file://make.py}}, {{type: contains, value: file://../secret.txt}}]}}
    """
    lab, left_out = import_promptfoo(write(folder, config, {"make.py": code}))
    assert not ran.exists()
    assert lab["inputs"] == [{"message": "{{q}}", "values": {"q": "a"}, "checks": ["function: make.py:get_assert"]}]
    assert len(left_out) == 13
    assert "s3cret" not in f"{lab}{left_out}"
    assert "links/secret.txt" not in str(left_out)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("prompts: [a\n", "line 2"),
        ("prompts: [a]\nprompts: [b]\n", "line 2"),
        ("prompts: &a [*a]\n", "line 1"),
        ("- a\n", "line 1"),
        ("prompts: a\ntests: file://loop.yaml\n", "circle"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(text: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        import_promptfoo(write(tmp_path, text, {"loop.yaml": "- file://loop.yaml\n"}))
    assert place in str(refused.value)
    assert len(refused.value.problems) == 1


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


def test_the_command_writes_a_new_file_beside_and_lists_what_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, "prompts: ['{{q}}']\ntests: [{vars: {q: a}, assert: [{type: is-sql}]}]\n", {})
    strict = run(file, "--strict")
    assert (strict.exit_code, len(strict.stderr.splitlines()), list(tmp_path.iterdir())) == (1, 2, [file])
    done = run(file)
    assert (done.exit_code, len(done.stderr.splitlines())) == (0, 1)
    assert read_lab(tmp_path / "lab.yaml").experiment.inputs == ["a"]
    assert run(file).exit_code == 1, "a file that may have been edited stays"
    assert run(file, "--out", tmp_path / "lab.yaml").exit_code == 0
    assert run(file, "--out", tmp_path / "lab.json").exit_code == 0
    assert json.loads((tmp_path / "lab.json").read_text())["inputs"] == [{"message": "{{q}}", "values": {"q": "a"}}]
    for arguments in ([file, "--out", tmp_path / "none" / "lab.yaml"], [tmp_path], [tmp_path / "none.yaml"]):
        failed = run(*arguments)
        assert (failed.exit_code, type(failed.exception)) == (1, SystemExit)
        assert failed.stderr.splitlines()[-1].startswith("agentbook: ")


@pytest.mark.parametrize("text", ["prompts: ['{{q | upper}}']\n", "prompts: [\n"])
def test_the_command_writes_nothing_if_nothing_is_left(text: str, tmp_path: Path) -> None:
    file = write(tmp_path, text, {})
    assert run(file).exit_code == 1
    assert list(tmp_path.iterdir()) == [file]
