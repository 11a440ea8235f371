"""A lab, its file, the command and the fixture are one experiment."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.record import Record
from agentbook.evaluation import file
from agentbook.evaluation.evaluate import evaluate
from agentbook.evaluation.file import lab_data, read_lab
from agentbook.evaluation.inputs import read_rows
from agentbook.evaluation.source import ConfigError
from agentbook.evaluation.template import names_in
from agentbook.events.turns import Turn
from chat.prompt_lab.lab_platform import LabPlatform

SCHEMA = json.loads((Path(file.__file__).parent / "lab.schema.json").read_text("utf-8"))


class Platform(LabPlatform):
    """A platform whose judge looks for a word; other agents repeat the message."""

    def __init__(self) -> None:
        super().__init__(self.answer_to)
        self.add_agent("acme~judge", system_prompt="You judge.")
        self.asked: list[tuple[str, str]] = []

    def answer_to(self, settings: Record, text: str) -> str:
        prompt = str(settings.get("system_prompt"))
        if prompt != "You judge.":
            self.asked.append((prompt, text))
            return text
        reply, _, criterion = (
            text.replace("<reference>", "").replace("</reference>", "").rpartition("<reply>")[2].partition("</reply>")
        )
        if "nonsense" in criterion:
            return "I would rather not say."
        passed = criterion.partition("says ")[2].partition(".")[0] in reply
        return json.dumps({"reason": "so", "pass": passed, "score": 0.75 if passed else 0.25})

    def questions_asked(self) -> list[tuple[str, str]]:
        """The system prompts and messages since the last call, each once."""
        questions = sorted(set(self.asked))
        self.asked.clear()
        return questions

    async def aclose(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def agent_eval_client(platform: Platform) -> Callable[[], Platform]:
    return lambda: platform


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTBOOK_RUNS", str(tmp_path / "runs"))


def make(platform: Platform, **options: Any) -> ab.PromptLab:
    place = {"agent": "acme~writer", "workspace": "acme~lab", "follow": platform.follow}
    return ab.PromptLab(platform, **place, **options)  # type: ignore[arg-type]


def load(path: Path, platform: Platform, **options: Any) -> ab.PromptLab:
    return ab.PromptLab.load(path, platform, follow=platform.follow, **options)  # type: ignore[arg-type]


def rewritten(path: Path, platform: Platform, **options: Any) -> str:
    """The file after a lab has read and saved it, which is the same ever after."""
    first = load(path, platform, **options)
    target = first.save(path.with_name("once.yaml"))
    again = load(target, platform, **options)
    assert again == first
    assert again.save(path.with_name("twice.yaml")).read_bytes() == target.read_bytes()
    assert load(again.save(path.with_name("once.json")), platform, **options) == first
    return target.read_text("utf-8")


# What a file says


LABS = {
    "a lab": """
variants:
  now: {}
  brief: {system_prompt: "Be brief, {{reader}}.", temperature: 0, platform_tools: [now]}
  shown:
    system_prompt: Answer as in the examples.
    messages: [{role: user, content: "{{reader}}?"}, {role: assistant, content: Hi.}]
inputs:
  - {message: "What is {{noun.one}}?", values: {noun: {one: tea}, reader: no, n: 1_000}, checks: ["contains {{noun.one}}"]}
  - {name: twice, message: "{% raw %}{{reader}}{% endraw %}", values: {reader: 0b101}}
checks:
  - not: sorry
  - equals: 1.0
  - {similar: Tea., threshold: 0.8, name: close}
  - schema: {type: object}
  - shape: {"type": "array"}
repeats: 2
""".replace('  - shape: {"type": "array"}\n', ""),
    "a conversation": """
inputs:
  - messages: ["I want {{what}}.", Now.]
    values: {what: tea}
    checks: ["turn 2: Now", {"every turn": {schema: {type: string}}}]
  - user: {agent: acme~customer, instructions: You want tea., max_turns: 3}
""",
    "a judge": """
judge: acme~judge
inputs: ["Hello: there", 'yes']
checks:
  - judge: It says Hello.
  - judge acme~judge(0.5): It says yes.
  - {judge: It says you., agent: acme~other, prompt: "{{output}} {{rubric}}", name: other}
