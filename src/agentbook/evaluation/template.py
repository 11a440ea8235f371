"""Names in braces: `{{topic}}` stands for a value, `{{order.id}}` for one within it.

Only names are filled in. Text between `{% raw %}` and `{% endraw %}` is sent as it is,
so that questions can also be about templates. What a value holds is never a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Neither part looks further than the next tag, however many are not closed.
_NAME_OR_RAW = re.compile(
    r"\{%\s*+raw\s*+%\}((?:(?!\{%\s*+raw\s*+%\}).)*?)\{%\s*+endraw\s*+%\}"
    r"|\{\{\s*+([^\W\d][\w.-]*+(?:[ ]++[\w.-]++)*)\s*+\}\}",
    re.DOTALL,
)
_NOTHING = object()


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
    >>> fill("{{count}} for {{user.name}}.", {"count": 1.0, "user": {"name": "Ada"}})
    '1 for Ada.'
    >>> fill("Explain {{topic}}.", {"subject": "tides"})
    Traceback (most recent call last):
    ...
    ValueError: The text names {{topic}}, and there is no such column: ...
    """
    for name in names_in(text):
        require(name, row, location)
    return _NAME_OR_RAW.sub(lambda match: match[1] if match[2] is None else filled_in(_value(match[2], row)), text)


def require(name: str, row: Mapping[str, Any], location: str) -> None:
    """Raise a ValueError if a name has no value in a row; it lists the columns."""
    if _value(name, row) is _NOTHING:
        columns = f"there are {', '.join(row)}" if row else "there are no columns"
        raise ValueError(
            f"{location} names {{{{{name}}}}}, and there is no such column: {columns}. Correct the name, pass the "
            "columns (rows=, `values` in a file, or “Rows from CSV” in the form), or write {% raw %}…{% endraw %} around "
            "what is meant as it is."
        )


def protected(text: str) -> str:
    """The template that `fill` makes this text of.

    Examples
    --------
    >>> fill(protected("{{this}}"), {})
    '{{this}}'
    """
    return _NAME_OR_RAW.sub(lambda match: f"{{% raw %}}{match[0]}{{% endraw %}}", text)


def _value(name: str, row: Mapping[str, Any]) -> Any:
    value: Any = row
    for part in [name] if name in row else name.split("."):
        value = value.get(part, _NOTHING) if isinstance(value, Mapping) else _NOTHING
    return value


def filled_in(value: Any) -> str:
    """A value as text; pandas turns whole numbers into floats in a column with gaps."""
    if value is None or isinstance(value, str):
        return value or ""
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    is_json = isinstance(plain, bool | int | float | list | Mapping)
    return json.dumps(plain, ensure_ascii=False, default=str) if is_json else str(plain)
