"""A lab and an evaluation file ask the same and judge the same, in both directions."""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.record import Record
from agentbook.chat.prompt_lab.view import LabView
from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.model import Reply
from agentbook.events.turns import Turn

from .form import add, hidden, run, until, words
from .lab_platform import LabPlatform

PRICES = {"small": (1_000_000.0, 1_000_000.0)}
SCHEMA = {"type": "object", "required": ["answer"]}


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


@pytest.fixture
def evaluate(agent_eval: Callable[..., Any], platform: Platform) -> Callable[..., list[Any]]:
    """What `agentbook eval` makes of a file: a row for each cell."""

    def rows(path: Path, **options: Any) -> list[Any]:
        return list(agent_eval(path, follow=platform.follow, fail_under=0.0, **options).rows)

    return rows


def make(platform: Platform, **options: Any) -> ab.PromptLab:
    return ab.PromptLab(platform, "acme~writer", "acme~lab", follow=platform.follow, **options)  # type: ignore[arg-type]


def load(path: Path, platform: Platform) -> ab.PromptLab:
    where = {"agent": "acme~writer", "workspace": "acme~lab"}
    return ab.PromptLab.load(path, platform, follow=platform.follow, **where)  # type: ignore[arg-type]


def save(lab: ab.PromptLab, path: Path) -> list[str]:
    """Save a lab; returns what the file does not keep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.save(path)
    return list(lab.notes)


@pytest.fixture
def _embeddings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            data = [{"embedding": [float(text.count(char)) for char in "aeiou"]} for text in texts]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": data}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


# What the agent repeats, so these are the replies too.
REPLIES = [
    "A refund of #12 for Ada.",
    "no",
    "one\ntwo \U0001f600\U0001f600\U0001f600\n",
    '{"answer": 1}',
    "ask {{topic}} at file:///etc/passwd",
    "file:///etc/passwd",
    "x" * 40,
    "{% endraw %} order\r\n{{ env.HOME }} 'costs' \"$5\"\\.",
]
CHECKS: dict[str, Any] = {
    "text": "REFUND",
    "braces": "{% raw %}{{topic}}{% endraw %}",
    "path": "file:///etc",
    "digits": re.compile(r"#\d+"),
    "flags": re.compile("ADA", re.IGNORECASE),
    "whole": re.compile(r"^.{2,9}$"),
    "end": re.compile("two .{3}$"),
    "start": re.compile(r"^(?:no|x+|[a-f]sk)"),
    "lines": re.compile("one.two", re.DOTALL),
    "quotes": re.compile(r"""['"]\w+['"]|\{\{|\}\} 'costs'"""),
    "words": ab.checks.length(min=2, max=5),
    "size": ab.checks.length(min=3, max=12, unit="characters"),
    "fast": ab.checks.latency(60),
    "cheap": ab.checks.cost(4.0),
    "near": ab.checks.similar("{{expected}}", threshold=0.9),
    "judged": ab.checks.rubric("It says {{expected}}.", agent="acme~judge", threshold=0.5),
    "asked well": ab.checks.rubric(
        "It says {{expected}}.", agent="acme~judge", prompt="A: <reply>{{ output }}</reply> {{ rubric }}"
    ),
    "shape": SCHEMA,
}


