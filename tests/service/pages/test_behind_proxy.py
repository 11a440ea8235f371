"""Behind a hub such as Binder, which adds a path prefix and its own host name."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from service.process import Service, command
from service.world import one_platform

PREFIX = "/user/ada/"


@one_platform("on a hub; here others reach it at the proxy's address")
@pytest.mark.parametrize("on_a_hub", [False, True])
def test_the_hubs_host_is_only_accepted_on_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_a_hub: bool
) -> None:
    if on_a_hub:
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", PREFIX)
    else:
        monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    with Service(tmp_path / "data", "--bare") as service:
        answer = httpx.get(f"{service.base_url}/docs", headers={"Host": "hub.example"})
        assert answer.status_code == (200 if on_a_hub else 400)
        command("accounts", "create", "ada", "--type", "user", data=service.data)
        result = command("signin", "--account", "ada", data=service.data)
        code = result.stdout.strip().partition("code=")[2]
        hint = f"On this hub, open {PREFIX}proxy/{service.facts['port']}/v1/signin?code={code} on the hub's address.\n"
        assert result.stderr == (hint if on_a_hub else "")
