"""Texts for people: nearest names, errors, titles, visible text, and where it is shown.

Names and errors come first, then titles and previews of what people wrote, lengths of
time, and what makes other people's text safe to show in a page, a report or a terminal.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import inspect

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

CUTOFF = 0.65  # of difflib's ratio; its default of 0.6 takes "speed" for "answered"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most similar to `name`, or None if none is similar.

    Case matters, unless only a name in a different case is similar.

    Examples
    --------
    >>> nearest("turn", ["activity", "turns"])
    'turns'
    >>> nearest("speed", ["answered", "failed"]) is None
    True
    """
    names = list(names)
    if matches := get_close_matches(name, names, n=1, cutoff=CUTOFF):
        return matches[0]
    in_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower(), in_lower_case, n=1, cutoff=CUTOFF)
    return in_lower_case[matches[0]] if matches else None


def missing_attribute(module: str, name: str, names: Iterable[str], *, unlisted: Iterable[str] = ()) -> AttributeError:
    """The error for a public name that `module` does not have.

    It suggests the nearest name of `names` and `unlisted`, or else lists `names`.

    Examples
    --------
    >>> print(missing_attribute("agentbook", "turn", ["activity", "turns"]))
    agentbook has no attribute 'turn'; did you mean 'turns'?
    >>> print(missing_attribute("agentbook", "xyz", ["activity", "turns"]))
    agentbook has no attribute 'xyz'; it has: activity, turns.
    """
    names = list(names)
    is_probe = name.startswith("__")  # of a tool, such as pytest for __test__
    match = None if is_probe else nearest(name, [*names, *unlisted])
    hint = f"did you mean {match!r}?" if match else f"it has: {', '.join(names)}."
    # With `obj` set, even to None, Python does not add its own suggestion.
    return AttributeError(f"{module} has no attribute {name!r}; {hint}", name=name, obj=None)


def argument_error(
    name: str, signature: inspect.Signature, args: Sequence[Any], params: Mapping[str, Any], example: str = ""
) -> TypeError | None:
    """The error for a call that does not fit; None if it does.

    It has no argument's value, which may be secret. By default, the `example` is
    ``client.<name>`` with its required arguments.

    Examples
    --------
    >>> import inspect
    >>> def get(agent): ...
    >>> print(argument_error("agents.get", inspect.signature(get), [], {}))
    agents.get: missing a required argument: 'agent'. Write client.agents.get(agent).
    >>> print(argument_error("agents.get", inspect.signature(get), [], {"agnt": 1}))
    agents.get has no argument 'agnt'; did you mean 'agent'?
    """
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    known = [each.name for each in parameters]
    unknown = [param for param in params if param not in known]
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in parameters):
        match = nearest(unknown[0], known)
        hint = f"did you mean {match!r}?" if match else f"it has {', '.join(known) or 'none'}."
        return TypeError(f"{name} has no argument {unknown[0]!r}; {hint}")
    try:
        signature.bind(*args, **params)
    except TypeError as error:
        required = [each for each in parameters if each.default is each.empty]
        usage = ", ".join(f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name for each in required)
        return TypeError(f"{name}: {error}. Write {example or f'client.{name}({usage})'}.")
    return None


