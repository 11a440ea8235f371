"""The peers of `tests/benchmarks/chat.py`: their environments and notebook cells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import platformdirs

ROOT = Path(__file__).parents[2]

_SETUP = """
import json, sys, time
sys.path.insert(0, {folder!r})
from chat_text import tokens
stream = tokens({count})
first = time.time()
"""

# For each peer, a cell that displays it, and a cell that sends 100 tokens a second and
# prints the times of the first and the last one.
PEERS = {
    "Panel's ChatInterface, message.stream per token": (
        "import panel as pn\npn.extension(inline=True)\nchat = pn.chat.ChatInterface(height=300)\nchat",
        _SETUP
        + """
message = None
for n, token in enumerate(stream):
    time.sleep(max(0, first + n / 100 - time.time()))
    message = chat.stream(token, user="Agent", message=message)
    last = time.time()
print(json.dumps(dict(first=first, last=last)))
""",
    ),
    "chatlas's display in a notebook": (
        "import chatlas\nfrom chatlas._display import IPyMarkdownDisplay",
        _SETUP
        + """
chat = chatlas.ChatOpenAI(model="none", api_key="none")
chat.set_echo_options()
display = IPyMarkdownDisplay(chat._echo_options)
with display:
    for n, token in enumerate(stream):
        time.sleep(max(0, first + n / 100 - time.time()))
        display.echo(token)
        last = time.time()
print(json.dumps(dict(first=first, last=last)))
""",
    ),
}


def environment(name: str, packages: list[str], *, with_agentbook: bool = False) -> Path:
    """The interpreter of an environment with these packages.

    The environment is created on first use and kept in the user's cache.
    """
    folder = (
        Path(platformdirs.user_cache_dir("agentbook-bench")) / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    )
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        requirements = [*(["-e", str(ROOT)] if with_agentbook else []), *packages]
        run = subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(f"pip install {' '.join(packages)} failed: {run.stderr.strip()[-400:]}")
        done.touch()
    return python


def kernelspec(home: Path, name: str, python: Path) -> None:
    """Write a kernelspec for that interpreter to ``home/share``.

    JupyterLab finds it if ``JUPYTER_PATH`` contains that folder.
    """
    folder = home / "share" / "kernels" / name
    folder.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))


def shared_environment(home: Path) -> Path | None:
    """Create the peers' environment and its kernelspec.

    Returns the folder of its JupyterLab extensions. Prints the reason and returns None
    if the environment cannot be created.
    """
    try:
        python = environment("peers", ["panel", "jupyter_bokeh", "chatlas", "ipykernel"])
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"The peers are not measured: {error}")
        return None
    kernelspec(home, "peer", python)
    return python.parents[1] / "share" / "jupyter"
