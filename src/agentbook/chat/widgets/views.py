"""The views of a panel in a page: the module's, or plain widgets if that fails."""

from __future__ import annotations

from collections.abc import Callable

from ..html.protocols import ConversationLike, ExchangeLike
from ..html.style import hide_static
from .actions import PanelActions
from .page import PanelPage
from .plain import PlainView
from .view_switch import ViewSwitch

# An open code block or table is rendered again with each drawing until it ends: the
# longer it is, the less often it is drawn.
OPEN_CHARACTERS_PER_S = 160_000


class PanelViews:
    """Draws a conversation in whatever view the page can show.

    Parameters
    ----------
    conversation : Conversation
    actions : PanelActions
    uid : str
        The id of the panel's static transcript, which a view hides.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched.
    show : callable
        Receives the widgets to show.

    Attributes
    ----------
    switch : ViewSwitch
    """

    def __init__(
        self,
        conversation: ConversationLike,
        actions: PanelActions,
        uid: str,
        height: str,
        *,
        images: bool,
        show: Callable[..., object],
    ) -> None:
        self._conversation = conversation

        def make_plain(page: PanelPage) -> PlainView:
            plain = PlainView(actions, uid, height, images=page.log.images)
            plain.draw(conversation, set(conversation.exchanges))
            return plain

        self.switch = ViewSwitch(
            lambda on_hello: PanelPage(actions, hide_static(uid), height, images=images, on_hello=on_hello),
            make_plain,
            show,
        )

    @property
    def page(self) -> PanelPage:
        """The page. It is kept up to date even when plain widgets are shown."""
        return self.switch.page

    def pause_s(self) -> float:
        """Seconds to wait before the next drawing."""
        return self.page.log.open_characters(self._conversation.pending) / OPEN_CHARACTERS_PER_S

    def draw(self, changed: set[ExchangeLike]) -> None:
        """Draw the conversation; `changed` are the exchanges to draw again."""
        self.page.draw(self._conversation, changed)
        if self.switch.plain is not None:
            self.switch.plain.draw(self._conversation, changed)

    def switch_pictures(self) -> None:
        """Fetch pictures, or stop; the next `draw` must include all exchanges."""
        images = not self.page.log.images
        self.page.log.load_pictures(images)
        if self.switch.plain is not None:
            self.switch.plain.history.load_pictures(images)

    def write(self, text: str, *, add: bool = False) -> None:
        """Put a text into the box at the next drawing; `add` it, or replace the box."""
        self.page.write(text, add=add)
        if self.switch.plain is not None:
            self.switch.plain.write(text, add=add)
