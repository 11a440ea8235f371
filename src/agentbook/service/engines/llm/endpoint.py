"""One request to the model's endpoint: sent, streamed, tried again where that may help, and every error put in plain words.

The only place that touches the `openai` package. It is loaded by name when first needed, because it is an extra and takes half a
second to load. Nothing but the operator's own endpoint is ever asked: redirects are not followed.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import ModuleType, TracebackType
from typing import Any

from ..base import Failure
from .chunks import Answer, Gathering
from .settings import Settings

_DRAFT_EVERY_S = 0.05  # a reader sees no difference, and a fast model does not flood every socket
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 20.0
_MAY_PASS = frozenset({408, 409, 425, 429})


class EndpointError(Exception):
    """The endpoint gave no answer. `failure` is what people are told; `pause_s` how long to wait if it may pass by itself."""

    def __init__(self, failure: Failure, *, may_pass: bool = False, pause_s: float = 0.0) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.may_pass = may_pass
        self.pause_s = pause_s


class Endpoint:
    """A connection to the endpoint; an async context manager.

    Parameters
    ----------
    settings
        Where it is.

    Raises
    ------
    ImportError
        The package `openai` is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._openai: ModuleType = importlib.import_module("openai")
        timeout = self._openai.Timeout(settings.silence_s, connect=min(_CONNECT_S, settings.silence_s))
        self._client = self._openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key,
            timeout=timeout,
            max_retries=0,  # tried again below, where it is known whether text was already shown
            http_client=self._openai.DefaultAsyncHttpxClient(
                timeout=timeout, follow_redirects=False, trust_env=not settings.is_local
            ),
        )

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ask(self, body: Mapping[str, Any]) -> AsyncGenerator[str | Answer, None]:
        """The pieces of the answer's text as they come, at most twenty a second, and then the `Answer`.

        Raises
        ------
        EndpointError
            There is no answer, or not the whole of it. A request whose answer had begun to show is not sent again.
        """
        for pause_s in (*self._settings.retry_s, None):
            gathering = Gathering()
            try:
                async with aclosing(_paced(self._pieces(body, gathering))) as pieces:
                    async for piece in pieces:
                        yield piece
                yield gathering.answer()
                return
            except EndpointError as error:
                if pause_s is None or gathering.has_text or not error.may_pass:
                    raise
                wait_s = max(pause_s, error.pause_s)
            await asyncio.sleep(wait_s)

    async def _pieces(self, body: Mapping[str, Any], gathering: Gathering) -> AsyncGenerator[str, None]:
        try:
            stream = await self._client.chat.completions.create(**body)
            async with stream:
                async for chunk in stream:
                    piece = gathering.feed(_plain(chunk))
                    if piece:
                        yield piece
                    if gathering.is_full:
                        break
        except Exception as error:
            # Not chained: what the package raises may quote the request.
            raise self._understood(error) from None
        if gathering.finish is None and not gathering.is_full:
            raise EndpointError(_broken("broke off its answer before the end"), may_pass=True)

    def _understood(self, error: Exception) -> EndpointError:
        openai = self._openai
        if isinstance(error, openai.APITimeoutError):
            waited = f"said nothing for {self._settings.silence_s:g} s"
            return EndpointError(_failed(504, "ModelTimeout", waited, "Try again, or raise AGENTBOOK_LLM_TIMEOUT_S."))
        if isinstance(error, openai.APIConnectionError):
            advice = "Check that it runs and that OPENAI_BASE_URL points to it"
            return EndpointError(_broken("cannot be reached, or closed the connection", advice), may_pass=True)
        if isinstance(error, openai.APIStatusError):
            return self._refused(error)
        if isinstance(error, openai.APIError):  # an error in the middle of the stream
            return EndpointError(
                _broken(f"broke off with an error: {self._settings.quoted(str(error))}"), may_pass=True
            )
        if isinstance(error, ValueError | TypeError | LookupError | AttributeError | RecursionError):
            return EndpointError(_broken("sent an answer that is not a stream of chat completion chunks"))
        # The transport's own errors, where the package lets them through.
        return EndpointError(_broken("closed the connection within its answer"), may_pass=True)

    def _refused(self, error: Any) -> EndpointError:
        status: int = error.status_code
        said = self._settings.quoted(str(error.message))
        if status in (401, 403):
            # Not quoted: these answers repeat the key, or parts of it.
            return EndpointError(_broken(f"refused the service's credentials ({status})", "Check OPENAI_API_KEY."))
        if status == 404:
            named = f"does not know the model {self._settings.model!r}, or has no chat completions (404)"
            return EndpointError(_broken(named, "Set AGENTBOOK_LLM_MODEL and OPENAI_BASE_URL to what it has."))
        if status == 429:
            spent = error.code == "insufficient_quota"
            told = "has no quota left for this key (429)" if spent else "has too many requests at the moment (429)"
            failure = _failed(503, "ModelBusy", told, "Check its plan." if spent else "Try again in a minute.")
            return EndpointError(failure, may_pass=not spent, pause_s=_retry_after(error))
        if 300 <= status < 400:
            return EndpointError(
                _broken(f"redirects elsewhere ({status})", "Set OPENAI_BASE_URL to where it really is.")
            )
        may_pass = status >= 500 or status in _MAY_PASS
        return EndpointError(_broken(f"answered {status}: {said}"), may_pass=may_pass, pause_s=_retry_after(error))


def _plain(chunk: Any) -> Any:
    """A chunk as the JSON it was: the package builds its models without checking them."""
    return chunk.to_dict(warnings=False) if hasattr(chunk, "to_dict") else chunk


def _retry_after(error: Any) -> float:
    try:
        seconds = float(error.response.headers.get("retry-after", 0))
    except ValueError:
        return 0.0
    return min(seconds, _LONGEST_PAUSE_S) if math.isfinite(seconds) else 0.0


def _failed(status: int, name: str, what: str, advice: str) -> Failure:
    # Like the specification's own messages without a full stop, since clients go on after it.
    return Failure(status, name, f"The language model's endpoint {what}. {advice}".rstrip(" ."))


def _broken(what: str, advice: str = "") -> Failure:
    return _failed(502, "ModelEndpointError", what, advice)


async def _paced(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """`pieces`, those of a twentieth of a second in one. The first comes at once; closing this ends them."""
    come: list[str] = []
    news = asyncio.Event()

    async def fill() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                come.append(piece)
                news.set()

    filling = asyncio.create_task(fill())
    filling.add_done_callback(lambda _: news.set())
    try:
        while come or not filling.done():
            await news.wait()
            news.clear()
            text = "".join(come)
            come.clear()
            if text:
                yield text
            await asyncio.wait({filling}, timeout=_DRAFT_EVERY_S)
        await filling
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
