"""The first minutes on a fresh machine like Binder's.

``python tests/benchmarks/start.py`` builds the image that `binder/` describes, without
Docker but with a package index, starts JupyterLab in it as Binder does, and runs the
first tutorial in a browser. It prints the time until the first cell has connected and
until the first chart is in the page, the memory after the tutorial, and what the
largest packages weigh. Wall-clock times are those of this machine; the CPU seconds of
the kernel and the service beside them say what a busy machine adds.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script

from report import Report

from binder.image import HOST, Container, Image
from support.browser import running_browser
from support.lab import Page

FIRST = "notebooks/01-first-look.ipynb"
CONNECT_S, CHART_S, MEMORY_MB, ENVIRONMENT_MB = 5, 15, 400, 550
SHOWN_PACKAGES = 10
CELL_ENDED = """number => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.filter(c => c.cell_type === 'code');
  return cells[number].execution_count !== null && cells[number].outputs.length > 0;
}"""
CHART_CELL = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.filter(c => c.cell_type === 'code');
  return cells.findIndex(cell => cell.source.toString().includes('ab.plot.'));
}"""

LAST_CELL = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.filter(c => c.cell_type === 'code');
  return cells.length - 1;
}"""


def cpu_s(pids: set[int]) -> float:
    """The CPU seconds that processes have used."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # has ended
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def first_minutes(report: Report, image: Image) -> None:
    """Open the first tutorial in a new container, and run all of it."""
    flags = f"--host-resolver-rules=MAP {HOST} 127.0.0.1"
    with Container(image) as container, running_browser(flags) as browser:
        page = Page(container, browser)  # type: ignore[arg-type] - uses only `url` and `server`
        page.open(FIRST)
        page.command("notebook:clear-all-cell-outputs")
        server = cpu_s(container.processes())
        started = time.monotonic()
        page.start_run_all()
        page.page.wait_for_function(CELL_ENDED, arg=0, polling=50)
        connected = time.monotonic() - started
        cpu = cpu_s(container.processes()) - server
        report.row("the first cell: import and connect", f"{connected:.1f} s", f"CPU {cpu:.1f} s", connected, CONNECT_S)
        page.page.wait_for_function(CELL_ENDED, arg=page.page.evaluate(CHART_CELL), polling=50)
        drawn = time.monotonic() - started
        cpu = cpu_s(container.processes()) - server
        report.row(
            "the first chart, after the first cell was started", f"{drawn:.1f} s", f"CPU {cpu:.1f} s", drawn, CHART_S
        )
        page.page.wait_for_function(CELL_ENDED, arg=page.page.evaluate(LAST_CELL), polling=50)
        page.wait_for_answer(2)
        sizes = container.memory()
        total = sum(size for _, size in sizes.values()) / 1e6
        mapped = total - sum(anonymous for anonymous, _ in sizes.values()) / 1e6
        parts = ", ".join(f"{name.split()[0]} {size / 1e6:.0f}" for name, (_, size) in sizes.items())
        measured = f"{total:.0f} MB, {mapped:.0f} of them mapped files"
        report.row("memory after the first tutorial (PSS)", measured, parts, total, MEMORY_MB)
        page.close()


def environment(report: Report, image: Image) -> None:
    """What is installed, and the largest packages."""
    [packages] = (image.home / "venv" / "lib").glob("python*/site-packages")
    weights = {
        distribution.name: sum(
            file.stat().st_size for path in distribution.files or () if (file := Path(path.locate())).is_file()
        )
        for distribution in distributions(path=[str(packages)])
    }
    total = sum(weights.values()) / 1e6
    largest = sorted(weights, key=lambda name: -weights[name])[:SHOWN_PACKAGES]
    listed = ", ".join(f"{name} {weights[name] / 1e6:.0f}" for name in largest)
    report.row("the environment, without bytecode", f"{total:.0f} MB", listed, total, ENVIRONMENT_MB)


def main() -> int:
    report = Report()
    home = Path(tempfile.mkdtemp(prefix="agentbook-start-"))
    try:
        image = Image(home)
        environment(report, image)
        first_minutes(report, image)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