def shows_call(example: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function: a call that does not fit raises an error with this example.

    Examples
    --------
    >>> @shows_call('ab.greet("Ada")')
    ... def greet(name): ...
    >>> greet()
    Traceback (most recent call last):
    ...
    TypeError: ab.greet: missing a required argument: 'name'. Write ab.greet("Ada").
    """
    import inspect

    name = example.partition("(")[0]

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **params: P.kwargs) -> T:
            if error := argument_error(name, signature, args, params, example):
                raise error
            return function(*args, **params)

        return checked

    return decorate


def safe_repr(method: Callable[[S], str]) -> Callable[[S], str]:
    """Make a ``__repr__`` work even if some attributes are not set yet.

    A traceback that shows variables includes the `self` of a constructor that raised.
    On Python 3.11 it fails if the repr of `self` fails.
    """

    @functools.wraps(method)
    def represent(self: S) -> str:
        try:
            return method(self)
        except AttributeError:
            return f"<{type(self).__name__} (not initialized)>"

    return represent


MAX_TITLE = 60
MAX_READ = 200_000  # characters of a message that are searched for words
MAX_NAME = 500  # characters of a bold line that may be the name of an attachment
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BOLD_LINE = re.compile(r"\*\*(?P<name>.+?)\*\*(?: \(.*\))?$")  # as it appears above an attachment
_BLOCK = re.compile(r"^(?:#{1,6}|>|[-*+])\s+")
# Chinese, Japanese and Korean have no spaces around it.
_BOLD = re.compile(r"(?<![^\W\u2e80-\uffef])\*\*(?=\S)(.+?)(?<=\S)\*\*(?![^\W\u2e80-\uffef])")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MARKS = ("\n", "*", "`", "#", ">", "|", "~")


def clip(text: str, length: int) -> str:
    """A text on one line, with at most this many characters.

    Examples
    --------
    >>> clip("What   is\\na turn?", 9)
    'What is …'
    """
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def around(text: str, word: str, before: int, length: int) -> tuple[str, str, str]:
    r"""A text on one line, cut around a word: what precedes it, the word, and the rest.

    Without the word, the beginning of the text is the rest.

    Examples
    --------
    >>> around("Where is\nmy PARCEL, please? I have waited.", "parcel", 6, 20)
    ('…my ', 'PARCEL', ', please…')
    """
    found = re.search(re.escape(word), text, re.IGNORECASE)
    first, end = found.span() if found else (0, 0)
    start = max(first - before, 0)
    lead, word, rest = (
        re.sub(r"\s+", " ", part) for part in (text[start:first], text[first:end], text[end : start + length])
    )
    if start:
        lead = f"…{lead.partition(' ')[2] or lead}"
    return lead, word, f"{rest}…" if start + length < len(text) else rest


def shorten(text: str, length: int = MAX_TITLE) -> str:
    """The beginning of a text, on one line.

    Examples
    --------
    >>> shorten("What   is\\na turn?", 9)
    'What is…'
    """
    line = " ".join(text[: 20 * length].split())
    if len(line) <= length:
        return line
    cut = line[:length].rsplit(" ", 1)[0]
    return f"{cut.rstrip('.,;: ')}…"


def count_text(count: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> count_text(1, "turn"), count_text(2000, "turn")
    ('1 turn', '2,000 turns')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def seconds(value: float) -> str:
    """A duration for people: ``0.4 s``, ``12 s``, ``3 min 5 s``.

    Examples
    --------
    >>> seconds(0.42), seconds(185)
    ('0.4 s', '3 min 5 s')
    """
    if value < 9.95:
        return f"{value:.1f} s"
    total = round(value)
    return f"{total} s" if total < 60 else f"{total // 60} min {total % 60} s"


def title(text: str, length: int = MAX_TITLE) -> str:
    r"""The first words of a message, without its attachments and its markup.

    A table or a code block counts only if there is nothing else. The title is then its
    name, or its first line.

    Examples
    --------
    >>> title("**orders** (1 rows)\n\n```csv\nid,n\na,1\n```\n\nWhich is **late**?")
    'Which is late?'
    >>> title("**orders.csv**\n\n| id |\n| --- |\n| a |")
    'orders.csv'
    >>> title("```sql\nSELECT 1\n```")
    'SELECT 1'
    """
    if not any(mark in text[:MAX_READ] for mark in _MARKS):
        return shorten(text, length)
    words: list[str] = []
    others: list[str] = []
    for line, is_attached in _lines(text[:MAX_READ]):
        (others if is_attached else words).append(_BLOCK.sub("", line, count=1))
        if sum(map(len, words)) > 2 * length:
            break
    line = shorten(" ".join(words or others[:1]) or text, 2 * length + 1)
    return shorten(_CODE.sub(r"\1", _BOLD.sub(r"\1", line)), length)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines with words, and whether each belongs to an attachment or its name."""
    fence = ""  # of the code block that is open
    heading: re.Match[str] | None = None  # a bold line, whose meaning depends on the next line
    for line in map(str.strip, text.split("\n")):
        mark = _FENCE.match(line)
        is_attached = bool(fence or mark or line.startswith("|"))
        if heading is not None and line:
            yield (heading["name"], True) if is_attached else (heading[0], False)
            heading = None
        if fence:
            is_end = mark is not None and mark[1].startswith(fence) and line.strip(fence[0]) == ""
            if is_end:
                fence = ""
            elif line:
                yield line, True
        elif mark is not None:
            fence = mark[1]
        elif len(line) <= MAX_NAME and (bold := _BOLD_LINE.match(line)):
            heading = bold
        elif line.strip("|-: "):
            yield line, is_attached
    if heading is not None:
        yield heading[0], False


_THOUGHT = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)


