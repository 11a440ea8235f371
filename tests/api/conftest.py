from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.raw_platform import RawPlatform


@pytest.fixture
def platform() -> Iterator[RawPlatform]:
    with RawPlatform() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
