"""Splits questions into words, stop words and stems."""

from __future__ import annotations

import re

# Words that do not name a subject.
STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are as at be because been before being but by can cannot could did do does doing
    done for from get gets getting give given go got had has have having help here how i if in into is it its just know let like
    make many may me mean means might more most much must my need no nor not now of off on once one only or other our out over
    own please same shall should so some something such tell than thank thanks that the their them then there these they thing
    this those to too up us use used using very want was way we well were what when where which while who whom whose why will
    with without work would you your try tried tries different difference differ happen happens happened possible
    anybody anyone everybody everyone somebody someone two three four five six seven eight nine ten several few both see
    """.split()  # noqa: SIM905 - a list of words reads better as words
)

# Numbers that can be a subject: the HTTP statuses of errors. Others only count things.
_STATUS = re.compile(r"[45]\d\d")
_WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s\b")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "es", "ed", "s")


def words(text: str) -> list[str]:
    """The words of `text` in lower case, in order; genitives lose their ending.

    Numbers count, punctuation does not.

    Examples
    --------
    >>> words("Is from_id *exclusive*, or not?")
    ['is', 'from_id', 'exclusive', 'or', 'not']
    """
    return _WORD.findall(_POSSESSIVE.sub("", text.lower()))


def keywords(text: str) -> list[str]:
    """The words that name a subject, without repetitions.

    Examples
    --------
    >>> keywords("What is the default page limit? The limit of a page!")
    ['default', 'page', 'limit']
    >>> keywords("Why do 2 of 3 requests get a 429?")
    ['requests', '429']
    """
    return list(dict.fromkeys(word for word in words(text) if _names_a_subject(word)))


def counts_only(word: str) -> bool:
    """Whether a word is a number that is not a subject, unlike an error's status."""
    return word.isdigit() and _STATUS.fullmatch(word) is None


def _names_a_subject(word: str) -> bool:
    return not counts_only(word) and len(word) > 1 and word not in STOP_WORDS


def stem(word: str) -> str:
    """`word` without its ending, so that ``refunds`` and ``refund`` are equal.

    Examples
    --------
    >>> stem("refunds"), stem("streaming"), stem("is")
    ('refund', 'stream', 'is')
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def keyword_stems(text: str) -> set[str]:
    """The stems of the keywords of `text`.

    Examples
    --------
    >>> sorted(keyword_stems("Do refunds of orders take long?"))
    ['long', 'order', 'refund', 'take']
    """
    return {stem(word) for word in keywords(text)}
