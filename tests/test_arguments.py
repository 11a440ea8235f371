"""A call that does not fit is answered with one that does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import agentbook as ab
from agentbook._arguments import shows_call


@pytest.mark.parametrize(
    ("kind", "example"),
    [
        (ab.ChatPanel, 'ab.ChatPanel(client, workspace="acme~lab", agent="guide")'),
        (ab.PromptLab, 'ab.PromptLab(client, agent="writer", workspace="acme~lab")'),
        (ab.Compare, 'ab.Compare(client, workspace="acme~lab", agents=["guide", "echo"])'),
        (ab.Explorer, "ab.Explorer(history)"),
    ],
)
def test_a_widget_without_arguments_shows_the_call_to_make(kind: Any, example: str) -> None:
    with pytest.raises(TypeError) as raised:
        kind()
    name = example.partition("(")[0]
    first = next(iter(inspect.signature(kind).parameters))
    assert str(raised.value) == f"{name}: missing a required argument: {first!r}. Write {example}."
    with pytest.raises(TypeError, match=f"{name} has no argument 'heigth'; "):
        kind(None, heigth="1px")


def test_a_decorated_function_keeps_its_signature_and_result() -> None:
    @shows_call("ab.add(1, b=2)")
    def add(a: int, *, b: int) -> int:
        """The sum."""
        return a + b

    assert (add(1, b=2), add.__doc__, list(inspect.signature(add).parameters)) == (3, "The sum.", ["a", "b"])
    with pytest.raises(TypeError, match=r"ab\.add: too many positional arguments\. Write ab\.add\(1, b=2\)\."):
        add(1, 2)  # type: ignore[call-arg, misc]
