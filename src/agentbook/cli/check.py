"""`agentbook check`: rules about what agents do, checked on a history.

Its exit codes are those of `agentbook eval`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._queries import loaded_history
from .common import account_option, note_missing, out_option, store_option
from .evaluate import BELOW_THE_BAR

if TYPE_CHECKING:
    from ..evaluation.source import Source

SINCE = "15d"  # two weeks to compare, of a store that was synced within the last day
_KEYS = ("rules", "since", "until", "tz")
_STATUS = {"holds": "passed", "fired": "failed", "unknown": "skipped"}


@click.command("check", short_help="Check rules about what agents do: limits, and what got worse.")
@click.argument("file", type=click.Path(path_type=Path))
@store_option
@account_option
@out_option("nowhere")
def check(file: Path, store: str | None, account: str | None, out: Path | None) -> None:
    """Check the rules of a YAML file.

    \b
    rules:
      - analysis: latency
        where: {agent: support}
        limit: p95_s <= 20
      - analysis: failures
        by: agent
        change: worse

    A rule names an analysis (see `agentbook query`) and its options. It fires if a row
    exceeds the limit or, with `change: worse`, if something got worse than in the week
    before by more than chance would explain.

    Exit codes: 0 if no rule fired, 100 if one did, 1 if the file is wrong or there is
    nothing to check.
    """
    from .._files import own_path, write_text
    from .._text import one_line
    from ..api.errors import AgentbookError
    from ..evaluation.evaluate import Case, junit
    from ..evaluation.source import read_source
    from ..live.rules import RuleError, check_rules, message_of, read_rule

    source = read_source(file)
    data = source.mapping(_KEYS)
    rules = []
    for item in source["rules"].items():
        with source.collecting():
            try:
                rules.append(read_rule(_with_prices(item)))
            except RuleError as error:
                raise item.error(str(error), *error.keys) from None
    source.require_no_problems()
    if not rules:
        raise source.error("there are no `rules`.")
    span = {"since": SINCE, **{name: data[name] for name in _KEYS[1:] if name in data}}
    try:
        history = loaded_history(store, account, **span)
        outcomes = check_rules(rules, history)
    except RuleError as error:
        raise source["rules"].error(str(error), *error.keys) from None
    except ValueError as error:
        raise AgentbookError(str(error)) from None
    if all(outcome.state == "unknown" for outcome in outcomes):
        raise AgentbookError(f"check: nothing to check: {history.hint or outcomes[0].reason}.")
    note_missing(history)
    for outcome in outcomes:
        words = outcome.state, one_line(outcome.rule.name, 160), one_line(outcome.reason, 500)
        click.echo("\t".join(words).rstrip())
    message = message_of(outcomes, history)
    said = f"{message['fired']} of {len(outcomes)} rules fired"
    said += f", {message['unknown']} unknown for all or some groups" if message["unknown"] else ""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        cases = [Case(each.rule.name, _STATUS[each.state], each.reason) for each in outcomes]
        texts = {"results.json": json.dumps(message, indent=2), "junit.xml": junit(file.stem, {file.stem: cases})}
        for name, text in texts.items():
            write_text(own_path(out, name), text)
        history.report(own_path(out, "report.html"), title=f"{history.title}: {said}")
    click.echo(said + (f"; reports in {out}" if out else ""))
    sys.exit(BELOW_THE_BAR if message["fired"] else 0)


def _with_prices(rule: Source) -> Any:
    """A rule whose prices are in a file of the rules' own folder, if in any."""
    from ..evaluation.source import referenced_file

    name = rule.value.get("prices") if isinstance(rule.value, Mapping) else None
    if not isinstance(name, str) or name == "genai":
        return rule.value
    with rule["prices"].locating("`prices` is a table, or a file of this folder: "):
        path = referenced_file(rule.folder, name)
    return {**rule.value, "prices": path}
