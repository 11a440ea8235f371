# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Finance, in a workspace restricted to its members."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "Closing {month}",
        "{month} can close when the freight invoice of {carrier} is booked.",
        (
            Exchange(
                "[What is still open for {month}?|Can we close {month}?]",
                "Two things: the freight invoice of {carrier} is not booked, and {small} expenses lack a receipt.",
                ("list_entries", "find_invoice", "compare"),
            ),
            Exchange(
                "Who owes the receipts?",
                "{person} owes two, the others are from the trip to {city}. I can write to them.",
                ("list_entries",),
            ),
            Exchange(
                "Please do, politely.",
                "Written: *“One receipt is all that keeps {month} open. Could you send it by {weekday}?”*",
                ("send_mail", "send_mail"),
            ),
        ),
    ),
    Thread(
        "Payment of {customer}",
        "{customer} paid {amount} without a reference; it belongs to order {order}.",
        (
            Exchange(
                "There is a payment of {amount} [without a reference|we cannot place]. Whose is it?",
                "The amount matches exactly one open invoice: order {order} of {customer}. Their bank is in {city}, as is the sender's.",
                ("list_payments", "find_invoice", "compare"),
            ),
            Exchange("Book it.", "Booked against {order}. The account of {customer} is balanced.", ("book_payment",)),
        ),
    ),
)
