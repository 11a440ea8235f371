"""`ab.checks`: checks of length, latency, cost, similarity, and by a judge.

They can be used wherever a check can, as in
``lab.check({"short": ab.checks.length(max=80)})``. Texts, patterns, JSON schemas and
functions are checks themselves.
"""

from __future__ import annotations

from typing import Any

from . import judge, similarity
from .criteria import Cost, Latency, Length, Overlap, Rubric, Similar

__all__ = ["cost", "latency", "length", "overlap", "rubric", "similar"]


def length(*, max: int | None = None, min: int | None = None, unit: str = "words") -> Length:
    """A check that the reply is neither too short nor too long.

    Parameters
    ----------
    max, min : int, optional
        The most and the fewest words or characters.
    unit : {"words", "characters"}

    Returns
    -------
    Length

    Raises
    ------
    ValueError
        If there is no limit, or the unit is a different one.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.length(max=80).name
    'at most 80 words'
    """
    return Length(max, min, unit)


def latency(max_s: float) -> Latency:
    """A check that the reply arrives within a time limit.

    Parameters
    ----------
    max_s : float
        Seconds from sending the question to the reply.

    Returns
    -------
    Latency

    Raises
    ------
    ValueError
        If it is not greater than 0.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.latency(2.5).name
    'within 2.5 s'
    """
    return Latency(max_s)


def cost(max: float) -> Cost:
    """A check that the reply does not cost too much.

    Parameters
    ----------
    max : float
        A reply may cost at most this much, in the currency of ``prices=``. Without a
        price or tokens, the check is undecided.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If it is below 0.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.cost(0.01).name
    'costs at most 0.01'
    """
    return Cost(max)


def overlap(expected: str, *, threshold: float = 0.5) -> Overlap:
    """A check that the reply shares words with an expected answer. Needs no model.

    The score is the F1 measure of the words in common, ignoring case and order.

    Parameters
    ----------
    expected : str
        A template: ``"{{expected}}"`` takes the column `expected` of the inputs.
    threshold : float
        The minimum score to pass, from 0 to 1.

    Returns
    -------
    Overlap

    Raises
    ------
    ValueError
        If the text is empty: nothing could share a word with it.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.overlap("Your key is in Settings").name
    'shares words with Your key is in Settings'
    """
    return Overlap(expected, threshold)


def similar(expected: str, *, threshold: float = similarity.THRESHOLD) -> Similar:
    """A check that the reply means much the same as an expected answer.

    The score is the cosine of their embeddings, which come from the OpenAI-compatible
    endpoint in ``OPENAI_BASE_URL``; `overlap` needs no endpoint.

    Parameters
    ----------
    expected : str
        A template: ``"{{expected}}"`` takes the column `expected` of the inputs.
    threshold : float
        The minimum score to pass, from 0 to 1.

    Returns
    -------
    Similar

    Raises
    ------
    ValueError
        If the text is empty.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.similar("In the settings.", threshold=0.8).name
    'similar to In the settings.'
    """
    return Similar(expected, threshold)


def rubric(text: str, agent: Any, *, threshold: float | None = None, prompt: str = judge.PROMPT) -> Rubric:
    """A check by a judge: an agent is asked whether the reply meets a criterion.

    Judges prefer long replies and those of their own family: calibrate one against
    thumbs with ``lab.judge.calibration`` before you trust it. If the judgement does not
    say whether the reply passes, the reply fails.

    Parameters
    ----------
    text : str
        The criterion, in one sentence: "It names a source." A template.
    agent : str or Record
        The agent that judges: id or name.
    threshold : float, optional
        A minimum score from 0 to 1 that the judge must also give.
    prompt : str
        Prompt of the judge, with ``{{ output }}`` and ``{{ rubric }}``.

    Returns
    -------
    Rubric

    Raises
    ------
    ValueError
        If the criterion is empty.

    Notes
    -----
    Not part of the specification.

    Examples
    --------
    >>> ab.checks.rubric("It greets.", agent="acme~judge").prompt_version
    '...'
    """
    return Rubric(text, agent, threshold, prompt)
