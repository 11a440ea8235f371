"""The cost of answers, and the budget of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..frames.analysis.prices import PriceTable, cost_of


class Budget:
    """Lets questions through as long as the cost of a run stays below a limit.

    An open question is assumed to cost as much as the most expensive answer so far.
    Until the first answer, only one question is asked at a time.

    Attributes
    ----------
    spent : float
        The cost of the answers so far.
    reason : str or None
        Why no further questions are let through.
    """

    def __init__(self, max_cost: float | None, prices: PriceTable | None) -> None:
        self.spent = 0.0
        self.reason: str | None = None
        self._max_cost, self._prices = max_cost, prices
        self._highest_cost: float | None = None
        self._open = 0
        self._settled = asyncio.Event()

    async def reserve(self) -> bool:
        """Wait until it is known whether another question fits below the limit."""
        while self._max_cost is not None and self.reason is None:
            expected = self.spent + (self._open + 1) * (self._highest_cost or 0.0)
            is_first = self._highest_cost is None and self._open == 0
            if is_first or (self._highest_cost is not None and expected <= self._max_cost):
                break
            if self._open == 0:
                self.reason = (
                    f"The run stopped before max_cost={self._max_cost:g}: {self.spent:g} is spent, and the next "
                    f"question may cost {self._highest_cost:g}."
                )
                break
            self._settled.clear()
            await self._settled.wait()
        self._open += self.reason is None
        return self.reason is None

    def cost(self, usage: Mapping[str, Any]) -> float | None:
        """The cost of a turn; None if it is not known."""
        return None if self._prices is None else cost_of(usage, self._prices)

    def settle(self, cost: float | None, usage: Mapping[str, Any], *, answered: bool) -> None:
        """Count what a question cost."""
        self._open -= 1
        self._settled.set()
        if cost is not None:
            self.spent += cost
            self._highest_cost = max(cost, self._highest_cost or 0.0)
        elif answered and self._max_cost is not None:
            priced = usage.get("tokens") is not None
            missing = f"a price for the model {usage.get('model')!r}" if priced else "tokens on the events of a reply"
            self.reason = f"The run stopped because max_cost= cannot be enforced without {missing}."
