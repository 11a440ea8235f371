"""The assert ``similar``: the cosine of two texts' embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..api.embeddings import EmbeddingFailed
from .check import Check
from .grade import CaseError, Grade, Reply, Services, Undecided

THRESHOLD = 0.75
_EPSILON = 2.0**-52


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
