"""Which addresses a client takes: plain http only on this machine, or if allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.address import is_loopback
from agentbook.api.oauth.sign_in import sign_in

USES: dict[str, Callable[..., Any]] = {
    "Client": lambda address, **options: ab.Client(address, credentials="id:S3CRET", **options),
    "AsyncClient": lambda address, **options: ab.AsyncClient(address, credentials="id:S3CRET", **options),
    "connect": lambda address, **options: ab.connect(address, api_key="id:S3CRET", **options),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    "address",
    [
        "http://agents.example.org/v1",
        "http://192.168.0.7:8765/v1",
        "http://127.0.0.1.example.org/v1",
        "http://localhost.example.org/v1",
        "HTTP://Agents.Example.org/v1",
    ],
)
def test_an_unencrypted_address_of_another_machine_must_be_allowed(
    use: Callable[..., Any], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTBOOK_ALLOW_HTTP", raising=False)
    with pytest.raises(ValueError, match=r"not encrypted.*allow_http=True.*AGENTBOOK_ALLOW_HTTP=1"):
        use(address)
    accepted = address.replace("HTTP", "http")
    assert use(address, allow_http=True).base_url == accepted
    monkeypatch.setenv("AGENTBOOK_ALLOW_HTTP", "1")
    assert use(address).base_url == accepted
    with pytest.raises(ValueError, match="not encrypted"):
        use(address, allow_http=False)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    "address",
    [
        *("https://h/v1", "http://127.0.0.1:1/v1", "http://127.9.9.9/v1", "http://localhost/v1", "http://[::1]:1/v1"),
        *("https://h:443/v1", "https://h:65535/v1", "https://h:/v1", "https://münchen.example/v1"),
    ],
)
def test_an_address_that_is_encrypted_or_of_this_machine_is_used(use: Callable[..., Any], address: str) -> None:
    assert use(address, allow_http=False).base_url == address


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://h:99999/v1", "port from 1 to 65535"),
        ("https://h:0/v1", "port from 1 to 65535"),
        ("https://h:8o80/v1", "port from 1 to 65535"),
        ("https://h:٣/v1", "port from 1 to 65535"),
        ("https://user:S3CRET@h/v1", "user name or password"),
        ("https://h o st/v1", "must not hold spaces"),
        ("https://host/v1 /x", "must not hold spaces"),
        ("https://host/\nv1", "must not hold spaces"),
        ("https://host\\@elsewhere/v1", "backslashes"),
        ("https://host/<v1>", "must not hold"),
        (f"https://{64 * 'x'}.test/v1", "must be an address"),
        ("https://h..test/v1", "must be an address"),
    ],
)
def test_an_address_that_cannot_be_reached_is_refused_at_once(
    use: Callable[..., Any], address: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        use(address)
    assert "S3CRET" not in str(raised.value)


def test_a_person_does_not_sign_in_without_encryption() -> None:
    with pytest.raises(ValueError, match="not encrypted"):
        sign_in("http://agents.example.org/v1")


def test_the_other_client_is_allowed_what_this_one_is() -> None:
    client = ab.Client("http://agents.example.org/v1", allow_http=True)
    assert client.asynchronous().base_url == client.base_url


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("http://127.0.0.1/v1", True),
        ("http://[::ffff:127.0.0.1]/v1", True),
        ("http://localhost./v1", True),
        ("http://0.0.0.0/v1", False),
        ("http://127.1.example/v1", False),
    ],
)
def test_loopback_addresses(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
