"""One request to the model's endpoint: streaming, retries, explained errors.

This is the only module that uses the `openai` package, which is imported by name at its
first use because it is an extra and takes half a second to load. Requests go only to
the operator's own endpoint: redirects are not followed.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from types import ModuleType
from typing import Any

from ..base import Failure
from .completion_stream import Completion
from .models import MODELS_VARIABLE, Settings

_CONNECT_TIMEOUT_S = 10.0
_MAX_RETRY_AFTER_S = 20.0
_RETRYABLE = frozenset({408, 409, 425, 429})
# OpenAI's newer models reject the first; most other servers know only the first.
_LIMIT, _NEWER_LIMIT = "max_tokens", "max_completion_tokens"
# The models that need the newer name, by URL and model, so that only one request fails.
_newer_limits: set[tuple[str, str]] = set()


# What servers call the most that a model can read.
_TOO_LONG = re.compile(r"context (?:size|length|window)|context.*too long", re.IGNORECASE)


@dataclass(eq=False, repr=False)
class EndpointError(Exception):
    """The endpoint gave no answer, or an incomplete one.

    Attributes
    ----------
    failure : Failure
        The failure that ends the turn.
    is_retryable : bool
        Whether the same request may succeed later.
    retry_after_s : float
        How long to wait before the next attempt, in seconds.
    unquoted : Failure or None
        The failure without the endpoint's own words, which may repeat the request; None
        if it has none.
    """

    failure: Failure
    _: KW_ONLY
    is_retryable: bool = False
    retry_after_s: float = 0.0
    unquoted: Failure | None = None

    def __post_init__(self) -> None:
        super().__init__(self.failure.message)


class Endpoint:
    """A connection to the endpoint.

    Parameters
    ----------
    settings
        Where the endpoint is.

    Raises
    ------
    ImportError
        The package `openai` is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._openai: ModuleType = importlib.import_module("openai")
        timeout = self._openai.Timeout(
            settings.read_timeout_s, connect=min(_CONNECT_TIMEOUT_S, settings.read_timeout_s)
        )
        self._client = self._openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key,
            timeout=timeout,
            max_retries=0,  # retried below, which knows whether text has been shown already
            http_client=self._openai.DefaultAsyncHttpxClient(
                timeout=timeout, follow_redirects=False, trust_env=not settings.is_local
            ),
        )
        self._create = self._client.chat.completions.create  # here, as the package imports more for it

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[str | Completion, None]:
        """Pieces of the text, then the `Completion`.

        Raises
        ------
        EndpointError
            The endpoint gave no answer, or an incomplete one. A request is not sent
            again once any text of its answer has been shown.
        """
        for delay_s in (*self._settings.retry_delays_s, None):
            completion = Completion()
            try:
                async with aclosing(self._pieces(body, completion)) as pieces:
                    async for piece in pieces:
                        yield piece
                yield completion
                return
            except EndpointError as error:
                if delay_s is None or completion.text or not error.is_retryable:
                    raise
                delay_s = max(delay_s, error.retry_after_s)
            await asyncio.sleep(delay_s)

    async def _open(self, body: Mapping[str, Any]) -> Any:
        """Send the request, and again with the limit's newer name if it is rejected."""
        model = self._settings.base_url, self._settings.model
        # As a further field: the package would look at each key of each of `messages`,
        # which takes 0.3 s for 500 messages.
        body = {**body, "messages": (), "extra_body": {"messages": body["messages"]}}
        renamed = {_NEWER_LIMIT if name == _LIMIT else name: value for name, value in body.items()}
        try:
            return await self._create(**(renamed if model in _newer_limits else body))
        except self._openai.BadRequestError as error:
            if _LIMIT not in body or model in _newer_limits or _NEWER_LIMIT not in str(error.message):
                raise
        stream = await self._create(**renamed)
        _newer_limits.add(model)
        return stream

    async def _pieces(self, body: Mapping[str, Any], completion: Completion) -> AsyncGenerator[str, None]:
        try:
            stream = await self._open(body)
            async with stream:
                async for chunk in stream:
                    # The package builds models without validating them.
                    piece = completion.add(chunk.to_dict(warnings=False) if hasattr(chunk, "to_dict") else chunk)
                    if piece:
                        yield piece
                    if completion.is_full:
                        break
        except Exception as error:
            # Not chained, because the package's exceptions may quote the request.
            raise self._explain(error) from None
        if completion.finish_reason is None and not completion.is_full:
            raise EndpointError(_bad_gateway("broke off its reply before the end"), is_retryable=True)

    def _explain(self, error: Exception) -> EndpointError:
        openai = self._openai
        if isinstance(error, openai.APITimeoutError):
            problem = f"said nothing for {self._settings.read_timeout_s:g} s"
            return EndpointError(_failure(504, "ModelTimeout", problem, "Try again, or raise AGENTBOOK_LLM_TIMEOUT_S."))
        if isinstance(error, openai.APIConnectionError):
            advice = f"Check that it runs and that {self._settings.url_variable} points to it"
            problem = "cannot be reached, or closed the connection"
            return EndpointError(_bad_gateway(problem, advice), is_retryable=True)
        if isinstance(error, openai.APIStatusError):
            return self._explain_status(error)
        if isinstance(error, openai.APIError):  # an error in the middle of the stream
            problem = f"broke off with an error: {self._settings.redact(str(error))}"
            bare = _bad_gateway("broke off with an error")
            return EndpointError(_bad_gateway(problem), is_retryable=True, unquoted=bare)
        if isinstance(error, ValueError | TypeError | LookupError | AttributeError | RecursionError):
            return EndpointError(_bad_gateway("sent a response that is not a stream of chat completion chunks"))
        # A transport error that the package did not wrap.
        return EndpointError(_bad_gateway("closed the connection in the middle of its reply"), is_retryable=True)

    def _explain_status(self, error: Any) -> EndpointError:
        status: int = error.status_code
        if status in (401, 403):
            # The endpoint's message is not quoted: it may repeat the key, or parts of
            # it.
            problem = f"refused the service's credentials ({status})"
            return EndpointError(_bad_gateway(problem, f"Check {self._settings.key_variable}."))
        if status == 404:
            problem = f"does not know the model {self._settings.model!r}, or has no chat completions (404)"
            advice = f"Set {MODELS_VARIABLE} or AGENTBOOK_LLM_MODEL, and {self._settings.url_variable}, to what it has."
            return EndpointError(_bad_gateway(problem, advice))
        if status == 429:
            if error.code == "insufficient_quota":
                problem = "has no quota left for this key (429)"
                return EndpointError(_failure(503, "ModelBusy", problem, "Check its plan."))
            failure = _failure(503, "ModelBusy", "has too many requests at the moment (429)", "Try again in a minute.")
            return EndpointError(failure, is_retryable=True, retry_after_s=_retry_after(error))
        if 300 <= status < 400:
            advice = f"Set {self._settings.url_variable} to where it really is."
            return EndpointError(_bad_gateway(f"redirects elsewhere ({status})", advice))
        is_too_long = error.code == "context_length_exceeded" or _TOO_LONG.search(str(error.message))
        advice = "Shorten the message, or start a new session, which has no earlier ones." if is_too_long else ""
        return EndpointError(
            _bad_gateway(f"answered {status}: {self._settings.redact(str(error.message))}", advice),
            is_retryable=status >= 500 or status in _RETRYABLE,
            retry_after_s=_retry_after(error),
            unquoted=_bad_gateway(f"answered {status}", advice),
        )


def _retry_after(error: Any) -> float:
    try:
        seconds = float(error.response.headers.get("retry-after", 0))
    except ValueError:
        return 0.0
    return min(seconds, _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else 0.0


def _failure(status: int, error: str, problem: str, advice: str) -> Failure:
    # Without a full stop, like the specification's messages: clients continue after it.
    return Failure(status, error, f"The language model's endpoint {problem.rstrip('.')}. {advice}".rstrip(" ."))


def _bad_gateway(problem: str, advice: str = "") -> Failure:
    return _failure(502, "ModelEndpointError", problem, advice)
