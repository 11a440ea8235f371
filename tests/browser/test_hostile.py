"""Hostile text is shown but never run: in panels, replays, comparisons and exports.

One notebook passes the whole corpus through each of them, live and reopened. A function
defined in every page and frame records each attack that runs. All requests are recorded
too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from support.hostile import CORPUS, LONG_LINE
from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

# Runs before any script of a page or frame.
RECORD_HITS = "window.hits = window.hits || []; window.hit = name => { top.hits.push(name); };"
CONNECT = (
    "import json\nimport agentbook as ab\nclient = ab.connect()\n*texts, long_line = json.load(open('corpus.json'))"
)
# Each text as question, reply, agent's and person's name, error and event type, all in
# one replay.
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
STREAMED = """
streamed = ab.replay(events[:-2], speed=1e9, max_pause_s=0, height="900px")
display(streamed)
streamed.played.result(120), at_once.played.result(120)
len(streamed.conversation.turns)
"""
# Asked on the platform, streamed in drafts, answered, side by side.
COMPARED = """
named = {"id": client.agents.get("acme~echo")["id"], "name": "\\n\\n".join(texts)}
compare = ab.Compare(client, workspace="acme~playground", agents=["echo", named], height="900px")
display(compare)
half = len(texts) // 2
halves = ["\\n\\n".join(part).replace("\\0", "") for part in (texts[:half], texts[half:])]  # the platform refuses null characters
answers = [compare.ask(part, timeout_s=120) for part in halves]
compare.prefer("tie")
[turn.status for turn in answers[-1].values()]
"""
MARKDOWN = """
from IPython.display import Markdown
Markdown(at_once.conversation.to_markdown())
"""
# TeX's definitions apply to the whole page. Whatever was typeset before, `\\hr` must be
# undefined here, and `\\alpha` unchanged.
DEFINED = r"""
import ipywidgets
ipywidgets.HTMLMath(r'<span class="defined">\(\hr\ef{a}{b}\)</span><span class="alpha">\(\alpha+1\)</span>')
"""
PAGE = "open('exported.html', 'w').write(at_once.conversation.to_html())"
# The dangerous elements and attributes of a part of the page.
DANGEROUS = """root => {
  const bad = [];
  for (const e of root.querySelectorAll('*')) {
    if (e.tagName === 'STYLE' && !e.closest('.ab-md')) continue;
    // JupyterLab adds the checkboxes of task lists in Markdown.
    if (e.matches('input[type=checkbox][disabled]')) continue;
    // MathJax's own elements may have styles, but no handlers and no URLs.
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
# Hovers over and clicks every element, without leaving the page.
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
NEXT_TASKS = (
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300))))"
)