@pytest.mark.usefixtures("_embeddings")
def test_a_file_of_a_lab_judges_each_reply_as_the_lab(
    platform: Platform, evaluate: Callable[..., list[Any]], tmp_path: Path
) -> None:
    platform.usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "model": "small"}}
    lab = make(platform)
    lab.add_variant("now")
    frame = pd.DataFrame(
        {"input": [f"{{% raw %}}{text}{{% endraw %}}" for text in REPLIES], "expected": ["Ada", "o"] * 4}
    )
    frame.loc[7, "input"] = "{{own}}"
    frame["own"] = REPLIES
    frame.loc[4, "expected"] = "{{own}} at file://"
    lab.run(frame, checks=CHECKS, progress=False, prices=PRICES)
    questions = platform.questions_asked()
    path = tmp_path / "lab.yaml"
    assert save(lab, path) == []
    judged = lab.results[list(CHECKS)].astype("object").to_numpy().tolist()
    assert len(judged) == len(REPLIES)
    rows = evaluate(path, prices=PRICES)
    assert [row.grade.error for row in rows] == [None] * len(REPLIES)
    assert [[part.passed for part in row.grade.parts] for row in rows] == judged
    assert platform.questions_asked() == questions
    loaded = load(path, platform)
    assert loaded.preview().drop(columns="input").equals(lab.preview().drop(columns="input"))
    again = loaded.run(progress=False, prices=PRICES)[list(loaded.checks)].astype("object").to_numpy().tolist()
    assert again == judged
    assert platform.questions_asked() == questions
    undecided = {"fast", "cheap"}  # these pass everywhere
    for name, verdicts in zip(CHECKS, zip(*judged, strict=True), strict=True):
        assert set(verdicts) == ({True} if name in undecided else {True, False}), name


def test_a_saved_lab_asks_the_same_questions(
    platform: Platform, evaluate: Callable[..., list[Any]], tmp_path: Path
) -> None:
    platform.offered = ("temperature", "max_tokens")
    lab = make(platform)
    lab.add_variant(
        "expert", "For {{reader}}: {{topic}} is {{{topic}}}, {% raw %}{{this}}{% endraw %}, {{ 1 + 1 }}.\r\n"
    )
    lab.add_variant("odd", "About {{first name}}, {{ not }} and {{_x}}.", temperature=0, max_tokens=50)
    lab.add_variant("plain", "{% if x %}{# kept #}")
    names = ["Ada", 5, 2.5, True, None, "{{topic}}", "file:///etc/hosts", "007"]
    rows = [
        {"reader": "you", "topic": f"t{n}" if n else "{% raw %}", "first name": name, "not": n, "_x": 2**60, "input": n}
        for n, name in enumerate(names)
    ]
    lab.run("What is it?", rows=rows, repeats=2, progress=False)
    questions = platform.questions_asked()
    assert ("For you: t1 is {t1}, {{this}}, {{ 1 + 1 }}.\r\n", "What is it?") in questions
    path = tmp_path / "lab.yaml"
    assert len(save(lab, path)) == 3
    assert len(evaluate(path)) == 3 * 2 * len(rows)
    assert platform.questions_asked() == questions
    for loaded in (load(path, platform), load(lab.save(tmp_path / "lab.json"), platform)):
        sent = ["variant", "system_prompt", "message"]
        assert loaded.preview()[sent].equals(lab.preview()[sent])
        assert loaded.variants["expert"].prompt == lab.variants["expert"].prompt
        assert len(loaded.run(progress=False)) == 2 * len(lab.preview())
    assert set(platform.questions_asked()) <= set(questions)


def test_what_cannot_be_asked_or_kept_is_refused_or_noted(platform: Platform, tmp_path: Path) -> None:
    lab = make(platform)
    lab.add_variant("v", "About {{topic}}.")
    lab.inputs = ["What is {{topic}}?"]
    with pytest.raises(ValueError, match="topic"):
        lab.save(tmp_path / "lab.yaml")
    lab.inputs = ["Why?"]
    with pytest.raises(ValueError, match="topic"):
        lab.save(tmp_path / "lab.yaml")
    lab.inputs = []
    lab.check({"mine": lambda reply: True, "shares": ab.checks.overlap("a")})
    notes = save(lab, tmp_path / "lab.yaml")
    assert [name in note for note in notes for name in ("mine", "shares") if name in note] == [True]
    loaded = load(tmp_path / "lab.yaml", platform)
    assert (loaded.inputs, loaded.variants) == ([], lab.variants)


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
    client = ab.Client("http://127.0.0.1:9", credentials=ab.ApiKey("a:b"))
    for lab in labs_of(values, client):
        lab.check({"has": check or "x", "matches": re.compile(re.escape(check or "x"))})
        for name in ("lab.yaml", "lab.json"):
            loaded = ab.PromptLab.load(lab.save(tmp_path / name), client)
            sent = ["system_prompt", "message"]
            assert loaded.preview()[sent].to_numpy().tolist() == lab.preview()[sent].to_numpy().tolist()
            for reply in (check or "x", "{{topic}}", "file:///etc/hosts"):
                verdicts = (
                    [grade_check(each, Reply(reply)).passed for each in one.checks.values()] for one in (lab, loaded)
                )
                assert next(verdicts) == next(verdicts)


