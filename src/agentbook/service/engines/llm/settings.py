"""Where the model is, according to the service's environment.

Users of the platform cannot point the service anywhere else.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import urlsplit

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"
MODELS_VARIABLE = "AGENTBOOK_LLM_MODELS"  # lists several models, see `models`
ONE_ENDPOINT = ("OPENAI_BASE_URL", "OPENAI_API_KEY")
# Local servers (Ollama, llama.cpp, vLLM) need no key, but the client always sends one.
NO_KEY = "no-key"
_MASK = "***"
# Possible secrets in an endpoint's error message: keys, bearer tokens, and user names
# and passwords in URLs.
_SECRETS = re.compile(r"\bsk-\S+|(?<=bearer )\S+|(?<=://)[^/@\s]+(?=@)", re.IGNORECASE)
_URL_QUERIES = re.compile(r"(?<=[\w/])\?\S*=\S*")
_MAX_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the model.

    Attributes
    ----------
    base_url : str
        The endpoint's URL without ``/chat/completions``. Holds no credentials.
    api_key : str
        Sent as a bearer token. Never shown: not in the repr, not in a pickle.
    model : str
        The endpoint's name for the model.
    read_timeout_s : float
        How long the endpoint may be silent, before or during an answer, in seconds.
    retry_delays_s : tuple of float
        The delay before each retry of a request that may succeed later, in seconds.
    problem : str or None
        What is wrong with the configuration; every turn then fails with this message.
    key_variable, url_variable : str
        The environment variables that hold the key and the URL, for messages.
    """

    base_url: str = DEFAULT_BASE_URL
    api_key: str = field(default=NO_KEY, repr=False)
    model: str = DEFAULT_MODEL
    read_timeout_s: float = 120.0
    retry_delays_s: tuple[float, ...] = (0.5, 2.0)
    problem: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    url_variable: str = "OPENAI_BASE_URL"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the settings of the language model hold a secret and cannot be pickled")

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine, so that no proxy may be used."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def redact(self, text: str) -> str:
        """An endpoint's text in a form that may be shown: one line, secrets masked.

        Examples
        --------
        >>> Settings(api_key="swordfish").redact("no such key: swordfish, nor sk-12")
        'no such key: ***, nor ***'
        """
        if len(self.api_key) > 3:
            text = text.replace(self.api_key, _MASK)
        # Truncated before it is searched: an endpoint may answer with megabytes that
        # are slow to search.
        line = " ".join(text.split())[: 10 * _MAX_QUOTED]
        line = _URL_QUERIES.sub("", _SECRETS.sub(_MASK, line))
        return line if len(line) <= _MAX_QUOTED else line[: _MAX_QUOTED - 1] + "…"


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether the environment names an endpoint, a key for one, or models."""
    return any(environment.get(name, "").strip() for name in (*ONE_ENDPOINT, MODELS_VARIABLE))


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The settings in environment variables; `Settings.problem` says what is wrong.

    Reads ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``, ``AGENTBOOK_LLM_MODEL`` and
    ``AGENTBOOK_LLM_TIMEOUT_S``.

    Examples
    --------
    >>> environment = {"OPENAI_API_KEY": "sk-1", "AGENTBOOK_LLM_MODEL": "llama3"}
    >>> from_environment(environment).model
    'llama3'
    >>> from_environment({"OPENAI_BASE_URL": "ollama"}).problem
    'OPENAI_BASE_URL must begin with http:// or https:// and name a host'
    """
    variables = {name: value.strip() for name, value in environment.items()}
    base_url = variables.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    key = variables.get("OPENAI_API_KEY") or NO_KEY
    model = variables.get("AGENTBOOK_LLM_MODEL") or DEFAULT_MODEL
    return checked(Settings(base_url, key, model, read_timeout(variables)))


def read_timeout(environment: Mapping[str, str]) -> float:
    """``AGENTBOOK_LLM_TIMEOUT_S`` in seconds; NaN if it is not a number."""
    try:
        return float(environment.get("AGENTBOOK_LLM_TIMEOUT_S", "").strip() or 120.0)
    except ValueError:
        return math.nan


def checked(settings: Settings) -> Settings:
    """The settings, without the key and address if something is wrong with them."""
    problem = _url_problem(settings)
    if not (math.isfinite(settings.read_timeout_s) and settings.read_timeout_s > 0):
        problem = "AGENTBOOK_LLM_TIMEOUT_S must be a number of seconds greater than 0"
    if not (settings.api_key.isascii() and settings.api_key.isprintable()):
        problem = f"{settings.key_variable} holds characters that cannot be sent in a header; copy it again"
    return settings if problem is None else Settings(model=settings.model, problem=problem)


def _url_problem(settings: Settings) -> str | None:
    url, variable = settings.base_url, settings.url_variable
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_complete = False
    if not is_complete:
        return f"{variable} must begin with http:// or https:// and name a host"
    # Clients log URLs, and a secret in the URL would be logged with it.
    if parts.username is not None or parts.query or parts.fragment:
        return (
            f"{variable} must not hold a user name, a password, a query or a fragment; set {settings.key_variable} "
            "instead"
        )
    return None
