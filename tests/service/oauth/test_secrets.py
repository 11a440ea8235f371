"""No secret is in a log line, a file or a repr, even after errors and a crash."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from agentbook.service import auth
from agentbook.service.pages.visitor import Visitor
from service.oauth.flow import CALLBACK, Pkce, hidden, location, ticked
from service.process import Service, command

# A service whose answer to GET /me fails as nobody foresaw.
CRASHING = """
import sys
from pathlib import Path
from agentbook.service.operations import HANDLERS
from agentbook.service.operations.registry import RegisteredHandler
from agentbook.service.http.server import Settings, serve
def crash(call):
    raise RuntimeError("a crash of this test")
HANDLERS["getMe"] = RegisteredHandler(crash, "read")
serve(Settings(data=Path(sys.argv[2]), port=0, bare=True, **dict(part.split("=", 1) for part in sys.argv[3:])))
"""


def walk(service: Service) -> list[str]:
    """Go through every flow and every kind of error; return the secrets."""
    met: list[str] = []
    base, pkce = service.base_url, Pkce()
    link = command("signin", "--account", "ada", data=service.data).stdout.strip()
    assert re.fullmatch(rf"{base}/signin\?code=[\w-]{{43}}", link)
    with httpx.Client(headers={"Accept": "text/html"}) as http:
        button = hidden(http.get(link).text)
        assert http.post(f"{base}/signin", data=button).headers["location"] == "settings"
        page = http.get(f"{base}/settings").text
        create = hidden(page[page.index("New API key") :].partition("</form>")[0])
        made = http.post(f"{base}/settings", data={**create, "name": "key", "scope": ["agents:read"]}).text
        key = re.findall(r'id="secret"[^>]*>([^<]+)<', made)[0]
        fields = {"redirect_uris": [CALLBACK], "client_name": "A tool"}
        client = http.post(f"{base}/oauth/register", json=fields).json()["client_id"]
        params = {
            "response_type": "code", "client_id": client, "redirect_uri": CALLBACK, "state": "s", "scope": "agents:read",
            "code_challenge": pkce.challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        consent = http.get(f"{base}/oauth/authorize", params=params, follow_redirects=True)
        form = hidden(consent.text[consent.text.rindex("<form") :])
        allowed = http.post(f"{base}/oauth/consent", data={**form, "decision": "allow", "scope": ticked(consent)})
        code = location(allowed)["code"]
        redeem = {"grant_type": "authorization_code", "client_id": client, "code": code, "redirect_uri": CALLBACK}
        assert http.post(f"{base}/oauth/token", data={**redeem, "code_verifier": Pkce().verifier}).status_code == 400
        first = http.post(f"{base}/oauth/token", data={**redeem, "code_verifier": pkce.verifier}).json()
        refresh = {"grant_type": "refresh_token", "client_id": client, "refresh_token": first["refresh_token"]}
        second = http.post(f"{base}/oauth/token", data=refresh).json()
        for credential in (key, key + "x", first["access_token"], second["access_token"], "nonsense"):
            http.get(f"{base}/me", headers={"Authorization": f"Bearer {credential}"})
        assert http.post(f"{base}/oauth/token", data=refresh).status_code == 400
        met += [cookie.value or "" for cookie in http.cookies.jar]
    met += [link.partition("code=")[2], key.partition(":")[2], code, pkce.verifier, form["request"]]
    met += [tokens_[name] for tokens_ in (first, second) for name in ("access_token", "refresh_token")]
    assert len(set(met)) == 10
    return met


@pytest.mark.parametrize("crashing", [False, True])
def test_no_secret_in_any_log_line_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashing: bool) -> None:
    from service import process

    if crashing:
        monkeypatch.setattr(process, "SCRIPTED", CRASHING)
    data = tmp_path / "data"
    command("accounts", "create", "ada", "--type", "user", data=data)
    with Service(data, "--bare", scripted=crashing) as service:
        met = walk(service)
        key_secret = met[2]
        stored = service.stored()
        assert service.stop() == 0
        log = service.ready + service.log
    assert ("a crash of this test" in log) is crashing
    assert [secret for secret in met if secret in log] == []
    assert auth.hash_secret(key_secret).encode() in stored
    assert [secret for secret in met if secret.encode() in stored] == []


def test_no_secret_in_a_repr() -> None:
    assert "hidden" not in repr(Visitor("hidden", {"name": "ada"}))
    assert "hidden" not in repr(auth.Credential("bearer", None, "hidden"))


def test_a_link_without_a_service_to_lead_to(tmp_path: Path) -> None:
    command("accounts", "create", "ada", "--type", "user", data=tmp_path)
    result = command("signin", "--account", "ada", data=tmp_path, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"agentbook: No service runs on the data directory {tmp_path}; start one with `agentbook serve`.\n"
    )