@given(ROWS)
def test_the_command_sends_what_people_wrote_as_text(
    platform: Platform, evaluate: Callable[..., list[Any]], tmp_path: Path, values: list[tuple[str, str, str]]
) -> None:
    for lab in labs_of(values, platform, follow=platform.follow):
        platform.questions_asked()
        evaluate(lab.save(tmp_path / "lab.yaml"))
        asked = {(each.system_prompt, each.message) for each in lab.preview().itertuples()}
        assert set(platform.questions_asked()) == asked


def labs_of(values: list[tuple[str, str, str]], client: Any, **options: Any) -> Iterator[ab.PromptLab]:
    """Labs whose inputs are these texts: past turns, and rows that fill templates."""
    texts, rows = [text for text, _, _ in values], [{"topic": topic, "name": name} for _, topic, name in values]
    where = {"agent": "acme~writer", "workspace": "acme~lab", **options}
    lab = ab.PromptLab(client, **where, inputs=pd.DataFrame({"prompt": texts}), mask=False)
    lab.add_inputs(texts[::-1], mask=False)
    lab.add_variant("v", "Be brief.")
    yield lab
    lab = ab.PromptLab(client, **where, inputs="{{name}}?{{topic}}", rows=rows)
    lab.add_variant("v", "{{topic}}{{name}}.")
    yield lab


ASSERTS = """
- {type: equals, value: "{{expected}}"}
- {type: not-equals, value: "{{forbidden}}"}
- {type: equals, value: {answer: 1}}
- {type: contains, value: "{{part}}", metric: cost}
- {type: not-icontains, value: "{{forbidden}}"}
- {type: starts-with, value: "{% if part %}{{part}}{% endif %}"}
- {type: contains-any, value: ["{{expected}}", Rome]}
- {type: contains-all, value: "Par, is"}
- {type: icontains-any, value: [PARIS]}
- {type: icontains-all, value: [PA, IS]}
- {type: not-regex, value: "^.{5}$"}
- {type: is-json, value: file://schema.json}
- {type: contains-json}
- {type: latency, threshold: 60000}
- {type: not-latency, threshold: 60000}
- {type: cost, threshold: 4}
- {type: similar, value: "{{expected}}", threshold: 0.9}
- {type: not-similar, value: "{{expected}}", threshold: 0.9}
- {type: levenshtein, value: "{{expected}}", threshold: 1}
- {type: word-count, value: {min: 1, max: 2}}
- {type: python, value: "context['vars']['expected'] in output"}
- {type: python, value: "file://code.py"}
- {type: llm-rubric, value: "It says {{part}}."}
- {type: llm-rubric, value: "It says {{part}}.", threshold: 0.9}
- {type: not-llm-rubric, value: "It says {{part}}."}
- {type: llm-rubric, value: "It is nonsense."}
- {type: llm-rubric, value: file://rubric.txt, rubricPrompt: "A: <reply>{{ output }}</reply> {{ rubric }}"}
"""


def write(folder: Path, **parts: Any) -> Path:
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "code.py").write_text("def get_assert(output, context):\n    return 'Pa' in output\n")
    (folder / "rubric.txt").write_text("It says Rome.")
    path = folder / "file.yaml"
    data = {"prompts": ["{{q}}"], "providers": ["agentbook:acme~writer"], **parts}
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return path


def decided(frame: pd.DataFrame) -> list[list[bool | None]]:
    """Whether each check passed; None if it could not decide."""
    return [[None if pd.isna(each) else bool(each) for each in row] for row in frame.to_numpy().tolist()]


VARS = [
    {"q": "Paris", "expected": "Paris", "forbidden": "London", "part": "Pa"},
    {"q": "London", "expected": "Paris", "forbidden": "London", "part": "Pa"},
    {"q": '{"answer": 1}', "expected": '{"answer": 1}', "forbidden": "x", "part": "answer"},
    {"q": "Paris, Rome is {{ no }} at all", "expected": "Rome", "forbidden": "at", "part": "Paris"},
]


