"""What an agent says is shown and never run: live, saved, and reopened."""

from __future__ import annotations

import pytest

from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

CONNECT = "import agentbook as ab\nclient = ab.connect()"
PANEL = 'panel = ab.ChatPanel(client, workspace="acme~playground", agent="echo")\npanel'
ATTACKS = [
    "<img src=x onerror=window.__pwned=1>",
    "<script>window.__pwned=2</script>",
    "[a link](javascript:window.__pwned=3) and [another](JaVaScRiPt&#58;window.__pwned=4)",
    "<iframe srcdoc='<script>parent.__pwned=5</script>'></iframe>",
    "<svg onload=window.__pwned=6><animate onbegin=window.__pwned=7 attributeName=x dur=1s></svg>",
    "![picture](http://stray.example/pixel.png) <http://stray.example/auto>",
    "</style></div></div><style>@import url(http://stray.example/a.css);</style><b onclick=window.__pwned=8>bold</b>",
    "```html\n<img src=x onerror=window.__pwned=9>\n```",
    '"><details open ontoggle=window.__pwned=10>word',
    "<form action=http://stray.example><button autofocus onfocus=window.__pwned=11>press</button></form>",
]
# Shown as the words they are.
VISIBLE = [
    "onerror=window.__pwned=1>",
    "<script>window.__pwned=2</script>",
    "<iframe srcdoc=",
    "<svg onload",
    "ontoggle",
]
FOUND = """root => {
  const bad = [];
  for (const e of root.querySelectorAll('*')) {
    const ours = e.tagName === 'STYLE' && !e.closest('.ab-md');
    if (ours) continue;
    for (const a of e.attributes) {
      if (/^on/i.test(a.name)) bad.push(e.tagName + ' ' + a.name);
      if (/^(href|src|action|xlink:href|srcdoc)$/i.test(a.name) && !/^https?:/i.test(a.value)) bad.push(a.name + '=' + a.value);
    }
    if (/^(script|iframe|object|embed|form|img|svg|style|link|meta)$/i.test(e.tagName)) bad.push(e.tagName);
  }
  return bad;
}"""


def test_hostile_text_is_shown_and_never_run(lab: Lab, page: Page) -> None:
    asks = "turns = [panel.ask(text, timeout_s=60) for text in texts]\nlen(turns)"
    write_notebook(lab.root / "hostile.ipynb", [CONNECT, PANEL, f"texts = {ATTACKS!r}", asks])
    page.open("hostile.ipynb")
    page.run_all()
    page.wait_for_answer(len(ATTACKS))
    harmless(page, ".jp-OutputArea .ab-log")
    words = page.panel.locator(".ab-log").inner_text()
    for text in VISIBLE:
        assert words.count(text) == 2, text  # in the question and in the reply
    page.screenshot("hostile-live")

    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    words = page.static_transcript(*VISIBLE)
    harmless(page, ".jp-OutputArea .ab-static")
    for text in VISIBLE:
        assert words.count(text) == 2, text
    page.screenshot("hostile-reopened")


def harmless(page: Page, where: str) -> None:
    """Click and hover what can be clicked; then nothing has run, and nothing dangerous is in the page."""
    region = page.page.locator(where)
    assert region.evaluate(FOUND) == []
    for link in region.locator("a:visible").all():
        assert (link.get_attribute("href") or "").startswith(("http://", "https://"))
        assert "noopener" in (link.get_attribute("rel") or "")
    # What runs, runs in tasks of its own: after two frames and an idle moment they have had their turn.
    page.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
    )
    assert page.page.evaluate("() => window.__pwned") is None
    assert page.strayed == []
