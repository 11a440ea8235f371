r"""JavaScript's regular expressions, translated to Python's.

They look alike but mean different things: in JavaScript, `$` is only the end of the
text, `.` skips four line separators, `\w` is ASCII, `(?i)` is an error, and a character
beyond U+FFFF counts as two. A construct that has no counterpart is rejected with the
reason, so that a pattern never passes here and fails in promptfoo. Patterns have no
flags, as in promptfoo's ``new RegExp(value)``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from . import javascript, patterns

_HEX = "0123456789abcdefABCDEF"
_CLASSES = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "D": r"\x00-/:-\uffff",
    "W": r"\x00-/:-@\[-\^`{-\uffff",
    "S": r"\x00-\x08\x0e-\x1f!-\x9f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\uffff",
}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_QUANTIFIER = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII)
_NAME = re.compile(r"<([A-Za-z_$][\w$]*)>")
_ANY = r"[^\n\r\u2028\u2029]"


class InvalidPattern(ValueError):
    """JavaScript does not accept the pattern either, so promptfoo's assert fails."""


class UnsupportedPattern(ValueError):
    """Valid in JavaScript, but Python would read it differently."""


def search(pattern: str, text: str) -> bool:
    r"""Whether ``new RegExp(pattern).test(text)``.

    Raises
    ------
    InvalidPattern, UnsupportedPattern, SearchFailed

    Examples
    --------
    >>> search(r"^\w+$", "naive"), search(r"^\w+$", "naïve"), search("b$", "b\n")
    (True, False, False)
    """
    return patterns.search(translate(pattern), javascript.code_units(text))


@functools.lru_cache(maxsize=512)
def translate(pattern: str) -> re.Pattern[str]:
    """The pattern for Python, which searches `javascript.code_units` of a text.

    Raises
    ------
    InvalidPattern
        If JavaScript rejects it.
    UnsupportedPattern
        If it uses something that Python's patterns cannot express. The message names
        it.
    """
    parser = _Parser(javascript.code_units(pattern))
    try:
        return re.compile(parser.parse(), re.ASCII)
    except (InvalidPattern, UnsupportedPattern):
        raise
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise UnsupportedPattern(f"Python cannot run it: {error}.") from error


