"""The difference between two configurations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.chat.prompt_lab.diff import PromptDiff

from .lab_platform import LabPlatform, make_lab


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
    with pytest.raises(ValueError, match=r"variants are kind, now; versions are 1\.0\.0"):
        lab.diff("2.0.0", "kind")


def test_versions_that_share_a_number_are_not_mixed_up() -> None:
    platform = LabPlatform()
    versions = platform.history[platform.find("acme~writer")]
    versions.append(platform.version(system_prompt="Be kind.", version_number="1.0.0"))
    lab = make_lab(platform)
    with pytest.raises(ValueError, match=versions[0]["id"]) as error:
        lab.diff("1.0.0", "1.0.0")
    assert versions[1]["id"] in str(error.value)
    assert lab.diff(versions[0]["id"], versions[1]["id"]).new.startswith("Be kind.")


def test_what_a_variant_leaves_open_is_as_its_agent_has_it() -> None:
    platform = LabPlatform()
    platform.add_agent("acme~other", system_prompt="of the other")
    lab = make_lab(platform)
    lab.add_variant("now")
    lab.add_variant("brief", "Be brief.")
    lab.add_variant("cold", temperature=0)
    lab.add_variant("hot", temperature=1.5, mode="one-shot")
    lab.add_variant("other", agent="acme~other")
    assert lab.diff("now", "brief").pieces == [("-", "original"), ("+", "Be brief.")]
    assert lab.diff("cold", "hot").text.splitlines()[2:] == [
        "@@ -1,2 +1,2 @@",
        " original",
        "-temperature: 0",
        "+temperature: 1.5",
    ]
    assert lab.diff("now", "1.0.0").text == ""
    assert lab.diff("now", "other").new.startswith("of the other")
    platform.hides_prompts = True
    with pytest.raises(ValueError, match="is not known"):
        lab.diff("now", "brief")
