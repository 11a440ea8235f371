r"""The TeX that a formula may use: an allow-list of commands and environments.

Commands that define something, or that address or style the page outside their formula,
are left out. So are commands that MathJax parses more than once (`overbracket`),
because nesting doubles their time. Commands that move, measure or colour are allowed
only with bounded arguments (`ARGUMENTS`). The names are those of MathJax 3.2.2, as
JupyterLab 4.6 loads it: all packages, and `require`. A command that a later MathJax
adds is refused until someone has read what it does.
"""

from __future__ import annotations

import re
from importlib.resources import files

# A backslash and one of these; a line break after a backslash is a space.
_SINGLE = "\\,:;!> \n{}|#$%&_"

_LISTS = files(__package__).joinpath("tex_commands.txt").read_text("utf-8")
*_GROUPS, _ENVIRONMENT_NAMES = re.split("^#.*\n", _LISTS, flags=re.MULTILINE)
COMMANDS = frozenset([*_SINGLE, *" ".join(_GROUPS).split()])
ENVIRONMENTS = frozenset(_ENVIRONMENT_NAMES.split())

# Possessive, so that spaces do not make them backtrack.
_LENGTH = r"\s*+\d{0,2}(?:\.\d++)?\s*+(?:em|ex|mu|pt|pc|px|mm|cm|in)\s*+"
# Not further back than the thin spaces that TeX has commands for, or a line of text: a
# formula must not cover what comes before it.
_BACK = r"\s*+-\s*+(?:0?\.\d++\s*+(?:em|ex|mm)|(?:\d|1[0-8])(?:\.\d++)?\s*+mu|\d(?:\.\d++)?\s*+(?:pt|px))\s*+"
_SPACE = rf"(?:{_LENGTH}|{_BACK})"
_SPACE_ARGUMENT = rf"(?:\s*+\{{{_SPACE}\}}|{_SPACE})"
_ENVIRONMENT = rf"\s*+\{{(?:{'|'.join(map(re.escape, sorted(ENVIRONMENTS)))})\}}"
_COLOR = r"(?:\[[A-Za-z]{1,5}\])?\s*+\{[A-Za-z0-9#., ]++\}"
_NO_OPTION = r"(?!\s*+\[)"
# What must follow a command.
ARGUMENTS = {
    name: re.compile(pattern)
    for names, pattern in (
        ("begin end", _ENVIRONMENT),
        ("color textcolor", _COLOR),
        ("hspace", rf"\*?\s*+\{{{_SPACE}\}}"),
        ("hskip kern mkern mskip mspace raise lower", _SPACE_ARGUMENT),
        # After a line break, brackets hold the distance to the next line.
        (r"\ newline cr", rf"(?:\s*+\*?+\s*+\[{_SPACE}\]|(?!\s*+\*?+\s*+\[))"),
        # In brackets, they accept attributes.
        ("cancel bcancel xcancel cancelto", _NO_OPTION),
        # Without a brace, MathJax reads half of a line break and then a command.
        ("cases matrix pmatrix displaylines eqalign", r"\s*+\{"),
    )
    for name in names.split()
}

# What matters in TeX for `is_unsafe_tex`: commands, braces and comments.
_TOKEN = re.compile(r"\\([A-Za-z]+|.)|[{}%]|\\\Z", re.DOTALL)


def is_allowed(command: re.Match[str]) -> bool:
    """Whether a command, whose name is the first group, may be typeset."""
    name = command[1]
    return name in COMMANDS and (name not in ARGUMENTS or bool(ARGUMENTS[name].match(command.string, command.end())))


def is_unsafe_tex(tex: str) -> bool:
    r"""Whether TeX could affect the page outside its own formula.

    Definitions do, because they apply to the whole page. Only the commands and
    environments that are allowed do not. A comment, or a brace or backslash without its
    counterpart, may hide where a formula ends.

    Examples
    --------
    >>> is_unsafe_tex(r"\frac{\alpha}{2}"), is_unsafe_tex(r"\def\alpha{x}")
    (False, True)
    """
    depth = 0
    for token in _TOKEN.finditer(tex):
        if token[1] is None:
            depth += {"{": 1, "}": -1}.get(token[0], -len(tex))
            if depth < 0:
                return True
        elif not is_allowed(token):
            return True
    return depth != 0
