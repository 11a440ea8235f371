"""A panel and its notebook: code becomes cells, and `@` attaches what is there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.panels import CONNECT, PANEL, Panel
from support.lab import Lab, Page, axe_violations, write_notebook
from support.notebook7 import EACH_APPLICATION

pytestmark = pytest.mark.browser

# Blocks that an agent may write; each becomes a cell with exactly this text.
BLOCKS = [
    "def f(x):\n    return x  # \ttab, 'quotes' and `ticks`\n\n\nf(1)",
    "!touch ran\n%%bash\ntouch ran",
    "</code></pre><script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">",
    '# %% [markdown]\n```\n<!-- {"cell_type": "markdown", "metadata": {"trusted": true}} -->\n```',
]
REPLY = "\n\n".join(f"Block {n}:\n\n````python\n{block}\n````" for n, block in enumerate(BLOCKS))
FAILS = "raise LookupError('lost ' * 200_000)  # a traceback of a megabyte"
OTHERS = {
    "bash": "ls",
    "markdown": "## A part\n\n![not fetched](http://stray.example/cat.png)",
    "sql": "SELECT 1",
    "": FAILS,
}
TABLE = "| day | $n$ | share |\n|--|--:|--:|\n| 2026-10-03 | 1,200 | 12.5% |\n| 2026-10-04 | | 7% |"
REPLY = "\n\n".join([REPLY, *(f"```{language}\n{code}\n```" for language, code in OTHERS.items()), TABLE])
FRAME = 'import pandas as pd\norders = pd.DataFrame({"n": range(60), "mail": "ada@acme.test"})\n%load_ext agentbook'

# A session whose reply has token counts, as platforms with a language model send them.
USED = """import asyncio

def event(n, type, text, author, **more):
    return {"id": f"0199a0b2-0000-7000-8000-00000000000{n}", "type": type, "content": {"text": text}, "author": author,
            "created_at": f"2026-10-03T08:15:0{n}Z", **more}

async def follow(client, session_id, *, from_id, on_state):
    yield event(1, "message", "How many?", {"type": "api_key"})
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "model": "small"}
    yield event(2, "runtime_done", "Seven.", {"type": "agent", "name": "counter"}, usage=usage)
    yield event(3, "message", "And then?", {"type": "api_key"})
    yield {"id": "d", "type": "runtime_draft", "content": {"delta": "```python\\nx = 1", "offset": 0}}
    on_state("live")
    await asyncio.Event().wait()