@pytest.mark.usefixtures("_embeddings")
def test_a_lab_judges_by_the_asserts_of_a_file_as_the_command(
    platform: Platform, evaluate: Callable[..., list[Any]], tmp_path: Path
) -> None:
    platform.usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "model": "small"}}
    path = write(
        tmp_path,
        defaultTest={"assert": yaml.safe_load(ASSERTS), "options": {"provider": "agentbook:acme~judge"}},
        tests=[{"vars": values} for values in VARS],
        evaluateOptions={"repeat": 2},
    )
    rows = evaluate(path, prices=PRICES, workspace="acme~lab")
    expected = [[part.passed for part in row.grade.parts] for row in rows if row.cell.repeat == 1]
    questions = platform.questions_asked()
    lab = load(path, platform)
    frame = lab.run(progress=False, prices=PRICES)
    assert sorted(frame["repeat"]) == [1] * len(VARS) + [2] * len(VARS)
    assert [error.count(":") for error in frame["check_error"]] == [2] * len(frame), "only the judge that says nothing"
    assert decided(frame[frame["repeat"] == 1][list(lab.checks)]) == expected
    assert platform.questions_asked() == questions
    # And the other way: the lab's file beside the first one, and in another folder.
    again = evaluate(lab.save(tmp_path / "again.yaml"), prices=PRICES)
    assert [[part.passed for part in row.grade.parts] for row in again if row.cell.repeat == 1] == expected
    (tmp_path / "elsewhere").mkdir()
    assert any("code.py" in note for note in save(lab, tmp_path / "elsewhere" / "moved.yaml"))
    moved = evaluate(tmp_path / "elsewhere" / "moved.yaml", prices=PRICES)
    gone = [
        n
        for n, each in enumerate(yaml.safe_load(ASSERTS))
        if each["value" if "value" in each else "type"] == "file://code.py"
    ]
    kept = [[passed for n, passed in enumerate(row) if n not in gone] for row in expected]
    assert [[part.passed for part in row.grade.parts] for row in moved if row.cell.repeat == 1] == kept


CASES = [
    {"vars": {"q": "one"}, "threshold": 0.5, "assert": [{"type": "contains", "value": "o"}, {"type": "equals", "value": "x"}]},
    {"vars": {"q": "two", "w": "a"}, "assert": [{"type": "equals", "value": "{{w}}"}]},
    {"vars": {"q": "two", "w": "two"}, "assert": [{"type": "equals", "value": "{{w}}"}]},
    {"vars": {"q": "two", "w": "two"}, "assert": [{"type": "equals", "value": "{{w}}", "weight": 0}]},
    {"vars": {"q": "two", "w": "two"}, "options": {"disableDefaultAsserts": True}},
    {"vars": {"q": "set"}, "assert": [{"type": "assert-set", "threshold": 0.5, "assert": [
        {"type": "contains", "value": "s", "metric": "m"}, {"type": "contains", "value": "z", "weight": 2}]}]},
    {"vars": {"q": "judge"}, "assert": [{"type": "llm-rubric", "value": "It says {{q}}."}]},
    {"vars": {"q": "judged"}, "assert": [{"type": "llm-rubric", "value": "It says other."}]},
    {"vars": {"q": ["three", "four"]}, "threshold": 0.9, "assert": [{"type": "contains", "value": "th"}]},
]  # fmt: skip


