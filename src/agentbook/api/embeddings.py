"""The embeddings of texts by an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

from .errors import AgentbookError

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
            stored.update(zip(part, _request(f"{base_url.rstrip('/')}/embeddings", model, part), strict=True))
        return [stored[text] for text in texts]

    return embed


def _request(url: str, model: str, texts: Sequence[str]) -> list[Sequence[float]]:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps({"model": model, "input": list(texts)}).encode()
    if not url.startswith(("http://", "https://")):
        raise EmbeddingFailed(f"OPENAI_BASE_URL must begin with http:// or https://, not {url.partition(':')[0]}.")
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            items = json.load(response)["data"]
        vectors = [item["embedding"] for item in sorted(items, key=lambda item: item.get("index", 0))]
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        raise EmbeddingFailed(f"The embeddings of {model} could not be read from the endpoint: {reason}.") from None
    if len(vectors) != len(texts):
        raise EmbeddingFailed(f"The endpoint returned {len(vectors)} embeddings for {len(texts)} texts.")
    return vectors
