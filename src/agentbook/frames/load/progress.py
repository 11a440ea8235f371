"""A progress bar with rows and rate, or none.

It uses tqdm.auto, which shows a widget in a notebook and text outside one.
"""

from __future__ import annotations

from typing import Any, Self


class Progress:
    """Counts rows as they arrive; shows a bar only if `shown` is true.

    If `shown` is another `Progress`, both share one bar, and the other one closes it.
    """

    def __init__(self, shown: bool | Progress | None) -> None:
        self._bar: Any = None
        self._shared = isinstance(shown, Progress)
        if isinstance(shown, Progress):
            self._bar = shown._bar
        elif shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(unit=" rows", unit_scale=True)

    def add(self, rows: int, total: int | None = None) -> None:
        """Count further rows; `total` is how many there will be, if that is known."""
        if self._bar is not None:
            if total is not None and self._bar.total is None:
                self._bar.total = total
            self._bar.update(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None and not self._shared:
            self._bar.close()
