"""Checks of this Python environment: which agentbook runs, and with which packages."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .. import __version__
from .finding import Finding, numbers, version

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;]*)")  # name, bounds
_BOUND = re.compile(r"(>=|<)\s*([\w.]+)")
# Modules that first cells import. A file with the same name next to the notebook
# shadows them.
_IMPORTED = (
    "agentbook",
    "altair",
    "asyncio",
    "calendar",
    "email",
    "httpx",
    "json",
    "pandas",
    "random",
    "token",
    "websockets",
)


def installs() -> Iterator[Finding]:
    """Which agentbook runs, and whether it is installed only once."""
    yield Finding("ok", "agentbook", f"{__version__} on Python {sys.version.split()[0]} ({sys.executable})")
    package_folders = {path.resolve() for path in map(Path, sys.path) if (path / "agentbook" / "__init__.py").is_file()}
    distributions = [
        distribution
        for distribution in importlib.metadata.distributions(name="agentbook")
        if distribution.metadata is not None
    ]
    installed = sorted(distribution.version for distribution in distributions)
    if len(package_folders) > 1:
        yield Finding(
            "wrong",
            "agentbook",
            f"installed twice, so changes and upgrades may have no effect: {', '.join(map(str, sorted(package_folders)))}",
            "Keep one: pip uninstall agentbook (repeat until none is left), then install it again.",
        )
    elif installed and __version__ not in installed:
        yield Finding(
            "wrong",
            "agentbook",
            f"the code is {__version__} but its metadata says {installed[0]}: an upgrade did not finish",
            "pip install --force-reinstall --no-deps agentbook, then restart the kernels.",
        )


def hidden() -> Iterator[Finding]:
    """Whether a file next to the notebook shadows a package."""
    folder = Path.cwd()
    own = Path(__file__).parents[2]
    for name in _IMPORTED:
        file = next((path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.is_file()), None)
        if file is not None and folder.resolve() != own.resolve():
            yield Finding(
                "wrong",
                "import",
                f"{file} hides the package {name}: notebooks in this folder import the file instead",
                "Rename the file, then restart the kernel.",
            )


def dependencies() -> Iterator[Finding]:
    """Whether the required packages are installed in suitable versions."""
    wrong, requirements = [], []
    for requirement in importlib.metadata.requires("agentbook") or ():
        match = _REQUIREMENT.match(requirement)
        if match is None or "extra ==" in requirement:
            continue
        name, bounds = match[1], dict(_BOUND.findall(match[2]))
        minimum, limit = bounds[">="], bounds.get("<")
        needed = f"needs {minimum}" + (f", below {limit}" if limit else "")
        installed_version = version(name)
        if installed_version is None or not _fits(installed_version, minimum, limit):
            wrong.append(f"{name} {installed_version or 'is missing'} ({needed})")
            requirements.append(f"'{name}>={minimum}{f',<{limit}' if limit else ''}'")
    if wrong:
        advice = f"{sys.executable} -m pip install --upgrade {' '.join(requirements)}, then restart the kernels."
        yield Finding("wrong", "dependencies", f"missing, too old or too new: {', '.join(wrong)}", advice)
    else:
        yield Finding("ok", "dependencies", "all installed in suitable versions")


def _fits(installed: str, minimum: str, limit: str | None) -> bool:
    return numbers(minimum) <= numbers(installed) and (limit is None or numbers(installed) < numbers(limit))
