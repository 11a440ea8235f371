"""A lab as an evaluation file, and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import agentbook as ab
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.experiment import Experiment
from agentbook.evaluation.files.eval_file import read_lab, write_lab
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.grade import Reply

from .lab_platform import make_lab

SCHEMA = {"type": "object"}


def an_experiment() -> Experiment:
    experiment = Experiment()
    experiment.add_variant("now")
    experiment.add_variant("brief", 'Answer "briefly".\nName {a} source.', mode="one-shot", description="short")
    experiment.inputs = ["What is a session?", "two\nlines: 'quoted'", "{% raw %}{{braces}}{% endraw %}"]
    experiment.check(
        {
            "source": "Source", "number": re.compile(r"#\d+", re.IGNORECASE), "plain": re.compile("order"),
            "shape": SCHEMA, "words": ab.checks.length(max=80), "size": ab.checks.length(max=300, unit="characters"),
            "fast": ab.checks.latency(2.5), "polite": ab.checks.rubric("It is polite.", agent="acme~judge"),
            "near": ab.checks.similar("yes", threshold=0.8), "mine": lambda reply: True,
        }
    )  # fmt: skip
    return experiment


def test_a_lab_is_saved_as_an_evaluation_file_and_loaded_again(tmp_path: Path) -> None:
    experiment = an_experiment()
    notes = write_lab(tmp_path / "lab.yaml", experiment, agent="acme~writer", workspace="acme~lab", repeats=2)
    assert [note.partition("”")[0] for note in notes] == ["“mine"]
    lab = read_lab(tmp_path / "lab.yaml")
    assert lab.variants == tuple(experiment.variants.values())
    assert list(lab.inputs) == [*experiment.inputs[:2], "{{braces}}"]
    assert (lab.agent, lab.workspace, lab.repeats) == ("acme~writer", "acme~lab", 2)
    assert list(lab.checks) == ["source", "number", "plain", "shape", "words", "size", "fast", "polite", "near"]
    reply = "See order #12 of the source."
    for name in ("source", "number", "plain", "words", "size", "fast"):
        ours = grade_check(experiment.checks[name], Reply(reply, 1.0))
        assert grade_check(lab.checks[name], Reply(reply, 1.0)).passed is ours.passed is True
    again = Experiment()
    for variant in lab.variants:
        again.add_variant(variant)
    again.input_set.use(lab.asked)
    again.check(list(lab.checks.values()))
    write_lab(tmp_path / "again.yaml", again, agent="acme~writer", workspace="acme~lab", repeats=2)
    first, second = (read_config(tmp_path / name) for name in ("lab.yaml", "again.yaml"))
    assert (first.prompts, first.default.asserts) == (second.prompts, second.default.asserts)


def test_code_saves_and_loads_the_same_file(tmp_path: Path) -> None:
    lab = make_lab()
    lab.add_variant("kind", "Be kind.")
    lab.inputs = ["one"]
    lab.check({"short": ab.checks.length(max=9), "odd": lambda reply: True})
    with pytest.warns(UserWarning, match="“odd” is not in the file"):
        path = lab.save(tmp_path / "cases.yaml")
    loaded = PromptLab.load(path, lab.client)
    assert (list(loaded.variants), loaded.inputs, list(loaded.checks)) == (["kind"], ["one"], ["short"])
    assert loaded.agent == lab.agent


def test_cases_with_asserts_of_their_own_become_one_check(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(
        "prompts:\n"
        '- \'[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{q}}"}]\'\n'
        "- '{{q}}'\n"
        "tests:\n"
        "- {vars: {q: one}, threshold: 0.5, assert: [{type: contains, value: a}, {type: contains, value: b}]}\n"
        "- {vars: {q: two}, assert: [{type: contains, value: a}]}\n"
    )
    lab = read_lab(tmp_path / "cases.yaml")
    assert [variant.system_prompt for variant in lab.variants] == ["Be kind.", None]
    assert lab.inputs == ("one", "two")
    (check,) = lab.checks.values()
    first = grade_check(check, Reply("a", input="one"))
    assert (first.passed, first.score) == (True, 0.5)
    assert grade_check(check, Reply("b", input="two")).passed is False


def test_prompts_that_send_different_messages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("prompts: ['Explain {{q}}', 'Define {{q}}']\ntests: [{vars: {q: one}}]")
    with pytest.raises(ValueError, match=r"send different messages.*agentbook eval"):
        read_lab(tmp_path / "two.yaml")
