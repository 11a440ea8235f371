"""Promptfoo's templates. They are Nunjucks, a port of Jinja2; here Jinja2 reads them.

Values print, compare and calculate as in JavaScript: null prints nothing, an empty list
is true, and `'3.7' == 3.7`. No method of a value can be called. A template comes with a
shared file, so it ends: what it makes and how often it does something are counted, up
to `MAX_TEXT` characters and `MAX_STEPS` steps.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import jinja2
import jinja2.meta
import jinja2.sandbox
from jinja2 import nodes, parser, visitor

from . import filters, javascript
from .javascript import UNDEFINED, List, Object, wrap
from .javascript import TemplateError as TemplateError
from .javascript import require_length as require_length

MAX_STEPS = 10_000_000  # half a second, as nodes that run and characters that are made
MAX_TAGS = 1000  # of a value
# What a value may do with other values: fill them in, or leave them out.
_HARMLESS = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem),
    *(nodes.Filter, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg),
)


class UnsupportedTemplate(TemplateError):
    """A template that promptfoo reads, and that means something else here."""


class EnvironmentRefused(TemplateError):
    """A template that asks for a variable of the environment it may not use."""


def render(template: str, values: Mapping[str, Any], env: Iterable[str] = ()) -> str:
    """A template with the values filled in.

    Parameters
    ----------
    template : str
        May contain ``{{ name }}``, ``{% if %}``, ``{% for %}``, ``{% set %}``,
        ``{% macro %}``, ``{% raw %}``, comments, and the filters of Nunjucks.
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
    if not _has_tags(template):
        return template
    try:
        context = {name: wrap(value) for name, value in values.items()}
        if "env" not in values and "env" in template:
            context["env"] = Object(_variables(template, env))
        context[_COUNT] = _Count(len(template))
        return _limited(_compile(template).generate(context))
    except (jinja2.TemplateError, RecursionError) as error:
        raise _error(error) from None
    except TemplateError:
        raise
    except Exception as error:  # a filter or comparison applied to the wrong types
        raise TemplateError(f"{type(error).__name__}: {error}") from error


def _has_tags(template: str) -> bool:
    return any(mark in template for mark in ("{{", "{%", "{#"))


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


def check(template: str) -> None:
    """Read a template without rendering it.

    Raises
    ------
    UnsupportedTemplate
        If it means something else in Nunjucks. Errors that promptfoo would also find
        only when it renders are not raised.
    """
    if not _has_tags(template) or template.count("{{") > MAX_TAGS:  # too many are for the case to report
        return
    try:
        _compile(template)
    except UnsupportedTemplate:
        raise
    except Exception as error:
        name = re.search(r"No filter named '(\w+)'", str(error))
        if name and name[1] in filters.REFUSED:
            raise UnsupportedTemplate(f"The filter {name[1]!r} is not used: {filters.REFUSED[name[1]]}.") from None


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
    tree = _parse(template)
    _require_own_names(tree)
    return _environment().from_string(_Counting().visit(tree))


def _require_own_names(tree: nodes.Template) -> None:
    """Refuse a loop that sets what is read outside, or before: Nunjucks keeps it."""
    sets = Counter(node.name for node in _names_set(tree.find_all((nodes.Assign, nodes.AssignBlock))))
    for loop in tree.find_all(nodes.For):
        own = Counter(node.name for node in _names_set(_without_loops(loop)))
        first = {id(each.target) for each in loop.body if isinstance(each, nodes.Assign | nodes.AssignBlock)}
        begins: dict[str, nodes.Name] = {}
        for node in _in_order(loop.body) if own else ():
            begins.setdefault(node.name, node)
        for name, count in own.items():
            if sets[name] > count or id(begins[name]) not in first:
                raise UnsupportedTemplate(
                    f"The loop sets {name!r}, which Nunjucks keeps for the next round or for the text after the loop, and "
                    "this reader does not. Set a name at the beginning of the loop, and use it there only."
                )