def test_a_lab_judges_each_case_by_its_own_asserts(
    platform: Platform, evaluate: Callable[..., list[Any]], tmp_path: Path
) -> None:
    default = {"assert": [{"type": "not-contains", "value": "four"}], "options": {"provider": "agentbook:acme~judge"}}
    path = write(tmp_path, defaultTest=default, tests=CASES, description="All kinds")
    expected = [row.status == "passed" for row in evaluate(path, workspace="acme~lab")]
    assert set(expected) == {True, False}
    lab = load(path, platform)
    assert lab.run(progress=False)["passed"].tolist() == expected
    for name in ("again.yaml", "again.json"):
        assert load(lab.save(tmp_path / name), platform).run(progress=False)["passed"].tolist() == expected
    assert [row.status == "passed" for row in evaluate(tmp_path / "again.yaml")] == expected
    # Another check, which is not part of the score that a case's threshold is about.
    (name,) = lab.checks
    lab.check({name: lab.checks[name], "short": ab.checks.length(max=9, unit="characters")})
    passed = lab.run(progress=False)["passed"].tolist()
    assert [row.status == "passed" for row in evaluate(lab.save(tmp_path / "more.yaml"))] == passed == expected


def test_a_lab_refuses_or_notes_what_it_cannot_follow(platform: Platform, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="repeat"):
        load(write(tmp_path, tests=[{"vars": {"q": "a"}, "options": {"repeat": 3}}, {"vars": {"q": "b"}}]), platform)
    with pytest.raises(ValueError, match="agentbook eval"):
        load(
            write(tmp_path, prompts=["{{q}}", "{{ q }}"], tests=[{"vars": {"q": "a"}, "prompts": ["{{q}}"]}]), platform
        )
    rubric = {"assert": [{"type": "llm-rubric", "value": "It is fine."}]}
    case = {"vars": {"q": "a"}, "description": "first", "providerOutput": "b"}
    lab = load(write(tmp_path, defaultTest=rubric, tests=[case]), platform)
    assert len(lab.notes) == 3
    with pytest.raises(ValueError, match="names no judge"):
        lab.run(progress=False)
    lab = load(write(tmp_path, tests=[{"vars": {"q": "a"}, "options": {"repeat": 3}}]), platform)
    assert len(lab.run(progress=False)) == 3


@pytest.mark.parametrize("name", ["lab.html", "lab.txt", "lab"])
def test_a_name_of_no_file_of_a_lab_is_refused(platform: Platform, tmp_path: Path, name: str) -> None:
    lab = make(platform)
    lab.add_variant("now")
    with pytest.raises(ValueError, match=rf"'{name}': .*\.json, \.yaml, \.yml, \.csv, \.jsonl"):
        lab.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    lab.save(tmp_path / "lab.JSON")
    (tmp_path / "lab.JSON").rename(tmp_path / name)  # as an earlier version wrote it
    assert list(load(tmp_path / name, platform).variants) == ["now"]


