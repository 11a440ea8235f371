"""Bar charts: failed turns by kind, and credentials by integration and finding."""

from __future__ import annotations

import pandas as pd

from ..analysis.credentials import credential_report
from ..analysis.failures import failures as failure_table
from ..analysis.findings import SEVERITIES
from ..analysis.validate import require
from .chart import COLOURS, SEVERITY_COLOURS, Chart, altair, count_text, data_of, join_names, styled


def failures(data: pd.DataFrame) -> Chart:
    """Failed turns by kind of failure.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> failures(to_frame("events", [page], context={"session_id": "s1"}))
    1 of 1 turn failed (100.0 %): llm_calls 1.
    """
    alt = altair()
    table = failure_table(data)
    rows = table[["kind", "turns", "sessions", "share", "cause"]]
    counts = table.attrs["agentbook"]
    total, failed = counts["turns"], counts["failed"]
    text = f"{failed:,} of {count_text(total, 'turn')} failed"
    text += f" ({100 * failed / total:.1f} %)" if total else ""
    parts = [f"{row.kind} {row.turns:,}" for row in rows.itertuples()]
    text += (": " + join_names(parts, 5) if parts else "") + "."
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("kind:N", sort=rows["kind"].to_list(), title=None, axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("turns:Q", title="turns", axis=alt.Axis(tickMinStep=1, format="d")),
    )
    bars = base.mark_bar(color=COLOURS[7], height=14, cornerRadiusEnd=2)
    labels = base.mark_text(align="left", dx=4).encode(text="turns:Q")
    chart = (bars + labels).properties(width=480, height=alt.Step(22))
    return Chart(styled(chart, "Failed turns by kind", f"{failed:,} of {count_text(total, 'turn')}"), text, rows)


def credentials(report: pd.DataFrame, *, top: int = 30) -> Chart:
    """Credentials per integration, by their worst finding.

    Parameters
    ----------
    report : DataFrame
        The result of `credential_report`, or credentials.
    top : int
        Number of integrations with a bar of their own: those with the most credentials.
        The others share one bar. Default 30.

    Returns
    -------
    Chart
        Contains no parameters, names or addresses of credentials.

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "c1", "integration": "github",
    ...   "params": {"token": "x"}, "webhook_enabled": true}]}'''
    >>> credentials(to_frame("credentials", [page]))
    1 credential of 1 integration. By worst finding: 1 high. Most: github 1.
    """
    alt = altair()
    require(report, caller="plot.credentials")
    table = report if "findings" in report else credential_report(report)
    require(table, "integration", "severity", caller="plot.credentials")
    names = table["integration"].fillna("(not said)")
    counts = names.value_counts(sort=False).rename("n").rename_axis("integration").reset_index()
    counts = counts.sort_values(["n", "integration"], ascending=[False, True], ignore_index=True)
    order = counts["integration"].to_list()[:top]
    shown = names.where(names.isin(order), "(others)")
    order += ["(others)"] if len(counts) > top else []
    rows = pd.DataFrame({"integration": shown, "severity": table["severity"].astype("str")})
    rows = rows.value_counts(sort=False).rename("credentials").reset_index()
    rows["rank"] = rows["severity"].map({name: -n for n, name in enumerate(SEVERITIES)}).astype("int64")
    rows = rows.sort_values(["integration", "rank"], ignore_index=True)
    severities = table["severity"].value_counts()
    text = f"{count_text(len(table), 'credential')} of {count_text(len(counts), 'integration')}."
    if len(table):
        by_severity = [f"{severities[name]:,} {name}" for name in SEVERITIES[::-1] if severities[name]]
        by_integration = [f"{name} {n}" for name, n in zip(counts["integration"], counts["n"], strict=True)]
        text += f" By worst finding: {', '.join(by_severity)}. Most: {join_names(by_integration)}."
    colours = alt.Scale(domain=list(SEVERITIES[::-1]), range=[SEVERITY_COLOURS[name] for name in SEVERITIES[::-1]])
    chart = (
        alt.Chart(data_of(rows))
        .mark_bar(height=14)
        .encode(
            y=alt.Y("integration:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False)),
            x=alt.X("credentials:Q", title="credentials", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("severity:N", title="worst finding", scale=colours),
            order="rank:Q",
        )
        .properties(width=480, height=alt.Step(22))
    )
    return Chart(styled(chart, "Credentials by worst finding", "per integration"), text, rows)
