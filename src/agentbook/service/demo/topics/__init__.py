# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""What the demo's people and agents talk about: one module per workspace, written as threads of exchanges.

A thread is a conversation that makes sense from beginning to end. Its sentences leave room: ``{order}`` is a slot, filled once per
session so that a conversation stays about one order, and ``[a|b]`` is a choice of wording.
"""

from __future__ import annotations

from . import data, finance, on_call, onboarding, playground, release, sales, shared, support
from .thread import Exchange, Thread

# Workspace name -> the threads of its chats.
CHATS: dict[str, tuple[Thread, ...]] = {
    "support": support.CHATS,
    "data": data.CHATS,
    "release": release.CHATS,
    "on-call": on_call.CHATS,
    "sales": sales.CHATS,
    "finance": finance.CHATS,
    "onboarding": onboarding.CHATS,
    "playground": playground.CHATS,
    "shop": support.CHATS,
    "notes": onboarding.NOTES,
}
ALERTS = on_call.ALERTS
DIGESTS = release.DIGESTS
BUILDS = release.BUILDS
TRIALS = playground.TRIALS
FOLLOW_UPS = shared.FOLLOW_UPS

__all__ = ["ALERTS", "BUILDS", "CHATS", "DIGESTS", "FOLLOW_UPS", "TRIALS", "Exchange", "Thread"]
