"""The file that the form saves passes and fails in `agentbook eval` as in the form."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from agentbook.api.record import Record
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView
from agentbook.evaluation import checks
from agentbook.evaluation.evaluate import evaluate

from .form import add, run, until, words
from .lab_platform import LabPlatform

SCHEMA = {"type": "object", "required": ["answer"]}
TOPICS = "topic\ntides\nrain\nsnow\n"


def reply(settings: Record, text: str) -> str:
    prompt = str(settings.get("system_prompt"))
    if prompt == "You judge.":
        passed = "because" in text.rpartition("<reply>")[2]
        return json.dumps({"reason": "none", "pass": passed, "score": float(passed)})
    if "JSON" not in prompt:
        return f"{text} It is so, because it is."
    return json.dumps({"answer" if "rain" not in text else "reply": f"{text}{' because' if 'snow' in text else ''}"})


def test_a_saved_file_gives_each_cell_the_same_verdict(
    tmp_path: Path, platform: LabPlatform, lab: PromptLab, view: LabView
) -> None:
    platform.reply = reply
    platform.add_agent("acme~judge", system_prompt="You judge.")
    lab.check({"shape": SCHEMA, "reasoned": checks.rubric("It gives a reason.", agent="acme~judge")})
    add(view, "prose", "Answer in prose.")
    add(view, "json", "Answer as JSON.")
    view.run.inputs.value = "Explain {{topic}}."
    about = {"type": "text/csv", "size": len(TOPICS), "last_modified": datetime.now(UTC)}
    view.run.upload.value = ({"name": "topics.csv", "content": memoryview(TOPICS.encode()), **about},)
    until(lambda: "3 inputs from rows with topic" in words(view.run.rows))
    run(view, "Explain {{topic}}.", "6 of 6 answered")
    view.results.path.value = str(tmp_path / "lab.yaml")
    view.results.save.click()
    until(lambda: "Saved to" in words(view.form.status["file"]))
    results, _ = evaluate(tmp_path / "lab.yaml", lambda: platform, follow=platform.follow)  # type: ignore[arg-type, return-value]
    graded = {
        (str(row.cell.prompt.label), json.loads(row.message)[-1]["content"]): [
            row.status == "passed",
            *(part.passed for part in row.grade.parts),
        ]
        for row in results.rows
    }
    judged = lab.results[["variant", "input", "passed", "shape", "reasoned"]].astype("object")
    assert graded == {(variant, text): list(passed) for variant, text, *passed in judged.to_numpy().tolist()}
    assert sorted(passed[0] for passed in graded.values()) == [False] * 5 + [True]
    assert platform.prompts()[-1] == "original"
