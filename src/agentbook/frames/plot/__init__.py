"""Charts of sessions and credentials.

===================== ================================================================
chart                 what it shows
===================== ================================================================
`activity`            questions, sessions and people, over time
`activity_heatmap`    events, or a measure of turns, by weekday and hour
`latency`             how long replies took, over time
`failures`            failed turns by kind
`failure_rate`        the share of turns that failed, over time
`comparison`          what changed between two spans, by group
`authors`             turns by who asked
`turn_timeline`       the turns of a session and their subtasks
`waterfall`           the steps of one turn
`credentials`         credentials by worst finding
`paths`               which step follows which
===================== ================================================================

`with_text` makes an Altair chart of your own one of these.

Each chart aggregates its data first, has a text alternative, and is saved as SVG, PNG,
PDF or HTML: ``ab.plot.latency(history).save("latency.svg")``. In a running notebook it
has tooltips, and marks can be selected. Charts need the extra ``lab`` (Altair and
vl-convert), which is imported when the first one is drawn.
"""

from typing import TYPE_CHECKING, Any

from ..._text import missing_attribute
from .bars import authors, credentials, failures
from .changes import comparison
from .chart import with_text
from .over_time import activity, failure_rate, latency
from .paths import paths
from .patterns import activity_heatmap
from .session import turn_timeline, waterfall

__all__ = [
    "activity",
    "activity_heatmap",
    "authors",
    "comparison",
    "credentials",
    "failure_rate",
    "failures",
    "latency",
    "paths",
    "turn_timeline",
    "waterfall",
    "with_text",
]


if not TYPE_CHECKING:  # type checkers find misspelt names

    def __getattr__(name: str) -> Any:
        raise missing_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return __all__