@dataclass
class _Parser:
    """One pass over a pattern; `groups` are the names of the capturing groups."""

    text: str
    at: int = 0
    groups: list[str] = field(default_factory=list)
    closed: set[int] = field(default_factory=set)
    references: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)

    def parse(self) -> str:
        self.total, self.named = _count_groups(self.text)
        source = self._alternatives(0)
        if self.at < len(self.text):
            raise InvalidPattern("Unmatched ')'.")
        if self.references & self.repeated:
            raise UnsupportedPattern(
                "it refers back to a group that is repeated, which JavaScript empties before each repetition."
            )
        return source

    def _peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _alternatives(self, depth: int) -> str:
        if depth > 80:
            raise UnsupportedPattern("its groups are nested too deeply.")
        parts: list[str] = []
        while self.at < len(self.text) and not self._peek(")"):
            if self._peek("|"):
                self.at += 1
                parts.append("|")
                continue
            first_group = len(self.groups)
            atom, quantifiable = self._atom(depth)
            parts.append(atom + self._quantifier(atom, quantifiable, first_group))
        return "".join(parts)

    def _quantifier(self, atom: str, quantifiable: bool, first_group: int) -> str:
        if self.at >= len(self.text):
            return ""
        char, counted = self.text[self.at], _QUANTIFIER.match(self.text, self.at)
        if char not in "*+?" and counted is None:
            return ""
        if not quantifiable:
            raise InvalidPattern("Nothing to repeat.")
        if atom.startswith(("(?=", "(?!")):
            raise UnsupportedPattern("it repeats a lookahead.")
        quantifier, repetitions = char, 1 if char == "?" else 2
        if counted is not None:
            low, comma, high = counted.groups()
            if high and int(low) > int(high):
                raise InvalidPattern("Numbers out of order in {} quantifier.")
            quantifier, repetitions = counted[0], int(high or low) if high or not comma else 2
        self.at += len(quantifier)
        if repetitions > 1:
            self.repeated.update(range(first_group + 1, len(self.groups) + 1))
        if self._peek("?"):
            self.at += 1
            quantifier += "?"
        elif self.at < len(self.text) and (self.text[self.at] in "*+" or _QUANTIFIER.match(self.text, self.at)):
            raise InvalidPattern("Nothing to repeat.")  # possessive in Python
        if self.at < len(self.text) and (self.text[self.at] in "*+?" or _QUANTIFIER.match(self.text, self.at)):
            raise InvalidPattern("Nothing to repeat.")
        return quantifier

    def _atom(self, depth: int) -> tuple[str, bool]:
        """Return the next atom, and whether it may be repeated."""
        char = self.text[self.at]
        if char in "*+?" or _QUANTIFIER.match(self.text, self.at):
            raise InvalidPattern("Nothing to repeat.")
        if char == "(":
            return self._group(depth)
        if char == "[":
            return self._class(), True
        if char == "\\":
            return self._escape()
        self.at += 1
        return {".": (_ANY, True), "^": (r"\A", False), "$": (r"\Z", False)}.get(char, (re.escape(char), True))

    def _group(self, depth: int) -> tuple[str, bool]:
        opening, number, quantifiable = self._opening()
        body = self._alternatives(depth + 1)
        if not self._peek(")"):
            raise InvalidPattern("Unterminated group.")
        self.at += 1
        if number:
            self.closed.add(number)
        return f"{opening}{body})", quantifiable

    def _opening(self) -> tuple[str, int, bool]:
        for opening in ("(?:", "(?=", "(?!", "(?<=", "(?<!"):
            if self._peek(opening):
                self.at += len(opening)
                return opening, 0, not opening.startswith("(?<")
        name = ""
        if self._peek("(?"):
            match = _NAME.match(self.text, self.at + 2)
            if match is None:
                if re.compile(r"\(\?[ims-]*:").match(self.text, self.at):
                    raise UnsupportedPattern("flags within a pattern depend on the version of Node.")
                raise InvalidPattern("Invalid group: JavaScript has no (?i), (?P<name>), (?>…) or (?#…).")
            name, self.at = match[1], match.end()
            if name in self.groups:
                raise InvalidPattern("Duplicate capture group name.")
        else:
            self.at += 1
        self.groups.append(name)
        return "(", len(self.groups), True

    def _escape(self) -> tuple[str, bool]:
        self.at += 1
        if self.at >= len(self.text):
            raise InvalidPattern("\\ at end of pattern.")
        char = self.text[self.at]
        if char in "bB":
            self.at += 1
            return f"\\{char}", False
        if char in _CLASSES:
            self.at += 1
            return f"[{_CLASSES[char]}]", True
        if char in "123456789":
            digits = re.compile(r"\d+", re.ASCII).match(self.text, self.at)
            number = int(digits[0]) if digits else 0
            if number <= self.total:
                self.at += len(str(number))
                return self._reference(number), True
        if char == "k" and self.named:
            match = _NAME.match(self.text, self.at + 1)
            if match is None or match[1] not in self.named:
                raise InvalidPattern("Invalid named reference.")
            self.at = match.end()
            return self._reference(self.named[match[1]]), True
        return re.escape(self._character()), True

    def _reference(self, number: int) -> str:
        if number not in self.closed:
            raise UnsupportedPattern("it refers to a group that is not closed yet, which JavaScript takes for empty.")
        self.references.add(number)
        # A group that did not participate is empty in JavaScript; in Python a reference
        # to it never matches.
        return f"(?:(?({number})\\{number}|))"

    def _character(self) -> str:
        """The character of an escape; its letter is at the current position."""
        char = self.text[self.at]
        self.at += 1
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "xu":
            size = 2 if char == "x" else 4
            digits = self.text[self.at : self.at + size]
            if len(digits) == size and all(digit in _HEX for digit in digits):
                self.at += size
                return chr(int(digits, 16))
            return char
        if char == "c":
            letter = self.text[self.at : self.at + 1]
            if letter.isascii() and letter.isalpha():
                self.at += 1
                return chr(ord(letter) % 32)
            self.at -= 1  # a backslash, and then the letter
            return "\\"
        if char in "01234567":
            octal = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?").match(self.text, self.at - 1)
            digits = octal[0] if octal else char
            self.at += len(digits) - 1
            return chr(int(digits, 8))
        return char

    # Classes

    def _class(self) -> str:
        self.at += 1
        negated = self._peek("^")
        self.at += negated
        items: list[str] = []
        while not self._peek("]"):
            if self.at >= len(self.text):
                raise InvalidPattern("Unterminated character class.")
            items.append(self._class_item())
        self.at += 1
        if not items:  # in JavaScript, [] matches nothing, and [^] matches anything
            return r"[\x00-\uffff]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{''.join(items)}]"

    def _class_item(self) -> str:
        low = self._class_member()
        if not self._peek("-") or self.text.startswith("-]", self.at) or self.at + 1 >= len(self.text):
            return low if len(low) > 1 else _escaped(low)
        self.at += 1
        high = self._class_member()
        if len(low) > 1 or len(high) > 1:  # a set cannot end a range: the hyphen is literal
            return "".join(item if len(item) > 1 else _escaped(item) for item in (low, "-", high))
        if low > high:
            raise InvalidPattern("Range out of order in character class.")
        return f"{_escaped(low)}-{_escaped(high)}"

    def _class_member(self) -> str:
        """A character, or the ranges of a set such as ``\\d``."""
        if self.at >= len(self.text):
            raise InvalidPattern("Unterminated character class.")
        char = self.text[self.at]
        self.at += 1
        if char != "\\":
            return char
        if self.at >= len(self.text):
            raise InvalidPattern("\\ at end of pattern.")
        letter = self.text[self.at]
        if letter in _CLASSES:
            self.at += 1
            return _CLASSES[letter]
        if letter == "b":
            self.at += 1
            return "\b"
        return self._character()


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}"


def _count_groups(text: str) -> tuple[int, dict[str, int]]:
    """The number of capturing groups, and the numbers of those with a name."""
    bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])*+(?:\]|\Z)", lambda match: "." * len(match[0]), text, flags=re.DOTALL)
    openings = re.findall(r"\((?!\?)|\(\?<([A-Za-z_$][\w$]*)>", bare)
    return len(openings), {name: number for number, name in enumerate(openings, 1) if name}
