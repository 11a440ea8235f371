"""A template ends, whatever a shared file says: its check or its cell fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentbook.cli import main
from agentbook.evaluation.asserts import grade
from agentbook.evaluation.check import Check
from agentbook.evaluation.model import Case, Reply, Services

pytestmark = pytest.mark.timeout(60)

WORDS = "word " * 2000
ENDLESS = {
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "range": "{{ range(10**9) | join }}",
    "loops": "{% for a in q %}{% for b in q %}{% for c in q %}{% endfor %}{% endfor %}{% endfor %}",
    "texts joined": "{% set a = q %}" + "{% set a = a ~ a %}" * 60 + "{{ a | length }}",
    "texts added": "{% set a = q %}" + "{% set a = a + a %}" * 60 + "{{ a | length }}",
    "blocks": "{% set a = q %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 60,
    "text of a block": "{% set a %}{% for i in q %}" + "x" * 50_000 + "{% endfor %}{% endset %}",
    "lists": "{% set a = q %}" + "{% set a = [a, a] %}" * 60 + "{{ a }}",
    "dumped": "{% set a = q %}" + "{% set a = {'x': a, 'y': a} %}" * 60 + "{{ a | dump }}",
    "compared": "{% set a = q %}{% set b = q %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60 + "{{ a == b }}",
    "tested": "{% set a = q %}{% set b = q %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60 + "{{ a is eq(b) }}",
    "found": "{% set a = q %}{% set b = q %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60 + "{{ a in [b] }}",
    "calls": "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "replaced": "{{ q | replace('', q) | replace('', q) }}",
    "joined around": "{{ q" + " ~ q" * 900 + " }}",
    "a filter in a loop": "{% for a in q %}{% set b = q | upper %}{% endfor %}",
    "digits": "{{ " + "9" * 5000 + " }}",
    "deep": "{% for a in q %}" * 25 + "{% endfor %}" * 25,
}


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_template_fails_the_cells_that_it_is_in(template: str, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text(template)
    case = {"vars": {"q": WORDS}, "providerOutput": "Hello"}
    config = {
        "prompts": ["Say {{ q | length }}", template, "file://prompt.txt"],
        "tests": [case, case | {"assert": [{"type": "contains-any", "value": ["Hello", template]}]}],
    }
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(config))
    command = ["eval", str(tmp_path / "eval.yaml"), "--out", str(tmp_path / "out"), "--no-progress"]
    result = CliRunner().invoke(main, command)
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["results"]["results"]
    fine = [(row["promptIdx"], row["testIdx"]) for row in rows if row["success"]]
    assert (result.exit_code, fine, len(rows)) == (100, [(0, 0)], 6)


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("kind", ["equals", "llm-rubric"])
def test_an_endless_expected_text_is_the_checks_error(kind: str, template: str) -> None:
    result = grade(
        Case({"q": WORDS}, (Check(kind, template),)), Reply("Hello"), Services(lambda message, agent: message)
    )
    assert (result.passed, result.error is not None) == (None, True)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ (9**99999)**999 }}", "Infinity"),
        ("{% set a = 9 %}" + "{% set a = a * a %}" * 200 + "{{ a }}", "Infinity"),
        ("{{ 2 + 3 }} {{ 2 * 3 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 0.5 > 1.4 }} {{ 6 / 4 }}", "5 6 3 3 true 1.5"),
        ("{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ true }} {{ 'a' + 1 }}", "ab a1true a1"),
        ("{% for a in [7, 8] %}{{ loop.index + 1 }} {{ [4, 5][loop.index - 1] }} {% endfor %}", "2 4 3 5 "),
        ("{{ 3 is odd }} {{ q is string }} {{ 1 in [1, 2] }} {{ 'b' == 'b' }}", "true true true true"),
        ("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f('b') }}", "<b>"),
        ("{{ [1] | dump(10**9) | length < 50 }}", "true"),
        ("{% for a in q %}{% if loop.last %}{{ loop.index }}{% endif %}{% endfor %}", str(len(WORDS))),
    ],
)
def test_a_template_calculates_as_javascript_does(template: str, text: str) -> None:
    assert grade(Case({"q": WORDS}, (Check("equals", template),)), Reply(text)).passed
