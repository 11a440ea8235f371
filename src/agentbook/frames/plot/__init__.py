"""Charts of sessions and credentials.

Each chart aggregates its data first, has a text alternative, and is saved as SVG or
PNG. Charts need the extra ``lab`` (Altair and vl-convert), which is imported when the
first one is drawn.
"""

from typing import Any

from ..._names import missing_attribute
from .activity_chart import activity_heatmap
from .bar_charts import credentials, failures
from .latency_chart import latency
from .timeline import turn_timeline

__all__ = ["activity_heatmap", "credentials", "failures", "latency", "turn_timeline"]


def __getattr__(name: str) -> Any:
    raise missing_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return __all__
