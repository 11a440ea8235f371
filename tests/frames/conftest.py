"""For all tests of this package: their marker."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them: versions of pandas, NumPy and Arrow differ in what these tests use."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("dependencies")
