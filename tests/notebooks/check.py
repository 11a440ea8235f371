"""Checks stored notebooks: ``python tests/notebooks/check.py FILE ...``, and
pre-commit.

Each rule is a function that yields a notebook's problems; its docstring says what it is
for. Prints one line per problem, and exits with code 1 if there is one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat

Notebook = dict[str, Any]

WIDEST = 100
WIDGETS = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
IGNORED = "nbval-ignore-output"
# Why an output differs from run to run.
REASONS = {"compared-at-end", "varies-with-date", "varies-with-speed"}
# How JupyterLab, Notebook 7 and VS Code fold a cell.
FOLDED = {"source_hidden": True, "outputs_hidden": True}
# What is folded until a reader opens it: the solution of an exercise, code that plays a
# person where a notebook runs without one, and the code that checks an answer.
FOLDED_TAGS = {"solution": FOLDED, "unattended": FOLDED, "check": {"source_hidden": True}}
TAGS = {IGNORED, "raises-exception", *FOLDED_TAGS, *REASONS}

MACHINE_PATH = re.compile(r"(?<![\w.:/])(?:/(?:home|root|Users|work|tmp|private|opt|var/folders)/\S|[A-Za-z]:\\+\w)")
ADDRESS = re.compile(r"<[^<>]*\bat 0x[0-9a-f]{6,}[^<>]*>")
SECRETS = {
    "an API key": re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[\w-]{8,}"),
    "a bearer token": re.compile(r"Bearer\s+[\w.~+/-]{16,}"),
    "a Basic credential": re.compile(r"Basic\s+[\w+/]{24,}={0,2}"),
    "a key of an LLM provider": re.compile(r"\bsk-[\w-]{16,}"),
    "a token of GitHub": re.compile(r"\bgh[pousr]_\w{20,}"),
    "a key of AWS": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a one-time sign-in link": re.compile(r"[?&]code=[\w-]{20,}"),
    "a sign-in token of JupyterLab": re.compile(r"[?&]token=[0-9a-f]{16,}"),
}


def _code(notebook: Notebook) -> Iterator[dict[str, Any]]:
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def _tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", ()))


def is_folded(cell: dict[str, Any]) -> bool:
    """Whether a cell's tags say that it is folded."""
    return bool(_tags(cell) & FOLDED_TAGS.keys())


def _name(cell: dict[str, Any]) -> str:
    return f"cell {cell.get('id', '?')}"


def _texts(notebook: Notebook) -> Iterator[tuple[str, str]]:
    """All texts of a notebook, each with its place. Leaves out images in base64."""
    for cell in notebook["cells"]:
        yield _name(cell), "".join(cell["source"])
        for output in cell.get("outputs", ()):
            texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", ())]
            texts += [data for kind, data in output.get("data", {}).items() if kind not in ("image/png", "image/jpeg")]
            for text in texts:
                yield f"an output of {_name(cell)}", text if isinstance(text, str) else _joined(text)
        yield f"the metadata of {_name(cell)}", json.dumps([cell["metadata"], cell.get("attachments", {})])
    yield "the notebook's metadata", json.dumps(notebook["metadata"])


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) and all(isinstance(line, str) for line in text) else json.dumps(text)


def no_machine_path(notebook: Notebook) -> Iterator[str]:
    """A path of one machine is useless elsewhere, and reveals who ran the notebook."""
    for where, text in _texts(notebook):
        match = MACHINE_PATH.search(text)
        if match:
            yield f"{where} names a path of a machine: {match[0]}…"


def no_secret(notebook: Notebook) -> Iterator[str]:
    """A shared notebook must contain no secret. The message does not repeat it."""
    for where, text in _texts(notebook):
        for kind, pattern in SECRETS.items():
            if pattern.search(text):
                yield f"{where} holds {kind}"


def no_execution_noise(notebook: Notebook) -> Iterator[str]:
    """Nothing that varies by run: times, progress, warnings, errors, memory addresses,
    widgets without state.
    """
    for key in set(notebook["metadata"]) - {"kernelspec", "language_info"}:
        yield f"the notebook's metadata has {key!r}"
    for cell in notebook["cells"]:
        extra = set(cell["metadata"]) - ({"tags", "jupyter"} if is_folded(cell) else {"tags"})
        if extra:
            yield f"{_name(cell)} has metadata: {', '.join(sorted(extra))}"
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error" and "raises-exception" not in _tags(cell):
                yield f"{_name(cell)} ends in an error"
            if output.get("name") == "stderr":
                yield f"{_name(cell)} has output on stderr: a warning or a progress bar"
            if ADDRESS.search("".join(output.get("data", {}).get("text/plain", output.get("text", "")))):
                yield f"{_name(cell)} shows where in memory an object was"
            if output.get("metadata"):
                yield f"{_name(cell)} has metadata on an output"
            if WIDGETS in output.get("data", {}):
                yield f"{_name(cell)} has a widget without its state"


