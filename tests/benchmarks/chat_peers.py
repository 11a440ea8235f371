"""The environments of `tests/benchmarks/chat.py` beside its own, and the notebooks that
measure other renderers in them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import platformdirs

ROOT = Path(__file__).parents[2]

_SPEAK = """
import json, sys, time
sys.path.insert(0, {bench!r})
from chat_text import tokens
said = tokens({count})
first = time.time()
"""

# For each peer a cell that shows it, and one that says the tokens at 100 a second and
# prints when it said the first and the last.
PEERS = {
    "Panel's ChatInterface, message.stream per token": (
        "import panel as pn\npn.extension(inline=True)\nchat = pn.chat.ChatInterface(height=300)\nchat",
        _SPEAK
        + """
message = None
for n, token in enumerate(said):
    time.sleep(max(0, first + n / 100 - time.time()))
    message = chat.stream(token, user="Agent", message=message)
    last = time.time()
print(json.dumps(dict(first=first, last=last)))
""",
    ),
    "chatlas's display in a notebook": (
        "import chatlas\nfrom chatlas._display import IPyMarkdownDisplay",
        _SPEAK
        + """
chat = chatlas.ChatOpenAI(model="none", api_key="none")
chat.set_echo_options()
display = IPyMarkdownDisplay(chat._echo_options)
with display:
    for n, token in enumerate(said):
        time.sleep(max(0, first + n / 100 - time.time()))
        display.echo(token)
        last = time.time()
print(json.dumps(dict(first=first, last=last)))
""",
    ),
}


def environment(name: str, packages: list[str], *, ours: bool = False) -> Path:
    """The interpreter of an environment with these packages, made on first use and kept
    in the user's cache.
    """
    folder = (
        Path(platformdirs.user_cache_dir("agentbook-bench")) / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    )
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        requirements = [*(["-e", str(ROOT)] if ours else []), *packages]
        run = subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(f"pip install {' '.join(packages)} failed: {run.stderr.strip()[-400:]}")
        done.touch()
    return python


def kernelspec(home: Path, name: str, python: Path) -> None:
    """Offer a kernel of that interpreter to a JupyterLab whose ``JUPYTER_PATH`` has
    ``home/share``.
    """
    folder = home / "share" / "kernels" / name
    folder.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))


def shared_environment(home: Path) -> Path | None:
    """The peers' environment with its kernelspec; the folder of its JupyterLab
    extensions. None, and why, where it fails.
    """
    try:
        python = environment("peers", ["panel", "jupyter_bokeh", "chatlas", "ipykernel"])
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"without the peers: {error}")
        return None
    kernelspec(home, "peer", python)
    return python.parents[1] / "share" / "jupyter"
