"""The pytest fixtures `agent_eval` and `agent_platform`.

    def test_greetings(agent_eval):  # a prompt's checks are tests
        agent_eval("greetings.yaml", agent="acme~writer", workspace="acme~playground")

    def test_my_tool(agent_platform):  # a platform for tests, with demo data
        assert count_agents(agent_platform.client) == 15

Loaded by pytest where agentbook is installed; it imports nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .embedded import Platform
    from .evaluation.evaluate import Results, Row

SHOWN = 20  # failures in the message of a test


@pytest.fixture(scope="session")
def agent_eval_client() -> Any:
    """Return the client that `agent_eval` uses; override it to use another one."""
    from ._connect import connect

    return connect


@pytest.fixture(scope="session")
def agent_platform_service() -> Iterator[Platform]:
    """Run the platform of `agent_platform`; override it for other options."""
    from .embedded import platform

    with platform() as started:
        yield started


@pytest.fixture
def agent_platform(agent_platform_service: Platform) -> Platform:
    """Return a platform as new: with a `client`, a `base_url` and an `api_key`.

    The tests of a session share it, and each finds it as it was at the start: after a
    test that wrote something, it starts again. See `agentbook.platform`.
    """
    agent_platform_service.reset()
    return agent_platform_service


@pytest.fixture
def agent_eval(agent_eval_client: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Results]]:
    """Run a lab file, and fail the test with what fails.

    The fixture is a function of the file, relative to the test's own folder, and of
    `agent`, `workspace`, `judge`, `repeats`, `against`, `failed`, `allow_code`,
    `concurrency`, `timeout_s` (seconds), `prices` and `max_cost`, as for ``agentbook
    eval``. `fail_under` is the share that has to pass, by default 1, with `against` 0.
    It returns the `agentbook.evaluation.evaluate.Results`.
    """
    from .evaluation.evaluate import closing_clients, evaluate

    with closing_clients(agent_eval_client) as connect:

        def run(path: str | Path, *, fail_under: float | None = None, **options: Any) -> Results:
            __tracebackhide__ = True
            results, _ = evaluate(request.path.parent / path, connect, **options)
            against = options.get("against")
            bar = (1.0 if against is None else 0.0) if fail_under is None else fail_under
            if results.pass_rate < bar or (against is not None and results.is_worse):
                pytest.fail(_message(path, results, bar), pytrace=False)
            return results

        yield run


def _message(path: str | Path, results: Results, fail_under: float) -> str:
    passed = results.count("passed")
    lines = [f"{path}: {passed} of {len(results.rows)} replies passed, {fail_under:.0%} are needed."]
    lines += results.verdict()
    lines += [_line(row) for row in results.failures[:SHOWN]]
    if len(results.failures) > SHOWN:
        lines.append(f"… and {len(results.failures) - SHOWN} more")
    return "\n".join(lines)


def _line(row: Row) -> str:
    from ._text import one_line

    return f"{row.status} {one_line(row.answer.variant, 60)} | {one_line(row.title, 160)}: {one_line(row.reason, 300)}"