""",
    "names of checks": "inputs: [a]\nchecks: {short: words <= 80, polite: 'not: sorry', close: {like: tea}}\n",
}


@pytest.mark.parametrize("name", LABS)
def test_what_is_read_is_written_and_read_alike(platform: Platform, tmp_path: Path, name: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(LABS[name])
    text = rewritten(path, platform)
    assert yaml.safe_load(text) == yaml.load(text, file.YamlLoader)
    for each in (LABS[name], text):
        jsonschema_rs.validate(SCHEMA, yaml.load(each, file.YamlLoader))


def test_the_schema_of_editors_knows_the_fields() -> None:
    definitions = SCHEMA["$defs"]
    assert [*SCHEMA["properties"]] == [*file.FIELDS_OF_LAB]
    assert [*definitions["variant"]["properties"]] == [*file.FIELDS]
    assert [*definitions["input"]["properties"]] == [*file.FIELDS_OF_INPUT]
    assert [*definitions["user"]["properties"]] == [*file.FIELDS_OF_USER]
    for wrong in ({"agnet": "a"}, {"inputs": []}, {"repeats": 0}, {"inputs": [{"values": {"a": 1}}]}, {"checks": [3]}):
        assert not jsonschema_rs.is_valid(SCHEMA, wrong), wrong


def test_texts_of_a_file_stay_texts_and_values_are_no_templates(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(
        "inputs:\n- 2026-01-01\n- 1e3\n- {message: 'Say {{a}}', values: {a: '{{b}} {{a}}', b: no, c: 1_000}}\n"
    )
    inputs = read_lab(path).experiment.input_set
    assert inputs.texts == ["2026-01-01", "1e3", "Say {{b}} {{a}}"]
    assert inputs.find("Say {{b}} {{a}}").row == {"a": "{{b}} {{a}}", "b": "no", "c": "1_000"}


PIECES = [
    *("file://", "/etc/hosts", "package:", "python:", "{{", "}}", "{%", "%}", " raw ", "{% endraw %}", "{#", "#}", "{"),
    *(
        "topic",
        "input",
        "env.HOME",
        "{{ _conversation }}",
        "=1+1",
        "- ",
        "? ",
        ": ",
        "#",
        "'",
        '"',
        "\\",
        "\n",
        "\r",
        "\x85",
        "\u2028",
        "\0",
    ),
    *("\ufeff", "\U0001f600", "[1,2]", "true", "007", "null", "1e3", "<<", "&a", "*a", "!!x", "|", "%", " ", "\t"),
]
TEXTS = st.one_of(st.text(max_size=30), st.builds("".join, st.lists(st.sampled_from(PIECES), max_size=9))).map(
    str.strip
)


ROWS = st.lists(st.tuples(TEXTS.filter(bool), TEXTS, TEXTS), min_size=1, max_size=3)


@given(ROWS, TEXTS)
def test_what_people_wrote_stays_text(tmp_path: Path, values: list[tuple[str, str, str]], check: str) -> None:
    platform = Platform()
    lab = make(platform)
    lab.add_variant("v", "About {{topic}}.")
    rows = [{"input": "{{a}}", "a": a, "topic": topic, "other": other} for a, topic, other in values]
    lab._lab.input_set.use(lab._lab.input_set.fill(None, rows, list(lab.variants.values())))
    lab.check([check] if check else [])
    if not {*names_in(check)} <= {"input", *rows[0]}:
        with pytest.raises(ValueError, match="no such column"):
            lab.save(tmp_path / "lab.yaml")
        return
    path = lab.save(tmp_path / "lab.yaml")
    again = load(path, platform)
    assert again == lab
    assert [again._lab.input_set.find(text) for text in again.inputs] == [
        lab._lab.input_set.find(text) for text in lab.inputs
    ]
    assert again.save(tmp_path / "again.yaml").read_bytes() == path.read_bytes()


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
BAD = {
    "a repeated key": ("agent: a\nagent: b\n", "line 2: the key 'agent' is repeated"),
    "an unknown field": ("inputs: [a]\nvariants:\n  a: {temprature: 1}\n", "line 3, .*did you mean `temperature`"),
    "a misspelt field": ("agnet: a\ninputs: [a]\n", "line 1, agnet: .*did you mean `agent`"),
    "a check": ("inputs: [a]\nchecks:\n- a\n- words <= many\n", r"line 4, checks\[1\]"),
    "a kind": ("inputs: [a]\nchecks:\n- {simliar: a, threshold: 1}\n", "line 3, .*did you mean `similar`"),
    "a kind in a line": ("inputs: [a]\nchecks:\n- judeg: It is kind.\n", "line 3, .*did you mean judge"),
    "an option": ("inputs: [a]\nchecks:\n- {schema: {}, threshold: 1}\n", "line 3, .*there is no `threshold`"),
    "a column": ("inputs:\n- message: '{{b}}'\n  values: rows.csv\n", "line 3, .*line 2 of rows.csv: .*there are input, a"),
    "a column of a variant": ("inputs: rows.csv\nvariants:\n  v:\n    system_prompt: '{{b}}'\n", "line 4, variants.v"),
    "a column of a check": ("inputs: rows.csv\nchecks: ['equals {{b}}']\n", r"line 2, checks\[0\]: .*\{\{b\}\}"),
    "no column input": ("inputs:\n- values: other.csv\n", "line 2, .*no column `input`; there are a"),
    "a short row": ("inputs: short.csv", r"short.csv, line 2: it has 1 cells"),
    "an open quote": ("inputs: quote.csv", "quote.csv, line 2"),
    "JSON Lines": ("inputs: rows.jsonl", "rows.jsonl, line 2"),
    "no rows": ("inputs: empty.csv", "no rows"),
    "no file": ("inputs: nosuch.csv", "line 1, inputs: there is no file"),
    "another file": ("inputs: ../secret.csv", "leads outside"),
    "an absolute path": ("inputs: /etc/passwd.csv", "leads outside"),
    "a link": ("inputs: link.csv", "leads outside"),
    "an ending": ("inputs: secret.txt", "ends in .csv or .jsonl"),
    "no input": ("inputs: []", "line 1, inputs: there is no input"),
    "no variant": ("inputs: [a]\nvariants: {}", "line 2, variants: there is no variant"),
    "no check": ("inputs: [a]\nchecks: []", "line 2, checks: there is no check"),
    "a cyclic alias": ("inputs: &a [*a]\n", "line 1: an alias stands within"),
    "a bomb": (BOMB, "line 7: its aliases"),
    "two names": ("inputs: [a]\nchecks: [a, a]\n", r"line 2, checks\[1\]: two checks are called"),
    "the name of a column": ("inputs: [a]\nchecks: ['reply: words <= 3']\n", "line 2, checks: .*'reply'"),
    "no judge": ("inputs: [a]\nchecks: ['judge: It is kind.']\n", "line 2, .*--judge"),
    "a colon": ("inputs:\n- Note: what is it?\n", "line 2, .*stands in quotes"),
    "examples": ("inputs: [a]\nvariants:\n  v: {system_prompt: a, messages: [{role: user, content: a}]}\n", "line 3, .*in turns"),
    "promptfoo's": ("prompts: ['{{q}}']\ntests: [{vars: {q: a}}]\n", "agentbook import"),
    "a function": ("inputs: [a]\nchecks:\n- function: checks.py:polite\n", "line 3, .*--allow-code"),
    "JSON": ('{"inputs": ["a"],\n "inputs": ["b"]}', "line 2: the key 'inputs' is repeated"),
    "an empty item": ("inputs:\n- a\n-\n", r"line 3, inputs\[1\]"),
    "an empty message": ("inputs:\n- message:\n", r"line 2, inputs\[0\]"),
    "a number": ("inputs: [a]\nrepeats: many\n", "line 2, repeats"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str) -> None:
    texts = {
        "rows.csv": "input,a\nWhy?,1\n", "other.csv": "a\n1\n", "short.csv": "input,a\nWhy?\n", "empty.csv": "input\n",
        "quote.csv": 'input\n"Why?\n', "rows.jsonl": '{"input": "a"}\nb\n', "checks.py": "raise SystemExit('ran')",
    }  # fmt: skip
    folder = tmp_path / "folder"
    folder.mkdir()
    for each, text in texts.items():
        (folder / each).write_text(text)
    (tmp_path / "secret.csv").write_text("input\nsecret\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    text, reason = BAD[name]
    (folder / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match=reason) as error:
        read_lab(folder / "lab.yaml")
    assert str(folder) in str(error.value)


def test_every_problem_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("agnet: a\nvariants: {v: {mode: loud}}\ninputs: [[]]\nchecks: ['/(/']\n")
    with pytest.raises(ConfigError) as error:
        read_lab(tmp_path / "lab.yaml")
    assert [re.search(r"line (\d)", problem)[1] for problem in error.value.problems] == ["1", "2", "4", "3"]


class Endless(io.StringIO):
    """A CSV file that has no end."""

    def __next__(self) -> str:
        self.line = getattr(self, "line", -1) + 1
        return f"What is {self.line}?,{self.line}\n" if self.line else "input,a\n"


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    rows = read_rows(tmp_path / "rows.csv", Endless())
    assert list(itertools.islice(rows, 2)) == [
        (2, {"input": "What is 1?", "a": "1"}),
        (3, {"input": "What is 2?", "a": "2"}),
    ]
    (tmp_path / "rows.csv").write_text("input,a\n" + "".join(f"What is {n}?,answer {n}\n" for n in range(100_000)))
    (tmp_path / "lab.yaml").write_text("inputs: rows.csv\nchecks: ['contains {{a}}']\n")
    assert len(read_lab(tmp_path / "lab.yaml").experiment.inputs) == 100_000


# Code


def test_a_function_runs_only_if_it_is_allowed(platform: Platform, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "checks.py").write_text(
        f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ndef polite(reply):\n    return 'please' in reply\n"
        "def near(reply, question, values):\n    return 0.4 if values['n'] == 3 else 1\n"
    )
    path = tmp_path / "lab.yaml"
    path.write_text(
        "agent: acme~writer\nworkspace: acme~lab\ninputs: [{message: 'please', values: {n: 3}}]\n"
        "checks: ['function: checks.py:polite', 'close: function: checks.py:near', 'not: function: checks.py:polite']\n"
    )
    with pytest.raises(ConfigError, match="allow_code"):
        load(path, platform)
    with pytest.raises(ConfigError, match="--allow-code"):
        evaluate(path, lambda: pytest.fail("connected"))
    assert not mark.exists()
    assert "'close: function: checks.py:near'" in rewritten(path, platform, allow_code=True)
    assert mark.exists()
    lab = load(path, platform, allow_code=True)
    lab.add_variant("now")
    row = lab.run(progress=False).iloc[0]
    assert [row["polite"], row["close"], row["close_score"], row["not polite"]] == [True, False, 0.4, False]
    (tmp_path / "elsewhere").mkdir()
    with pytest.warns(UserWarning, match="stays there"):
        lab.save(tmp_path / "elsewhere" / "lab.yaml")
    lab.check({"mine": lambda reply: True})
    with pytest.warns(UserWarning, match="mine"):
        lab.save(tmp_path / "lab.yaml")
    assert load(tmp_path / "lab.yaml", platform).checks == {}


def test_nothing_else_in_a_file_runs_or_reads(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "planted-secret")
    (tmp_path / "secret.txt").write_text("planted-secret")
    texts = ["{{env.PLANTED}}", "{{ 7 * 7 }}", "file://secret.txt", "{% for a in b %}{% endfor %}", "${PLANTED}"]
    path = tmp_path / "lab.yaml"
    for text in texts:
        data = {
            "agent": "acme~writer",
            "workspace": "acme~lab",
            "inputs": [{"message": "{{a}}", "values": {"a": text}}],
        }
        path.write_text(json.dumps({**data, "checks": [f"equals: {text}"] if "env" not in text else ["words >= 1"]}))
        results, _ = evaluate(path, lambda: platform, follow=platform.follow)  # type: ignore[arg-type, return-value]
        assert [(row.reply, row.status) for row in results.rows] == [(text, "passed")]
    for wrong in (
        "inputs: [!!python/object/apply:os.abort []]",
        "inputs: ['{{env.PLANTED}}']",
        "inputs: !include secret.txt",
    ):
        path.write_text(wrong)
        with pytest.raises(ConfigError) as error:
            read_lab(path)
        assert "planted-secret" not in str(error.value)


# One experiment


ROWS_OF_5000 = "question,expected\n" + "".join(f"What is {n}?,{n if n % 3 else 'nothing'}\n" for n in range(5000))
WHOLE = {
    "a conversation": """
