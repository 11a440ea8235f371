"""Where the model is, read from the environment of the service: nobody who uses the platform can point it anywhere else."""

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
# Local servers (Ollama, llama.cpp, vLLM) take requests without a key, but the client insists on sending one.
_NO_KEY = "no-key"
_MASK = "***"
# What looks like a secret in somebody else's error message: keys, bearer tokens, and names and passwords in URLs.
_SECRETS = re.compile(r"\bsk-\S+|(?<=bearer )\S+|(?<=://)[^/@\s]+(?=@)", re.IGNORECASE)
_QUERIES = re.compile(r"(?<=[\w/])\?\S*=\S*")
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model is reached.

    Attributes
    ----------
    base_url : str
        Where the endpoint answers, up to and without ``/chat/completions``. Holds no credentials.
    api_key : str
        Sent as a bearer token. Never shown: not in the repr, not in a pickle.
    model : str
        The name the endpoint knows the model by.
    silence_s : float
        How long the endpoint may be silent, before an answer and within one, in seconds.
    retry_s : tuple of float
        The pauses before a request that may succeed later is sent again, in seconds; as many repeats as pauses.
    problem : str or None
        What is wrong with the configuration; every turn then fails with it.
    """

    base_url: str = DEFAULT_BASE_URL
    api_key: str = field(default=_NO_KEY, repr=False)
    model: str = DEFAULT_MODEL
    silence_s: float = 120.0
    retry_s: tuple[float, ...] = (0.5, 2.0)
    problem: str | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("the settings of the language model hold a secret and cannot be pickled")

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine, so that no proxy stands between."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def quoted(self, text: str) -> str:
        """`text` of the endpoint as it may be shown: one short line, with everything masked that looks like a secret.

        Examples
        --------
        >>> Settings(api_key="swordfish").quoted("no such key: swordfish, nor sk-12")
        'no such key: ***, nor ***'
        """
        if len(self.api_key) > 3:
            text = text.replace(self.api_key, _MASK)
        # Shortened before it is searched: an endpoint may answer with megabytes, made to be slow to search.
        line = " ".join(text.split())[: 10 * _QUOTED]
        line = _QUERIES.sub("", _SECRETS.sub(_MASK, line))
        return line if len(line) <= _QUOTED else line[: _QUOTED - 1] + "…"


def configured(environment: Mapping[str, str]) -> bool:
    """Whether the environment names an endpoint or a key for one."""
    return any(environment.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The settings that environment variables make; what is wrong with them is in `Settings.problem`.

    Read are ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``, ``AGENTBOOK_LLM_MODEL`` and ``AGENTBOOK_LLM_TIMEOUT_S``.

    Examples
    --------
    >>> from_environment({"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "AGENTBOOK_LLM_MODEL": "llama3"}).model
    'llama3'
    >>> from_environment({"OPENAI_BASE_URL": "ollama"}).problem
    'OPENAI_BASE_URL must begin with http:// or https:// and name a host'
    """
    said = {name: value.strip() for name, value in environment.items()}
    base_url = said.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    key = said.get("OPENAI_API_KEY") or _NO_KEY
    model = said.get("AGENTBOOK_LLM_MODEL") or DEFAULT_MODEL
    try:
        silence_s = float(said.get("AGENTBOOK_LLM_TIMEOUT_S") or 120.0)
    except ValueError:
        silence_s = 0.0
    problem = _wrong_url(base_url)
    if not (math.isfinite(silence_s) and silence_s > 0):
        problem = "AGENTBOOK_LLM_TIMEOUT_S must be a number of seconds greater than 0"
    if not (key.isascii() and key.isprintable()):
        problem = "OPENAI_API_KEY holds characters that cannot be sent in a header; copy it again"
    if problem is not None:
        return Settings(problem=problem)
    return Settings(base_url, key, model, silence_s)


def _wrong_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        return "OPENAI_BASE_URL must begin with http:// or https:// and name a host"
    # Clients write URLs into their logs; a secret in one would be there too.
    if parts.username is not None or parts.query or parts.fragment:
        return (
            "OPENAI_BASE_URL must not hold a user name, a password, a query or a fragment; set OPENAI_API_KEY instead"
        )
    return None
