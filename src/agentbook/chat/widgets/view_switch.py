"""What a page shows: a module's view, or plain widgets if that cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from .chat_page import ChatPage
from .page_check import PageCheck
from .page_view import OnHello


class PageLike(Protocol):
    """Draws into the page of a chat."""

    @property
    def chat(self) -> ChatPage: ...


class PlainLike(Protocol):
    """The same, made of plain widgets."""

    @property
    def widget(self) -> Any: ...
    def close(self) -> None: ...


PageT = TypeVar("PageT", bound=PageLike)
PlainT = TypeVar("PlainT", bound=PlainLike)


class ViewSwitch(Generic[PageT, PlainT]):
    """Shows a page's view, or plain widgets in its place if its module fails.

    Parameters
    ----------
    make_page : callable
        Makes the page; receives its `on_hello`.
    make_plain : callable
        Makes the plain view and draws it; receives the page, whose state it takes over.
    show : callable
        Receives the widgets to show.

    Attributes
    ----------
    page : PageLike
    plain : PlainLike or None
        None while the module runs.
    check : PageCheck
    """

    def __init__(
        self,
        make_page: Callable[[OnHello], PageT],
        make_plain: Callable[[PageT], PlainT],
        show: Callable[..., object],
    ) -> None:
        self._make_plain, self._show = make_plain, show
        self.plain: PlainT | None = None
        self.check = PageCheck(self._show_probe, self.replace_page, self.show_plain, self.show_page)
        self.page = make_page(self.check.hello)

    def _show_probe(self, probe: Any) -> None:
        view = self.page.chat.widget if self.plain is None else self.plain.widget
        self._show(view) if probe is None else self._show(view, probe)

    def replace_page(self) -> None:
        """Show a new widget, because a page does not receive messages from this one."""
        self._show(self.page.chat.replace())

    def show_plain(self) -> None:
        """Show plain widgets."""
        self.plain = self._make_plain(self.page)
        self._show(self.plain.widget)

    def show_page(self) -> None:
        """Show the module's view again."""
        self._show(self.page.chat.widget)
        if self.plain is not None:
            self.plain.close()
            self.plain = None
