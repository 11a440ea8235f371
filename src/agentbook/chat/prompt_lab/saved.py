"""A lab in a saved notebook, as safe HTML: prompts, figures, and replies.

Text of users and agents goes through `escape` or `render`. The chart is an image, so
nothing in it can run.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._text import seconds
from ...evaluation.answers import Answer
from ...evaluation.experiment import Experiment
from ..assets import read_style
from ..html.message_html import finish_chip
from ..html.sanitize import escape
from ..html.static_transcript import empty_element, static_element
from ..html.static_transcript import title as heading
from .rows import rendered

STYLE = f"<style>{read_style('lab/form.css')}</style>"
_GRADES = {True: ("ab-yes", "passed"), False: ("ab-no", "not passed"), None: ("ab-maybe", "undecided")}


def static_html(experiment: Experiment, agent_name: str, figures: str, uid: str) -> str:
    """The lab as one element of safe HTML: prompts, then `figures`, then replies."""
    agent_name = agent_name or "several agents"
    if not experiment.variants:
        return empty_element(uid, f"Prompt lab of {agent_name}. There is no variant yet.")
    prompts = "".join(
        f'<h6 class="ab-who"><strong>{escape(variant.name)}</strong></h6>'
        f'<pre class="ab-prompt" dir="auto">{escape(variant.prompt_label)}</pre>'
        for variant in experiment.variants.values()
    )
    folded = f'<details class="ab-steps"><summary>{len(experiment.variants)} variants</summary>{prompts}</details>'
    checks = list(experiment.checks)
    cells: dict[str, list[str]] = {}
    for answer in experiment.answers:
        cells.setdefault(answer.input, []).append(_cell(answer, checks))
    rows = "".join(
        f'<div class="ab-result"><blockquote class="ab-asked" dir="auto">{escape(text)}</blockquote>'
        f'<div class="ab-cells">{"".join(each)}</div></div>'
        for text, each in cells.items()
    )
    head = heading(f"Prompt lab of {agent_name}")
    return static_element(uid, f"{STYLE}{head}{folded}{figures}{rows}", "ab-lab")


def _cell(answer: Answer, checks: Sequence[str]) -> str:
    version = f" · {escape(answer.version)}" if answer.version else ""
    times = f" · no. {answer.repeat}" if answer.repeat > 1 else ""
    who = f'<h6 class="ab-who"><strong>{escape(answer.variant)}</strong>{version}{times}</h6>'
    if answer.status == "asking":
        return f'<div class="ab-cell">{who}<div class="ab-foot">asking…</div></div>'
    if answer.status == "answered":
        reply = f'<div class="ab-md">{rendered(answer.shown)}</div>'
        latency = f"Reply after {seconds(answer.latency_s)}" if answer.latency_s is not None else ""
        facts = finish_chip(answer.finish_reason) + latency
        foot = f'<div class="ab-foot">{facts}</div>' if facts else ""
        return f'<div class="ab-cell">{who}{reply}{_grades(answer, checks)}{_rating(answer)}{foot}</div>'
    word = "Failed." if answer.status == "failed" else "Stopped."
    reason = answer.reason or "The agent may still finish; Run looks for its reply."
    request = f'<div class="ab-id">Request {escape(answer.request_id)}</div>' if answer.request_id else ""
    failure = f'<div class="ab-failed"><strong>{word}</strong> {escape(reason)}{request}</div>'
    return f'<div class="ab-cell">{who}{failure}</div>'


def _grades(answer: Answer, checks: Sequence[str]) -> str:
    chips = []
    for name in checks:
        grade = answer.verdicts.get(name)
        if grade is None:
            continue
        kind, word = _GRADES[grade.passed]
        score = f" {grade.score:.2g}" if grade.score is not None else ""
        title = f' title="{escape(grade.error)}"' if grade.error else ""
        chips.append(
            f'<span class="ab-check {kind}"{title}>{escape(name)}{score}<span class="ab-unseen"> {word}</span></span>'
        )
    # Without styles, the chips are words in a row.
    return f'<div class="ab-checks">{"<span class=ab-unseen>; </span>".join(chips)}</div>' if chips else ""


def _rating(answer: Answer) -> str:
    thumb = "" if answer.thumb is None else "👍 good" if answer.thumb else "👎 bad"
    words = ": ".join(escape(part) for part in (thumb, answer.note) if part)
    return f'<p class="ab-r-rating">{words}</p>' if words else ""
