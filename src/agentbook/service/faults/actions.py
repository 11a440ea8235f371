"""What a fault does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..engines.base import Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """Refuse the request. `oauth` writes the error as RFC 6749 does, with `message` as ``error_description``."""

    status: int
    error: str | None
    message: str
    challenge: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Let the request wait, then let it go on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Cut the connection without an answer: ``before`` the request is carried out, or ``after``."""

    when: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Close a socket with this code after so many frames; None cuts the connection without a word."""

    code: int | None
    after_frames: int


@dataclass(frozen=True, slots=True)
class EndTurn:
    """End an agent's turn with this failure."""

    failure: Failure


Action = Answer | Delay | Drop | Cut | EndTurn
