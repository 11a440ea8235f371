from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents import AGENTS
from agentbook.service.demo.agents.scribe import Scribe
from agentbook.service.engines.base import Failure
from agentbook.service.engines.llm.engine import LlmEngine
from agentbook.service.engines.llm.models import Models
from agentbook.service.engines.llm.settings import (
    DEFAULT_BASE_URL,
    DEFAULT_MODEL,
    Settings,
    from_environment,
    is_configured,
)
from agentbook.service.engines.registry import load_engine
from service.engines.engine_runs import run

KEY = "sk-swordfish-0123456789"


def test_settings_from_the_environment() -> None:
    assert from_environment({"OPENAI_API_KEY": f" {KEY}\n"}) == Settings(DEFAULT_BASE_URL, KEY, DEFAULT_MODEL)
    environment = {
        "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1",
        "AGENTBOOK_LLM_MODEL": "llama3",
        "AGENTBOOK_LLM_TIMEOUT_S": "7.5",
    }
    settings = from_environment(environment)
    assert (settings.base_url, settings.model, settings.read_timeout_s) == ("http://127.0.0.1:11434/v1", "llama3", 7.5)
    assert settings.problem is None
    assert settings.api_key, "the client does not start without one"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", "ollama"),
        ("OPENAI_BASE_URL", "file:///etc/passwd"),
        ("OPENAI_BASE_URL", "http://"),
        ("OPENAI_BASE_URL", "http://[::1"),
        ("OPENAI_BASE_URL", "http://host:99999/v1"),
        ("OPENAI_BASE_URL", "https://user:hunter2@host/v1"),
        ("OPENAI_BASE_URL", "https://host/v1?api-key=hunter2"),
        ("OPENAI_BASE_URL", "https://host/v1#hunter2"),
        ("OPENAI_API_KEY", "hunter2\nX-Evil: 1"),
        ("OPENAI_API_KEY", "hunter2é"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "soon"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "-1"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "nan"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "inf"),
    ],
)
def test_a_wrong_setting_fails_every_turn_and_names_the_variable(name: str, value: str) -> None:
    settings = from_environment({"OPENAI_API_KEY": KEY, name: value})
    [failure] = run(LlmEngine(Models((settings,))), "Hello")
    assert isinstance(failure, Failure)
    assert (failure.status, failure.error) == (500, "ModelNotConfigured")
    assert name in failure.message
    assert "hunter2" not in failure.message + repr(settings)


def test_the_engine_follows_prompts_by_rules_unless_an_endpoint_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert load_engine("llm", AGENTS) == Scribe(stands_in=True)
    monkeypatch.setenv("OPENAI_API_KEY", "  ")
    assert load_engine("llm", AGENTS) == Scribe(stands_in=True)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert load_engine("llm", AGENTS) == LlmEngine(Models((Settings(api_key=KEY),)))
    assert is_configured({"OPENAI_BASE_URL": "http://127.0.0.1:1"})


def test_the_key_is_never_shown() -> None:
    settings = Settings(api_key=KEY)
    assert KEY not in repr(settings) + str(settings) + repr(LlmEngine(Models((settings,))))
    for act in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            act(settings)
        assert KEY not in str(caught.value)


@given(st.text(max_size=500), st.text(max_size=500))
def test_redact_masks_the_key_anywhere(before: str, after: str) -> None:
    shown = Settings(api_key="swordfish").redact(f"{before}swordfish{after}")
    assert "swordfish" not in shown
    assert len(shown) <= 300
    assert "\n" not in shown


def test_redact_masks_what_looks_like_a_secret() -> None:
    text = "key sk-abc***xyz, Bearer t0k3n, at https://me:pw@host/v1/x?sig=s3cret failed"
    assert Settings().redact(text) == "key *** Bearer *** at https://***@host/v1/x failed"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost/v1", True),
        ("https://host/v1", False),
        ("http://127.0.0.1.evil.example/v1", False),
    ],
)
def test_whether_the_endpoint_is_on_this_machine(url: str, local: bool) -> None:
    assert Settings(base_url=url).is_local is local