def _without_loops(node: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes within a node, without those of the loops in it."""
    for child in node.iter_child_nodes():
        if not isinstance(child, nodes.For):
            yield child
            yield from _without_loops(child)


def _names_set(statements: Iterable[Any]) -> list[nodes.Name]:
    targets = [each.target for each in statements if isinstance(each, nodes.Assign | nodes.AssignBlock)]
    return list(_in_order(targets))


def _in_order(statements: Iterable[nodes.Node]) -> Iterator[nodes.Name]:
    """The names in statements, in the order in which they are evaluated."""
    for each in statements:
        if isinstance(each, nodes.Name):
            yield each
        elif isinstance(each, nodes.Assign):
            yield from _in_order([each.node, each.target])
        else:
            yield from _in_order(each.iter_child_nodes())


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

    def read(self, value: Any) -> None:
        """Add what an operation with a value takes; it may hold a list many times."""
        self.add(_OPERATION)
        self._read(value, 1)

    def _read(self, value: Any, depth: int) -> None:
        self.add(len(value) if isinstance(value, str) else depth)
        if isinstance(value, Object):
            value = value.data
        if isinstance(value, Mapping):
            value = [*value, *value.values()]
        if isinstance(value, list | tuple):
            for item in value:
                self._read(item, depth + 1)


_COUNT = "the count"  # among the values; no template can name it
_OPERATION = 50  # steps that a filter, an operator or an output takes as long as
_CALL = 400  # and a call


class _Counting(visitor.NodeTransformer):
    """Has a template count what it repeats, and make JavaScript's values."""

    def generic_visit(self, node: nodes.Node, *_: Any, **__: Any) -> nodes.Node:
        within = node.find_all(nodes.Node) if isinstance(node, nodes.For) else ()
        size = sum(1 + len(each.data) if isinstance(each, nodes.TemplateData) else 1 for each in within)
        if isinstance(node, nodes.Pair) and isinstance(node.key, nodes.Name):  # {name: 1}
            node.key = nodes.Const(node.key.name)
        super().generic_visit(node)
        if isinstance(node, nodes.For):
            if node.recursive:
                raise TemplateError("A loop cannot be recursive.")
            pairs = nodes.Const(isinstance(node.target, nodes.Tuple))
            node.iter = _filtered(" each", node.iter, nodes.Const(size), pairs)
        elif isinstance(node, nodes.Concat):
            return _filtered(" joined", nodes.List(node.nodes))
        elif isinstance(node, nodes.List | nodes.Dict):
            return _filtered(" made", node)
        return node


def _filtered(name: str, node: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, list(arguments), [], None, None, lineno=node.lineno)


@jinja2.pass_context
def _each(context: jinja2.runtime.Context, value: Any, size: int, pairs: bool) -> Any:
    if not isinstance(value, Object if pairs and not isinstance(value, list) else str | list):
        return ()
    context[_COUNT].add(len(value) * size)
    return value


@jinja2.pass_context
def _joined(context: jinja2.runtime.Context, values: list[Any]) -> str:
    context[_COUNT].read(values)
    texts = [javascript.to_text(value) for value in values]
    require_length(sum(map(len, texts)))
    return "".join(texts)


@jinja2.pass_context
def _compared(context: jinja2.runtime.Context, value: Any, operator: str, other: Any) -> bool:
    context[_COUNT].read([value, other])
    return javascript.COMPARISONS[operator](value, other)


def _counted(function: Callable[..., Any], keywords: tuple[str, ...] = ()) -> Callable[..., Any]:
    """A filter or test that counts what it is given and what it makes."""

    @jinja2.pass_context
    def counted(context: jinja2.runtime.Context, *values: Any, **named: Any) -> Any:
        context[_COUNT].read(values)
        if named.keys() - set(keywords):
            raise TemplateError(f"The filter has no {', '.join(named.keys() - set(keywords))}.")
        if function in filters.SORTING and isinstance(values[0], str | list | Object):
            context[_COUNT].add(javascript.ITEM * len(values[0]) * len(values[0]).bit_length())
        result = function(*values, **named)
        if isinstance(result, str):
            context[_COUNT].add(len(result))
            require_length(len(result))
        if isinstance(result, list):
            items = sum(1 + len(item) if isinstance(item, list) else 1 for item in result)
            context[_COUNT].add(javascript.ITEM * items)
        return result

    return counted


@jinja2.pass_context
def _range(context: jinja2.runtime.Context, start: Any, stop: Any = UNDEFINED, step: Any = 1) -> Any:
    if javascript.is_undefined(stop):
        start, stop, step = 0, start, 1
    first, last, by = map(javascript.to_number, (start, stop, step or 1))
    count = (last - first) / by if by else 0
    context[_COUNT].add(0 if math.isnan(count) else int(max(0, min(count, MAX_STEPS + 1))) * javascript.ITEM)
    return List(javascript.tidy(first + number * by) for number in range(0 if math.isnan(count) else math.ceil(count)))


@jinja2.pass_context  # so that it is not called while a template is compiled
def _finalize(context: jinja2.runtime.Context, value: Any) -> str:
    context[_COUNT].read(value)
    return javascript.printed(value)


class _Parser(parser.Parser):
    """Operators bind as in Nunjucks, which makes JavaScript of them without brackets.

    So ``not a == b`` is ``!a == b``, and ``~`` binds as ``+`` does.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._in_brackets: dict[int, nodes.Expr] = {}

    _BINARY: tuple[dict[str, type[nodes.BinExpr] | None], ...] = (
        {"tilde": None, "add": nodes.Add, "sub": nodes.Sub},
        {"mul": nodes.Mul, "div": nodes.Div, "mod": nodes.Mod},
        {"floordiv": nodes.FloorDiv},
        {"pow": nodes.Pow},
    )

    def parse_not(self) -> nodes.Expr:
        if not self.stream.current.test("name:not"):
            return self.parse_compare()
        lineno = next(self.stream).lineno
        return self._negated(self.parse_not(), lineno)

    def _negated(self, node: nodes.Expr, lineno: int) -> nodes.Expr:
        if id(node) not in self._in_brackets:
            if isinstance(node, nodes.Filter) and node.name == " compared" and node.args[0].as_const() != "in":
                node.node = self._negated(cast(nodes.Expr, node.node), lineno)
                return node
            if isinstance(node, nodes.Add | nodes.Sub | nodes.Mul | nodes.Div | nodes.Mod):
                node.left = self._negated(node.left, lineno)
                return node
            if isinstance(node, nodes.Concat):
                node.nodes[0] = self._negated(node.nodes[0], lineno)
                return node
        return nodes.Not(node, lineno=lineno)

    def parse_primary(self, *args: Any, **others: Any) -> nodes.Expr:
        is_bracket = self.stream.current.type == "lparen"
        node = super().parse_primary(*args, **others)
        if is_bracket:
            self._in_brackets[id(node)] = node
        return node

    def parse_compare(self) -> nodes.Expr:
        node = self._parse_is()
        while True:
            lineno, is_negated = self.stream.current.lineno, False
            if self.stream.current.test("name:not") and self.stream.look().test("name:in"):
                next(self.stream)
                is_negated = True
            if not self.stream.skip_if("name:in"):
                return node
            node = _filtered(" compared", node, nodes.Const("in"), self._parse_is())
            node = nodes.Not(node, lineno=lineno) if is_negated else node

    def _parse_is(self) -> nodes.Expr:
        node = self._parse_comparison()
        while self.stream.current.test("name:is"):
            node = self.parse_test(node)
        return node

    def _parse_comparison(self) -> nodes.Expr:
        node = self._parse_binary()
        while (operator := self.stream.current.type) in ("eq", "ne", "lt", "lteq", "gt", "gteq"):
            next(self.stream)
            if operator in ("eq", "ne") and self.stream.skip_if("assign"):
                operator += "="
            node = _filtered(" compared", node, nodes.Const(operator), self._parse_binary())
        return node

    def _parse_binary(self, level: int = 0) -> nodes.Expr:
        if level == len(self._BINARY):
            return self.parse_unary()
        node = self._parse_binary(level + 1)
        while (operator := self.stream.current.type) in self._BINARY[level]:
            lineno, make = next(self.stream).lineno, self._BINARY[level][operator]
            right = self._parse_binary(level + 1)
            node = nodes.Concat([node, right], lineno=lineno) if make is None else make(node, right, lineno=lineno)
        return node

    def parse_filter_expr(self, node: nodes.Expr) -> nodes.Expr:
        while self.stream.current.type in ("pipe", "lparen"):
            is_filter = self.stream.current.type == "pipe"
            node = cast(nodes.Expr, self.parse_filter(node)) if is_filter else self.parse_call(node)
        return node


class _Environment(jinja2.sandbox.SandboxedEnvironment):
    """Looks up items only, so that no method of a Python value is reached."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))
    intercepted_unops = frozenset(("+", "-"))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Parser(self, source, name, filename).parse()

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        return _limited(parts)

    def call(self, context: jinja2.runtime.Context, function: Any, *args: Any, **others: Any) -> Any:
        context[_COUNT].add(_CALL + context[_COUNT].length)
        return context.call(function, *args, **others)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        context[_COUNT].read([left, right])
        if operator == "+":
            return javascript.add(left, right)
        if operator == "%":
            return javascript.tidy(javascript.remainder(left, right))
        one, other = javascript.to_number(left), javascript.to_number(right)
        try:
            if operator in ("/", "//") and not other:
                result = one * math.copysign(math.inf, other)
            elif operator == "**" and (math.isnan(other) or (abs(one) == 1 and math.isinf(other))):
                result = math.nan
            else:
                result = super().call_binop(context, operator, one, other)
        except (OverflowError, ZeroDivisionError):  # 0 ** -1
            result = math.inf
        if isinstance(result, complex):
            return math.nan
        return javascript.tidy(result)

    def call_unop(self, context: jinja2.runtime.Context, operator: str, value: Any) -> Any:
        number = javascript.to_number(value)
        return javascript.tidy(-number if operator == "-" else number)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, jinja2.runtime.LoopContext):
            return getattr(obj, argument) if argument in _LOOP else self.undefined(name=argument)
        if isinstance(obj, Object):
            name = javascript.to_text(argument)
            return obj.data[name] if name in obj else self.undefined(name=name)
        if isinstance(obj, str | list) and argument == "length":
            return filters.FILTERS["length"](obj)
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
    environment.globals["range"] = _range
    environment.filters = {
        name: _counted(function, filters.KEYWORDS.get(name, ())) for name, function in filters.FILTERS.items()
    }
    environment.filters |= {" each": _each, " joined": _joined, " compared": _compared, " made": wrap}
    environment.tests = {
        name: _counted(lambda value, other=UNDEFINED, test=test: test(value, other))
        for name, test in filters.TESTS.items()
    }
    return environment


