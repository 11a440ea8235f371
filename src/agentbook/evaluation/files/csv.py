"""Cases as rows of a CSV file, and asserts as text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..._text import clip
from .. import javascript
from ..asserts import SIMILAR, split_values
from ..model import CaseError

SIMILAR_IN_CSV = 0.8
# Values separated by commas, which the assert itself splits.
_LISTS = ("contains-any", "contains-all", "icontains-any", "icontains-all")
_JSON = ("contains-json", "is-json")
# These have a threshold in CSV even if none is given.
_THRESHOLDS = ("cost", "latency", "levenshtein", "similar", "starts-with")
_PROGRAMS = {"javascript": "javascript", "fn": "javascript", "eval": "javascript", "python": "python"}
_DEFAULTS = {"levenshtein": 5.0, "similar": SIMILAR}
_CONFIG = re.compile(r"__config:__expected([1-9]\d*)?:threshold")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def read_rows(text: str) -> dict[int, dict[str, str]]:
    r"""The rows of a CSV text by their lines, keyed by the names in its first line.

    Raises
    ------
    ValueError
        If there is no header, or a row has a different number of columns. The message
        names the line.

    Examples
    --------
    >>> read_rows('topic,__expected\nkeys,"contains: a, b"\n')
    {2: {'topic': 'keys', '__expected': 'contains: a, b'}}
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise ValueError("line 1: there is no header with the names of the columns.")
        rows, line = {}, reader.line_num + 1
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                raise ValueError(f"line {start}: {len(cells)} columns, but the header has {len(header)}.")
            rows[start] = dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}.") from error
    return rows


def case_data(row: Mapping[str, str], number: int, types: Sequence[str]) -> dict[str, Any]:
    """A row as the data of a case, in the form that it has in YAML.

    Parameters
    ----------
    row : mapping of str to str
    number : int
        Counted from 1; the default description of the row.
    types : sequence of str
        The types of asserts with which a cell may begin.
    """
    data: dict[str, Any] = {"vars": {}, "assert": [], "options": {}, "metadata": {}}
    configs: dict[int, dict[str, float]] = {}
    metric = None
    for column, cell in row.items():
        name = javascript.strip(column)
        if name.startswith("__expected"):
            if javascript.strip(cell):
                data["assert"].append(parse_assert(javascript.strip(cell), types))
        elif name.startswith("__config:"):
            match, threshold = _CONFIG.fullmatch(name), parse_number(cell)
            if match is None or threshold is None:
                raise ValueError(f"{name} must be __config:__expected1:threshold with a number.")
            configs[int(match[1] or 1) - 1] = {"threshold": threshold}
        elif name.startswith("__metadata:"):
            if cell.strip():
                data["metadata"][name.removeprefix("__metadata:")] = cell
        elif name == "__metric":
            metric = cell
        elif name in ("__prefix", "__suffix"):
            data["options"][name[2:]] = cell
        elif name in ("__description", "__providerOutput"):
            data |= {name[2:]: cell} if cell else {}
        elif name == "__threshold":
            data |= {} if (threshold := parse_number(cell)) is None else {"threshold": threshold}
        else:
            data["vars"][name] = cell
    for position, extra in configs.items():
        if position < len(data["assert"]):
            data["assert"][position] |= extra
    for each in data["assert"] if metric else ():
        each["metric"] = metric
    data.setdefault("description", f"Row #{number}")
    return data


def parse_number(cell: str | None) -> float | None:
    """The number in a cell; None if it holds something else."""
    text = javascript.strip(cell or "")
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_assert(text: str, types: Sequence[str]) -> dict[str, Any]:
    """An assert from a cell such as ``not-contains: refund`` or ``similar(0.8): Hi``.

    Examples
    --------
    >>> parse_assert("latency(1500)", ["latency"])
    {'type': 'latency', 'value': None, 'threshold': 1500.0}
    >>> parse_assert("Paris", ["latency"])
    {'type': 'equals', 'value': 'Paris'}
    """
    prefix, colon, value = text.partition(":")
    if colon and prefix in _PROGRAMS:
        return {"type": _PROGRAMS[prefix], "value": value.strip()}
    if colon and prefix in ("grade", "llm-rubric"):
        return {"type": "llm-rubric", "value": value}
    if text.startswith("file://"):
        for language, endings in (("python", (".py",)), ("javascript", (".js", ".ts"))):
            if text.endswith(endings) or any(f"{ending}:" in text for ending in endings):
                return {"type": language, "value": text.strip()}
    alternatives = "|".join(map(re.escape, types))
    match = re.fullmatch(rf"(not-)?({alternatives})(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?", text, re.ASCII)
    if match is None:
        return {"type": "equals", "value": text}
    negation, kind, threshold, value = match.groups()
    data: dict[str, Any] = {"type": f"{negation or ''}{kind}", "value": value}
    if kind not in (*_JSON, *_LISTS):
        data["value"] = None if value is None else javascript.strip(value)
    if kind in _THRESHOLDS:
        number = parse_number(threshold)
        data["threshold"] = (SIMILAR_IN_CSV if kind == "similar" else 0.75) if number is None else number
    return data


