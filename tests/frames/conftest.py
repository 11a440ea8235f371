"""For all tests of this package: their marker, and settings of its property tests."""

from pathlib import Path

import pytest
from hypothesis import settings

# Each run tries other examples. The machine's load decides how long one takes; what
# hangs is stopped by pytest-timeout.
settings.register_profile("no deadline", deadline=None, max_examples=40)
settings.load_profile("no deadline")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them: versions of pandas, NumPy and Arrow differ in what these tests use."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("dependencies")
