"""This Python environment: which agentbook runs, what hides packages, and whether they are recent enough."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .. import __version__
from .finding import Finding, numbers, version

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*>=\s*([\w.]+)")
# Modules that a notebook's first cells import. A file of that name beside the notebook is imported in their place.
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
    """One agentbook, and which."""
    yield Finding("ok", "agentbook", f"{__version__} on Python {sys.version.split()[0]} ({sys.executable})")
    places = {path.resolve() for path in map(Path, sys.path) if (path / "agentbook" / "__init__.py").is_file()}
    records = [found for found in importlib.metadata.distributions(name="agentbook") if found.metadata is not None]
    installed = sorted({(found.version, str(found.locate_file(""))) for found in records})
    if len(places) > 1:
        yield Finding(
            "wrong",
            "agentbook",
            f"installed twice, so that changes and upgrades may show no effect: {', '.join(map(str, sorted(places)))}",
            "Keep one: pip uninstall agentbook (repeat until it says that there is none), then install it again.",
        )
    elif installed and __version__ not in {found for found, _ in installed}:
        yield Finding(
            "wrong",
            "agentbook",
            f"the code is {__version__}, the installed record says {installed[0][0]}: an upgrade was not finished",
            "pip install --force-reinstall --no-deps agentbook, then restart the kernels.",
        )


def hidden() -> Iterator[Finding]:
    """Files beside the notebook that are imported in place of a package."""
    here = Path.cwd()
    own = Path(__file__).parents[2]
    for name in _IMPORTED:
        found = next((path for path in (here / f"{name}.py", here / name / "__init__.py") if path.is_file()), None)
        if found is not None and here.resolve() != own.resolve():
            yield Finding(
                "wrong",
                "import",
                f"{found} hides the package {name}: `import {name}` takes it in a notebook of this folder",
                "Rename the file, and restart the kernel.",
            )


def dependencies() -> Iterator[Finding]:
    """What agentbook cannot do without, at the versions it is tested with."""
    wrong, wanted = [], []
    for requirement in importlib.metadata.requires("agentbook") or ():
        found = _REQUIREMENT.match(requirement)
        if found is None or "extra ==" in requirement:
            continue
        name, least = found.groups()
        have = version(name)
        if have is None or numbers(have) < numbers(least):
            wrong.append(f"{name} {have or 'is missing'} (needs {least})")
            wanted.append(f"'{name}>={least}'")
    if wrong:
        advice = f"{sys.executable} -m pip install --upgrade {' '.join(wanted)}, then restart the kernels."
        yield Finding("wrong", "dependencies", f"too old or missing: {', '.join(wrong)}", advice)
    else:
        yield Finding("ok", "dependencies", "all there, none too old")


def language_model() -> Iterator[Finding]:
    """Whether a language model that is configured can be used by the embedded service."""
    names = [name for name in ("AGENTBOOK_LLM_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY") if os.environ.get(name)]
    if names and importlib.util.find_spec("openai") is None:
        found = (
            f"{names[0]} is set, but the package openai is missing: a rule-based stand-in answers in the model's place"
        )
        yield Finding("note", "language model", found, "pip install 'agentbook[llm]', then restart the service.")
