"""The module that gives a form of plain widgets its keys and its roles."""

from __future__ import annotations

from pathlib import Path

import anywidget
import ipywidgets as widgets

from ..widgets.esm import read_module


class FormModule(anywidget.AnyWidget):
    """A widget that shows nothing itself, among the children of the form."""

    _esm = read_module(Path(__file__).parent / "assets" / "form.js")

    def __init__(self) -> None:
        super().__init__(layout=widgets.Layout(display="none"))

    def __repr__(self) -> str:
        return "FormModule()"
