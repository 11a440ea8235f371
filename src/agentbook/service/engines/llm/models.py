"""The language models of a service: several, each with its endpoint and key.

``AGENTBOOK_LLM_MODELS`` lists them, separated by semicolons or line breaks. Each entry
has the model's name, then its URL (unless it is at the endpoint of
``OPENAI_BASE_URL``), then the name of the variable that holds the key, if it needs
one::

    gpt-4o-mini https://api.openai.com/v1 OPENAI_API_KEY; llama3.2 http://127.0.0.1:11434/v1

So the list contains no secrets. The first entry is the default, unless
``AGENTBOOK_LLM_MODEL`` names another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .settings import (
    MODELS_VARIABLE,
    NO_KEY,
    ONE_ENDPOINT,
    Settings,
    checked,
    from_environment,
    is_configured,
    read_timeout,
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "as in `llama3.2 http://127.0.0.1:11434/v1; gpt-4o-mini https://api.openai.com/v1 OPENAI_API_KEY`"


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

    An entry with a mistake still counts as a model; its `Settings.problem` says what is
    wrong.
    """
    if not is_configured(environment):
        return Models()
    single = from_environment(environment)
    listed: dict[str, Settings] = {}
    for settings in _entries(environment, single):
        listed.setdefault(settings.model, settings)
    preferred = environment.get("AGENTBOOK_LLM_MODEL", "").strip()
    has_endpoint = any(environment.get(name, "").strip() for name in ONE_ENDPOINT)
    if not listed or (preferred and preferred not in listed and has_endpoint):
        listed[single.model] = single
    first = preferred if preferred in listed else next(iter(listed))
    return Models((listed.pop(first), *listed.values()))


def _entries(environment: Mapping[str, str], single: Settings) -> Iterator[Settings]:
    for entry in re.split(r"[;\n]", environment.get(MODELS_VARIABLE, "")):
        if words := entry.split():
            yield _read_entry(words, environment, single)


def _read_entry(words: list[str], environment: Mapping[str, str], single: Settings) -> Settings:
    name, *rest = words
    if not rest:
        return _renamed(single, name)
    # Neither word is quoted, because someone may have put the key itself there.
    url_variable = f"the URL of {name} in {MODELS_VARIABLE}"
    if len(rest) > 2 or (len(rest) == 2 and not _VARIABLE.fullmatch(rest[1])):
        return Settings(
            model=name, problem=f"{MODELS_VARIABLE}: after {name} come a URL and the name of a variable, {_EXAMPLE}"
        )
    key = environment.get(rest[1], "").strip() if len(rest) == 2 else NO_KEY
    if not key:
        return Settings(
            model=name, problem=f"{MODELS_VARIABLE}: the variable that is to hold the key of {name} is not set"
        )
    variable = rest[1] if len(rest) == 2 else f"a variable for the key in {MODELS_VARIABLE}"
    timeout_s = read_timeout(environment)
    return checked(Settings(rest[0], key, name, timeout_s, key_variable=variable, url_variable=url_variable))


def _renamed(settings: Settings, name: str) -> Settings:
    return Settings(settings.base_url, settings.api_key, name, settings.read_timeout_s, problem=settings.problem)
