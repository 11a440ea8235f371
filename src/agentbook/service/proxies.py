"""The address of a client, even if its requests come through a proxy.

Limits count by address, so the rule is strict. A sender can write anything in
``X-Forwarded-For``, so it is read only on connections from a proxy that the operator
named, and only up to the first address that is not such a proxy. ``--public-url``
implies a proxy, so a proxy on this machine is then trusted. A client with an IPv6
address has a whole network of them, which counts as one address.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable

from .errors import Headers, OperatorError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_IPV6_HOST_BITS = 64  # chosen freely by one subscriber (RFC 6177, RFC 8981)


class TrustedProxies:
    """The proxies whose ``X-Forwarded-For`` is believed.

    Parameters
    ----------
    networks
        Addresses such as ``10.0.0.7``, and networks such as ``10.0.0.0/8``.

    Raises
    ------
    OperatorError
        An entry is neither an address nor a network.

    Examples
    --------
    >>> proxies = TrustedProxies(["127.0.0.1"])
    >>> "127.0.0.1" in proxies, "192.0.2.7" in proxies
    (True, False)
    >>> headers = [(b"x-forwarded-for", b"6.6.6.6, 192.0.2.7")]
    >>> proxies.client_address("127.0.0.1", headers)
    '192.0.2.7'
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        try:
            self.networks = [ipaddress.ip_network(network) for network in networks]
        except ValueError as error:
            raise OperatorError(f"--trusted-proxy takes an address or a network such as 10.0.0.0/8: {error}.") from None

    def __contains__(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self.networks)

    def client_address(self, peer: str, headers: Headers) -> str:
        """Return the address that a request comes from.

        Parameters
        ----------
        peer
            The address at the other end of the connection.
        headers
            The request's headers.
        """
        if peer not in self:
            return peer
        values = b",".join(value for name, value in headers if name == b"x-forwarded-for").decode("latin-1")
        address = peer
        for entry in reversed(values.split(",")):  # each proxy appends the address that it saw
            parsed = _parse(entry.strip())
            if parsed is None:
                break
            address = str(parsed)
            if address not in self:
                break
        return address


@functools.lru_cache(maxsize=4096)
def counted_address(address: str) -> str:
    """Return what an address counts as in limits: IPv6 addresses count by their /64.

    Examples
    --------
    >>> counted_address("2001:db8:0:1:a:b:c:d"), counted_address("192.0.2.7")
    ('2001:db8:0:1::', '192.0.2.7')
    """
    parsed = _parse(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = ipaddress.IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS)
    return address if parsed is None else str(parsed)


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own.

    Examples
    --------
    >>> [is_loopback(address) for address in ("127.0.0.1", "::1", "192.0.2.7")]
    [True, True, False]
    """
    parsed = _parse(address)
    return parsed is not None and parsed.is_loopback


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address, with the port that some proxies add.

    IPv4 addresses in IPv6 form, as a dual-stack listener shows them, are IPv4.
    """
    host = address.partition("]")[0].removeprefix("[") if address.startswith("[") else address
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
