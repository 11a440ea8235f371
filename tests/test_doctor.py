"""The doctor: each thing it looks for is provoked here, and the troubleshooting page lists exactly those."""

from __future__ import annotations

import asyncio
import importlib.metadata
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agentbook
from agentbook import doctor
from agentbook.doctor import finding, machine, notebook, packages
from service.process import Service
from support.certificate import make_certificate

PAGE = Path(agentbook.__file__).parent / "service" / "docs" / "19-troubleshooting.md"
SOURCES = sorted(Path(doctor.__file__).parent.glob("*.py"))
SECRET = "s3cr3t-that-nobody-may-see"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("doctor"), "--speed", "0") as running:
        yield running
        running.stop()


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of one's own: no configuration, no other JupyterLab on the path, an empty working folder."""
    for name in ("BASE_URL", "API_KEY", "LLM_MODEL"):
        monkeypatch.delenv(f"AGENTBOOK_{name}", raising=False)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, folder in (("AGENTBOOK_DATA", "data"), ("IPYTHONDIR", "ipython"), ("XDG_CONFIG_HOME", "config"),
                         ("JUPYTER_DATA_DIR", "jupyter"), ("JUPYTER_CONFIG_DIR", "jupyter-config")):  # fmt: skip
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setattr(notebook, "_lab_on_path", lambda: None)
    monkeypatch.setattr(machine, "MOUNTS", tmp_path / "mounts")


def told(about: str, *words: str, state: str = "wrong") -> doctor.Finding:
    """The one finding about something that is not well, in the state that is expected, with these words; and advice."""
    found = [finding for finding in doctor.examine() if finding.about == about and finding.state != "ok"]
    assert [finding.state for finding in found] == [state], found
    for word in words:
        assert word in f"{found[0].found} {found[0].advice}", found
    assert found[0].advice
    assert "\n" not in found[0].found
    return found[0]


def versions(monkeypatch: pytest.MonkeyPatch, **changed: str | None) -> None:
    """Let distributions have other versions; None for not installed."""
    names = {name.replace("_", "-"): version for name, version in changed.items()}

    def version(name: str) -> str | None:
        return names[name] if name in names else finding.version(name)

    monkeypatch.setattr(notebook, "version", version)
    monkeypatch.setattr(packages, "version", version)


