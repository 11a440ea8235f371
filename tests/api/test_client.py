"""A client's life: addresses, connections, interrupts, closing."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from support.raw_platform import RawPlatform

KEY = "id1:secret"


def test_an_unreachable_platform_is_one_clear_error() -> None:
    with ab.Client("http://127.0.0.1:9/v1", deadline_s=0.3) as client, pytest.raises(ab.ConnectionFailed) as raised:
        client.agents.get("a")
    assert "http://127.0.0.1:9/v1" in str(raised.value)
    assert "agentbook doctor" in str(raised.value)


@pytest.mark.parametrize("kind", [ab.Client, ab.AsyncClient])
def test_a_client_shows_what_the_manual_names(kind: type[ab.Client | ab.AsyncClient]) -> None:
    shown = [name for name in dir(kind("http://127.0.0.1:9/v1")) if not name.startswith("_")]
    assert len(shown) <= 18
    manual = (Path(__file__).parents[2] / "docs").glob("*.md")
    words = set(re.findall(r"\w+", "".join(page.read_text() for page in manual)))
    assert set(shown) <= words


def test_an_interrupt_ends_a_request_at_once(platform: RawPlatform) -> None:
    platform.reply = b""  # none comes

    def interrupt() -> None:
        while not platform.requests:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with ab.Client(platform.base_url) as client:
        threading.Thread(target=interrupt).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.me.get()
        assert time.monotonic() - began < 30


def test_a_silent_platform_is_a_deadline_and_not_a_hang(platform: RawPlatform) -> None:
    platform.reply = b""
    with ab.Client(platform.base_url, timeout_s=0.1, deadline_s=0.5) as client:
        with pytest.raises((ab.DeadlineExceeded, ab.ConnectionFailed)):
            client.me.get()
        with pytest.raises(ab.OutcomeUnknown):
            client.sessions.send("s", "hello")


@pytest.mark.parametrize("content", [None, "no certificate\n"], ids=["absent", "damaged"])
def test_certificates_that_cannot_be_read_are_named(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with (
        ab.Client("https://127.0.0.1:9/v1") as client,
        pytest.raises(ab.AgentbookError, match="SSL_CERT_FILE=") as raised,
    ):
        client.me.get()
    assert str(file) in str(raised.value)
    assert asyncio.run(failure_of(ab.AsyncClient("https://127.0.0.1:9/v1"))) == str(raised.value)


async def failure_of(client: ab.AsyncClient) -> str:
    async with client:
        with pytest.raises(ab.AgentbookError) as raised:
            await client.me.get()
    return str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["myid:S3CRET", "ftp://u:S3CRET@h/v1", "u:S3CRET@h/v1", "http://u:S3CRET\u2100@h", "https://[S3CRET/v1", None, 7],
)
def test_what_is_no_address_is_not_shown(address: Any) -> None:
    with pytest.raises(ValueError, match="base_url must be an address") as raised:
        ab.Client(address)
    assert "S3CRET" not in "".join(traceback.format_exception(raised.value))
    assert ("looks like an API key" in str(raised.value)) == (address == "myid:S3CRET")


def test_credentials_of_another_kind_are_named() -> None:
    with ab.Client("http://127.0.0.1:9/v1") as other:
        for credentials in (other.credentials, ("id", "secret"), 7):
            with pytest.raises(TypeError, match=r"credentials must be an API key.*\.auth"):
                ab.Client("http://127.0.0.1:9/v1", credentials=credentials)  # type: ignore[arg-type]


def test_times_that_are_no_numbers_are_named() -> None:
    for wrong in ("30", None, -1, float("nan"), float("inf"), 1e10):
        for name in ("timeout_s", "deadline_s"):
            with pytest.raises(ValueError, match=f"{name} must be a number of seconds above 0, not .*a week"):
                ab.Client("http://127.0.0.1:9/v1", **{name: wrong})


CUT = "cut in an emoji \ud83d"


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.agents.get(CUT),
        lambda c: c.agents.update("a", tags=["x", CUT]),
        lambda c: c.agents.list(search=CUT).first(),
        lambda c: c.request("POST", "agents", json={"params": {"deep": [CUT]}}),
        lambda c: c.request("GET", f"agents/{CUT}"),
    ],
)
def test_half_a_character_is_refused_before_anything_is_sent(act: Any) -> None:
    with ab.Client("http://127.0.0.1:9/v1") as client, pytest.raises(ab.InvalidInput, match="half of a char") as raised:
        act(client)
    assert not isinstance(raised.value, UnicodeError)
    str(raised.value).encode()


def test_whole_numbers_of_any_kind_are_limits() -> None:
    index = type("Index", (), {"__index__": lambda self: 3})()
    with ab.Client("http://127.0.0.1:9/v1") as client:
        assert client.agents.list(limit=index, offset=index).list_call.limit == 3
        for wrong in (True, 3.0, "3", -1):
            with pytest.raises(ValueError, match="limit must be a whole number"):
                client.agents.list(limit=wrong)  # type: ignore[arg-type]
