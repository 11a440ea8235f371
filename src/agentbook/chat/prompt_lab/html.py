"""The version history, the results and the summary of a lab as safe HTML.

Text of users and agents goes through `plain` or `render`. The chart is an image, in
which nothing can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..html.markdown import render
from ..html.message_html import seconds
from ..html.sanitize import plain
from ..html.static_transcript import empty_element, static_element
from ..html.style import read_asset
from .answers import Answer
from .configurator import AgentConfigurator
from .controller import LabController
from .diff import PromptDiff
from .experiment import Experiment
from .variant import Variant, Version

STATIC_STYLE = f"<style>{read_asset('prompt_lab.css')}</style>"
# The script runs once per view. It names the parts for screen readers, and gives the
# focus back to a button that was disabled while it worked.
LIVE_STYLE = f'<style onload="{read_asset("prompt_lab.js")}">{read_asset("prompt_lab.css")}</style>'


def title(text: str) -> str:
    """The heading of a section."""
    return f'<div class="ab-lab-title" role="heading" aria-level="4">{plain(text)}</div>'


def history(configurator: AgentConfigurator | None, agent: str | None) -> str:
    """The versions as a table, newest first; the current one is marked."""
    if configurator is None:
        return '<div class="ab-foot">Reading the versions…</div>' if agent is not None else ""
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
    mark = " (current)" if current else " (ephemeral)" if version.type == "EPHEMERAL" else ""
    name = f'<span class="{"ab-lab-now" if current else ""}">{plain(version.label)}{mark}</span>'
    return f"<tr><td>{name}</td><td>{plain(created)}</td><td>{plain(version.summary or '')}</td></tr>"


def difference(old: str | None, new: str | None, old_label: str, new_label: str) -> str:
    """The difference between two prompts, or a hint to choose two."""
    if old is None or new is None:
        return '<div class="ab-foot">Choose two prompts to compare.</div>'
    diff = PromptDiff(old, new, old_label, new_label).to_html()
    return f'<div class="ab-difference" tabindex="0" role="region" aria-label="Difference">{diff}</div>'


# Results


def result(
    text: str, variants: Iterable[str], answers: Mapping[tuple[str, str], Sequence[Answer]], checks: Sequence[str]
) -> str:
    """One input and the replies of the variants, side by side."""
    cells = "".join(_cell(name, answer, checks) for name in variants for answer in answers.get((name, text), ()))
    question = f'<div class="ab-asked" dir="auto">{plain(text)}</div>'
    return f'<div class="ab-result">{question}<div class="ab-cells">{cells}</div></div>'


def _cell(name: str, answer: Answer, checks: Sequence[str]) -> str:
    version = f" · {plain(answer.version)}" if answer.version else ""
    times = f" · no. {answer.repeat}" if answer.repeat > 1 else ""
    who = f'<div class="ab-who">{plain(name)}{version}{times}</div>'
    if answer.status == "asking":
        return f'<div class="ab-cell">{who}<div class="ab-foot">asking…</div></div>'
    if answer.status == "answered":
        # A scrolling element must be reachable by keyboard.
        label = f'tabindex="0" role="group" aria-label="Reply of {plain(name)}"'
        reply = f'<div class="ab-md" {label}>{render(answer.reply or "")}</div>'
        latency = f'<div class="ab-foot">{seconds(answer.latency_s)}</div>' if answer.latency_s is not None else ""
        return f'<div class="ab-cell">{who}{reply}{_verdicts(answer, checks)}{latency}</div>'
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
    return f'<div class="ab-checks">{"".join(chips)}</div>' if chips else ""


def summary(experiment: Experiment) -> str:
    """The summary as a table; empty if nothing was asked."""
    frame = experiment.summary()
    if frame.empty:
        return ""
    names = list(experiment.checks)
    head = "".join(
        f'<th scope="col" class="ab-figure">{plain(name)}</th>' for name in ("answered", *names, "median", "p95")
    )
    body = ""
    for row in frame.to_dict("records"):
        figures = [f"{row['answered']} of {row['n']}"]
        figures += [f"{row[f'{name}_passed']} of {row[f'{name}_n']}" for name in names]
        figures += [seconds(row[name]) if row[name] == row[name] else "–" for name in ("p50_s", "p95_s")]
        cells = "".join(f'<td class="ab-figure">{plain(figure)}</td>' for figure in figures)
        version = (
            f' <span class="ab-lab-version">{plain(row["version"])}</span>' if isinstance(row["version"], str) else ""
        )
        body += f'<tr><th scope="row">{plain(row["variant"])}{version}</th>{cells}</tr>'
    return (
        '<div class="ab-scroll" tabindex="0" role="region" aria-label="Summary"><table class="ab-lab-table">'
        f'<thead><tr><th scope="col">variant</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def by_variant_and_input(answers: Iterable[Answer]) -> dict[tuple[str, str], list[Answer]]:
    """Answers by variant and input, repeats in order."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in sorted(answers, key=lambda each: each.repeat):
        groups.setdefault((answer.variant, answer.input), []).append(answer)
    return groups


def static_html(lab: LabController, chart: str, uid: str) -> str:
    """The lab as one element of safe HTML: prompts, summary, replies."""
    experiment = lab.experiment
    if not experiment.variants:
        return empty_element(uid, f"Prompt lab of {lab.agent or 'several agents'}. There is no variant yet.")
    head = f'<div class="ab-who">Prompt lab of {plain(lab.agent or "several agents")}</div>'
    prompts = "".join(_prompt(variant) for variant in experiment.variants.values())
    folded = f'<details class="ab-steps"><summary>{len(experiment.variants)} variants</summary>{prompts}</details>'
    answers = experiment.answers
    groups = by_variant_and_input(answers)
    texts = dict.fromkeys(answer.input for answer in answers)
    rows = "".join(result(text, experiment.variants, groups, list(experiment.checks)) for text in texts)
    return static_element(
        uid, f"{STATIC_STYLE}{head}{folded}{summary(experiment) if texts else ''}{chart}{rows}", "ab-lab"
    )


def _prompt(variant: Variant) -> str:
    return (
        f'<div class="ab-who">{plain(variant.name)}</div>'
        f'<div class="ab-prompt" dir="auto">{plain(variant.prompt_label)}</div>'
    )
