"""The doors down the road: the only places where `api` reaches for a package below it.

A listing turns into a frame and a session into a stream on the same objects that made the requests, so these few names are
imported when they are used, and here alone; a test holds the rest of the package to the order of the house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ..client import AsyncClient, Client
    from ..events.stream import AsyncEventStream, EventStream
    from ..events.turns import Turn
    from ..listing import AsyncListing, Listing


def listing_to_pandas(listing: Listing, progress: bool | None, reveal: bool) -> pd.DataFrame:
    from ..frames.load.listing import load_listing

    return load_listing(listing, progress, reveal=reveal)


async def listing_to_pandas_async(listing: AsyncListing, progress: bool | None, reveal: bool) -> pd.DataFrame:
    from ..frames.load.listing import load_listing_async

    return await load_listing_async(listing, progress, reveal=reveal)


def frame_to_arrow(frame: pd.DataFrame) -> Any:
    from ..frames.export import to_arrow

    return to_arrow(frame)


def frame_to_polars(frame: pd.DataFrame) -> Any:
    from ..frames.export import to_polars

    return to_polars(frame)


def stream(client: Client, session_id: str, **asked: Any) -> EventStream:
    from ..events.stream import EventStream

    return EventStream(client, session_id, **asked)


def stream_async(client: AsyncClient, session_id: str, **asked: Any) -> AsyncEventStream:
    from ..events.stream import AsyncEventStream

    return AsyncEventStream(client, session_id, **asked)


def ask(client: Client, session_id: str, text: str, timeout_s: float | None) -> Turn:
    from ..events.ask import ask

    return ask(client, session_id, text, timeout_s)


async def ask_async(client: AsyncClient, session_id: str, text: str, timeout_s: float | None) -> Turn:
    from ..events.ask import ask_async

    return await ask_async(client, session_id, text, timeout_s)
