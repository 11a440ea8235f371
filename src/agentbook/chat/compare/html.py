"""What a comparison adds to the panel's looks, and its rounds as HTML: side by side in the static twin, too."""

from __future__ import annotations

from ..html import message_html
from ..html.markdown import render
from ..html.sanitize import plain, visible
from ..html.static_transcript import empty_element, static_element
from .comparison import NONE, TIE, Comparison, Round

# A short answer goes along (sticky) where a long one beside it is read to its end.
# A panel further down the page brings the panel's rules once more, so what differs from them here has to outrank them.
CSS = """
.ab-columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 270px), 1fr)); gap: 12px; }
.ab-chat .ab-columns.widget-vbox { display: grid; overflow: visible; align-items: stretch; }
.ab-chat .ab-round { overflow: visible; padding-bottom: 18px; }
.ab-chat .ab-round + .ab-round { border-top: 1px solid var(--ab-line); padding-top: 16px; }
.ab-round .ab-me { align-items: flex-start; }
.ab-round .ab-me .ab-said { border-bottom-right-radius: 12px; border-bottom-left-radius: 4px; }
.ab-column, .ab-chat .ab-column { min-width: 0; overflow: visible; display: flex; flex-direction: column; }
.ab-chat .ab-column .ab-turn {
  flex: 1 1 auto !important; background: var(--ab-soft); border-radius: 12px; border-bottom-left-radius: 4px;
}
.ab-chat .ab-column .ab-me { display: none; }
.ab-chat .ab-column .ab-agent {
  flex: 0 0 auto !important; margin: 0; max-width: none; background: none; position: sticky; top: 0;
}
.ab-compare .ab-round .ab-me .ab-acts { margin: 0 0 0 8px; }
.ab-static .ab-column .ab-agent { flex: 1 1 auto; margin: 0; max-width: none; }
.ab-compare .ab-agent .ab-who, .ab-static .ab-column .ab-who { font-size: 13px; color: var(--ab-fg); }
.ab-column.ab-chosen > .ab-agent, .ab-chat .ab-column.ab-chosen .ab-turn {
  box-shadow: inset 0 0 0 2px var(--ab-good);
}
.ab-chat .ab-column button.ab-prefer { align-self: flex-start; }
.ab-chat button.jupyter-button.ab-prefer {
  height: 32px; margin: 8px 0 0; max-width: 100%; overflow: hidden; text-overflow: ellipsis;
  background: var(--ab-bg); color: var(--ab-fg); border-color: color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg));
}
.ab-chat button.jupyter-button.ab-prefer:disabled { color: var(--ab-quiet); border-color: var(--ab-line); opacity: 1; }
.ab-chat button.jupyter-button.ab-prefer.ab-pressed { border-color: var(--ab-good); box-shadow: inset 0 0 0 1px var(--ab-good); }
.ab-chat .ab-verdict { overflow: visible; gap: 8px; align-items: center; flex-wrap: wrap; padding-top: 2px; }
.ab-said-verdict { color: var(--ab-quiet); font-size: 12px; }
.ab-chat .ab-said-verdict { padding-top: 8px; }
.ab-static .ab-round { margin: 0 0 18px; }
.ab-static .ab-said-verdict { margin-top: 6px; }
"""
STYLE = f"<style>{' '.join(CSS.split())}</style>"
NAME_LENGTH = 28


def short(label: str) -> str:
    """A label that fits on a button, its hidden characters written out."""
    label = " ".join(visible(label).split())
    return label if len(label) <= NAME_LENGTH else label[: NAME_LENGTH - 1] + "…"


def question(round_: Round, *, live: bool = False) -> str:
    """The bubble of a round's message, in a live comparison with its buttons."""
    acts = f'<span class="ab-acts">{message_html.COPY}{message_html.EDIT}</span>' if live else ""
    return (
        f'<div class="ab-me"><div class="ab-who">You, to all{acts}</div>'
        f'<div class="ab-said" dir="auto">{plain(round_.message)}</div></div>'
    )


def verdict(round_: Round, labels: list[str]) -> str:
    """What was preferred, in words; `labels` as shown."""
    choice = round_.preferred
    if choice is None:
        return "Which answer is better?" if round_.settled and round_.allows(TIE) else ""
    if isinstance(choice, int):
        return f"{labels[choice]} was preferred."
    return "It was a tie." if choice == TIE else "None of them was preferred."


def whole_round(comparison: Comparison, round_: Round) -> str:
    """A round as one piece of safe HTML."""
    labels = comparison.shown_labels(round_)
    columns = []
    for side in round_.order:
        exchange = round_.exchanges[side]
        body = message_html.body([render(exchange.text)]) if exchange.text else ""
        under = "" if exchange.pending else message_html.foot(exchange)
        chosen = " ab-chosen" if round_.preferred == side else ""
        head = message_html.head(exchange, labels[side])
        columns.append(f'<div class="ab-column{chosen}"><div class="ab-agent ab-said">{head}{body}{under}</div></div>')
    said = verdict(round_, labels) if round_.preferred is not None else ""
    return (
        f'<div class="ab-round">{question(round_)}<div class="ab-columns">{"".join(columns)}</div>'
        f'<div class="ab-said-verdict">{plain(said)}</div></div>'
    )


def static_html(comparison: Comparison, uid: str) -> str:
    """The comparison as one element of safe HTML, its style included."""
    if not comparison.rounds:
        return empty_element(uid, f"A comparison of {', '.join(comparison.labels)}. Nothing was asked yet.")
    said = "".join(whole_round(comparison, round_) for round_ in comparison.rounds)
    return static_element(uid, STYLE + said)


def tally(comparison: Comparison) -> str:
    """How often each was preferred, in words; empty while nothing was."""
    counted: dict[str, int] = {}
    labels = comparison.labels
    for round_ in comparison.rounds:
        if round_.preferred is not None:
            choice = round_.preferred
            name = labels[choice] if isinstance(choice, int) else {TIE: "tie", NONE: "none"}[str(choice)]
            counted[name] = counted.get(name, 0) + 1
    return ", ".join(f"{short(name)} {count}" for name, count in counted.items())