def ids_are_there(notebook: Notebook) -> Iterator[str]:
    """Every cell has its own id, by which diffs and outputs are matched."""
    if (notebook["nbformat"], notebook["nbformat_minor"]) < (4, 5):
        yield f"the format is {notebook['nbformat']}.{notebook['nbformat_minor']}; 4.5 is the first with ids"
    seen = set[str]()
    for number, cell in enumerate(notebook["cells"]):
        if not cell.get("id"):
            yield f"cell number {number} has no id"
        elif cell["id"] in seen:
            yield f"two cells have the id {cell['id']}"
        seen.add(cell.get("id", ""))


def the_kernel_is_neutral(notebook: Notebook) -> Iterator[str]:
    """The kernel is any Python 3, not one particular environment."""
    kernel = notebook["metadata"].get("kernelspec")
    if kernel != KERNEL:
        yield f"the kernelspec is {json.dumps(kernel)}, not {json.dumps(KERNEL)}"
    extra = set(notebook["metadata"].get("language_info", ())) - {"name"}
    if extra:
        yield f"the language info has {', '.join(sorted(extra))}"


def it_was_run_from_top_to_bottom(notebook: Notebook) -> Iterator[str]:
    """The outputs are those of one run, in order."""
    for number, cell in enumerate(_code(notebook), 1):
        if not "".join(cell["source"]).strip():
            yield f"{_name(cell)} is empty"
        elif cell.get("execution_count") != number:
            yield f"{_name(cell)} has the number {cell.get('execution_count')}, not {number}: it was not run in its turn"
    if not any(cell.get("outputs") for cell in _code(notebook)):
        yield "there are no outputs: run tests/notebooks/execute.py"


def its_code_can_be_seen(notebook: Notebook) -> Iterator[str]:
    """No line is wider than JupyterLab's window beside its file browser."""
    for cell in _code(notebook):
        for number, line in enumerate("".join(cell["source"]).splitlines(), 1):
            if len(line) > WIDEST:
                yield f"{_name(cell)} has {len(line)} characters in line {number}, more than {WIDEST}"


def what_is_not_compared_says_why(notebook: Notebook) -> Iterator[str]:
    """A tag says why the output of a cell is not compared; the lesson itself does
    not.
    """
    for cell in notebook["cells"]:
        tags = _tags(cell)
        for tag in sorted(tags - TAGS):
            yield f"{_name(cell)} has the unknown tag {tag!r}"
        if IGNORED in tags and not tags & REASONS:
            yield f"{_name(cell)} is not compared and has no tag that says why: {', '.join(sorted(REASONS))}"
        if tags & REASONS and IGNORED not in tags:
            yield f"{_name(cell)} says why it is not compared, but is compared: it lacks the tag {IGNORED!r}"


def a_lesson_has_no_scaffolding(notebook: Notebook) -> Iterator[str]:
    """Outputs are compared, so a lesson asserts nothing, except in a test that it
    teaches.
    """
    for cell in _code(notebook):
        if re.search(r"^assert\b", "".join(cell["source"]), re.MULTILINE):
            yield f"{_name(cell)} has an assert; show the value instead, because outputs are compared"


def what_is_tagged_is_folded(notebook: Notebook) -> Iterator[str]:
    """A reader opens a solution when they have tried the exercise."""
    for cell in _code(notebook):
        for tag in sorted(_tags(cell) & FOLDED_TAGS.keys()):
            if cell["metadata"].get("jupyter") != FOLDED_TAGS[tag]:
                yield f"{_name(cell)} is tagged to be folded, but 'jupyter' is not {json.dumps(FOLDED_TAGS[tag])}"


def what_is_imported_is_public(notebook: Notebook) -> Iterator[str]:
    """A reader copies the lines, and modules inside of the package change."""
    for cell in _code(notebook):
        for line in re.findall(r"^\s*(?:from|import) agentbook\..*", "".join(cell["source"]), re.MULTILINE):
            yield f"{_name(cell)} imports what is not public: {line.strip()}"


RULES: tuple[Callable[[Notebook], Iterator[str]], ...] = (
    no_machine_path,
    no_secret,
    no_execution_noise,
    ids_are_there,
    the_kernel_is_neutral,
    it_was_run_from_top_to_bottom,
    its_code_can_be_seen,
    what_is_not_compared_says_why,
    a_lesson_has_no_scaffolding,
    what_is_imported_is_public,
    what_is_tagged_is_folded,
)


def problems(path: Path) -> list[str]:
    """The problems of a stored notebook, one line each."""
    try:
        notebook: Notebook = json.loads(path.read_text("utf-8"))
        if not isinstance(notebook.get("cells"), list):
            raise ValueError("there is no list of cells")
        messages = [problem for rule in RULES for problem in rule(notebook)]
        if not messages:  # it repairs what the rules check, so it comes last
            nbformat.validate(notebook)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        return [f"it is not a notebook: {str(error).splitlines()[0]}"]
    return messages


def main(files: list[str]) -> int:
    """Print the problems of each file. Returns 1 if there are any, 2 without a file."""
    if not files:
        print("Name the notebooks to check: python tests/notebooks/check.py notebooks/*.ipynb", file=sys.stderr)
        return 2
    lines = [f"{name}: {problem}" for name in files for problem in problems(Path(name))]
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
