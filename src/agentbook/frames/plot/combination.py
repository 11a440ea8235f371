"""Joins the specifications of charts into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Each part keeps its own colours and legends; positions are separate anyway.
_CHANNELS = ("color", "opacity", "shape", "size", "strokeDash")
_TOP = ("$schema", "config", "datasets", "params", "usermeta", "background", "padding", "autosize")


def combined_spec(direction: str, specs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The specification of charts beside or below each other.

    Parameters
    ----------
    direction : {"hconcat", "vconcat"}
    specs : sequence of dict
        Complete Vega-Lite specifications. Their colours are the first one's.

    Returns
    -------
    dict
    list of dict
        For each chart, the new names of its parameters.
    """
    parts, params, names = [], [], []
    datasets: dict[str, Any] = {}
    for number, spec in enumerate(specs, start=1):
        renamed = _Renaming(spec, number)
        parts.append({key: renamed.apply(value) for key, value in spec.items() if key not in _TOP})
        params += [renamed.top_level(param, parts[-1]) for param in spec.get("params", ())]
        datasets.update(spec.get("datasets", {}))
        names.append(renamed.params)
    first = specs[0]
    combined = {
        "$schema": first["$schema"],
        # The titles in a column start at the same place as the plots.
        "config": {**first["config"], "title": {**first["config"].get("title", {}), "frame": "group"}},
        direction: parts,
        "spacing": 28,
        "resolve": {"scale": dict.fromkeys(_CHANNELS, "independent")},
    }
    if params:
        combined["params"] = params
    if datasets:
        combined["datasets"] = datasets
    return combined, names


class _Renaming:
    """Gives the parameters and views of one part names that no other part has."""

    def __init__(self, spec: dict[str, Any], number: int) -> None:
        self._number = number
        self.params = {param["name"]: f"{param['name']}_{number}" for param in spec.get("params", ())}

    def apply(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.apply(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"values"}:  # inline data
            return value
        copy = {key: self.apply(item) for key, item in value.items()}
        if "param" in copy:
            copy["param"] = self.params.get(copy["param"], copy["param"])
        if isinstance(copy.get("name"), str) and not copy.keys().isdisjoint(("mark", "layer")):
            copy["name"] = f"{copy['name']}_{self._number}"
        return copy

    def top_level(self, param: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
        """The parameter as one of the whole chart, with the views it belongs to."""
        copy = {**param, "name": self.params[param["name"]]}
        if "select" not in param:
            return copy
        if "views" in param:
            return {**copy, "views": [f"{name}_{self._number}" for name in param["views"]]}
        part.setdefault("name", f"view_{self._number}")
        return {**copy, "views": [part["name"]]}
