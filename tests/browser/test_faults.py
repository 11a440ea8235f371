"""The panel when things go wrong around it: the service killed, sockets cut, messages
refused, nested loops.
"""

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
from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

SCOPES = ("agents:read", "sessions:write", "workspaces:read")
CONNECT = "import agentbook as ab\nclient = ab.connect({url!r}, api_key={key!r}, deadline_s=20)\nreader = client"
PANEL = '{name} = ab.ChatPanel(client, workspace="acme~playground", agent={agent!r}, height="300px")\n{name}'
# What the panels show against what the platform holds: each message and each reply
# once, in order.
HELD = """
import json
def held(panel):
    if panel.session_id is None:  # nothing was said yet
        return []
    turns = ab.turns(reader.sessions.events(panel.session_id).to_pandas(), texts=True).sort_values("asked_at")
    return [[str(v) if v == v else "" for v in row] for row in turns[["prompt", "status"]].astype(object).values.tolist()]

def shown(panel):
    return [[turn.prompt, turn.status] for turn in panel.conversation.turns if turn.message_id]

print(json.dumps([[held(panel), shown(panel)] for panel in ({panels})]))
"""
# The last reply has ended in one way or another, and the panel says so.
ENDED = """([panel, number]) => {
  const answers = panel.querySelectorAll('.ab-agent');
  return answers.length === number && answers[number - 1].querySelector('.ab-foot, .ab-failed')
    && !panel.querySelector('.ab-statusline .ab-dot') && answers[number - 1].innerText;
}"""


