"""Templates print what Nunjucks prints (tests/peers/javascript), or are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbook.cli import main
from agentbook.evaluation.template import TemplateError, UnsupportedTemplate, check, render

STORED = json.loads((Path(__file__).parents[1] / "peers" / "javascript" / "templates.json").read_text("utf-8"))
# What Nunjucks makes of a value that a filter is not for may be refused here.
NOT_FOR_TEXTS = {"batch", "groupby", "join", "reject", "rejectattr", "select", "selectattr", "slice", "sort", "sum"}
NOT_FOR_LISTS = {"center", "urlencode"}


def test_templates_print_what_they_print_in_nunjucks() -> None:
    differences, refused = [], []
    for template, printed in STORED["templates"]:
        try:
            ours = render(template, STORED["values"])
        except TemplateError:
            refused += [template] if printed is not None else []
            continue
        if ours != printed:
            differences.append((template, printed, ours))
    assert differences == []
    unexpected = []
    for template in refused:
        match = re.match(r"\{\{ (\w+) \| (\w+)", template)
        value = STORED["values"].get(match[1]) if match else []
        texts, lists = isinstance(value, str), isinstance(value, list)
        if texts or lists:
            unexpected += (
                [template] if match is None or match[2] not in (NOT_FOR_TEXTS if texts else NOT_FOR_LISTS) else []
            )
    assert unexpected == ["{{ list | random | length }}"]


@pytest.mark.parametrize(
    "template",
    [
        "{{ q | random }}",
        "{% set n = 0 %}{% for i in q %}{% set n = n + 1 %}{% endfor %}{{ n }}",
        "{% for i in q %}{{ seen }}{% set seen = i %}{% endfor %}",
        "{% for i in q %}{% if i %}{% set seen = i %}{% endif %}{{ seen }}{% endfor %}",
        "{% for i in q %}{% set n = n + i %}{{ n }}{% endfor %}",
    ],
)
def test_what_means_something_else_in_nunjucks_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTemplate):
        check(template)
    (tmp_path / "cases.yaml").write_text(json.dumps({"prompts": [template], "tests": [{"providerOutput": "x"}]}))
    done = CliRunner().invoke(main, ["eval", str(tmp_path / "cases.yaml"), "--out", str(tmp_path), "--no-progress"])
    assert (done.exit_code, "cases.yaml, line 1" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' | center(10 ** 12) }}",
        "{{ q | indent(10 ** 12) }}",
        "{{ q | batch(10 ** 12, 'x') }}",
        "{{ q | slice(10 ** 12, 'x') }}",
        "{{ q | replace('', q) | replace('', q) | replace('', q) }}",
        "{{ range(10 ** 12) | length }}",
        "{{ range(0, 1, 10 ** -12) | length }}",
        "{% for i in range(2000) %}{% for j in range(2000) %}{{ [i, j] | sort }}{% endfor %}{% endfor %}",
        "{{ (q | list) + (q | list) " + "~ q" * 100 + "}}",
        "{% for i in range(100) %}{% set rows = q | batch(4000000, 'x') %}{% endfor %}",
        "{% set rows = [q] | slice(1000000, 'x') %}",
        "{% for i in range(90000) %}{% set rows = 'ab' | batch(300000, 'x') %}{% endfor %}",
        "{{ q | list | sort | length }}",
        "{{ 10 ** 400 | round(400) }}{{ q | truncate(10 ** 400) }}{{ range(10 ** 400) }}",
    ],
)
@pytest.mark.timeout(60)
def test_filters_make_no_more_than_fits(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, {"q": "word\n" * 20_000})


@pytest.mark.timeout(60)
def test_tags_and_spaces_that_do_not_end_are_stripped_in_one_pass() -> None:
    values = {
        "tags": "<a" * 200_000 + "<!--" * 200_000,
        "spaces": f"x{' ' * 400_000}x",
        "text": "<b>a</b> <!-- <i --> b<c",
    }
    assert render("{{ tags | striptags }}", values) == values["tags"]
    assert render("{{ spaces | striptags(true) }}|{{ text | striptags }}", values) == "x x|a b<c"


@pytest.mark.timeout(60)
def test_a_loop_that_sets_many_names_is_read_in_one_pass() -> None:
    names = "".join(f"{{% set name{number} = i %}}" for number in range(6000))
    check(f"{{% for i in q %}}{names}{{% endfor %}}")
    with pytest.raises(UnsupportedTemplate):
        check(f"{{% for i in q %}}{names}{{% endfor %}}{{% set name5999 = 1 %}}")
