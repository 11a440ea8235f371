"""What the results say: rates and latencies, and variants in pairs.

In pairs, the unit is the input: repeats are averaged first, because replies to one
input are not independent. For passed or not, with one reply each: McNemar's mid-p test
(Fagerland, 2013) and the interval of Agresti and Min (2005). For everything else: a
test that flips the signs of the differences, and Student's interval. Latencies are
compared as ratios, using their logarithms, and only within a run: between two runs, the
load is not the same. There is no bootstrap: with few inputs, its intervals are far too
short.

Who sees an open verdict, adds inputs and looks again would sooner or later call noise a
difference. So each run that added replies counts as a look, and the looks share the
5 %: the first has four fifths of it, and look k from the second on one fifth divided by
k (k - 1). These shares sum to one, so the verdicts of all looks together are wrong no
more often than one alone may be (the union bound). The first has most, because deciding
the number of inputs first and looking once needs the fewest of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..frames.analysis.clusters import holm, levels, p_value, t_quantile
from ..frames.tabular import typed

if TYPE_CHECKING:
    import pandas as pd

    from ..frames.plot.chart import Chart


def summarise(results: pd.DataFrame, checks: Sequence[str] = ()) -> pd.DataFrame:
    """One row per variant: counts, pass rates and latencies.

    Parameters
    ----------
    results : DataFrame
        The frame of `agentbook.evaluation.experiment.to_frame`.
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
    >>> from agentbook.evaluation.experiment import Answer, to_frame
    >>> done = {"status": "answered", "reply": "Hello."}
    >>> answers = [Answer("brief", text, latency_s=2.0, **done) for text in ("a", "b")]
    >>> summarise(to_frame(answers))[["variant", "answered", "p50_s"]].values.tolist()
    [['brief', 2, 2.0]]
    """
    import pandas as pd

    dtypes = {"variant": "str", "version": "str", "n": "int64", "answered": "int64", "failed": "int64"}
    for name in checks:
        dtypes |= {f"{name}_n": "int64", f"{name}_passed": "int64", f"{name}_rate": "float64"}
    dtypes |= {"passed": "int64", **dict.fromkeys(("pass_rate", "p50_s", "p95_s", "max_s"), "float64")}
    rows = [_row(str(name), group, checks) for name, group in results.groupby("variant", sort=False)]
    return typed(pd.DataFrame(rows, columns=list(dtypes)), dtypes)


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
        The frame of `agentbook.evaluation.experiment.to_frame`.
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
    colours = list(itertools.islice(itertools.cycle(style.COLOURS), len(names)))
    colour = alt.Color("variant:N", sort=names, legend=None, scale=alt.Scale(domain=names, range=colours))
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=180))
    parts = [_latency_dots(alt, answered, y, colour)]
    rates = _rates(answered, checks)
    if len(rates):
        parts.insert(0, _rate_bars(alt, rates, y, colour))
    spec = alt.hconcat(*parts, spacing=36) if len(parts) > 1 else parts[0]
    subtitle = f"{len(answered)} of {len(results)} questions answered"
    return with_text(style.styled(spec, "Prompt lab", subtitle), _text_alternative(summary, checks), summary)


def _rates(answered: pd.DataFrame, checks: Sequence[str]) -> pd.DataFrame:
    columns = answered[["variant", *checks]]
    judged = columns.melt("variant", var_name="check", value_name="passed").dropna().astype({"passed": "int64"})
    rates = judged.groupby(["variant", "check"], sort=False)["passed"].agg(["mean", "sum", "size"]).reset_index()
    count = rates["sum"].astype(str) + " of " + rates["size"].astype(str)
    return rates[["variant", "check"]].assign(share=rates["mean"], count=count)


def _rate_bars(alt: Any, rates: pd.DataFrame, y: Any, colour: Any) -> Any:
    from ..frames.plot import style

    axis = alt.Axis(format="%", grid=True, tickCount=3)
    x = alt.X("share:Q", title="passed", axis=axis, scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(style.data_of(rates)).encode(y=y)
    bars = base.mark_bar(height={"band": 0.66}, cornerRadiusEnd=2).encode(x=x, color=colour)
    # The count is next to its bar: inside it would be illegible on some colours.
    text = base.mark_text(align="left", dx=5).encode(x=x, text="count:N")
    panel = (bars + text).properties(width=190, height=alt.Step(22))
    look = {"labelOrient": "top", "labelAnchor": "start", "labelFontWeight": "bold", "labelPadding": 4}
    header = alt.Header(labelColor=style.INK, **look)
    row = alt.Row("check:N", title=None, sort=list(dict.fromkeys(rates["check"])), header=header)
    return panel.facet(row=row, spacing=14)


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
        known = [check for check in checks if row[f"{check}_n"]]
        text += "".join(f", {check} {row[f'{check}_passed']} of {row[f'{check}_n']}" for check in known)
        sentences.append(text)
    return "Prompt lab. " + "; ".join(sentences) + "."


Floats = npt.NDArray[np.float64]
LEVEL = 0.05
POWER = 0.8
LATENCY = "latency_s"
VERDICTS = ("better", "worse", "open")
_EXACT = 14  # differences whose signs are flipped in all 2**14 ways
_FLIPS = 20_000  # random sign patterns, beyond that
_MANY = 200  # with this many differences, their sum is close enough to normal
_ROUNDING = 12  # decimals of a difference; what follows is an error of rounding
MOST_INPUTS = 10_000  # of `inputs_to_add`: a difference that needs more is as good as none
_PAIRED_COLUMNS = {
    "variant": "str", "metric": "str", "n": "int64", "before": "float64", "after": "float64", "effect": "float64",
    "low": "float64", "high": "float64", "p": "float64", "verdict": "category", "more_inputs": "Int64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference between two variants, with its interval and its test."""

    effect: float
    low: float
    high: float
    p: float


