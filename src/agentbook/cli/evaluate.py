"""`agentbook eval` runs a lab file without a notebook; `agentbook import` makes one.

Exit code 100 says that the bar was missed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click

from .common import FILE, out_option

BELOW_THE_BAR = 100
INTERRUPTED = 130


@click.command("eval", short_help="Run a lab file: variants, inputs and checks.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--agent", metavar="NAME", help="The agent to ask, instead of the file's.")
@click.option("--workspace", metavar="NAME", help="Where the sessions are started, instead of the file's.")
@click.option("--judge", metavar="NAME", help="The agent that judges, instead of the file's.")
@click.option("--repeats", type=click.IntRange(1, 1000), metavar="N", help="Number of times to ask each input.")
@click.option("--against", metavar="VARIANT", help="Exit with 100 if a variant is worse than this one, beyond noise.")
@click.option("--failed", is_flag=True, help="Ask only what did not pass in the last run of this file.")
@click.option("--allow-code", is_flag=True, help="Run the Python functions that the file names as checks.")
@out_option("in the data directory")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 100 if a smaller share passes. Default: 1, with --against 0.",
)
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="Stop before the run costs more.")
@click.option(
    "--prices", type=FILE, help="Prices of a million tokens, as CSV, YAML or JSON. Default: $AGENTBOOK_PRICES."
)
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, help="Questions asked at the same time.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1), default=300.0, help="Seconds to wait for a reply.")
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def evaluate(file: Path, out: Path | None, fail_under: float | None, no_progress: bool, **options: Any) -> None:
    """Run a lab file and write its reports.

    Start a run that was stopped or killed again within a day, and it continues on the
    same platform: only what is missing is sent.

    Exit codes: 0, 100 if too little passed or a variant is worse than --against, 1 if
    the file is wrong or nobody can be asked, 130 after Ctrl+C.
    """
    from .._connect import connect
    from .._text import one_line
    from ..evaluation.evaluate import closing_clients, default_folder
    from ..evaluation.evaluate import evaluate as run_file

    folder = out or default_folder(file)
    try:
        with closing_clients(connect) as connect_once:
            results, notes = run_file(file, connect_once, folder=folder, progress=not no_progress, **options)
    except KeyboardInterrupt:
        click.echo("agentbook: stopped; the same command continues with what is missing.", err=True)
        sys.exit(INTERRUPTED)
    for note in notes:
        click.echo(f"note: {one_line(note, 2000)}", err=True)
    for sentence in results.verdict():
        click.echo(one_line(sentence, 500))
    for label, rows in results.by_variant().items():
        passed = sum(row.status == "passed" for row in rows)
        click.echo(f"{passed}/{len(rows)}\t{one_line(label, 100)}")
    for row in results.failures:
        label = one_line(row.answer.variant, 60)
        click.echo(f"{row.status}\t{label}\t{one_line(row.title, 160)}\t{one_line(row.reason, 200)}")
    run = f"; run {results.facts['run']}" if "run" in results.facts else ""
    click.echo(f"{results.pass_rate:.1%} of {len(results.rows)} replies passed; reports in {folder}{run}")
    against = options["against"]
    bar = (1.0 if against is None else 0.0) if fail_under is None else fail_under
    if results.pass_rate < bar or (against is not None and results.is_worse):
        sys.exit(BELOW_THE_BAR)


@click.command("import", short_help="Make a lab file of a file of promptfoo.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=FILE, help="The lab file; replaced if it exists. Default: a new lab.yaml beside FILE.")
@click.option("--strict", is_flag=True, help="Write nothing, and exit with 1, if something would be left out.")
def import_file(file: Path, out: Path | None, strict: bool) -> None:
    """Make a lab file of a file of promptfoo, once and one way.

    What a lab cannot say is left out, and listed with its line and what to do instead.
    Nothing of the file runs, and only files in its folder are read.
    """
    from .._files import own_path
    from .._text import one_line
    from ..evaluation.file import write_data
    from ..evaluation.promptfoo_import import import_promptfoo
    from ..evaluation.source import ConfigError

    target = out or own_path(file.parent, "lab.yaml")
    lab, problems = import_promptfoo(file)
    if not lab or (strict and problems):
        kept = "with --strict, nothing may be" if lab else "all is"
        raise ConfigError(*problems, f"{target} is not written: {kept} left out.")
    if out is None and target.exists():
        raise ConfigError(*problems, f"{target} exists: name another file, or this one, with --out.")
    write_data(target, lab)
    for problem in problems:
        click.echo(f"agentbook: {one_line(problem, 2000)}", err=True)
    judge = " --judge NAME" if re.search(r"\bjudge\b", json.dumps(lab)) else ""
    click.echo(f"{target}: {len(lab['inputs'])} inputs. Run it: agentbook eval {target} --agent NAME{judge}")
