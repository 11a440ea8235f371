"""What a lab's results come to: a line for each variant, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.transcript import texts

if TYPE_CHECKING:
    import pandas as pd

    from ...frames.plot.chart import Chart


def summarise(results: pd.DataFrame, checks: Sequence[str] = ()) -> pd.DataFrame:
    """One line for each variant.

    Parameters
    ----------
    results : DataFrame
        As `agentbook.chat.prompt_lab.answers.to_frame` makes it.
    checks : sequence of str
        Names of its checks.

    Returns
    -------
    DataFrame
        ===============  =======  ====  ================================================================================
        column           dtype    unit  meaning
        ===============  =======  ====  ================================================================================
        variant          str
        version          str            version numbers it ran as, in order
        n                int64          questions asked
        answered         int64
        failed           int64          those that failed or were stopped
        (check)_n        int64          replies the check could judge
        (check)_passed   int64          of these, how many passed
        (check)_rate     float64        their share; missing where there are none
        passed           int64          replies that passed every check
        pass_rate        float64        their share of those that every check could judge; missing without checks
        p50_s            float64  s     median of the time from sending to the reply
        p95_s            float64  s     its 95th percentile
        max_s            float64  s     the longest
        ===============  =======  ====  ================================================================================

    Examples
    --------
    >>> from agentbook.chat.prompt_lab.answers import Answer, to_frame
    >>> said = [Answer("brief", text, status="answered", reply="Hello.", latency_s=n) for n, text in enumerate("ab", 1)]
    >>> summarise(to_frame(said))[["variant", "n", "answered", "p50_s"]].values.tolist()
    [['brief', 2, 2, 1.5]]
    """
    import pandas as pd

    rows = [_line(str(name), group, checks) for name, group in results.groupby("variant", sort=False)]
    whole = ["n", "answered", "failed", *(f"{name}_{part}" for name in checks for part in ("n", "passed")), "passed"]
    columns = ["variant", "version", "n", "answered", "failed"]
    columns += [f"{name}_{part}" for name in checks for part in ("n", "passed", "rate")]
    columns += ["passed", "pass_rate", "p50_s", "p95_s", "max_s"]
    frame = pd.DataFrame(rows, columns=columns)
    types: dict[str, Any] = dict.fromkeys(columns[2:], "float64") | dict.fromkeys(whole, "int64")
    return frame.assign(variant=texts(frame["variant"]), version=texts(frame["version"])).astype(types)


def _line(name: str, group: pd.DataFrame, checks: Sequence[str]) -> dict[str, Any]:
    answered = group[group["status"] == "answered"]
    versions = [str(version) for version in group["version"].dropna().unique()]
    line: dict[str, Any] = {
        "variant": name,
        "version": ", ".join(versions) or None,
        "n": len(group),
        "answered": len(answered),
        "failed": int(group["status"].isin(["failed", "stopped"]).sum()),
    }
    for check in checks:
        judged = answered[check].dropna()
        line |= {f"{check}_n": len(judged), f"{check}_passed": int(judged.sum()), f"{check}_rate": _share(judged)}
    judged = answered["passed"].dropna()
    line |= {"passed": int(judged.sum()), "pass_rate": _share(judged)}
    waits = answered["latency_s"].dropna()
    quantiles = waits.quantile([0.5, 0.95, 1.0]) if len(waits) else [None] * 3
    return line | dict(zip(("p50_s", "p95_s", "max_s"), quantiles, strict=True))


def _share(judged: Any) -> float | None:
    return float(judged.mean()) if len(judged) else None


def chart(results: pd.DataFrame, checks: Sequence[str] = ()) -> Chart:
    """Share of replies that passed each check, and the waiting times, variant by variant.

    Parameters
    ----------
    results : DataFrame
        As `agentbook.chat.prompt_lab.answers.to_frame` makes it.
    checks : sequence of str
        Names of its checks.

    Returns
    -------
    Chart
        SVG with a text alternative, for light and dark pages.

    Raises
    ------
    ValueError
        If nothing was answered yet.
    ImportError
        The extra ``lab`` is not installed.
    """
    from ...frames.plot import chart as picture

    alt = picture.altair()
    answered = results[results["status"] == "answered"]
    if answered.empty:
        raise ValueError("There is no reply yet, so there is nothing to draw: run the lab first.")
    lines = summarise(results, checks)
    names = lines["variant"].tolist()
    colour = alt.Color("variant:N", sort=names, legend=None, scale=alt.Scale(domain=names, range=_colours(len(names))))
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=180))
    parts = [_waits(alt, answered, y, colour)]
    rates = _rates(lines, checks)
    if len(rates):
        parts.insert(0, _shares(alt, rates, names, colour))
    made = alt.hconcat(*parts, spacing=36) if len(parts) > 1 else parts[0]
    subtitle = f"{len(answered)} replies of {len(results)} asked"
    return picture.Chart(picture.drawn(made, "Prompt lab", subtitle), _words(lines, checks), lines)


def _colours(count: int) -> list[str]:
    from ...frames.plot.chart import COLOURS

    return [COLOURS[n % len(COLOURS)] for n in range(count)]


def _rates(lines: pd.DataFrame, checks: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            "variant": line["variant"],
            "check": check,
            "share": line[f"{check}_rate"],
            "count": f"{line[f'{check}_passed']} of {line[f'{check}_n']}",
        }
        for _, line in lines.iterrows()
        for check in checks
        if line[f"{check}_n"]
    ]
    return pd.DataFrame(rows, columns=["variant", "check", "share", "count"])


def _shares(alt: Any, rates: pd.DataFrame, names: list[str], colour: Any) -> Any:
    from ...frames.plot import chart as picture

    x = alt.X(
        "share:Q", title="passed", axis=alt.Axis(format="%", grid=True, tickCount=3), scale=alt.Scale(domain=[0, 1])
    )
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=180))
    base = alt.Chart(picture.data_of(rates)).encode(y=y)
    bars = base.mark_bar(height={"band": 0.66}, cornerRadiusEnd=2).encode(x=x, color=colour)
    # Beside the bar, where a short one leaves room; inside a long one nothing could be read on every colour.
    text = base.mark_text(align="left", dx=5).encode(x=x, text="count:N")
    each = (bars + text).properties(width=190, height=alt.Step(22))
    row = alt.Row("check:N", title=None, sort=list(dict.fromkeys(rates["check"])), header=_header(alt))
    return each.facet(row=row, spacing=14)


def _header(alt: Any) -> Any:
    from ...frames.plot.chart import INK

    return alt.Header(labelOrient="top", labelAnchor="start", labelColor=INK, labelFontWeight="bold", labelPadding=4)


def _waits(alt: Any, answered: pd.DataFrame, y: Any, colour: Any) -> Any:
    from ...frames.plot import chart as picture

    rows = answered[["variant", "latency_s"]].dropna()
    base = alt.Chart(picture.data_of(rows)).encode(y=y)
    x = alt.X("latency_s:Q", title="seconds to the reply", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4))
    dots = base.mark_circle(size=46, opacity=0.75).encode(x=x, color=colour)
    median = base.mark_tick(thickness=2.5, height=18, color=picture.INK).encode(x=alt.X("median(latency_s):Q"))
    return (dots + median).properties(width=230, height=alt.Step(34))


def _words(lines: pd.DataFrame, checks: Sequence[str]) -> str:
    said = []
    for _, line in lines.iterrows():
        text = f"{line['variant']}: {line['answered']} of {line['n']} answered"
        if line["answered"]:
            text += f", median {line['p50_s']:.3g} s"
        text += "".join(
            f", {check} {line[f'{check}_passed']} of {line[f'{check}_n']}" for check in checks if line[f"{check}_n"]
        )
        said.append(text)
    return "Prompt lab. " + "; ".join(said) + "."
