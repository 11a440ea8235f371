"""`agentbook query` and `agentbook check`: the same numbers as in Python.

They read the platform, or a store.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import httpx
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import agentbook as ab
from agentbook.cli import main
from agentbook.frames.analysis import analyses
from service.process import Service

SINCE = (pd.Timestamp.now("UTC") - pd.Timedelta("5D")).isoformat()


@pytest.fixture(autouse=True)
def configured(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", key)


@pytest.fixture(scope="module")
def store(client: ab.Client, tmp_path_factory: pytest.TempPathFactory) -> ab.Store:
    store = ab.Store(tmp_path_factory.mktemp("store"))
    store.sync(client, account="acme")
    return store


@pytest.fixture(scope="module")
def history(store: ab.Store) -> ab.History:
    return store.history(since=SINCE)


def query(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["query", *arguments])


class OtherMe(httpx.HTTPTransport):
    """Answers ``/me`` as another platform might."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/me"):
            return httpx.Response(200, json={"account": {"name": "acme"}})
        return super().handle_request(request)


def test_a_platform_whose_me_has_no_id_is_read(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with httpx.Client(transport=OtherMe()) as http:
        client = ab.Client(service.base_url, credentials=key, http_client=http)
        monkeypatch.setattr("agentbook._connect.connect", lambda: client)
        result = query("turns", "--since", SINCE, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)


def rows(frame: pd.DataFrame, folder: Path) -> list[object]:
    return [json.loads(line) for line in ab.export(frame, folder / "rows.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", [name for name in analyses() if name not in ("context_status", "compare_periods")])
def test_every_analysis_has_the_rows_of_python(name: str, store: ab.Store, history: ab.History, tmp_path: Path) -> None:
    result = query(name, "--store", store.path, "--since", SINCE, "--json")
    assert result.exit_code == 0, result.output
    expected = rows(analyses()[name](history), tmp_path)
    # Ages are those of the moment, which differs.
    drifting = {"age_days", "days_since_update", "age_p50_days", "idle_s"}
    got, expected = (
        [{key: value for key, value in row.items() if key not in drifting} for row in each]
        for each in (json.loads(result.stdout), expected[:1000])
    )
    assert got == expected


def test_options_are_those_of_the_function(store: ab.Store, tmp_path: Path) -> None:
    history = store.history(since=SINCE, tz="Europe/Berlin")
    span = ["--since", SINCE, "--tz", "Europe/Berlin", "--store", store.path]
    groups = ["--by", "agent", "--by", "status", "--top", "3", "--freq", "1D", "--quantiles", "0.5"]
    expected = ab.latency(history, by=["agent", "status"], top=3, freq="1D", quantiles=[0.5])
    assert json.loads(query("latency", *groups, *span, "--json").stdout) == rows(expected, tmp_path)
    got = pd.read_csv(io.StringIO(query("failures", "--by", "agent", "--no-kinds", *span, "--csv").stdout))
    assert got["turns"].tolist() == ab.failures(history, by="agent", kinds=False)["turns"].tolist()
    ends = [moment.isoformat() for moment in pd.date_range(SINCE, periods=3, freq="2D")]
    periods = ["--a", *ends[:2], "--b", *ends[1:], "--metric", "turns"]
    expected = ab.compare_periods(history, a=(ends[0], ends[1]), b=(ends[1], ends[2]), metric="turns")
    assert json.loads(query("compare-periods", *periods, *span, "--json").stdout) == rows(expected, tmp_path)


def test_without_a_store_the_credentials_own_account_is_loaded(client: ab.Client, tmp_path: Path) -> None:
    expected = ab.turns(ab.load_history(client, "acme", since=SINCE))
    result = query("turns", "--since", SINCE, "--json", "--limit", "20")
    assert json.loads(result.stdout) == rows(expected.head(20), tmp_path)
    assert re.fullmatch(rf"note: 20 of {len(expected):,} rows; .*\n", result.stderr)
    assert query("context_status", "--since", SINCE).stdout.split()[:2] == ["status", "contexts"]
    other = query("turns", "--since", SINCE, "--account", "nobody")
    assert (other.exit_code, other.stdout) == (1, "")
    assert re.fullmatch(r"agentbook: .*Account not found.*\n", other.stderr)


def test_the_account_is_the_credentials_own_unless_it_is_named(
    client: ab.Client, store: ab.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(_: ab.Client, account: str, **options: object) -> ab.History:
        asked.append(account)
        return store.history(since=SINCE)

    monkeypatch.setattr("agentbook.frames.history.load.load_history", load)
    assert [query("latency", *options).exit_code for options in ([], ["--account", "ada"])] == [0, 0]
    assert asked == [client.me.get().id, "ada"]


def test_sql_reads_a_local_store(store: ab.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    result = query("SELECT status, count(*) AS n FROM turns GROUP BY 1 ORDER BY 1", "--store", store.path, "--json")
    counts = store.history().turns["status"].value_counts()
    assert {row["status"]: row["n"] for row in json.loads(result.stdout)} == counts[counts > 0].to_dict()
    for hidden in ("\x1b[2J", "\x9b2J", "\u202efdp", "\u2066", "\x7f", "\U000e0041"):
        for form in ([], ["--json"], ["--csv"]):
            shown = query(
                f"""SELECT {"||".join(f"chr({ord(each)})" for each in hidden)} AS "{hidden}" """,
                "--store",
                store.path,
                *form,
            )
            assert (shown.exit_code, hidden[0] in shown.stdout) == (0, False), (hidden, form)
            assert form != ["--json"] or json.loads(shown.stdout) == [{hidden: hidden}]
    wrong = query("SELECT nothing FROM turns", "--store", store.path)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert re.fullmatch(r"agentbook: .*nothing.*\n", wrong.stderr)
    monkeypatch.setattr(importlib.import_module("agentbook.cli.query"), "SQL_S", 0.2)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
    given_up = query(endless, "--store", store.path)
    assert (given_up.exit_code, given_up.stdout) == (1, "")
    assert "given up after 0.2 s" in given_up.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "failures"),
        (["latency", "--nonsense"], "--nonsense"),
        (["SELECT 1"], "--store"),
        (["latency", "--json", "--csv"], "--csv"),
        (["latency", "--limit", "0"], "--limit"),
        (["latency", "--store", ".", "--account", "acme"], "--account"),
        (["latency", "--since", "soon"], "since"),
        (["latency", "--tz", "Mars"], "Mars"),
    ],
)
def test_wrong_usage_names_what_exists(arguments: list[str], named: str) -> None:
    result = query(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert named in result.stderr.partition("Error: ")[2]


def test_wrong_groups_and_missing_data_are_named(client: ab.Client, store: ab.Store, tmp_path: Path) -> None:
    wrong = query("latency", "--by", "nonsense", "--store", store.path)
    assert (wrong.exit_code, "workspace" in wrong.stderr) == (2, True)
    missing = query("latency", "--store", str(tmp_path / "none"))
    assert (missing.exit_code, missing.stderr.count("\n"), str(tmp_path / "none") in missing.stderr) == (1, 1, True)
    assert not (tmp_path / "none").exists()
    ab.Store(tmp_path / "ids").sync(client, client.sessions.list("acme~support", limit=1))
    part = query("latency", "--store", str(tmp_path / "ids"))
    assert (part.exit_code, "note: not complete: " in part.stderr) == (0, True)
    for analysis in ("latency", "turns", "steps"):
        empty = query(analysis, "--store", store.path, "--since", "1990-01-01", "--until", "1990-01-02")
        assert (empty.exit_code, empty.stderr[:6]) == (0, "note: "), analysis


def test_the_help_is_that_of_the_docstrings() -> None:
    commands = query("--help").stdout
    assert [name for name in analyses() if name not in commands] == []
    for name in analyses():
        command = main.commands["query"].get_command(None, name)  # type: ignore[attr-defined]
        assert command.help == " ".join(analyses()[name].__doc__.split("\n\n")[0].replace("`", "").split())
        assert [option.name for option in command.params if not option.help.removesuffix(" Can be repeated.")] == []


# -- agentbook check

SLOWER = """
rules:
  - name: data-desk is not slower
    analysis: latency
    where: {agent: data-desk}
    period: 8d
    change: worse
  - analysis: failures
    by: agent
    kinds: false
    limit: share <= 1
"""


PRICES = "model,input,output\n*,0.15,0.6\n"


def test_prices_of_a_rule_are_those_beside_it(store: ab.Store, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES)
    rule = "rules: [{analysis: usage, by: agent, limit: cost < 0, prices: prices.csv}]"
    result = check(tmp_path, rule, "--store", store.path)
    assert (result.exit_code, "cost" in result.stdout) == (100, True), result.output


def check(folder: Path, rules: str, *arguments: str) -> Result:
    (folder / "rules.yaml").write_text(rules, "utf-8")
    return CliRunner().invoke(main, ["check", str(folder / "rules.yaml"), *arguments])


def test_a_rule_fires_on_the_slower_version_and_not_before_it(store: ab.Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fired = check(tmp_path, f"since: 17d{SLOWER}", "--store", store.path, "--out", str(out))
    assert fired.exit_code == 100, fired.output
    lines = [line.split("\t") for line in fired.stdout.splitlines()]
    assert [line[0] for line in lines[:2]] == ["fired", "holds"]
    row = ab.compare_periods(store.history(since="17d").where(agent="data-desk"), period="8d", metric="latency").iloc[0]
    assert row["significant"]
    assert f"{row['after']:.3g} now" in lines[0][2]
    suite = ET.parse(out / "junit.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "2",
        "failures": "1",
        "skipped": "0",
    }
    message = json.loads((out / "results.json").read_text("utf-8"))
    assert (message["fired"], [rule["state"] for rule in message["rules"]]) == (1, ["fired", "holds"])
    assert "1 of 2 rules fired" in (out / "report.html").read_text("utf-8")
    (out / "report.html").unlink()
    (out / "report.html").symlink_to(tmp_path / "mine")
    linked = check(tmp_path, f"since: 17d{SLOWER}", "--store", store.path, "--out", str(out))
    assert (linked.exit_code, (tmp_path / "mine").exists()) == (1, False)
    silent = "  - {analysis: failures, since: 1990-01-01, until: 1990-01-02, limit: share <= 1}"
    before = check(tmp_path, f"since: 26d\nuntil: 9d{SLOWER}{silent}", "--store", store.path)
    assert "0 of 3 rules fired, 1 unknown" in before.stdout.splitlines()[-1]
    assert (before.exit_code, before.stdout.splitlines()[0][:5]) == (0, "holds"), before.output


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ("", "names with values"),
        ("rules: []", "`rules`"),
        ("rule: []", "`rules`|rules,"),
        ("rules:\n- analysis: latency\n  limit: p95_s < 1\n- analysis: latency\n  limit: p95 < 1", "line 5.*p95_s"),
        ("rules:\n- analysis: latncy\n  limit: p95_s < 1\n- {}", "line 2.*latency"),
        ("rules:\n- analysis: latency\n  limit: [1]", "line 3.*p95_s <= 20"),
        *[
            (f"rules:\n- analysis: usage\n  limit: cost < 1\n  prices: '{name}'", "line 4.*`prices`")
            for name in ("/etc/passwd", "../prices.csv", "~/prices.csv", "//host/prices.csv", "none.csv", "link.csv")
        ],
        ("since: soon\nrules: [{analysis: latency, limit: n > 0}]", "since"),
        ("since: 2d\nuntil: 1990-01-01\nrules: [{analysis: latency, limit: n > 0}]", "until"),
        ("rules:\n- analysis: latency\n  where: {until: 1990-01-01}\n  limit: p95_s < 1", "nothing to check"),
    ],
)
def test_a_wrong_file_of_rules_names_the_place(rules: str, named: str, store: ab.Store, tmp_path: Path) -> None:
    (tmp_path.parent / "prices.csv").write_text(PRICES)
    (tmp_path / "link.csv").symlink_to(tmp_path.parent / "prices.csv")
    result = check(tmp_path, rules, "--store", store.path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(named, result.stderr), result.stderr
    assert "Traceback" not in result.output
