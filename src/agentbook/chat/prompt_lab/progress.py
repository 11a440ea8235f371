"""How far a run in a cell has come: a progress bar over what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from .answers import Answer, Key
from .experiment import Listener


@contextlib.contextmanager
def counted(missing: set[Key], listen: Callable[[Listener], Callable[[], None]]) -> Iterator[None]:
    """A progress bar over what is missing, moved by the answers as they come; none where nothing is."""
    if not missing:
        yield
        return
    from tqdm.auto import tqdm

    waiting = set(missing)
    bar = tqdm(total=len(waiting), unit=" replies")

    def count(answer: Answer | None) -> None:
        if answer is not None and answer.key in waiting and answer.status in ("answered", "failed"):
            waiting.discard(answer.key)
            bar.update()

    end = listen(count)
    try:
        yield
    finally:
        end()
        bar.close()
