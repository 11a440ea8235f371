"""No file, repr or pickle of a lab holds its client's key, which agents repeat here."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import agentbook as ab
from agentbook.api.record import Record
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.results import static_html, summary_html
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.evaluation import checks
from agentbook.evaluation.evaluate import evaluate
from agentbook.evaluation.runs import directory, open_run

from .lab_platform import LabPlatform, make_lab

SECRET = "pl4nted+s/ecret"
KEY = f"key-id:{SECRET}"
FORMS = (SECRET, quote(SECRET, safe=""), base64.b64encode(KEY.encode()).decode())
LAB = """
inputs:
  - {message: one, checks: [key, "judge: It is kind."]}
  - {message: two, checks: [nothing]}
  - {message: three, checks: [nothing]}
"""


@pytest.fixture
def journals() -> list[str]:
    """What runs in progress have written, each time an agent was asked."""
    return []


@pytest.fixture
def platform(journals: list[str], tmp_path: Path) -> LabPlatform:
    """Its agents and their failures repeat the key of the client in several forms."""

    def reply(settings: Record, text: str) -> str | BaseException:
        journals.extend(path.read_text() for path in (*directory().glob("*.jsonl"), *tmp_path.glob("out/*.jsonl")))
        words = f"The key is {' or '.join(FORMS)}."
        if settings.get("system_prompt") == "You judge.":
            return json.dumps({"pass": True, "score": 1, "reason": words})
        return RuntimeError(words) if text == "two" else words

    platform = LabPlatform(reply)
    platform.auth = ab.ApiKey(KEY)  # type: ignore[attr-defined]
    platform.add_agent("acme~judge", system_prompt="You judge.")
    return platform


def assert_none(*texts: str) -> None:
    assert [(text, form) for text in texts for form in FORMS if form in text] == []


def run(lab: PromptLab) -> None:
    rubric = checks.rubric("It is kind.", agent="acme~judge")
    lab.add_variant("kind", "Be kind.")
    lab.run(["one", "two", "three"], checks={"key": "key", "kind": rubric}, concurrency=1, progress=False)
    assert lab.results["status"].tolist() == ["answered", "failed", "answered"]
    assert lab.results["reply"][0] == "The key is … or … or …."
    assert "The key is …" in lab.results["reason"][1]
    assert "The key is …" in lab.results["kind_reason"][0]


def test_no_run_that_is_kept_holds_a_key(platform: LabPlatform, journals: list[str]) -> None:
    run(make_lab(platform))
    assert any("The key is" in journal for journal in journals), "one was read while the run went on"
    assert_none(*journals)
    (path,) = directory().iterdir()
    stored = open_run(path)
    assert len(stored.answers) == 3
    assert_none(repr(stored), json.dumps([stored.facts, *(answer.as_data() for answer in stored.answers)], default=str))
    assert_none(path.read_text())


def test_no_file_and_no_notebook_holds_a_key(platform: LabPlatform, tmp_path: Path) -> None:
    lab = make_lab(platform)
    run(lab)
    saved = [lab.save(tmp_path / name).read_text() for name in ("lab.json", "lab.yaml")]
    rows = ResultRows(lab._lab, "seed")
    rows.changes(None)
    page = [rows.snapshot(), rows.bodies(range(3), None), *(rows.details(row, 0, 1) for row in range(3))]
    notebook = static_html(lab._lab, "writer", summary_html(lab._lab) + lab.chart().html(), "uid")
    assert "The key is" in notebook
    assert_none(*saved, json.dumps(page), notebook, lab.results.to_csv(), lab.summary().to_csv())


def test_no_report_of_an_evaluation_holds_a_key(platform: LabPlatform, journals: list[str], tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)
    options: dict[str, Any] = {"agent": "acme~writer", "judge": "acme~judge", "workspace": "acme~lab"}
    results, _ = evaluate(
        tmp_path / "lab.yaml", lambda: platform, folder=tmp_path / "out", concurrency=1, follow=platform.follow,
        **options,
    )  # type: ignore[arg-type, return-value]  # fmt: skip
    assert [row.status for row in results.rows] == ["passed", "error", "failed"]
    assert any("The key is" in journal for journal in journals), "the progress was read while the run went on"
    assert_none(*journals, *(path.read_text() for path in (tmp_path / "out").iterdir()), repr(results))


def test_no_repr_and_no_pickle_of_a_lab_holds_a_key(platform: LabPlatform) -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials=ab.ApiKey(KEY))
    lab = PromptLab(client, agent="acme~writer", workspace="acme~lab")
    answered_lab = make_lab(platform)
    run(answered_lab)
    for answer in answered_lab._lab.answers:
        lab._lab.record(answer)
    parts = (lab, lab._lab, lab.judge, *lab._lab.answers, lab.results)
    assert_none(*map(repr, parts), *(repr(vars(part)) for part in parts if hasattr(part, "__dict__")))
    assert_none(*(pickle.dumps(part).decode("latin-1") for part in (*lab._lab.answers, lab.results, lab.summary())))
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(lab)


@pytest.mark.parametrize("key", ["test", "ollama", "none", "null", "1234", "t0ken-reply"])
def test_no_key_rewrites_a_run_or_a_report(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    text = "the latest ollama has none of 1234: null"
    (tmp_path / "lab.yaml").write_text(json.dumps({"inputs": [text], "checks": ["latest"]}))
    options: dict[str, Any] = {"agent": "acme~writer", "workspace": "acme~lab", "folder": tmp_path / "out"}
    platform = LabPlatform(lambda settings, text: f"{text} t0ken-reply")
    evaluate(tmp_path / "lab.yaml", lambda: platform, follow=platform.follow, **options)  # type: ignore[arg-type, return-value]
    (row,) = json.loads((tmp_path / "out/results.json").read_text())["results"]
    reply = text + (" …" if key == "t0ken-reply" else " t0ken-reply")
    assert (row["input"], row["reply"]) == (text, reply)
    assert reply in (tmp_path / "out/report.html").read_text()
    stored = open_run(next(directory().glob("*.jsonl")))
    assert [each.reply for each in stored.answers] == [reply]