# Text as a template

# What promptfoo takes for the name of a file or a package if a string begins with it.
REFERENCES = ("file://", "package:")
OPENING = re.compile(r"\{[{%#]|\{\Z|\r")
# Nunjucks counts these tags within a raw block. Jinja would change a carriage return.
_NOT_RAW = re.compile(r"\{%[-+]?\s*(?:end)?raw\b|\r")
_ESCAPES = {"{": "{{ '{' }}", "\r": "{{ '\\r' }}"}


def literal(text: str) -> str:
    """The template that renders as this text, whatever is in it.

    Examples
    --------
    >>> literal("plain"), literal("{{ env.HOME }}")
    ('plain', '{% raw %}{{ env.HOME }}{% endraw %}')
    """
    if OPENING.search(text) is None:
        return guarded(text)
    if _NOT_RAW.search(text) is None:
        return f"{{% raw %}}{text}{{% endraw %}}"
    return guarded(re.sub(r"\{(?=[{%#]|\Z)|\r", lambda match: _ESCAPES[match[0]], text))


def unescaped(template: str) -> str:
    """A template without the marks that `literal` put in place of single characters."""
    for char, mark in _ESCAPES.items():
        template = template.replace(mark, char)
    return template


def guarded(template: str) -> str:
    """A template that no reader takes for the name of a file.

    Examples
    --------
    >>> guarded("file://{{name}}")
    '{% raw %}file://{% endraw %}{{name}}'
    """
    for start in REFERENCES:
        if template.startswith(start):
            return f"{{% raw %}}{start}{{% endraw %}}{template.removeprefix(start)}"
    return template


