"""What an agent says is shown and never run: live, played again, compared, saved,
exported and reopened.

The whole corpus goes through each of them in one notebook. A function planted in every
page and frame hears of each attack that runs, and every request is listened to.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.hostile import CORPUS, LONG_LINE
from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

# Planted before any script of a page or frame.
EAR = "window.hits = window.hits || []; window.hit = name => { top.hits.push(name); };"
CONNECT = (
    "import json\nimport agentbook as ab\nclient = ab.connect()\n*texts, long_line = json.load(open('corpus.json'))"
)
# Every text as question, reply, name of agent and person, error and kind of event;
# played at once and written out.
EVENTS = """
def event(number, type, content, author):
    return {"id": f"01900000-0000-7000-8000-{number:012x}", "type": type, "content": content, "author": author, "task_id": "t"}

events = []
for n, text in enumerate(texts):
    person, agent = {"type": text, "name": text}, {"type": "agent", "name": text}
    events += [
        event(8 * n + 1, "message", {"text": text}, person),
        event(8 * n + 2, text or "x", {"text": text}, agent),
        event(8 * n + 3, "runtime_done", {"text": text}, agent),
        event(8 * n + 4, "message", {"text": text}, person),
        event(8 * n + 5, "runtime_error", {"status": 500, "message": text}, agent),
    ]
