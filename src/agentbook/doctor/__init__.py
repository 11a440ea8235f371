"""`agentbook doctor`: what goes wrong most often, looked for in the order in which one would look.

`packages` examines this Python environment, `notebook` JupyterLab and the kernels, `machine` the directory and the process of the
embedded service, `platform` the address, the way there, and the credential. Each check is a small function that yields findings:
what is wrong, why, and what to do. None changes anything, starts anything, or shows a secret.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from . import machine, notebook, packages, platform
from .finding import Finding

__all__ = ["CHECKS", "Finding", "examine"]

CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    packages.installs,
    packages.hidden,
    packages.dependencies,
    notebook.jupyterlab,
    notebook.ipykernel,
    notebook.widgets,
    notebook.charts,
    notebook.environments,
    notebook.kernel,
    notebook.kernelspecs,
    notebook.loops,
    packages.language_model,
    machine.directory,
    machine.file_system,
    machine.disk,
    machine.secrets,
    machine.service,
    machine.port,
    platform.unused_key,
    platform.address,
    platform.proxy,
    platform.certificates,
    platform.answers,
)


def examine() -> list[Finding]:
    """All findings, in the order in which one would look.

    Returns
    -------
    list of Finding
        Also those that are well. A check that fails itself is a finding too; nothing is raised.

    Notes
    -----
    Specification: "Authentication" and "Errors", for what the platform answers.

    Examples
    --------
    >>> examine()[0].about
    'agentbook'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of is a finding here, or nothing to do with agentbook
        return [finding for check in CHECKS for finding in _safely(check)]


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # Its type alone: a message might repeat an address with a password in it.
        about = check.__name__.replace("_", " ")
        found = f"could not be examined ({type(error).__name__})"
        yield Finding("wrong", about, found, "Please report this; the other checks are not affected.")
