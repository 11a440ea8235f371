"""Checks of the language models of the embedded service: which answer, and how fast."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace

from .._packages import install
from ..service.engines.llm.endpoint import Endpoint, EndpointError
from ..service.engines.llm.models import Settings, is_configured, models_from_environment
from . import Finding

TIMEOUT_S = 30.0  # a local server may have to load the model first
MAX_TOKENS = 16  # a model that thinks aloud stops here
_QUESTION = {"role": "user", "content": "Answer with the word OK."}


def answers() -> Iterator[Finding]:
    """Whether each configured language model answers, and how quickly.

    Asks each model for one word. Sends nothing if no model is configured.
    """
    if not is_configured(os.environ):
        if os.environ.get("AGENTBOOK_LLM_MODEL"):
            message = "AGENTBOOK_LLM_MODEL is set, but no endpoint: agents follow their prompts by rules"
            advice = "Set OPENAI_BASE_URL, such as http://127.0.0.1:11434/v1 for Ollama, then restart the service."
            yield Finding("note", "language model", message, advice)
        return
    if importlib.util.find_spec("openai") is None:
        message = "one is configured, but the package openai is missing: turns of LLM agents fail"
        yield Finding("wrong", "language model", message, f"{install('llm')}, then restart the service.")
        return
    models = models_from_environment(os.environ).settings
    with ThreadPoolExecutor(len(models)) as threads:  # in a notebook, an event loop is already running
        findings = threads.map(lambda settings: asyncio.run(_ask(settings)), models)
    for number, (settings, finding) in enumerate(zip(models, findings, strict=True)):
        default = " (the default)" if number == 0 and len(models) > 1 else ""
        yield replace(finding, message=f"{settings.model}{default} {finding.message}")


async def _ask(settings: Settings) -> Finding:
    """What one model does: it answers, is busy, or cannot answer."""
    advice = "Correct it, then restart the service, which reads these variables when it starts."
    busy = "It may be busy, or still be loading the model: try again in a minute."
    if settings.problem is not None:
        return Finding("wrong", "language model", f"does not answer: {settings.problem}", advice)
    body = {"model": settings.model, "messages": [_QUESTION], "stream": True, "max_tokens": MAX_TOKENS}
    once = replace(settings, retry_delays_s=())
    try:
        async with aclosing(Endpoint(once)) as endpoint:  # imports openai, which takes seconds of its own
            started_at = time.monotonic()
            async with asyncio.timeout(TIMEOUT_S), aclosing(endpoint.stream(body)) as answer:
                await anext(answer)
    except EndpointError as error:
        failure = error.failure
        if failure.status == 504 or (failure.error == "ModelBusy" and error.is_retryable):
            return Finding("note", "language model", f"does not answer now: {failure.message}", busy)
        return Finding("wrong", "language model", f"does not answer: {failure.message}", advice)
    except TimeoutError:
        return Finding("note", "language model", f"did not answer within {TIMEOUT_S:.0f} s", busy)
    return Finding(
        "ok", "language model", f"answers after {time.monotonic() - started_at:.1f} s at {settings.base_url}"
    )
