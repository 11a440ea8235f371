"""vl-convert runs in a process of its own, which ends when nothing is drawn."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentbook.frames.plot import drawing
from agentbook.frames.plot.drawing import DrawingProcess

SPEC = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}}}


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)  # another process ends when it likes


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def draw(process: DrawingProcess) -> str:
    svg = process.call("vegalite_to_svg", vl_spec=SPEC)
    assert isinstance(svg, str)
    return svg


@pytest.fixture
def process() -> Iterator[DrawingProcess]:
    with contextlib.closing(DrawingProcess(idle_s=600)) as process:
        yield process


def test_charts_that_follow_soon_share_a_process(process: DrawingProcess) -> None:
    assert process.pid is None
    assert draw(process).startswith("<svg")
    first = process.pid
    assert process.call("vegalite_to_png", vl_spec=SPEC, scale=1)[1:4] == b"PNG"
    assert process.pid == first


def test_the_process_ends_when_nothing_is_drawn_and_the_next_chart_starts_another() -> None:
    with contextlib.closing(DrawingProcess(idle_s=0)) as process:
        first = draw(process)
        wait_until(lambda: process.pid is None)
        assert draw(process) == first


def test_what_vl_convert_refuses_is_its_own_message(process: DrawingProcess) -> None:
    with pytest.raises(ValueError, match="Invalid specification"):
        process.call("vegalite_to_svg", vl_spec={})
    assert draw(process).startswith("<svg")


def test_a_process_that_was_killed_is_replaced(process: DrawingProcess) -> None:
    draw(process)
    killed = process.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_running(killed))
    assert draw(process).startswith("<svg")


def test_a_process_that_ends_amid_a_chart_is_one_clear_error(
    process: DrawingProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "draw.py"
    program.write_text("import sys; sys.stdin.readline(); print('[\"text\", 9]'); print('<svg')")
    monkeypatch.setattr(drawing, "_PROGRAM", program)
    with pytest.raises(ChildProcessError, match="Run the cell again"):
        draw(process)
    assert process.pid is None
    monkeypatch.undo()
    assert draw(process).startswith("<svg")


def test_an_interrupted_chart_leaves_no_reply_for_the_next(
    process: DrawingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = draw(process)

    def interrupted(request: bytes) -> tuple[str, bytes]:
        assert process._process is not None
        assert process._process.stdin is not None
        process._process.stdin.write(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.call("vegalite_to_svg", vl_spec={**SPEC, "mark": "bar"})
    monkeypatch.undo()
    assert draw(process) == expected


def test_threads_get_their_own_charts(process: DrawingProcess) -> None:
    def width(pixels: int) -> bool:
        svg = process.call("vegalite_to_svg", vl_spec={**SPEC, "width": pixels, "padding": 0})
        assert isinstance(svg, str)
        return f"h{pixels}v" in svg

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(width, range(111, 131)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_another_process_has_its_own() -> None:
    code = (
        "import os\n"
        "from agentbook.frames.plot.drawing import drawing_process\n"
        f"spec = {SPEC!r}\n"
        "first = drawing_process()\n"
        "first.call('vegalite_to_svg', vl_spec=spec)\n"
        "child = os.fork()\n"
        "second = drawing_process()\n"
        "svg = second.call('vegalite_to_svg', vl_spec=spec)\n"
        "if not child:\n"
        "    os._exit(second is first or not svg.startswith('<svg'))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), second is first)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "True"], done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@pytest.mark.parametrize("ends", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_the_process_that_draws(ends: str) -> None:
    code = (
        "import os, signal\n"
        "from agentbook.frames.plot import drawing\n"
        "process = drawing._of_process[os.getpid()] = drawing.DrawingProcess(idle_s=600)\n"
        f"process.call('vegalite_to_svg', vl_spec={SPEC!r})\n"
        "print(process.pid, flush=True)\n"
        f"{ends}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    pid = int(done.stdout)
    wait_until(lambda: not is_running(pid))


def test_a_chart_leaves_vl_convert_out_of_this_process() -> None:
    code = (
        "import sys\n"
        "from agentbook import plot\n"
        "from frames.plot.test_plot import events_of\n"
        "print('</svg>' in plot.failures(events_of()).svg(), 'vl_convert' in sys.modules)\n"
    )
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=tests)
    assert done.stdout.split() == ["True", "False"], done.stderr
