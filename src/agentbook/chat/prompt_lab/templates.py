"""Names in braces: ``{{topic}}`` in a prompt or an input stands for a column's value.

Only names are filled. Text between ``{% raw %}`` and ``{% endraw %}`` is sent as it is,
so that questions can also be about templates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TEMPLATE = re.compile(r"\{%\s*raw\s*%\}(.*?)\{%\s*endraw\s*%\}|\{\{\s*([^\W\d][\w .-]*?)\s*\}\}", re.DOTALL)


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


def _text(value: Any) -> str:
    # pandas turns whole numbers into floats in a column with gaps.
    whole = isinstance(value, float) and value.is_integer()
    return "" if value is None else str(int(value) if whole else value)