def case_row(data: Mapping[str, Any], types: Sequence[str], lost: list[str]) -> dict[str, str] | None:
    """The row from which `case_data` reads this case; None if no row holds its values.

    Parameters
    ----------
    data : mapping
        As the case has it in YAML.
    types : sequence of str
        The types of asserts with which a cell may begin.
    lost : list of str
        Receives what of the case the row does not hold, in words.

    Examples
    --------
    >>> slow = {"type": "latency", "threshold": 900.0}
    >>> case_row({"vars": {"q": "Hi"}, "assert": [slow]}, ["latency"], [])
    {'q': 'Hi', '__expected1': 'latency', '__config:__expected1:threshold': '900'}
    """
    values = dict(data.get("vars", {}))
    row = {name: "" if value is None else javascript.to_text(value) for name, value in values.items()}
    if any(isinstance(value, list | dict) for value in values.values()) or "\r" in "".join(row.values()):
        lost.append("the values")
        return None
    count, metrics = 0, {each.get("metric") for each in data.get("assert", ())}
    for each in data.get("assert", ()):
        text = assert_text(each, types)
        if text is None:
            lost.append(f"the check “{clip(each.get('metric') or javascript.to_json(each), 60)}”")
            continue
        count += 1
        row[f"__expected{count}"] = text
        # In CSV, the threshold is another one than elsewhere unless it is written.
        threshold = each.get("threshold", _DEFAULTS.get(each["type"].removeprefix("not-")))
        if threshold is not None:
            row[f"__config:__expected{count}:threshold"] = javascript.to_text(threshold)
    if len(metrics) > 1:
        lost.append("the names of the checks")
    elif metrics and None not in metrics:
        row["__metric"] = metrics.pop()
    options = {name: value for name, value in data.get("options", {}).items() if name != "disableVarExpansion"}
    row |= {f"__{name}": options.pop(name) for name in ("prefix", "suffix") if options.get(name)}
    row |= {f"__{name}": data[name] for name in ("description", "providerOutput") if isinstance(data.get(name), str)}
    row |= {"__threshold": javascript.to_text(data["threshold"])} if "threshold" in data else {}
    row |= {f"__metadata:{name}": javascript.to_text(value) for name, value in data.get("metadata", {}).items()}
    lost += [f"the {name}" for name, value in options.items() if value]
    return row


def assert_text(data: Mapping[str, Any], types: Sequence[str]) -> str | None:
    """The cell from which `parse_assert` reads this assert; None if there is none.

    Examples
    --------
    >>> assert_text({"type": "contains-any", "value": ["a", "b"]}, ["contains-any"])
    'contains-any: a,b'
    """
    kind, value = data["type"], data.get("value")
    if isinstance(value, dict) and kind.removeprefix("not-") not in _JSON:
        return None
    values = value if isinstance(value, list) else [value]
    is_list = kind.removeprefix("not-") in _LISTS
    text = ",".join(map(str, values)) if is_list else javascript.to_json(value) if isinstance(value, dict) else value
    cell = kind if value is None else f"{kind}: {text}"
    read = parse_assert(javascript.strip(cell), types)
    try:
        again = split_values(read["value"]) if is_list else read["value"]
    except CaseError:
        return None
    known = {"type", "value", "threshold", "metric"}
    same = (read["type"], again) == (kind, values if is_list else text)
    return cell if same and data.keys() <= known and "\r" not in cell else None
