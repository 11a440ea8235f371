"""`agentbook doctor`: what is configured, reachable and authorised, and what to do about the rest.

Each check is a small function that yields findings; none changes anything or starts anything.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from . import __version__
from .api.auth import ApiKey
from .api.calls import Call
from .api.client import Client
from .api.errors import AgentbookError, ApiError, ConnectionFailed, InsufficientScope, Unauthorized
from .api.transport import is_loopback
from .local import KEY_FILE, data_directory, find, read_key

MOST_SKEW_S = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state` is ``ok``, ``note`` or ``wrong``; `advice` says what to do."""

    state: str
    about: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        mark = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}[self.state]
        line = f"{mark}  {self.about}: {self.found}"
        return f"{line}\n       → {self.advice}" if self.advice else line


def examine() -> list[Finding]:
    """All findings, in the order in which one would look."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (installed, notebook, kernel, loops, data, platform)
    return [finding for check in checks for finding in check()]


def installed() -> Iterator[Finding]:
    """agentbook and Python."""
    yield Finding("ok", "agentbook", f"{__version__} on Python {sys.version.split()[0]} ({sys.executable})")
    others = [path for path in map(Path, sys.path) if (path / "agentbook" / "__init__.py").is_file()]
    if len(others) > 1:
        places = ", ".join(map(str, others))
        yield Finding(
            "note", "agentbook", f"found in several places: {places}", "The first one is used; remove the others."
        )


def notebook() -> Iterator[Finding]:
    """What a notebook needs, at versions that work."""
    needs = {
        "jupyterlab": ((4,), "pip install 'agentbook[lab]'"),
        "ipykernel": ((6, 30), "pip install -U ipykernel"),
        "ipywidgets": ((8, 1), "pip install -U ipywidgets"),
        "jupyterlab_widgets": ((3,), "pip install -U jupyterlab_widgets (without it widgets show as text)"),
        "altair": ((6,), "pip install 'agentbook[lab]' (charts need it)"),
        "vl-convert-python": ((1, 9), "pip install 'agentbook[lab]' (charts need it)"),
    }
    for name, (least, advice) in needs.items():
        version = _version(name)
        if version is None:
            yield Finding("note", name, "not installed", advice)
        elif _numbers(version) < least:
            yield Finding("wrong", name, f"{version} is too old (at least {'.'.join(map(str, least))})", advice)
        else:
            yield Finding("ok", name, version)


def kernel() -> Iterator[Finding]:
    """Whether the default kernel is this environment's."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        argv = KernelSpecManager().get_kernel_spec("python3").argv
    except NoSuchKernel:
        yield Finding(
            "wrong", "kernel", "there is no kernel named python3", "pip install ipykernel, in this environment"
        )
        return
    # A bare `python` is replaced by the server's own interpreter when the kernel is started.
    bare = not Path(argv[0]).is_absolute()
    if bare or Path(argv[0]).resolve() == Path(sys.executable).resolve():
        yield Finding("ok", "kernel", "python3 runs in this environment")
    else:
        advice = f"{sys.executable} -m ipykernel install --sys-prefix, or choose the right kernel in the notebook"
        yield Finding("wrong", "kernel", f"python3 runs in another environment: {argv[0]}", advice)


def loops() -> Iterator[Finding]:
    """nest-asyncio loses queued cells with recent kernels; its fork does not."""
    if _version("nest-asyncio") is not None and _numbers(_version("ipykernel") or "0") >= (7, 1):
        yield Finding(
            "note",
            "nest-asyncio",
            f"{_version('nest-asyncio')}: applying it loses queued cells with ipykernel 7.1 or newer",
            "agentbook does not need it; if something else does: pip install 'nest-asyncio2>=1.7.3'",
        )


def data() -> Iterator[Finding]:
    """The embedded service's directory, and whether it runs."""
    place = data_directory()
    nearest = next((path for path in (place, *place.parents) if path.exists()), place)
    if not os.access(nearest, os.W_OK):
        yield Finding("wrong", "data directory", f"{place} cannot be written", "Set AGENTBOOK_DATA to one that can.")
        return
    yield Finding("ok", "data directory", str(place))


