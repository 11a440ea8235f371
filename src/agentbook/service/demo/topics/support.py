# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""The support desk: orders, returns, devices that misbehave, accounts."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "Order {order}: where is it?",
        "Order {order} left {city} with {carrier} and arrives on {weekday}.",
        (
            Exchange(
                "[Hello, where is my order {order}?|Can you find out where order {order} is?|{customer} asks about order {order}. Where is it?]",
                "Order {order} left our warehouse in {city} with {carrier}. The last scan was this morning, and delivery is planned for **{weekday}**.",
                ("find_order", "track_parcel"),
            ),
            Exchange(
                "[Can it be delivered to another address?|They moved. Can we change the address?]",
                "{carrier} allows one change of address until the parcel is on the van. I can request it now; I need the new street and postcode.",
                ("carrier_rules",),
            ),
            Exchange(
                "Please request it: the new office in {city}.",
                "Done. {carrier} confirmed the change, and the tracking page shows the new address. Delivery stays on {weekday}.",
                ("change_address", "track_parcel"),
            ),
            Exchange(
                "What if nobody is there on {weekday}?",
                "The driver tries once more on the next working day, then leaves it at the nearest parcel shop for seven days.",
            ),
        ),
    ),
    Thread(
        "Return of {product}",
        "{customer} may return {product} within 30 days; the refund of {amount} follows two days after it is back.",
        (
            Exchange(
                "{customer} [wants to return|would like to send back] {product}. [Is that possible?|What are the steps?]",
                "Yes. It was bought less than 30 days ago, so it can come back in its box. I prepared a return label for order {order}.",
                ("find_order", "return_policy", "make_label"),
            ),
            Exchange(
                "They have thrown the box away.",
                "Then any sturdy box will do. The policy asks for packaging that protects the device, not for the original one.",
                ("return_policy",),
            ),
            Exchange(
                "When do they [get their money|see the refund]?",
                "Two working days after we receive it. The refund is {amount}, to the card that was used.",
                ("refund_rules",),
            ),
        ),
    ),
    Thread(
        "{product} loses its connection",
        "Unit {serial} kept losing its connection because its firmware was older than {version}; updating it fixed that.",
        (
            Exchange(
                "[A customer says|{customer} writes] that {product} [keeps disconnecting|drops off the network every few minutes]. Serial {serial}.",
                "Unit {serial} runs firmware older than {version}, which has a known fault: it does not renew its address. Updating should cure it.",
                ("find_device", "search_known_issues", "read_telemetry"),
            ),
            Exchange(
                "How do they update it?",
                "1. Connect the device to power.\n2. Open *Settings → Device → Firmware*.\n3. Choose {version} and wait about {minutes} minutes; the light turns green.",
                ("search_manual",),
            ),
            Exchange(
                "[They did, and it still blinks red.|Done, but the light is red.]",
                "Red means that the download was cut off. Hold the button for ten seconds and start again; nothing is lost by repeating it.",
                ("search_manual", "read_telemetry"),
            ),
            Exchange(
                "Green now. [Anything to check?|What should we check?]",
                "I watched it for the last {minutes} minutes: no drop since the update. I closed ticket {ticket} with a note.",
                ("read_telemetry", "close_ticket"),
            ),
        ),
    ),
    Thread(
        "Invoice {ticket}",
        "The invoice for {order} was right: the difference of {amount} is the freight to {city}.",
        (
            Exchange(
                "{customer} says invoice {ticket} is [too high|wrong]. Can you check it?",
                "I compared the invoice with order {order}. The items agree; the difference of {amount} is freight to {city}, which the quote listed separately.",
                ("find_invoice", "find_order", "compare"),
            ),
            Exchange(
                "Was the freight in the confirmation they got?",
                "Yes, on the second page, under *Delivery*. I can send them that page again.",
                ("find_mail",),
            ),
            Exchange(
                "Yes, send it [please|with a friendly line].",
                "Sent. I wrote: *“Thank you for looking so closely. The difference is the freight to {city}; the page attached shows it.”*",
                ("send_mail",),
            ),
        ),
    ),
    Thread(
        "Locked out: {customer}",
        "The administrator of {customer} was locked out after {small} wrong codes and signed in again with a recovery code.",
        (
            Exchange(
                "The admin of {customer} [cannot sign in|is locked out]. What happened?",
                "Their account was locked after {small} wrong codes within ten minutes. All attempts came from their usual network in {city}, so it looks like a new phone rather than an attack.",
                ("find_account", "read_sign_ins"),
            ),
            Exchange(
                "[What may I do?|Can I unlock it?]",
                "You may unlock it after a call back to the number on file. Then they use one of their recovery codes and register the new phone.",
                ("security_policy",),
            ),
            Exchange(
                "I called them, all fine. Unlock it.",
                "Unlocked, and noted in {ticket} who called whom. The next sign-in asks for a recovery code.",
                ("unlock_account", "update_ticket"),
            ),
        ),
    ),
    Thread(
        "How to do {topic}",
        "The manual covers {topic} in chapter {small}; the short version is three steps.",
        (
            Exchange(
                "[What do I tell a customer about {topic}?|A customer asks about {topic}. What is the short answer?]",
                "Chapter {small} of the manual covers {topic}. In short: open *Settings*, choose *{topic}*, follow the three steps on the screen. It takes about {minutes} minutes.",
                ("search_manual",),
            ),
            Exchange(
                "Is it the same for {product}?",
                "Nearly. On {product} the third step is confirmed on the device itself, with the button, not in the app.",
                ("search_manual", "find_product"),
            ),
        ),
    ),
)
