"""Reads the asserts of an evaluation file, and the judge that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..asserts import require_valid
from ..check import SET, TURN, Check, is_promptfoos
from ..check import refusal as refusal_of_kind
from ..code_assert import code_file, refusal
from .source import KeyPath, Source, quoted

AGENT = "agentbook:"
TRANSFORMS_REFUSED = "transforms run code; compare the reply as it is"
_USED = ("type", "value", "threshold", "weight", "metric", "rubricPrompt", "provider", "config", "assert")


class JudgeReader:
    """Finds the judge among the providers of a file.

    Parameters
    ----------
    notes : list of str
        Receives a note about each provider that is not used.

    Attributes
    ----------
    judge : str or None
        The first agent that the file names.
    """

    def __init__(self, notes: list[str]) -> None:
        self.judge: str | None = None
        self._notes = notes

    def read(self, provider: Any) -> str | None:
        """Read the provider of a file or a case; returns the agent it names, if any."""
        if isinstance(provider, Mapping):
            provider = provider.get("text", provider)
            provider = provider.get("id") if isinstance(provider, Mapping) else provider
        if isinstance(provider, str) and provider.startswith(AGENT):
            agent = provider.removeprefix(AGENT)
            self.judge = self.judge or agent
            return agent
        if provider is not None:
            self._notes.append(
                f"options.provider: {quoted(provider)} is not asked; --judge names an agent that judges."
            )
        return None


class AssertReader:
    """Reads asserts; anything that cannot run is rejected, with its line.

    Parameters
    ----------
    judges : JudgeReader
        Reads the providers of the asserts.
    notes : list of str
        Receives notes about keys that have no effect.
    """

    def __init__(self, judges: JudgeReader, notes: list[str]) -> None:
        self._judges, self._notes = judges, notes

    def read(self, source: Source, keys: KeyPath, data: Any) -> Iterator[Check]:
        """The asserts of a list.

        Raises
        ------
        ConfigError
        """
        for number, item in enumerate(source.items(keys, data)):
            with source.collecting():
                yield self._assert(source, (*keys, number), item)

    def _assert(self, source: Source, keys: KeyPath, item: Any) -> Check:
        data = source.mapping(keys, item)
        kind = data.get("type")
        if not isinstance(kind, str):
            raise source.error(keys, "an assert needs a `type`, such as `contains`.")
        base = kind.removeprefix("not-")
        reason = None if kind == SET else refusal_of_kind(base)
        if reason is not None and not is_promptfoos(base):
            raise source.error((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        if reason is not None:
            raise source.unsupported((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        for name in ("transform", "contextTransform"):
            if name in data:
                raise source.unsupported((*keys, name), f"`{name}` cannot be used: {TRANSFORMS_REFUSED}.")
        for name in ("value", "rubricPrompt"):
            source.check_history((*keys, name), data.get(name))
        self._notes += source.check_keys(keys, data, _USED, {}, ("normalizeUnicode",))
        if isinstance(data.get("metric"), Mapping | list):
            raise source.error((*keys, "metric"), f"a name is needed here, not {quoted(data['metric'])}.")
        agent = self._judges.read(data.get("provider"))
        children = list(self.read(source, (*keys, "assert"), data.get("assert")) if kind in (SET, TURN) else ())
        if kind == SET and data.get("assert") and not children:
            raise source.unsupported(keys, "none of the asserts of the set can run.")
        weight = source.number((*keys, "weight"), data.get("weight"))
        check = Check(
            type=kind,
            value=data.get("value"),
            threshold=source.number((*keys, "threshold"), data.get("threshold")),
            weight=1.0 if weight is None else weight,
            name=data.get("metric"),
            rubric_prompt=source.text_of((*keys, "rubricPrompt"), data.get("rubricPrompt")),
            config=data.get("config"),
            agent=agent,
            children=tuple(children),
            location=f"line {source.line(keys)}",
            is_data=source.is_data,
        )
        if check.base == "javascript":
            reason = refusal(check, is_allowed=source.allowed.javascript)
            if reason is not None:
                raise source.unsupported((*keys, "type"), f"the assert `{kind}` cannot run: {reason}.")
        _check_value(source, (*keys, "value"), check)
        return check


def _check_value(source: Source, keys: KeyPath, check: Check) -> None:
    value = check.value
    if check.base.startswith(AGENT) and (not isinstance(value, str) or check.base == TURN):
        try:
            require_valid(check)
        except ValueError as error:
            raise source.error(keys, f"`{check.type}`: {error}") from None
        return
    if isinstance(value, str) and (value.startswith("file://") or code_file(check) is not None):
        _check_file(source, keys, check, value)
    else:
        source.refuse_references(keys, value)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                source.check_template(keys, text)
    if check.base == "word-count" and isinstance(value, Mapping):
        for name in ("min", "max"):
            source.number((*keys, name), value.get(name))


def _check_file(source: Source, keys: KeyPath, check: Check, value: str) -> None:
    code = code_file(check)
    name = value.removeprefix("file://") if code is None else code[0]
    is_program = Path(name).suffix in (".py", ".js", ".ts", ".cjs", ".mjs", ".rb")
    if code is None and is_program:
        raise source.unsupported(keys, f"`{check.type}` cannot take its value from {name}.")
    if code is None and check.base in ("python", "javascript"):
        raise source.error(keys, f"`{check.type}` cannot take its code from {name}.")
    source.find_files(keys, name, "")
