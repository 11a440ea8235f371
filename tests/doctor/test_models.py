"""Language models: which answer, and that no key is shown."""

from __future__ import annotations

import pytest

from agentbook.doctor import models
from support.fake_openai import FakeOpenAI, refuse, text

from .kit import SECRET

pytestmark = pytest.mark.dependencies


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_asked_without_a_model() -> None:
    assert list(models.language_models()) == []


def test_a_model_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_LLM_MODEL", "llama3.2")
    [finding] = models.language_models()
    assert (finding.state, finding.about) == ("note", "language model")
    assert "Set OPENAI_BASE_URL" in finding.advice


def test_a_language_model_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None if name == "openai" else object())
    [finding] = models.language_models()
    assert (finding.state, finding.about) == ("wrong", "language model")
    assert "agentbook[llm]" in finding.advice


def test_each_model_is_asked_for_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(body: object) -> object:
        return text("OK") if body["model"] == "small" else refuse(401, f"Incorrect API key: {SECRET}")  # type: ignore[index]

    with FakeOpenAI(respond=respond) as fake:  # type: ignore[arg-type]
        entries = (f"small {fake.base_url}", f"large {fake.base_url} MY_KEY", f"third {fake.base_url} {SECRET}")
        monkeypatch.setenv("AGENTBOOK_LLM_MODELS", "; ".join(entries))
        monkeypatch.setenv("MY_KEY", SECRET)
        small, large, third = models.language_models()
    assert (small.state, large.state, third.state) == ("ok", "wrong", "wrong")
    assert small.message.startswith(f"small (the default) at {fake.base_url} answers: ")
    assert "Check MY_KEY" in large.message
    assert "comes" in third.message or "come a URL" in third.message
    assert SECRET not in f"{small}{large}{third}"
    keys = {request.body["model"]: request.headers["authorization"] for request in fake.requests}
    assert keys == {"small": "Bearer no-key", "large": f"Bearer {SECRET}"}
