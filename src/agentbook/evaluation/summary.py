"""The summary of the results: a table with one row per variant, and a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..frames.tabular import to_strings

if TYPE_CHECKING:
    import pandas as pd

    from ..frames.plot.chart import Chart


def summarise(results: pd.DataFrame, checks: Sequence[str] = ()) -> pd.DataFrame:
    """One row per variant: counts, pass rates and latencies.

    Parameters
    ----------
    results : DataFrame
        The frame of `agentbook.evaluation.answers.to_frame`.
    checks : sequence of str
        Names of its checks.

    Returns
    -------
    DataFrame
        ===============  =======  ====  ==========================================
        column           dtype    unit  meaning
        ===============  =======  ====  ==========================================
        variant          str
        version          str            version numbers it ran as, in order
        n                int64          questions asked
        answered         int64
        failed           int64          questions that failed or were stopped
        (check)_n        int64          replies the check could judge
        (check)_passed   int64          how many of these passed
        (check)_rate     float64        their share; missing if there are none
        passed           int64          replies that passed every check
        pass_rate        float64        their share of the replies that every
                                        check could judge; missing without checks
        p50_s            float64  s     median of the time from sending to reply
        p95_s            float64  s     95th percentile
        max_s            float64  s     maximum
        ===============  =======  ====  ==========================================

    Examples
    --------
    >>> from agentbook.evaluation.answers import Answer, to_frame
    >>> done = {"status": "answered", "reply": "Hello."}
    >>> answers = [Answer("brief", text, latency_s=2.0, **done) for text in ("a", "b")]
    >>> summarise(to_frame(answers))[["variant", "answered", "p50_s"]].values.tolist()
    [['brief', 2, 2.0]]
    """
    import pandas as pd

    rows = [_row(str(name), group, checks) for name, group in results.groupby("variant", sort=False)]
    counts = ["n", "answered", "failed", *(f"{name}_{part}" for name in checks for part in ("n", "passed")), "passed"]
    columns = ["variant", "version", "n", "answered", "failed"]
    columns += [f"{name}_{part}" for name in checks for part in ("n", "passed", "rate")]
    columns += ["passed", "pass_rate", "p50_s", "p95_s", "max_s"]
    frame = pd.DataFrame(rows, columns=columns)
    types: dict[str, Any] = dict.fromkeys(columns[2:], "float64") | dict.fromkeys(counts, "int64")
    return frame.assign(variant=to_strings(frame["variant"]), version=to_strings(frame["version"])).astype(types)


def _row(name: str, group: pd.DataFrame, checks: Sequence[str]) -> dict[str, Any]:
    answered = group[group["status"] == "answered"]
    versions = [str(version) for version in group["version"].dropna().unique()]
    row: dict[str, Any] = {
        "variant": name,
        "version": ", ".join(versions) or None,
        "n": len(group),
        "answered": len(answered),
        "failed": int(group["status"].isin(["failed", "stopped"]).sum()),
    }
    for check in checks:
        judged = answered[check].dropna()
        row |= {f"{check}_n": len(judged), f"{check}_passed": int(judged.sum()), f"{check}_rate": _share(judged)}
    judged = answered["passed"].dropna()
    row |= {"passed": int(judged.sum()), "pass_rate": _share(judged)}
    latencies = answered["latency_s"].dropna()
    quantiles = latencies.quantile([0.5, 0.95, 1.0]) if len(latencies) else [None] * 3
    return row | dict(zip(("p50_s", "p95_s", "max_s"), quantiles, strict=True))


def _share(judged: Any) -> float | None:
    return float(judged.mean()) if len(judged) else None


def chart(results: pd.DataFrame, checks: Sequence[str] = ()) -> Chart:
    """The share of replies that passed each check, and the latencies, per variant.

    Parameters
    ----------
    results : DataFrame
        The frame of `agentbook.evaluation.answers.to_frame`.
    checks : sequence of str
        Names of its checks.

    Returns
    -------
    Chart
        SVG with a text alternative, for light and dark pages.

    Raises
    ------
    ValueError
        If there is no reply yet.
    ImportError
        If the extra ``lab`` is not installed.
    """
    from ..frames.plot import style
    from ..frames.plot.chart import with_text

    alt = style.altair()
    answered = results[results["status"] == "answered"]
    if answered.empty:
        raise ValueError("There is no reply yet, so there is nothing to draw: run the lab first.")
    summary = summarise(results, checks)
    names = summary["variant"].tolist()
    colour = alt.Color("variant:N", sort=names, legend=None, scale=alt.Scale(domain=names, range=_colours(len(names))))
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=180))
    parts = [_latency_dots(alt, answered, y, colour)]
    rates = _rates(summary, checks)
    if len(rates):
        parts.insert(0, _rate_bars(alt, rates, names, colour))
    spec = alt.hconcat(*parts, spacing=36) if len(parts) > 1 else parts[0]
    subtitle = f"{len(answered)} of {len(results)} questions answered"
    return with_text(style.styled(spec, "Prompt lab", subtitle), _text_alternative(summary, checks), summary)


def _colours(count: int) -> list[str]:
    from ..frames.plot.style import COLOURS

    return [COLOURS[n % len(COLOURS)] for n in range(count)]


def _rates(summary: pd.DataFrame, checks: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            "variant": row["variant"],
            "check": check,
            "share": row[f"{check}_rate"],
            "count": f"{row[f'{check}_passed']} of {row[f'{check}_n']}",
        }
        for _, row in summary.iterrows()
        for check in checks
        if row[f"{check}_n"]
    ]
    return pd.DataFrame(rows, columns=["variant", "check", "share", "count"])


def _rate_bars(alt: Any, rates: pd.DataFrame, names: list[str], colour: Any) -> Any:
    from ..frames.plot import style

    x = alt.X(
        "share:Q", title="passed", axis=alt.Axis(format="%", grid=True, tickCount=3), scale=alt.Scale(domain=[0, 1])
    )
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=180))
    base = alt.Chart(style.data_of(rates)).encode(y=y)
    bars = base.mark_bar(height={"band": 0.66}, cornerRadiusEnd=2).encode(x=x, color=colour)
    # The count is next to its bar: inside it would be illegible on some colours.
    text = base.mark_text(align="left", dx=5).encode(x=x, text="count:N")
    panel = (bars + text).properties(width=190, height=alt.Step(22))
    row = alt.Row("check:N", title=None, sort=list(dict.fromkeys(rates["check"])), header=_header(alt))
    return panel.facet(row=row, spacing=14)


def _header(alt: Any) -> Any:
    from ..frames.plot.style import INK

    return alt.Header(labelOrient="top", labelAnchor="start", labelColor=INK, labelFontWeight="bold", labelPadding=4)


def _latency_dots(alt: Any, answered: pd.DataFrame, y: Any, colour: Any) -> Any:
    from ..frames.plot import style

    rows = answered[["variant", "latency_s"]].dropna()
    base = alt.Chart(style.data_of(rows)).encode(y=y)
    x = alt.X("latency_s:Q", title="seconds to the reply", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4))
    dots = base.mark_circle(size=46, opacity=0.75).encode(x=x, color=colour)
    median = base.mark_tick(thickness=2.5, height=18, color=style.INK).encode(x=alt.X("median(latency_s):Q"))
    return (dots + median).properties(width=230, height=alt.Step(34))


def _text_alternative(summary: pd.DataFrame, checks: Sequence[str]) -> str:
    sentences = []
    for _, row in summary.iterrows():
        text = f"{row['variant']}: {row['answered']} of {row['n']} answered"
        if row["answered"]:
            text += f", median {row['p50_s']:.3g} s"
        text += "".join(
            f", {check} {row[f'{check}_passed']} of {row[f'{check}_n']}" for check in checks if row[f"{check}_n"]
        )
        sentences.append(text)
    return "Prompt lab. " + "; ".join(sentences) + "."
