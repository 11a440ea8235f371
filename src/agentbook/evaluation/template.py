"""Promptfoo's templates. They are Nunjucks, a port of Jinja2; here Jinja2 reads them.

Values print and compare as in JavaScript: null prints nothing, and an empty list is
true. No method of a value can be called. A template comes with a shared file, so it
ends: what it makes and how often it does something are counted, up to `MAX_TEXT`
characters and `MAX_STEPS` steps.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import jinja2
import jinja2.meta
import jinja2.sandbox
from jinja2 import nodes, visitor

from . import javascript

FILTERS_OF_NUNJUCKS = frozenset(
    (
        *("abs", "batch", "capitalize", "center", "default", "d", "dictsort", "dump", "escape", "e"),
        *("first", "float", "forceescape", "groupby", "indent", "int", "join", "last", "length"),
        *("list", "lower", "nl2br", "random", "reject", "rejectattr", "replace", "reverse", "round"),
        *("safe", "select", "selectattr", "slice", "sort", "string", "striptags", "sum", "title"),
        *("trim", "truncate", "upper", "urlencode", "urlize", "wordcount"),
    )
)
MAX_TEXT = 5_000_000  # characters; a few lines of a template can make more than fits into memory
MAX_STEPS = 10_000_000  # half a second, as nodes that run and characters that are made
MAX_TAGS = 1000  # of a value
# What a value may do with other values: fill them in, or leave them out.
_HARMLESS = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem),
    *(nodes.Filter, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg),
)


class TemplateError(ValueError):
    """A template that cannot be read or rendered."""


class EnvironmentRefused(TemplateError):
    """A template that asks for a variable of the environment it may not use."""


def render(template: str, values: Mapping[str, Any], env: Iterable[str] = ()) -> str:
    """A template with the values filled in.

    Parameters
    ----------
    template : str
        May contain ``{{ name }}``, ``{% if %}``, ``{% for %}``, ``{% raw %}``,
        comments, and the filters upper, lower, trim, default, dump, join, length,
        replace, capitalize, first, last, safe and string.
    values : mapping of str to object
        Names without a value print nothing.
    env : iterable of str
        Variables of the environment for ``{{ env.NAME }}``.

    Returns
    -------
    str

    Raises
    ------
    TemplateError

    Examples
    --------
    >>> values = {"topic": "keys", "tags": ["a", "b"]}
    >>> render("About {{ topic | upper }}{{ nothing }}: {{ tags }}", values)
    'About KEYS: a,b'
    """
    if "{{" not in template and "{%" not in template and "{#" not in template:
        return template
    try:
        context = {name: _wrap(value) for name, value in values.items()}
        if "env" not in values and "env" in template:
            context["env"] = _Object(_variables(template, env))
        context[_COUNT] = _Count(len(template))
        return _limited(_compile(template).generate(context))
    except (jinja2.TemplateError, RecursionError) as error:
        raise _error(error) from None
    except TemplateError:
        raise
    except Exception as error:  # a filter or comparison applied to the wrong types
        raise TemplateError(f"{type(error).__name__}: {error}") from error


def render_value(template: str, values: Mapping[str, Any]) -> str:
    """A value that refers to others, which may be what anybody wrote.

    It has no access to the environment, and cannot loop or calculate.

    Raises
    ------
    TemplateError

    Examples
    --------
    >>> render_value("Dear {{ name }},", {"name": "Ada"})
    'Dear Ada,'
    """
    try:
        if "env" not in values:
            _variables(template, ())
        _require_harmless(template)
    except (jinja2.TemplateError, RecursionError) as error:
        raise _error(error) from None
    return render(template, values)


@functools.lru_cache(maxsize=512)
def _require_harmless(template: str) -> None:
    for node in _parse(template).find_all(nodes.Node):
        if not isinstance(node, _HARMLESS):
            word = type(node).__name__.lower()
            raise TemplateError(
                f"A value of a case only fills in other values, as {{{{name}}}} does, so {word!r} cannot be used in it. "
                "Write it in the prompt; text with braces is sent as it is between {% raw %} and {% endraw %}."
            )


def _variables(template: str, allowed: Iterable[str]) -> dict[str, str]:
    """The variables of the environment that a template names, if it may use all."""
    named, allowed = _named_variables(template), frozenset(allowed)
    refused = next((name for name in named if name not in allowed), None)
    if refused is not None:
        raise EnvironmentRefused(
            f"env.{refused} is not filled in, because the environment holds secrets. Allow this variable with "
            f'--env {refused}, in Python env=["{refused}"]. Prompts and asserts of an evaluation file can use it, '
            "values cannot."
        )
    return {name: os.environ[name] for name in named if name in os.environ}


@functools.lru_cache(maxsize=512)
def _named_variables(template: str) -> tuple[str, ...]:
    tree = _parse(template)
    single = {id(node.node): str(node.attr) for node in tree.find_all(nodes.Getattr)}
    single |= {
        id(node.node): str(node.arg.value) for node in tree.find_all(nodes.Getitem) if isinstance(node.arg, nodes.Const)
    }
    uses = [node for node in tree.find_all(nodes.Name) if node.name == "env" and node.ctx == "load"]
    if any(id(node) not in single for node in uses):
        raise EnvironmentRefused(
            "`env` gives one variable at a time: write {{ env.NAME }}, and allow it with --env NAME."
        )
    return tuple(dict.fromkeys(single[id(node)] for node in uses))


def _limited(parts: Iterable[str]) -> str:
    """The parts as one text, unless it grows too long."""
    texts, length = [], 0
    for part in parts:
        texts.append(part)
        length += len(part)
        require_length(length)
    return "".join(texts)


def require_length(length: int) -> None:
    """Raise a `TemplateError` if a text would be too long."""
    if length > MAX_TEXT:
        raise TemplateError(f"The text grows to more than {MAX_TEXT:,} characters.")


def check(template: str) -> None:
    """Read a template without rendering it.

    Raises
    ------
    TemplateError
        If it uses a Nunjucks filter that `render` does not support. Errors that
        promptfoo would also find only when it renders are not raised.
    """
    if template.count("{{") > MAX_TAGS:  # for the case to report
        return
    try:
        _compile(template)
    except Exception as error:
        name = re.search(r"No filter named '(\w+)'", str(error))
        if name and name[1] in FILTERS_OF_NUNJUCKS:
            raise TemplateError(
                f"The filter {name[1]!r} is not supported here; those are {', '.join(FILTERS)}."
            ) from None


def uses(template: str, name: str) -> bool:
    """Whether a template takes a value by this name.

    Examples
    --------
    >>> uses("{% for turn in _conversation %}…{% endfor %}", "_conversation")
    True
    >>> uses("{{ name }} {% raw %}{{ _conversation }}{% endraw %}", "_conversation")
    False
    """
    if name not in template or not re.search(r"\{\{|\{%", template):
        return False
    try:
        return name in names(template)
    except TemplateError:  # such as one within JSON, whose quotation marks are escaped
        return True


def names(template: str) -> list[str]:
    """The names that a template needs values for, in alphabetical order.

    Raises
    ------
    TemplateError

    Examples
    --------
    >>> names("{{ b }} {% for each in list %}{{ each }}{% endfor %} {{ a | upper }}")
    ['a', 'b', 'list']
    """
    try:
        tree = _parse(template)
        reader = jinja2.meta.TrackingCodeGenerator(tree.environment)  # type: ignore[arg-type]
        reader.optimizer = None  # it would calculate what the text multiplies
        reader.visit(tree)
        return sorted(reader.undeclared_identifiers - {"env"})
    except (jinja2.TemplateError, RecursionError) as error:
        raise _error(error) from None


@functools.lru_cache(maxsize=512)
def _compile(template: str) -> jinja2.Template:
    return _environment().from_string(_Counting().visit(_parse(template)))


def _parse(template: str) -> nodes.Template:
    try:
        return _environment().parse(template)
    except ValueError as error:  # a number with thousands of digits
        raise TemplateError(f"{type(error).__name__}: {error}") from error


def _error(error: jinja2.TemplateError | RecursionError) -> TemplateError:
    return TemplateError(str(error) or type(error).__name__)


# Limits


class _Count:
    """How much one rendering has done."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.steps = 0

    def add(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TemplateError(
                f"The template takes more than {MAX_STEPS:,} steps; loop over less, and repeat fewer and shorter texts."
            )

    def read(self, value: Any, depth: int = 1) -> None:
        """Add the size of a value, which may hold a list many times."""
        self.add(len(value) if isinstance(value, str) else depth)
        if isinstance(value, _Object):
            value = value.data
        if isinstance(value, Mapping):
            value = [*value, *value.values()]
        if isinstance(value, list | tuple):
            for item in value:
                self.read(item, depth + 1)


_COUNT = "the count"  # among the values; no template can name it
_CALL = 400  # steps that a call takes as long as


class _Counting(visitor.NodeTransformer):
    """Has a template count what it repeats, and what it compares."""

    def generic_visit(self, node: nodes.Node, *_: Any, **__: Any) -> nodes.Node:
        within = node.find_all(nodes.Node) if isinstance(node, nodes.For) else ()
        size = sum(1 + len(each.data) if isinstance(each, nodes.TemplateData) else 1 for each in within)
        super().generic_visit(node)
        if isinstance(node, nodes.For):
            if node.recursive:
                raise TemplateError("A loop cannot be recursive.")
            node.iter = _filtered(" each", node.iter, nodes.Const(size))
        elif isinstance(node, nodes.Concat):
            return _filtered(" joined", nodes.List(node.nodes))
        elif isinstance(node, nodes.Compare):
            node.expr = _filtered(" compared", node.expr)
            for operand in node.ops:
                operand.expr = _filtered(" compared", operand.expr)
        return node


def _filtered(name: str, node: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, list(arguments), [], None, None, lineno=node.lineno)


@jinja2.pass_context
def _each(context: jinja2.runtime.Context, value: Any, size: int) -> Any:
    if hasattr(value, "__len__"):
        context[_COUNT].add(len(value) * size)
    return value


@jinja2.pass_context
def _joined(context: jinja2.runtime.Context, values: list[Any]) -> str:
    context[_COUNT].read(values)
    texts = [_print(value) for value in values]
    require_length(sum(map(len, texts)))
    return "".join(texts)


@jinja2.pass_context
def _compared(context: jinja2.runtime.Context, value: Any) -> Any:
    context[_COUNT].read(value)
    return value


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test that counts what it is given and what it makes."""

    @jinja2.pass_context
    def counted(context: jinja2.runtime.Context, *values: Any) -> Any:
        context[_COUNT].read(values)
        result = function(*values)
        if isinstance(result, str):
            context[_COUNT].add(len(result))
            require_length(len(result))
        return result

    return counted


# Values


class _Object:
    """A JavaScript object: true even if empty, without methods."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = {javascript.to_text(name): item for name, item in data.items()}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, _wrap(item)) for name, item in self.data.items())

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _List(list[Any]):
    def __bool__(self) -> bool:
        return True


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Object(value)
    return _List(map(_wrap, value)) if isinstance(value, list | tuple) else value


def _unwrap(value: Any) -> Any:
    if isinstance(value, _Object):
        return value.data
    return list(map(_unwrap, value)) if isinstance(value, list) else value


def _print(value: Any) -> str:
    return "" if value is None or isinstance(value, jinja2.Undefined) else javascript.to_text(_unwrap(value))


@jinja2.pass_context  # so that it is not called while a template is compiled
def _finalize(context: jinja2.runtime.Context, value: Any) -> str:
    context[_COUNT].read(value)
    return _print(value)


class _Environment(jinja2.sandbox.SandboxedEnvironment):
    """Looks up items only, so that no method of a Python value is reached."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        return _limited(parts)

    def call(self, context: jinja2.runtime.Context, function: Any, *args: Any, **others: Any) -> Any:
        context[_COUNT].add(_CALL + context[_COUNT].length)
        return context.call(function, *args, **others)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """As JavaScript does: with floats, and ``+`` also joins texts."""
        if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
            return _joined(context, [left, right])
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TemplateError(f"The operator {operator} needs numbers.")
        try:
            result = super().call_binop(context, operator, float(left), float(right))
        except OverflowError:
            return math.inf
        return int(result) if result.is_integer() and abs(result) < 2**53 else result

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, jinja2.runtime.LoopContext):
            return getattr(obj, argument) if argument in _LOOP else self.undefined(name=argument)
        if isinstance(obj, _Object) and argument in obj.data:
            return _wrap(obj.data[argument])
        if isinstance(obj, str | list) and argument == "length":
            return len(obj)
        if isinstance(obj, str | list) and isinstance(argument, int) and 0 <= argument < len(obj):
            return obj[argument]
        return self.undefined(name=str(argument))


_LOOP = {"index", "index0", "revindex", "revindex0", "first", "last", "length"}


@functools.cache
def _environment() -> jinja2.Environment:
    environment = _Environment(
        undefined=jinja2.ChainableUndefined,
        finalize=_finalize,
        keep_trailing_newline=True,
        autoescape=False,
        optimized=False,  # to read a template does not run it
    )
    environment.globals.clear()
    environment.filters = {name: _counted(function) for name, function in FILTERS.items()}
    environment.filters |= {" each": _each, " joined": _joined, " compared": _compared}
    of_templates = ("filter", "test")
    environment.tests = {
        name: _counted(cast(Callable[..., Any], test))
        for name, test in environment.tests.items()
        if name not in of_templates
    }
    return environment


# Filters, as Nunjucks defines them


def _text(value: Any) -> str:
    if value is None or value is False or isinstance(value, jinja2.Undefined):
        return ""
    if not isinstance(value, str):
        raise TemplateError(f"The filter needs text, not {javascript.to_text(_unwrap(value))!r}.")
    return value


def _default(value: Any, other: Any = "", falsy: bool = False) -> Any:
    missing = not value if falsy else isinstance(value, jinja2.Undefined)
    return other if missing else value


def _dump(value: Any, indent: Any = None) -> str:
    return "" if isinstance(value, jinja2.Undefined) else javascript.to_json(_unwrap(value), indent)


def _join(value: Any, separator: str = "", attribute: str | None = None) -> str:
    if not isinstance(value, list):
        raise TemplateError("The filter join needs a list.")
    items = [item.data.get(attribute) if isinstance(item, _Object) else None for item in value] if attribute else value
    texts = [_print(item) for item in items]
    require_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _length(value: Any) -> Any:
    if value is None or value is False or isinstance(value, jinja2.Undefined):
        return 0
    return len(value) if isinstance(value, str | list | _Object) else None


def _replace(value: Any, old: Any, new: Any, count: Any = -1) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = javascript.to_text(value)
    if not isinstance(value, str):
        return value
    old, new = _print(old), _print(new)
    require_length(len(value) + value.count(old) * len(new))
    return value.replace(old, new, int(count))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, str | list) and len(value) else None


def _last(value: Any) -> Any:
    return value[-1] if isinstance(value, str | list) and len(value) else None


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": lambda value: _text(value).upper(),
    "lower": lambda value: _text(value).lower(),
    "trim": lambda value: javascript.strip(_text(value)),
    "default": _default,
    "d": _default,
    "dump": _dump,
    "join": _join,
    "length": _length,
    "replace": _replace,
    "capitalize": lambda value: _text(value).lower()[:1].upper() + _text(value).lower()[1:],
    "first": _first,
    "last": _last,
    "safe": lambda value: "" if value is None else value,
    "string": lambda value: _print(value),
}
