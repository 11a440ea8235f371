"""A progress bar with rows and rate, or none. tqdm.auto: it survives notebook comparison, and shows text outside a notebook."""

from __future__ import annotations

from typing import Any, Self


class Progress:
    """Counts rows as they arrive; shows a bar only where `shown` is true."""

    def __init__(self, shown: bool | None) -> None:
        self._bar: Any = None
        if shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(unit=" rows", unit_scale=True)

    def add(self, rows: int, total: int | None = None) -> None:
        """Note further rows; `total` is how many there will be, where that is known."""
        if self._bar is not None:
            if total is not None and self._bar.total is None:
                self._bar.total = total
            self._bar.update(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
