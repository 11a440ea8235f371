"""What the parts of the form share: the lab, the work in progress, and its controls.

Clicks may arrive on any thread, so their handlers only hand work over to the toolkit's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import anywidget
import ipywidgets as widgets

from ...api.errors import AgentbookError
from ...evaluation.variant import Variant
from ...events import loop
from ..assets import read_module
from ..html.sanitize import escape, visible
from ..model.user_errors import explain
from ..widgets.parts import Parts, answer_while_busy, button, show
from .lab import AgentLab

T = TypeVar("T")
BUSY = "Something else is in progress, so this was not done: wait for its end, or press Stop, and try again."
STOPPED = "Stopped. The replies so far are kept; Run continues, and first looks for late replies."


class Form:
    """Given to each part: the lab, and one piece of work at a time.

    Parameters
    ----------
    lab : Lab
    redraw : callable
        Called after something has changed, on the toolkit's thread.

    Attributes
    ----------
    parts : Parts
        Makes widgets.
    status : dict of str to Widget
        The status lines.
    line : str
        The status line of the work, or of the last.
    outdated : bool
        Whether all parts have to be drawn.
    replaced : bool
        Whether a file or a run has replaced what was typed.
    configurations : int
        The lab's count when its versions were last read.
    """

    def __init__(self, lab: AgentLab, redraw: Callable[[], None]) -> None:
        self.lab, self.redraw = lab, redraw
        self.parts = Parts()
        self.status: dict[str, Any] = {}
        self.line = ""
        self.outdated = True
        self.replaced = False
        self.configurations = lab.configurations
        self._defaults: dict[str, Callable[[], str]] = {}
        self._messages: dict[str, tuple[str, bool]] = {}  # of each line: its text, and whether it is an error
        self._task: asyncio.Task[None] | None = None
        self._work: Callable[..., object] | None = None  # what the task does
        self._ended = False

    def redraw_all(self) -> None:
        """Note that all parts have to be drawn."""
        self.outdated = True
        self.redraw()

    async def read_versions(self) -> None:
        """Read the agent's versions again, after it was changed."""
        self.configurations = self.lab.configurations
        await self.lab.read_agent()
        self.redraw_all()

    # Status lines

    def status_line(self, line: str, default: Callable[[], str] = str) -> Any:
        """The widget of a status line; without a message it shows the default."""
        self._defaults[line] = default
        self.status[line] = self.parts.html("", "ab-lab-status")
        return self.status[line]

    def message(self, line: str) -> str:
        """What a status line was made to say; empty if nothing."""
        return self._messages.get(line, ("", False))[0]

    def say(self, text: str, line: str, *, error: bool = False) -> None:
        """Make a status line say something."""
        self._messages[line] = (text, error)
        self.redraw()

    def clear(self) -> None:
        """Make all status lines show their defaults: an error may be mended."""
        self._messages.clear()

    def forget(self, line: str) -> None:
        """Make a status line show its default, unless it reports an error."""
        if not self.busy and not self._messages.get(line, ("", False))[1]:
            self._messages.pop(line, None)

    def draw_status(self) -> None:
        """Draw the status lines; an empty one would leave a gap."""
        for line, widget in self.status.items():
            text, error = self._messages.get(line, ("", False))
            text, working = text or self._defaults[line](), self.busy and line == self.line
            body = f'<div class="ab-failed">{escape(text)}</div>' if error else f"<span>{escape(text)}</span>"
            dot = '<span class="ab-dot"></span>' if working else ""
            widget.value = f'<div class="ab-statusline">{dot}{body}</div>'
            show(widget, bool(text) or working)

    # Work

    @property
    def busy(self) -> bool:
        """Whether work is in progress."""
        return self._task is not None

    def later(self, work: Callable[..., Any]) -> Callable[..., None]:
        """A handler for what arrives on any thread; the toolkit's does the work."""

        def hand_over(*_: Any) -> None:
            loop.get_loop().call_soon_threadsafe(work)

        return hand_over

    def button(self, label: str, tooltip: str, work: Callable[[], Any], line: str, kind: str = "ab-other") -> Any:
        """A button that does something, reported in a status line.

        What takes time is a coroutine; anything else returns what the line says.
        """
        return button(label, kind, tooltip, self.later(self._act(work, line)))

    def question(self, label: str, tooltip: str, work: Callable[[], Any], line: str) -> Question:
        """A question whose answer does something, as a button does."""
        return Question(self, label, tooltip, self._act(work, line))

    def applying(self, apply: Callable[[], Coroutine[Any, Any, None]], line: str) -> Applying:
        """The questions before the agent is changed."""
        return Applying(self, apply, line)

    def _act(self, work: Callable[[], Any], line: str) -> Callable[[], None]:
        return partial(self.start if inspect.iscoroutinefunction(work) else self.attempt, work, line)

    def attempt(self, work: Callable[[], str], line: str) -> None:
        """Do something that takes no time; the line reports the result or the error."""
        if not self.busy:
            self.clear()
        self._messages.pop(line, None)
        try:
            self.say(work() or self.message(line), line)
        except (ValueError, TypeError) as error:
            self.say(str(error), line, error=True)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], line: str) -> None:
        """Start `work`, and report its errors in the line.

        While something is in progress, the line says that this one has to wait. The
        same again does nothing: a second click may be on its way before the first has
        disabled the button.
        """
        if self._task is None and not self._ended:
            self.line, self._work = line, work
            self.clear()
            self._task = asyncio.get_running_loop().create_task(self._report(work(), line))
            self.redraw()
        elif self._task is not None and work != self._work:
            self.say(BUSY, line)

    async def _report(self, work: Coroutine[Any, Any, None], line: str) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self.say(STOPPED, line)
        except AgentbookError as error:
            self.say(explain(error).text, line, error=True)
        except (ValueError, TypeError, OSError, ImportError) as error:
            self.say(str(error), line, error=True)
        finally:
            self._task = None
            self.redraw_all()

    def stop(self) -> None:
        """Cancel the work."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Cancel the work, and start no more."""
        self._ended = True
        self.stop()


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Do work in a worker thread; the task is cancelled when the interpreter ends."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except RuntimeError as error:
        if "shutdown" in str(error):  # the interpreter is ending, and its threads accept no more work
            raise asyncio.CancelledError from None
        raise


