"""Set-up of all tests.

No test reads or writes the user's data, keys and settings, and interrupts reach the
tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from support.services import stop_services

USER_SETTINGS = (
    "AGENTBOOK_BASE_URL",
    "AGENTBOOK_API_KEY",
    "AGENTBOOK_ALLOW_HTTP",
    "AGENTBOOK_LLM_MODEL",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
)

TESTS = Path(__file__).parent
# The folders and files with the slowest tests, whose workers start first.
LONGEST = ["browser", "binder", "notebooks", "test_packaging.py", "test_connect.py", "test_docstrings.py"]

# Set on import, and so before any test module is imported. Every process that a test
# starts inherits it.
DATA = Path(tempfile.mkdtemp(prefix="agentbook-tests-"))
os.environ["AGENTBOOK_DATA"] = str(DATA)
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
for name in USER_SETTINGS:
    os.environ.pop(name, None)
# A shell starts background jobs with SIGINT ignored. Tests that interrupt would then
# wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] not in LONGEST)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the services that use the session's data directory, and remove it."""
    stop_services(DATA)
    shutil.rmtree(DATA, ignore_errors=True)
