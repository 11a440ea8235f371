"""The version history, the results and the summary of a lab as safe HTML.

Text of users and agents goes through `plain` or `render`. The chart is an image, so
nothing in it can run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..._text import seconds
from ...evaluation.answers import Answer
from ...evaluation.configurator import AgentConfigurator
from ...evaluation.experiment import Experiment
from ...evaluation.paired import describe
from ...evaluation.variant import Variant
from ...evaluation.versions import Version
from ..assets import read_style
from ..html.message_html import finish_chip
from ..html.sanitize import plain
from ..html.static_transcript import empty_element, static_element
from ..html.static_transcript import title as heading
from .diff import PromptDiff
from .result_rows import rendered

STYLE = f"<style>{read_style('lab/form.css')}</style>"


def title(text: str) -> str:
    """The heading of a section."""
    return f'<div class="ab-lab-title" role="heading" aria-level="4">{plain(text)}</div>'


def history(configurator: AgentConfigurator | None, agent: str | None, *, unread: bool = False) -> str:
    """The versions as a table, newest first; the current one is marked.

    `unread` says that reading them has failed.
    """
    if configurator is None:
        text = "The versions could not be read." if unread else "Reading the versions…"
        return f'<div class="ab-foot">{text}</div>' if agent is not None else ""
    if configurator.versions is None:
        return '<div class="ab-foot">The versions of this agent cannot be read with this key.</div>'
    if not configurator.versions:
        return '<div class="ab-foot">This agent has no versions yet.</div>'
    rows = "".join(_version(version, version == configurator.current) for version in configurator.versions)
    head = "<thead><tr><th>version</th><th>created (UTC)</th><th>summary</th></tr></thead>"
    table = f'<table class="ab-lab-table">{head}<tbody>{rows}</tbody></table>'
    return f'<div class="ab-scroll" tabindex="0" role="region" aria-label="Versions of the agent">{table}</div>'


def _version(version: Version, current: bool) -> str:
    created = version.created_at.strftime("%Y-%m-%d %H:%M") if version.created_at else ""
    kind = "(current)" if current else "(ephemeral)" if version.type == "EPHEMERAL" else ""
    mark = f' <span class="ab-lab-mark">{kind}</span>' if kind else ""
    name = f'<span class="{"ab-lab-now" if current else ""}">{plain(version.label)}{mark}</span>'
    return f"<tr><td>{name}</td><td>{plain(created)}</td><td>{plain(version.summary or '')}</td></tr>"


def difference(old: str | None, new: str | None, old_label: str, new_label: str) -> str:
    """The difference between two prompts, or a hint to choose two."""
    if old is None or new is None:
        return '<div class="ab-foot">Choose two prompts to compare.</div>'
    diff = PromptDiff(old, new, old_label, new_label).to_html()
    return f'<div class="ab-difference" tabindex="0" role="region" aria-label="Difference">{diff}</div>'


def guide(steps: Mapping[str, bool]) -> str:
    """The first steps in a lab; empty once all are done."""
    if all(steps.values()):
        return ""
    items = "".join(
        f"<li{' class=ab-done' if done else ''}>{plain(text)}"
        f"{'<span class=ab-unseen> Done.</span>' if done else ''}</li>"
        for text, done in steps.items()
    )
    return f'<div class="ab-lab-title" role="heading" aria-level="4">Three steps</div><ol>{items}</ol>'


# The saved notebook


def result(
    text: str, variants: Iterable[str], answers: Mapping[tuple[str, str], Sequence[Answer]], checks: Sequence[str]
) -> str:
    """One input and the replies of the variants, side by side."""
    cells = "".join(_cell(name, answer, checks) for name in variants for answer in answers.get((name, text), ()))
    question = f'<blockquote class="ab-asked" dir="auto">{plain(text)}</blockquote>'
    return f'<div class="ab-result">{question}<div class="ab-cells">{cells}</div></div>'


def _cell(name: str, answer: Answer, checks: Sequence[str]) -> str:
    version = f" · {plain(answer.version)}" if answer.version else ""
    times = f" · no. {answer.repeat}" if answer.repeat > 1 else ""
    who = f'<h6 class="ab-who"><strong>{plain(name)}</strong>{version}{times}</h6>'
    if answer.status == "asking":
        return f'<div class="ab-cell">{who}<div class="ab-foot">asking…</div></div>'
    if answer.status == "answered":
        reply = f'<div class="ab-md">{rendered(answer.reply or "")}</div>'
        latency = f"Reply after {seconds(answer.latency_s)}" if answer.latency_s is not None else ""
        facts = finish_chip(answer.finish_reason) + latency
        foot = f'<div class="ab-foot">{facts}</div>' if facts else ""
        return f'<div class="ab-cell">{who}{reply}{_verdicts(answer, checks)}{_rating(answer)}{foot}</div>'
    word = "Failed." if answer.status == "failed" else "Stopped."
    reason = answer.reason or "The agent may still finish; Run looks for its reply."
    request = f'<div class="ab-id">Request {plain(answer.request_id)}</div>' if answer.request_id else ""
    failure = f'<div class="ab-failed"><strong>{word}</strong> {plain(reason)}{request}</div>'
    return f'<div class="ab-cell">{who}{failure}</div>'


_VERDICTS = {True: ("ab-yes", "passed"), False: ("ab-no", "not passed"), None: ("ab-maybe", "undecided")}


def _verdicts(answer: Answer, checks: Sequence[str]) -> str:
    chips = []
    for name in checks:
        verdict = answer.verdicts.get(name)
        if verdict is None:
            continue
        kind, word = _VERDICTS[verdict.passed]
        score = f" {verdict.score:.2g}" if verdict.score is not None else ""
        title = f' title="{plain(verdict.error)}"' if verdict.error else ""
        chips.append(
            f'<span class="ab-check {kind}"{title}>{plain(name)}{score}<span class="ab-unseen"> {word}</span></span>'
        )
    # Without styles, the chips are words in a row.
    return f'<div class="ab-checks">{"<span class=ab-unseen>; </span>".join(chips)}</div>' if chips else ""


def _rating(answer: Answer) -> str:
    thumb = "" if answer.thumb is None else "👍 good" if answer.thumb else "👎 bad"
    words = ": ".join(plain(part) for part in (thumb, answer.note) if part)
    return f'<p class="ab-r-rating">{words}</p>' if words else ""


def summary(experiment: Experiment) -> str:
    """The summary and what it shows, in sentences; empty before a run."""
    table = figures(experiment)
    return table + sentences(comparison(experiment) + agreements(experiment)) if table else ""


def figures(experiment: Experiment) -> str:
    """The summary as a table; empty before a run."""
    frame = experiment.summary()
    if frame.empty:
        return ""
    names, costs = list(experiment.checks), _costs(experiment)
    titles = ["answered", *names, "median", "p95", *(["cost"] if costs else [])]
    head = "".join(f'<th scope="col" class="ab-figure">{plain(name)}</th>' for name in titles)
    body = ""
    for row in frame.to_dict("records"):
        values = [f"{row['answered']} of {row['n']}"]
        values += [f"{row[f'{name}_passed']} of {row[f'{name}_n']}" for name in names]
        values += [seconds(row[name]) if row[name] == row[name] else "–" for name in ("p50_s", "p95_s")]
        values += [costs.get(row["variant"], "–")] if costs else []
        cells = "".join(f'<td class="ab-figure">{plain(value)}</td>' for value in values)
        version = (
            f' <span class="ab-lab-version">{plain(row["version"])}</span>' if isinstance(row["version"], str) else ""
        )
        body += f'<tr><th scope="row">{plain(row["variant"])}{version}</th>{cells}</tr>'
    return (
        '<div class="ab-scroll" tabindex="0" role="region" aria-label="Summary"><table class="ab-lab-table">'
        f'<thead><tr><th scope="col">variant</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _costs(experiment: Experiment) -> dict[str, str]:
    """What the replies of each variant cost; empty without prices.

    Where the cost of a reply is not known, there is no sum: a part would look like the
    total.
    """
    known: dict[str, list[float]] = {}
    unknown: Counter[str] = Counter()
    for answer in experiment.answers:
        if answer.cost is not None:
            known.setdefault(answer.variant, []).append(answer.cost)
        elif answer.status == "answered":
            unknown[answer.variant] += 1
    return {name: "–" if unknown[name] else f"{sum(costs):.3g}" for name, costs in known.items()}


def sentences(lines: Sequence[str]) -> str:
    """What results show, a sentence per line; empty if nothing."""
    return f'<div class="ab-lab-verdict">{"<br>".join(map(plain, lines))}</div>' if lines else ""


def comparison(experiment: Experiment) -> list[str]:
    """What the comparison of the variants shows, in sentences."""
    if len(experiment.variants) < 2:
        return []
    return describe(experiment.compare_variants(), next(iter(experiment.variants)))


def agreements(experiment: Experiment) -> list[str]:
    """How far judges agree with people, in sentences."""
    lines = []
    for name in (name for name, check in experiment.checks.items() if not check.is_local):
        rated = [(answer.verdicts.get(name), answer.thumb) for answer in experiment.answers if answer.thumb is not None]
        pairs = [
            (verdict.passed, thumb) for verdict, thumb in rated if verdict is not None and verdict.passed is not None
        ]
        if pairs:
            agreed, noun = sum(passed == thumb for passed, thumb in pairs), "reply" if len(pairs) == 1 else "replies"
            lines.append(f"The judge “{name}” agrees with the thumbs on {agreed} of {len(pairs)} {noun}.")
    return lines


def by_variant_and_input(answers: Iterable[Answer]) -> dict[tuple[str, str], list[Answer]]:
    """Answers by variant and input, repeats in order."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in sorted(answers, key=lambda each: each.repeat):
        groups.setdefault((answer.variant, answer.input), []).append(answer)
    return groups


def static_html(experiment: Experiment, agent_name: str, figures: str, uid: str) -> str:
    """The lab as one element of safe HTML: prompts, then `figures`, then replies."""
    agent_name = agent_name or "several agents"
    if not experiment.variants:
        return empty_element(uid, f"Prompt lab of {agent_name}. There is no variant yet.")
    head = heading(f"Prompt lab of {agent_name}")
    prompts = "".join(_prompt(variant) for variant in experiment.variants.values())
    folded = f'<details class="ab-steps"><summary>{len(experiment.variants)} variants</summary>{prompts}</details>'
    answers = experiment.answers
    groups = by_variant_and_input(answers)
    texts = dict.fromkeys(answer.input for answer in answers)
    rows = "".join(result(text, experiment.variants, groups, list(experiment.checks)) for text in texts)
    return static_element(uid, f"{STYLE}{head}{folded}{figures}{rows}", "ab-lab")


def _prompt(variant: Variant) -> str:
    return (
        f'<h6 class="ab-who"><strong>{plain(variant.name)}</strong></h6>'
        f'<pre class="ab-prompt" dir="auto">{plain(variant.prompt_label)}</pre>'
    )