# Controls


def title(text: str) -> str:
    """The heading of a section, as safe HTML."""
    return f'<div class="ab-lab-title" role="heading" aria-level="4">{escape(text)}</div>'


def note(text: str, *, error: bool = False) -> str:
    """A remark below a field, as safe HTML; empty without a text."""
    return f'<div class="{"ab-failed" if error else "ab-foot"}" role="status">{escape(text)}</div>' if text else ""


def region(kind: str, label: str, body: str) -> str:
    """Safe HTML in a part of the page that may be wider than its place."""
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{label}">{body}</div>'


def table(label: str, head: str, body: str) -> str:
    """Headings and rows as a table, as safe HTML."""
    html = f'<table class="ab-lab-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return region("ab-scroll", label, html)


def field(widget: Any, *classes: str) -> Any:
    """A control with its label above it, which also works while a cell is running."""
    for name in ("ab-field", *classes):
        widget.add_class(name)
    widget.style.description_width = "initial"
    answer_while_busy(widget)
    return widget


# Without continuous updates a text arrives in one message, ahead of the click on a
# button, which would otherwise overtake the last letters typed.


def text_field(label: str, placeholder: str = "", *classes: str) -> Any:
    """A field of one line."""
    return field(widgets.Text(description=label, placeholder=placeholder, continuous_update=False), *classes)


def text_area(label: str, rows: int, placeholder: str = "") -> Any:
    """A field of several lines."""
    return field(widgets.Textarea(description=label, placeholder=placeholder, rows=rows, continuous_update=False))


def combobox(label: str, placeholder: str, *classes: str) -> Any:
    """A field of one line that offers choices; others may be typed."""
    return field(widgets.Combobox(description=label, placeholder=placeholder, continuous_update=False), *classes)


def checkbox(label: str, value: bool) -> Any:
    """A checkbox; hidden characters of its label are written out."""
    box = widgets.Checkbox(value=value, description=visible(label), indent=False)
    box.add_class("ab-tick")
    answer_while_busy(box)
    return box


