"""The panel under faults: a killed service, cut sockets, refusals, nested loops."""

from __future__ import annotations

import importlib.util
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, expect

from service.process import Service, lasting_port
from support.lab import POLLING_MS, Lab, Page, write_notebook

pytestmark = pytest.mark.browser

SCOPES = ("agents:read", "sessions:write", "workspaces:read")
CONNECT = "import agentbook as ab\nclient = ab.connect({url!r}, api_key={key!r}, deadline_s=20)\nreader = client"
PANEL = '{name} = ab.ChatPanel(client, workspace="acme~playground", agent={agent!r}, height="300px")\n{name}'
# The turns that the platform has stored, and those that the panel shows. They must be
# equal: each message and each reply once, in order.
TURNS = """
import json
def stored(panel):
    if panel.session_id is None:  # no message was sent yet
        return []
    turns = ab.turns(reader.sessions.events(panel.session_id).to_pandas(), texts=True).sort_values("asked_at")
    return [[str(v) if v == v else "" for v in row] for row in turns[["prompt", "status"]].astype(object).values.tolist()]

def shown(panel):
    return [[turn.prompt, turn.status] for turn in panel.conversation.turns if turn.message_id]

print(json.dumps([[stored(panel), shown(panel)] for panel in ({panels})]))
"""
# The text of the last reply, once it has ended in some way and the status line agrees.
ENDED = """([panel, number]) => {
  const answers = panel.querySelectorAll('.ab-agent');
  return answers.length === number && answers[number - 1].querySelector('.ab-foot, .ab-failed')
    && !panel.querySelector('.ab-statusline .ab-dot') && answers[number - 1].innerText;
}"""


