"""The form's checks that do not fit a line of text: adds, edits and removes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...evaluation.checks import Check, parse_checks
from .check_fields import DEFAULTS, KINDS, describe_check, format_check, notebook_functions, read_check
from .check_form import CheckForm
from .form_context import FormContext

CHECKS = "checks"  # the status line


class ChecksPart:
    """The checks.

    Parameters
    ----------
    context : FormContext
    read_lines : callable
        Returns the checks that were typed as lines.
    add_line : callable
        Adds a line to these.

    Attributes
    ----------
    form : CheckForm
    status : Widget
        The status line.
    """

    def __init__(
        self,
        context: FormContext,
        read_lines: Callable[[], str],
        add_line: Callable[[str], None],
    ) -> None:
        self._lab, self._task, self._read_lines, self._add_line = context.lab, context.task, read_lines, add_line
        later = context.later
        self.status = context.status_line()
        self.form = CheckForm(
            context.parts, KINDS, later(self._add), later(self._edit), later(self._remove), self.status
        )
        self.form.kind.observe(later(self._choose_kind), "value")
        self.form.fields["prompt"].value = DEFAULTS["prompt"]

    def draw(self) -> None:
        """Draw the checks that are not typed as lines."""
        self.form.draw({check.name: describe_check(check) for check in self._others})

    def offer_agents(self, names: list[str]) -> None:
        """Offer these agents as judges."""
        self.form.offer("agent", names)

    @property
    def _others(self) -> list[Check]:
        return [check for check in self._lab.experiment.checks.values() if check.line is None]

    # The buttons: on the toolkit's thread

    def _choose_kind(self) -> None:
        self.form.draw_kind()
        self.form.offer("function", list(notebook_functions()))

    def _add(self) -> None:
        self._task.attempt(self._add_new, CHECKS)

    def _add_new(self) -> str:
        check = read_check(*self.form.read())
        others, lines = self._others, self._read_lines()
        if check.line is None:
            others = [each for each in others if each.name != check.name] + [check]
        else:
            lines = "\n".join(filter(None, [lines.rstrip(), check.line]))
        self._lab.experiment.check(parse_checks(lines, others))
        if check.line is not None:
            self._add_line(check.line)
        self.form.clear()
        when = "Run asks the judge." if not check.is_local else "Existing replies are checked."
        return f"Added the check “{check.name}”. {when}"

    def _edit(self, name: str) -> None:
        self._task.attempt(partial(self._show_check, name), CHECKS)

    def _show_check(self, name: str) -> str:
        check = self._lab.experiment.checks[name]
        if check.kind not in KINDS:
            raise ValueError(f"The check “{name}” is from an evaluation file: change it there.")
        self.form.fill(check.kind, format_check(check))
        self.form.fold.open()
        return f"The fields show “{name}”. “Add the check” replaces it."

    def _remove(self, name: str) -> None:
        self._task.attempt(partial(self._remove_check, name), CHECKS)

    def _remove_check(self, name: str) -> str:
        experiment = self._lab.experiment
        experiment.check([check for check in experiment.checks.values() if check.name != name])
        return f"Removed the check “{name}”."
