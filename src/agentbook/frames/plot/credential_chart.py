"""The bar chart of credentials by integration and worst finding."""

from __future__ import annotations

import pandas as pd

from ..analysis.credentials import credential_report
from ..analysis.findings import SEVERITIES
from ..analysis.validate import require
from .chart import SEVERITY_COLOURS, Chart, altair, count_text, data_of, join_names, styled


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
