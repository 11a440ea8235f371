"""Variants and versions: what they refuse, version numbers, tools as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.chat.prompt_lab.variant import Variant, Version, format_tools, next_number, parse_tools

pytestmark = pytest.mark.python_versions


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], None),
        (["x", None], None),
        (["1.0.0"], "1.0.1"),
        (["1.9", "1.10", "1.2"], "1.11"),
        (["3"], "4"),
        (["²"], None),
    ],
)
def test_next_number(numbers: list[str | None], expected: str | None) -> None:
    assert next_number([Version(number=number) for number in numbers]) == expected


@pytest.mark.parametrize("setting", ["system_prompt", "description"])
def test_a_path_is_not_a_prompt(setting: str) -> None:
    with pytest.raises(TypeError, match=r"of variant 'a' must be a .*, not \w*Path: .*read_text"):
        Variant("a", **{setting: Path("prompt.md")})


def test_formatted_tools_parse_back() -> None:
    tools = [{"integration": "orders", "tools": ["find", "track"]}, {"integration": "mail", "tools": []}]
    assert parse_tools(format_tools(tools)) == tools
    assert parse_tools(" \n") is None
