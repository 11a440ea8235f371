"""The embeddings of texts by an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ...api.auth import OAuthToken
from ...api.calls import Call, Reply
from ...api.connection import Connection
from ...api.errors import AgentbookError
from ...api.record import read_value

MODEL = "text-embedding-3-large"
TIMEOUT_S = 60.0
AT_ONCE = 100  # texts in one request

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class EmbeddingFailed(AgentbookError):
    """The endpoint did not return a vector for each text."""


def endpoint() -> Embed | None:
    """The embeddings of the endpoint in the environment; None if there is none.

    Notes
    -----
    Reads ``OPENAI_BASE_URL``, ``OPENAI_API_KEY`` and ``AGENTBOOK_EMBEDDING_MODEL``.
    """
    key = os.environ.get("OPENAI_API_KEY")
    base_url = os.environ.get("OPENAI_BASE_URL") or ("https://api.openai.com/v1" if key else None)
    if not base_url:
        return None
    model = os.environ.get("AGENTBOOK_EMBEDDING_MODEL") or MODEL
    stored: dict[str, Sequence[float]] = {}

    def embed(texts: Sequence[str]) -> list[Sequence[float]]:
        missing = [text for text in dict.fromkeys(texts) if text not in stored]
        for start in range(0, len(missing), AT_ONCE):
            part = missing[start : start + AT_ONCE]
            stored.update(zip(part, _request(base_url, model, part), strict=True))
        return [stored[text] for text in texts]

    return embed


def _items(reply: Reply) -> list[Any]:
    items: list[Any] = read_value(reply.body)["data"]
    return items


def _request(base_url: str, model: str, texts: Sequence[str]) -> list[Sequence[float]]:
    key = os.environ.get("OPENAI_API_KEY")
    body = {"model": model, "input": list(texts)}
    call = Call("embeddings", "POST", "embeddings", _items, body=body, wait_for_rate_limit=False)
    try:
        token = OAuthToken(key) if key else None
        with Connection(base_url, credentials=token, timeout_s=TIMEOUT_S, allow_http=True) as connection:
            items = connection._run(call)
        vectors: list[Sequence[float]] = [
            item["embedding"] for item in sorted(items, key=lambda item: item.get("index", 0))
        ]
    except (AgentbookError, AttributeError, ValueError, LookupError, TypeError) as error:
        status = getattr(error, "status", None)
        reason = f"HTTP {status}" if status else str(error) if type(error) is ValueError else type(error).__name__
        raise EmbeddingFailed(f"The embeddings of {model} could not be read from OPENAI_BASE_URL: {reason}") from None
    if len(vectors) != len(texts):
        raise EmbeddingFailed(f"The endpoint returned {len(vectors)} embeddings for {len(texts)} texts.")
    return vectors
