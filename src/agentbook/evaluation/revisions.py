"""The earlier texts of variants, with the replies to them.

When a variant is edited, its replies no longer match its text. They are kept as an
earlier revision, so that old and new replies can be compared, and they return if the
variant gets its old text again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .answers import Answer
from .variant import Variant


@dataclass(frozen=True, slots=True)
class Revision:
    """An earlier text of a variant.

    Attributes
    ----------
    variant : Variant
        As it was.
    answers : tuple of Answer
        The replies to it.
    """

    variant: Variant
    answers: tuple[Answer, ...]

    def as_data(self) -> dict[str, Any]:
        """The revision as plain data, ready for JSON."""
        return {"variant": self.variant.as_data(), "answers": [answer.as_data() for answer in self.answers]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Revision:
        """The revision that `as_data` wrote."""
        return cls(Variant.from_data(data["variant"]), tuple(map(Answer.from_data, data["answers"])))


class Revisions:
    """The earlier revisions of all variants."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Revision]] = {}

    def of(self, name: str) -> list[Revision]:
        """The earlier revisions of a variant, newest first."""
        return list(self._by_name.get(name, ()))

    @property
    def answers(self) -> Iterator[Answer]:
        """The answers of all revisions."""
        return (answer for revisions in list(self._by_name.values()) for each in revisions for answer in each.answers)

    def exchange(self, old: Variant, new: Variant, answers: Iterable[Answer]) -> list[Answer]:
        """Store the answers to `old`, and return those to `new`, if it had any.

        The revisions follow a new name. If only the name differs, the answers stay.
        """
        revisions = self._by_name.pop(old.name, [])
        current = list(answers)
        if not same_settings(old, new):
            if current:
                revisions.insert(0, Revision(old, tuple(current)))
            again = next((each for each in revisions if same_settings(each.variant, new)), None)
            current = list(again.answers) if again is not None else []
            revisions = [each for each in revisions if each is not again]
        if revisions:
            self._by_name[new.name] = revisions
        return current

    def copy(self) -> Revisions:
        """A copy; the revisions themselves do not change."""
        copy = Revisions()
        copy._by_name = {name: list(revisions) for name, revisions in list(self._by_name.items())}
        return copy

    def remove(self, name: str) -> None:
        """Forget the revisions of a variant."""
        self._by_name.pop(name, None)

    def as_data(self) -> dict[str, Any]:
        """The revisions as plain data, ready for JSON."""
        return {name: [each.as_data() for each in revisions] for name, revisions in self._by_name.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Revisions:
        """The revisions that `as_data` wrote."""
        revisions = cls()
        revisions._by_name = {name: [Revision.from_data(each) for each in stored] for name, stored in data.items()}
        return revisions


def same_settings(old: Variant, new: Variant) -> bool:
    """Whether two variants ask the same agent in the same way, whatever their names.

    Examples
    --------
    >>> same_settings(Variant("a", "Be kind."), Variant("b", "Be kind.", version="2"))
    True
    """
    return changed(old, name=new.name, version=new.version) == new


def changed(variant: Variant, **changes: Any) -> Variant:
    """The variant with other values of some attributes.

    Examples
    --------
    >>> changed(Variant("a", "Be kind.", model="small"), prompt="Be brief.")
    Variant('a', system_prompt='Be brief.', model='small')
    """
    if changes.get("prompt") is not None:
        changes.setdefault("system_prompt", None)
    return replace(variant, **{"prompt": None, **changes})


def copy_name(name: str, names: Iterable[str]) -> str:
    """A name for a copy that none of the others has.

    Examples
    --------
    >>> copy_name("brief", ["brief", "brief copy"])
    'brief copy 2'
    """
    taken, number = set(names), 2
    copy = f"{name} copy"
    while copy in taken:
        copy, number = f"{name} copy {number}", number + 1
    return copy
