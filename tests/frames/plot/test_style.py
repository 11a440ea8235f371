"""Altair is imported without what only others of its dependencies' users need."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTED = """
import sys
from agentbook.frames.plot.style import altair
altair()
assert "lark" not in sys.modules, "2 s of CPU for a grammar that no chart needs"
import jsonschema
checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
print(checker.conforms("https://host/ü", "iri"), checker.conforms("no iri", "iri"))
"""


def test_altair_is_imported_without_a_grammar_that_jsonschema_still_finds_when_it_needs_it() -> None:
    pytest.importorskip("rfc3987_syntax")
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