def literal_text(template: str) -> str | None:
    """The text of which `literal` made this template; None if it made none.

    Examples
    --------
    >>> literal_text(literal("{{ env.HOME }}")), literal_text("{{ env.HOME }}")
    ('{{ env.HOME }}', None)
    """
    raw = template.removeprefix("{% raw %}").removesuffix("{% endraw %}")
    for text in (template, raw, unescaped(unguarded(template))):
        if literal(text) == template:
            return text
    return None


def unguarded(template: str) -> str:
    """The template of which `guarded` made this one."""
    for start in REFERENCES:
        if template.startswith(mark := f"{{% raw %}}{start}{{% endraw %}}"):
            return f"{start}{template.removeprefix(mark)}"
    return template


def literal_value(value: Any) -> Any:
    """The value of a variable that prints as this one, and is not a template.

    A text that promptfoo or `agentbook eval` would read from a file, fill in or cut is
    written as a list in a list. That prints as the text, and nothing looks into it.

    Examples
    --------
    >>> literal_value("What is a session?"), literal_value("file:///etc/passwd")
    ('What is a session?', [['file:///etc/passwd']])
    """
    if isinstance(value, str):
        is_plain = not value.startswith(REFERENCES) and not value.endswith("\n") and not OPENING.search(value)
        return value if is_plain else [[value]]
    if isinstance(value, list) and any(isinstance(item, str) and literal_value(item) != item for item in value):
        return [[javascript.to_text(value)]]
    is_long = isinstance(value, int) and abs(value) >= 2**53  # JavaScript would round it
    return str(value) if is_long else value


