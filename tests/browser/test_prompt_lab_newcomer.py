"""A newcomer's first day with the prompt lab: a new account, a new agent, two models.

From the first prompt to the applied winner by mouse and keyboard only. The language
models are a scripted endpoint.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, expect

from service.process import COMMAND, Service, command
from support.fake_openai import FakeOpenAI, Scripted, text
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

SCOPES = ("agents:read", "agents:write", "sessions:read", "sessions:write", "workspaces:read", "workspaces:write")
CONNECT = """
import os
from pathlib import Path
import agentbook as ab
os.environ.update(AGENTBOOK_RUNS={runs!r}, AGENTBOOK_PRICES={prices!r})
client = ab.connect({base_url!r}, api_key=Path({key!r}).read_text())
"""
OPEN = """helper, trial = client.agents.create("helper", template="LLM"), client.workspaces.create("trial")
lab = ab.PromptLab(client, agent=helper["full_name"], workspace=trial["full_name"])
lab"""
RESULTS = """print(lab.results[["variant", "input", "passed", "reasoned", "JSON schema"]].to_json(orient="values"))"""
VERSIONS = """[(v.type, v.settings.get("description"), v.summary) for v in reversed(lab.versions())]"""
PROSE = "Answer in prose."
AS_JSON = 'Answer as JSON with the key "answer".'
SCHEMA = json.dumps({"type": "object", "required": ["answer"]})
TOPICS = [f"topic {n}" for n in range(8)]


def respond(body: Any) -> Scripted:
    """The large model gives reasons; the small one omits the key for half of them."""
    system, question = body["messages"][0]["content"], body["messages"][-1]["content"]
    if system.startswith("You judge replies"):
        passed = "because" in question.rpartition("<reply>")[2]
        return text(json.dumps({"reason": "It gives a reason." if passed else "No reason.", "pass": passed}))
    if "JSON" not in system:
        return text(f"{question} It is what it is.")
    if body["model"] == "large":
        return text(json.dumps({"answer": f"{question} It is so, because it is."}))
    return text(json.dumps({"answer" if question[-2] in "02468" else "reply": question}))


@pytest.fixture
def models() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=respond) as endpoint:
        yield endpoint


@pytest.fixture
def service(models: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("AGENTBOOK_LLM_MODELS", f"small {models.base_url}; large {models.base_url}")
    with Service(tmp_path / "data", "--speed", "0") as running:
        yield running


def write_rows(path: Path, topics: list[str]) -> Path:
    path.write_text("topic\n" + "".join(f"{topic}\n" for topic in topics))
    return path


@pytest.mark.timeout(1200)  # some 160 turns, on a machine that may be busy
def test_from_a_new_agent_to_the_applied_winner(
    lab: Lab, page: Page, service: Service, models: FakeOpenAI, tmp_path: Path
) -> None:
    command("accounts", "create", "newcomer", "--type", "user", data=service.data)
    key = tmp_path / "key"
    key.write_text(service.key(*SCOPES, account="newcomer"))
    prices = tmp_path / "prices.json"
    prices.write_text('{"small": [1000, 2000], "large": [3000, 4000]}')
    connect = CONNECT.format(runs=str(tmp_path / "runs"), prices=str(prices), base_url=service.base_url, key=str(key))
    write_notebook(lab.root / "newcomer.ipynb", [connect, "", "", ""])
    page.open("newcomer.ipynb")
    page.hide_file_browser()
    run_cell(page, 0)
    root = open_the_lab(page)
    look_at_the_empty_form(page, root)
    add_variants(page, root)
    add_inputs_and_checks(page, root, write_rows(tmp_path / "topics.csv", TOPICS))
    run(root, "24 of 24 answered.")
    root.get_by_text("helper has no version yet").wait_for()
    read_and_rate(page, root)
    # Inputs that are added later run on the same drafts.
    upload(page, root, write_rows(tmp_path / "more.csv", [*TOPICS, "topic 8"]))
    questions = len(models.requests)
    run(root, "27 of 27 answered.")
    assert len(models.requests) == questions + 6, "three questions, and the judge on each"
    apply_and_undo(page, root)
    file = save(root, lab)
    check_versions(page)
    evaluate(page, file, key.read_text(), service, tmp_path)
    assert root.locator(".ab-failed:visible").count() == 0
    assert page.errors == []


def run_cell(page: Page, number: int, source: str | None = None) -> None:
    """Run a cell with the keyboard, after typing its source."""
    editor = page.cell(number).locator(".cm-content")
    editor.click()
    if source is not None:
        page.page.keyboard.insert_text(source)
    page.page.keyboard.press("Control+Enter")
    page.cell(number).get_by_text(f"[{number + 1}]:", exact=True).first.wait_for()


def open_the_lab(page: Page) -> Locator:
    run_cell(page, 1, OPEN)
    return page.page.locator(".jp-OutputArea .ab-chat.ab-lab")


def look_at_the_empty_form(page: Page, root: Locator) -> None:
    """What a newcomer sees: whose agent, three steps, and nothing in red."""
    expect(root.locator(".ab-head")).to_contain_text("newcomer~helper in newcomer~trial")
    expect(root.locator(".ab-lab-guide li")).to_have_count(3)
    assert root.locator(".ab-failed:visible").count() == 0
    expect(root.get_by_role("button", name="Add as variant")).to_contain_class("ab-main")
    expect(root.get_by_label("Description")).to_be_hidden()
    root.get_by_role("button", name="More settings").click()
    expect(root.get_by_role("button", name="More settings")).to_have_attribute("aria-expanded", "true")
    mode = root.get_by_label("Mode").locator("option:checked").inner_text()
    assert mode.replace("\xa0", " ") == "as the agent has it"
    root.get_by_role("button", name="More settings").click()
    root.evaluate("root => root.scrollIntoView({block: 'start'})")
    page.screenshot("prompt-lab-empty")
    assert axe_violations(root) == []


def add_variants(page: Page, root: Locator) -> None:
    keyboard = page.page.keyboard
    for name, prompt, model in (("prose", PROSE, "small"), ("small", AS_JSON, "small"), ("large", AS_JSON, "large")):
        root.get_by_label("Name of the variant").focus()
        keyboard.type(name)
        keyboard.press("Tab")
        keyboard.press("ControlOrMeta+a")
        keyboard.insert_text(prompt)
        keyboard.press("Tab")
        keyboard.press("ControlOrMeta+a")
        keyboard.type(model)
        root.get_by_role("button", name="Add as variant").click()
        root.get_by_text(f"Added the variant “{name}”").wait_for()


def upload(page: Page, root: Locator, rows: Path) -> None:
    with page.page.expect_file_chooser() as chooser:
        root.get_by_role("button", name="Rows from CSV").click()
    chooser.value.set_files(rows)
    root.get_by_text(f"{len(rows.read_text().splitlines()) - 1} inputs from rows (columns: topic).").wait_for()


def add_inputs_and_checks(page: Page, root: Locator, rows: Path) -> None:
    root.get_by_label("Test inputs, one per line").fill("Explain {{topic}}.")
    upload(page, root, rows)
    root.get_by_text("The first message: “Explain topic 0.”").wait_for()
    checks = root.get_by_label("Checks of the reply, one per line")
    root.get_by_role("button", name="Let an agent judge").click()
    root.get_by_label("Criterion").fill("It gives a reason.")
    root.get_by_label("Judge", exact=True).fill("judge")
    root.get_by_role("button", name="Add the judge").click()  # which creates it
    expect(checks).to_have_value("judge newcomer~judge: It gives a reason.")
    checks.fill("reasoned: judge newcomer~judge: It gives a reason.\nJSON schema: {")
    checks.blur()
    expect(root.locator(".ab-failed:visible")).to_contain_text("JSON schema: {")
    checks.fill(f"reasoned: judge newcomer~judge: It gives a reason.\n{SCHEMA}")
    checks.blur()
    expect(root.locator(".ab-failed:visible")).to_have_count(0)
    root.evaluate("root => root.querySelector('.ab-lab-run').scrollIntoView({block: 'start'})")
    page.screenshot("prompt-lab-checks")
    assert axe_violations(root) == []
    root.get_by_role("button", name="Let an agent judge").click()


def run(root: Locator, message: str) -> None:
    root.get_by_role("button", name="Run", exact=True).click()
    root.get_by_text(message).wait_for(timeout=180_000)  # 48 turns, on a machine that may be busy


def read_and_rate(page: Page, root: Locator) -> None:
    table = root.get_by_role("grid", name="Replies by input and variant")
    expect(table.get_by_role("columnheader", name="large")).to_contain_text("8 of 8 passed")
    expect(table.get_by_role("columnheader", name="prose")).to_contain_text("0 of 8 passed")
    prose, large = (table.get_by_role("gridcell", name=f"Reply of {name}").first for name in ("prose", "large"))
    prose.get_by_role("button", name="Bad reply").click()
    large.focus()
    page.page.keyboard.press("+")
    expect(large.get_by_role("button", name="Good reply")).to_have_attribute("aria-pressed", "true")
    root.get_by_text("The judge “reasoned” agrees with the labels on 2 of 2 replies.").wait_for()
    large.get_by_role("button", name="Show the complete reply").click()
    expect(large.locator("dl")).to_contain_text("Tokens")
    expect(large.locator("dl")).to_contain_text("Cost")
    summary = root.get_by_role("region", name="Summary")
    expect(summary.get_by_role("row", name="large")).to_contain_text("8 of 8")
    expect(summary.get_by_role("columnheader", name="cost")).to_be_visible()
    root.get_by_text("large is better than prose").first.wait_for()
    root.evaluate("root => root.querySelector('.ab-lab-results').scrollIntoView({block: 'start'})")
    page.screenshot("prompt-lab-judged")
    assert axe_violations(root) == []
    look_narrow_and_dark(page, root)


def look_narrow_and_dark(page: Page, root: Locator) -> None:
    size = page.page.viewport_size
    assert size is not None
    page.page.set_viewport_size({"width": 400, "height": 1000})
    page.set_theme("JupyterLab Dark")
    for number, part in enumerate((".ab-lab-top:not(.ab-hidden)", ".ab-lab-run", ".ab-lab-results", ".ab-results")):
        root.evaluate("(root, part) => root.querySelector(part).scrollIntoView({block: 'start'})", part)
        page.screenshot(f"prompt-lab-400-{number}")
    assert axe_violations(root) == []
    for name, last in (("Summary", "th >> nth=6"), ("Chart", "img")):
        region = root.get_by_role("region", name=name)
        region.evaluate(
            "region => { region.scrollIntoView({block: 'center'}); region.scrollLeft = region.scrollWidth; }"
        )
        page.screenshot(f"prompt-lab-400-{name.lower()}")
        ends = "([part, region]) => part.getBoundingClientRect().right <= region.getBoundingClientRect().right + 1"
        assert page.page.evaluate(ends, [region.locator(last).element_handle(), region.element_handle()])
    page.set_theme("JupyterLab Light")
    page.page.set_viewport_size(size)


def apply_and_undo(page: Page, root: Locator) -> None:
    root.locator(".ab-lab-variant", has_text="prose").get_by_role("button", name="Edit").click()
    expect(root.get_by_label("System prompt")).to_have_value(PROSE)
    root.get_by_role("button", name="Apply to the agent").click()
    root.get_by_text("helper will run on this configuration, for everyone who uses it").wait_for()
    root.get_by_role("button", name="Apply", exact=True).click()
    root.get_by_role("button", name="Apply all the same").click()  # “prose” is not better
    root.get_by_text("Applied: the agent now runs on version").wait_for()
    expect(root.get_by_label("Winner")).to_have_value("large")
    root.get_by_role("button", name="Apply the winner").click()
    root.get_by_text("helper will run on “large” instead of version").wait_for()
    root.get_by_text("100% of its replies passed. You can undo this.").wait_for()
    root.get_by_role("button", name="Apply it").click()
    root.get_by_text("Applied “large”: the agent now runs on version").wait_for()
    root.get_by_role("button", name="Undo").click()
    root.get_by_text("Undone: the agent runs on its earlier configuration").wait_for()


def save(root: Locator, lab: Lab) -> Path:
    root.get_by_label("File").fill("trial.yaml")
    root.get_by_role("button", name="Save", exact=True).click()
    root.get_by_text("Saved to trial.yaml").wait_for()
    file = lab.root / "trial.yaml"
    assert "newcomer~judge" in file.read_text()
    return file


def check_versions(page: Page) -> None:
    """Three drafts, whatever the number of runs; runs do not write a description."""
    run_cell(page, 2, VERSIONS)
    assert ast.literal_eval(page.output_text(2)) == [
        ("EPHEMERAL", "", "prose"),
        ("EPHEMERAL", "", "small"),
        ("EPHEMERAL", "", "large"),
        ("COMMITTED", "", "prose"),
        ("COMMITTED", "", "large"),
        ("COMMITTED", "", "restored from the prompt lab"),
    ]


def evaluate(page: Page, file: Path, key: str, service: Service, folder: Path) -> None:
    """The command passes and fails the saved file as the form does, cell by cell."""
    run_cell(page, 3, RESULTS)
    in_the_form = {(variant, text): verdicts for variant, text, *verdicts in json.loads(page.output_text(3))}
    assert len(in_the_form) == 27
    environment = {
        **os.environ, "AGENTBOOK_BASE_URL": service.base_url, "AGENTBOOK_API_KEY": key,
        "AGENTBOOK_DATA": str(folder / "command"),
    }  # fmt: skip

    def run_command(*options: str) -> subprocess.CompletedProcess[str]:
        where = ["--out", str(folder / "out"), "--concurrency", "16", "--no-progress"]
        words = [*COMMAND, "eval", str(file), *where, *options]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)

    below, reached = run_command(), run_command("--fail-under", "0.3")
    assert (below.returncode, reached.returncode) == (100, 0), below.stderr + reached.stderr
    assert "33.3% of 27 cells passed" in below.stdout
    rows = json.loads((folder / "out" / "results.json").read_text())["results"]["results"]
    by_command = {
        (row["prompt"]["label"], json.loads(row["prompt"]["raw"])[-1]["content"]): [
            row["success"], *(part["pass"] for part in row["gradingResult"]["componentResults"]),
        ]
        for row in rows
    }  # fmt: skip
    assert by_command == in_the_form
    suites = ElementTree.parse(folder / "out" / "junit.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("27", "18", "0")
    files = [file, *(folder / "out").iterdir()]
    assert key.partition(":")[2] not in "".join(each.read_text() for each in files)
