"""The `calculator` agent: arithmetic, exactly, one operation a step.

An expression is read by Python's own parser and walked node by node; nothing is ever evaluated that is not in the tables below,
and sizes are bounded, so a message can neither run code nor stall the service.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from fractions import Fraction

from ...engines.base import Step, TurnRequest
from ...engines.streaming import say, work

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("×", operator.mul),
    ast.Div: ("÷", operator.truediv),
    ast.FloorDiv: ("//", lambda a, b: Fraction(a // b)),
    ast.Mod: ("mod", operator.mod),
}
_LONGEST, _DEEPEST, _MOST_BITS = 500, 60, 4096
_EXPRESSION = re.compile(r"[\d(.+-][\d\s()+\-*/%^×÷·−.,_]*")
# Words people write between numbers.
_SPOKEN = [
    (re.compile(r"\bdivided by\b|\bover\b"), "/"),
    (re.compile(r"\bto the power of\b"), "^"),
    (re.compile(r"\bplus\b"), "+"),
    (re.compile(r"\bminus\b"), "-"),
    (re.compile(r"\btimes\b|\bmultiplied by\b|(?<=\d)\s*x\s*(?=\d)"), "*"),
    (re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\b"), r"\1/100*"),
    (re.compile(r"(\d)\s*percent\b"), r"\1/100"),
]


class CannotCalculate(ValueError):
    """The text holds no expression this agent calculates; its message is fit to be shown."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A calculated expression: what was read, the operations in the order they were done, and the exact value."""

    expression: str
    steps: tuple[str, ...]
    value: Fraction


def calculate(text: str) -> Sum:
    """Find the arithmetic in `text` and do it exactly.

    Raises
    ------
    CannotCalculate
        No expression, one with an operation that is not arithmetic, a division by zero, or one that is too large.

    Examples
    --------
    >>> calculate("What is (2 + 3) * 4?").value
    Fraction(20, 1)
    >>> calculate("15 percent of 80").steps
    ('15 ÷ 100 = 0.15', '0.15 × 80 = 12')
    """
    expression = _find(text)
    try:
        tree = ast.parse(expression.replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as reason:
        raise CannotCalculate(f"`{expression}` is not a whole expression.") from reason
    steps: list[str] = []
    value = _value(tree, steps, 0)
    return Sum(expression, tuple(steps), value)


def _find(text: str) -> str:
    spoken = text.lower()[: 4 * _LONGEST]
    for pattern, sign in _SPOKEN:
        spoken = pattern.sub(sign, spoken)
    for sign, plain in (("×", "*"), ("·", "*"), ("÷", "/"), ("−", "-")):
        spoken = spoken.replace(sign, plain)
    spoken = re.sub(r"(?<=\d),(?=\d{3}\b)", "", spoken)
    found = [match.strip(" .,_\n\t") for match in _EXPRESSION.findall(spoken)]
    found = [match for match in found if re.search(r"\d", match)]
    if not found:
        raise CannotCalculate("I found no numbers in that.")
    expression = max(found, key=lambda match: (len(re.findall(r"\d+", match)), len(match)))
    if len(expression) > _LONGEST:
        raise CannotCalculate(f"That expression is longer than {_LONGEST} characters.")
    return " ".join(re.sub(r"(?<![\d.])0+(?=\d)", "", expression).split())


def _value(node: ast.expr, steps: list[str], depth: int) -> Fraction:
    if depth > _DEEPEST:
        raise CannotCalculate(f"That expression is nested deeper than {_DEEPEST}.")
    match node:
        case ast.Constant(value=bool()):
            raise CannotCalculate("I calculate with numbers only.")
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number)) if abs(number) != float("inf") else _too_large()
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, steps, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, steps, depth + 1)
        case ast.BinOp(left=left, op=operation, right=right):
            return _operate(operation, _value(left, steps, depth + 1), _value(right, steps, depth + 1), steps)
    raise CannotCalculate("I calculate with + - * / // % ^ and parentheses only.")


def _operate(operation: ast.operator, left: Fraction, right: Fraction, steps: list[str]) -> Fraction:
    if isinstance(operation, ast.Pow):
        sign, value = "^", _power(left, right)
    elif type(operation) in _BINARY:
        sign, function = _BINARY[type(operation)]
        try:
            value = function(left, right)
        except ZeroDivisionError:
            raise CannotCalculate(f"{written(left)} {sign} 0 has no value: nothing can be divided by zero.") from None
    else:
        raise CannotCalculate("I calculate with + - * / // % ^ and parentheses only.")
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        _too_large()
    steps.append(f"{written(left)} {sign} {written(right)} = {written(value)}")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise CannotCalculate("I raise numbers to whole powers only.")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent.numerator) * max(size, 1) > 2 * _MOST_BITS and abs(base) not in (0, 1):
        _too_large()
    if abs(exponent.numerator) > 10**6:
        _too_large()
    if base == 0 and exponent < 0:
        raise CannotCalculate("0 to a negative power has no value: nothing can be divided by zero.")
    return Fraction(base ** int(exponent))


def _too_large() -> Fraction:
    raise CannotCalculate("That number grows too large for me.")


def written(value: Fraction) -> str:
    """A fraction as a person writes it: whole, as a short decimal if it has one, or rounded with an ellipsis.

    Examples
    --------
    >>> written(Fraction(1, 4)), written(Fraction(1, 3)), written(Fraction(1200))
    ('0.25', '0.333333…', '1200')
    """
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10**12
    if scaled.denominator == 1:
        digits = str(abs(scaled.numerator)).rjust(13, "0")
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[:-12]}.{digits[-12:].rstrip('0')}"
    near = round(value * 10**6)
    digits = str(abs(near)).rjust(7, "0")
    return f"{'-' if value < 0 else ''}{digits[:-6]}.{digits[-6:]}…"


@dataclass(frozen=True, slots=True)
class Calculator:
    """Answers arithmetic, each operation as a subtask."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """The sum and its steps, or what it cannot do and what it can."""
        try:
            result = calculate(turn.message)
        except CannotCalculate as reason:
            async for step in say(turn, f"{reason} Ask me for example: `(2 + 3) * 4`, `15% of 80` or `2^10 / 3`."):
                yield step
            return
        for line in result.steps[:12]:
            async for step in work(turn, "calculate", turn.rng.uniform(0.03, 0.1), step=line):
                yield step
        text = f"**{result.expression} = {written(result.value)}**"
        if len(result.steps) > 1:
            text += "\n\n" + "\n".join(f"{number}. {line}" for number, line in enumerate(result.steps, 1))
        async for step in say(turn, text):
            yield step
