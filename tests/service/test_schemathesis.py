"""Requests that Schemathesis generates from openapi.yaml, against a real service.

Every check of Schemathesis, which runs in an environment of its own because it keeps
jsonschema-rs back, on a service in a process of its own. What it is known to
miss (wrong secrets, ignored scopes, wrong pages, missing headers) is tested by
`test_access`, `test_visibility` and `operations`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentbook.service.auth import SCOPES
from service.process import Service, furnished

SCHEMATHESIS = [sys.executable, "-m", "uv", "tool", "run", "-q", "--from", "schemathesis>=4.32,<5", "schemathesis"]
EXAMPLES = 1  # of each operation, besides the boundaries of every field
# What OAuth's own rules refuse with a 400 cannot all be said in a schema: a redirect
# URI must be https or loopback, a client be registered, a code be live. The flow has
# tests of its own. Nor can a schema say whether an agent's maintainer exists.
SETTINGS = """
[parameters]
"path.account_id_or_name" = "acme"
"path.org_id_or_name" = "acme"
"path.agent_id_or_name" = "helper"
"path.workspace_id_or_name" = "lab"
"path.session_id" = "{session}"

[[operations]]
include-path-regex = "/oauth/"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-operation-id = ["createAgent", "updateAgent"]
checks.positive_data_acceptance.enabled = false
"""


@pytest.mark.timeout(600)
def test_every_check_on_every_operation(tmp_path: Path) -> None:
    settings = tmp_path / "schemathesis.toml"
    with Service(tmp_path / "data", "--speed", "0", "--requests-per-minute", "0") as service:
        key = service.key(*(scope for scope in SCOPES if scope.endswith(":write")))
        with service.http(key) as http:
            settings.write_text(SETTINGS.format(session=furnished(http, "hello")[0]))
        arguments = ["run", f"{service.base_url}/openapi.yaml", "--url", service.base_url, "--auth", key]
        bounds = ["--max-examples", str(EXAMPLES), "--seed", "1", "--no-shrink", "--request-timeout", "10"]
        # All checks are on unless the settings say otherwise; "--checks all" would
        # overrule them.
        checks = ["--mode", "all", "--header", "Accept: */*", "--no-color"]
        command = [*SCHEMATHESIS, "--config-file", str(settings), *arguments, *bounds, *checks]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "Operations" in result.stdout
        assert service.stop() == 0
        assert "failed" not in service.log
    print(result.stdout[result.stdout.rindex("SUMMARY") :])
