"""What holds for every test: the user's own data, keys and settings are neither read
nor written, and an interrupt interrupts.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from support.services import end_services

FOREIGN = ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY", "AGENTBOOK_LLM_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")

TESTS = Path(__file__).parent
# The folders whose tests take longest: their workers begin first.
LONGEST = ["browser", "binder", "notebooks"]

# Set while this file is imported, hence before any test module, and inherited by every
# process that a test starts.
DATA = Path(tempfile.mkdtemp(prefix="agentbook-tests-"))
os.environ["AGENTBOOK_DATA"] = str(DATA)
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
for name in FOREIGN:
    os.environ.pop(name, None)
# A shell starts what it runs in the background deaf to interrupts; tests that interrupt
# would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, where they share what the module starts.

    All tests of `tests/browser` share one JupyterLab.
    """

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(TESTS).parts[0]

    for item in items:
        group = "jupyterlab" if folder(item) == "browser" else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: folder(item) not in LONGEST)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the services that were started in the session's directory, and remove it."""
    end_services(DATA)
    shutil.rmtree(DATA, ignore_errors=True)
