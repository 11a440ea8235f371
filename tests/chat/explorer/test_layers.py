"""The model of the explorer knows no widgets, and its widget knows no model."""

from __future__ import annotations

import pytest

from chat.prompt_lab.test_layers import imported

MODELS = ("axes", "code", "columns", "conversation", "crossfilter", "filters", "model", "svg", "source", "views")


@pytest.mark.parametrize("module", [*MODELS, "static_html"])
def test_the_model_imports_no_widgets(module: str) -> None:
    names = imported(f"explorer.{module}")
    assert not names & {"anywidget", "ipywidgets", "traitlets", "explorer.view", "explorer.explorer"}
    assert not {name for name in names if name.split(".")[0] == "widgets"}


def test_the_widget_reaches_the_model_only_through_its_callbacks() -> None:
    assert not {name for name in imported("explorer.view") if name.startswith("explorer.") or name.startswith("model")}
