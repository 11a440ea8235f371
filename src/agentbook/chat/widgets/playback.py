"""Play, pause, position and speed of a replay.

The page's module has controls of its own; those here are for pages without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ipywidgets as widgets

from ...events import loop
from .parts import answer_while_busy, button

SPEEDS = (0.5, 1.0, 2.0, 5.0, 10.0)
AT_ONCE = "at once"


class PlaybackLike(Protocol):
    """Where a replay is; see `chat.model.player.Playback`."""

    @property
    def playing(self) -> bool: ...
    @property
    def position_s(self) -> float: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def speed(self) -> float: ...


@dataclass(frozen=True, slots=True)
class PlaybackActions:
    """What the controls do; called on any thread."""

    play: Callable[[], object]
    pause: Callable[[], object]
    seek: Callable[[float], object]
    set_speed: Callable[[float], object]


def speeds(current: float) -> dict[str, float]:
    """The speeds to choose from, by label; the current one is among them."""
    return {speed_label(speed): speed for speed in sorted({*SPEEDS, current})}


def speed_label(speed: float) -> str:
    """``2×``, or ``at once``."""
    return AT_ONCE if math.isinf(speed) else f"{speed:g}×"


class PlaybackControls:
    """A row of plain widgets.

    Attributes
    ----------
    widget : HBox
    toggle : Button
        Plays or pauses.
    position : FloatSlider
        Seconds of the recording.
    speed : Dropdown
    """

    def __init__(self, playback: PlaybackLike, actions: PlaybackActions) -> None:
        self._actions = actions
        self._playing = playback.playing
        self.toggle = button("", "ab-play", "", self._press)
        self.position = widgets.FloatSlider(
            description="Position (s)", min=0.0, max=max(playback.duration_s, 0.1), step=0.1, readout_format=".1f",
            continuous_update=False, layout=widgets.Layout(flex="1 1 240px", width="auto", min_width="0"),
        )  # fmt: skip
        self.speed = widgets.Dropdown(description="Speed", layout=widgets.Layout(width="auto"))
        for control, act in ((self.position, actions.seek), (self.speed, actions.set_speed)):
            # Changes on the toolkit's thread are our own; a person's arrive on other
            # threads.
            control.observe(lambda change, act=act: None if loop.on_loop_thread() else act(change["new"]), "value")
            answer_while_busy(control)
        self.widget: Any = widgets.HBox([self.toggle, self.position, self.speed])
        self.widget.add_class("ab-playback")

    def _press(self) -> None:
        (self._actions.pause if self._playing else self._actions.play)()

    def draw(self, playback: PlaybackLike) -> None:
        """Show where the replay is; on the toolkit's thread."""
        self._playing = playback.playing
        ended = playback.position_s >= playback.duration_s
        self.toggle.description = "Pause" if playback.playing else "Play again" if ended else "Play"
        self.toggle.tooltip = "Pause here" if playback.playing else "Continue, or start again at the end"
        options = speeds(playback.speed)
        if dict(self.speed.options) != options:
            self.speed.options = options
        self.speed.value = playback.speed
        self.position.value = round(playback.position_s, 1)
