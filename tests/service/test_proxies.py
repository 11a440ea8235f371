"""Only a trusted proxy says where a request comes from."""

from __future__ import annotations

import pytest

from agentbook.service.errors import OperatorError
from agentbook.service.proxies import LOOPBACK, TrustedProxies, counted_address
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("127.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("::1", ["2001:db8::7"], "2001:db8::7"),
        ("::ffff:127.0.0.1", ["192.0.2.7"], "192.0.2.7"),  # as a listener of both kinds shows it
        ("127.0.0.1", ["6.6.6.6, 192.0.2.7"], "192.0.2.7"),  # what a client adds stands before
        ("127.0.0.1", ["6.6.6.6", "192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", ["192.0.2.7, 10.1.1.1, 10.2.2.2"], "192.0.2.7"),  # a proxy behind a proxy
        ("127.0.0.1", ["10.1.1.1"], "10.1.1.1"),
        ("127.0.0.1", ["192.0.2.7:5123"], "192.0.2.7"),
        ("127.0.0.1", ["[2001:db8::7]:5123"], "2001:db8::7"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["192.0.2.7, unknown"], "127.0.0.1"),
        ("127.0.0.1", ["'; DROP TABLE"], "127.0.0.1"),
        ("192.0.2.9", ["6.6.6.6"], "192.0.2.9"),  # anybody else
        ("", ["6.6.6.6"], ""),
    ],
)
def test_the_address_of_a_request(peer: str, forwarded: list[str], address: str) -> None:
    proxies = TrustedProxies([*LOOPBACK, "10.0.0.0/8"])
    assert proxies.client_address(peer, [(b"x-forwarded-for", value.encode()) for value in forwarded]) == address


@pytest.mark.parametrize("network", ["*", "proxy.example", "10.0.0.1/8", ""])
def test_what_is_no_network_is_refused(network: str) -> None:
    with pytest.raises(OperatorError, match="--trusted-proxy takes an address or a network"):
        TrustedProxies([network])


@pytest.mark.parametrize("trusted", [True, False])
async def test_registrations_are_counted_for_the_client(world: World, trusted: bool) -> None:
    """The peer of a request in this process is 127.0.0.1."""
    if trusted:
        world.platform.proxies = TrustedProxies(LOOPBACK)
    body = {"redirect_uris": ["https://app.example/"]}
    statuses = [
        (
            await world.ask("POST", "/oauth/register", json=body, headers={"X-Forwarded-For": f"192.0.2.{number}"})
        ).status_code
        for number in range(11)
    ]
    assert statuses == [201] * 10 + [201 if trusted else 429]


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:a:b:c:d", "2001:db8:0:1::"),
        ("2001:DB8:0:1::", "2001:db8:0:1::"),
        ("2001:db8:0:2::1", "2001:db8:0:2::"),
        ("fe80::7%eth0", "fe80::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_what_an_address_counts_as(address: str, counted: str) -> None:
    assert counted_address(address) == counted
