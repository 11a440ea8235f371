from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbook.cli import main
from agentbook.service import admin
from agentbook.service.auth import SCOPES
from agentbook.service.store import Store
from agentbook.service.store.tables import workspaces

KEY = re.compile(r"[0-9a-f-]{36}:[\w-]{43}\n")


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data", str(data)])


def failed(result: Result, code: int, message: str) -> None:
    """Assert the exit code, and one line on stderr that contains `message`."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert message in result.stderr
    if code == 1:
        assert re.fullmatch(r"agentbook: [^\n]+\n", result.stderr)


def test_an_account_and_its_keys(tmp_path: Path) -> None:
    account = run(tmp_path, "accounts", "create", "acme", "--type", "organization")
    assert (account.exit_code, len(account.stdout)) == (0, 37)
    options = ["--name", "notebook", "--scope", "sessions:write", "--scope", "agents:read", "--scope", "agents:read"]
    first = run(tmp_path, "keys", "create", "--account", "acme", *options)
    second = run(tmp_path, "keys", "create", "--account", account.stdout.strip(), "--name", "bare")
    assert KEY.fullmatch(first.stdout)
    assert KEY.fullmatch(second.stdout)
    assert first.stderr == ""
    assert "--scope all" in second.stderr
    revoked = run(tmp_path, "keys", "revoke", second.stdout.partition(":")[0])
    assert (revoked.exit_code, revoked.output) == (0, "")
    assert run(tmp_path, "keys", "revoke", second.stdout.strip()).exit_code == 0
    for options in ([], ["--account", "acme"]):
        rows = [line.split("\t") for line in run(tmp_path, "keys", "list", *options).stdout.splitlines()]
        assert [row[0] for row in rows] == [key.stdout.partition(":")[0] for key in (first, second)]
        assert [row[1:4] for row in rows] == [["acme", "notebook", "agents:read sessions:write"], ["acme", "bare", "-"]]
        assert rows[0][5] == "active"
        assert rows[1][5].startswith("revoked 20")


def test_a_key_can_have_every_scope(tmp_path: Path) -> None:
    run(tmp_path, "accounts", "create", "acme", "--type", "user")
    run(tmp_path, "keys", "create", "--account", "acme", "--name", "n", "--scope", "all")
    assert run(tmp_path, "keys", "list").stdout.split("\t")[3].split() == sorted(SCOPES)


def test_a_trigger_key_has_a_workspace_and_no_scopes(tmp_path: Path) -> None:
    account = run(tmp_path, "accounts", "create", "acme", "--type", "user").stdout.strip()
    with closing(Store(tmp_path)) as store:
        store.write_now(lambda tx: tx.insert(workspaces, owner_id=account, creator_id=account, name="lab"))
    options = ["--account", "acme", "--name", "builds"]
    made = run(tmp_path, "keys", "create", *options, "--trigger", "lab")
    assert KEY.fullmatch(made.stdout)
    assert made.stderr == ""
    failed(run(tmp_path, "keys", "create", *options, "--trigger", "lab", "--scope", "all"), 2, "no scopes")
    rows = [line.split("\t") for line in run(tmp_path, "keys", "list").stdout.splitlines()]
    assert [row[2:4] for row in rows] == [["builds", "trigger"]]
    failed(run(tmp_path, "keys", "create", *options, "--trigger", "nowhere"), 1, "There is no workspace 'nowhere'")


def test_accounts_are_listed(tmp_path: Path) -> None:
    nobody = run(tmp_path, "accounts", "list")
    assert nobody.stdout == ""
    assert "accounts create" in nobody.stderr
    kinds = {"zoe": "user", "acme": "organization"}
    ids = [run(tmp_path, "accounts", "create", name, "--type", kind).stdout.strip() for name, kind in kinds.items()]
    listed = run(tmp_path, "accounts", "list")
    assert (listed.exit_code, listed.stderr) == (0, "")
    rows = [line.split("\t") for line in listed.stdout.splitlines()]
    assert [row[:3] for row in rows] == [[ids[0], "zoe", "user"], [ids[1], "acme", "organization"]]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z", row[3]) for row in rows)


def test_errors_that_the_user_can_correct(tmp_path: Path) -> None:
    run(tmp_path, "accounts", "create", "acme", "--type", "user")
    failed(run(tmp_path, "accounts", "create", "acme", "--type", "user"), 1, "choose another name")
    failed(run(tmp_path, "accounts", "create", "a~b", "--type", "user"), 1, "cannot be a name")
    failed(run(tmp_path, "keys", "create", "--account", "bob", "--name", "n"), 1, "(there are: acme)")
    failed(run(tmp_path, "keys", "create", "--account", "acme", "--name", " "), 1, "needs a name")
    failed(run(tmp_path, "keys", "create", "--account", "acme", "--name", "a\tb\nc"), 1, "needs a name")
    failed(run(tmp_path, "keys", "list", "--account", "bob"), 1, "There is no account 'bob'")
    failed(run(tmp_path, "keys", "revoke", "nothing"), 1, "There is no key with this id")
    for command in (["keys", "list"], ["accounts", "list"], ["keys", "create", "--account", "acme", "--name", "n"]):
        failed(run(tmp_path / "typo", *command), 1, "There is no store in ")
    assert not (tmp_path / "typo").exists()
    (tmp_path / "file").touch()
    failed(run(tmp_path / "file" / "x", "keys", "list"), 1, "choose another with --data")
    failed(run(tmp_path, "keys", "list", "--database", "nonsense"), 1, "could not be understood")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["serve", "--port", "70000"],
        ["serve", "--port", "x"],
        ["serve", "--speed", "-1"],
        ["serve", "--seed", "x"],
        ["serve", "--now", "2026-01-01"],
        ["serve", "--seed", "1", "--now", "soon"],
        ["serve", "--agent", "acme~mine"],
        ["serve", "--agent", "mine=my_agent:answer"],
        ["serve", "--agent", "acme~mine=my_agent"],
        ["serve", "--agent", "acme~mine=a:b", "--agent", "acme~mine=a:c"],
        ["serve", "--reload"],
        ["serve", "--budget", "workspace"],
        ["serve", "--budget", "team=5"],
        ["serve", "--budget", "user=-5"],
        ["serve", "--budget", "user=1e6"],
        ["serve", "--budget", "agent=5", "--budget", "AGENT=6"],
        ["accounts", "create"],
        ["accounts", "create", "x"],
        ["accounts", "create", "x", "--type", "robot"],
        ["keys", "create", "--account", "x"],
        ["keys", "create", "--account", "x", "--name", "n", "--scope", "everything"],
        ["keys", "create", "--account", "x", "--name", "n", "--scope", "agents:admin"],
        ["fixtures", "--sessions", "-1", "--events", "1"],
        ["fixtures", "--sessions", "1"],
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str]) -> None:
    failed(run(tmp_path / "new", *arguments), 2, "Error")
    assert not (tmp_path / "new").exists()


def test_fixtures(tmp_path: Path) -> None:
    result = run(tmp_path, "fixtures", "--sessions", "7", "--events", "300", "--seed", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("7 sessions and 300 events in fixtures-1")
    with closing(Store(tmp_path)) as store:
        sql = "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM events)"
        counts = store.read_now(lambda db: db.exec_driver_sql(sql).one())
    assert counts == (7, 300)


def test_help_and_version_are_quick() -> None:
    """Nothing heavy is imported before a command needs it."""
    heavy = "{'sqlalchemy', 'starlette', 'uvicorn', 'pandas'}"
    code = f"import sys, agentbook.cli; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert CliRunner().invoke(main, ["--version"]).output.startswith("agentbook ")
    assert "keys" in CliRunner().invoke(main, ["-h"]).output


def test_the_environment_names_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "here"))
    assert CliRunner().invoke(main, ["accounts", "create", "acme", "--type", "user"]).exit_code == 0
    assert (tmp_path / "here" / "store.db").exists()


def test_budgets_reach_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentbook.service.engines.meter import RunLimits
    from agentbook.service.http import server

    started: list[RunLimits] = []
    monkeypatch.setattr(server, "serve", lambda settings: started.append(settings.limits))
    assert run(tmp_path, "serve", "--budget", "Workspace=2000000", "--budget", "user = 5").exit_code == 0
    assert run(tmp_path, "serve").exit_code == 0
    assert started == [RunLimits(workspace_budget=2_000_000, user_budget=5), RunLimits()]


def test_an_agent_that_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    serve = ("serve", "--port", "0", "--bare", "--agent")
    failed(run(tmp_path / "new", *serve, "acme~mine=nothing_here:answer"), 1, "No module named 'nothing_here'")
    assert not (tmp_path / "new").exists()
    failed(run(tmp_path, *serve, "acme~mine=json:dumps"), 1, "There is no account 'acme'")
    run(tmp_path, "accounts", "create", "acme", "--type", "user")
    failed(run(tmp_path, *serve, "acme~a~b=json:dumps"), 1, "cannot be the name of an agent")
    with closing(Store(tmp_path)) as store:
        admin.add_agent(store, "acme~parrot", "echo")
    failed(run(tmp_path, *serve, "acme~parrot=json:dumps"), 1, "runs on echo; choose another name")


@pytest.mark.parametrize(
    ("arguments", "link"),
    [
        ("tutorials", "agentbook-tutorials/.copied.json"),
        ("tutorials", "agentbook-tutorials/01-first-look.ipynb"),
        ("tutorials", "agentbook-tutorials/docs"),
        ("skill", "SKILL.md"),
        ("import promptfooconfig.yaml", "lab.yaml"),
        ("eval file.yaml --out out", "out/results.json"),
        ("eval file.yaml --out out", "out/report.html"),
    ],
)
def test_no_link_of_a_folder_is_written_through(
    arguments: str, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path.parent / f"{tmp_path.name}-mine")
    (tmp_path / "promptfooconfig.yaml").write_text("prompts: ['{{q}}']\ntests: [{vars: {q: a}}]\n")
    (tmp_path / "file.yaml").write_text("agent: acme~a\ninputs: [hello]\n")
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")  # nothing is asked
    monkeypatch.chdir(tmp_path)
    failed(CliRunner().invoke(main, arguments.split()), 1, "remove this link")
    assert not (tmp_path / link).exists(), "what it leads to"


def test_members_and_workspaces(tmp_path: Path) -> None:
    kinds = {"acme": "organization", "ada": "user", "bob": "user"}
    acme, *_ = [run(tmp_path, "accounts", "create", name, "--type", kinds[name]).stdout.strip() for name in kinds]
    with closing(Store(tmp_path)) as store:
        store.write_now(lambda tx: tx.insert(workspaces, owner_id=acme, creator_id=acme, name="lab"))
    group = ("--organization", "acme")
    assert run(tmp_path, "members", "list", *group).output == ""
    assert run(tmp_path, "members", "add", "ada", "--role", "admin", *group).output == ""
    assert run(tmp_path, "members", "add", "bob", *group).exit_code == 0
    rows = [line.split("\t") for line in run(tmp_path, "members", "list", *group).stdout.splitlines()]
    assert [row[1:3] for row in rows] == [["ada", "admin"], ["bob", "member"]]
    shown = run(tmp_path, "workspaces", "configure", "lab", "--restrict-members", "--credentials", "member")
    assert dict(line.split("\t") for line in shown.stdout.splitlines()) == {
        "required_credentials_mode": "member",
        "restrict_account_credentials": "false",
        "should_restrict_members": "true",
        "unlimited_power_mode": "false",
    }
    shown = run(tmp_path, "workspaces", "configure", "acme~lab", "--credentials", "any")
    assert "required_credentials_mode\t-\n" in shown.stdout
    for flag, value in {"--restrict-account-credentials": "true", "--allow-account-credentials": "false"}.items():
        shown = run(tmp_path, "workspaces", "configure", "lab", flag)
        assert f"restrict_account_credentials\t{value}\n" in shown.stdout
    assert run(tmp_path, "members", "add", "bob", "--workspace", "lab").exit_code == 0
    assert "bob\tmember" in run(tmp_path, "members", "list", "--workspace", "acme~lab").stdout
    assert run(tmp_path, "members", "remove", "bob", "--workspace", "acme~lab").exit_code == 0
    failed(run(tmp_path, "members", "remove", "ada", *group), 1, "the last admin of acme")
    failed(run(tmp_path, "members", "list"), 2, "Name either an --organization or a --workspace")
    failed(run(tmp_path, "members", "list", *group, "--workspace", "lab"), 2, "Name either")
    failed(run(tmp_path, "members", "add", "bob", "--workspace", "lab", "--role", "admin"), 2, "a workspace has none")


def test_the_manual_names_every_option_of_an_evaluation() -> None:
    page = (Path(__file__).parents[1] / "docs/evaluation-files.md").read_text("utf-8")
    options = {option for parameter in main.commands["eval"].params for option in parameter.opts if "--" in option}
    assert [option for option in options if option not in page] == []