def write(path: Path, content: str | Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@contextmanager
def answering(
    reply: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """The address of a server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply(self)

        do_CONNECT = do_GET  # noqa: N815 - its name in http.server; asked of a proxy

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(time.time() - getattr(self.server, "behind_s", 0.0), usegmt=True)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that does not trust us hangs up

    with Server((host, 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://{host}:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def platform(handler: BaseHTTPRequestHandler) -> None:
    body = b'{"info": {"title": "A platform", "version": "v1"}, "paths": {}}'
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def late_platform(handler: BaseHTTPRequestHandler) -> None:
    handler.server.behind_s = 300.0  # type: ignore[attr-defined]
    platform(handler)


def web_page(handler: BaseHTTPRequestHandler) -> None:
    body = b"<!doctype html><title>Welcome</title>"
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


# -- nothing is wrong --------------------------------------------------------------------------------------------------


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_started(tmp_path: Path) -> None:
    assert [finding for finding in doctor.examine() if finding.state != "ok"] == []
    assert not (tmp_path / "data").exists()


def test_a_configured_platform_is_reached_and_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    key = service.key("agents:read", "workspaces:read")
    monkeypatch.setenv("AGENTBOOK_API_KEY", key)
    found = doctor.examine()
    assert [finding.found for finding in found if finding.about == "credential" and "acme" in finding.found]
    assert all(finding.state != "wrong" for finding in found)
    assert key.partition(":")[2] not in "".join(map(str, found))
    told("scope", "lacks skills:read, integrations:read", "make a key", state="note")


def test_the_running_embedded_service_is_found(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(service.data))
    key = write(service.data / "local-key.json", {"api_key": service.key("agents:read")})
    key.chmod(0o600)
    found = {(finding.about, finding.state): finding.found for finding in doctor.examine()}
    assert found["embedded service", "ok"] == f"answers at {service.base_url} (pid {service.facts['pid']})"
    assert "acme" in found["credential", "ok"]


def test_a_fresh_embedded_service_has_no_key_yet_and_that_is_well(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = (service.data / "service.json").read_text()
    write(tmp_path / "data" / "service.json", facts)
    assert [(one.state, "connect()" in one.found) for one in doctor.examine() if one.about == "credential"] == [
        ("ok", True)
    ]


# -- this environment --------------------------------------------------------------------------------------------------


def test_agentbook_installed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "other" / "agentbook" / "__init__.py", "")
    monkeypatch.syspath_prepend(tmp_path / "other")
    told("agentbook", str(tmp_path / "other"), "pip uninstall")


def test_an_upgrade_that_was_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "__version__", "99.0")
    told("agentbook", "99.0", "--force-reinstall")


@pytest.mark.parametrize("file", ["pandas.py", "agentbook/__init__.py"])
def test_a_file_that_hides_a_package(tmp_path: Path, file: str) -> None:
    write(tmp_path / "here" / file, "")
    told("import", file.partition("/")[0].removesuffix(".py"), "Rename")


def test_dependencies_that_are_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, pandas="2.2.3", pyarrow=None)
    found = told("dependencies", "pandas 2.2.3 (needs 3.0)", "pyarrow is missing", "--upgrade 'pandas>=3.0' 'pyarrow>=")
    assert "httpx" not in found.found


def test_every_base_dependency_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "version", lambda name: None)
    needed = [line for line in importlib.metadata.requires("agentbook") or () if "extra ==" not in line]
    assert told("dependencies").found.count("is missing") == len(needed)


def test_a_language_model_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_LLM_MODEL", "llama3.2")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None if name == "openai" else object())
    found = list(packages.language_model())
    assert [(one.state, one.about) for one in found] == [("note", "language model")]
    assert "agentbook[llm]" in found[0].advice


# -- JupyterLab and kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "have", "state", "advice"),
    [
        ("jupyterlab", "3.6.8", "wrong", "agentbook[lab]"),
        ("jupyterlab", None, "note", "agentbook[lab]"),
        ("ipykernel", "6.29.5", "wrong", "restart the kernel"),
        ("ipykernel", None, "note", "ipykernel"),
    ],
)
def test_an_old_or_missing_jupyterlab_or_kernel(
    monkeypatch: pytest.MonkeyPatch, about: str, have: str | None, state: str, advice: str
) -> None:
    versions(monkeypatch, **{about: have})
    told(about, have or "not installed", advice, state=state)


def test_old_widgets_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipywidgets="7.8.5")
    told("widgets", "7.8.5", "pip install -U ipywidgets")


def other_lab(prefix: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None) -> Path:
    """Another environment with JupyterLab, which the shell finds first."""
    if manager is not None:
        write(
            prefix / "share/jupyter/labextensions/@jupyter-widgets/jupyterlab-manager/package.json",
            {"version": manager},
        )
    monkeypatch.setattr(notebook, "_lab_on_path", lambda: prefix)
    return prefix


@pytest.mark.parametrize("manager", [None, "3.1.9"])
def test_no_widget_manager_where_jupyterlab_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None
) -> None:
    other_lab(tmp_path / "lab", monkeypatch, manager)
    told("widgets", str(tmp_path / "lab"), "jupyterlab_widgets")


def test_a_widget_manager_that_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    disabled = {"disabledExtensions": {"@jupyter-widgets/jupyterlab-manager:plugin": True}}
    write(lab / "etc/jupyter/labconfig/page_config.json", disabled)
    told("widgets", "disabled", "labextension enable")


@pytest.mark.parametrize(("missing", "state"), [("altair", "note"), ("vl_convert_python", "note")])
def test_charts_without_their_packages(monkeypatch: pytest.MonkeyPatch, missing: str, state: str) -> None:
    versions(monkeypatch, **{missing: None})
    told("charts", missing.replace("_", "-"), "agentbook[lab]", state=state)


def test_charts_with_an_old_altair(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, altair="5.5.0")
    told("charts", "5.5.0")


@pytest.mark.parametrize(("here", "state"), [(None, "wrong"), ("4.6.6", "note")])
def test_jupyterlab_and_the_kernel_in_different_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str | None, state: str
) -> None:
    versions(monkeypatch, jupyterlab=here)
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    told("environments", str(lab), "ipykernel install --user", state=state)
    # Registered there, all is well.
    write(lab / "share/jupyter/kernels/agentbook/kernel.json", {"argv": [sys.executable, "-m", "ipykernel_launcher"]})
    assert [one.state for one in doctor.examine() if one.about == "environments"] == ["ok"]


def test_the_shells_jupyterlab_is_found_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    script = write(tmp_path / "lab" / "bin" / "jupyter-lab", "#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "jupyter-lab").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert notebook._lab_on_path() == tmp_path / "lab"


def kernelspec(tmp_path: Path, name: str, command: str) -> None:
    write(
        tmp_path / "jupyter" / "kernels" / name / "kernel.json",
        {
            "argv": [command, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": name,
            "language": "python",
        },
    )


def test_the_default_kernel_runs_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")  # the user's kernels come first
    kernelspec(tmp_path, "python3", "/bin/sh")
    told("kernel", "/bin/sh", "ipykernel install --sys-prefix")


def test_there_is_no_default_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_client import kernelspec

    def missing(self: object, name: str) -> None:
        raise kernelspec.NoSuchKernel(name)

    monkeypatch.setattr(kernelspec.KernelSpecManager, "get_kernel_spec", missing)
    told("kernel", "no kernel named python3", "pip install ipykernel")


def test_a_kernel_whose_python_is_gone(tmp_path: Path) -> None:
    kernelspec(tmp_path, "old", str(tmp_path / "deleted" / "bin" / "python"))
    told("kernelspecs", "the kernel old", str(tmp_path / "deleted"), "jupyter kernelspec remove old")


def test_nest_asyncio_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipykernel="7.4.0", nest_asyncio="1.6.0")
    told("nest-asyncio", "1.6.0", "nest-asyncio2", state="note")
    versions(monkeypatch, ipykernel="7.0.1", nest_asyncio="1.6.0")
    assert [one for one in doctor.examine() if one.about == "nest-asyncio"] == []


@pytest.mark.parametrize("file", ["startup/00-loops.py", "startup/00.ipy", "ipython_kernel_config.py"])
def test_nest_asyncio_is_applied_by_ipythons_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    versions(monkeypatch, ipykernel="7.4.0", nest_asyncio=None)
    place = write(tmp_path / "ipython" / "profile_default" / file, "import nest_asyncio2\nnest_asyncio2.apply()\n")
    assert [one for one in doctor.examine() if one.about == "nest-asyncio"] == []
    place.write_text("import nest_asyncio\nnest_asyncio.apply()\n")
    told("nest-asyncio", str(place), "nest-asyncio2")


def test_nest_asyncio_is_applied_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipykernel="7.4.0")
    monkeypatch.setattr(asyncio, "_nest_patched", True, raising=False)
    monkeypatch.setitem(sys.modules, "nest_asyncio", SimpleNamespace())  # type: ignore[arg-type]
    told("nest-asyncio", "this process")


# -- this machine ------------------------------------------------------------------------------------------------------


def test_a_data_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(write(tmp_path / "file", "") / "data"))
    told("data directory", "cannot be written", "AGENTBOOK_DATA")


def test_folders_of_another_user_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "other"
    for name in ("data", "ipython", "config"):
        (private / name).mkdir(parents=True)
    for name, folder in (("AGENTBOOK_DATA", "data"), ("IPYTHONDIR", "ipython"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(private / folder))

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and private in Path(path).parents:
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *arguments, **options)

        return asked

    # As root, who may run this, nothing is refused; so the system's answer is put in its place.
    for module, name in ((os, "stat"), (os, "scandir"), (os, "listdir"), (io, "open")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name)))
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: private not in (Path(path), *Path(path).parents) and real(path, mode)
    )
    told("data directory", "cannot be written", "of your own")
    assert [finding for finding in doctor.examine() if "could not be examined" in finding.found] == []


def test_a_data_directory_that_depends_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", "data")
    told("data directory", "every folder", f"export AGENTBOOK_DATA={tmp_path / 'here' / 'data'}", state="note")


def test_a_data_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    told("data directory", "another user", "of your own")


def test_a_data_directory_on_a_network_file_system(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nhomes:/x {tmp_path} nfs4 rw 0 0\n")
    told("file system", "nfs4", "local disk")
    mounts.write_text(f"homes:/x / nfs4 rw 0 0\ndisk {tmp_path} ext4 rw 0 0\n")
    assert [one for one in doctor.examine() if one.about == "file system"] == []


@pytest.mark.parametrize(("free", "state"), [(300_000_000, "note"), (1_000_000, "wrong")])
def test_a_disk_that_is_nearly_full(monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    told("disk", f"{free // 1_000_000} MB", "Free some space", state=state)


@pytest.mark.parametrize("file", ["data/local-key.json", "data/admin-token", "config/agentbook/tokens/a.json"])
def test_secrets_that_others_can_read(tmp_path: Path, file: str) -> None:
    place = write(tmp_path / file, {"api_key": f"id:{SECRET}"})
    place.chmod(0o640)
    found = told("secrets", str(place), f"chmod 600 '{place}'")
    assert SECRET not in str(found)
    place.chmod(0o600)
    assert [one for one in doctor.examine() if one.about == "secrets"] == []


def test_a_service_that_was_killed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": ended.pid})
    told("embedded service", "stale", "connect() again", state="note")


def test_a_service_that_does_not_answer(tmp_path: Path) -> None:
    write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": os.getpid()})
    told("embedded service", f"process {os.getpid()}", f"kill {os.getpid()}")


def test_service_facts_that_cannot_be_read(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "service.json", "{")
    told("embedded service", "cannot be read", f"rm '{file}'")


def test_a_service_that_is_older_than_the_code(tmp_path: Path) -> None:
    with answering(platform) as base_url:
        facts = {"base_url": base_url, "pid": os.getpid(), "started_at": "2020-01-01T00:00:00Z"}
        write(tmp_path / "data" / "service.json", facts)
        told("embedded service", "older code", f"kill {os.getpid()}", state="note")


def test_the_port_of_serve_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(machine, "SERVE_PORT", taken.getsockname()[1])
        told("port", "in use", "--port", state="note")


# -- the platform ------------------------------------------------------------------------------------------------------


def test_a_key_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    told("AGENTBOOK_API_KEY", "not with that key", "AGENTBOOK_BASE_URL", state="note")


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (f"id:{SECRET}", "https://host/v1"),
        ("", "unset AGENTBOOK_BASE_URL"),
        ("https://host:99999/v1", "65535"),
        ("https://[::1", "https://host/v1"),
        ("https://ho st/v1", "blanks"),
        ("http://platform.invalid ", "export AGENTBOOK_BASE_URL=http://platform.invalid/v1"),
        (f"https://user:{SECRET}@host/v1", "without quotes, user name"),
        ("'https://host/v1'", "without quotes"),
        ("http://127.0.0.1:9", "export AGENTBOOK_BASE_URL=http://127.0.0.1:9/v1"),
        ("http://platform.invalid/v1", "export AGENTBOOK_BASE_URL=https://platform.invalid/v1"),
    ],
)
def test_an_address_that_cannot_be_right(monkeypatch: pytest.MonkeyPatch, address: str, advice: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
    found = doctor.examine()
    about = [finding for finding in found if finding.about == "AGENTBOOK_BASE_URL"]
    assert {finding.state for finding in about} == {"wrong"}
    assert any(advice in finding.advice for finding in about), about
    assert SECRET not in "".join(map(str, found))
    assert not any("could not be examined" in finding.found for finding in found)


@pytest.mark.parametrize(
    ("proxy", "state", "words"),
    [
        (f"http://ada:{SECRET}@127.0.0.1:9", "note", ("…@127.0.0.1:9", "NO_PROXY=platform.invalid")),
        ("127.0.0.1:9", "wrong", ("http://proxy:3128",)),
        ("socks5://127.0.0.1:9", "wrong", ("httpx[socks]",)),
    ],
)
def test_a_proxy_in_between(monkeypatch: pytest.MonkeyPatch, proxy: str, state: str, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)  # type: ignore[arg-type]
    found = doctor.examine()
    [one] = [finding for finding in found if finding.about == "proxy"]
    assert one.state == state
    assert all(word in f"{one.found} {one.advice}" for word in words)
    assert SECRET not in "".join(map(str, found))
    assert not any("could not be examined" in finding.found for finding in found)


@pytest.mark.parametrize(("status", "words"), [(407, "user name and password"), (403, "whoever runs the proxy")])
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, status: int, words: str) -> None:
    with answering(lambda handler: handler.send_error(status)) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
        monkeypatch.setenv("https_proxy", address.removesuffix("/v1"))
        told("platform", "through the proxy", "the proxy", words)


def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    told("platform", "the proxy http://127.0.0.1:9 cannot be reached", "NO_PROXY=platform.invalid")


def test_nothing_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")
    told("platform", "nothing listens", "Check the address")


def test_there_is_no_such_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    told("platform", "no network", "Unset AGENTBOOK_BASE_URL")


def test_something_else_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(web_page) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("platform", "not as an Agent Platform", "Check the address")


def test_another_path_of_a_platform(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("/v1", "/v2"))
    said = told("platform", "not as an Agent Platform", "404 The requested URL was not found")
    assert "the key's account" not in said.advice  # advice for other 404s


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "https://platform.invalid/v1")
    monkeypatch.setenv(name, str(tmp_path / "gone"))
    told("TLS", f"{name} names {tmp_path / 'gone'}", f"unset {name}")
    assert not any("could not be examined" in finding.found for finding in doctor.examine())


def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    # Not 127.0.0.1, which is reached without a look at the environment.
    with answering(platform, context, "127.0.0.2") as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("TLS", "certificate", "SSL_CERT_FILE")
        # What it advises helps.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert ("platform", "ok") in [(one.about, one.state) for one in doctor.examine()]


def test_tls_is_asked_of_what_does_not_speak_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url.replace("http:", "https:"))
    told("TLS", "does not speak TLS", "https:// or http://")


def test_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(late_platform) as address:
        monkeypatch.setenv("AGENTBOOK_BASE_URL", address)
        told("clock", "ahead of", "Set this machine's clock")


def test_a_key_that_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"id:{SECRET}")
    assert SECRET not in str(told("credential", "refused (Not authenticated)", "placeholder", "Make a new key"))
    key_id = service.key("agents:read").partition(":")[0]
    monkeypatch.setenv("AGENTBOOK_API_KEY", f"{key_id}:{SECRET}")
    assert SECRET not in str(told("credential", "refused (Invalid API key)", "revoked", "Make a new key"))


def test_a_key_of_the_wrong_form(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", SECRET)
    assert SECRET not in str(told("credential", "not the right form", "api_key_id"))


def test_no_key_at_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    told("credential", "only public agents", "sign_in", state="note")


# -- all of them -------------------------------------------------------------------------------------------------------


def test_a_check_that_fails_itself_is_said_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(shutil, "disk_usage", broken)
    assert SECRET not in str(told("disk", "could not be examined (RuntimeError)"))


def test_the_command_ends_with_1_where_something_is_wrong_and_writes_to_any_terminal(tmp_path: Path) -> None:
    for address, code in ((None, 0), ("http://127.0.0.1:9/v1", 1)):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "AGENTBOOK_API_KEY": f"id:{SECRET}"}
        environment |= {} if address is None else {"AGENTBOOK_BASE_URL": address}
        ended = subprocess.run(
            [sys.executable, "-m", "agentbook", "doctor"], env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert SECRET not in ended.stdout + ended.stderr
        assert len(ended.stderr.splitlines()) == code
    assert not (tmp_path / "data").exists()


def test_the_troubleshooting_page_lists_what_is_looked_for() -> None:
    source = "".join(path.read_text() for path in SOURCES)
    looked_for = set(re.findall(r'Finding\(\s*"(?:wrong|note)(?:" if [^"]+ "\w+)?",\s*"([^"]+)"', source))
    looked_for |= set(re.findall(r'_at_least\(\s*"([^"]+)"', source)) | {"TLS", "platform"}
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(set(rows)) == sorted(looked_for)
    assert len(rows) >= 20


@pytest.mark.parametrize(
    ("version", "numbers"), [("4.6.6", (4, 6, 6)), ("10.0", (10, 0)), ("x", ()), ("1.post2", (1, 2))]
)
def test_versions_are_compared_by_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert finding.numbers(version) == numbers
