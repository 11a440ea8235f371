"""The variants of an experiment, the answers to them, and their earlier revisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..api.calls import ref
from .answers import Answer, Key
from .revisions import Revision, Revisions, changed, copy_name
from .variant import Variant


class VariantSet:
    """Variants by name, in the order they were added, with the answers to them.

    Parameters
    ----------
    notify : callable
        Called after each change.

    Attributes
    ----------
    answered : dict of (str, str, int) to Answer
        By variant, input and repeat.
    earlier : Revisions
        The earlier texts of the variants, with the answers to them.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self.answered: dict[Key, Answer] = {}
        self.earlier = Revisions()
        self._variants: dict[str, Variant] = {}
        self._running: frozenset[str] = frozenset()  # variants that a run is asking
        self._notify = notify

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return MappingProxyType(self._variants)

    def variant(self, variant: str | Variant) -> Variant:
        """The variant with this name; a new `Variant` is added.

        Raises
        ------
        ValueError
            If there is no such name, or another variant has the name.
        """
        if isinstance(variant, Variant):
            return self.add_variant(variant)
        if variant not in self._variants:
            names = ", ".join(self._variants) or "none yet"
            raise ValueError(f"There is no variant {variant!r}; there are: {names}.")
        return self._variants[variant]

    def add_variant(
        self,
        name: str | Variant,
        system_prompt: str | None = None,
        *,
        description: str | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        platform_tools: Iterable[str] | None = None,
        mode: str | None = None,
        version: str | None = None,
        agent: Any = None,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        top_p: float | None = None,
        prompt: str | None = None,
    ) -> Variant:
        """Add a configuration to try out. Nothing is sent until a run or `apply`.

        Parameters
        ----------
        name : str or Variant
            Its label; or a complete `Variant`.
        system_prompt, description : str, optional
            Settings left out stay as the agent has them. Without any setting the
            variant is the agent as it is.
        tools : iterable of dict, optional
            Each ``{"integration": str, "tools": [str, ...]}``.
        platform_tools : iterable of str, optional
        mode : {"one-shot", "multi-turn"}, optional
        version : str, optional
            The version number to commit; by default the one after the agent's newest.
        agent : str or Record, optional
            Use another agent for this variant, so that it runs at the same time as the
            others.
        model : str, optional
            The language model, if the platform offers several (see `models`).
        temperature, top_p : float, optional
            Numbers from 0 to 2, and from 0 to 1.
        max_tokens : int, optional
            At most this many tokens in an answer.
        prompt : str, optional
            Short for `system_prompt`.

        Returns
        -------
        Variant

        Raises
        ------
        ValueError
            If a different variant has this name. The same one may be added again, so
            that a cell can be run again.
        """
        variant = name
        if not isinstance(variant, Variant):
            if platform_tools is not None and not isinstance(platform_tools, str):
                platform_tools = tuple(platform_tools)
            variant = Variant(
                variant, system_prompt, description, None if tools is None else tuple(tools), platform_tools, mode,
                version, None if agent is None else ref(agent), model, temperature, max_tokens, top_p, prompt=prompt,
            )  # fmt: skip
        existing = self._variants.setdefault(variant.name, variant)
        if existing != variant:
            raise ValueError(
                f"There is already a different variant {variant.name!r}. Choose another name, "
                f"or change it with lab.edit_variant({variant.name!r}, ...), which keeps its results as a revision."
            )
        if existing is variant:
            self._notify()
        return existing

    def edit_variant(self, variant: str | Variant, /, **changes: Any) -> Variant:
        """Change a variant, or rename it. Nothing is sent.

        The next run asks only the changed variant again. The replies to its earlier
        text are in `revisions`; they return if the variant gets that text again.

        Parameters
        ----------
        variant : str or Variant
        **changes
            Attributes of `Variant`; ``name="…"`` renames it and leaves its replies.

        Returns
        -------
        Variant
            The changed variant, at the same place among the variants.

        Raises
        ------
        ValueError
            If there is no such variant, another one has the new name, a run is asking
            it, or a value is invalid.
        TypeError
            If a variant has no such attribute.
        """
        old = self.variant(variant)
        if old.name in self._running:
            raise ValueError(f"A run is asking {old.name!r}: stop it, or wait for its end, and edit the variant then.")
        new = changed(old, **changes)
        if new.name != old.name and new.name in self._variants:
            raise ValueError(f"There is already a variant {new.name!r}. Choose another name.")
        answers = [self.answered.pop(key) for key in list(self.answered) if key[0] == old.name]
        for answer in self.earlier.exchange(old, new, answers):
            answer.variant = new.name
            self.answered[answer.key] = answer
        self._variants = {
            each.name: each for each in (new if each is old else each for each in self._variants.values())
        }
        self._notify()
        return new

    def duplicate_variant(self, variant: str | Variant, name: str | None = None) -> Variant:
        """Add a copy of a variant, to change it. It has no replies yet.

        Parameters
        ----------
        variant : str or Variant
        name : str, optional
            Of the copy. Default: the name followed by "copy".

        Returns
        -------
        Variant

        Raises
        ------
        ValueError
            If there is no such variant, or `name` is the name of another one.
        """
        original = self.variant(variant)
        return self.add_variant(changed(original, name=name or copy_name(original.name, self._variants)))

    def revisions(self, variant: str | Variant) -> list[Revision]:
        """The earlier texts of a variant with the replies to them, newest first.

        Parameters
        ----------
        variant : str or Variant

        Raises
        ------
        ValueError
            If there is no such variant.
        """
        return self.earlier.of(self.variant(variant).name)

    @contextmanager
    def reserve(self, variants: Iterable[str]) -> Iterator[None]:
        """Refuse changes to these variants meanwhile, because a run is asking them."""
        self._running = frozenset(variants)
        try:
            yield
        finally:
            self._running = frozenset()

    def remove_variant(self, name: str) -> None:
        """Remove a variant, its results and its earlier revisions.

        Parameters
        ----------
        name : str

        Raises
        ------
        ValueError
            If there is no variant of this name; the message lists the names.
        """
        del self._variants[self.variant(name).name]
        for key in [key for key in self.answered if key[0] == name]:  # in place: a run may be using them
            del self.answered[key]
        self.earlier.remove(name)
        self._notify()

    def assign(self, other: VariantSet) -> None:
        """Take over copies of what another set holds."""
        self._variants, self.earlier = dict(other._variants), other.earlier.copy()
        # Verdicts change in place.
        answers = dict(other.answered)
        self.answered = {key: replace(each, verdicts=dict(each.verdicts)) for key, each in answers.items()}
