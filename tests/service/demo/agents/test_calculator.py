"""The calculator is exact, and evaluates nothing but arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents.calculator import CannotCalculate, calculate, format_number
from agentbook.service.engines.registry import load_engine
from service.engines.engine_runs import finished_tools, reply, run


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("What is (2 + 3) * 4?", 20),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("15% of 80", 12),
        ("7 divided by 2", Fraction(7, 2)),
        ("2^10", 1024),
        ("1,234,567 + 1", 1234568),
        ("-3 × −4", 12),
        ("17 // 5 + 17 % 5", 5),
        ("Add nothing: 007", 7),
        ("2 ^ -2", Fraction(1, 4)),
    ],
)
def test_values(text: str, value: Fraction) -> None:
    assert calculate(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "1/0",
        "0^-1",
        "9**9**9",
        "2^0.5",
        "(1",
        "__import__('os').system('x')",
        "(" * 400 + "1" + ")" * 400,
        "9" * 600,
        "1 " + "+1" * 400,
    ],
)
def test_what_it_cannot_calculate_is_an_error(text: str) -> None:
    if "system" in text:
        with pytest.raises(CannotCalculate, match="no numbers"):
            calculate(text)
        return
    with pytest.raises(CannotCalculate):
        calculate(text)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from("+-*/"))
def test_agrees_with_fractions(a: int, b: int, sign: str) -> None:
    if sign == "/" and b == 0:
        return
    oracle = {
        "+": lambda: Fraction(a + b),
        "-": lambda: Fraction(a - b),
        "*": lambda: Fraction(a * b),
        "/": lambda: Fraction(a, b),
    }
    assert calculate(f"({a}) {sign} ({b})").value == oracle[sign]()


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_a_number_is_formatted_as_precisely_as_it_claims(value: Fraction) -> None:
    text = format_number(value)
    if text.endswith("…"):
        assert abs(Fraction(text[:-1]) - value) <= Fraction(1, 10**6)
    else:
        assert Fraction(text) == value


def test_each_operation_is_a_subtask_and_the_reply_shows_them() -> None:
    steps = run(load_engine("calculator"), "(2 + 3) * 4")
    assert finished_tools(steps) == ["calculate", "calculate"]
    assert "2 + 3 = 5" in reply(load_engine("calculator"), "(2 + 3) * 4")
