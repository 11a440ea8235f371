"""The rate limit: whose count, until when, and what the refusal looks like."""

from __future__ import annotations

import email.utils
from collections import Counter
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agentbook.service.errors import OperatorError
from agentbook.service.http.app import build
from agentbook.service.http.guard import Window
from agentbook.service.proxies import TrustedProxies, counted_address
from service.process import Service, command
from service.world import World, basic, error

pytestmark = pytest.mark.anyio

REFUSED = (429, "TooManyRequests", "This user has exceeded an allotted request count. Try again later.")


class Hand:
    """A clock that is set by hand."""

    now = 120.0

    def __call__(self) -> float:
        return self.now


def limited(world: World, window: Window, address: str = "192.0.2.1") -> httpx.AsyncClient:
    """The world's platform behind a limit."""
    transport = httpx.ASGITransport(build(world.platform, window=window), client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://test/v1", headers={"Accept": "*/*"})


async def statuses(http: httpx.AsyncClient, count: int, key: str | None = None, path: str = "/agents") -> list[int]:
    headers = {"Authorization": basic(key)} if key else {}
    return [(await http.get(path, headers=headers)).status_code for _ in range(count)]


async def test_the_limit_resets_with_the_next_minute(world: World) -> None:
    clock = Hand()
    async with limited(world, Window(3, clock)) as http:
        assert await statuses(http, 4, world.full) == [200, 200, 200, 429]
        clock.now = 179.999
        assert await statuses(http, 1, world.full) == [429]
        clock.now = 180.0
        assert await statuses(http, 4, world.full) == [200, 200, 200, 429]


async def test_every_key_and_every_address_has_its_own_count(world: World) -> None:
    window = Window(2, Hand())
    other = world.key("acme", "agents:read")
    async with limited(world, window) as http, limited(world, window, "192.0.2.2") as elsewhere:
        assert await statuses(http, 3, world.full) == [200, 200, 429]
        assert await statuses(http, 3, other, "/agents/nowhere") == [404, 404, 429], "a rejected request counts too"
        assert await statuses(http, 3) == [200, 200, 429]
        assert await statuses(elsewhere, 3) == [200, 200, 429]
        assert await statuses(http, 1, world.key("acme", "agents:read")) == [200], "whatever its address has used"
        assert await statuses(elsewhere, 1, world.full) == [429], "a key has one count, wherever it is used"
        bearer = {"Authorization": f"Bearer {world.full}"}
        assert (await http.get("/agents", headers=bearer)).status_code == 429, "and however it is sent"


async def test_the_addresses_of_one_network_share_a_count(world: World) -> None:
    window = Window(2, Hand())
    async with (
        limited(world, window, "2001:db8::1") as http,
        limited(world, window, "2001:db8::2") as same,
        limited(world, window, "2001:db8:0:1::1") as other,
    ):
        assert await statuses(http, 1) + await statuses(same, 2) == [200, 200, 429]
        assert await statuses(other, 1) == [200]


async def test_wrong_secrets_count_against_the_address_and_not_against_the_key(world: World) -> None:
    async with limited(world, Window(3, Hand())) as http:
        await statuses(http, 1, world.full, "/me")
        guesses = [f"{world.full.partition(':')[0]}:{number}" for number in range(4)]
        statuses_ = [(await statuses(http, 1, guess, "/me"))[0] for guess in guesses]
        assert statuses_ == [401, 401, 401, 429]
        assert await statuses(http, 3, world.full, "/me") == [200, 200, 429]


async def test_the_error_is_the_one_of_the_table(world: World) -> None:
    async with limited(world, Window(1, Hand())) as http:
        await http.get("/agents")
        answer = await http.get("/agents")
        assert error(answer) == REFUSED
        assert "retry-after" not in answer.headers
        assert answer.headers["x-request-id"]
        assert "www-authenticate" not in answer.headers
        request = http.build_request("GET", "/agents")
        del request.headers["accept"]
        page = await http.send(request)
        assert page.headers["content-type"].startswith("text/html")
        assert REFUSED[2] in page.text


@given(st.lists(st.tuples(st.sampled_from("abxy"), st.integers(0, 90))))
def test_nobody_exceeds_the_limit_within_a_minute(requests: list[tuple[str, int]]) -> None:
    clock = Hand()
    window = Window(2, clock)
    admitted: Counter[tuple[int, str]] = Counter()
    sent: Counter[tuple[int, str]] = Counter()
    for key, later in requests:
        clock.now += later
        minute = int(clock.now // 60), key
        sent[minute] += 1
        admitted[minute] += window.admit(key)
    assert admitted == {minute: min(2, count) for minute, count in sent.items()}


def test_a_real_service_limits_requests_and_handshakes(tmp_path: Path) -> None:
    command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
    with Service(tmp_path, "--bare", "--requests-per-minute", "5") as service:
        key = service.key("workspaces:read")
        answers = []
        with service.http(key) as http:
            while not answers or answers[-1].status_code != 429:
                answers.append(http.get("/me"))
            assert [answer.status_code for answer in answers[:-1]] == [200] * (len(answers) - 1)
            assert 5 <= len(answers) - 1 <= 10, "the minute may have changed on the way, once"
            assert email.utils.parsedate_to_datetime(answers[-1].headers["date"]).tzinfo is not None
        url = service.base_url.replace("http", "ws", 1) + f"/sessions/{key.partition(':')[0]}/events/ws"
        refused = []
        for _ in range(7):  # a session that is not there: 404 until the allotment of a fresh minute is spent too
            with pytest.raises(InvalidStatus) as caught:
                connect(url, additional_headers={"Authorization": basic(key), "Accept": "*/*"}, open_timeout=60)
            refused.append(caught.value.response)
        assert refused[-1].status_code == 429
        assert {response.status_code for response in refused} <= {404, 429}
        assert REFUSED[2] in refused[-1].body.decode()
        assert refused[-1].headers["X-Request-ID"]
        assert refused[-1].headers["Date"]
        assert "Retry-After" not in refused[-1].headers
        service.stop()


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("127.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("::1", ["2001:db8::7"], "2001:db8::7"),
        ("::ffff:127.0.0.1", ["192.0.2.7"], "192.0.2.7"),  # as a listener of both kinds shows it
        ("127.0.0.1", ["6.6.6.6, 192.0.2.7"], "192.0.2.7"),  # what a client adds stands before
        ("127.0.0.1", ["6.6.6.6", "192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", ["192.0.2.7, 10.1.1.1, 10.2.2.2"], "192.0.2.7"),  # a proxy behind a proxy
        ("127.0.0.1", ["192.0.2.7:5123"], "192.0.2.7"),
        ("127.0.0.1", ["[2001:db8::7]:5123"], "2001:db8::7"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["192.0.2.7, unknown"], "127.0.0.1"),
        ("192.0.2.9", ["6.6.6.6"], "192.0.2.9"),  # anybody else
        ("", ["6.6.6.6"], ""),
    ],
)
def test_the_address_of_a_request(peer: str, forwarded: list[str], address: str) -> None:
    proxies = TrustedProxies(["127.0.0.0/8", "::1", "10.0.0.0/8"])
    assert proxies.client_address(peer, [(b"x-forwarded-for", value.encode()) for value in forwarded]) == address


@pytest.mark.parametrize("network", ["*", "proxy.example", "10.0.0.1/8", ""])
def test_what_is_no_network_is_refused(network: str) -> None:
    with pytest.raises(OperatorError, match="--trusted-proxy takes an address or a network"):
        TrustedProxies([network])


@pytest.mark.parametrize("trusted", [True, False])
async def test_registrations_are_counted_for_the_client(world: World, trusted: bool) -> None:
    """The peer of a request in this process is 127.0.0.1."""
    if trusted:
        world.platform.proxies = TrustedProxies(["127.0.0.0/8"])
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
        ("fe80::7%eth0", "fe80::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unknown", "unknown"),
    ],
)
def test_what_an_address_counts_as(address: str, counted: str) -> None:
    assert counted_address(address) == counted
