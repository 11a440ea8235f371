"""A panel in a narrow page, and after a reload or a new kernel; and a comparison."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Locator, expect

from browser.panels import Panel
from support.lab import Lab, Page

START = "each => { const one = document.createRange(); one.selectNodeContents(each); return one.getBoundingClientRect().x; }"


def reload_with_a_running_kernel(page: Page) -> None:
    """The panel is back in both of its cells, with everything in it."""
    Panel(page, 6).box.fill("")
    Panel(page, 1).box.press_sequentially("a draft")
    page.save()
    page.reload()
    page.wait_for_kernel()
    expect(Panel(page, 1).box).to_have_value("a draft")
    for cell in (1, 6):
        panel = Panel(page, cell)
        panel.root.scroll_into_view_if_needed()
        expect(panel.replies).to_have_count(6)
        expect(panel.status).to_have_text("Answered.")
        expect(page.cell(cell).locator(".ab-static")).to_be_hidden()
        outputs = page.cell(cell).locator(".jp-Cell-outputArea")
        assert outputs.evaluate("area => area.scrollHeight <= area.clientHeight + 1"), (
            "the panel is in a scrolled output"
        )


def restart(page: Page) -> None:
    page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => true)"
    )


def restart_the_kernel(page: Page) -> None:
    restart(page)
    for cell in (6, 1):
        panel = Panel(page, cell)
        page.show_cell(cell)  # JupyterLab hides what is far from the view
        expect(panel.root.get_by_role("alert")).to_contain_text("The kernel restarted.")
        expect(panel.root.locator(".ab-statusline")).to_be_hidden()  # it is said once
        expect(panel.box).to_be_disabled()
        expect(panel.replies).to_have_count(6)
    # ipywidgets marks each widget without a kernel with an icon.
    marks = """cell => [...cell.querySelectorAll('.jupyter-widgets-disconnected')]
      .map(each => getComputedStyle(each, '::before').content)"""
    assert set(page.cell(1).evaluate(marks)) <= {"none", "normal"}
    page.screenshot("panel-restarted")


def reopen_with_all_sessions_and_formulas(page: Page) -> None:
    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    transcript = page.cell(1).locator(".ab-static")
    expect(transcript).to_contain_text("It costs $5 and $10.")
    transcript.scroll_into_view_if_needed()
    # JupyterLab has its own styles for HTML outputs.
    word = transcript.locator(".ab-md :not(pre) > code").first
    assert word.evaluate("word => getComputedStyle(word).backgroundColor").startswith("color(srgb")
    expect(transcript.locator("mjx-container")).to_have_count(5)
    page.page.evaluate("() => { document.documentElement.dir = 'rtl'; }")
    heading, reply = transcript.locator(".ab-heading").last, transcript.locator(".ab-agent").last
    assert reply.evaluate(START) == heading.evaluate(START), "a reply begins where its heading does, in any page"
    other = transcript.locator(".ab-past").filter(has_text="Hello again")
    expect(other.locator("blockquote").first).to_be_hidden()
    other.locator("summary").first.click()
    expect(other.locator("blockquote").first).to_have_text("Hello again")
    expect(other.locator("blockquote").first).to_be_visible()
    assert transcript.locator(".ab-act, img, style ~ button").count() == 0
    page.screenshot("panel-reopened")


def read_the_export(lab: Lab, page: Page, notebook: Path) -> None:
    """The saved notebook as HTML, without scripts as offline viewers show it."""
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", str(notebook)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    exported = notebook.with_suffix(".html").read_text()
    assert lab.secret() not in notebook.read_text() + exported
    page.page.set_content(re.sub(r"<script\b.*?</script>", "", exported, flags=re.DOTALL))
    shown = page.page.locator(".ab-static").first
    assert "What is a session?" in shown.inner_text()
    assert shown.get_by_role("heading", level=5).all_inner_texts()[:2] == ["You", "echo"]


def leave_and_return(page: Page, compare: Locator, first: str) -> None:
    """Ask again, leave the comparison, and open it again."""
    box = compare.get_by_role("textbox", name="Message")
    box.fill("1 task")
    box.press("Enter")
    expect(compare.locator(".ab-round")).to_have_count(2)
    expect(compare.get_by_role("status")).to_contain_text("All answered. Which is better?")
    compare.get_by_role("button", name="New session").click()
    expect(compare.locator(".ab-round")).to_have_count(0)
    compare.get_by_role("button", name="Sessions").click()
    entry = compare.locator(".ab-entry").first
    expect(entry).to_contain_text(first)
    page.screenshot("compare-sessions")
    entry.click()
    expect(compare.locator(".ab-round")).to_have_count(2)


def exported(page: Page, compare: Locator) -> str:
    """The comparison as the web page that the browser saves."""
    compare.get_by_role("button", name="More").click()
    page.screenshot("compare-export")
    with page.page.expect_download() as download:
        compare.get_by_role("button", name="Export as a web page").click()
    return Path(download.value.path()).read_text("utf-8")
