"""Variants and versions: what they refuse, version numbers, tools as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.evaluation.platform import Version, next_number
from agentbook.evaluation.variant import Variant, format_settings, format_tools, parse_tools, parse_variant


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperature": 2.5}, "temperature of variant 'a' must be a number from 0 to 2, or None, not 2.5"),
        ({"temperature": True}, "temperature of variant 'a' must be a number"),
        ({"temperature": float("nan")}, "temperature of variant 'a' must be a number"),
        ({"max_tokens": 0}, "max_tokens of variant 'a' must be a whole number from 1"),
        ({"max_tokens": 1.5}, "max_tokens of variant 'a' must be a whole number"),
        ({"top_p": "1"}, "top_p of variant 'a' must be a number from 0 to 1"),
        ({"model": " "}, "The model of variant 'a' is empty"),
        ({"prompt": "x", "system_prompt": "y"}, "is passed twice"),
    ],
)
def test_parameters_have_limits(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Variant("a", **parameters)  # type: ignore[arg-type]


def test_prompt_is_short_for_system_prompt() -> None:
    variant = Variant("a", prompt="Be brief.", model="m", temperature=0, top_p=1)
    assert variant == Variant("a", "Be brief.", model="m", temperature=0, top_p=1)
    assert variant.prompt == variant.system_prompt == "Be brief."
    assert variant.settings == {"system_prompt": "Be brief.", "model": "m", "temperature": 0, "top_p": 1}
    assert Variant("a", **variant.as_data()) == variant
    assert Variant("cold", temperature=0).configures


def test_parameters_as_text_parse_back() -> None:
    settings = {"system_prompt": "Be brief.", "model": "m", "temperature": 0.0, "max_tokens": 20}
    fields = {"name": "a", "version": "", **format_settings(settings)}
    assert (fields["temperature"], fields["max_tokens"]) == ("0.0", "20")
    assert parse_variant(fields, "x").settings == settings
    with pytest.raises(ValueError, match="max_tokens must be a whole number from 1 to 1000000, or empty, not “many”"):
        parse_variant({**fields, "max_tokens": "many"}, "x")
