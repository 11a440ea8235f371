"""Trials: whether everything can be imported, and an embedded service starts here.

A package that was released after agentbook, or is damaged, shows only when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import agentbook

from .._packages import MEND, described, differing, explain, mend
from ..api.errors import AgentbookError
from . import Finding


def imports() -> Iterator[Finding]:
    """Whether every public name can be imported."""
    for name in agentbook.__all__:
        try:
            getattr(agentbook, name)
        except Exception as error:  # whatever another package raises
            yield _broken("imports", f"agentbook.{name} cannot be imported: {explain(error)}")
            return
    yield Finding("ok", "imports", "all parts of agentbook can be imported")


def service() -> Iterator[Finding]:
    """Whether a service starts in a temporary folder, and a frame and a panel work."""
    from .. import embedded  # `imports` says why it cannot be

    try:
        with embedded.platform() as platform:
            agents = platform.client.agents.list().to_pandas()
            agentbook.ChatPanel(platform.client, workspace="acme~playground", agent="guide").ask("What is a turn?")
    except AgentbookError as error:
        yield _broken("trial start", re.sub(r" \(\S*service\.log\)", "", str(error)))  # the log is gone
    except Exception as error:  # whatever another package raises
        yield _broken("trial start", explain(error))
    else:
        message = f"an embedded service started in a temporary folder; one of its {len(agents)} agents answered"
        yield Finding("ok", "trial start", message)


def _broken(about: str, reason: str) -> Finding:
    """What failed, the package that is to blame, and the command that mends it."""
    message, _, command = reason.partition(MEND)
    if not command and (others := differing()):
        message += f" Not in the tested version: {described(others[:5])}"
        command = mend(others)
    return Finding(
        "wrong", about, message, f"{command}, then restart the kernels." if command else "Please report this."
    )
