"""A lab and its file ask the same questions and give the same grades, both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.evaluation.asserts import KINDS, grade, grade_check
from agentbook.evaluation.check import CASES, EVERY, FUNCTION, TURN, Check, named, parse_check
from agentbook.evaluation.experiment import Answer, Experiment
from agentbook.evaluation.files import cells
from agentbook.evaluation.files.cells import read_message
from agentbook.evaluation.files.lab import read_lab, write_lab
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.files.write import write_config
from agentbook.evaluation.model import Case, Config, Grade, Prompt, Reply, Services, Step
from agentbook.evaluation.template import guarded, literal, literal_value

REPLIES = [
    *("Ada asks", "ask {{topic}} at file:///etc/passwd", '{"answer": 1}', '```json\n{"answer": "x"}\n```', ""),
    *("one two three\n", "x" * 40, "Ada", "tides", "\U0001f600 {% raw %}"),
]
WORDS = [
    "Ada",
    "tides",
    "{{topic}}",
    "file:///etc",
    "{% raw %}",
    "a, b",
    '"',
    "=1+1",
    "007",
    "two\nlines",
    "{{",
    "x" * 40,
]
TEXTS = st.one_of(st.sampled_from(WORDS), st.text(max_size=12))
NOT_EMPTY = TEXTS.map(str.strip).filter(bool)
TEMPLATES = st.one_of(
    NOT_EMPTY.map(literal), st.sampled_from(["{{topic}}", "{{ topic }} {{name}}", guarded("file://{{name}}"), "Ada"])
)
SCHEMAS = st.sampled_from([{"type": "object"}, {"type": "object", "required": ["answer"]}, {"type": "string"}])
LIMITS = st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.9, 3.0])
BOUNDS = st.sampled_from([{"max": 3}, {"min": 2}, {"min": 1, "max": 30}])
STEPS = ["called run_sql", "called plot, called run_sql, in this order", "not called plot", "at most 1", "no failures"]
LISTS = st.lists(TEMPLATES, min_size=1, max_size=3)


def of_kind(*kinds: str, **parts: Any) -> st.SearchStrategy[Check]:
    return st.builds(Check, st.sampled_from(kinds), **parts)


BY_KIND = [
    of_kind("equals", "contains", "icontains", "starts-with", "regex", value=TEMPLATES),
    of_kind("contains-any", "contains-all", "icontains-any", "icontains-all", value=LISTS),
    of_kind("levenshtein", "similar", "agentbook:overlap", value=TEMPLATES, threshold=LIMITS),
    of_kind("is-json", "contains-json", "agentbook:json", value=SCHEMAS),
    of_kind("latency", threshold=st.sampled_from([1000.0, 1250.0, 9000.5])),
    of_kind("cost", threshold=st.sampled_from([0.1, 0.5])),
    of_kind("word-count", "agentbook:characters", value=BOUNDS),
    of_kind("agentbook:pattern", value=st.sampled_from([{"pattern": "a.a", "flags": "i"}, {"pattern": r"^\w+$"}])),
    of_kind("agentbook:steps", value=st.sampled_from(STEPS).map(lambda text: parse_check(f"steps: {text}").value)),
    of_kind(
        "python", value=st.sampled_from(["'Ada' in output", "len(output) / 10", "context['vars']['topic'] == output"])
    ),
    of_kind(
        "llm-rubric",
        value=st.sampled_from(["It says {{topic}}.", "It is nonsense.", "It is polite."]),
        threshold=LIMITS,
        agent=st.sampled_from(["acme~judge", "acme~other"]),
        rubric_prompt=st.none() | st.just("{{ output }} {{ rubric }} {{topic}}"),
    ),
]


@st.composite
def checks(draw: st.DrawFn) -> Check:
    """A check of any kind, negated or not, or a set of them."""
    single = st.one_of(BY_KIND)
    check = draw(single)
    if draw(st.integers(0, 5)) == 0:
        children = tuple(draw(st.lists(single, min_size=1, max_size=3)))
        return Check("assert-set", threshold=draw(LIMITS), children=children)
    if draw(st.integers(0, 5)) == 0:
        return Check(TURN, draw(st.sampled_from([1, 2, -1, EVERY])), children=(check,))
    kind = f"not-{check.type}" if draw(st.booleans()) else check.type
    weight = draw(st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.0]))
    return Check(kind, check.value, check.threshold, weight, None, check.rubric_prompt, check.config, check.agent)


def test_the_checks_are_of_every_kind_that_a_file_can_hold() -> None:
    text = " ".join(str(strategy) for strategy in BY_KIND)
    assert [kind for kind in KINDS if f"'{kind}'" not in text] == ["javascript", FUNCTION, TURN, CASES, "assert-set"]


def judge(message: str, agent: str | None) -> str:
    """A judge whose answer depends on all that it is asked, and on who it is."""
    if "nonsense" in message:
        return "I would rather not say."
    number = sum(map(ord, f"{agent}{message}"))
    passed: dict[str, Any] = {"pass": number % 2 == 0} if number % 5 else {}
    return json.dumps({**passed, "reason": "so", "score": number % 7 / 7})


def embed(texts: Iterable[str]) -> list[list[float]]:
    return [[1.0, *(float(text.count(char)) for char in "aeiou")] for text in texts]


KNOWN: dict[str, Any] = {"latency_s": 1.25, "cost": 0.5, "steps": [Step("run_sql"), Step("plot", failed=True)]}
Asked = dict[tuple[str, str | None, str, int], list[Any]]


def outcome(grades: list[Grade]) -> Any:
    return [(grade.passed, round(grade.points, 9)) for grade in grades]


def graded_by_a_lab(lab: Experiment, repeats: int) -> Asked:
    """The questions of a lab, and whether each of the replies passed."""
    asked: Asked = {}
    for variant in lab.variants.values():
        for each in lab.input_set.fill(None, None, [variant]):
            key = variant.name, variant.filled(each.row).system_prompt, each.message
            for reply in REPLIES:
                answer = Answer(
                    variant.name,
                    each.text,
                    status="answered",
                    reply=reply,
                    message=each.message,
                    row=dict(each.row),
                    **KNOWN,
                )
                services = Services(judge, embed)
                for name, check in lab.checks.items():
                    answer.verdicts[name] = grade_check(check, answer.as_reply(), services)
                passed = answer.passed(list(lab.checks)) if lab.checks else True
                for repeat in range(1, repeats + 1):
                    asked.setdefault((*key, repeat), []).append(passed)
    return asked


def graded_by_the_command(path: Path) -> Asked:
    """The questions of a file, and whether each of the replies passed."""
    config = read_config(path)
    asked: Asked = {}
    for cell in cells.expand(config):
        sent = read_message(cells.render(cell.prompt, cell.case))
        for reply in REPLIES:
            services = Services(lambda message, agent: judge(message, agent or config.judge), embed, config.folder)
            result = grade(cell.case, Reply(reply, prompt=sent.text, **KNOWN), services)
            asked.setdefault((cell.prompt.label, sent.system_prompt, sent.text, cell.repeat), []).append(result.passed)
    return asked


def loaded(path: Path) -> tuple[Experiment, int]:
    lab = read_lab(path).experiment
    return lab, lab.repeats


ROWS = st.lists(st.fixed_dictionaries({"topic": TEXTS, "name": TEXTS | st.integers(0, 99)}), min_size=1, max_size=3)


@given(ROWS, st.lists(checks(), max_size=4), st.integers(1, 2), st.booleans())
def test_from_a_lab_to_a_file_and_back(
    tmp_path: Path, rows: list[dict[str, Any]], made: list[Check], repeats: int, templates: bool
) -> None:
    lab = Experiment()
    lab.add_variant("plain", "Be brief.")
    lab.add_variant("expert", "About {{topic}}, for {{name}}." if templates else "{% if x %} {{ 1 + 1 }}")
    lab.input_set.use(
        lab.input_set.fill("Explain {{topic}}?" if templates else ["Why?", "How?"], rows, list(lab.variants.values()))
    )
    lab.check({f"check {n}": check for n, check in enumerate(made)})
    expected = graded_by_a_lab(lab, repeats)
    path = tmp_path / "lab.yaml"
    lab.repeats = repeats
    write_lab(path, lab)
    assert graded_by_the_command(path) == expected
    again, repeats_again = loaded(path)
    assert graded_by_a_lab(again, repeats_again) == expected
    write_lab(tmp_path / "again.yaml", again)
    assert graded_by_the_command(tmp_path / "again.yaml") == expected


@pytest.mark.parametrize("name", ["tests.csv", "tests.jsonl"])
@settings(max_examples=15)
@given(rows=ROWS, made=st.lists(checks(), max_size=4))
def test_a_test_set_asks_and_grades_as_the_file_of_its_lab(
    tmp_path: Path, name: str, rows: list[dict[str, Any]], made: list[Check]
) -> None:
    lab = Experiment()
    lab.add_variant("plain", "Be brief.")
    asked = lab.input_set.fill("Explain {{topic}}?", rows, list(lab.variants.values()))
    lab.input_set.use(asked)
    lab.check({f"check {n}": check for n, check in enumerate(made)})
    notes = " ".join(write_lab(tmp_path / name, lab))
    assert name == "tests.csv" or any(check.reads("python") for check in made) or not notes
    lab.check({label: check for label, check in lab.checks.items() if f"“{label}”" not in notes})
    lost = re.findall("the values of case ([^;]*);", notes)
    lab.input_set.use([each for n, each in enumerate(asked, 1) if not lost or str(n) not in lost[0].split(", ")])
    judge = next((agent for check in lab.checks.values() for agent in check.judges), None)
    prompt = Prompt("plain", cells.write_chat("{{input}}", "Be brief."))
    path = write_config(tmp_path / "eval.yaml", Config((prompt,), judge=judge))
    path.write_text(f"{path.read_text()}tests: file://{name}\n")
    if lab.input_set.texts:
        write_lab(tmp_path / "lab.yaml", lab)
        assert graded_by_the_command(path) == graded_by_the_command(tmp_path / "lab.yaml")


def test_a_test_set_names_what_csv_cannot_hold(tmp_path: Path) -> None:
    lab = Experiment()
    lab.input_set.use(lab.input_set.fill(["=1+1", "{% raw %}{{x}}{% endraw %}"], None, []))
    part = Check("contains", "a")
    lab.check({"plain": part, "both": Check("assert-set", children=(part,))})
    notes = " ".join(write_lab(tmp_path / "tests.csv", lab))
    assert "“both”" in notes
    assert "“plain”" not in notes
    assert "the values of case 2;" in notes
    rows = pd.read_csv(tmp_path / "tests.csv").to_dict("records")
    assert rows == [{"input": "=1+1", "__expected1": "contains: a"}]


CASE = st.builds(
    lambda topic, asserts, threshold: Case(
        {"question": "Why?", "topic": literal_value(topic), "name": "n"}, tuple(asserts), threshold
    ),
    NOT_EMPTY,
    st.lists(checks(), max_size=2),
    LIMITS,
)


@given(st.lists(CASE, min_size=1, max_size=3, unique_by=lambda case: str(case.vars)), st.lists(checks(), max_size=2))
def test_from_a_file_to_a_lab_and_back(tmp_path: Path, cases: list[Case], shared: list[Check]) -> None:
    chat = json.dumps([{"role": "system", "content": "About {{topic}}."}, {"role": "user", "content": "{{question}}"}])
    prompts = Prompt("chat", chat), Prompt("plain", "{{question}}")
    path = tmp_path / "file.yaml"
    write_config(path, Config(prompts, tuple(cases), Case(asserts=tuple(map(named, shared))), judge="acme~judge"))
    expected = graded_by_the_command(path)
    lab, repeats = loaded(path)
    assert graded_by_a_lab(lab, repeats) == expected
    write_lab(tmp_path / "lab.yaml", lab)
    assert graded_by_the_command(tmp_path / "lab.yaml") == expected


def test_what_all_cases_check_stays_apart_from_what_one_checks(tmp_path: Path) -> None:
    own, shared = Check("equals", "b"), Check("word-count", 3, name="short")
    cases = Case({"q": "a"}), Case({"q": "b"}, asserts=(own,))
    path = tmp_path / "file.yaml"
    write_config(path, Config((Prompt("ask", "{{q}}"),), cases, Case(asserts=(shared,))))
    lab, _ = loaded(path)
    assert list(lab.checks) == ["cases of the file", "short"]
    write_lab(tmp_path / "lab.yaml", lab)
    again = read_config(tmp_path / "lab.yaml")
    assert [each.asserts for each in (again.default, *again.cases)] == [(shared,), (), (own,)]


@pytest.mark.parametrize("line", ["turn 2: one", "not: turn 2: one", "every turn: steps: called run_sql"])
def test_what_is_not_there_to_check_leaves_it_to_the_other_checks(line: str) -> None:
    check, failing, reply = parse_check(line), parse_check("words >= 9"), Reply("one")
    alone, both = (grade(Case(asserts=asserts), reply) for asserts in ((check,), (failing, check)))
    assert (alone.passed, both.passed) == (None, False)
    assert alone.error == grade_check(check, reply).error is not None
    assert both.error is None


RUBRIC = Check("llm-rubric", "It greets.", agent="acme~judge")


@pytest.mark.parametrize("check", [RUBRIC, Check("assert-set", children=(RUBRIC,))])
def test_a_rubric_within_a_turn_is_asked_with_the_prompt_of_its_case(tmp_path: Path, check: Check) -> None:
    asked: list[str] = []

    def answer(message: str, agent: str | None) -> str:
        asked.append(message)
        return '{"pass": true}'

    case = Case({"q": "Hi"}, (Check(TURN, 1, children=(check,)),), options={"rubricPrompt": "{{output}}: {{rubric}}"})
    path = write_config(tmp_path / "file.yaml", Config((Prompt("ask", "{{q}}"),), (case,), judge="acme~judge"))
    (cell,) = cells.expand(read_config(path))
    grade(cell.case, Reply("Hello."), Services(answer))
    (checks,) = read_lab(path).experiment.checks.values()
    grade_check(checks, Reply("Hello.", prompt="Hi"), Services(answer))
    assert asked == ["Hello.: It greets."] * 2


def test_code_saves_and_loads_the_same_file(tmp_path: Path) -> None:
    client = ab.Client("http://127.0.0.1:9", credentials=ab.ApiKey("a:b"))
    lab = ab.PromptLab(client, "acme~writer", "acme~lab")
    lab.add_variant("kind", "Be kind.")
    lab.inputs = ["one"]
    lab.check({"short": ab.checks.length(max=9), "odd": lambda reply: True})
    with pytest.warns(UserWarning, match="“odd”"):
        path = lab.save(tmp_path / "cases.yaml")
    loaded = ab.PromptLab.load(path, client)
    assert (list(loaded.variants), loaded.inputs, list(loaded.checks)) == (["kind"], ["one"], ["short"])
    assert loaded.agent == lab.agent


def test_prompts_that_send_different_messages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("prompts: ['Explain {{q}}', 'Define {{q}}']\ntests: [{vars: {q: one}}]")
    with pytest.raises(ValueError, match="agentbook eval"):
        read_lab(tmp_path / "two.yaml")


def test_an_assert_names_its_own_judge(tmp_path: Path) -> None:
    rubric = {"type": "llm-rubric", "value": "It greets."}
    asserts = [rubric, {**rubric, "provider": "agentbook:acme~other"}]
    options = {"provider": "agentbook:acme~judge"}
    path = tmp_path / "file.yaml"
    path.write_text(
        json.dumps(
            {
                "prompts": ["{{q}}"],
                "defaultTest": {"assert": asserts, "options": options},
                "tests": [{"vars": {"q": "a"}}],
            }
        )
    )
    assert [check.judges for check in read_lab(path).experiment.checks.values()] == [("acme~judge",), ("acme~other",)]
    assert read_config(path).judge == "acme~judge"


def test_a_conversation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(
        "prompts: ['{% for turn in _conversation %}{{ turn.input }}{% endfor %}{{q}}']\ntests: [{vars: {q: a}}]"
    )
    with pytest.raises(ValueError, match="_conversation"):
        read_lab(path)