class Platform:
    """A service of our own, with faults on demand, that can be killed and started again
    at the same address.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = lasting_port()
        self.start()

    def kill(self) -> None:
        assert self.service.stop(signal.SIGKILL) == -signal.SIGKILL

    def start(self) -> None:
        self.service = Service(self.data, "--faults", "--port", self.port)

    def fault(self, **wish: Any) -> None:
        token = (self.data / "admin-token").read_text().strip()
        root = self.service.base_url.removesuffix("/v1")
        bearer = {"Authorization": f"Bearer {token}"}
        httpx.post(f"{root}/_admin/faults", json=wish, headers=bearer, timeout=60, trust_env=False).raise_for_status()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path)
    yield made
    if made.service.process.poll() is None:
        made.service.stop()


def test_nothing_that_goes_wrong_is_lost_twice_or_silent(lab: Lab, page: Page, platform: Platform) -> None:
    key, other = platform.service.key(*SCOPES), platform.service.key(*SCOPES)
    url = platform.service.base_url
    limited = f"client = ab.connect({url!r}, api_key={other!r}, deadline_s=4)"
    cells = [
        CONNECT.format(url=url, key=key),
        PANEL.format(name="killed", agent="slow"),
        PANEL.format(name="cut", agent="slow"),
        PANEL.format(name="refused", agent="echo"),
        HELD.format(panels="killed, cut, refused"),
        limited + "\n" + PANEL.format(name="limited", agent="echo"),
    ]
    write_notebook(lab.root / "faults.ipynb", cells)
    page.open("faults.ipynb")
    page.command("application:toggle-left-area")
    page.run_all()
    killed, cut, refused, limited_panel = (page.panel.nth(n) for n in range(4))
    the_service_is_killed_mid_reply(page, platform, killed)
    the_socket_is_cut(page, platform, cut)
    messages_are_refused(page, platform, refused)
    the_rate_limit_is_reached(page, platform, limited_panel)

    # The second session of `refused` is the one that counts: the first was given up by
    # the person.
    page.cell(4).scroll_into_view_if_needed()
    page.cell(4).locator(".jp-InputArea-editor").click()
    page.command("notebook:run-cell")
    for held, shown in json.loads(page.output_text(4)):
        assert held == shown
        assert held
    assert page.errors == []


def say(panel: Locator, text: str) -> None:
    panel.scroll_into_view_if_needed()
    box = panel.locator(".ab-input textarea")
    box.fill(text)
    box.press("Enter")


def ended(page: Page, panel: Locator, number: int) -> str:
    """Wait until the panel holds `number` answers and the last has ended; its words."""
    panel.scroll_into_view_if_needed()
    return str(page.page.wait_for_function(ENDED, arg=[panel.element_handle(), number], timeout=60_000).json_value())


def the_service_is_killed_mid_reply(page: Page, platform: Platform, panel: Locator) -> None:
    say(panel, "1")
    assert "That took 1.0 seconds" in ended(page, panel, 1)
    say(panel, "60")
    panel.locator(".ab-chip.ab-running").wait_for()
    platform.kill()
    panel.get_by_text("The connection was lost. Reconnecting").wait_for()
    page.screenshot("faults-reconnecting")
    platform.start()
    # At its start the service ends what it had left open; the panel is told so, by
    # itself.
    status = ended(page, panel, 2)
    assert "Failed. Something went wrong: the service stopped before the turn was complete" in status
    assert panel.locator(".ab-me").count() == 2, "nothing twice"
    page.screenshot("faults-killed")
    say(panel, "0")
    assert "That took 0.0 seconds" in ended(page, panel, 3)


def the_socket_is_cut(page: Page, platform: Platform, panel: Locator) -> None:
    # Twice in the middle of the drafts, without a word; then the platform fails once,
    # so that the wait lasts until it is drawn.
    platform.fault(then={"socket_cut": None, "after_frames": 4}, match={"operation": "streamEvents"}, times=2)
    platform.fault(row="server_error", match={"operation": "streamEvents"})
    panel.scroll_into_view_if_needed()
    page.page.evaluate(
        """panel => { window.states = [];
        new MutationObserver(() => window.states.push(panel.querySelector('.ab-statusline').textContent))
          .observe(panel, {subtree: true, childList: true, characterData: true}); }""",
        panel.element_handle(),
    )
    say(panel, "4")
    assert "That took 4.0 seconds" in ended(page, panel, 1)
    assert any("Reconnecting" in state for state in page.page.evaluate("() => window.states"))
    assert panel.locator(".ab-me").count() == 1
    assert panel.locator(".ab-failed:visible").count() == 0


def messages_are_refused(page: Page, platform: Platform, panel: Locator) -> None:
    say(panel, "well")
    assert "well" in ended(page, panel, 1)
    refusals = [
        ("invalid_key", "did not accept the credential"),
        ("insufficient_scope", "lacks the scope workspaces:read"),
        ("server_error", "The message was sent, but no confirmation came back"),
        ("not_found", "can be read here but not continued"),
    ]
    for number, (row, words) in enumerate(refusals, 1):
        platform.fault(row=row, match={"method": "POST", "path": "/v1/sessions/*"})
        say(panel, f"message {number}")
        failed = ended(page, panel, number + 1)
        assert words in failed, failed
        assert "Request " in failed, "its request id"
        if row != "not_found":
            expect(panel.locator(".ab-input textarea")).to_be_enabled()
            expect(panel.locator("button.ab-retry:visible")).to_have_count(number)
    # Each can be sent again, in place; what cannot be continued can be begun anew.
    page.screenshot("faults-refused")
    panel.get_by_role("button", name="New session").click()
    expect(panel.locator(".ab-log")).to_contain_text("No messages yet.")
    say(panel, "and on")
    assert "and on" in ended(page, panel, 1)


def the_rate_limit_is_reached(page: Page, platform: Platform, panel: Locator) -> None:
    platform.fault(row="too_many_requests", match={"method": "POST"}, times=3)
    say(panel, "too much")
    status = ended(page, panel, 1)
    assert "rate limit" in status.lower(), status
    expect(panel.locator(".ab-input textarea")).to_be_enabled()
    expect(panel.locator("button.ab-retry:visible")).to_have_count(1)
    page.screenshot("faults-limited")


def test_asking_in_the_first_cell_loses_no_cell_under_a_nested_loop(lab: Lab, page: Page) -> None:
    # nest_asyncio 1.6 loses cells itself, but only while something blocks on the
    # kernel's loop: ours never does.
    nested = [name for name in ("nest_asyncio2", "nest_asyncio") if importlib.util.find_spec(name)]
    assert "nest_asyncio2" in nested
    for name in nested:
        first = f"import {name}, asyncio\n{name}.apply()\nimport agentbook as ab\nclient = ab.connect()\n"
        first += 'panel = ab.ChatPanel(client, workspace="acme~playground", agent="echo")\ndisplay(panel)\n'
        first += 'one = panel.ask("one", timeout_s=60)'
        cells = [
            first,
            "x = 1",
            'two = await panel.aask("two", timeout_s=60)\nx += 1',
            'three = asyncio.run(panel.aask("three", timeout_s=60))\nx += 1',
            "print(x, one.text, two.text, three.text)",
        ]
        write_notebook(lab.root / f"{name}.ipynb", cells)
        page.open(f"{name}.ipynb")
        page.run_all()
        page.cell(4).get_by_text("3 one two three", exact=True).wait_for()
        assert page.execution_counts() == list(range(1, len(cells) + 1))
        page.wait_for_answer(3)
