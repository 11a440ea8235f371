"""The built site: the one in ``AGENTBOOK_SITE``, or one that is built here.

`.ci/run` builds the site in an environment of its own, and passes it to these tests.
Elsewhere the first of them builds it, if the extra ``docs`` is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("docs", "notebooks", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md")
NEEDED = ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme", "sphinx_click", "sphinx_design")
NO_SITE = "no site: pip install '.[docs]', or set AGENTBOOK_SITE to the folder of a built one"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    if "AGENTBOOK_SITE" in os.environ:
        return Path(os.environ["AGENTBOOK_SITE"])
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        pytest.skip(NO_SITE)
    return build(tmp_path_factory.mktemp("site"))


def build(folder: Path) -> Path:
    """Build the site from a copy: Sphinx writes beside the pages."""
    sources = folder / "sources"
    sources.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(
                path, sources / name, ignore=shutil.ignore_patterns("generated", "tutorials", "__pycache__")
            )
        else:
            shutil.copy(path, sources)
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(sources / "docs"), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return folder / "html"
