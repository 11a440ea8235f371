"""The module that gives a form of plain widgets its keys and its roles."""

from __future__ import annotations

import anywidget
import ipywidgets as widgets

from ..assets import read_module


class FormModule(anywidget.AnyWidget):
    """A widget that shows nothing itself, among the children of the form."""

    _esm = read_module("lab/form.js")

    def __init__(self) -> None:
        super().__init__(layout=widgets.Layout(display="none"))

    def __repr__(self) -> str:
        return "FormModule()"