class Choice:
    """A dropdown with a default; what a person has chosen stays while it exists.

    Attributes
    ----------
    widget : Dropdown
    """

    def __init__(self, label: str) -> None:
        self.widget = field(widgets.Dropdown(description=label, options=[("none yet", "")]), "ab-grow")
        self._default = ""

    @property
    def value(self) -> str:
        """What is chosen; empty if there is nothing to choose."""
        return str(self.widget.value or "")

    @value.setter
    def value(self, value: str) -> None:
        self.widget.value = value

    def offer(self, labels: Mapping[str, str] | Sequence[str], default: str = "") -> None:
        """Offer values, by label if they have other ones, and choose the default."""
        values = dict(zip(labels, labels, strict=True)) if not isinstance(labels, Mapping) else dict(labels)
        chosen = self.value
        options = tuple((label, value) for value, label in values.items()) or (("none yet", ""),)
        if tuple(self.widget.options) != options:
            self.widget.options = options
        if chosen not in values or chosen == self._default:
            chosen = self._default = default if default in values else next(iter(values), "")
        self.value = chosen


class Fold:
    """A button that shows and hides rarely needed controls, which are hidden at first.

    With the name of an `icon`, the button is one, and the controls float over the form.

    Attributes
    ----------
    widget : Widget
    """

    def __init__(self, parts: Parts, label: str, tooltip: str, children: Sequence[Any], icon: str = "") -> None:
        self._button = button(label, "ab-fold", tooltip, lambda: self.open("ab-hidden" in self._body._dom_classes))
        for name in ("ab-button", "ab-icon", f"ab-{icon}") if icon else ("ab-small",):
            self._button.add_class(name)
        self._body = parts.box(children, "ab-drawer" if icon else "ab-lab-fold", "ab-hidden")
        self.widget = parts.box([self._button, self._body], "ab-lab-folded")

    def open(self, shown: bool = True) -> None:
        """Show what it holds, or hide it."""
        show(self._body, shown)
        (self._button.add_class if shown else self._button.remove_class)("ab-unfolded")


class Question:
    """A question with a button to confirm and one to cancel, over the form; hidden.

    Attributes
    ----------
    widget, text : Widget
    confirm, cancel : Button
    """

    def __init__(self, form: Form, label: str, tooltip: str, act: Callable[[], None]) -> None:
        parts, confirm, self._act = form.parts, form.later(act), act
        self.text = parts.html()
        self.confirm = button(label, "ab-main", tooltip, lambda: self._close(confirm))
        self.cancel = button("Cancel", "ab-other", "Change nothing (Esc)", self._close)
        answers = parts.row([self.confirm, self.cancel], "ab-lab-row")
        self.widget = parts.box([self.text, answers], "ab-drawer", "ab-hidden")

    def ask(self, question: str, *, needed: bool = True) -> None:
        """Show the question; if it is not needed, act at once."""
        if not needed:
            self._act()
            return
        self.text.value = f'<div role="alert">{escape(question)}</div>'
        show(self.widget, True)

    def _close(self, then: Callable[[], None] = lambda: None) -> None:
        show(self.widget, False)
        then()


class Applying:
    """Asks before the agent is changed, and once more if the comparison is open.

    Attributes
    ----------
    first, again : Question
    """

    def __init__(self, form: Form, apply: Callable[[], Coroutine[Any, Any, None]], line: str) -> None:
        self._lab, self._open = form.lab, ""
        self.first = form.question("Apply it", "Commit the new version now", self._confirm, line)
        self.again = form.question("Apply all the same", "Commit it without a verdict", apply, line)

    def ask(self, variant: Variant, effect: str) -> str:
        """Ask, or say that the agent already runs on this configuration."""
        if text := self._lab.unchanged_text(variant):
            return text
        said, self._open = self._lab.verdict_on(variant)
        self.first.ask(f"{said} {effect}".lstrip())
        return ""

    def _confirm(self) -> str:
        self.again.ask(self._open, needed=bool(self._open))
        return ""


class FormAccessibility(anywidget.AnyWidget):
    """Gives the form of plain widgets its keys and its roles; shows nothing itself."""

    _esm = read_module("lab/form.js")

    def __init__(self) -> None:
        super().__init__(layout=widgets.Layout(display="none"))

    def __repr__(self) -> str:
        return "FormAccessibility()"
