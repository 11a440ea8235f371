"""Names in braces: ``{{topic}}`` in a prompt or an input stands for a column's value.

Only names are filled. Text between ``{% raw %}`` and ``{% endraw %}`` is sent as it is,
so that questions can also be about templates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .javascript import to_text
from .template import literal, unescaped

# Neither part looks further than the next tag, however many are not closed.
_TEMPLATE = re.compile(
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
    return list(dict.fromkeys(match[2] for match in _TEMPLATE.finditer(text or "") if match[2]))


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
            "columns with rows=, or write {% raw %}…{% endraw %} around what is to be sent as it is."
        )
    return _TEMPLATE.sub(lambda match: match[1] if match[2] is None else _text(row[match[2]]), text)


def is_template(text: str) -> bool:
    """Whether `fill` might change a text."""
    return _TEMPLATE.search(text) is not None


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
    for match in _TEMPLATE.finditer(text):
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

    return unescaped(_TEMPLATE.sub(content, template))


def protected(text: str) -> str:
    """The template that `fill` makes this text of.

    Examples
    --------
    >>> fill(protected("{{this}}"), {})
    '{{this}}'
    """
    return _TEMPLATE.sub(lambda match: f"{{% raw %}}{match[0]}{{% endraw %}}", text) if is_template(text) else text


def _text(value: Any) -> str:
    # As in evaluation files; pandas turns whole numbers into floats in a column with
    # gaps, and JavaScript would round large ones.
    return "" if value is None else str(value) if type(value) is int else to_text(value)