def literal_of(value: Any) -> Any:
    """The value of which `literal_value` made this one."""
    match value:
        case [[str() as text]]:
            return text
    return value


# Names in braces: in the prompts and inputs of a lab, `{{topic}}` stands for a column's
# value. Only names are filled. Text between `{% raw %}` and `{% endraw %}` is sent as
# it is, so that questions can also be about templates.

# Neither part looks further than the next tag, however many are not closed.
_NAME_OR_RAW = re.compile(
    r"\{%\s*+raw\s*+%\}((?:(?!\{%\s*+raw\s*+%\}).)*?)\{%\s*+endraw\s*+%\}"
    r"|\{\{\s*+([^\W\d](?:[\w.-]|[ ]++(?=[\w.-]))*+)\s*+\}\}",
    re.DOTALL,
)


def names_in(text: str | None) -> list[str]:
    """The names in a text, each once, in order.

    Examples
    --------
    >>> names_in("Explain {{topic}} to {{ reader }}. {% raw %}{{this}}{% endraw %}")
    ['topic', 'reader']
    """
    return list(dict.fromkeys(match[2] for match in _NAME_OR_RAW.finditer(text or "") if match[2]))


def fill(text: str, row: Mapping[str, Any], location: str = "The text") -> str:
    """The text with the row's values in place of the names.

    Parameters
    ----------
    text : str
    row : mapping of str to object
        Values by column. None is filled in as nothing.
    location : str
        Where the text comes from, for the message.

    Raises
    ------
    ValueError
        If a name has no column; the message lists the columns.

    Examples
    --------
    >>> fill("Explain {{topic}}.", {"topic": "tides"})
    'Explain tides.'
    >>> fill("Explain {{topic}}.", {"subject": "tides"})
    Traceback (most recent call last):
    ...
    ValueError: The text names {{topic}}, and there is no such column: ...
    """
    missing = [name for name in names_in(text) if name not in row]
    if missing:
        columns = f"there are {', '.join(row)}" if row else "there are no columns"
        raise ValueError(
            f"{location} names {{{{{missing[0]}}}}}, and there is no such column: {columns}. Correct the name, pass the "
            "columns (rows=, or “Rows from CSV” in the form), or write {% raw %}…{% endraw %} around what is to be sent as it is."
        )
    return _NAME_OR_RAW.sub(lambda match: match[1] if match[2] is None else filled_in(row[match[2]]), text)


def has_only_names(text: str) -> bool:
    """Whether names in braces are all that a template fills in."""
    return not _has_tags(_NAME_OR_RAW.sub("", text))


def is_template(text: str) -> bool:
    """Whether `fill` might change a text."""
    return _NAME_OR_RAW.search(text) is not None


def file_template(text: str, names: Mapping[str, str]) -> str:
    """The text as a template of an evaluation file: names are all that it fills in.

    Parameters
    ----------
    text : str
    names : mapping of str to str
        What columns are called in the file, where that differs.

    Examples
    --------
    >>> file_template("Explain {{topic}} in {{ 1 + 1 }} words.", {})
    'Explain {{topic}}{% raw %} in {{ 1 + 1 }} words.{% endraw %}'
    """
    parts, end = [], 0
    for match in _NAME_OR_RAW.finditer(text):
        name = match[2]
        parts.append(literal(text[end : match.start()]))
        parts.append(literal(match[1]) if name is None else f"{{{{{names[name]}}}}}" if name in names else match[0])
        end = match.end()
    template = "".join([*parts, literal(text[end:])])
    # Without any tag, the text is not rendered at all.
    return text if unescaped(template) == text and not re.search(r"\{[{%#]", text) else template


def lab_template(template: str) -> str:
    """What `file_template` made this of, without marks that a lab does not need."""

    def content(match: re.Match[str]) -> str:
        return match[0] if match[1] is None or is_template(match[1]) else match[1]

    return unescaped(_NAME_OR_RAW.sub(content, template))


def protected(text: str) -> str:
    """The template that `fill` makes this text of.

    Examples
    --------
    >>> fill(protected("{{this}}"), {})
    '{{this}}'
    """
    return _NAME_OR_RAW.sub(lambda match: f"{{% raw %}}{match[0]}{{% endraw %}}", text) if is_template(text) else text


def filled_in(value: Any) -> str:
    """A value as text."""
    # As in evaluation files; pandas turns whole numbers into floats in a column with
    # gaps, and JavaScript would round large ones.
    return "" if value is None else str(value) if type(value) is int else javascript.to_text(value)
