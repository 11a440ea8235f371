"""Checks of the language models of the embedded service: which answer, and how fast."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..service.engines.llm.endpoint import Endpoint, EndpointError
from ..service.engines.llm.engine import request_body
from ..service.engines.llm.models import models_from_environment
from ..service.engines.llm.settings import Settings, is_configured
from .finding import Finding

TIMEOUT_S = 30.0  # a local server may have to load the model first
_MODEL = "AGENTBOOK_LLM_MODEL"
_MESSAGE = {"role": "user", "content": "Answer with the word OK."}


def language_models() -> Iterator[Finding]:
    """Whether each configured language model answers, and how quickly.

    Asks each model for one word. Sends nothing if no model is configured.
    """
    if not is_configured(os.environ):
        if os.environ.get(_MODEL):
            message = f"{_MODEL} is set, but no endpoint: a rule-based stand-in answers"
            advice = "Set OPENAI_BASE_URL, such as http://127.0.0.1:11434/v1 for Ollama, then restart the service."
            yield Finding("note", "language model", message, advice)
        return
    if importlib.util.find_spec("openai") is None:
        message = "one is configured, but the package openai is missing: turns of LLM agents fail"
        yield Finding("wrong", "language model", message, "pip install 'agentbook[llm]', then restart the service.")
        return
    models = models_from_environment(os.environ).settings
    with ThreadPoolExecutor(len(models)) as threads:  # in a notebook, an event loop is already running
        findings = threads.map(lambda settings: asyncio.run(_ask(settings)), models)
    for number, finding in enumerate(findings):
        default = " (the default)" if number == 0 and len(models) > 1 else ""
        yield replace(finding, message=f"{models[number].model}{default} {finding.message}")


async def _ask(settings: Settings) -> Finding:
    """The finding about one model."""
    if settings.problem is not None:
        return _wrong(settings.problem)
    quick = replace(settings, retry_delays_s=(), read_timeout_s=min(TIMEOUT_S, settings.read_timeout_s))
    started_at, first_s = time.monotonic(), None
    try:
        async with asyncio.timeout(2 * TIMEOUT_S), Endpoint(quick) as endpoint:
            async for _ in endpoint.stream(request_body(settings.model, [_MESSAGE], {}, {}, may_call=True)):
                first_s = first_s or time.monotonic() - started_at
    except EndpointError as error:
        return _wrong(error.failure.message)
    except TimeoutError:
        return _wrong("started an answer, but did not finish it in time")
    total_s = time.monotonic() - started_at
    times = f"{first_s or total_s:.1f} s to the first sign, {total_s:.1f} s in all"
    return Finding("ok", "language model", f"at {settings.base_url} answers: {times}")


def _wrong(problem: str) -> Finding:
    advice = "Correct it, then restart the service, which reads these variables when it starts."
    return Finding("wrong", "language model", f"does not answer: {problem}", advice)