class Platform:
    """A service with faults on demand.

    It can be killed, and started again at the same address.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = lasting_port()
        self.start()

    def kill(self) -> None:
        assert self.service.stop(signal.SIGKILL) == -signal.SIGKILL

    def start(self) -> None:
        self.service = Service(self.data, "--faults", "--port", self.port)

    def inject_fault(self, **fault: Any) -> None:
        token = (self.data / "admin-token").read_text().strip()
        root = self.service.base_url.removesuffix("/v1")
        bearer = {"Authorization": f"Bearer {token}"}
        httpx.post(f"{root}/_admin/faults", json=fault, headers=bearer, timeout=60, trust_env=False).raise_for_status()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    platform = Platform(tmp_path)
    yield platform
    if platform.service.process.poll() is None:
        platform.service.stop()


def test_faults_are_shown_and_nothing_is_lost_or_repeated(lab: Lab, page: Page, platform: Platform) -> None:
    key, other = platform.service.key(*SCOPES), platform.service.key(*SCOPES)
    url = platform.service.base_url
    limited = f"client = ab.connect({url!r}, api_key={other!r}, deadline_s=4)"
    cells = [
        CONNECT.format(url=url, key=key),
        PANEL.format(name="killed", agent="slow"),
        PANEL.format(name="cut", agent="slow"),
        PANEL.format(name="refused", agent="echo"),
        TURNS.format(panels="killed, cut, refused"),
        limited + "\n" + PANEL.format(name="limited", agent="echo"),
    ]
    write_notebook(lab.root / "faults.ipynb", cells)
    page.open("faults.ipynb")
    page.hide_file_browser()
    page.run_all()
    killed, cut, refused, limited_panel = (page.panel.nth(n) for n in range(4))
    kill_the_service_during_a_reply(page, platform, killed)
    cut_the_socket(page, platform, cut)
    refuse_messages(page, platform, refused)
    reach_the_rate_limit(page, platform, limited_panel)

    # `refused` shows its second session, for which it abandoned the first.
    page.show_cell(4).locator(".jp-InputArea-editor").click()
    page.command("notebook:run-cell")
    for stored, shown in json.loads(page.output_text(4)):
        assert stored == shown
        assert stored
    assert page.errors == []


def send(panel: Locator, text: str) -> None:
    panel.scroll_into_view_if_needed()
    box = panel.locator(".ab-input textarea")
    box.fill(text)
    box.press("Enter")


def wait_for_end(page: Page, panel: Locator, number: int) -> str:
    """Wait until `number` replies are there and the last has ended; return its text."""
    panel.scroll_into_view_if_needed()
    ended = [panel.element_handle(), number]
    return str(page.page.wait_for_function(ENDED, arg=ended, polling=POLLING_MS).json_value())


def kill_the_service_during_a_reply(page: Page, platform: Platform, panel: Locator) -> None:
    send(panel, "1")
    assert "That took 1.0 seconds" in wait_for_end(page, panel, 1)
    send(panel, "0.5")
    words = panel.locator(".ab-agent-body").nth(1)
    expect(words).to_contain_text("That took 0.5")
    platform.kill()
    panel.locator(".ab-statusline").get_by_text("The connection was lost. Reconnecting").wait_for()
    page.screenshot("faults-reconnecting")
    platform.start()
    # When it starts, the service ends the turns that it had left open. The panel learns
    # of this without any action by the person.
    status = wait_for_end(page, panel, 2)
    assert "Failed. Something went wrong: the service stopped before the turn was complete" in status
    assert "Incomplete: the reply was cut off here." in status
    expect(words).to_contain_text("That took 0.5")
    expect(panel.locator(".ab-failed")).to_have_count(1)
    expect(panel.get_by_role("button", name="Try again")).to_be_visible()
    assert panel.locator(".ab-me").count() == 2, "no message twice"
    page.screenshot("faults-killed")
    send(panel, "0")
    assert "That took 0.0 seconds" in wait_for_end(page, panel, 3)


def cut_the_socket(page: Page, platform: Platform, panel: Locator) -> None:
    # The socket is cut twice amid the drafts, without a close frame. Then connecting
    # fails once, so that the panel waits long enough to draw "Reconnecting".
    platform.inject_fault(then={"socket_cut": None, "after_frames": 4}, match={"operation": "streamEvents"}, times=2)
    platform.inject_fault(row="server_error", match={"operation": "streamEvents"})
    panel.scroll_into_view_if_needed()
    page.page.evaluate(
        """panel => { window.states = [];
        new MutationObserver(() => window.states.push(panel.querySelector('.ab-statusline').textContent))
          .observe(panel, {subtree: true, childList: true, characterData: true}); }""",
        panel.element_handle(),
    )
    send(panel, "4")
    assert "That took 4.0 seconds" in wait_for_end(page, panel, 1)
    assert any("Reconnecting" in state for state in page.page.evaluate("() => window.states"))
    assert panel.locator(".ab-me").count() == 1
    assert panel.locator(".ab-failed:visible").count() == 0


def refuse_messages(page: Page, platform: Platform, panel: Locator) -> None:
    send(panel, "well")
    assert "well" in wait_for_end(page, panel, 1)
    refusals = [
        ("server_error", "The message was sent, but no confirmation came back"),
        ("not_found", "can be read here but not continued"),
    ]
    for number, (row, message) in enumerate(refusals, 1):
        platform.inject_fault(row=row, match={"method": "POST", "path": "/v1/sessions/*"})
        send(panel, f"message {number}")
        failed = wait_for_end(page, panel, number + 1)
        assert message in failed, failed
        assert "Request " in failed, "the request id is missing"
        if row != "not_found":
            expect(panel.locator(".ab-input textarea")).to_be_enabled()
            expect(panel.locator("button.ab-retry:visible")).to_have_count(number)
    # Each message can be retried in place. A session that cannot be continued can be
    # replaced by a new one.
    page.screenshot("faults-refused")
    panel.get_by_role("button", name="New session").click()
    expect(panel.locator(".ab-log .ab-empty")).to_be_visible()
    send(panel, "and on")
    assert "and on" in wait_for_end(page, panel, 1)


def reach_the_rate_limit(page: Page, platform: Platform, panel: Locator) -> None:
    platform.inject_fault(row="too_many_requests", match={"method": "POST"}, times=3)
    send(panel, "too much")
    status = wait_for_end(page, panel, 1)
    assert "rate limit" in status.lower(), status
    expect(panel.locator(".ab-input textarea")).to_be_enabled()
    expect(panel.locator("button.ab-retry:visible")).to_have_count(1)
    page.screenshot("faults-limited")


def test_asking_under_a_nested_event_loop_loses_no_queued_cell(lab: Lab, page: Page) -> None:
    # nest_asyncio 1.6 itself loses cells while something blocks the kernel's loop;
    # agentbook never does.
    packages = [name for name in ("nest_asyncio2", "nest_asyncio") if importlib.util.find_spec(name)]
    assert "nest_asyncio2" in packages
    for name in packages:
        setup = f"import {name}, asyncio\n{name}.apply()\nimport agentbook as ab\nclient = ab.connect()\n"
        setup += 'panel = ab.ChatPanel(client, workspace="acme~playground", agent="echo")\ndisplay(panel)\n'
        setup += 'first = panel.ask("one", timeout_s=60)'
        cells = [
            setup,
            "x = 1",
            'second = await panel.aask("two", timeout_s=60)\nx += 1',
            'third = asyncio.run(panel.aask("three", timeout_s=60))\nx += 1',
            "print(x, first.text, second.text, third.text)",
        ]
        write_notebook(lab.root / f"{name}.ipynb", cells)
        page.open(f"{name}.ipynb")
        page.run_all()
        page.cell(4).get_by_text("3 one two three", exact=True).wait_for()
        assert page.execution_counts() == list(range(1, len(cells) + 1))
        page.wait_for_answer(3)
