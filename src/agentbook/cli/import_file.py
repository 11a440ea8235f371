"""`agentbook import`: make a lab file of a file of promptfoo."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click


@click.command("import", short_help="Make a lab file of a file of promptfoo.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="LAB.yaml",
    help="The lab file; it is replaced if it exists. Default: a new lab.yaml beside FILE.",
)
@click.option("--strict", is_flag=True, help="Write nothing, and exit with 1, if something would be left out.")
def import_file(file: Path, out: Path | None, strict: bool) -> None:
    """Make a lab file of a file of promptfoo, once and one way.

    What a lab cannot say is left out, and listed with its line and what to do instead.
    Nothing of the file runs, and only files in its folder are read.
    """
    from .._files import atomic_write
    from .._text import one_line
    from ..evaluation.file import dump
    from ..evaluation.promptfoo_import import import_promptfoo
    from ..evaluation.source import ConfigError

    target, is_written = out or file.parent / "lab.yaml", False
    try:
        lab, problems = import_promptfoo(file)
        if not lab or (strict and problems):
            problems.append(
                f"{target} is not written: {'with --strict, nothing may be' if lab else 'all is'} left out."
            )
        elif out is None and target.exists():
            problems.append(f"{target} exists: name another file, or this one, with --out.")
        else:
            is_json = target.suffix.lower() == ".json"
            text = f"{json.dumps(lab, ensure_ascii=False, indent=1)}\n" if is_json else dump(lab)
            with atomic_write(target) as opened:
                opened.write(text.encode("utf-8", "backslashreplace"))
            is_written = True
    except (ConfigError, OSError) as error:
        problems = [*error.problems] if isinstance(error, ConfigError) else [str(error)]
    for problem in problems:
        click.echo(f"agentbook: {one_line(problem, 2000)}", err=True)
    if not is_written:
        sys.exit(1)
    judge = " --judge NAME" if re.search(r"\bjudge\b", text) else ""
    click.echo(f"{target}: {len(lab['inputs'])} inputs. Run it: agentbook eval {target} --agent NAME{judge}")
