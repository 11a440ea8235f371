"""The manual's page on deployment: nginx as it stands there, the rest statically."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import click
import httpx
import pytest
import yaml
from websockets.sync.client import connect

from agentbook.cli import main, serve
from service.databases import Cluster, database_url, give_back, server_binaries, without_tables
from service.process import Service, command, furnished
from service.world import basic
from support.certificate import make_certificate
from support.processes import PlatformOfProcesses

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n".join((DOCS / f"{name}.md").read_text("utf-8") for name in ("deployment", "proxy", "operation"))


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[number]


def assert_serves(arguments: list[str]) -> None:
    """Check that `agentbook serve` accepts these."""
    assert arguments[0] == "serve"
    serve.make_context("serve", arguments[1:])


def test_every_command_of_the_page_is_accepted() -> None:
    commands = [
        shlex.split(line.replace("$database", "postgresql://u@h/d"))
        for text in re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)
        for line in text.replace("\\\n", " ").splitlines()
    ]
    ours = [
        parts[1:] for parts in commands if parts and parts[0].rpartition("/")[2] == "agentbook" and "=" not in parts[0]
    ]
    assert len(ours) >= 5
    for parts in ours:
        group, name = main, parts.pop(0)
        while isinstance(target := group.commands[name], click.Group):
            group, name = target, parts.pop(0)
        target.make_context(name, parts)


def test_the_unit_is_well_formed_and_its_command_is_accepted() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    assert set(unit) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.startswith("/"), "systemd takes absolute paths"
    assert_serves(arguments)
    drain_s = float(arguments[arguments.index("--drain") + 1])
    assert int(unit["Service"]["TimeoutStopSec"]) > drain_s


def test_the_compose_file_is_well_formed_and_its_command_is_accepted() -> None:
    compose = yaml.safe_load(block("yaml"))
    platform = compose["services"]["platform"]
    assert_serves(platform["command"])
    assert set(platform["depends_on"]) <= set(compose["services"])
    for service in compose["services"].values():
        assert set(service["secrets"]) <= set(compose["secrets"])
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(compose["volumes"])


@pytest.fixture(scope="module")
def platform(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformOfProcesses]:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not tested: it is not here; `apt-get install nginx-light` brings it")
    database = tmp_path_factory.mktemp("database")
    url = database_url(cluster.url, database)
    folder = tmp_path_factory.mktemp("services")
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=database)
    with PlatformOfProcesses(folder, url, scripted=True) as running:
        yield running
    give_back(database)


@pytest.fixture(scope="module")
def front(platform: PlatformOfProcesses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of nginx with the page's configuration, other ports and paths."""
    folder = tmp_path_factory.mktemp("nginx")
    certificate, key = make_certificate(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = block("nginx")
    for page, ours in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/nginx/platform.example.pem": str(certificate),
        "/etc/nginx/platform.example.key": str(key),
        "10.0.0.11:8765": f"127.0.0.1:{platform.services[0].facts['port']}",
        "10.0.0.12:8765": f"127.0.0.1:{platform.services[1].facts['port']}",
    }.items():
        assert configuration.count(page) == 1
        configuration = configuration.replace(page, ours)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{configuration}}}\n"
    )
    process = subprocess.Popen(["nginx", "-p", str(folder), "-e", str(folder / "error.log"), "-c", "nginx.conf"])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "error.log").read_text()
                time.sleep(0.02)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def http(platform: PlatformOfProcesses, front: str) -> Iterator[httpx.Client]:
    key = platform.key("agents:write", "sessions:write", "workspaces:write")
    id_, _, secret = key.partition(":")
    with httpx.Client(base_url=f"{front}/v1", auth=(id_, secret), verify=False, timeout=60) as client:
        client.headers["X-Key"] = key
        yield client


def test_requests_and_sockets_pass_nginx(http: httpx.Client, front: str) -> None:
    [session] = furnished(http, "x" * 200_000)
    trust = ssl._create_unverified_context()
    url = f"{front.replace('https', 'wss')}/v1/sessions/{session}/events/ws?from_id={'0' * 8}-0000-0000-0000-{'0' * 12}"
    headers = {"Authorization": basic(http.headers["X-Key"])}
    with connect(url, additional_headers=headers, ssl=trust, open_timeout=60, max_size=None) as events:
        assert '"type":"message"' in str(events.recv(timeout=60))
        while '"type":"runtime_done"' not in str(events.recv(timeout=60)):
            pass
    assert http.get(f"/sessions/{session}/events").json()["pagination"]["total_count"] >= 2


def test_what_is_for_operators_stays_behind_nginx(http: httpx.Client, front: str) -> None:
    for path in ("/metrics", "/healthz", "/readyz", "/_admin/faults", "/_proof?nonce=0123456789abcdef"):
        assert http.get(front + path).status_code == 404
    assert http.get(f"{front}/.well-known/oauth-authorization-server").status_code == 200


def test_a_dump_of_the_running_platform_is_a_platform(
    http: httpx.Client, platform: PlatformOfProcesses, cluster: Cluster, tmp_path: Path
) -> None:
    """As the page does it, with other names."""
    http.post("/workspaces", json={"name": "kept"})
    revoked = platform.key("workspaces:read")
    other = database_url(cluster.url, tmp_path)
    without_tables(other)
    (tmp_path / "ended.sql").write_text(block("sql"))
    dump, create, load = block("bash", -2).splitlines()
    assert "createdb" in create, "the tests have a database already"
    run_in(tmp_path, dump, platform.database, other)
    command("keys", "revoke", revoked, "--database", platform.database, data=tmp_path)
    for line in (load, *block("bash", -1).splitlines()):
        run_in(tmp_path, line, platform.database, other)
    key = http.headers["X-Key"]
    with Service(tmp_path / "service", scripted=True, database=other) as restored:
        with restored.http(revoked) as client:
            assert client.get("/me").status_code == 401
        with restored.http(key) as client:
            assert client.get("/workspaces/kept/sessions").json()["items"] == []
            body = {"session_type": "chat", "agent_id": client.post("/agents", json={"name": "new"}).json()["id"]}
            started = client.post("/workspaces/kept/sessions", json=body | {"initial_prompt": "hello"}).json()
            while len(events := client.get(f"/sessions/{started['id']}/events").json()["items"]) < 2:
                time.sleep(0.01)
            assert {event["type"] for event in events} == {"message", "runtime_done"}
        assert restored.stop() == 0
    give_back(tmp_path)


def run_in(folder: Path, line: str, database: str, other: str) -> None:
    """Run a command of the page on these databases instead of its own."""
    # The client's programs are not always beside the server's.
    folders = [Path("/usr/bin"), server_binaries() or Path(), *Path("/usr/lib/postgresql").glob("*/bin")]
    words = shlex.split(line)
    words[0] = str(next(folder / words[0] for folder in folders if (folder / words[0]).exists()))
    for page, ours in {
        "postgresql://agentbook@db.example/agentbook_new": other,
        "postgresql://agentbook@db.example/agentbook": database,
    }.items():
        words = [word.replace(page, ours.replace("+psycopg", "")) for word in words]
    subprocess.run(words, check=True, timeout=120, capture_output=True, cwd=folder)


def test_nginx_goes_to_another_process(http: httpx.Client, platform: PlatformOfProcesses) -> None:
    """Runs last: it kills one."""
    platform.remove(platform.services[0], signal.SIGKILL)
    assert {http.get("/me").status_code for _ in range(6)} == {200}