class AttackRecorder:
    """Records the attacks that run in a page, and the requests that they make."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.stray: list[str] = []
        self.dialogs: list[str] = []
        page.page.add_init_script(RECORD_HITS)
        page.page.context.on("request", lambda request: self._record_request(request.url))
        page.page.on("dialog", self._record_dialog)
        page.page.on("popup", lambda popup: self.stray.append(f"popup {popup.url}"))

    def _record_request(self, url: str) -> None:
        # JupyterLab asks its server whether a link in Markdown is one of its files; the
        # text does not make that request.
        own = url.startswith(self.page.lab.url) and "/api/contents/" in url and "content=0" in url
        if not own and "stray" in url.lower():
            self.stray.append(url)

    def _record_dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check_that_nothing_ran(self) -> None:
        # Attacks may run in later tasks: wait for two frames and 300 ms.
        self.page.page.evaluate(NEXT_TASKS)
        assert self.page.page.evaluate("() => window.hits") == []
        assert (self.stray, self.dialogs) == ([], [])
        assert [frame.url for frame in self.page.page.frames[1:]] == []


@pytest.fixture
def page(lab: Lab, browser: Browser) -> Iterator[Page]:
    """A separate page: the recorder stays in it, and starts before JupyterLab."""
    page = Page(lab, browser, workspace="hostile")
    yield page
    page.end_kernels()
    page.close()
    assert page.outside_requests == []


def test_no_text_runs_or_fetches_anything_anywhere(lab: Lab, page: Page) -> None:
    (lab.root / "corpus.json").write_text(json.dumps([*CORPUS.values(), LONG_LINE[450_000:-450_000]]))
    cells = [CONNECT, EVENTS, STREAMED, COMPARED, MARKDOWN, PAGE, DEFINED]
    write_notebook(lab.root / "hostile.ipynb", cells)
    recorder = AttackRecorder(page)
    page.open("hostile.ipynb")
    page.run_all()
    assert [output for output in page.outputs() if output["output_type"] == "error"] == []
    assert page.execution_counts() == list(range(1, len(cells) + 1))

    # Live: in a few widgets, in many, side by side, and as Markdown.
    names = list(CORPUS)
    for number in range(3):
        panel = page.panel.nth(number)
        panel.scroll_into_view_if_needed()
        panel.get_by_text(f"top.hit('{names[0]}')").first.wait_for()
        check_harmless(page, recorder, f".jp-OutputArea .ab-chat .ab-log >> nth={number}")
        page.screenshot(f"hostile-{number}")
    markdown = ".jp-Notebook .jp-CodeCell >> nth=4 >> .jp-RenderedMarkdown"
    page.page.locator(markdown).scroll_into_view_if_needed()
    check_harmless(page, recorder, markdown)
    defined = page.page.locator(".jp-OutputArea .defined mjx-container")
    defined.scroll_into_view_if_needed()
    assert (defined.count(), defined.locator("a").count()) == (1, 0)
    alpha = page.page.locator(".jp-OutputArea .alpha mjx-container mjx-math")
    # MathJax writes a character as a class: mjx-c1D6FC is the italic alpha.
    assert alpha.locator("mjx-c").evaluate_all("signs => signs.map(each => each.className)") == [
        "mjx-c1D6FC TEX-I",
        "mjx-c2B",
        "mjx-c31",
    ]
    words = page.panel.nth(0).locator(".ab-log").text_content() or ""  # JupyterLab draws only what is near the view
    for text in ("<script>top.hit('script')</script>", "<iframe srcdoc='<script>", "⟨U+202E⟩"):
        assert text in words

    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    transcripts = page.page.locator(".jp-OutputArea .ab-static")
    expect(transcripts).to_have_count(3)  # JupyterLab may draw an output again
    expect(page.panel).to_have_count(0)
    for number in range(3):
        page.show_cell(1 + number)  # JupyterLab hides what is far from the view
        transcripts.nth(number).scroll_into_view_if_needed()
        check_harmless(page, recorder, f".jp-OutputArea .ab-static >> nth={number}")
    assert lab.secret() not in (lab.root / "hostile.ipynb").read_text()

    check_exported_page(page, recorder, lab.root / "exported.html")


def check_harmless(page: Page, recorder: AttackRecorder, where: str) -> None:
    """Check that a part of the page has nothing dangerous, and that nothing runs in it.

    Hovers over and clicks all elements.
    """
    region = page.page.locator(where)
    region.evaluate("root => root.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert region.evaluate(DANGEROUS) == []
    for link in region.locator("a[href]").evaluate_all(
        "links => links.map(each => [each.href, each.rel, each.target])"
    ):
        assert re.match("https?:|mailto:", link[0]), link
        if "ab-" in where:
            assert "noopener" in link[1], link
    assert region.evaluate(PRESS) >= 0
    recorder.check_that_nothing_ran()


def check_exported_page(page: Page, recorder: AttackRecorder, path: Path) -> None:
    """Check the exported page with its security policy, and without it.

    Without it, only the sanitizer protects the page.
    """
    html = path.read_text()
    policy = re.search(r"<meta http-equiv[^>]*>", html)
    assert policy is not None
    for text in (html, html.replace(policy[0], "")):
        path.write_text(text)
        page.page.goto(path.as_uri())
        page.page.locator(".ab-static").wait_for()
        check_harmless(page, recorder, ".ab-static")
    page.outside_requests = [url for url in page.outside_requests if url != path.as_uri()]