def test_the_file_of_a_lab_is_data(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch() or True"
    (tmp_path / "secret").write_text("s3cret")
    lab = make(platform)
    lab.add_variant("v", "Be brief.")
    lab.inputs = ["Why?"]
    lab.check({"any": re.compile("x")})
    data = json.loads(lab.save(tmp_path / "lab.json").read_text())
    secret = f"file://{tmp_path / 'secret'}"

    def checks(**check: Any) -> Path:
        path = tmp_path / "hostile.json"
        named = {"name": "c"} if "kind" in check else {"metric": "c"}
        path.write_text(json.dumps({**data, "checks": [{**named, **check}]}))
        return path

    def cases(assertion: dict[str, Any], **others: Any) -> Path:
        return checks(type="agentbook:cases", value={"Why?": {"assert": [assertion], **others}})

    for wrong in (code, True, float("inf"), float("nan"), [1], {}):
        for check in (
            {"type": "agentbook:characters", "value": {"min": wrong}},
            {"type": "word-count", "value": {"max": wrong}},
            *({"type": kind, "threshold": wrong} for kind in ("latency", "cost", "similar", "llm-rubric")),
        ):
            with pytest.raises(ValueError, match="damaged"):
                load(checks(**check), platform)
    for kind, what in (("contains", 5), ("contains", {"a": 1}), ("json_schema", "text"), ("regex", 5)):
        with pytest.raises(ValueError, match="damaged"):
            load(checks(kind=kind, what=what, flags=0), platform)
    for wrong in (code, True, -1, 1.5):
        with pytest.raises(ValueError, match="damaged"):
            load(checks(kind="regex", what="x", flags=wrong), platform)
    for assertion in ({"type": "contains", "value": secret}, {"type": "llm-rubric", "value": secret}):
        for path in (checks(**assertion), cases(assertion)):
            with pytest.raises(ValueError, match="damaged"):
                load(path, platform)
    monkeypatch.chdir(tmp_path)  # where a person works is no folder of the lab's file either
    rubric = {"type": "llm-rubric", "value": "{{q}}", "provider": "agentbook:acme~judge"}
    for name in ("file://secret", secret):
        for assertion in (
            {**rubric, "rubricPrompt": name},
            {"type": "assert-set", "assert": [{**rubric, "rubricPrompt": name}]},
        ):
            with pytest.raises(ValueError, match="damaged"):
                load(checks(**assertion), platform)
        with pytest.raises(ValueError, match="damaged"):
            load(cases(rubric, rubricPrompt=name), platform)
    pattern = """{{ "'" }}, __import__('os').abort(), {{ "'" }}{{ '"' }}"""
    hostile: list[tuple[Callable[..., Path], dict[str, Any]]] = [
        (checks, {"type": "python", "value": code}),
        (lambda **check: cases(check), {"type": "not-python", "value": code}),
        (checks, {"kind": "regex", "what": pattern, "flags": 2}),
    ]
    for place, check in hostile:
        loaded = load(place(**check), platform)
        loaded.run(progress=False)
        assert (save(loaded, tmp_path / "out.yaml") == []) is ("kind" in check)
        load(tmp_path / "out.yaml", platform).run(progress=False)
    assert not marker.exists()
    for wrong in (True, "1", float("inf"), None):
        for make_one in (ab.checks.latency, ab.checks.cost, lambda n: ab.checks.overlap("a", threshold=n)):
            with pytest.raises(ValueError, match="number"):
                make_one(wrong)  # type: ignore[operator]


def test_the_form_saves_and_loads_repeats_and_odd_inputs(platform: Platform, tmp_path: Path) -> None:
    lab = make(platform)
    view = LabView(lab)
    try:
        add(view, "v", "Be brief.")
        run(view, "one\ntwo", "2 of 2 answered")
        view.run.repeats.value = 3
        path = write(tmp_path, tests=[{"vars": {"q": text}} for text in ("- {{ unknown }}", "1. a\r\nb", "a\u2028b⏎")])
        view.results.path.value = str(tmp_path / "saved.yaml")
        view.results.save.click()
        until(lambda: "saved.yaml" in words(view.form.status["file"]))
        assert len(load(tmp_path / "saved.yaml", platform).run(progress=False)) == 6
        platform.questions_asked()
        view.results.path.value = str(path)
        view.results.load.click()
        until(lambda: not hidden(view.results.loading.widget))
        view.results.loading.confirm.click()
        until(lambda: len(lab.inputs) == 3)
        until(lambda: "Loaded" in words(view.form.status["file"]))
        until(lambda: view.run.repeats.value == 1)
        view.run.run.click()
        until(lambda: "3 of 3 answered" in words(view.form.status["run"]))
        assert {text for _, text in platform.questions_asked()} == {"- {{ unknown }}", "1. a\r\nb", "a\u2028b⏎"}
    finally:
        view.close()


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
        return f"{platform.questions_asked()} {lab.as_data()} {frame.to_dict()}"

    turn = Turn("s1", prompt="I am ada@acme.test.", text="Hi ada@acme.test")
    for given_turns in (turns, [turn], turn, turns.to_dict("records")):
        assert "ada@" not in sent(make(platform, inputs=given_turns))
        assert "ada@" in sent(make(platform, inputs=given_turns, mask=False))
        assert "ada@" not in sent(make(platform), inputs=given_turns)
        assert "ada@" in sent(make(platform), inputs=given_turns, mask=False)
        for masked in (True, False):
            lab = make(platform)
            assert ("ada@" in str(lab.preview_inputs(given_turns, mask=masked))) is not masked
            lab.add_inputs(given_turns, mask=masked)
            assert ("ada@" in sent(lab)) is not masked
    assert "ada@" not in sent(make(platform), inputs="Sum up: {{prompt}} {{reply}}", rows=turns)
