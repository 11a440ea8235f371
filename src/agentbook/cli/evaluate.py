"""`agentbook eval`: run an evaluation file without a notebook.

Its exit codes are promptfoo's, not those of the other commands.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

WRONG_FILE = 1
BELOW_THE_BAR = 100
INTERRUPTED = 130


@click.command("eval", short_help="Run an evaluation file: prompts, cases and asserts.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--agent", metavar="NAME", help="The agent to ask, instead of the file's providers.")
@click.option("--judge", metavar="NAME", help="The agent that judges by the file's rubrics.")
@click.option(
    "--workspace",
    metavar="NAME",
    help="Where the sessions are started. Default: the only one, or the only one with the agent.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where results.json, junit.xml and report.html are written. Default: in the data directory.",
)
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="SHARE",
    help="Exit with 100 if a smaller share of the cells passes.",
)
@click.option("--repeat", type=click.IntRange(1, 1000), metavar="N", help="Number of times to ask each case.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="Questions asked at the same time.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for a reply.",
)
@click.option(
    "--prices",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="CSV, YAML or JSON file with the price of a million tokens for each model. Default: $AGENTBOOK_PRICES.",
)
@click.option(
    "--max-cost", type=click.FloatRange(0, min_open=True), metavar="N", help="Stop before the run costs more."
)
@click.option(
    "--turns", metavar="FILE", help="Judge past turns with their texts (.parquet, .csv, .jsonl). No agent is asked."
)
@click.option(
    "--grade", metavar="RUN", help="Grade the replies of an earlier run again: its id, its record or its --out folder."
)
@click.option(
    "--env",
    multiple=True,
    metavar="NAME",
    help="An environment variable that the file's templates may use. Can be repeated.",
)
@click.option(
    "--allow-path",
    "allow_paths",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Another folder whose files the evaluation file may read. Can be repeated.",
)
@click.option("--allow-javascript", is_flag=True, help="Run the file's JavaScript asserts with Node.")
@click.option("--skip-unsupported", is_flag=True, help="Leave out what cannot run here, and list it.")
@click.option("--filter-first", type=click.IntRange(1), metavar="N", help="Ask only the first N cases.")
@click.option(
    "--filter-failing",
    metavar="RUN",
    help="Ask only the cases that did not pass in an earlier run: its id, its record, its --out folder or its results.json.",
)
@click.option("--filter-pattern", metavar="TEXT", help="Ask only the cases whose description matches this pattern.")
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def evaluate(file: Path, out: Path | None, fail_under: float, no_progress: bool, **options: Any) -> None:
    """Run an evaluation file and write its reports.

    Start a run that was stopped or killed again, and it continues: only what is missing
    is sent.

    Exit codes: 0, 100 if too few cells passed, 1 if the file is wrong or the platform
    cannot be reached, 130 after Ctrl+C.
    """
    from .._connect import connect
    from .._text import one_line
    from ..api.errors import AgentbookError
    from ..evaluation.evaluate import closing_clients, default_folder
    from ..evaluation.evaluate import evaluate as run_file
    from ..evaluation.files.source import ConfigError

    folder = out or default_folder(file)
    try:
        with closing_clients(connect) as connect_once:
            results, notes = run_file(file, connect_once, folder=folder, progress=not no_progress, **options)
    except (ConfigError, AgentbookError, OSError) as error:
        for problem in error.problems if isinstance(error, ConfigError) else [str(error)]:
            click.echo(f"agentbook: {one_line(problem, 2000)}", err=True)
        sys.exit(WRONG_FILE)
    except KeyboardInterrupt:
        click.echo("agentbook: stopped; the same command continues with what is missing.", err=True)
        sys.exit(INTERRUPTED)
    for note in notes:
        click.echo(f"note: {one_line(note, 2000)}", err=True)
    for label, rows in results.by_prompt().items():
        passed = sum(row.status == "passed" for row in rows)
        click.echo(f"{passed}/{len(rows)}\t{one_line(label, 100)}")
    for row in results.failures:
        reason, label = row.grade.error or row.grade.reason, row.cell.prompt.label
        click.echo(f"{row.status}\t{one_line(label, 60)}\t{one_line(row.title, 160)}\t{one_line(reason or '', 200)}")
    run = f"; run {results.facts['run']}" if "run" in results.facts else ""
    click.echo(f"{results.pass_rate:.1%} of {len(results.rows)} cells passed; reports in {folder}{run}")
    if results.pass_rate < fail_under:
        sys.exit(BELOW_THE_BAR)
