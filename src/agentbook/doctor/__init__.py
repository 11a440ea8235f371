"""`agentbook doctor`: looks for common problems, the most basic first.

`packages` examines this Python environment, `notebook` JupyterLab and the kernels,
`models` the language models, `machine` the directory and process of the embedded
service, and `platform` the address, the connection and the credential. Each check is a
small function that yields findings: what is wrong, why, and what to do. Checks never
change or start anything, and never show a secret.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from . import machine, models, notebook, packages, platform
from .finding import Finding

__all__ = ["CHECKS", "Finding", "examine"]

CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    packages.installs,
    packages.hidden,
    packages.dependencies,
    notebook.jupyterlab,
    notebook.ipykernel,
    notebook.widgets,
    notebook.modules,
    notebook.charts,
    notebook.environments,
    notebook.kernel,
    notebook.kernelspecs,
    notebook.loops,
    models.language_models,
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
    """The findings of all checks, in the order of `CHECKS`.

    Returns
    -------
    list of Finding
        Including checks that found no problem. If a check itself fails, that is a
        finding too; nothing is raised.

    Notes
    -----
    Specification: "Authentication" and "Errors", for the platform's replies.

    Examples
    --------
    >>> examine()[0].about
    'agentbook'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other packages' warnings would mix with the findings
        return [finding for check in CHECKS for finding in _safely(check)]


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # Show only the error's type: its message might contain an address with a
        # password.
        about = check.__name__.replace("_", " ")
        message = f"could not be checked ({type(error).__name__})"
        yield Finding("wrong", about, message, "Please report this; the other checks are not affected.")
