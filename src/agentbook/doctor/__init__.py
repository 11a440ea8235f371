"""`agentbook doctor`: looks for common problems, the most basic first.

`environment` examines the packages and JupyterLab, `language_model` the models of the
embedded service, and `platform` the address, the connection and the credential. Checks
never change or start anything, and never show a secret.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from . import environment, language_model, platform
from .finding import Finding

__all__ = ["Finding", "examine"]


def examine() -> list[Finding]:
    """What all checks found, the most basic first.

    Returns
    -------
    list of Finding
        Including what is in order. If a check itself fails, that is a finding too;
        nothing is raised.

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
        checks = (environment.packages, environment.jupyterlab, language_model.answers, platform.connection)
        return [finding for check in checks for finding in _safely(check)]


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # Show only the error's type: its message might contain an address with a
        # password.
        message = f"could not be checked ({type(error).__name__})"
        yield Finding(
            "wrong",
            check.__module__.rpartition(".")[2].replace("_", " "),
            message,
            "Please report this; the other checks are not affected.",
        )
