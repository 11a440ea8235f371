"""Says what must not be in a stored notebook: ``python tests/notebooks/check.py FILE ...``, also as a pre-commit hook.

Each rule is a function from a notebook to the problems it has by it. What a rule is for stands in its first line. Exit code 1 and
one line for each problem, if there is one.
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
WHY = "Output not compared:"
TAGS = {IGNORED, "compared-at-end", "raises-exception"}

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


def _name(cell: dict[str, Any]) -> str:
    return f"cell {cell.get('id', '?')}"


def _texts(notebook: Notebook) -> Iterator[tuple[str, str]]:
    """Everything a notebook says, with where it says it. Pictures in base64 say nothing to a reader."""
    for cell in notebook["cells"]:
        yield _name(cell), "".join(cell["source"])
        for output in cell.get("outputs", ()):
            said = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", ())]
            said += [data for kind, data in output.get("data", {}).items() if kind not in ("image/png", "image/jpeg")]
            for text in said:
                yield f"an output of {_name(cell)}", text if isinstance(text, str) else _joined(text)
        yield f"the metadata of {_name(cell)}", json.dumps([cell["metadata"], cell.get("attachments", {})])
    yield "the notebook's metadata", json.dumps(notebook["metadata"])


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) and all(isinstance(line, str) for line in text) else json.dumps(text)


def no_machine_path(notebook: Notebook) -> Iterator[str]:
    """A path of the machine it was run on means nothing elsewhere, and tells who ran it."""
    for where, text in _texts(notebook):
        found = MACHINE_PATH.search(text)
        if found:
            yield f"{where} names a path of a machine: {found[0]}…"


def no_secret(notebook: Notebook) -> Iterator[str]:
    """A notebook is shared; a secret is not. The secret itself is not repeated."""
    for where, text in _texts(notebook):
        for what, pattern in SECRETS.items():
            if pattern.search(text):
                yield f"{where} holds {what}"


def no_execution_noise(notebook: Notebook) -> Iterator[str]:
    """What only one run knows: times, progress, warnings, errors, addresses in memory, widgets whose state is not stored."""
    for key in set(notebook["metadata"]) - {"kernelspec", "language_info"}:
        yield f"the notebook's metadata has {key!r}"
    for cell in notebook["cells"]:
        extra = set(cell["metadata"]) - {"tags"}
        if extra:
            yield f"{_name(cell)} has metadata: {', '.join(sorted(extra))}"
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error" and "raises-exception" not in cell["metadata"].get("tags", ()):
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
    """Ids that stay are what a change is shown by, and what an output is found by; format 4.5 has them."""
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
    """Any Python 3 kernel runs it, whatever the environment of whoever saved it was called."""
    kernel = notebook["metadata"].get("kernelspec")
    if kernel != KERNEL:
        yield f"the kernelspec is {json.dumps(kernel)}, not {json.dumps(KERNEL)}"
    extra = set(notebook["metadata"].get("language_info", ())) - {"name"}
    if extra:
        yield f"the language info has {', '.join(sorted(extra))}"


def it_was_run_from_top_to_bottom(notebook: Notebook) -> Iterator[str]:
    """Outputs are those of one run in order, so that what is read is what one gets."""
    for number, cell in enumerate(_code(notebook), 1):
        if not "".join(cell["source"]).strip():
            yield f"{_name(cell)} is empty"
        elif cell.get("execution_count") != number:
            yield f"{_name(cell)} has the number {cell.get('execution_count')}, not {number}: it was not run in its turn"
    if not any(cell.get("outputs") for cell in _code(notebook)):
        yield "there are no outputs: run tests/notebooks/execute.py"


def its_code_can_be_seen(notebook: Notebook) -> Iterator[str]:
    """A line that is wider than JupyterLab's window beside its file browser is read by nobody."""
    for cell in _code(notebook):
        for number, line in enumerate("".join(cell["source"]).splitlines(), 1):
            if len(line) > WIDEST:
                yield f"{_name(cell)} has {len(line)} characters in line {number}, more than {WIDEST}"


def what_is_not_compared_says_why(notebook: Notebook) -> Iterator[str]:
    """A cell whose output may vary is the exception, and says what for."""
    for cell in notebook["cells"]:
        tags = set(cell["metadata"].get("tags", ()))
        for tag in sorted(tags - TAGS):
            yield f"{_name(cell)} has the unknown tag {tag!r}"
        if IGNORED in tags and "compared-at-end" not in tags and WHY not in "".join(cell["source"]):
            yield f"{_name(cell)} is not compared and does not say why ({WHY!r})"


RULES: tuple[Callable[[Notebook], Iterator[str]], ...] = (
    no_machine_path,
    no_secret,
    no_execution_noise,
    ids_are_there,
    the_kernel_is_neutral,
    it_was_run_from_top_to_bottom,
    its_code_can_be_seen,
    what_is_not_compared_says_why,
)


def problems(path: Path) -> list[str]:
    """What is wrong with a stored notebook, one line each."""
    try:
        notebook: Notebook = json.loads(path.read_text("utf-8"))
        if not isinstance(notebook.get("cells"), list):
            raise ValueError("there is no list of cells")
        found = [problem for rule in RULES for problem in rule(notebook)]
        if not found:  # it mends what the rules are about, so it comes after them
            nbformat.validate(notebook)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        return [f"it is no notebook: {str(error).splitlines()[0]}"]
    return found


def main(files: list[str]) -> int:
    """Print what is wrong with each file; 1 if anything is, 2 if no file is given."""
    if not files:
        print("Name the notebooks to check: python tests/notebooks/check.py notebooks/*.ipynb", file=sys.stderr)
        return 2
    found = [f"{name}: {problem}" for name in files for problem in problems(Path(name))]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