def thought(text: str) -> tuple[str, str]:
    r"""What a model wrote to think, and its reply.

    Some models write it into the reply, before it, between two tags.

    Examples
    --------
    >>> thought("<think>\nOne and one...\n</think>\n\nTwo."), thought("Two.")
    (('One and one...', 'Two.'), ('', 'Two.'))
    """
    found = _THOUGHT.match(text)
    return (found[1].strip(), text[found.end() :]) if found else ("", text)


# Characters that reorder or hide text: bidirectional embeddings, overrides and
# isolates, invisible operators, tag characters, control characters. Joiners and
# directional marks stay because scripts need them, and so do the tags inside a flag
# emoji.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""`text` with hidden and reordering characters spelled out, such as ``⟨U+202E⟩``.

    Examples
    --------
    >>> visible("invoice\u202efdp.exe")
    'invoice⟨U+202E⟩fdp.exe'
    """
    text = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda match: match[0] if len(match[0]) > 1 else f"⟨U+{ord(match[0]):04X}⟩", text)


def escaped(text: str) -> str:
    r"""`text`, which is JSON, with the same characters escaped.

    Examples
    --------
    >>> escaped('["\u202e"]')
    '["\\u202e"]'
    """
    return _HIDDEN.sub(lambda match: match[0] if len(match[0]) > 1 else json.dumps(match[0])[1:-1], text)


def one_line(text: str, length: int) -> str:
    r"""The beginning of `text` on one line, for a terminal.

    Examples
    --------
    >>> one_line("two\nlines \x1b[2J", 30)
    'two lines ⟨U+001B⟩[2J'
    """
    return visible(" ".join(text[: 20 * length].split()))[:length]


def ipython_shell() -> Any:
    """IPython's shell; None outside IPython, which is not imported for it."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel."""
    return hasattr(ipython_shell(), "kernel")


def check_text(text: Any, label: str = "The message") -> str:
    """`text`, if it can be sent to the platform.

    Parameters
    ----------
    text : str
    label : str
        How the error message begins.

    Raises
    ------
    TypeError
        If `text` is not a string.
    ValueError
        If it is not valid Unicode, such as half an emoji: no request can carry it.

    Examples
    --------
    >>> check_text("Where is my order?")
    'Where is my order?'
    >>> check_text(5)
    Traceback (most recent call last):
    TypeError: The message must be a string, not int: pass a str.
    """
    if not isinstance(text, str):
        is_path = isinstance(text, os.PathLike)
        advice = 'pass its content, path.read_text(encoding="utf-8")' if is_path else "pass a str"
        raise TypeError(f"{label} must be a string, not {type(text).__name__}: {advice}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{label} is not valid Unicode and cannot be sent: character {error.start} is "
            f"{text[error.start]!a}, half of a character that was cut or wrongly decoded. "
            'Fix it at its source, or replace it with a "?": text.encode("utf-8", "replace").decode().'
        ) from None
    return text


def replace_surrogates(text: str) -> str:
    """`text` with a question mark for each half of a surrogate pair.

    Broken JSON may contain such halves, and UTF-8 cannot encode them.

    Examples
    --------
    >>> replace_surrogates("cut \\ud83d")
    'cut ?'
    >>> replace_surrogates("complete \\U0001f600") == "complete \\U0001f600"
    True
    """
    return text.encode("utf-8", "replace").decode("utf-8")
