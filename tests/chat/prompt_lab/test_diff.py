"""The difference between two prompts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.chat.prompt_lab.diff import PromptDiff

from .lab_platform import make_lab


@given(st.text(alphabet="ab .!\n", max_size=60), st.text(alphabet="ab .!\n", max_size=60))
def test_a_diff_contains_both_prompts(old: str, new: str) -> None:
    pieces = PromptDiff(old, new).pieces
    assert "".join(text for mark, text in pieces if mark != "-") == new
    before = "".join(text for mark, text in pieces if mark != "+")
    # Space around unchanged sentences is the new prompt's.
    assert before.split() == old.split() or re.sub(r"\s", "", before) == re.sub(r"\s", "", old)


def test_the_html_is_safe_and_readable_by_screen_readers() -> None:
    diff = PromptDiff("Be <b>kind</b>.", "Be <img src=x onerror=alert(1)>.", "1.0.0", "mine")
    html = diff.to_html()
    assert "<b>" not in html
    assert "<img" not in html
    assert "[removed: " in html
    assert "[added: " in html
    assert repr(PromptDiff("x", "x", "a", "b")) == "No difference between a and b."
    assert repr(diff).splitlines()[:2] == ["--- 1.0.0", "+++ mine"]


def test_versions_and_variants_can_be_compared() -> None:
    lab = make_lab()
    lab.add_variant("kind", "original, and kind")
    assert lab.diff("1.0.0", "kind").pieces == [(" ", "original"), ("+", ", and kind")]
    assert lab.diff(lab.versions()[0], lab.variants["kind"]).new_label == "kind"
    lab.add_variant("now")
    with pytest.raises(ValueError, match="is not known"):
        lab.diff("now", "kind")
    with pytest.raises(ValueError, match=r"variants are kind, now; versions are 1\.0\.0"):
        lab.diff("2.0.0", "kind")
