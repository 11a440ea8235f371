"""The views of a comparison in a page: the module's, or plain widgets."""

from __future__ import annotations

from collections.abc import Callable

from ..html.style import hide_static
from ..widgets.view_switch import ViewSwitch
from ..widgets.views import OPEN_CHARACTERS_PER_S
from .actions import CompareActions
from .comparison import Comparison
from .page import ComparePage
from .plain import ComparePlain

# With plain widgets, each streaming column sends a message or two per drawing; together
# they stay below a hundred a second.
MESSAGES_PER_S = 80


class CompareViews:
    """Draws a comparison in whatever view the page can show.

    Parameters
    ----------
    comparison : Comparison
    actions : CompareActions
    uid, height, images, show
        As for `PanelViews`.

    Attributes
    ----------
    switch : ViewSwitch
    """

    def __init__(
        self,
        comparison: Comparison,
        actions: CompareActions,
        uid: str,
        height: str,
        *,
        images: bool,
        show: Callable[..., object],
    ) -> None:
        self._comparison = comparison

        def make_plain(page: ComparePage) -> ComparePlain:
            plain = ComparePlain(actions, uid, height, images=page.images)
            plain.draw(comparison)
            return plain

        self.switch = ViewSwitch(
            lambda on_hello: ComparePage(actions, hide_static(uid), height, images=images, on_hello=on_hello),
            make_plain,
            show,
        )

    @property
    def page(self) -> ComparePage:
        """The page. It is kept up to date even when plain widgets are shown."""
        return self.switch.page

    def pause_s(self) -> float:
        """Seconds to wait before the next drawing, so that a page keeps up."""
        columns = 0 if self.switch.plain is None else len(self._comparison.pending)
        return max(columns / MESSAGES_PER_S, self.page.open_characters / OPEN_CHARACTERS_PER_S)

    def draw(self) -> None:
        """Draw the comparison."""
        self.page.draw(self._comparison)
        if self.switch.plain is not None:
            self.switch.plain.draw(self._comparison)

    def switch_pictures(self) -> None:
        """Fetch pictures from the next `draw` on, or stop doing so."""
        images = not self.page.images
        self.page.load_pictures(images)
        if self.switch.plain is not None:
            self.switch.plain.load_pictures(images)
