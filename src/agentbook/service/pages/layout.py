"""What the pages of a signed-in person share: the bar, action buttons, dates."""

from __future__ import annotations

from ..web.html import Html, el, header_bar, hidden
from .visitor import Visitor

_PAGES = {"settings": "Settings", "members": "Members", "docs": "API"}


def page_bar(visitor: Visitor, here: str, up: str = "") -> Html:
    """Return the bar of a signed-in page; `up` is the path to the sign-in page."""
    links = [
        el("a", title, href=f"{up}{name}", aria_current="page" if name == here else None)
        for name, title in _PAGES.items()
    ]
    name = visitor.account["name"] if visitor.account else ""
    out = el(
        "form",
        hidden("token", visitor.token("signout")),
        el("button", "Sign out", class_="plain small"),
        method="post",
        action=f"{up}signout",
    )
    return header_bar(el("nav", links, aria_label="Pages"), el("div", el("span", name), out, class_="who"))


def action_button(visitor: Visitor, page: str, action: str, target: str, label: str, name: str) -> Html:
    """Return a button that posts one action on `target` to a page.

    `name` says whom or what the action is for, to those who use a screen reader.
    """
    return el(
        "form",
        hidden("token", visitor.token(f"{action} {target}")),
        hidden("action", action),
        hidden("id", target),
        el("button", label, class_="plain small danger", aria_label=f"{label} {name}"),
        method="post",
        action=page,
    )


def day(instant: str) -> Html:
    """Return the date of an instant."""
    return el("time", instant[:10], datetime=instant)
