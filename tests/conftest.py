"""Set-up of all tests.

No test reads or writes the user's data, keys and settings, and interrupts reach the
tests.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.services import stop_services

USER_SETTINGS = (
    "AGENTBOOK_BASE_URL",
    "AGENTBOOK_API_KEY",
    "AGENTBOOK_ALLOW_HTTP",
    "AGENTBOOK_LLM_MODEL",
    "AGENTBOOK_LLM_MODELS",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
)

TESTS = Path(__file__).parent
# Folders whose tests share what takes long to start, and so run in one process. The
# first takes longest: its files from `SECOND_HALF` on run in another one.
TOGETHER = ("tests/browser/", "tests/website/")
SECOND_HALF = "tests/browser/test_notebook7.py"
# What takes longest, and so starts first: folders and files, the longest first.
LONGEST = (
    "browser",
    "notebooks",
    "binder",
    "service/test_postgres.py",
    "test_connect.py",
    "frames/test_tabular.py",
    "frames/analysis/test_activity.py",
    "test_docstrings.py",
    "test_manual.py",
    "test_packaging.py",
    "service/test_schemathesis.py",
    "chat/test_exit.py",
    "integration/test_sign_in.py",
    "service/pages/test_in_browser.py",
    "frames",
)

# Set on import, and so before any test module is imported. Every process that a test
# starts inherits it.
DATA = Path(tempfile.mkdtemp(prefix="agentbook-tests-"))
os.environ["AGENTBOOK_DATA"] = str(DATA)
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
for name in USER_SETTINGS:
    os.environ.pop(name, None)
# jsonschema, which nbformat and Altair import, would build the grammar of a format that
# no test uses: for more than a second, in every process with tests.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# A shell starts background jobs with SIGINT ignored. Tests that interrupt would then
# wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Property tests try few examples by default, and the same ones in each run, so that a
# change lands or does not for what is in it. HYPOTHESIS_PROFILE=full tries many, and
# others in each run. The machine's load decides how long one takes; what hangs is
# stopped by pytest-timeout.
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
for profile, examples in (("small", 10), ("full", 100)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile != "full",
        deadline=None,
        suppress_health_check=CHECKS,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "small"))

# A browser test that timed out runs once more, as in JupyterLab's own suite: on a busy
# machine a page may miss a click. The summary lists it as RERUN, which means that the
# test or the page has a defect to fix.
ONCE_MORE = pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "AssertionError: Locator expected"])


# What `pytest` without arguments leaves out, because it needs more than the package and
# its test dependencies: folders and files, and what they need.
LEFT_OUT = {
    "a browser": ("browser", "website", "service/pages/test_in_browser.py"),
    "a second installation": ("binder", "test_packaging.py", "service/test_schemathesis.py"),
    "PostgreSQL": ("service/cluster", "service/test_postgres.py"),
    "a notebook kernel": ("notebooks", "integration/test_tutorials.py", "chat/widgets/test_comm_subshell.py"),
    "many services or processes": (
        "evaluation/test_service.py",
        "chat/test_exit.py",
        "doctor/test_doctor.py",
        "doctor/test_trial.py",
        "frames/test_dask.py",
        "integration/test_mcp.py",
        "integration/test_run_limits.py",
        "service/http/test_server.py",
        "service/store/test_disasters.py",
        "service/store/test_seeded.py",
        "test_connect.py",
        "test_embedded.py",
        "test_manual.py",
        "test_linear_time.py",
        "test_pytest_plugin.py",
    ),
    "npm": (
        *("chat/assets", "chat/prompt_lab/test_rows_js.py", "test_yaml.py"),
        "evaluation/test_promptfoo_provider.py",
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests that need a browser, PostgreSQL, ... too")
    parser.addoption("--strict-warnings", action="store_true", help="turn warnings into errors, as .ci/run does")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-warnings"):
        config.getini("filterwarnings").insert(0, "error")  # before what pyproject.toml lets pass


def _is_quick(config: pytest.Config) -> bool:
    """Whether no test was named, so that only the quick part runs."""
    return not config.getoption("--all") and config.args_source is not pytest.Config.ArgsSource.ARGS


def pytest_report_header(config: pytest.Config) -> str | None:
    if not _is_quick(config):
        return None
    return f"the quick part, without the tests that need {', '.join(LEFT_OUT)}: `pytest --all` runs them too"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders and files of `LEFT_OUT`, unless a test is named."""
    left_out = (TESTS / path for paths in LEFT_OUT.values() for path in paths)
    return True if collection_path in left_out and _is_quick(config) else None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Look for garbage only while tests run: what is imported and collected stays."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave thousands of tests out of every later search: a fifth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: _rank(item.path))
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(ONCE_MORE)


@functools.cache
def _rank(path: Path) -> int:
    name = path.relative_to(TESTS).as_posix()
    return next((rank for rank, prefix in enumerate(LONGEST) if name.startswith(prefix)), len(LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than cores: tests wait for processes a third of their time."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker all tests of a file, or of a folder of `TOGETHER`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            scope = next((folder for folder in TOGETHER if file.startswith(folder)), file)
            return f"{scope} 2" if scope == TOGETHER[0] and file >= SECOND_HALF else scope

    return Scheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the services that use the session's data directory, and remove it."""
    stop_services(DATA)
    shutil.rmtree(DATA, ignore_errors=True)