events.append(event(8 * n + 9, "message", {"text": long_line}, {"type": "user"}))
events.append(event(8 * n + 10, "runtime_done", {"text": long_line}, {}))
at_once = ab.replay(events, speed=float("inf"), height="900px")
at_once
"""
WRITTEN = """
written = ab.replay(events[:-2], speed=1e9, max_pause_s=0, height="900px")
display(written)
written.played.result(120), at_once.played.result(120)
len(written.conversation.turns)
"""
# The real road: asked, streamed in drafts, answered, side by side.
ASKED = """
named = {"id": client.agents.get("acme~echo")["id"], "name": "\\n\\n".join(texts)}
compare = ab.Compare(client, workspace="acme~playground", agents=["echo", named], height="900px")
display(compare)
half = len(texts) // 2
halves = ["\\n\\n".join(part).replace("\\0", "") for part in (texts[:half], texts[half:])]  # the platform takes no null character
answers = [compare.ask(part, timeout_s=120) for part in halves]
compare.prefer("tie")
[turn.status for turn in answers[-1].values()]
"""
MARKDOWN = """
from IPython.display import Markdown
Markdown(at_once.conversation.to_markdown())
"""
# TeX's definitions belong to the page: whatever was typeset before, here `\\hr` is a
# name that nobody has defined.
DEFINED = r"""
import ipywidgets
ipywidgets.HTMLMath(r'<span class="defined">\(\hr\ef{a}{b}\)</span>')
"""
PAGE = "open('exported.html', 'w').write(at_once.conversation.to_html())"
# What must not be in what we made of it, wherever it came from.
FOUND = """root => {
  const bad = [];
  for (const e of root.querySelectorAll('*')) {
    if (e.tagName === 'STYLE' && !e.closest('.ab-md')) continue;
    // In Markdown, a heading's own anchor and a task's box are JupyterLab's.
    if (e.matches('input[type=checkbox][disabled]')) continue;
    // What MathJax made of formulas: its own elements, which may have styles but no handlers and no addresses.
    const math = e.closest('mjx-container, .MathJax');
    for (const a of e.attributes) {
      if (/^on/i.test(a.name)) bad.push(e.tagName + ' ' + a.name);
      if (/^(href|src|action|formaction|xlink:href|srcdoc|ping|background|poster|data)$/i.test(a.name)
        && !/^((https?|mailto):|#)/i.test(a.value)) bad.push(a.name + '=' + a.value);
      if (math && /^(style|href|xlink:href)$/i.test(a.name) && /url\\s*\\(|script/i.test(a.value)) bad.push(a.value);
    }
    if (/^(script|iframe|frame|object|embed|form|img|svg|style|link|meta|base|input|textarea|video|audio)$/i.test(e.tagName)
      && !(math && /^svg$/i.test(e.tagName))) bad.push(e.tagName + ' ' + e.outerHTML.slice(0, 200));
  }
  return bad;
}"""
# Everything a mouse can reach is moved over and pressed, without leaving the page.
PRESS = """root => {
  const stay = event => event.preventDefault();
  root.addEventListener('click', stay);
  for (const e of root.querySelectorAll('*')) {
    for (const kind of ['pointerenter', 'pointerover', 'mouseover', 'focus', 'animationstart', 'toggle', 'load', 'error'])
      e.dispatchEvent(new Event(kind, {bubbles: false}));
    if (!e.closest('button')) e.click && e.click();
  }
  root.removeEventListener('click', stay);
  return root.querySelectorAll('a').length;
}"""
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300))))"


class Ear:
    """Hears what runs and what is asked for in a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.stray: list[str] = []
        self.dialogs: list[str] = []
        page.page.add_init_script(EAR)
        page.page.context.on("request", lambda request: self._heard(request.url))
        page.page.on("dialog", self._dialog)
        page.page.on("popup", lambda popup: self.stray.append(f"popup {popup.url}"))

    def _heard(self, url: str) -> None:
        # JupyterLab asks its own server whether an address in Markdown is a file of its
        # own; that is no request of the text's.
        own = url.startswith(self.page.lab.url) and "/api/contents/" in url and "content=0" in url
        if not own and "stray" in url.lower():
            self.stray.append(url)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def has_heard_nothing(self) -> None:
        # What runs, runs in tasks of its own: after two frames and a moment they have
        # had their turn.
        self.page.page.evaluate(SETTLED)
        assert self.page.page.evaluate("() => window.hits") == []
        assert (self.stray, self.dialogs) == ([], [])
        assert [frame.url for frame in self.page.page.frames[1:]] == []


def test_no_text_runs_or_fetches_anything_anywhere(lab: Lab, page: Page) -> None:
    (lab.root / "corpus.json").write_text(json.dumps([*CORPUS.values(), LONG_LINE]))
    cells = [CONNECT, EVENTS, WRITTEN, ASKED, MARKDOWN, PAGE, DEFINED]
    write_notebook(lab.root / "hostile.ipynb", cells)
    ear = Ear(page)
    page.open("hostile.ipynb")
    page.run_all()
    assert [output for output in page.outputs() if output["output_type"] == "error"] == []
    assert page.execution_counts() == list(range(1, len(cells) + 1))

    # Live: in few widgets, in many, side by side, and as Markdown.
    names = list(CORPUS)
    for panel in (0, 1, 2):
        shown = page.panel.nth(panel)
        shown.scroll_into_view_if_needed()
        shown.get_by_text(f"top.hit('{names[0]}')").first.wait_for()
        harmless(page, ear, f".jp-OutputArea .ab-chat .ab-log >> nth={panel}")
        page.screenshot(f"hostile-{panel}")
    markdown = ".jp-Notebook .jp-CodeCell >> nth=4 >> .jp-RenderedMarkdown"
    page.page.locator(markdown).scroll_into_view_if_needed()
    harmless(page, ear, markdown)
    defined = page.page.locator(".jp-OutputArea .defined mjx-container")
    defined.scroll_into_view_if_needed()
    assert (defined.count(), defined.locator("a").count()) == (1, 0)
    words = page.panel.nth(0).locator(".ab-log").text_content() or ""  # JupyterLab draws only what is near the view
    for text in ("<script>top.hit('script')</script>", "<iframe srcdoc='<script>", "⟨U+202E⟩"):
        assert text in words

    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    page.page.locator(".jp-OutputArea .ab-static").nth(2).wait_for(state="attached")
    transcripts = page.page.locator(".jp-OutputArea .ab-static")
    assert (transcripts.count(), page.panel.count()) == (3, 0)
    for number in range(3):
        transcripts.nth(number).scroll_into_view_if_needed()
        harmless(page, ear, f".jp-OutputArea .ab-static >> nth={number}")
    assert lab.secret() not in (lab.root / "hostile.ipynb").read_text()

    exported(page, ear, lab.root / "exported.html")


def harmless(page: Page, ear: Ear, where: str) -> None:
    """Click and hover what can be clicked; then nothing has run, and nothing dangerous
    is in the page.
    """
    region = page.page.locator(where)
    region.evaluate("root => root.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert region.evaluate(FOUND) == []
    for link in region.locator("a[href]").evaluate_all(
        "links => links.map(each => [each.href, each.rel, each.target])"
    ):
        assert re.match("https?:|mailto:", link[0]), link
        if "ab-" in where:
            assert "noopener" in link[1], link
    assert region.evaluate(PRESS) >= 0
    ear.has_heard_nothing()


def exported(page: Page, ear: Ear, path: Path) -> None:
    """The exported page, with its policy and, to hold the sanitizer alone to it,
    without.
    """
    whole = path.read_text()
    policy = re.search(r"<meta http-equiv[^>]*>", whole)
    assert policy is not None
    for text in (whole, whole.replace(policy[0], "")):
        path.write_text(text)
        page.page.goto(path.as_uri())
        page.page.locator(".ab-static").wait_for()
        harmless(page, ear, ".ab-static")
    page.strayed = [address for address in page.strayed if address != path.as_uri()]
