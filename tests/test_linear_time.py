"""Other people's text takes time in proportion to its length, or is given up.

The only stopwatch of the suite. It counts this process's own seconds, takes the best of
three, and ignores what takes less than 20 ms.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook import _text
from agentbook._masking import mask_text
from agentbook.api.errors import AgentbookError
from agentbook.chat.prompt_lab.diff import PromptDiff
from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.check import Check
from agentbook.evaluation.checks import parse_checks
from agentbook.evaluation.file import read_lab
from agentbook.evaluation.model import Reply
from agentbook.evaluation.template import fill, names_in
from agentbook.frames.export import _escape_text, unescaped
from support.clients import client_of

SMALL, LARGE, RATIO, FLOOR_S = 10_000, 100_000, 20, 0.02
CREDENTIALS = "11111111-1111-4111-8111-111111111111:s"


def client(answer: httpx.Response | None = None) -> ab.Client:
    return client_of(lambda request: answer or httpx.Response(500), credentials=CREDENTIALS, deadline_s=0.5)


def list_agents(page: str) -> None:
    with contextlib.suppress(AgentbookError):
        body = b'{"items":[{"id":"01900000-0000-7000-8000-000000000001","name":"' + page.encode()
        list(client(httpx.Response(200, content=body, headers={"content-type": "application/json"})).agents.list())


def error_page(page: str) -> None:
    answer = httpx.Response(400, content=page.encode(), headers={"content-type": "text/html"})
    with contextlib.suppress(AgentbookError):
        list(client(answer).agents.list())


def check(kind: str, value: Any = None, **others: Any) -> Callable[[str], None]:
    return lambda text: grade_check(Check(kind, value, **others), Reply(text)) and None


def read_yaml(text: str) -> None:
    with contextlib.suppress(ValueError):
        FILE.write_text(text)
        read_lab(FILE)


def read_line(text: str) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        parse_checks(text)


def value(text: str) -> None:
    with contextlib.suppress(ValueError):
        fill(text, {"q": text, "a": "b"})


def add_input(text: str) -> None:
    lab = ab.PromptLab(client())
    lab.add_inputs([f"x {text}"])
    names_in(text)


def compare(text: str) -> None:
    half = len(text) // 2
    difference = PromptDiff(text[:half] + "x", "b " + text[half:], "before", "after")
    assert difference.to_html()
    assert str(difference)


WORST: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "page": (list_agents, ['"\\', '"', "\\u00", '"NaN', "[", "{", '{"a":', "]   "]),
    "error page": (error_page, ["<script ", "<", "<head>", "a<b "]),
    "question": (add_input, ["iVBORw0KGgo", "a@", "{% raw %}", "{{a ", "{{"]),
    "masked": (
        mask_text,
        [
            *(
                "a@",
                "a.",
                "a@b-",
                "a@b.",
                "eyJ",
                "eyJ-",
                "sk-",
                "sg.",
                "key-a-",
                "token_",
                "bearer ",
                "basic a",
                "hf_-",
            ),
            *("-----BEGIN PRIVATE KEY-----", "1 ", "4 ", "4\n", "DE12 ", "AA11", "+1 ", "+1", "00", "://", "://a:"),
            *("password is ", "password=", 'password = "', "secret ' ", "pin ", "\u200b", "ａ@", "?sig=", "\\u0041"),
            *("0199a0b2-0000-7000-8000-000000000001", "api_key: ", "@", "%40", "(555) "),
        ],
    ),
    "title": (_text.title, ["**", "**a** (", "`", "* ", "```\n", "**a\n"]),
    "difference": (compare, ["a ", "a b ", "a. ", "a. b.\n", "ab", "\n"]),
    "value": (value, ["{{", "{{ a", "{{a}}", "{% raw %}", "{#", "{%", "{{ a }}", "}", "{{ a }", "\n{{", "{{a.b.c"]),
    "words": (check("word-count", 3), [" ", "a "]),
    "JSON": (check("is-json"), ["[", '{"a":', "[[],", '"\\']),
    "JSON within": (check("contains-json"), ["{", "}", '{"a":', '{"', "{}", '{"a":"{']),
    "schema": (check("is-json", {"items": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+(?=q)$"}}), ['["' + "a" * 60 + '",']),
    "judge's mark": (check("llm-rubric", "x"), ["< ", "<  /", "<"]),
    "line of a check": (
        read_line,
        ["words <= ", "a: ", '"', "not: ", "steps: called a, ", "(", " <= ", "/", "judge a "],
    ),
    "cell of CSV": (lambda text: unescaped(_escape_text(text)), ["\t", '\n"', ";", ";'", "'", "\r'"]),
    "evaluation file": (read_yaml, ["[", "{a: ", "- ", "? "]),
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_text_takes_time_in_proportion(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.patterns.LIMIT_S", 0.3)  # what ends at a limit, ends soon
    global FILE
    FILE = tmp_path / "lab.yaml"
    function, units = WORST[name]
    gc.collect()
    gc.disable()  # it takes longer the more objects other tests left
    try:
        for unit in units:
            small = seconds(function, unit, SMALL)
            assert small < 5, (name, unit)
            large = seconds(function, unit, LARGE)
            assert large <= RATIO * max(small, FLOOR_S), (name, unit, small, large)
    finally:
        gc.enable()


def seconds(function: Callable[[str], Any], unit: str, length: int) -> float:
    """The fastest of three calls; one that is slow or too fast to count is enough."""
    text, best = (unit * (length // len(unit) + 1))[: length - 1] + "!", float("inf")
    for _ in range(3):
        start = time.process_time()
        function(text)
        best = min(best, time.process_time() - start)
        if best > 1 or best < FLOOR_S:
            break
    return best


FILE = Path("lab.yaml")