agent: acme~writer
workspace: acme~lab
variants: {a: {system_prompt: A}, b: {system_prompt: B}}
inputs:
  - messages: [I want tea., Now.]
    checks: ["turn 1: tea"]
  - messages: [Hello., Bye.]
checks: [now, "every turn: words <= 2"]
repeats: 2
""",
    "a judge": """
agent: acme~writer
workspace: acme~lab
judge: acme~judge
variants: {a: {system_prompt: A}, b: {system_prompt: B}}
inputs:
  - {message: Hello, values: {word: Hello}}
  - {message: Bye, values: {word: you}}
  - {message: nonsense, values: {word: nonsense}}
checks: ["judge: It says {{word}}.", "strict: judge(0.8): It says {{word}}."]
""",
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_form_the_file_the_command_and_the_fixture_agree(
    agent_eval: Callable[..., Any], platform: Platform, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(WHOLE[name])
    lab = load(path, platform)
    lab.run(progress=False)
    saved = lab.save(tmp_path / "saved.yaml")
    assert_alike(lab, agent_eval(saved, follow=platform.follow, fail_under=0.0))


def assert_alike(lab: ab.PromptLab, results: Any) -> None:
    """The verdicts of an evaluation are those of the lab."""
    rows = {row.answer.key: row for row in results.rows}
    assert rows.keys() == lab._lab.answered.keys()
    for answer in lab._lab.answers:
        row = rows[answer.key]
        assert (row.reply, row.answer.verdicts) == (answer.reply, answer.verdicts)
        assert (row.status == "passed") is (answer.passed(list(lab._lab.all_checks)) is True)
    table = lab.compare_variants() if len(lab.variants) > 1 else None
    if table is not None:
        pd.testing.assert_frame_equal(
            table.query("metric != 'latency_s'").reset_index(drop=True),
            results.comparison.query("metric != 'latency_s'").reset_index(drop=True),
        )


def test_a_lab_of_5000_rows_is_judged_alike(agent_eval: Callable[..., Any], platform: Platform, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS_OF_5000)
    (tmp_path / "lab.yaml").write_text(
        "inputs: [{message: '{{question}}', values: rows.csv}]\nchecks: ['contains {{expected}}']\n"
    )
    lab = load(tmp_path / "lab.yaml", platform, agent="acme~writer", workspace="acme~lab")
    lab.add_variant("now")
    lab.check({"number": ab.checks.contains("{{expected}}")})
    inline = make(platform)
    inline.add_variant("now")
    inline._lab.input_set.use(lab._lab.input_set.find(text) for text in lab.inputs)
    inline.check(lab.checks)
    assert "values: rows.csv" in lab.save(tmp_path / "saved.yaml").read_text()
    for path in (tmp_path / "saved.yaml", inline.save(tmp_path / "inline.yaml")):
        results = agent_eval(
            path, agent="acme~writer", workspace="acme~lab", follow=platform.follow, fail_under=0.0, concurrency=64
        )
        assert (len(results.rows), results.count("failed")) == (5000, 1667)


def test_examples_are_sent_with_the_prompt(platform: Platform) -> None:
    lab = make(platform)
    lab.add_variant(
        "v", "Be {{tone}}.", messages=[{"role": "user", "content": "{{tone}}?"}, {"role": "assistant", "content": "Ho"}]
    )
    rows = [{"input": "Hello", "tone": "kind"}]
    lab.run(rows=rows, progress=False)
    [(prompt, text)] = platform.questions_asked()
    assert (
        text,
        prompt.startswith("Be kind."),
        "<user>\nkind?\n</user>\n\n<assistant>\nHo\n</assistant>" in prompt,
    ) == ("Hello", True, True)
    assert lab.preview()["system_prompt"].tolist() == [prompt]
    with pytest.raises(ValueError, match="system prompt"):
        lab.add_variant("w", messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])


@pytest.mark.parametrize("name", ["lab.html", "lab.txt", "lab", "lab.csv"])
def test_a_name_of_no_file_of_a_lab_is_refused(platform: Platform, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.yaml"):
        make(platform).save(tmp_path / name)


def test_what_cannot_be_asked_is_refused(platform: Platform, tmp_path: Path) -> None:
    lab = make(platform)
    lab.add_variant("v", "About {{topic}}.")
    for inputs in (["What is {{topic}}?"], ["Why?"]):
        lab.inputs = inputs
        with pytest.raises(ValueError, match="topic"):
            lab.save(tmp_path / "lab.yaml")
    lab.inputs = []
    assert load(lab.save(tmp_path / "lab.yaml"), platform).variants == lab.variants


def test_past_turns_are_masked_on_every_way_into_a_lab(platform: Platform) -> None:
    turns = pd.DataFrame(
        {
            "session_id": ["s1"],
            "prompt": ["I am ada@acme.test."],
            "reply": ["Hi ada@acme.test"],
            "initiator_name": ["Ada"],
        }
    )

    def sent(lab: ab.PromptLab, **options: Any) -> str:
        lab.add_variant("v", "Be brief.")
        frame = lab.run(progress=False, **options)
        return f"{platform.questions_asked()} {lab_data(lab._lab)} {frame.to_dict()}"

    turn = Turn("s1", prompt="I am ada@acme.test.", text="Hi ada@acme.test")
    for given_turns in (turns, [turn], turn, turns.to_dict("records")):
        assert "ada@" not in sent(make(platform, inputs=given_turns))
        assert "ada@" in sent(make(platform, inputs=given_turns, mask=False))
        assert "ada@" not in sent(make(platform), inputs=given_turns)
        assert "ada@" in sent(make(platform), inputs=given_turns, mask=False)
        for masked in (True, False):
            lab = make(platform)
            lab.add_inputs(given_turns, mask=masked)
            assert ("ada@" in sent(lab)) is not masked
    assert "ada@" not in sent(make(platform), inputs="Sum up: {{prompt}} {{reply}}", rows=turns)
