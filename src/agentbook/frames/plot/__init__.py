"""Charts of sessions and credentials.

Each chart aggregates its data first, has a text alternative, and is saved as SVG, PNG,
PDF or HTML. In a running notebook it has tooltips, and marks can be selected. Charts
need the extra ``lab`` (Altair and vl-convert), which is imported when the first one is
drawn.
"""

from typing import Any

from ..._text import missing_attribute
from .activity_chart import activity_heatmap
from .bar_charts import credentials, failures
from .comparison_chart import comparison
from .failure_rate_chart import failure_rate
from .initiators_chart import initiators
from .latency_chart import latency
from .prompt_latency_chart import prompt_latency
from .timeline import turn_timeline
from .waterfall_chart import waterfall

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
