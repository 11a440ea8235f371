"""The lab's history, results and summary as safe HTML.

Every word that is not ours goes through `plain` or `render`; the chart is shown as an image, in which nothing can run.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..html.message_html import seconds
from ..html.render import plain, render
from ..html.static_transcript import empty_twin, twin
from .answers import Answer
from .checks import Check
from .style import QUIET_STYLE
from .variant import Variant
from .versions import Version

if TYPE_CHECKING:
    from .prompt_lab import PromptLab


def title(text: str) -> str:
    """The heading of a part."""
    return f'<div class="ab-lab-title" role="heading" aria-level="4">{plain(text)}</div>'


def history(versions: Sequence[Version] | None, current: Version | None) -> str:
    """The versions as a table, newest first; the one that turns run on is marked."""
    if versions is None:
        return '<div class="ab-foot">The versions of this agent cannot be read with this key.</div>'
    if not versions:
        return '<div class="ab-foot">This agent has no versions yet.</div>'
    rows = "".join(_version(version, version == current) for version in versions)
    head = "<thead><tr><th>version</th><th>made (UTC)</th><th>what changed</th></tr></thead>"
    table = f'<table class="ab-lab-table">{head}<tbody>{rows}</tbody></table>'
    return f'<div class="ab-scroll" tabindex="0" role="region" aria-label="Versions of the agent">{table}</div>'


def _version(version: Version, runs: bool) -> str:
    made = version.created_at.strftime("%Y-%m-%d %H:%M") if version.created_at else ""
    mark = " (runs now)" if runs else " (ephemeral)" if version.type == "EPHEMERAL" else ""
    name = f'<span class="{"ab-lab-now" if runs else ""}">{plain(version.label)}{mark}</span>'
    return f"<tr><td>{name}</td><td>{plain(made)}</td><td>{plain(version.summary or '')}</td></tr>"


# Results


def result(
    text: str, variants: Iterable[str], answers: Mapping[tuple[str, str], Sequence[Answer]], checks: Sequence[str]
) -> str:
    """One input and what each variant said to it, side by side."""
    cells = "".join(_cell(name, answer, checks) for name in variants for answer in answers.get((name, text), ()))
    return f'<div class="ab-result"><div class="ab-asked" dir="auto">{plain(text)}</div><div class="ab-cells">{cells}</div></div>'


def _cell(name: str, answer: Answer, checks: Sequence[str]) -> str:
    version = f" · {plain(answer.version)}" if answer.version else ""
    times = f" · no. {answer.repeat}" if answer.repeat > 1 else ""
    who = f'<div class="ab-who">{plain(name)}{version}{times}</div>'
    if answer.status == "asking":
        return f'<div class="ab-cell">{who}<div class="ab-foot">asking…</div></div>'
    if answer.status == "answered":
        # What scrolls must be reachable by keyboard.
        label = f'tabindex="0" role="group" aria-label="Reply of {plain(name)}"'
        said = f'<div class="ab-md" {label}>{render(answer.reply or "")}</div>'
        took = f'<div class="ab-foot">{seconds(answer.latency_s)}</div>' if answer.latency_s is not None else ""
        return f'<div class="ab-cell">{who}{said}{_verdicts(answer, checks)}{took}</div>'
    word = "Failed." if answer.status == "failed" else "Stopped."
    why = answer.reason or "The agent may still finish; Run looks for its reply."
    request = f'<div class="ab-id">Request {plain(answer.request_id)}</div>' if answer.request_id else ""
    return f'<div class="ab-cell">{who}<div class="ab-failed"><strong>{word}</strong> {plain(why)}{request}</div></div>'


def _verdicts(answer: Answer, checks: Sequence[str]) -> str:
    chips = []
    for name in checks:
        verdict = answer.verdicts.get(name)
        if verdict is None:
            continue
        kind, word = {True: ("ab-yes", "passed"), False: ("ab-no", "not passed"), None: ("ab-maybe", "not known")}[
            verdict.passed
        ]
        score = f" {verdict.score:.2g}" if verdict.score is not None else ""
        why = f' title="{plain(verdict.error)}"' if verdict.error else ""
        chips.append(
            f'<span class="ab-check {kind}"{why}>{plain(name)}{score}<span class="ab-unseen"> {word}</span></span>'
        )
    return f'<div class="ab-checks">{"".join(chips)}</div>' if chips else ""


def summary(lab: PromptLab) -> str:
    """The summary as a table; empty while nothing was asked."""
    lines = lab.summary()
    if lines.empty:
        return ""
    names = list(lab.checks)
    head = "".join(
        f'<th scope="col" class="ab-figure">{plain(name)}</th>' for name in ("answered", *names, "median", "95 %")
    )
    rows = ""
    for line in lines.to_dict("records"):
        figures = [f"{line['answered']} of {line['n']}"]
        figures += [f"{line[f'{name}_passed']} of {line[f'{name}_n']}" for name in names]
        figures += [seconds(line[name]) if line[name] == line[name] else "–" for name in ("p50_s", "p95_s")]
        cells = "".join(f'<td class="ab-figure">{plain(figure)}</td>' for figure in figures)
        version = (
            f' <span class="ab-lab-version">{plain(line["version"])}</span>' if isinstance(line["version"], str) else ""
        )
        rows += f'<tr><th scope="row">{plain(line["variant"])}{version}</th>{cells}</tr>'
    return (
        '<div class="ab-scroll" tabindex="0" role="region" aria-label="Summary"><table class="ab-lab-table">'
        f'<thead><tr><th scope="col">variant</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def picture(svg: str, text: str) -> str:
    """A drawing with its words. As an image nothing in it can run, whatever a variant is called."""
    data = b64encode(svg.encode()).decode()
    return f'<div class="ab-picture"><img alt="{plain(text)}" src="data:image/svg+xml;base64,{data}"></div>'


def by_cell(answers: Iterable[Answer]) -> dict[tuple[str, str], list[Answer]]:
    """Answers by variant and input, repeats in order."""
    found: dict[tuple[str, str], list[Answer]] = {}
    for answer in sorted(answers, key=lambda each: each.repeat):
        found.setdefault((answer.variant, answer.input), []).append(answer)
    return found


def static_html(lab: PromptLab, chart: str, uid: str) -> str:
    """The lab as one element of safe HTML: prompts, summary, replies."""
    if not lab.variants:
        return empty_twin(uid, f"Prompt lab of {lab.agent or 'several agents'}. There is no variant yet.")
    head = f'<div class="ab-who">Prompt lab of {plain(lab.agent or "several agents")}</div>'
    prompts = "".join(_prompt(variant) for variant in lab.variants.values())
    answers = by_cell(lab.answers)
    texts = list(dict.fromkeys(answer.input for answer in lab.answers))
    said = "".join(result(text, lab.variants, answers, list(lab.checks)) for text in texts)
    folded = f'<details class="ab-steps"><summary>{len(lab.variants)} variants</summary>{prompts}</details>'
    return twin(uid, f"{QUIET_STYLE}{head}{folded}{summary(lab) if texts else ''}{chart}{said}", "ab-lab")


def _prompt(variant: Variant) -> str:
    text = variant.system_prompt or ("the agent as it is" if not variant.configures else "the agent's own prompt")
    return f'<div class="ab-who">{plain(variant.name)}</div><div class="ab-prompt" dir="auto">{plain(text)}</div>'


# Checks and tools as a person types them


def typed_check(check: Check) -> str | None:
    """A check as a line of the form; None where it cannot be typed there."""
    import json

    if check.kind == "contains":
        return f"{check.name}: {check.what}" if check.name != f"contains {check.what}" else str(check.what)
    if check.kind == "regex":
        line = f"/{check.what.pattern}/"
        return f"{check.name}: {line}" if check.name != f"matches {check.what.pattern}" else line
    if check.kind == "json_schema":
        return f"{check.name}: {json.dumps(check.what, ensure_ascii=False)}"
    return None