def platform() -> Iterator[Finding]:
    """Which platform is configured, whether it answers, who we are there."""
    address = os.environ.get("AGENTBOOK_BASE_URL")
    key: ApiKey | None = None
    if address is None:
        running = find()
        if running is None:
            yield Finding("ok", "platform", "none configured; connect() starts the embedded service when it is needed")
            return
        yield Finding("ok", "platform", f"the embedded service answers at {running.base_url} (pid {running.pid})")
        address, key = running.base_url, read_key(running.data / KEY_FILE)
    else:
        yield Finding("ok", "platform", f"AGENTBOOK_BASE_URL is {address}")
        try:
            key = ApiKey(os.environ["AGENTBOOK_API_KEY"]) if "AGENTBOOK_API_KEY" in os.environ else None
        except ValueError as error:
            yield Finding("wrong", "AGENTBOOK_API_KEY", "it has not the right form", str(error))
            return
    yield from _proxies(address)
    try:
        client = Client(address, credentials=key, timeout_s=10, deadline_s=15)
    except ValueError as error:
        yield Finding("wrong", "AGENTBOOK_BASE_URL", address, str(error))
        return
    with client:
        yield from _answers(client)
        yield from _authorised(client, key)


def _answers(client: Client) -> Iterator[Finding]:
    try:
        title = client.openapi().get("info", {})
    except ConnectionFailed as error:
        yield Finding("wrong", "platform", "it does not answer", str(error))
        return
    except AgentbookError as error:
        yield Finding("wrong", "platform", "it answers, but not as an Agent Platform", str(error))
        return
    yield Finding("ok", "platform", f"it answers: {title.get('title', 'untitled')} {title.get('version', '')}".rstrip())
    skew_s = _skew_s(client)
    if skew_s is not None and abs(skew_s) > MOST_SKEW_S:
        advice = "Set this machine's clock: waiting out a rate limit relies on it."
        yield Finding(
            "wrong", "clock", f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the platform's", advice
        )


def _authorised(client: Client, key: ApiKey | None) -> Iterator[Finding]:
    if key is None:
        yield Finding(
            "note", "credential", "none: only public agents can be seen", "Set AGENTBOOK_API_KEY to `id:secret`."
        )
        return
    try:
        me = client.me.get()
    except Unauthorized as error:
        yield Finding(
            "wrong", "credential", f"{key!r} is refused: {error.message}", "Make a new key in the account's settings."
        )
        return
    except AgentbookError:
        return  # said already: it does not answer
    yield Finding("ok", "credential", f"{key!r} acts as {me.get('name') or me.get('id') or 'an account'}")
    account = me.get("name") or me.get("id")
    probes: list[tuple[str, Callable[[], object]]] = [("agents:read", lambda: client.agents.list(limit=1).first())]
    for scope, probe in (*probes, *_account_probes(client, account)):
        try:
            probe()
        except InsufficientScope as error:
            yield Finding(
                "note", "scope", f"the key lacks {error.missing_scope or scope}", "Make a key with it if you need it."
            )
        except ApiError:
            continue


def _account_probes(client: Client, account: object) -> Iterator[tuple[str, Callable[[], object]]]:
    if isinstance(account, str):
        yield "workspaces:read", lambda: client.workspaces.list(account, limit=1).first()
        yield "skills:read", lambda: client.skills.list(account, limit=1).first()
        yield "integrations:read", lambda: client.credentials.list(account, limit=1).first()


def _proxies(address: str) -> Iterator[Finding]:
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    proxy = getproxies().get(parts.scheme)
    if proxy and parts.hostname and not is_loopback(address) and not proxy_bypass(parts.hostname):
        yield Finding("note", "proxy", f"requests to {parts.hostname} go through a proxy, as the environment says")


def _skew_s(client: Client) -> float | None:
    """This clock minus the platform's, in seconds; None where the reply carries no date."""
    call = Call("doctor", "GET", "openapi.yaml", lambda reply: reply.headers.get("date"))
    try:
        date = client.run(call)
        return time.time() - parsedate_to_datetime(date).timestamp() if date else None
    except (AgentbookError, TypeError, ValueError):
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
