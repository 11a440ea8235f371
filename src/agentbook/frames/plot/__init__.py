"""Charts of sessions and credentials.

Each chart aggregates its data first, has a text alternative, and is saved as SVG, PNG,
PDF or HTML. In a running notebook it has tooltips, and marks can be selected. Charts
need the extra ``lab`` (Altair and vl-convert), which is imported when the first one is
drawn.
"""

from typing import Any

from ..._text import missing_attribute
from .bars import credentials, failures, initiators
from .changes import comparison
from .over_time import failure_rate, latency
from .patterns import activity_heatmap, prompt_latency
from .session import turn_timeline, waterfall

__all__ = [
    "activity_heatmap",
    "comparison",
    "credentials",
    "failure_rate",
    "failures",
    "initiators",
    "latency",
    "prompt_latency",
    "turn_timeline",
    "waterfall",
]


def __getattr__(name: str) -> Any:
    raise missing_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return __all__
