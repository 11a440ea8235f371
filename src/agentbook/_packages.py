"""The packages that agentbook is tested with, and which of them an error comes from.

The tested versions are those of ``binder/constraints.txt``, which the package brings.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_OWN = __name__.partition(".")[0]
MEND = ". To mend it: "
_EXTRA = re.compile(r"""([^;]+);.*\bextra == ["'](\w+)""")
_PIN = re.compile(r"^([\w.-]+)==([\w.+!-]+)", re.MULTILINE)


def normalized(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def tested() -> dict[str, list[str]]:
    """The tested versions of distributions: several if systems or Pythons differ."""
    package = Path(__file__).parent
    versions: dict[str, list[str]] = {}
    for file in (package / "constraints.txt", package.parents[1] / "binder" / "constraints.txt"):  # wheel, checkout
        if not versions and file.is_file():
            for name, version in _PIN.findall(file.read_text("utf-8", errors="replace")):
                versions.setdefault(normalized(name), []).append(version)
    return versions


def installed(name: str) -> str | None:
    """The installed version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def install(extra: str) -> str:
    """The command that installs the packages of an extra, by their own names.

    Not ``agentbook[...]``, because that name of the index is not ours.
    """
    found = (_EXTRA.match(line) for line in importlib.metadata.requires(_OWN) or ())
    packages = [f"'{match[1].strip()}'" for match in found if match and match[2] == extra]
    return f"pip install {' '.join(packages)}"


def differing() -> list[str]:
    """The installed requirements of agentbook that are not in a tested version."""
    known, names = tested(), (re.match(r"[\w.-]+", line) for line in importlib.metadata.requires(_OWN) or ())
    required = dict.fromkeys(normalized(name[0]) for name in names if name)
    return [name for name in required if name in known and installed(name) not in (None, *known[name])]


def mend(names: Iterable[str]) -> str:
    """The command that installs the tested versions of distributions."""
    known = tested()
    pins = [f"'{name}=={known[name][-1]}'" if len(known.get(name, ())) == 1 else name for name in names]
    again = "--force-reinstall --no-deps " if any(installed(name) in known.get(name, ()) for name in names) else ""
    return f"{sys.executable} -m pip install {again}{' '.join(pins)}"


def blamed(error: BaseException) -> list[str]:
    """The distributions that an unexpected error probably comes from, best guess first.

    Of those that the failing line uses, the ones in another version than the tested one
    come first, and alone if there are any. Empty if only agentbook and Python are
    involved.
    """
    distributions = importlib.metadata.packages_distributions()
    known = tested()
    for modules in _suspects(error):
        names = list(dict.fromkeys(normalized(name) for each in modules for name in distributions.get(each, ())))
        if names:
            return [name for name in names if installed(name) not in known.get(name, ())] or names
    return []


def explain(error: BaseException) -> str:
    """An unexpected error in one line, with the packages that it may come from.

    The line ends with `MEND` and a command if there are any.
    """
    line = " ".join(traceback.format_exception_only(error)[-1].split())[:300]
    names = blamed(error)
    return f"{line}. It comes from {described(names)}{MEND}{mend(names)}" if names else line


def described(names: Iterable[str]) -> str:
    """Distributions with their installed and tested versions."""
    known = tested()
    return " or ".join(
        f"{name} {installed(name)} (tested: {' or '.join(known.get(name, ['no version']))})" for name in names
    )


def _suspects(error: BaseException) -> Iterator[list[str]]:
    """Top-level modules of others, those nearest to the error first."""
    if isinstance(error, ImportError) and error.name:
        yield _foreign([error.name])
    if isinstance(error, AttributeError):  # compiled modules do not set `obj`
        module = re.match(r"module '([\w.]+)' has no attribute", str(error))
        yield _foreign([module[1] if module else _home(error.obj)])
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        yield _foreign([str(frame.f_globals.get("__name__", "")), *_used(frame)])
    if cause := error.__cause__ or error.__context__:
        yield from _suspects(cause)


def _used(frame: FrameType) -> Iterator[str]:
    """The modules of what one of our functions uses; of others' the function's own."""
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] == _OWN:
        for name in frame.f_code.co_names:
            if (value := frame.f_globals.get(name)) is not None:
                yield _home(value)


def _home(value: Any) -> str:
    """The name of a module, or of the one that a class, function or value is from."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _foreign(modules: list[str]) -> list[str]:
    tops = dict.fromkeys(module.partition(".")[0] for module in modules)
    return [top for top in tops if top and top != _OWN and top not in sys.stdlib_module_names]
