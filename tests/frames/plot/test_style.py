"""Altair is imported without what only others of its dependencies' users need."""

from __future__ import annotations

import importlib.metadata
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
    try:
        importlib.metadata.version("rfc3987-syntax")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("rfc3987-syntax is not installed: there is no grammar to leave out")
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
