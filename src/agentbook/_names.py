"""Suggestions for misspelt names, as in "did you mean 'turns'?"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

CUTOFF = 0.65  # of difflib's ratio; its default of 0.6 takes "speed" for "answered"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most similar to `name`, or None if none is similar.

    Case matters, unless only a name in a different case is similar.

    Examples
    --------
    >>> nearest("turn", ["activity", "turns"])
    'turns'
    >>> nearest("speed", ["answered", "failed"]) is None
    True
    """
    names = list(names)
    if matches := get_close_matches(name, names, n=1, cutoff=CUTOFF):
        return matches[0]
    in_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower(), in_lower_case, n=1, cutoff=CUTOFF)
    return in_lower_case[matches[0]] if matches else None


def missing_attribute(module: str, name: str, names: Iterable[str], *, unlisted: Iterable[str] = ()) -> AttributeError:
    """The error for a public name that `module` does not have.

    It suggests the nearest name of `names` and `unlisted`, or else lists `names`.

    Examples
    --------
    >>> print(missing_attribute("agentbook", "turn", ["activity", "turns"]))
    agentbook has no attribute 'turn'; did you mean 'turns'?
    >>> print(missing_attribute("agentbook", "xyz", ["activity", "turns"]))
    agentbook has no attribute 'xyz'; it has: activity, turns.
    """
    names = list(names)
    match = nearest(name, [*names, *unlisted])
    hint = f"did you mean {match!r}?" if match else f"it has: {', '.join(names)}."
    # With `obj` set, even to None, Python does not add its own suggestion.
    return AttributeError(f"{module} has no attribute {name!r}; {hint}", name=name, obj=None)
