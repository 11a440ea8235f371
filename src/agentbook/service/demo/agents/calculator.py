"""The `calculator` agent: exact arithmetic, one operation per step.

Python's parser reads an expression, and the calculator evaluates the tree node by node.
Only the operations in the table below are evaluated, and sizes are limited, so a
message can neither run code nor stall the service.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from fractions import Fraction

from ...engines.base import Step, TurnRequest
from ...engines.streaming import run_subtask, stream_reply
from .bounds import compute
from .python_source import parse

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("×", operator.mul),
    ast.Div: ("÷", operator.truediv),
    ast.FloorDiv: ("//", lambda a, b: Fraction(a // b)),
    ast.Mod: ("mod", operator.mod),
}
_MAX_CHARACTERS, _MAX_DEPTH, _MAX_BITS, _MAX_EXPONENT = 500, 60, 4096, 10**6
_MAX_SUBTASKS = 12
_EXPRESSION = re.compile(r"[\d(.+-][\d\s()+\-*/%^×÷·−.,_]*")
# Words for operations -> their signs.
_WORDS = [
    (re.compile(r"\bdivided by\b|\bover\b"), "/"),
    (re.compile(r"\bto the power of\b"), "^"),
    (re.compile(r"\bplus\b"), "+"),
    (re.compile(r"\bminus\b"), "-"),
    (re.compile(r"\btimes\b|\bmultiplied by\b|(?<=\d)\s*x\s*(?=\d)"), "*"),
    (re.compile(r"(?<!\d)(\d++(?:\.\d++)?)\s*(?:%|percent)\s+of\b"), r"\1/100*"),
    (re.compile(r"(\d)\s*percent\b"), r"\1/100"),
]


class CannotCalculate(ValueError):
    """The text has no expression to calculate; the message is for the reader."""


@dataclass(frozen=True, slots=True)
class Calculation:
    """A calculated expression: its text, its operations in order, its exact value."""

    expression: str
    steps: tuple[str, ...]
    value: Fraction


def calculate(text: str) -> Calculation:
    """Find an arithmetic expression in `text` and calculate it exactly.

    Raises
    ------
    CannotCalculate
        There is no expression, or it is too large, divides by zero, or has an operation
        that is not arithmetic.

    Examples
    --------
    >>> calculate("What is (2 + 3) * 4?").value
    Fraction(20, 1)
    >>> calculate("15 percent of 80").steps
    ('15 ÷ 100 = 0.15', '0.15 × 80 = 12')
    """
    expression = _find_expression(text)
    try:
        tree = parse(expression.replace("^", "**"), "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotCalculate(f"`{expression}` is not a whole expression.") from error
    steps: list[str] = []
    value = _evaluate(tree, steps, 0)
    return Calculation(expression, tuple(steps), value)


def _find_expression(text: str) -> str:
    text = text[: 4 * _MAX_CHARACTERS].lower()
    for pattern, sign in _WORDS:
        text = pattern.sub(sign, text)
    for sign, plain in (("×", "*"), ("·", "*"), ("÷", "/"), ("−", "-")):
        text = text.replace(sign, plain)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    candidates = [match.strip(" .,_\n\t") for match in _EXPRESSION.findall(text)]
    candidates = [candidate for candidate in candidates if re.search(r"\d", candidate)]
    if not candidates:
        raise CannotCalculate("I found no numbers in that.")
    expression = max(candidates, key=lambda candidate: (len(re.findall(r"\d+", candidate)), len(candidate)))
    if len(expression) > _MAX_CHARACTERS:
        raise CannotCalculate(f"That expression is longer than {_MAX_CHARACTERS} characters.")
    return " ".join(re.sub(r"(?<![\d.])0+(?=\d)", "", expression).split())


def _evaluate(node: ast.expr, steps: list[str], depth: int) -> Fraction:
    """The value of a node; its operations are appended to `steps`."""
    if depth > _MAX_DEPTH:
        raise CannotCalculate(f"That expression is nested deeper than {_MAX_DEPTH}.")
    match node:
        case ast.Constant(value=bool()):
            raise CannotCalculate("I calculate with numbers only.")
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number)) if abs(number) != float("inf") else _too_large()
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, steps, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand, steps, depth + 1)
        case ast.BinOp(left=first, op=operation, right=second):
            return _operate(operation, _evaluate(first, steps, depth + 1), _evaluate(second, steps, depth + 1), steps)
    raise CannotCalculate("I calculate with + - * / // % ^ and parentheses only.")


def _operate(operation: ast.operator, first: Fraction, second: Fraction, steps: list[str]) -> Fraction:
    """The result of one operation, which is appended to `steps`."""
    if isinstance(operation, ast.Pow):
        sign, value = "^", _power(first, second)
    elif type(operation) in _BINARY:
        sign, function = _BINARY[type(operation)]
        try:
            value = function(first, second)
        except ZeroDivisionError:
            raise CannotCalculate(
                f"{format_number(first)} {sign} 0 has no value: nothing can be divided by zero."
            ) from None
    else:
        raise CannotCalculate("I calculate with + - * / // % ^ and parentheses only.")
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        _too_large()
    steps.append(f"{format_number(first)} {sign} {format_number(second)} = {format_number(value)}")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise CannotCalculate("I raise numbers to whole powers only.")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent.numerator) * max(size, 1) > 2 * _MAX_BITS and abs(base) not in (0, 1):
        _too_large()
    if abs(exponent.numerator) > _MAX_EXPONENT:
        _too_large()
    if base == 0 and exponent < 0:
        raise CannotCalculate("0 to a negative power has no value: nothing can be divided by zero.")
    return Fraction(base ** int(exponent))


def _too_large() -> Fraction:
    raise CannotCalculate("That number grows too large for me.")


def format_number(value: Fraction) -> str:
    """A fraction as text: an integer, an exact decimal, or rounded with an ellipsis.

    Examples
    --------
    >>> [format_number(Fraction(value)) for value in ("1/4", "1/3", "1200")]
    ['0.25', '0.333333…', '1200']
    """
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10**12
    if scaled.denominator == 1:
        digits = str(abs(scaled.numerator)).rjust(13, "0")
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[:-12]}.{digits[-12:].rstrip('0')}"
    rounded = round(value * 10**6)
    digits = str(abs(rounded)).rjust(7, "0")
    return f"{'-' if value < 0 else ''}{digits[:-6]}.{digits[-6:]}…"


@dataclass(frozen=True, slots=True)
class Calculator:
    """Calculates, with each operation as a subtask."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Reply with the result and its steps, or with what can be calculated."""
        try:
            result = await compute(calculate, turn.message)
        except CannotCalculate as error:
            async for step in stream_reply(
                turn, f"{error} Ask me for example: `(2 + 3) * 4`, `15% of 80` or `2^10 / 3`."
            ):
                yield step
            return
        for line in result.steps[:_MAX_SUBTASKS]:
            async for step in run_subtask(turn, "calculate", turn.rng.uniform(0.03, 0.1), step=line):
                yield step
        text = f"**{result.expression} = {format_number(result.value)}**"
        if len(result.steps) > 1:
            text += "\n\n" + "\n".join(f"{number}. {line}" for number, line in enumerate(result.steps, 1))
        async for step in stream_reply(turn, text):
            yield step