def compare_variants(
    results: pd.DataFrame, checks: Sequence[str], baseline: str, metrics: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """The other variants compared with one of them, on the inputs that both were asked.

    A question that failed passes no check. Scores and latencies need a reply of both.

    Parameters
    ----------
    results : DataFrame
        The frame of `agentbook.evaluation.experiment.to_frame`.
    checks : sequence of str
        Names of its checks.
    baseline : str
        The variant to compare with.
    metrics : str or iterable of str, optional
        What to compare: checks, ``passed`` (all of them) and ``latency_s``. Each one
        more raises what the others have to show, so name those that decide, before you
        see the replies. Default: all.

    Returns
    -------
    DataFrame
        A row per variant and metric:

        ============  ========  ====================================================
        column        dtype     meaning
        ============  ========  ====================================================
        variant       str       compared with `baseline`
        metric        str       a check, ``passed`` with several checks, or
                                ``latency_s``
        n             int64     inputs with a verdict of both; of latencies, those
                                that both answered in the same run
        before        float64   of the baseline: mean over the inputs, of latencies
                                the geometric one (seconds)
        after         float64   of the variant
        effect        float64   after - before; of latencies after / before
        low, high     float64   95 % interval of the effect; where it contradicts the
                                corrected `p`, the bound near no effect is that of
                                the test, so that it leaves out no effect exactly
                                where the verdict is not open; null where the
                                differences show no spread
        p             float64   two-sided, corrected for the number of looks (runs that
                                added replies: the first counts 1.25 times, the k-th
                                5 k (k - 1) times) and of rows (Holm). A smaller one
                                of an earlier look stays, if the effect kept its sign
        verdict       category  better or worse if `p` is below 0.05, else open
        more_inputs   Int64     inputs to add until a difference of this size would
                                show in four runs of five at the next look, after the
                                corrections; at most 10,000; null if there is none
        ============  ========  ====================================================

    Raises
    ------
    ValueError
        If there is no such metric, or `metrics` is empty.

    Examples
    --------
    >>> from agentbook.evaluation.experiment import Answer, to_frame
    >>> answers = [
    ...     Answer(name, f"{n}", status="answered", reply="", latency_s=seconds + n)
    ...     for name, seconds in (("now", 2.0), ("brief", 1.0)) for n in range(8)]
    >>> table = compare_variants(to_frame(answers), [], "now")
    >>> table[["variant", "metric", "n", "verdict"]].values.tolist()
    [['brief', 'latency_s', 8, 'better']]
    """
    import pandas as pd

    chosen = _metrics(checks, metrics)
    rows = list(_rows(_decided(results, checks), chosen, baseline))
    p = np.array([row["p"] for row in rows], np.float64)
    corrected = holm(p)
    for row, each, level in zip(rows, corrected, levels(p, corrected, np.count_nonzero(~np.isnan(p))), strict=True):
        if row["n"]:
            # At this level the test of all inputs decides as the corrected p does.
            level = min(level * row["p_now"] / row["p"], 0.999) if row["p"] else level
            row["low"], row["high"] = agreeing(Estimate(row["effect"], row["low"], row["high"], row["p_now"]), level)
        if row["n"] and row["metric"] == LATENCY:
            row |= {name: math.exp(row[name]) for name in ("before", "after", "effect", "low", "high")}
        row["p"] = each
        row["verdict"] = _verdict(row["metric"], row.get("effect", math.nan), each)
        if row["verdict"] != "open":
            row["more_inputs"] = 0
    frame = pd.DataFrame(rows, columns=list(_PAIRED_COLUMNS))
    return typed(frame, _PAIRED_COLUMNS, {"verdict": VERDICTS})


def _decided(results: pd.DataFrame, checks: Sequence[str]) -> pd.DataFrame:
    """What was answered, and what failed and was never answered: it passed no check."""
    pairs = results.set_index(["variant", "input"]).index
    is_answered = results["status"] == "answered"
    has_failed = (results["status"] == "failed") & ~pairs.isin(pairs[is_answered])
    decided = results[is_answered | has_failed].copy()
    if checks and has_failed.any():
        decided.loc[has_failed, [*checks, "passed"]] = False
    return decided


def _metrics(checks: Sequence[str], metrics: str | Iterable[str] | None) -> list[str]:
    if metrics is None:
        return [*checks, *(["passed"] if len(checks) > 1 else []), LATENCY]
    chosen = list(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
    known = [*checks, *(["passed"] if checks else []), LATENCY]
    if not chosen or not set(chosen) <= set(known):
        wrong = next((f"There is no metric {each!r}" for each in chosen if each not in known), "metrics= is empty")
        raise ValueError(f"{wrong}; there are: {', '.join(known)}.")
    return chosen


def _rows(answered: pd.DataFrame, metrics: Sequence[str], baseline: str) -> Iterator[dict[str, Any]]:
    others = [variant for variant in answered["variant"].unique() if variant != baseline]
    # The level that Holm's correction asks of the smallest p.
    level = LEVEL / max(1, len(metrics) * len(others))
    for variant in others:
        sides = answered[answered["variant"].isin([baseline, variant])]
        for metric in metrics:
            yield {"variant": variant, "metric": metric, **_paired_row(sides, metric, baseline, variant, level)}


def _pairs(answered: pd.DataFrame, metric: str, baseline: str, variant: str) -> tuple[Floats, Floats, bool]:
    """Values by input of both variants, and whether each is passed or not, once."""
    column = f"{metric}_score" if f"{metric}_score" in answered else metric
    values = answered[["variant", "input"]].assign(value=answered[column].astype("Float64").astype("float64"))
    if metric == LATENCY:
        values = values[values["value"] > 0]
        by_run = values.assign(run=answered.loc[values.index, "run_at"]).groupby(["input", "run"], dropna=False)[
            "variant"
        ]
        values = values[by_run.transform("nunique") == 2]
    groups = values.dropna(subset="value").groupby(["variant", "input"], sort=False)["value"]
    averages = (groups.median() if metric == LATENCY else groups.mean()).unstack("variant")
    averages = averages.reindex(columns=[baseline, variant]).dropna()
    before, after = averages[baseline].to_numpy(np.float64), averages[variant].to_numpy(np.float64)
    is_binary = column == metric != LATENCY and bool(groups.size().max() == 1)
    return (np.log(before), np.log(after), False) if metric == LATENCY else (before, after, is_binary)


def _paired_row(sides: pd.DataFrame, metric: str, baseline: str, variant: str, level: float) -> dict[str, Any]:
    looks, known = list[Estimate](), np.empty(0)
    for run_at in sorted(sides["run_at"].dropna().unique()) or [None]:
        seen = sides if run_at is None else sides[~(sides["run_at"] > run_at)]
        before, after, is_binary = _pairs(seen, metric, baseline, variant)
        differences = np.round(after - before, _ROUNDING)
        if not np.array_equal(differences, known):  # this run added something that can be compared
            known = differences
            looks.append(compare_passes(known) if is_binary else compare_differences(known))
    if not looks:
        return {"n": 0, "p": math.nan, "more_inputs": None}
    now = looks[-1]
    kept = [each.p * _times(look) for look, each in enumerate(looks, 1) if each is now or each.effect * now.effect > 0]
    return {
        "n": len(before), "before": float(before.mean()), "after": float(after.mean()),
        "effect": now.effect, "low": now.low, "high": now.high, "p": min(kept), "p_now": now.p,
        "more_inputs": inputs_to_add(known, level / _times(len(looks) + 1), is_binary),
    }  # fmt: skip


def _times(look: int) -> float:
    """What the k-th look multiplies its p by: the inverse of its share of the level.

    Examples
    --------
    >>> [_times(look) for look in (1, 2, 3)]
    [1.25, 10.0, 30.0]
    >>> round(sum(1 / _times(look) for look in range(1, 10_000)), 3)
    1.0
    """
    return 5.0 * look * (look - 1) if look > 1 else 1.25


def _verdict(metric: str, effect: float, p: float) -> str:
    if not p < LEVEL:
        return "open"
    gain = -math.log(effect) if metric == LATENCY else effect
    return "better" if gain > 0 else "worse"


def agreeing(estimate: Estimate, level: float = LEVEL) -> tuple[float, float]:
    """The interval of an estimate, which leaves out 0 exactly where p is below a level.

    The test and the interval have different methods and, after a correction, different
    levels. Where they disagree, the bound next to 0 is that of the test, for a normal
    effect.

    Examples
    --------
    >>> low, high = agreeing(Estimate(0.3, 0.1, 0.5, p=0.04), level=0.025)
    >>> low < 0, high
    (True, 0.5)
    """
    effect, low, high, p = estimate.effect, estimate.low, estimate.high, estimate.p
    if math.isnan(low) or math.isnan(p) or (low <= 0 <= high) != (p < level):
        return low, high
    normal = NormalDist()
    reach = normal.inv_cdf(1 - level / 2) / max(1e-9, -normal.inv_cdf(max(p, 1e-300) / 2))
    bound = effect * (1 - reach)
    return (bound, high) if effect > 0 else (low, bound)


def compare_passes(differences: Floats) -> Estimate:
    """The estimate for inputs that now pass (+1), now fail (-1) or did not change (0).

    Examples
    --------
    >>> estimate = compare_passes(np.array([1.0] * 8 + [0.0] * 12))
    >>> round(estimate.effect, 2), round(estimate.p, 4)
    (0.4, 0.0039)
    """
    n, won, lost = len(differences), int((differences > 0).sum()), int((differences < 0).sum())
    changed, fewer = won + lost, min(won, lost)
    p = 1.0
    if won != lost:
        weights = [math.comb(changed, k) for k in range(fewer + 1)]
        p = (2 * sum(weights) - weights[-1]) / 2**changed
    centre = (won - lost) / (n + 2)
    spread = math.sqrt(changed + 1 - (won - lost) ** 2 / (n + 2)) / (n + 2)
    reach = NormalDist().inv_cdf(1 - LEVEL / 2) * spread
    return Estimate((won - lost) / n, max(-1.0, centre - reach), min(1.0, centre + reach), p)


def _mean(differences: Floats) -> float:
    """The mean; 0 where the differences cancel but for an error of rounding."""
    return round(float(differences.mean()), _ROUNDING) + 0.0  # not -0.0


def compare_differences(differences: Floats) -> Estimate:
    """The estimate for differences between the averages of each input.

    Examples
    --------
    >>> estimate = compare_differences(np.array([0.2, 0.4, 0.3, 0.5, 0.1, 0.3]))
    >>> round(estimate.effect, 2), round(estimate.low, 2), round(estimate.p, 4)
    (0.3, 0.15, 0.0312)
    """
    n, effect = len(differences), _mean(differences)
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    # Equal differences say nothing about how much others would vary.
    reach = t_quantile(n - 1) * spread / math.sqrt(n) if spread > 1e-12 else math.nan
    return Estimate(effect, effect - reach, effect + reach, flip_signs(differences))


def flip_signs(differences: Floats) -> float:
    """The share of sign patterns whose sum is at least as far from zero: a two-sided p.

    Uses all patterns for up to 14 differences, and 20,000 random ones for more, the
    same in each run. The sum of more than 200 is assumed to be normal.

    Examples
    --------
    >>> flip_signs(np.array([1.0, 2.0, 3.0]))
    0.25
    """
    changed = differences[differences != 0]
    n, total = len(changed), abs(changed.sum()) * (1 - 1e-9) - 10.0**-_ROUNDING  # equal sums may be rounded otherwise
    if n <= _EXACT:
        signs = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) * 2 - 1
        return float((np.abs(signs @ changed) >= total).mean()) if n else 1.0
    if n > _MANY:
        return p_value(float(changed.sum() / math.sqrt(changed @ changed)))
    signs = np.random.default_rng(0).integers(0, 2, (_FLIPS, n), np.int8) * 2 - 1
    return (float((np.abs(signs @ changed) >= total).sum()) + 1) / (_FLIPS + 1)


def inputs_to_add(differences: Floats, level: float = LEVEL, is_binary: bool = False) -> int | None:
    """The inputs to add until a difference of this size would show; None if it is zero.

    At most `MOST_INPUTS`.

    Parameters
    ----------
    differences : array of float
        Of the inputs so far.
    level : float
        The p below which it shows.
    is_binary : bool
        Whether each is +1, 0 or -1, of replies that passed or not.

    Examples
    --------
    >>> inputs_to_add(np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0]))
    243
    """
    n, effect = len(differences), _mean(differences)
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    if not effect:
        return None
    normal = NormalDist()
    needed = ((normal.inv_cdf(1 - level / 2) + normal.inv_cdf(POWER)) * spread / effect) ** 2
    # Both tests are exact: with fewer changes, p cannot be this small, even if all
    # agree.
    fewest = math.floor(math.log2(1 / level)) + (1 if is_binary else 2)
    needed = max(needed, fewest * n / np.count_nonzero(differences))
    return min(max(1, math.ceil(needed) - n), MOST_INPUTS)


def describe(table: pd.DataFrame, baseline: str) -> list[str]:
    """What the comparison shows, in sentences.

    Examples
    --------
    >>> from agentbook.evaluation.experiment import Answer, to_frame
    >>> answers = [
    ...     Answer(name, f"{n}", status="answered", reply="", latency_s=seconds + n)
    ...     for name, seconds in (("now", 2.0), ("brief", 1.0)) for n in range(8)]
    >>> print(*describe(compare_variants(to_frame(answers), [], "now"), "now"))
    brief is faster than now: 0.76 times the latency (0.65 to 0.89), 8 inputs.
    """
    settled = [_sentence(row, baseline) for row in table.to_dict("records") if row["verdict"] != "open"]
    waiting = table[table["more_inputs"].notna() & (table["verdict"] == "open")].to_dict("records")
    if settled:
        return settled
    if not waiting:
        return [f"No difference from {baseline} has shown."] if (table["n"] > 0).any() else []
    # What the checks say comes before the latency.
    row = min(waiting, key=lambda each: (each["metric"] == LATENCY, int(each["more_inputs"])))
    about = "More than" if row["more_inputs"] >= MOST_INPUTS else "About"
    more = f"{about} {row['more_inputs']:,} more input{'s' if row['more_inputs'] != 1 else ''}"
    return [
        f"No difference from {baseline} is more than noise yet. {more} would show whether {row['variant']} differs in "
        f"{_metric(row['metric'])}, if the difference is as large as it seems. Add them all before you look again."
    ]


def decision(table: pd.DataFrame, variant: str, baseline: str) -> tuple[str, bool]:
    """What a comparison says of one variant, and whether that leaves its use open.

    It does if the variant is better than the baseline at nothing; of the baseline
    itself, if no other variant is worse. Without pairs there is nothing to say.

    Examples
    --------
    >>> import pandas as pd
    >>> decision(pd.DataFrame({"variant": [], "n": []}), "brief", "now")
    ('', False)
    """
    rows = table[(table["n"] > 0) & ((table["variant"] == variant) | (variant == baseline))]
    if rows.empty:
        return "", False
    return " ".join(describe(rows, baseline)), not (rows["verdict"] == VERDICTS[variant == baseline]).any()


def _sentence(row: Mapping[Any, Any], baseline: str) -> str:
    inputs = f"{row['n']:,} input{'s' if row['n'] != 1 else ''}"
    if row["metric"] == LATENCY:
        word = "faster" if row["verdict"] == "better" else "slower"
        return (
            f"{row['variant']} is {word} than {baseline}: {row['effect']:.2g} times the latency"
            f"{_interval(row, '.2g')}, {inputs}."
        )
    return (
        f"{row['variant']} is {row['verdict']} than {baseline} at {_metric(row['metric'])}: "
        f"{row['before']:.2g} became {row['after']:.2g}, a difference of {row['effect']:+.2g}"
        f"{_interval(row, '+.2g')}, {inputs}."
    )


def _interval(row: Mapping[Any, Any], spec: str) -> str:
    return "" if math.isnan(row["low"]) else f" ({row['low']:{spec}} to {row['high']:{spec}})"


def _metric(name: str) -> str:
    return "latency" if name == LATENCY else "all checks" if name == "passed" else f"“{name}”"


def leader(summary: pd.DataFrame, names: Sequence[str]) -> str:
    """The variant with the highest pass rate; among equals, the fastest.

    Empty if none of them was judged, or none passed anything.

    Examples
    --------
    >>> import pandas as pd
    >>> summary = pd.DataFrame(
    ...     {"variant": ["now", "brief"], "pass_rate": [0.5, 0.75], "p50_s": [1, 2]})
    >>> leader(summary, ["now", "brief"])
    'brief'
    """
    judged = summary[summary["variant"].isin(list(names)) & (summary["pass_rate"] > 0)]
    if judged.empty:
        return ""
    return str(judged.sort_values(["pass_rate", "p50_s"], ascending=[False, True])["variant"].iloc[0])