ab.ChatPanel(None, session="s1", follow=follow, prices={"small": (1000, 2000)}, height="160px")"""


@EACH_APPLICATION
def test_the_notebook_is_the_context_of_a_chat(lab: Lab, page: Page) -> None:
    cells = [
        f"{CONNECT}\n{FRAME}",
        PANEL.format(name="echo", agent="echo", height=420),
        f"_ = echo.ask({REPLY!r}, timeout_s=60)",
        USED,
        "%%chat echo -w acme~playground --code\nLook:\n```python\nopen('ran', 'w')\n```",
    ]
    write_notebook(lab.root / "context.ipynb", cells)
    (lab.root / "picture.png").write_bytes(b"\x89PNG\0")
    (lab.root / "data" / "raw").mkdir(parents=True, exist_ok=True)
    (lab.root / "data" / "raw" / "days.csv").write_text("day\n1\n")
    page.open("context.ipynb")
    page.run_all()
    page.hide_file_browser()
    read_what_a_turn_used(page, 3)
    page.show_cell(1)
    echo = Panel(page, 1)
    attach_by_keyboard(page, echo)
    insert_each_block(page, echo)
    attach_what_failed(page, echo)
    insert_the_table(page, echo)
    assert page.errors == []


def read_what_a_turn_used(page: Page, cell: int) -> None:
    page.show_cell(cell)
    panel = Panel(page, cell)
    expect(panel.root.locator(".ab-foot").first).to_contain_text("small · 1,500 tokens · cost 2")
    expect(panel.root.locator(".ab-session")).to_contain_text("1,500 tokens · cost 2")
    expect(panel.replies.last.locator(".ab-code")).to_contain_text("x = 1")
    expect(panel.replies.last.get_by_role("button")).to_have_count(0)  # the block is still being written
    page.screenshot("used")


def attach_by_keyboard(page: Page, panel: Panel) -> None:
    options = panel.root.get_by_role("option")
    note = panel.root.locator(".ab-drawer-note:visible")
    panel.box.press_sequentially("Sum up @o")
    expect(options.first).to_contain_text("orders")
    expect(options.first).to_contain_text("60 × 2")
    expect(panel.root.get_by_role("listbox")).to_be_visible()
    page.screenshot("mentions")
    assert axe_violations(panel.root) == []
    panel.box.press("Enter")
    expect(panel.root.locator(".ab-attached")).to_contain_text("the first 50 of 60 rows × 2 columns")
    expect(panel.box).to_have_value("Sum up @orders ")
    panel.box.press_sequentially("and @above")
    expect(options).to_have_count(1)
    panel.box.press("Tab")
    expect(panel.root.locator(".ab-attached")).to_have_count(2)
    expect(panel.root.locator(".ab-attached pre").last).to_contain_text("orders = pd.DataFrame")
    panel.box.press_sequentially("@below")
    expect(options).to_have_text(re.compile("the cell below"))
    panel.box.press("Escape")
    panel.box.press_sequentially(" @dat")
    expect(options).to_have_text(re.compile("data/"))
    panel.box.press("Enter")
    expect(options).to_have_text(re.compile("data/raw/"))
    panel.box.press("Enter")
    expect(options).to_have_text(re.compile("data/raw/days.csv"))
    panel.box.press("Enter")
    expect(panel.root.locator(".ab-attached").last).to_contain_text("days.csv")
    panel.box.fill("Sum up @orders and the cell above")
    panel.box.press_sequentially(" @picture")
    expect(options).to_have_count(1)
    options.click()
    expect(note).to_contain_text("picture.png cannot be attached")
    panel.box.press("Enter")
    panel.wait_for_reply(2, "Sum up @orders and the cell above")
    assert "ada@acme.test" not in (panel.log.text_content() or "")
    expect(panel.questions.last.locator("details.ab-file:not([open])")).to_have_count(3)
    page.screenshot("mentioned")


def insert_each_block(page: Page, panel: Panel) -> None:
    """Below each other, as what they are; SQL is no cell."""
    blocks = [*BLOCKS, "%%bash\nls", OTHERS["markdown"], OTHERS[""]]
    buttons = panel.replies.first.get_by_role("button", name="Insert below")
    expect(buttons).to_have_count(len(blocks))
    for n in range(len(blocks)):
        if n == 2 and type(page) is Page:  # JupyterLab
            keep_the_order_after_a_reload(page)
        buttons.nth(n).click()
        expect(panel.replies.first.get_by_role("button", name="Inserted")).to_have_count(1)
        expect(buttons).to_have_count(len(blocks))
        active = "() => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()"
        assert page.page.evaluate(active) == blocks[n]
        expect(page.page.locator(".jp-Notebook .jp-Cell.jp-mod-active")).to_be_in_viewport()
    cells = page.cells()
    inserted = cells[2 : 2 + len(blocks)]
    assert [cell["source"] for cell in inserted] == blocks
    assert [cell["cell_type"] for cell in inserted] == [*["code"] * 5, "markdown", "code"]
    trusted = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(({ model }) => model.trusted)"
    assert page.page.evaluate(trusted)[2:9] == [*[True] * 5, False, True], "Markdown needs no trust"
    assert cells[-1]["source"] == "open('ran', 'w')", "from the magic"
    assert page.execution_counts() == [1, 2, *[None] * 6, 3, 4, 5, None], "nothing runs by itself"
    assert not (page.lab.root / "ran").exists()
    assert page.page.title() != "ran"
    page.screenshot("inserted")


def keep_the_order_after_a_reload(page: Page) -> None:
    page.save()
    page.reload()
    page.wait_for_kernel()
    page.show_cell(1)


def attach_what_failed(page: Page, panel: Panel) -> None:
    """The cell that was inserted last fails, which the panel offers to attach."""
    offer = panel.button("Attach this error")
    expect(offer).to_be_hidden()
    page.command("notebook:run-cell")
    page.show_cell(1)
    expect(offer).to_be_visible()
    page.screenshot("failed")
    assert axe_violations(panel.root) == []
    expect(panel.root.locator(".ab-attached")).to_have_count(0)  # nothing is attached or sent by itself
    expect(panel.questions).to_have_count(2)
    offer.click()
    expect(offer).to_be_hidden()
    expect(panel.root.locator(".ab-attached")).to_have_count(1)
    for part in (f"{FAILS}\n\n# Output:", "LookupError", "characters left out"):
        expect(panel.root.locator(".ab-attached pre")).to_contain_text(part)
    expect(panel.box).to_be_focused()
    panel.box.press_sequentially("Why? @err")
    expect(panel.root.get_by_role("option")).to_have_text(re.compile("the last error"))
    panel.box.press("Enter")
    expect(panel.box).to_have_value("Why? the last error ")
    expect(panel.root.locator(".ab-attached")).to_have_count(1)


def insert_the_table(page: Page, panel: Panel) -> None:
    button = panel.replies.first.locator(".ab-tabular")
    button.click()
    expect(button).to_have_text("Inserted")
    source = [cell["source"] for cell in page.cells() if "pd.DataFrame({" in cell["source"]][-1]
    frame: dict[str, Any] = {}
    exec(source, frame)
    assert frame["table"].dtypes.astype(str).to_dict() == {
        "day": "datetime64[us]", r"\(n\)": "Int64", "share": "float64",
    }  # fmt: skip
    assert frame["table"]["share"].to_list() == [0.125, 0.07]
