"""Language models: which answer, which are busy, and that no key is shown."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook import doctor
from agentbook.doctor import language_model
from agentbook.service.engines.llm.endpoint import Endpoint
from support.fake_openai import FakeOpenAI, Scripted, hang, raw, refuse, text

from .kit import SECRET, problem, states

ABOUT = "language model"


def test_nothing_is_asked_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(ABOUT) == []
    monkeypatch.setenv("AGENTBOOK_LLM_MODEL", "llama3.2")
    problem(ABOUT, "OPENAI_BASE_URL", state="note")


def test_a_language_model_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openai" else find_spec(name))
    problem(ABOUT, "pip install 'openai")


def test_each_model_is_asked_for_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(body: Any) -> Scripted:
        return text("OK") if body["model"] == "small" else refuse(401, f"Incorrect API key: {SECRET}")

    with FakeOpenAI(respond=respond) as fake:
        entries = (f"small {fake.base_url}", f"large {fake.base_url} MY_KEY", f"third {fake.base_url} {SECRET}")
        monkeypatch.setenv("AGENTBOOK_LLM_MODELS", "; ".join(entries))
        monkeypatch.setenv("MY_KEY", SECRET)
        small, large, third = [finding for finding in doctor.examine() if finding.about == ABOUT]
    assert (small.state, large.state, third.state) == ("ok", "wrong", "wrong")
    assert "small" in small.message
    assert fake.base_url in small.message
    assert "MY_KEY" in large.message
    assert SECRET not in f"{small}{large}{third}"
    keys = {request.body["model"]: request.headers["authorization"] for request in fake.requests}
    assert keys == {"small": "Bearer no-key", "large": f"Bearer {SECRET}"}


def test_an_answer_is_enough_however_much_the_model_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for little, and a first word counts, even if no other one follows."""
    with FakeOpenAI(hang("Well")) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        assert states(ABOUT) == ["ok"]
        assert fake.bodies()[0]["max_tokens"] <= 100


def test_the_time_to_import_the_package_is_not_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    made = Endpoint.__init__

    def slowly(*args: Any) -> None:
        clock[0] += 90.0
        made(*args)

    monkeypatch.setattr(Endpoint, "__init__", slowly)
    monkeypatch.setattr(language_model, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with FakeOpenAI(text("OK")) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        [finding] = language_model.answers()
    assert "after 0.0 s" in finding.message


@pytest.mark.parametrize("answer", [hang(), refuse(429, code="rate_limit_exceeded")])
def test_a_busy_model_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch, answer: Scripted) -> None:
    with FakeOpenAI(answer) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("AGENTBOOK_LLM_TIMEOUT_S", "0.2")
        problem(ABOUT, state="note")


@pytest.mark.parametrize("answer", [refuse(429, code="insufficient_quota"), raw(b"<html>")])
def test_a_model_that_cannot_answer_is_called_wrong(monkeypatch: pytest.MonkeyPatch, answer: Scripted) -> None:
    with FakeOpenAI(answer) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        problem(ABOUT)
