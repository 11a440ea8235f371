"""Altair is imported without what only others of its dependencies' users need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# In place of the module whose import builds a grammar, for seconds.
GRAMMAR = """
print("built")
def is_valid_syntax(kind, text):
    return kind == "iri" and text.startswith("https:")
"""
IMPORTED = """
from agentbook.frames.plot.style import altair
altair()
print("imported")
import jsonschema
checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
print(checker.conforms("https://host/ü", "iri"), checker.conforms("no iri", "iri"))
"""


def test_altair_is_imported_without_a_grammar_that_jsonschema_still_finds_when_it_needs_it(tmp_path: Path) -> None:
    (tmp_path / "rfc3987_syntax.py").write_text(GRAMMAR)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["imported", "built", "True", "False"], done.stderr
