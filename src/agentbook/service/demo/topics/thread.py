"""A thread of a conversation, and how its slots and choices are filled."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its answer; `tools` are the subtasks that ran in between."""

    ask: str
    reply: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation: its session's name, its exchanges in order, and in one sentence what came out of it."""

    name: str
    gist: str
    exchanges: tuple[Exchange, ...] = field(default_factory=tuple)


_POOLS: dict[str, tuple[str, ...]] = {
    "customer": (
        "Lindqvist & Sons",
        "Harbour Clinic",
        "Montoya Robotics",
        "Kestrel Foods",
        "Blue Fern Studio",
        "Okafor Logistics",
        "Ravel Instruments",
        "Tideway Marina",
    ),
    "product": (
        "the Meridian balance",
        "the Solo sensor",
        "the Quanta controller",
        "the Field Kit",
        "the Orchard gateway",
        "the Lumen probe",
    ),
    "person": ("Ada", "Grace", "Alan", "Katherine", "Edsger", "Barbara", "Margaret"),
    "city": ("Gothenburg", "Porto", "Leeds", "Ghent", "Kraków", "Lyon", "Trieste"),
    "service": ("checkout", "billing-api", "search", "device-gateway", "auth", "reports"),
    "region": ("eu-north", "eu-west", "us-east", "ap-south"),
    "table": ("orders", "readings", "shipments", "subscriptions", "returns"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "carrier": ("Northline", "PostNord", "Swift & Co", "DPD"),
    "plan": ("Starter", "Team", "Laboratory", "Enterprise"),
    "topic": ("calibration", "firmware updates", "data export", "two-factor sign-in", "battery life"),
}


def slots(rng: random.Random) -> dict[str, str]:
    """One value for every slot, the same throughout a session."""
    drawn = {name: rng.choice(pool) for name, pool in _POOLS.items()}
    percent = rng.randint(3, 41)
    return drawn | {
        "order": f"A-{rng.randint(10000, 99999)}",
        "ticket": f"T-{rng.randint(2000, 9999)}",
        "serial": f"{rng.choice('MSQFL')}{rng.randint(100000, 999999)}",
        "amount": f"€{rng.randint(40, 4800):,}.{rng.choice(('00', '50', '90'))}",
        "count": str(rng.randint(12, 960)),
        "small": str(rng.randint(2, 9)),
        "minutes": str(rng.choice((5, 8, 12, 15, 20, 25, 40))),
        "percent": str(percent),
        "other_percent": str(max(1, percent - rng.randint(1, 12))),
        "version": f"{rng.randint(2, 5)}.{rng.randint(0, 14)}.{rng.randint(0, 6)}",
        "ms": str(rng.randint(180, 4200)),
        "month": rng.choice(("July", "August", "September", "October")),
        "quarter": rng.choice(("Q2", "Q3", "Q4")),
    }


def fill(text: str, values: Mapping[str, str], rng: random.Random) -> str:
    """`text` with its choices made and its slots filled.

    Examples
    --------
    >>> fill("[Where|Where] is {order}?", {"order": "A-1"}, random.Random(0))
    'Where is A-1?'
    """
    chosen = _CHOICE.sub(lambda found: rng.choice(found[1].split("|")), text)
    return chosen.format_map(values)
