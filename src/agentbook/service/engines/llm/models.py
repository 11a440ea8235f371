"""The language models of a service: several, each with its endpoint and key.

``AGENTBOOK_LLM_MODELS`` lists them, separated by semicolons or line breaks. Each entry
has the model's name, then its URL (unless it is at the endpoint of
``OPENAI_BASE_URL``), then the name of the variable that holds the key, if it needs
one::

    gpt-4o-mini https://api.openai.com/v1 OPENAI_API_KEY; llama3.2 http://127.0.0.1:11434/v1

So the list contains no secrets. The first entry is the default, unless
``AGENTBOOK_LLM_MODEL`` names another one. Users of the platform cannot point the
service anywhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from ...proxies import is_loopback

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"
MODELS_VARIABLE = "AGENTBOOK_LLM_MODELS"
ONE_ENDPOINT = ("OPENAI_BASE_URL", "OPENAI_API_KEY")
# Local servers (Ollama, llama.cpp, vLLM) need no key, but the client always sends one.
NO_KEY = "no-key"
_MASK = "***"
# Possible secrets in an endpoint's error message: keys, bearer tokens, and user names
# and passwords in URLs.
_SECRETS = re.compile(r"\bsk-\S+|(?<=bearer )\S+|(?<=://)[^/@\s]+(?=@)", re.IGNORECASE)
_URL_QUERIES = re.compile(r"(?<=[\w/])\?\S*=\S*")
_MAX_QUOTED = 300
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "as in `llama3.2 http://127.0.0.1:11434/v1; gpt-4o-mini https://api.openai.com/v1 OPENAI_API_KEY`"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the model.

    Attributes
    ----------
    base_url : str
        The endpoint's URL without ``/chat/completions``. Holds no credentials.
    api_key : str
        Sent as a bearer token. Not in the repr.
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

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine, so that no proxy may be used."""
        host = urlsplit(self.base_url).hostname or ""
        return is_loopback(host) or host == "localhost" or host.endswith(".localhost")

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


def _timeout_s(variables: Mapping[str, str]) -> float:
    """``AGENTBOOK_LLM_TIMEOUT_S``; NaN if it is not a number."""
    try:
        return float(variables.get("AGENTBOOK_LLM_TIMEOUT_S") or 120.0)
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


@dataclass(frozen=True, slots=True)
class Models:
    """The language models that agents may run on, the default first.

    Examples
    --------
    >>> listed = "small http://127.0.0.1:1/v1; large https://h/v1 KEY"
    >>> environment = {"AGENTBOOK_LLM_MODELS": listed, "KEY": "sk-1"}
    >>> models = models_from_environment(environment)
    >>> models.names, models.find("large").base_url
    (('small', 'large'), 'https://h/v1')
    >>> models.find(None).model
    'small'
    >>> models.find("huge").problem
    "the model 'huge' is not one of this service's: small, large"
    """

    settings: tuple[Settings, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the models, the default first."""
        return tuple(each.model for each in self.settings)

    def find(self, name: str | None) -> Settings:
        """How to reach a model, or why that is impossible; None is the default."""
        if name is None and self.settings:
            return self.settings[0]
        names = ", ".join(self.names) or "none"
        unknown = Settings(problem=f"the model {name!r} is not one of this service's: {names}")
        return next((each for each in self.settings if each.model == name), unknown)


def models_from_environment(environment: Mapping[str, str]) -> Models:
    """The models that environment variables name; none if there is no endpoint.

    Reads ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``, ``AGENTBOOK_LLM_MODEL``,
    ``AGENTBOOK_LLM_MODELS`` and ``AGENTBOOK_LLM_TIMEOUT_S``. An entry with a mistake
    still counts as a model; its `Settings.problem` says what is wrong.

    Examples
    --------
    >>> environment = {"OPENAI_API_KEY": "sk-1", "AGENTBOOK_LLM_MODEL": "llama3"}
    >>> models_from_environment(environment).names
    ('llama3',)
    >>> models_from_environment({"OPENAI_BASE_URL": "ollama"}).find(None).problem
    'OPENAI_BASE_URL must begin with http:// or https:// and name a host'
    """
    if not is_configured(environment):
        return Models()
    variables = {name: value.strip() for name, value in environment.items()}
    base_url = variables.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    key = variables.get("OPENAI_API_KEY") or NO_KEY
    preferred = variables.get("AGENTBOOK_LLM_MODEL")
    single = checked(Settings(base_url, key, preferred or DEFAULT_MODEL, _timeout_s(variables)))
    listed: dict[str, Settings] = {}
    for entry in re.split(r"[;\n]", variables.get(MODELS_VARIABLE, "")):
        if words := entry.split():
            listed.setdefault(words[0], _read_entry(words, variables, single))
    has_endpoint = any(variables.get(name) for name in ONE_ENDPOINT)
    if not listed or (preferred and preferred not in listed and has_endpoint):
        listed[single.model] = single
    first = preferred if preferred in listed else next(iter(listed))
    return Models((listed.pop(first), *listed.values()))


def _read_entry(words: list[str], variables: Mapping[str, str], single: Settings) -> Settings:
    name, *rest = words
    if not rest:
        return replace(single, model=name)
    # Neither word is quoted, because someone may have put the key itself there.
    url_variable = f"the URL of {name} in {MODELS_VARIABLE}"
    if len(rest) > 2 or (len(rest) == 2 and not _VARIABLE.fullmatch(rest[1])):
        return Settings(
            model=name, problem=f"{MODELS_VARIABLE}: after {name} come a URL and the name of a variable, {_EXAMPLE}"
        )
    key = variables.get(rest[1]) if len(rest) == 2 else NO_KEY
    if not key:
        return Settings(
            model=name, problem=f"{MODELS_VARIABLE}: the variable that is to hold the key of {name} is not set"
        )
    variable = rest[1] if len(rest) == 2 else f"a variable for the key in {MODELS_VARIABLE}"
    timeout_s = _timeout_s(variables)
    return checked(Settings(rest[0], key, name, timeout_s, key_variable=variable, url_variable=url_variable))
