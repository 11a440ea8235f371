"""The assert ``similar``: the cosine of two texts' embeddings."""

from __future__ import annotations

import json
import math
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from .check import Check
from .grade import CaseError, Grade, Reply, Services, Undecided

THRESHOLD = 0.75
MODEL = "text-embedding-3-large"
TIMEOUT_S = 60.0
_EPSILON = 2.0**-52

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class EmbeddingFailed(Exception):
    """The endpoint did not return a vector for each text."""


def similarity(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of a ``similar``; with several texts, the most similar counts.

    Examples
    --------
    >>> services = Services(embed=lambda texts: [[3.0, 4.0] for text in texts])
    >>> similarity(Check("similar"), "Hello", Reply("World"), services).score
    1.0
    """
    if not isinstance(value, str | list) or not value:
        raise CaseError(f"{check.type} needs a text or a list of texts, not {value!r}.")
    if services.embed is None:
        raise CaseError(
            f"{check.type} needs an endpoint for embeddings: set OPENAI_BASE_URL and OPENAI_API_KEY, and "
            "AGENTBOOK_EMBEDDING_MODEL for another model."
        )
    threshold = THRESHOLD if check.threshold is None else check.threshold
    texts = [value] if isinstance(value, str) else value
    try:
        reply_vector, *vectors = services.embed([reply.text, *map(str, texts)])
    except EmbeddingFailed as error:
        raise Undecided(str(error)) from error
    grades = [_compare(cosine(vector, reply_vector), threshold, check.negated) for vector in vectors]
    if check.negated:
        failed = next((grade for grade in grades if not grade.passed), None)
        return failed or min(grades, key=lambda grade: grade.points)
    passed = next((grade for grade in grades if grade.passed), None)
    return passed or max(grades, key=lambda grade: grade.points)


def _compare(cosine: float, threshold: float, negated: bool) -> Grade:
    passed = cosine <= threshold + _EPSILON if negated else cosine >= threshold - _EPSILON
    reason = f"similarity {cosine:.2f}, {'at most' if negated else 'at least'} {threshold:g} is needed"
    return Grade(passed, 1 - cosine if negated else cosine, "" if passed else reason)


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors.

    Raises
    ------
    CaseError
        If their lengths differ.
    """
    if len(vector) != len(other):
        raise CaseError(f"The vectors of two texts have {len(vector)} and {len(other)} numbers.")
    lengths = math.sqrt(sum(x * x for x in vector)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(vector, other, strict=True)) / lengths if lengths else 0.0


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
        if missing:
            stored.update(zip(missing, _request(f"{base_url.rstrip('/')}/embeddings", model, missing), strict=True))
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
