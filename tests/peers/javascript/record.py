# ruff: noqa: E501
"""Ask Node what patterns find and what Nunjucks makes of templates, and store it.

By hand, with Node on PATH; `tests/evaluation/test_javascript.py` compares:

    npm i nunjucks@3.2.4
    NODE_PATH=$PWD/node_modules python tests/peers/javascript/record.py
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ATOMS = (
    *("a", "b", "x", "A", "é", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", "^", "$", "[ab]", "[^a]"),
    *("[a-c]", r"[\d-x]", r"[\w\s]", r"[^\S]", r"[\W]", r"[\b]", "[[]", "[&&a]", "[]", "[^]", r"[\s\S]", "[a--]"),
    *("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<n>", ")", "|", "(?i)", "(?P<x>", "(?>", r"\1", r"\2", r"\k<n>"),
    *("*", "+", "?", "*?", "{2}", "{0}", "{1,}", "{1,3}", "{,2}", "{2,1}", "{", "}", "]", "[", "-", "\\", r"\-", r"\/"),
    *(r"\u0061", r"\u{2}", r"\x41", r"\0", r"\8", r"\101", r"\cA", r"\c", r"\n", "\n", r"\p{L}", "\u2028", " "),
    *("😀", "[😀]", r"\ud83d", r"\ude00", r"[\ud800-\udfff]", r"[^\x00-\x7f]", r"[\u0080-\uffff]"),
)
TEXTS = (
    *("", "a", "ab", "aab b", "A1 é", "😀", "a😀b", "\n", "a\nb", "\u2028", "uu", "{", "]", "-x", "\x01", "\\", "12"),
    *("x-", "\ufeff ", "aa", "bab", "\x08", "k<n>", "c\\", "p{L}"),
)
VALUES: dict[str, Any] = {
    "n": 3, "f": 3.7, "neg": -7, "big": 1e21, "zero": 0, "t": "3.7", "four": "4", "word": "hello World", "empty": "",
    "yes": True, "no": False, "nil": None, "emoji": "a😀b", "html": "<b>\"Tom\" & 'Jerry'</b> <!-- x -->  done",
    "lines": "one\n two\r\n\n\n\nthree  ", "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "blank": [], "mixed": [1, "2", None, True],
    "object": {"b": 1, "a": "x", "C": [1, 2]}, "void": {}, "json": '{"a": [1, {"b": null}], "c": 1.0}', "bad": "{a",
    "people": [{"name": "Ada", "age": 36, "on": True}, {"name": "bob", "age": 4, "on": False}, {"name": "Cy", "age": 36}],
    "link": "See https://a.example/x?y=1, www.b.com. (c.org) me@d.example or e.com/f", "pairs": [[1, "a"], [2, "b"]],
}  # fmt: skip
OPERANDS = (
    "n",
    "f",
    "neg",
    "zero",
    "t",
    "four",
    "word",
    "empty",
    "yes",
    "nil",
    "missing",
    "list",
    "none",
    "object",
    "'3'",
)
OPERATORS = (
    "==",
    "!=",
    "===",
    "!==",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "~",
    "and",
    "or",
    "in",
    "//",
    "**",
)
FILTERS = (
    *("abs", "batch(2)", "batch(2, 'x')", "capitalize", "center", "center(9)", "default('d')", "default('d', true)"),
    *("dictsort", "dictsort(true)", "dump", "dump(2)", "escape", "e", "first", "last"),
    *("float", "float(1)", "forceescape", "escape | escape", "safe | escape", "groupby('age')", "indent", "indent(2)"),
    *("indent(2, true)", "int", "int(5)", "int(5, 16)", "int(base=2)", "join", "join('-')", "join(', ', 'name')"),
    *(
        "length",
        "list",
        "load",
        "lower",
        "upper",
        "nl2br",
        "reject('odd')",
        "select('string')",
        "select",
        "select('gt', 1)",
    ),
    *(
        "selectattr('on')",
        "rejectattr('on')",
        "replace('l', 'L')",
        "replace('l', 'L', 1)",
        "replace('', '.')",
        "replace(3, 4)",
    ),
    *("reverse", "round", "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "slice(2)", "slice(2, 'x')", "sort"),
    *("sort(true)", "sort(false, true)", "sort(attribute='name')", "sort(attribute='age', reverse=true)", "string"),
    *(
        "striptags",
        "striptags(true)",
        "sum",
        "sum('age')",
        "sum('age', 5)",
        "title",
        "trim",
        "truncate(5)",
        "truncate(5, true)",
    ),
    *("truncate(5, true, '…')", "truncate", "urlencode", "urlize", "urlize(8, true)", "wordcount", "nosuch"),
)
TESTS = (
    *("callable", "defined", "divisibleby(2)", "divisibleby(0)", "eq(3)", "sameas(3)", "equalto('3.7')", "even", "odd"),
    *("falsy", "truthy", "ge(3)", "gt(3)", "le(3)", "lt(3)", "lower", "upper", "ne(3)", "null", "number", "string"),
    *("undefined", "iterable", "mapping", "not defined", "not null", "none", "boolean"),
)
TEMPLATES = (
    *("{{ 1 + 2 ~ 3 }}", "{{ 7 * 3 % 2 }}", "{{ 'a' + 2 - 1 }}", "{{ 2 ** 3 ** 2 }}", "{{ -n | abs }}", "{{ n + 1 is even }}"),
    *("{{ 1 < 2 < 3 }}", "{{ 3 > 2 > 1 }}", "{{ not n == 3 }}", "{{ not 'x' in word }}", "{{ 'o' not in word }}", "{{ 1 in list == true }}"),
    *("{% if [] %}y{% else %}n{% endif %}", "{% if {} %}y{% endif %}", "{% if '' %}y{% elif zero %}z{% else %}n{% endif %}"),
    *("{{ {a: 1, 'b': [1]} | dump }}", "{{ [1, [2, none]] }}", "{{ [1] == [1] }} {{ list == list }} {{ object.C == object.C }}"),
    *("{% for a in list %}{{ loop.index }}/{{ loop.length }}:{{ a }} {% else %}none{% endfor %}", "{% for a in blank %}x{% else %}e{% endfor %}"),
    *("{% for k, v in object %}{{ k }}={{ v }};{% endfor %}", "{% for a in object %}{{ a }}{% else %}e{% endfor %}", "{% for c in word %}{{ c }}.{% endfor %}"),
    *("{% for a, b in pairs %}{{ a }}{{ b }} {% endfor %}", "{% for a in missing %}x{% else %}e{% endfor %}", "{% for a in nil %}x{% endfor %}"),
    *("{% for a in n %}x{% else %}e{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{{ range(5, 0, -2) }} {{ range(0, 1, 0.3) }}"),
    *("{% for p in people %}{% set s = p.age > 9 %}{{ s }} {% endfor %}", "{% set x = n * 2 %}{{ x }}{% set x = x + 1 %}{{ x }}"),
    *("{% set x %}a{{ n }}{% endset %}{{ x | upper }}", "{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}"),
    *("{{ object['a'] }} {{ object.missing.deeper }} {{ list[0] }} {{ word[0] }} {{ people[1].name }}", "{{ emoji.length }} {{ list.length }}"),
    *("{% raw %}{{ n }}{% endraw %}", "a{#- no #}b {{- n -}} c", "{% if n %}\nx\n{% endif %}\n", "{{ 'y' if n > 2 else 'n' }} {{ 'y' if zero }}"),
    *("{{ n / 0 }} {{ neg / 0 }} {{ zero / 0 }}", "{{ neg % 3 }} {{ neg // 2 }} {{ 5 / 2 }}", "{{ big }} {{ 0.1 + 0.2 }} {{ 1 / 3 }}"),
    *("{{ null }} {{ none }} {{ true }} {{ undefined }}", "{{ 'a\\nb' }} {{ \"q'\" }}", "{% if word and n %}{{ word and n }} {{ nil or 'd' }}{% endif %}"),
    *("{{ not n == 4 }} {{ not (n == 4) }} {{ not n > 1 }} {{ not nil is null }} {{ not no ~ 1 }}", "{{ 'a' ~ 1 + 2 }} {{ 5 ~ 3 - 1 }}", "{{ (word | load).a }}", "{% set o = json | load %}{{ o.a[1] | dump }} {{ o.c }}", "{% filter upper %}x{{ n }}{% endfilter %}"),
    *("{{ object | length }} {{ n | length }} {{ nil | length }}", "{{ missing }}{{ missing.x }}{{ missing + 1 }}", "{{ list | random | length }}"),
    *("{{ x | default(word) | upper }}", "{{ people | map('name') }}", "{{ word | upper() }} {{ list | join(', ') | title }}"),
)  # fmt: skip
PATTERNS_PROGRAM = """
const found = pattern => {
  try {
    const made = new RegExp(pattern)
    return given.texts.map(text => made.test(text))
  } catch { return null }
}
made = given.patterns.map(found)
"""
TEMPLATES_PROGRAM = """
const environment = new (require("nunjucks").Environment)(null, {autoescape: false})
environment.addFilter("load", text => JSON.parse(text))
const render = template => { try { return environment.renderString(template, given.values) } catch { return null } }
made = given.templates.map(render)
"""


def dumped(name: str) -> str:
    return "" if "safe" in name or "escape" in name or name == "e" else " | dump"


def node(program: str, given: Any) -> Any:
    """What a program makes of data."""
    code = (
        f'const given = JSON.parse(require("fs").readFileSync(0)); let made{program}console.log(JSON.stringify(made))'
    )
    done = subprocess.run(["node", "-e", code], input=json.dumps(given), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write(name: str, head: str, rows: Sequence[Any]) -> None:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (HERE / name).write_text(f"{{{head} [\n{lines}\n]}}\n", encoding="utf-8")


def main() -> None:
    chance = random.Random(1)
    patterns = sorted({"".join(chance.choices(ATOMS, k=chance.randint(1, 6))) for _ in range(1200)})
    found = node(PATTERNS_PROGRAM, {"patterns": patterns, "texts": TEXTS})
    hits = [None if each is None else "".join("01"[hit] for hit in each) for each in found]
    write("patterns.json", f'"texts": {json.dumps(TEXTS)}, "patterns":', list(zip(patterns, hits, strict=True)))
    expressions = [
        *(f"{{{{ {a} {operator} {b} }}}}" for a, operator, b in itertools.product(OPERANDS, OPERATORS, OPERANDS)),
        *(
            f"{{{{ {name} | {each}{dumped(each)} }}}}"
            for name, each in itertools.product([*VALUES, "missing"], FILTERS)
        ),
        *(f"{{{{ {name} is {each} }}}}" for name, each in itertools.product([*VALUES, "missing"], TESTS)),
    ]
    templates = [*TEMPLATES, *sorted(chance.sample(expressions, 1500))]
    made = node(TEMPLATES_PROGRAM, {"templates": templates, "values": VALUES})
    write("templates.json", f'"values": {json.dumps(VALUES)}, "templates":', list(zip(templates, made, strict=True)))


if __name__ == "__main__":
    main()
