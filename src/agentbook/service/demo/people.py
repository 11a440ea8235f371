"""The demo's accounts and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class People:
    """The ids of accounts and keys by name."""

    accounts: Mapping[str, str]
    keys: Mapping[str, str]
