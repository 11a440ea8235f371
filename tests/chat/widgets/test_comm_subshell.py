"""A click while a cell is running, in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ipykernel
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

pytestmark = pytest.mark.filterwarnings("ignore:Kernel is running over TCP")

# Only a click ends the cell early. The text shows the order in which messages arrived.
MADE = """
import threading, time
import ipywidgets as widgets
from agentbook.chat.widgets.parts import answer_while_busy
from agentbook.chat.widgets.parts import button
heard = []
box = widgets.Textarea(continuous_update=False)
answer_while_busy(box)
send = button("Send", "ab-send", "Send", lambda: heard.append((box.value, threading.current_thread().name)))
print(box.comm.comm_id, send.comm.comm_id)
"""
SPIN = """
until = time.monotonic() + 60
print("spinning", flush=True)
while not heard and time.monotonic() < until:
    sum(1 for n in range(20_000) if n % 7)
print(*(text for text, thread in heard))
"""
THREADS = "print(*sorted({thread != 'MainThread' for text, thread in heard}), len({thread for text, thread in heard}))"


class Notebook:
    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def start(self, code: str) -> str:
        return str(self._client.execute(code))

    def printed(self, cell: str, until: str = "") -> str:
        """The output of a cell, up to its end or until it contains `until`."""
        output = ""
        while True:
            message = self._client.get_iopub_msg(timeout=90)
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            assert message["msg_type"] != "error", content
            output += content["text"] if message["msg_type"] == "stream" else ""
            if (until and until in output) or content.get("execution_state") == "idle":
                return output.strip()

    def run(self, code: str) -> str:
        return self.printed(self.start(code))

    def comm(self, comm_id: str, data: dict[str, Any], subshell: str | None = None) -> None:
        message = self._client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)

    def subshell(self) -> str:
        """One more subshell, as a page asks for it."""
        self._client.control_channel.send(self._client.session.msg("create_subshell_request"))
        return str(self._client.get_control_msg(timeout=60)["content"]["subshell_id"])


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    manager, client = start_new_kernel()
    yield Notebook(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


@pytest.mark.skipif(ipykernel.version_info < (7, 4), reason="before ipykernel 7.4 the page alone chooses the subshell")
def test_a_click_arrives_while_a_cell_runs_with_or_without_a_page_subshell(notebook: Notebook) -> None:
    box, send = notebook.run(MADE).split()
    for known in (False, True):
        notebook.run("heard.clear()")
        cell = notebook.start(SPIN)
        notebook.printed(cell, "spinning")
        # As JupyterLab does just when it learns of its subshell: the text takes one
        # way, the click another.
        notebook.comm(box, {"method": "update", "state": {"value": f"hello {known}"}, "buffer_paths": []})
        subshell = notebook.subshell() if known else None
        notebook.comm(send, {"method": "custom", "content": {"event": "click"}}, subshell)
        assert notebook.printed(cell) == f"hello {known}"
        assert notebook.run(THREADS) == "True 1"
